"""One ε for score and feature together: how much of it the score may spend.

Less noise on the score selects better devices, but leaves less of ε for their features. `split` gives the network for
one share. To find the best share, vary it (and `threshold` or `num_selected`) on validation objects: `airpool sweep`.
"""

from dataclasses import replace

import numpy as np

from airpool._support.search import smallest_number
from airpool.account.calibration import calibrate, calibrate_claim
from airpool.account.guarantee import score_epsilon
from airpool.network import Network, scheme_rules, scored
from airpool.privacy import gaussian
from airpool.schemes.scores import score_range

# The least noise on the score that is tried, in units of its range: practically none.
_LEAST = 2.0**-20


def split(network: Network, *, epsilon: float, share: float, live: bool = False) -> Network:
    """The network with the score's noise and the features' noise set so that together they meet ε, never above it.

    share: of the budget for the score, above 0 and below 1. The larger, the less noise on the score.
        Scheme 2.2: of μ², the squared distance of all Gaussians released (Δu/σ₀ for the score): (Δu/σ₀)² = share·μ²(ε).
        Scheme 2.1: of ε itself: σ₀ is the smallest noise from which on, up to any larger one, the decision to transmit
        would cost at most share·ε if the features cost nothing, at the same δ and number of inferences.
    live: as in `calibrate`.
    The features' noise is then scaled by one factor, as `calibrate` does, to the exact ε of the worst device.

    >>> from airpool import Network, guarantee, Ranking
    >>> net = Network.uniform(num_devices=12, scheme=Ranking(score_bound=1.0, num_selected=8))
    >>> ours = split(net, epsilon=2.0, share=0.1)
    >>> round(ours.scheme.score_noise_std, 3), round(ours.devices.noise_std[0], 4), guarantee(ours).worst <= 2
    (6.305, 0.0619, True)
    """
    rules, name = scheme_rules(network.scheme), network.scheme.name
    if not rules.scored:
        raise ValueError(f"scheme.name={name!r} has no score: split is for 2.1 and 2.2, calibrate for {name}")
    if not 0 < share < 1:
        raise ValueError(f"share={share} must be > 0 and < 1: both score and feature need some of ε")
    if not 0 < epsilon < np.inf:
        raise ValueError(f"epsilon={epsilon} must be > 0 and finite")
    if rules.ranked:
        std = _gaussian_noise(network, epsilon) / float(np.sqrt(share))
    else:
        std = _decision_noise(network, epsilon * share)
    return calibrate(_with(network, std), epsilon=epsilon, live=live)


def calibrated(
    network: Network,
    *,
    epsilon: float,
    accounting: str = "exact",
    share: float | None = None,
    colluding: tuple[int, ...] = (),
    live: bool = False,
) -> Network:
    """The network with its noise scaled to this ε of the worst device.

    accounting: exact, or theorem1 (the paper's claim). share: Schemes 2.1 and 2.2, the scores' share of ε, which sets
    their noise too. colluding, live: as in `guarantee`; the paper's claim has no live noise.
    """
    if accounting not in ("exact", "theorem1"):
        raise ValueError(f"accounting={accounting!r} must be exact or theorem1")
    if live and accounting == "theorem1":
        raise ValueError("accounting='theorem1' must be exact where live=True: the paper's claim has no live noise")
    if share is not None:
        return split(network, epsilon=epsilon, share=share, live=live)
    if accounting == "theorem1":
        return calibrate_claim(network, epsilon=epsilon)
    return calibrate(network, epsilon=epsilon, colluding=colluding, live=live)


def _with(network: Network, std: float) -> Network:
    return replace(network, scheme=replace(scored(network.scheme), score_noise_std=std))


def _gaussian_noise(network: Network, epsilon: float) -> float:
    """σ₀ = Δu √T/μ(ε), T inferences: at this noise the score may be published; with a margin for rounding."""
    low, high = score_range(scored(network.scheme))
    once = float(gaussian.noise_multiplier(epsilon, network.delta))
    return (high - low) * once * float(np.sqrt(network.uses)) * (1 + 1e-12)


def _decision_noise(network: Network, target: float) -> float:
    """The smallest σ₀ from which on the decision to transmit costs at most `target`.

    The decision is a function of the noisy score, so the noise at which the score itself may be published suffices.
    The search goes down from there to the first noise that is too small: the cost falls with σ₀ where η lies within
    the range of scores, but first rises where η lies outside, since without noise all devices decide alike.
    """
    unit = score_range(scored(network.scheme)).high

    def excess(std: float) -> float:
        return float(np.max(score_epsilon(_with(network, std)))) - target

    good = _gaussian_noise(network, target)
    while good > unit * _LEAST and excess(good / 2) <= 0:
        good /= 2
    if good <= unit * _LEAST:
        return good
    return smallest_number(excess, good / 2, good)
