"""Cover noise: silent devices still send their noise, so that participation is hidden (docs/theory/guarantee.md §3).

The total variance V is then fixed, and taking part is a coin that only the device sees: the subsampled Gaussian,
exactly and in one dimension whatever r is, with μ = w C g/√V.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.special import log_ndtr

# Below this μ the terms of δ nearly cancel, and their difference is integrated, as for one Gaussian.
_NEAR = 0.02
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


def hidden(
    epsilon: Floats, participation: Floats, divergence: Callable[[Floats, Any], Floats], *, backward: bool
) -> Floats:
    """δ between (1−p)Q + pP and Q, where the coin p is hidden, from the divergence H_ε(P‖Q) (backward: H_ε(Q‖P)).

        forward   p·H(ln(1 + (e^ε − 1)/p))
        backward  c·H(ε + ln(p/c)),  c = 1 − e^ε(1−p), and 0 where c ≤ 0

    divergence: of ε and where these lie among all, a mask.
    Holds for: every ε; where the forward logarithm has no argument (ε ≤ ln(1−p)) the likelihood ratio is above e^ε
    everywhere and δ = 1 − e^ε.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if backward:
            factor = participation - np.expm1(epsilon) * (1 - participation)  # 1 − e^ε(1−p) without cancellation
            # ln(p/c) from p/c − 1, which keeps its digits where ε is tiny.
            inner = epsilon - np.log1p(-np.expm1(epsilon) * (1 - participation) / participation)
            defined = (factor > 0) & (participation > 0)
        else:
            # For large ε without overflow.
            steps = np.log1p(np.expm1(np.minimum(epsilon, 30)) / participation)
            inner, factor = np.where(epsilon > 30, epsilon - np.log(participation), steps), participation
            defined = np.isfinite(inner) & (participation > 0)
    out = np.maximum(-np.expm1(np.minimum(epsilon, 0.0)), 0.0)
    out[defined] = factor[defined] * divergence(inner[defined], defined)
    return out


def delta_replace(epsilon: Floats, mu: Floats, participation: Floats) -> Floats:
    """δ between (1−p)N(0) + pN(+μ) and (1−p)N(0) + pN(−μ): opposite features, the worst pair. Symmetric.

    The best test is y > t, where the likelihood ratio is e^ε: the root of a quadratic (docs/proofs/privacy.md).
    """
    magnitude = np.abs(epsilon)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_b, log_c = np.log1p(-participation), np.log(participation) - mu**2 / 2
        log_step = log_b + magnitude + np.log(-np.expm1(-magnitude))  # ln(b(e^ε − 1))
        root = 0.5 * np.logaddexp(2 * log_step, np.log(4) + 2 * log_c + magnitude)
        t = (np.logaddexp(log_step, root) - np.log(2) - log_c) / mu
        gain = np.log(participation) + log_ndtr(mu - t)
        loss = np.logaddexp(np.log(participation) + magnitude + log_ndtr(-mu - t), log_step + log_ndtr(-t))
        positive = np.where(
            (participation == 0) | (mu == 0), 0.0, np.exp(gain) * -np.expm1(np.minimum(loss - gain, 0.0))
        )
    positive = np.where(np.isinf(mu), participation, positive)
    if np.any(near := (mu > 0) & (mu < _NEAR) & (magnitude < 1) & (participation > 0)):
        near, *given = np.broadcast_arrays(near, magnitude, mu, participation)
        positive[near] = _replace_near(*(x[near] for x in given))
    # Swapping the two changes nothing: δ(−ε) = 1 − e^−ε + e^−ε δ(ε).
    return np.where(epsilon >= 0, positive, -np.expm1(-magnitude) + np.exp(-magnitude) * positive)


def _replace_near(epsilon: Floats, mu: Floats, participation: Floats) -> Floats:
    """The same for a small μ > 0 and 0 ≤ ε < 1, to full precision: no difference of nearly equal numbers.

    δ = p ∫_−μ^μ φ(t − x) dx − (e^ε − 1)·(pΦ(−μ−t) + (1−p)Φ(−t)),   μt = ε/2 + asinh((1−p)/p·e^(μ²/2)·sinh(ε/2))
    """
    with np.errstate(divide="ignore", over="ignore"):
        odds = (1 - participation) / participation * np.exp(mu**2 / 2)
        t = (epsilon / 2 + np.arcsinh(odds * np.sinh(epsilon / 2))) / mu
        between = np.exp(-((t[..., None] - mu[..., None] * _NODES) ** 2) / 2) @ _WEIGHTS * (mu / np.sqrt(2 * np.pi))
        beyond = participation * np.exp(log_ndtr(-mu - t)) + (1 - participation) * np.exp(log_ndtr(-t))
    return np.maximum(participation * between - np.expm1(epsilon) * beyond, 0.0)
