"""The link of a network: fading, γ, outage, and signal and noise level of the estimate.

All of it is public and independent of the data. It is computed once for a network (`link_of`) and passed on.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, probability
from airpool._support.arrays import checked as require
from airpool.network import Network, NetworkError, require_one_slot
from airpool.radio.fading import Fading, cdf, quantile, require_unchanged
from airpool.radio.laws import Checked
from airpool.radio.power import Transmitters, threshold

if TYPE_CHECKING:
    from airpool.radio.moments import Moments


# A γ at which no power ever limits a device.
ALWAYS_STRONG = 1e-9
# Largest γ: no upper limit exists where devices send almost nothing, and its square must not overflow.
_LARGEST_GAMMA = 1e60


@dataclass(frozen=True, eq=False)
class Link:
    """Fading, transmit power, alignment and outage of a network.

    outage: probability, per device, that its power is too low to arrive aligned (under `paper`, over its noise too).
    """

    fading: Fading
    transmitters: Transmitters
    gamma: float
    outage: Floats


@lru_cache(maxsize=64)
def link_of(network: Network) -> Link:
    """The link of a network, computed once; γ is found here where the network says "auto".

    Edge cases: under truncate, a device that can never be aligned at a fixed γ → an error that names it. Secure access
    has no radio: γ = 1, no fading, no limit of power, no outage.
    """
    channel, d = network.channel, network.devices
    loss_db = d.column("path_loss_db")
    fading = Fading(
        channel.fading,
        k_factor_db=channel.k_factor_db,
        path_loss_db=loss_db if len(set(loss_db)) > 1 else loss_db[0],
        # Without fading the beam is the antenna to which all devices align.
        antennas=1 if channel.fading == "none" else channel.antennas,
        devices=d.count if channel.antennas > 1 and channel.fading != "none" else 1,
    )
    transmitters = Transmitters.of(
        weight=d.column("weight"),
        clip_norm=d.column("clip_norm"),
        noise_std=d.column("noise_std"),
        power_dbm=d.column("power_dbm"),
        dimension=network.coordinates,
    )
    if not channel.rules.radio:
        unlimited = replace(transmitters, power_max=np.full(d.count, np.inf))
        return Link(Fading("none"), unlimited, 1.0, np.zeros(d.count))
    csi, gamma = channel.csi_error_std, channel.gamma
    if not np.any(transmitters.amplitude > 0):
        return Link(fading, transmitters, 1.0, np.zeros(d.count))
    if gamma == "auto":
        gamma = auto_gamma(fading, transmitters, outage=channel.outage, csi_error_std=csi)
    if channel.power_rule == "paper":
        outage = _limited_by_paper(fading, transmitters, gamma, csi)
    else:
        outage = outage_probability(fading, transmitters, gamma=gamma, csi_error_std=csi)
    if fading.checked is not None:
        _require_checked(fading, fading.checked, transmitters, outage)
    if channel.power_rule == "truncate" and np.any(outage >= 1):
        weak = int(np.argmax(outage))
        raise NetworkError(
            f"channel.gamma={gamma:g} is beyond the power of device {weak}: with power_dbm="
            f"{d.column('power_dbm')[weak]:g} it reaches {transmitters.reach[weak]:.4g}; lower gamma or write "
            'gamma = "auto"'
        )
    return Link(fading, transmitters, gamma, outage)


def outage_probability(
    fading: Fading, transmitters: Transmitters, *, gamma: float, csi_error_std: float = 0.0
) -> Floats:
    """Pr(ĥ_k < t_k) of each device (K,), t_k = γ√(w²C² + rσ²)(1+margin)/√P: truncate is silent there.

    Under backoff, the probability of being power-limited; under paper approximately so.
    Edge cases: a device that sends nothing → 0; fading none → 0 or 1.
    """
    fading.path_gains(transmitters.num_devices)  # an error where path losses are those of other devices
    return cdf(fading, threshold(transmitters, gamma=gamma), csi_error_std=csi_error_std)


def auto_gamma(
    fading: Fading, transmitters: Transmitters, *, outage: float = 0.01, csi_error_std: float = 0.0
) -> float:
    """The largest γ ≤ 1e60 with an outage of at most `outage` for every device: min_k reach_k·a_k·F⁻¹(outage).

    Rounded down: outage_probability at the result is never above `outage`.
    """
    require("outage", outage, "must be > 0 and < 1", ok=lambda x: (x > 0) & (x < 1))
    fading.path_gains(transmitters.num_devices)
    gamma = float(np.min(transmitters.reach * quantile(fading, outage, csi_error_std=csi_error_std)))
    if gamma == np.inf:
        raise ValueError('gamma="auto" must have a device that sends something: weight or noise_std > 0')
    gamma = min(gamma, _LARGEST_GAMMA)
    step = np.finfo(np.float64).epsneg
    while np.max(outage_probability(fading, transmitters, gamma=gamma, csi_error_std=csi_error_std)) > outage:
        gamma, step = gamma * (1 - step), 2 * step
    return float(gamma)


def _require_checked(fading: Fading, checked: Checked, transmitters: Transmitters, outage: Floats) -> None:
    """Raises NetworkError where ε would rest on a plug-in's law in a tail that was not checked, or that has changed."""
    require_unchanged(fading)
    if checked.least <= _RARE:
        return
    rare = np.flatnonzero((outage < checked.least) & (transmitters.amplitude > 0))
    if not rare.size:
        return
    means = (
        f"its sample could be compared with its cdf (by {checked.draws:,} draws); leave `sample` out, and gains are "
        "drawn from quantile"
        if checked.draws
        else "its cdf and quantile agree to six digits; compute both without cancellation (np.expm1, np.log1p)"
    )
    raise NetworkError(
        f"fading {fading.model!r}: device {rare[0]} has an outage of {outage[rare[0]]:.3g}, and ε depends on it, but "
        f"only down to {checked.least:.3g} {means}; or set channel.outage or channel.gamma so that the outage is larger"
    )


def alignment(network: Network, link: Link) -> "Moments":
    """E[g] and E[g²] of each device that takes part, over the fading; an outage counts as g = 0."""
    from airpool.radio.moments import alignment_moments

    channel = network.channel
    return alignment_moments(
        link.fading,
        link.transmitters,
        gamma=link.gamma,
        rule=channel.power_rule,
        csi_error_std=channel.csi_error_std,
        phase_error_std=channel.phase_error_std,
    )


def noise_gain(network: Network, moments: "Moments") -> Floats:
    """E of the factor on a device's noise variance in one coordinate of ẑ: errors bring in both components."""
    return moments.mean_square if network.channel.known else moments.power


def receivers(network: Network, link: Link, on_the_air: Floats) -> float:
    """Average number of times the receiver's noise counts: once for the sum, or once per device received separately.

    on_the_air: probability that each device sends, whether or not its power then suffices.
    """
    # Whoever is too weak is silent under truncate alone.
    silent = link.outage if network.channel.power_rule == "truncate" else 0.0
    return float(network.channel.rules.receptions(on_the_air * (1 - silent)))


# A noise norm beyond this tail probability counts as limited, so that rare outcomes are never missed.
_RARE = 1e-20


def _limited_by_paper(fading: Fading, transmitters: Transmitters, gamma: float, csi_error_std: float) -> Floats:
    """Pr(ĥ < γ√(w²C² + ‖n‖²)/√P) of each device, over fading, CSI error and noise; an upper bound where ĥ varies."""
    from airpool._support.special import chdtrc, chdtri

    r, std = transmitters.dimension, transmitters.noise_std
    if fading.model == "none" and csi_error_std == 0:
        spare = fading.path_gain**2 * transmitters.power_max / gamma**2 - transmitters.feature_norm**2
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            room = np.where(std > 0, spare / std**2, np.where(spare >= 0, np.inf, 0.0))
        return np.where(spare > 0, chdtrc(r, np.maximum(room, 0.0)), np.where(spare == 0, std > 0, 1.0))
    longest = np.sqrt(chdtri(r, _RARE)) * std
    t = threshold(transmitters, gamma=gamma, rule="paper", norm=longest)
    return cdf(fading, t, csi_error_std=csi_error_std) + _RARE


@dataclass(frozen=True)
class Level:
    """Strength of signal and noise in the estimate ẑ, from public numbers alone: a server knows it in advance.

    signal: expected norm of ẑ without its noise, if all features point the same way at their clip norms. noise_std:
    standard deviation of its noise, per coordinate.

    >>> Level(signal=0.9, noise_std=0.2).of_mean(4)
    Level(signal=0.9, noise_std=0.1)
    """

    signal: float
    noise_std: float

    def of_mean(self, slots: int) -> "Level":
        """The level of the mean over n slots: noise σ/√n."""
        return Level(self.signal, self.noise_std / slots**0.5)


def level(network: Network, link: Link | None = None, *, participation: ArrayLike | None = None) -> Level:
    """The public level of ẑ = Σ τ g (w z + n) + m/γ, which a server knows in advance.

        signal = Σ_k p_k E[g_k] w_k C_k,   noise² = Σ_k p_k E[g_k²] σ_k² + σ_m²/γ²      (under errors: E[q_k²|ρ_k|²])

    participation: for Scheme 2.1, and 2.2 where it is not k̃/K: a public p, (K,) or one number, from calibration data
        (`schemes.scores.expected_participation`), never from the inference at hand.
    Holds for: truncate and backoff; about for paper, where g depends on the noise. Under cover noise every
    noise counts, under orthogonal access σ_m²/γ² once for each device that is received.

    >>> net = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, participation=0.9, dimension=40)
    >>> round(level(net).signal, 6), round(level(net).noise_std, 6)
    (0.9, 0.164317)
    """
    require_one_slot(network, "the level is that of one slot")
    link = link_of(network) if link is None else link
    d, channel = network.devices, network.channel
    moments = alignment(network, link)
    p = _participation(network, participation)
    w, c, std = (np.array(d.column(name)) for name in ("weight", "clip_norm", "noise_std"))
    on_the_air = np.ones_like(p) if network.cover_noise else p
    noise_var = np.sum(on_the_air * noise_gain(network, moments) * std**2)
    noise_var += receivers(network, link, on_the_air) * (channel.noise_std / link.gamma) ** 2
    return Level(float(np.sum(p * moments.mean * w * c)), float(np.sqrt(noise_var)))


def _participation(network: Network, given: ArrayLike | None) -> Floats:
    """Public participation probability of each device."""
    d, scheme, name = network.devices, network.scheme, network.scheme.name
    if scheme.independent and given is not None:
        raise ValueError(f"participation is for Schemes 2.1 and 2.2; in Scheme {name} it is the network's own")
    if given is None:
        given = scheme.expected_participation(network)
    if given is None:
        raise ValueError(
            f"scheme {name} needs participation, how often each device is expected to transmit: "
            "schemes.scores.expected_participation(scores of calibration objects, network.scheme)"
        )
    p = probability("participation", given)
    if p.shape not in ((), (d.count,)):
        raise ValueError(f"participation has shape {p.shape}, must be one number or ({d.count},)")
    return np.broadcast_to(p, (d.count,))


# Of the search for unbiased weights; a few suffice unless power is nearly exhausted.
_ROUNDS = 200


def unbiased(network: Network) -> Network:
    """The same network with weights w/(p·E[g]), so that ẑ is Σ w z on average; the sensitivity grows with them.

    Larger weights change who is too weak, and so E[g]: a fixed point, found in a few rounds.
    Holds for: truncate and backoff, where the alignment does not depend on the noise.
    """
    d = network.devices
    w, p = (np.array(d.column(name)) for name in ("weight", "participation"))
    if p.min() <= 0:
        raise ValueError(f"participation of device {int(p.argmin())} is 0: it cannot be made unbiased")
    changed, before = network, w
    for _ in range(_ROUNDS):
        weight = w / (p * alignment(changed, link_of(changed)).mean)
        changed = replace(network, devices=replace(d, weight=tuple(weight.tolist())))
        if np.allclose(weight, before, rtol=1e-12, atol=0.0):
            return changed
        before = weight
    gamma = network.channel.gamma
    raise ValueError(f'channel.gamma={gamma} leaves no power for unbiased weights; lower it, or write gamma = "auto"')
