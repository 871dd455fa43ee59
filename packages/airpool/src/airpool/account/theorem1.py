"""The paper's Theorem 1, as printed: the ε that it claims for each device (docs/theory/guarantee.md §5).

Not a valid bound. The exact counterpart is privacy.device.epsilon.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, checked, failure_probability, not_negative
from airpool._support.search import smallest_number
from airpool.network import Network, require_network

Tail = Literal["quadratic", "appendix", "statement", "bernstein"]


@dataclass(frozen=True)
class PaperClaim:
    """The claim: ε_k ≤ `epsilon`[k] at δ̃_k = `delta`[k]. reason: why ε is inf, where it is."""

    epsilon: Floats
    delta: Floats
    tail: Tail
    slack: float
    reason: str | None = None


def gaussian_epsilon(mu: ArrayLike, delta: ArrayLike, *, beyond_proof: bool = False) -> Floats:
    """The textbook ε = μ √(2 ln(1.25/δ)), which the paper uses throughout.

    Holds for: ε ≤ 1 only (Dwork & Roth, Theorem A.1). Above 1 it is first loose, then wrong (from 8.42 on at
    δ = 1e-5), so a larger ε is refused unless `beyond_proof` asks for the bare formula.
    """
    result = not_negative("mu", mu) * np.sqrt(2 * np.log(1.25 / failure_probability(delta)))
    if not beyond_proof and np.any(result > 1):
        raise ValueError(
            f"the classical formula is proved for ε <= 1 only and gives {np.max(result):g}; "
            "use privacy.gaussian.epsilon, or beyond_proof=True for the bare formula"
        )
    return result


def slack(noise_var: Floats, participation: Floats, delta_prime: float, tail: Tail) -> float:
    """t with Pr(|Σ(τ−p)σ²| ≥ t) ≤ δ′, in the paper's two printed forms and two mended ones.

    With L = ln(2/δ′), M = max σ², V = Σ p(1−p)σ⁴:
        statement  ML/2 + (L/2)√(M/9 + 4V/L)          Theorem 1; units do not match, M/9 should be M²/9
        appendix   (L/2)(M/3 + √(M/9 + 4V/L))         the same error
        quadratic  (L/2)(M/3 + √(M²/9 + 4V/L))        the root of the paper's own inequality
        bernstein  LM/3 + √(L²M²/9 + 2LV)             Bernstein's inequality with its factor 2, which the paper lacks
    """
    L = np.log(2 / delta_prime)
    M = float(np.max(noise_var))
    V = float(np.sum(participation * (1 - participation) * noise_var**2))
    forms: dict[Tail, float] = {
        "quadratic": L / 2 * (M / 3 + np.sqrt(M**2 / 9 + 4 * V / L)),
        "appendix": L / 2 * (M / 3 + np.sqrt(M / 9 + 4 * V / L)),
        "statement": M * L / 2 + L / 2 * np.sqrt(M / 9 + 4 * V / L),
        "bernstein": L * M / 3 + np.sqrt(L**2 * M**2 / 9 + 2 * L * V),
    }
    if tail not in forms:
        raise ValueError(f"tail={tail!r} must be one of {', '.join(forms)}")
    return float(forms[tail])


def claim(
    *,
    weight: ArrayLike,
    clip_norm: ArrayLike,
    noise_std: ArrayLike,
    participation: ArrayLike,
    delta: float,
    delta_prime: float | None = None,
    tail: Tail = "quadratic",
) -> PaperClaim:
    """ε_k = ln(1 + p_k/(1−δ′)·(e^{c_k/√(μ̄−t)} − 1)),  δ̃_k = δ′ + p_k δ/(1−δ′),  c_k = γ w_k C_k √(2 ln(1.25/δ)).

    Differs from the truth: it takes the mean noise less a tail bound; its Gaussian formula is proved for ε ≤ 1 only;
    device k's silence counts as amplification although the noise reveals removal; γ is in c_k but not in the noise.
    weight: γ w_k, since γ scales nothing else.
    Edge cases: μ̄ ≤ t → ε = inf, with the reason. δ′ defaults to δ, as in the paper's experiments.

    >>> from math import sqrt
    >>> paper = dict(weight=[1 / 12] * 12, clip_norm=100, noise_std=sqrt(0.1), participation=0.9, delta=1e-5)
    >>> float(claim(**paper).epsilon[0].round(6))
    59.397442
    >>> claim(**paper, tail="statement").reason
    'undefined: the mean noise 1.080 is below the slack t = 1.349'
    """
    delta_prime = delta if delta_prime is None else delta_prime
    w, C, std, p = np.broadcast_arrays(
        *(np.asarray(x, dtype=np.float64) for x in (weight, clip_norm, noise_std, participation))
    )
    mean = float(np.sum(p * std**2))
    t = slack(std**2, p, delta_prime, tail)
    claimed_delta = delta_prime + p * delta / (1 - delta_prime)
    if mean <= t:
        reason = f"undefined: the mean noise {mean:.3f} is below the slack t = {t:.3f}"
        return PaperClaim(np.full(w.shape, np.inf), claimed_delta, tail, t, reason)
    exponent = gaussian_epsilon(w * C / np.sqrt(mean - t), delta, beyond_proof=True)
    factor = p / (1 - delta_prime)
    with np.errstate(divide="ignore"):
        # ln(1 + f(e^x − 1)) = x + ln(f + (1 − f)e^−x), without overflow.
        epsilon = np.maximum(exponent + np.log(factor + (1 - factor) * np.exp(-exponent)), 0.0)
    return PaperClaim(np.where(p == 0, 0.0, epsilon), claimed_delta, tail, t)


def paper_claim(network: Network, delta: float = 1e-5, *, tail: Tail = "quadratic") -> PaperClaim:
    """The claim on this network, for one inference. tail: a form of its slack."""
    d, gamma = network.devices, network.channel.gamma
    factor = 1.0 if gamma == "auto" else gamma
    return claim(
        weight=[factor * weight for weight in d.column("weight")],
        clip_norm=d.column("clip_norm"),
        noise_std=d.column("noise_std"),
        participation=d.column("participation"),
        delta=delta,
        tail=tail,
    )


def calibrate(network: Network, *, epsilon: float, delta: float = 1e-5) -> Network:
    """The network with its noise scaled until the paper's Theorem 1 claims `epsilon` for its worst device.

    For comparison with the paper's tables, which are made this way. Not a valid bound: `guarantee` has the exact ε.

    >>> net = calibrate(Network.uniform(num_devices=12, participation=0.9), epsilon=10.0)
    >>> round(net.devices.noise_std[0], 5)
    0.01862
    """
    require_network(network)
    epsilon = float(checked("epsilon", epsilon, allowed="must be > 0 and finite", ok=lambda x: (x > 0) & (x < np.inf)))
    start = np.array(network.devices.column("noise_std"))
    if not np.any(start > 0):
        raise ValueError("noise_std is 0 everywhere: nothing to scale")

    def scaled(log_factor: float) -> Network:
        noise_std = tuple((start * np.exp(log_factor)).tolist())
        return replace(network, devices=replace(network.devices, noise_std=noise_std))

    def beyond(log_factor: float) -> float:
        claimed = float(np.max(paper_claim(scaled(log_factor), delta).epsilon))
        return float(np.log(min(claimed, 1e300) / epsilon))

    found = smallest_number(beyond, -40.0, 40.0)
    if np.isinf(found):
        raise ValueError(f"Theorem 1 claims no ε as small as {epsilon} for this network, whatever the noise")
    return scaled(found)
