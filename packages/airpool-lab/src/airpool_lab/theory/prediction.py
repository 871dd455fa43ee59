"""A network's mean square error in its parts and proven bounds on its accuracy, without a simulation.

The exact distribution of an estimate given the object is a Gaussian mixture over participation patterns:

    given the pattern, ẑ ~ N(Σ_k s_k w_k z_k, v I),   v = Σ_k t_k σ_k² + receivers·σ_m²/γ²

s_k: device k's feature is received. t_k: its noise is received (t = s without cover noise). Only the most likely
patterns are listed. The others count as errors, so that certificates remain valid. Where devices fade together, who is
too weak is drawn (evaluation.mse), and certificates leave room for that: they fail with probability 1e-9.

A margin is a lower bound on how far an estimate may move before the server's label changes:

    Δ(x) = sup {B : every x′ with ‖x′ − x‖ ≤ B gets the label of x}

With a Lipschitz constant L of s_l − s_j, the difference of two classes' scores, its sign cannot change within a
distance of (s_l − s_j)/L. Upper bounds, by adversarial examples, are studies.attack.

Certificates are proven lower bounds (n,) on Pr(correct label | object); their means bound the accuracy:

    chebyshev    1 − MSE_i/Δ_i²                          needs the mean square error and a margin; any channel
    ball         Pr(‖error‖ ≤ Δ_i)                       exact distribution of the error, worst direction
    half_spaces  1 − Σ_j Pr(s_j ≥ s_l)                   exact distribution, union bound over the other classes
    smoothing    studies.smoothing                       measured, then certified under changes of the input

They are mostly ordered from loose to sharp; under strong noise the union bound can fall below the ball. Differences of
scores count only beyond their rounding error (server.bounded_scores); probabilities are accurate to about 1e-12.
Theorem 2 as printed, with a margin by Frobenius norms and probabilities, is paper.formulas.theorem2.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtr, ndtr

from airpool._support.arrays import Floats, checked, finite, probability, require_shape
from airpool._support.files import jsonable
from airpool._support.progress import automatic
from airpool._support.rounding import shown_below
from airpool._support.search import smallest
from airpool._support.threads import single_thread
from airpool.evaluation import mse
from airpool.evaluation.mse import affine, at_most, drawn, fade_together, gamma, pooled_error, require_coin
from airpool.network import Network, require_one_slot
from airpool.protocol.device import clipped
from airpool.protocol.simulation import check_latents
from airpool.radio.link import Level, Link, level, link_of
from airpool_lab.paper.formulas.theorem2 import accuracy_bound, frobenius_margin
from airpool_lab.theory.server import (
    LayeredServer,
    bounded_scores,
    checked_points,
    class_labels,
    gaps,
    linear_server,
)

if TYPE_CHECKING:
    from torch import Tensor

# Patterns listed by default: all of twelve devices without cover noise.
MOST_PATTERNS = 4096


@dataclass(frozen=True, eq=False)
class Mixture:
    """S participation patterns: who transmits (S, K), probability (S,), and noise variance per coordinate (S,).

    weight, clip_norm: (K,). left_out: probability of the patterns that are not listed. The rest, up to a total of 1,
    is no answer: no device is received. draws: of the gains that the probabilities come from; None if they are exact.
    """

    transmitting: NDArray[np.bool_]
    probability: Floats
    variance: Floats
    weight: Floats
    clip_norm: Floats
    left_out: float
    draws: int | None = None

    def sent(self, latents: ArrayLike) -> Floats:
        """Latents (n, K, r) as transmitted: clipped, and 0 where not finite."""
        z = require_shape("latents", np.asarray(latents, dtype=np.float64), (-1, len(self.weight), -1))
        return clipped(z, self.clip_norm)

    def means(self, latents: Floats, pattern: int) -> Floats:
        """E[ẑ | pattern] (n, r) of latents (n, K, r) from `sent`."""
        return np.einsum("nkr,k->nr", latents, self.transmitting[pattern] * self.weight)


def law(network: Network, *, most: int = MOST_PATTERNS, link: Link | None = None) -> Mixture:
    """The distribution of ẑ, over at most `most` participation patterns.

    Holds for: Scheme 1; truncate (or backoff without power-limited devices); known gains and phases; any access and
        fading. Devices participate independently; they fade independently, or together behind one beam, where
        probabilities are those of a sample (`draws`). Under Sionna's models the outage is that of a large sample.
    Edge cases: p = 1 and no outage → one pattern. No device ever transmits → none.

    >>> law(Network.uniform(num_devices=12, participation=0.9)).probability[0].round(6)
    np.float64(0.28243)
    """
    require_one_slot(network, "the theory is that of one slot")
    if most < 1:
        raise ValueError(f"most={most} must be ≥ 1")
    link = link_of(network) if link is None else link
    require_coin(network)
    channel, d = network.channel, network.devices
    known = not (channel.csi_error_std or channel.phase_error_std)
    together = fade_together(link)
    never_weak = not together and not np.any(link.outage > 0)
    aligned = channel.power_rule == "truncate" or (channel.power_rule == "backoff" and never_weak)
    if not (known and aligned):
        raise ValueError(
            f"channel.power_rule={channel.power_rule!r}, csi_error_std={channel.csi_error_std:g}, phase_error_std="
            f"{channel.phase_error_std:g}: the law is known for truncate with exact gains and phases; the mean square "
            "error (evaluation.mse) covers more"
        )
    p, std, weight, clip = (np.array(d.column(x)) for x in ("participation", "noise_std", "weight", "clip_norm"))
    # States of a device that is strong enough: feature and noise received, noise only, nothing.
    noise_only = (1 - p) * network.cover_noise
    states = np.stack((p, noise_only, 1 - p - noise_only), axis=1)
    draws = None
    if together:
        strong = drawn(network, link).aim > 0
        draws = len(strong)
        chosen, probability = _together(strong, states, most)
    else:
        chosen, probability = _independent(states, link.outage, most)
    left_out = max(0.0, 1.0 - float(np.sum(probability)))
    answered = np.any(chosen < 2, axis=1)
    chosen, probability = chosen[answered], probability[answered]
    receivers = channel.rules.receptions(chosen < 2)
    variance = (chosen < 2) @ std**2 + receivers * (channel.noise_std / link.gamma) ** 2
    return Mixture(chosen == 0, probability, np.asarray(variance, dtype=np.float64), weight, clip, left_out, draws)


_Patterns = tuple[NDArray[np.int8], Floats]


def _independent(states: Floats, outage: Floats, most: int) -> _Patterns:
    """The state of every device (S, K), 2 for nothing, and the probability (S,), of the likeliest patterns."""
    chosen, probability = np.zeros((1, 0), dtype=np.int8), np.ones(1)
    for given_strong, weak in zip(states, outage, strict=True):
        of_device = given_strong * (1 - weak) + weak * np.array([0.0, 0.0, 1.0])
        joint = probability[:, None] * of_device
        row, state = np.nonzero(joint > 0)
        order = np.argsort(-joint[row, state], kind="stable")[:most]
        chosen = np.concatenate((chosen[row[order]], state[order, None].astype(np.int8)), axis=1)
        probability = joint[row[order], state[order]]
    return chosen, probability


def _together(strong: NDArray[np.bool_], states: Floats, most: int) -> _Patterns:
    """The same where the strong devices of every draw are given, (draws, K)."""
    undecided = len(states[0])
    chosen = np.where(strong, undecided, 2).astype(np.int8)
    chosen, probability = _merged(chosen, np.full(len(strong), 1 / len(strong)), most)
    for k, of_device in enumerate(states):
        joint = np.where(chosen[:, [k]] == undecided, of_device, (0.0, 0.0, 1.0)) * probability[:, None]
        row, state = np.nonzero(joint > 0)
        chosen, probability = chosen[row], joint[row, state]
        chosen[:, k] = state
        chosen, probability = _merged(chosen, probability, most)
    return chosen, probability


def _merged(chosen: NDArray[np.int8], probability: Floats, most: int) -> _Patterns:
    """The `most` likeliest patterns, in descending order, equal ones merged."""
    rows, which = np.unique(chosen, axis=0, return_inverse=True)
    total = np.asarray(np.bincount(which.reshape(-1), weights=probability), dtype=np.float64)
    order = np.argsort(-total, kind="stable")[:most]
    return rows[order], total[order]


# Steps towards the tightest constant; six come within 2 % of the limit. The constant of every step is valid.
_ROUNDS = 6
_TINY = float(np.finfo(np.float64).tiny)


def spectral_constants(server: LayeredServer) -> Floats:
    """L (C, C) = ‖a_l − a_j‖·∏ ‖A_ℓ‖₂ over all layers but the last. Exact for a linear server."""
    last = server.matrices[-1]
    difference = last[:, None] - last[None]
    # Scaled so that no square underflows: 0 only for equal rows.
    size = np.max(np.abs(difference), axis=-1, initial=0.0)
    between = size * np.linalg.norm(difference / np.where(size > 0, size, 1.0)[..., None], axis=-1)
    norms = [float(np.linalg.norm(A, 2)) for A in server.matrices[:-1]]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        out = np.maximum(between * float(np.prod(norms)), _TINY)  # a product may underflow
    return np.where((between > 0) & (min(norms, default=1.0) > 0), out, 0.0)


def lipschitz_constants(server: LayeredServer) -> Floats:
    """L (C, C): sharper constants, for servers of at most two layers.

    By weak duality of a semidefinite relaxation (proof: docs/proofs/theory.md). Never above the spectral constant.
    Edge cases: one layer → ‖a_l − a_j‖, exact. More than two → an error; use spectral_constants.
    """
    if len(server.layers) > 2:
        raise ValueError(
            f"the server has {len(server.layers)} layers, at most 2 for this bound; use spectral_constants"
        )
    out = spectral_constants(server)
    if len(server.layers) == 1:
        return out
    A, last = server.matrices
    # Hundreds of small products: threads would slow them down, a hundredfold on a busy machine.
    with single_thread():
        for i in range(server.num_classes):
            for j in range(i):
                out[i, j] = out[j, i] = min(out[i, j], max(_semidefinite(A, last[i] - last[j]), _TINY))
    return out


def _semidefinite(A: Floats, d: Floats) -> float:
    v = np.concatenate(((A.T @ d)[None], d[:, None] * A)) / 2
    v = v[np.any(v != 0, axis=1)]
    if not len(v):
        return 0.0
    size = float(np.max(np.abs(v)))
    v /= size
    X = np.eye(A.shape[1]) / A.shape[1]
    best = np.inf
    for _ in range(_ROUNDS):
        q = np.sqrt(np.maximum(np.sum((v @ X) * v, axis=1), 1e-12 * np.sum(v * v, axis=1)))
        # Any q > 0 is valid; bounded below against underflow.
        q = np.maximum(q, 1e-9 * np.max(q))
        G = v.T @ (v / q[:, None])
        best = min(best, float(np.linalg.eigvalsh(G)[-1]) * float(np.sum(q)))
        values, vectors = np.linalg.eigh(X)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        X = root @ G @ root
        X /= np.trace(X)
    return size * best**0.5


def margin(
    server: LayeredServer, x: ArrayLike, labels: ArrayLike, *, constants: Floats | None = None, x_error: ArrayLike = 0.0
) -> Floats:
    """Lower bounds (n,) on the margins at points x (n, r): min_j (s_l − s_j)/L_lj; negative for a wrong label.

    constants: L (C, C), Lipschitz constants of s_l − s_j; by default spectral_constants;
        lipschitz_constants is sharper for two layers.
    x_error: bound on the error of each coordinate of x.
    Holds for: ReLU and any other activation of slope at most 1. Exact for a linear server, up to rounding.
    Differs from the paper: scores instead of probabilities, operator norms; never below paper.formulas.theorem2.
    Edge cases: two classes with equal rows → inf or −inf, by their biases; a tie, also within rounding, counts as an
        error. Scores that overflow → −inf.

    >>> margin(LayeredServer(((np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros(2)),)), [[0.5, 9.0]], [0])
    array([0.5])
    """
    points, own = checked_points(server, x, labels)
    L = spectral_constants(server) if constants is None else constants
    computed, error = bounded_scores(server, points, x_error=x_error)
    return np.min(quotient(gaps(computed, own, error), L[own]), axis=1)


def quotient(gap: Floats, unit: Floats, *, undecided: float = -np.inf) -> Floats:
    """gap/unit, with 0/0 and NaN as `undecided`."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        out = gap / unit
    return np.where(np.isnan(out), undecided, out)


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

    latents: (n, K, r). constants: as in `margin`.
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

    latents: (n, K, r). constants: L (C, C) of a hidden layer; by default lipschitz_constants (seconds for
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


# Participation patterns that are listed; each takes one pass over all objects.
_PATTERNS, _PATTERNS_LINEAR = 64, 1024
# Least noise per coordinate that the linear server is made for, relative to the signal: the best mean over
# ε = 1, 2, 4 and 10 in five-fold cross-validation on the validation objects (.1 to .3 differ little).
_LEAST_NOISE = 0.1
_PARTS = ("bias", "participation", "privacy_noise", "channel_noise", "total")


@dataclass(frozen=True)
class AccuracyBounds:
    """Lower bounds on the accuracy of one server, from loose to sharp; None where they do not apply.

    ideal: accuracy without noise, all devices received. paper: Theorem 2 as printed, with the Frobenius margin.
    chebyshev, ball, half_spaces: certificates. ceiling: an upper bound, for a linear server.
    margin: median of the proven margins at E[ẑ]; margin_paper: of the lemma's, at the ideal estimate; each over the
    objects with a correct label there.

    >>> AccuracyBounds(0.9, 0.5, 0.1, 0.0, 0.2, ball=0.6, half_spaces=0.8, ceiling=None).best
    0.8
    """

    ideal: float
    margin: float
    margin_paper: float
    paper: float
    chebyshev: float
    ball: float | None
    half_spaces: float | None
    ceiling: float | None

    @property
    def best(self) -> float:
        """The sharpest of the proven lower bounds."""
        return max(self.chebyshev, self.ball or 0.0, self.half_spaces or 0.0)


@dataclass(frozen=True)
class Prediction:
    """Error and accuracy of a network as far as they can be proven, without a simulation. Made by `predict`.

    error: E‖ẑ − Σwz‖² in its parts, averaged over the objects, and `unsure`, what an upper bound adds to the total,
    where devices fade together (evaluation.mse). no_answer: probability that no device transmits, so that there is no
    label; an upper bound where devices fade together. server: bounds of the codec's own server. linear: bounds of the
    optimal linear server, where examples were given. objects: how many were given.

    >>> sharp = AccuracyBounds(0.9, 0.5, 0.1, 0.0, 0.2, ball=0.6, half_spaces=0.8, ceiling=None)
    >>> Prediction(100, 0.0, {"total": 0.3}, sharp, None).to_json()["server"]["half_spaces"]
    0.8
    """

    objects: int
    no_answer: float
    error: dict[str, float]
    server: AccuracyBounds
    linear: AccuracyBounds | None

    def _repr_html_(self) -> str:
        from airpool._support import notebook

        judged = {"the codec's server": self.server, "the optimal linear server": self.linear}
        drawn = [
            notebook.Dot(name, found.best, f"≥ {shown_below(found.best)}", mark=found.ceiling)
            for name, found in judged.items()
            if found is not None
        ]
        parts = [(name.replace("_", " "), f"{value:.4g}") for name, value in self.error.items()]
        title = f"Prediction for {self.objects} objects, without a simulation"
        drawing = notebook.dots(drawn, ends=(0.0, 1.0), axis="accuracy, at least; the bar: at most")
        error = notebook.rows_of(("part of the mean square error", ""), parts)
        return notebook.shown(title, drawing, error, notebook.sentences([f"No answer: {self.no_answer:.4%}."]))

    def to_json(self) -> dict[str, Any]:
        """The prediction as plain data; an infinite margin, of a server with a constant label, is the string "inf"."""
        return jsonable(asdict(self))


@automatic("bounding")
@single_thread()
def predict(
    network: Network,
    latents: ArrayLike,
    labels: ArrayLike,
    *,
    server: Callable[[Level], LayeredServer],
    examples: tuple[ArrayLike, ArrayLike] | None = None,
    constants: Callable[[LayeredServer], Floats] = lipschitz_constants,
    on_step: Callable[[str], None] = lambda _: None,
) -> Prediction:
    """Mean square error and accuracy bounds of a network on latents (n, K, r).

    labels: (n,). server: from the public level of signal and noise to its layers, as a codec's `matrices`.
    examples: latents and labels of *other* objects, for the linear server.
    constants: of a server, how fast its margins fall. on_step: told what is computed.
    Holds for: Scheme 1, and for the given objects; for others up to the sampling error of any test set.

    >>> labels = np.arange(60) % 3
    >>> latents = np.repeat(np.eye(3)[labels][:, None], 4, axis=1)                  # (n, K, r)
    >>> net = Network.uniform(num_devices=4, dimension=3, noise_std=0.05)
    >>> found = predict(net, latents, labels, server=lambda level: LayeredServer([(np.eye(3), np.zeros(3))]))
    >>> round(found.error["total"], 4), found.server.ideal, found.server.best > 0.9
    (0.03, 1.0, True)
    """
    mse.check_network(network)
    given = finite("latents", latents)
    check_latents(given, network)
    z = clipped(given, network.devices.column("clip_norm"))
    link = link_of(network)
    whole = mse.error(z, network, link=link)
    unanswered = no_answer(network, link)
    ideal = mse.pooled(z, network.devices.column("weight"))
    # Margins at E[ẑ], so that the error there has no bias.
    center = mse.expected(z, network, link=link)
    x_error = mse.pooled_error(z, np.array(network.devices.column("weight")))
    around = mse.error(z, network, target=center, link=link)
    spread = around.total + around.unsure

    def bounds(served: LayeredServer, most: int) -> AccuracyBounds:
        y = class_labels(labels, count=len(z), num_classes=served.num_classes)
        at_ideal, error = bounded_scores(served, ideal, x_error=x_error)
        sharp = constants(served) if len(served.layers) <= 2 else None
        away = margin(served, center, y, constants=sharp, x_error=x_error)
        printed = frobenius_margin(at_ideal, y, matrices=served.matrices, error=error)
        sure = printed > 0  # correct beyond rounding
        try:
            exact = law(network, most=most, link=link)
        except ValueError:
            exact = None
        inside = half = top = None
        if exact is not None:
            inside = _mean(ball(served, exact, z, y, constants=sharp))
            half = None if sharp is None else _mean(half_spaces(served, exact, z, y, constants=sharp))
            top = _mean(ceiling(served, exact, z, y)) if len(served.layers) == 1 else None
        return AccuracyBounds(
            ideal=_mean(np.argmax(at_ideal, axis=1) == y),
            margin=float(np.median(away[away > 0])) if np.any(away > 0) else 0.0,
            margin_paper=float(np.median(printed[sure])) if np.any(sure) else 0.0,
            paper=accuracy_bound(
                ideal=_mean(sure),
                mse=_mean(whole.total[sure]) if np.any(sure) else 0.0,
                margin=float(np.min(printed[sure])) if np.any(sure) else 0.0,
            ),
            chebyshev=_mean(chebyshev(spread, away, unanswered=unanswered)),
            ball=inside,
            half_spaces=half,
            ceiling=top,
        )

    on_step("bounds of the codec's server")
    codec = server(level(network, link))
    own = bounds(codec, _PATTERNS)
    linear = None
    if examples is not None:
        on_step("bounds of the linear server")
        linear = bounds(linear_for(network, *examples, num_classes=codec.num_classes), _PATTERNS_LINEAR)
    parts = {name: float(getattr(whole.mean, name)) for name in _PARTS}
    if np.any(whole.unsure > 0):
        parts["unsure"] = float(whole.mean.unsure)
    return Prediction(len(z), unanswered, parts, own, linear)


def _mean(x: Floats | NDArray[np.bool_]) -> float:
    return float(np.mean(x))


@single_thread()
def linear_for(network: Network, latents: ArrayLike, labels: ArrayLike, *, num_classes: int) -> LayeredServer:
    """The optimal linear server for a network, from examples (n, K, r) of other objects.

    Edge case: no device ever transmits → an arbitrary server.
    """
    link = link_of(network)
    expected = mse.expected(finite("latents", latents), network, link=link)
    public = level(network, link)
    noise = max(public.noise_std, _LEAST_NOISE * public.signal) or 1.0
    return linear_server(expected, labels, noise_std=noise, num_classes=num_classes)


def on_tensors(linear: LayeredServer) -> "Callable[[Level], Callable[[Tensor], Tensor]]":
    """A linear server as `evaluate` takes it: on tensors, for the level that it was made for."""
    import torch

    ((matrix, bias),) = linear.layers
    A, b = torch.from_numpy(matrix).float(), torch.from_numpy(bias).float()
    return lambda _: lambda estimate: estimate @ A.T + b
