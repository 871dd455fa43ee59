"""Accuracy without running it: for each object a probability of the right label that is proven, not measured.

Four certificates, each a lower bound (n,) on Pr(right label | object); their means bound the accuracy. From loose to
sharp, as a rule; where noise is strong a ball may hold more than what half-spaces leave, which are counted one by one:

    chebyshev    1 − MSE_i/Δ_i²                          needs the mean square error and a margin; any channel
    ball         Pr(‖error‖ ≤ Δ_i)                       exact law of the error, but all directions count alike
    half_spaces  1 − Σ_j Pr(the server prefers j)        exact law, and the server's own borders
    smoothing    from runs (studies.smoothing)           measured once, then proven for changes of what is heard

Where noise is weak, or two classes share a row, a gap of scores decides between 0 and 1: it counts only beyond what
rounding may have made of it (server.bounded_scores). Otherwise probabilities are good to about 1e-12.

Theorem 2 as printed, one MSE and one margin for all, is paper.theorem2.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtr, ndtr

from airpool.arrays import Floats, not_negative, require_shape
from airpool.network import Coin, Network
from airpool.protocol.link import Radio, radio
from airpool.theory.law import Law
from airpool.theory.lipschitz import lipschitz_constants
from airpool.theory.margin import margin
from airpool.theory.server import Server, affine, bounded_scores, class_labels, gamma, gaps

# Relative error of SciPy's ndtr and of exp in double precision: Cephes states 5.7e-14 at most.
_NORMAL = 2.0**-42


def no_answer(network: Network, link: Radio | None = None) -> float:
    """How often nobody is on the air, so that there is no label.

    Holds for: Scheme 1; by scores it depends on the features.

    >>> round(no_answer(Network.uniform(num_devices=2, participation=0.9)), 4)
    0.01
    """
    if not isinstance(network.scheme, Coin):
        raise ValueError(f"scheme.name={network.scheme.name!r} must be 1: by scores, who is silent depends on features")
    link = radio(network) if link is None else link
    silent = link.outage if network.channel.power_rule == "truncate" else np.zeros(network.devices.count)
    p = np.ones(network.devices.count) if network.cover_noise else np.array(network.devices.column("participation"))
    return float(np.prod(1 - p * (1 - silent)))


def chebyshev(error: ArrayLike, margins: ArrayLike, *, unanswered: float = 0.0) -> Floats:
    """(1 − MSE_i/Δ_i²)₊ of each object, less the probability of no answer.

    error: E‖ẑ_i − x_i‖² (n,), theory.mse with target x_i; margins: lower bounds at the same x_i, ≤ 0 where the server
    errs there.
    Holds for: whatever the mean square error holds for, fading, misalignment and backoff too.

    >>> chebyshev([0.25, 0.25, 0.25], [1.0, 0.4, -1.0])
    array([0.75, 0.  , 0.  ])
    """
    mse, away = not_negative("error", error), np.asarray(margins, dtype=np.float64)
    require_shape("margins", away, mse.shape)
    if not 0 <= unanswered <= 1:
        raise ValueError(f"unanswered={unanswered} must be between 0 and 1")
    # Squared last: a small margin's square may vanish.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lost = np.where(away > 0, (np.sqrt(mse) / away) ** 2, 1.0)
    return np.maximum(1.0 - np.minimum(lost, 1.0) - unanswered, 0.0)


def ball(server: Server, law: Law, latents: ArrayLike, labels: ArrayLike, *, constants: Floats | None = None) -> Floats:
    """Σ over the ways of being heard of Pr(‖noise‖ ≤ margin there): ‖noise‖²/v is χ²_r.

    latents: (n, K, r). constants: as in theory.margin.
    """
    z = law.sent(latents)
    x_error = law.rounding(z)
    out = np.zeros(len(z))
    for way, (chance, variance) in enumerate(zip(law.probability, law.variance, strict=True)):
        away = margin(server, law.means(z, way), labels, constants=constants, x_error=x_error)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inside = np.where(away > 0, (away / np.sqrt(variance)) ** 2, 0.0)
        out += chance * chdtr(server.dimension, inside)
    return np.minimum(out, 1.0)  # the chances add up to one but for rounding


def half_spaces(
    server: Server, law: Law, latents: ArrayLike, labels: ArrayLike, *, constants: Floats | None = None
) -> Floats:
    """1 − Σ_j Pr(s_j ≥ s_l) of each object, each term exact for a linear server and bounded for one hidden layer.

    Linear: s_l − s_j is Gaussian, so Pr = Φ(−(s_l − s_j)/(√v ‖a_l − a_j‖)).
    One hidden layer of ReLUs: f = s_l − s_j has a mean M under the noise that is known in closed form, and slope at
    most L. By Gaussian isoperimetry f is distributed like an increasing function of one standard normal with slope at
    most L√v, so that Pr(f ≤ 0) ≤ Φ(q), where q solves φ(q) − q Φ(−q) = M/(L√v): none of this mean and slope is worse.

    latents: (n, K, r). constants: L (C, C) of a hidden layer; lipschitz.lipschitz_constants if left out (seconds for
    2,048 units). A linear server has its own, exact: a larger one would not be on the safe side where the server errs.
    Edge cases: no noise → 1 or 0, what the server says. More than two layers → an error.
    """
    z = law.sent(latents)
    own = class_labels(labels, count=len(z), num_classes=server.num_classes)
    linear = len(server.layers) == 1
    L = (lipschitz_constants(server) if constants is None or linear else constants)[own]
    out = np.zeros(len(z))
    x_error = law.rounding(z)
    for way, (chance, variance) in enumerate(zip(law.probability, law.variance, strict=True)):
        expected, error = _expected_scores(server, law.means(z, way), float(variance) ** 0.5, x_error=x_error)
        mean = gaps(expected, own, error)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            away = mean / (L * np.sqrt(variance))
        away = np.where(np.isnan(away), np.where(mean > 0, np.inf, -np.inf), away)
        wrong = ndtr(-away) if linear else _worst(away)
        out += chance * np.maximum(1 - np.sum(wrong, axis=1), 0.0)
    return np.minimum(out, 1.0)  # the chances add up to one but for rounding


def ceiling(server: Server, law: Law, latents: ArrayLike, labels: ArrayLike) -> Floats:
    """1 − max_j Pr(s_j > s_l) of each object for a linear server: with half_spaces it brackets the truth.

    Ways that the law leaves out count as right, and so do gaps that rounding may have made.
    """
    if len(server.layers) != 1:
        raise ValueError(f"the server has {len(server.layers)} layers, must be linear")
    z = law.sent(latents)
    own = class_labels(labels, count=len(z), num_classes=server.num_classes)
    L = lipschitz_constants(server)[own]
    out = np.full(len(z), law.left_out)
    x_error = law.rounding(z)
    for way, (chance, variance) in enumerate(zip(law.probability, law.variance, strict=True)):
        expected, error = bounded_scores(server, law.means(z, way), x_error=x_error)
        mean = gaps(expected, own, -error)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            away = mean / (L * np.sqrt(variance))
        away = np.where(np.isnan(away), np.where(mean < 0, -np.inf, np.inf), away)
        out += chance * (1 - np.max(ndtr(-away), axis=1))
    return np.minimum(out, 1.0)  # the chances add up to one but for rounding


def _expected_scores(server: Server, x: Floats, noise_std: float, *, x_error: ArrayLike = 0.0) -> tuple[Floats, Floats]:
    """E[scores(x + n)], n ~ N(0, noise_std² I), and how far they may be off at most by rounding and by `x_error`.

    m(a, s) = E[ReLU(a + u)] = a Φ(a/s) + s φ(a/s), u ~ N(0, s²), has slopes Φ ≤ 1 in a and φ ≤ .4 in s: an error of a
    comes through as it is, the rounding of s less than half. That of a/s cancels but for its square.
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
    """Φ(q) with φ(q) − q Φ(−q) = away, from above; 1 where away ≤ 0."""
    z = np.clip(away, 1e-300, 1e3)
    q = -z
    # Newton's steps on a convex function from its left: they never overshoot, and a hair more makes the end safe.
    for _ in range(30):
        q = q + (_excess(q) - z) / ndtr(-q)
    q = q + 1e-9 * (1 + np.abs(q))
    settled = _excess(q) <= z
    return np.where((away > 0) & settled, ndtr(q), 1.0)


def _excess(q: Floats) -> Floats:
    """E[(Y − q)₊] of a standard normal Y."""
    return np.exp(-q * q / 2) / np.sqrt(2 * np.pi) - q * ndtr(-q)
