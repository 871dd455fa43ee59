"""Certificates: proven lower bounds (n,) on Pr(correct label | object). Their means bound the accuracy.

    chebyshev    1 − MSE_i/Δ_i²                          needs the mean square error and a margin; any channel
    ball         Pr(‖error‖ ≤ Δ_i)                       exact distribution of the error, worst direction
    half_spaces  1 − Σ_j Pr(s_j ≥ s_l)                   exact distribution, union bound over the other classes
    smoothing    studies.smoothing                       measured, then certified under changes of the input

They are mostly ordered from loose to sharp; under strong noise the union bound can fall below the ball. Differences of
scores count only beyond their rounding error (server.bounded_scores); probabilities are accurate to about 1e-12. Where
devices fade together (theory.together) they leave room for the draws, and fail with probability 1e-9 over them.
Theorem 2 as printed is paper.formulas.theorem2.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtr, ndtr

from airpool._support.arrays import Floats, checked, probability, require_shape
from airpool._support.search import smallest
from airpool.evaluation.theory.law import Mixture
from airpool.evaluation.theory.lipschitz import lipschitz_constants
from airpool.evaluation.theory.margin import margin, quotient
from airpool.evaluation.theory.mse import pooled_error, require_coin
from airpool.evaluation.theory.server import LayeredServer, affine, bounded_scores, class_labels, gamma, gaps
from airpool.evaluation.theory.together import at_most, drawn, fade_together
from airpool.network import Network, require_one_slot
from airpool.radio.link import Link, link_of

# Relative error of SciPy's ndtr and of exp in double precision: Cephes states 5.7e-14 at most.
_NORMAL = 2.0**-42


def no_answer(network: Network, link: Link | None = None) -> float:
    """Probability that no device transmits, so that there is no label; an upper bound where devices fade together.

    Holds for: Scheme 1.

    >>> round(no_answer(Network.uniform(num_devices=2, participation=0.9)), 4)
    0.01
    """
    require_one_slot(network, "the theory is that of one slot")
    require_coin(network)
    link = link_of(network) if link is None else link
    truncate = network.channel.power_rule == "truncate"
    silent = link.outage if truncate else np.zeros(network.devices.count)
    p = np.ones(network.devices.count) if network.cover_noise else np.array(network.devices.column("participation"))
    if truncate and fade_together(link):
        strong = drawn(network, link).aim > 0
        return float(at_most(np.mean(np.prod(1 - p * strong, axis=1)), len(strong)))
    return float(np.prod(1 - p * (1 - silent)))


def chebyshev(error: ArrayLike, margins: ArrayLike, *, unanswered: float = 0.0) -> Floats:
    """(1 − MSE_i/Δ_i²)₊ of each object, less the probability of no answer.

    error: E‖ẑ_i − x_i‖² (n,), from theory.mse with target x_i. margins: lower bounds at the same x_i, ≤ 0 for a wrong
    label. Holds for: whatever the mean square error holds for, including fading, misalignment and backoff. Where that
    comes from draws, add its `unsure`.

    >>> chebyshev([0.25, 0.25, 0.25], [1.0, 0.4, -1.0])
    array([0.75, 0.  , 0.  ])
    """
    mse, away = checked("error", error, "must be >= 0", ok=lambda x: x >= 0), np.asarray(margins, dtype=np.float64)
    require_shape("margins", away, mse.shape)
    probability("unanswered", unanswered)
    # Squared last: the square of a small margin may underflow.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lost = np.where(away > 0, (np.sqrt(mse) / away) ** 2, 1.0)
    return np.maximum(1.0 - np.minimum(lost, 1.0) - unanswered, 0.0)


def ball(
    server: LayeredServer, law: Mixture, latents: ArrayLike, labels: ArrayLike, *, constants: Floats | None = None
) -> Floats:
    """E over participation patterns of Pr(‖noise‖ ≤ margin), where ‖noise‖²/v is χ²_r.

    latents: (n, K, r). constants: as in theory.margin.
    """

    def inside(means: Floats, x_error: Floats, std: float) -> Floats:
        away = np.maximum(margin(server, means, labels, constants=constants, x_error=x_error), 0.0)
        with np.errstate(over="ignore"):
            return chdtr(server.dimension, quotient(away, np.asarray(std), undecided=0.0) ** 2)

    return _over_patterns(law, latents, inside)


def half_spaces(
    server: LayeredServer, law: Mixture, latents: ArrayLike, labels: ArrayLike, *, constants: Floats | None = None
) -> Floats:
    """1 − Σ_j Pr(s_j ≥ s_l) of each object; each term exact for a linear server, bounded for one hidden layer.

    Linear: Φ(−(s_l − s_j)/(√v ‖a_l − a_j‖)). One hidden layer of ReLUs: Φ(q), where q solves φ(q) − q Φ(−q) = M/(L√v)
    for the mean M and the Lipschitz constant L of s_l − s_j (proof: docs/proofs/theory.md).

    latents: (n, K, r). constants: L (C, C) of a hidden layer; by default lipschitz.lipschitz_constants (seconds for
    2,048 units). Ignored for a linear server, whose exact constants are used: a larger one would not be conservative
    for a wrong label.
    Edge cases: no noise → 1 or 0, by the server's label. More than two layers → an error.
    """
    own = class_labels(labels, count=len(np.asarray(latents)), num_classes=server.num_classes)
    linear = len(server.layers) == 1
    L = (lipschitz_constants(server) if constants is None or linear else constants)[own]

    def correct(means: Floats, x_error: Floats, std: float) -> Floats:
        expected, error = _expected_scores(server, means, std, x_error=x_error)
        away = quotient(gaps(expected, own, error), L * std)
        return np.maximum(1 - np.sum(ndtr(-away) if linear else _worst(away), axis=1), 0.0)

    return _over_patterns(law, latents, correct)


def ceiling(server: LayeredServer, law: Mixture, latents: ArrayLike, labels: ArrayLike) -> Floats:
    """Upper bound 1 − max_j Pr(s_j > s_l) of each object, for a linear server.

    Patterns that the law leaves out, and differences of scores within their rounding error, count as correct.
    """
    if len(server.layers) != 1:
        raise ValueError(f"the server has {len(server.layers)} layers, must be linear")
    own = class_labels(labels, count=len(np.asarray(latents)), num_classes=server.num_classes)
    L = lipschitz_constants(server)[own]

    def correct(means: Floats, x_error: Floats, std: float) -> Floats:
        expected, error = bounded_scores(server, means, x_error=x_error)
        return 1 - np.max(ndtr(-quotient(gaps(expected, own, -error), L * std, undecided=np.inf)), axis=1)

    right = np.minimum(law.left_out + _mean_over_patterns(law, latents, correct), 1.0)
    return right if law.draws is None else at_most(right, law.draws)


def _over_patterns(law: Mixture, latents: ArrayLike, chance: Callable[[Floats, Floats, float], Floats]) -> Floats:
    """A lower bound on E[chance] (n,), which is the mean where the law is exact."""
    right = _mean_over_patterns(law, latents, chance)
    return right if law.draws is None else 1 - at_most(1 - right, law.draws)


def _mean_over_patterns(law: Mixture, latents: ArrayLike, chance: Callable[[Floats, Floats, float], Floats]) -> Floats:
    """Σ_patterns probability · chance(means, their rounding error, noise std), (n,)."""
    z = law.sent(latents)
    out, x_error = np.zeros(len(z)), pooled_error(z, law.weight)
    for pattern, (share, variance) in enumerate(zip(law.probability, law.variance, strict=True)):
        out += share * chance(law.means(z, pattern), x_error, float(variance) ** 0.5)
    return np.minimum(out, 1.0)  # the probabilities add up to 1 up to rounding


def _expected_scores(
    server: LayeredServer, x: Floats, noise_std: float, *, x_error: ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    """E[scores(x + n)], n ~ N(0, noise_std² I), and a bound on their error from rounding and from `x_error`.

    By E[ReLU(a + u)] = a Φ(a/s) + s φ(a/s), u ~ N(0, s²) (proof of the error: docs/proofs/theory.md).
    """
    *hidden, last = server.layers
    if not hidden:
        return bounded_scores(server, x, x_error=x_error)
    if len(hidden) > 1:
        raise ValueError(f"the server has {len(server.layers)} layers, at most 2 for this certificate; use ball")
    ((A, b),) = hidden
    a, a_error = affine(A, b, x, np.asarray(x_error, dtype=np.float64))
    s = noise_std * np.linalg.norm(A, axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = np.clip(np.where(s > 0, a / s, np.inf * np.sign(a)), -40.0, 40.0)
    above, spread = a * ndtr(t), s * np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
    mean = np.where(s > 0, above + spread, np.maximum(a, 0.0))
    error = a_error + _NORMAL * (np.abs(above) + spread) + gamma(A.shape[1] + 4) * s
    return affine(*last, mean, error)


def _worst(away: Floats) -> Floats:
    """Φ(q) with φ(q) − q Φ(−q) = away, rounded up; 1 where away ≤ 0."""

    def excess(q: Floats, z: Floats) -> Floats:
        return np.exp(-q * q / 2) / np.sqrt(2 * np.pi) - q * ndtr(-q) - z

    z = np.clip(away, 1e-300, 1e3)
    q = smallest(excess, -z, np.sqrt(2 * np.maximum(np.log(0.4 / z), 0.0)), z)
    # A margin for the rounding of the excess itself.
    return np.where(away > 0, ndtr(q + 1e-9 * (1 + np.abs(q))), 1.0)
