"""Ranking server of Scheme 2.2: it receives noisy scores, and nothing else, and selects the k̃ lowest (Algorithm 3).

    𝒦̃ = the k̃ devices of smallest ũ_k = u_k + v_k,  v_k ~ N(0, σ_k²)

`selected` is the server's decision. `participation` is how often each device is selected, exactly; `union_bounds`
bounds it without an integral. The paper's bounds are paper.formulas.theorem3; the leakage is
privacy.leakage.by_ranking.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, final

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike, NDArray

from airpool._support.arrays import Array, Floats, finite, not_negative, require
from airpool._support.rules import MANY, NetworkError, PerDevice
from airpool.schemes.scores import Scored


@final
@dataclass(frozen=True)
class Ranking(Scored):
    """Scheme 2.2: the devices with the lowest noisy scores transmit, chosen by a ranking server.

    num_selected: k̃, how many. The others: as of `Threshold`.

    >>> Ranking(num_selected=6).name
    '2.2'
    """

    num_selected: Annotated[int, MANY] = 11
    name: ClassVar[str] = "2.2"
    assumption: ClassVar[str] = "All noisy scores are visible; ε assumes the selection that leaves the least noise."
    needs_ranking_server: ClassVar[bool] = True
    title: ClassVar[str] = "the surest"
    about: ClassVar[str] = "A ranking server chooses the devices with the best noisy scores."

    def participation(self, network: Any, /) -> PerDevice:
        return (self.num_selected / network.devices.count,) * network.devices.count

    def participation_by_score(self, scores: Floats) -> Floats:
        return participation(scores, score_noise_std=self.score_noise_std, num_selected=self.num_selected)

    def select(self, noisy_scores: Array) -> Array:
        return selected(noisy_scores, self.num_selected)

    def most_senders(self, network: Any) -> int:
        return self.num_selected

    def check(self, network: Any) -> None:
        if (number := self.num_selected) > network.devices.count:
            raise NetworkError(f"scheme.num_selected={number} must not exceed the {network.devices.count} devices")

    @property
    def words(self) -> str:
        return f"Scheme 2.2, k̃ = {self.num_selected}"

    def why_silent(self, participation: float, noisy_score: float | None) -> str:
        score = self._its_score(noisy_score)
        return f"It was not selected: {score} is not among the {self.num_selected} lowest."

    @classmethod
    def unused(cls) -> dict[str, str]:
        return super().unused() | {"threshold": "scheme 2.1 has a threshold; 2.2 chooses a number of devices"}


def selected(noisy_scores: Array, num_selected: int) -> Array:
    """The devices that transmit, (..., K) of bool: `num_selected` of each row, those of the lowest noisy scores.

    Of equal scores the device of the lower index goes first, which leaks nothing: the server knows both.

    >>> selected(np.array([0.9, 0.2, 0.5, 0.2, 0.5]), 3)
    array([False,  True,  True,  True, False])
    """
    xp = array_namespace(noisy_scores)
    _check_number(num_selected, int(noisy_scores.shape[-1]))
    require("noisy_scores", noisy_scores, "must be finite: no device sends anything else", ok=xp.isfinite)
    order = xp.argsort(noisy_scores, axis=-1, stable=True)
    return xp.argsort(order, axis=-1) < num_selected


def participation(scores: ArrayLike, *, score_noise_std: ArrayLike, num_selected: int) -> Floats:
    """Probability that each device is among the lowest, from bounded scores (..., K), one row for each object.

        p_k = ∫ φ_k(x) Pr(#{j ≠ k : ũ_j < x} ≤ k̃ − 1) dx      good to about 1e-10; they sum to k̃

    score_noise_std: one number, one per device, or the shape of scores. The work is bounded by the number of devices.
    Differs from the paper: its Theorem 3 bounds this, not always on the right side (paper.formulas.theorem3).
    Edge cases: a device without noise sits at one point; equal ones are ranked by index, as the server does.

    >>> u, std = [0.2, 0.35, 0.5, 0.9, 1.4, 2.0], [0.3, 0.3, 0.4, 0.2, 0.5, 0.3]
    >>> participation(u, score_noise_std=std, num_selected=3).round(3)
    array([0.975, 0.936, 0.796, 0.216, 0.076, 0.   ])
    """
    u, std = _checked(scores, score_noise_std, num_selected)
    if num_selected == (num_devices := u.shape[-1]):
        return np.ones_like(u)
    p = np.zeros((u.size // num_devices, num_devices))
    at_a_time = max(1, _CHUNK // (256 * num_devices))
    for start in range(0, len(p), at_a_time):
        some = slice(start, start + at_a_time)
        p[some] = _rows(u.reshape(p.shape)[some], std.reshape(p.shape)[some], num_selected)
    return p.reshape(u.shape)


class SelectionBounds(NamedTuple):
    """Proven ends of every device's participation."""

    lower: Floats
    upper: Floats


def union_bounds(scores: ArrayLike, *, score_noise_std: ArrayLike, num_selected: int) -> SelectionBounds:
    """Bounds without an integral, (..., K) each, cut to [0, 1]. 𝒦 is the true set, of the k̃ lowest scores.

        k ∈ 𝒦:  p_k ≥ 1 − Σ_{j∉𝒦} Φ((u_k − u_j)/√(σ_k² + σ_j²))      a device outside ranked before it
        k ∉ 𝒦:  p_k ≤ Σ_{i∈𝒦} Φ((u_i − u_k)/√(σ_i² + σ_k²))          it ranked before a device inside

    Holds for: any scores and noise; the other side is 1 or 0. Two devices without noise never swap.
    """
    from airpool._support.special import ndtr

    u, std = scaled(*_checked(scores, score_noise_std, num_selected))
    inside = selected(u, num_selected)
    gap, spread = u[..., :, None] - u[..., None, :], np.hypot(std[..., :, None], std[..., None, :])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        later = np.where(spread > 0, ndtr(gap / spread), 0.0)  # Pr(the first of the pair comes after the second)
    passed = np.sum(later * ~inside[..., None, :], axis=-1)
    passing = np.sum(np.swapaxes(later, -1, -2) * inside[..., None, :], axis=-1)
    return SelectionBounds(
        np.where(inside, np.clip(1 - passed, 0, 1), 0.0), np.where(inside, 1.0, np.clip(passing, 0, 1))
    )


def _checked(scores: ArrayLike, score_noise_std: ArrayLike, num_selected: int) -> tuple[Floats, Floats]:
    u, std = finite("scores", scores), not_negative("score_noise_std", score_noise_std)
    if u.ndim == 0:
        raise ValueError(f"scores={u:g} must have one number for each device, (..., K)")
    _check_number(num_selected, u.shape[-1])
    try:
        return u, np.broadcast_to(std, u.shape)
    except ValueError:
        raise ValueError(
            f"score_noise_std has shape {std.shape}, must be one number, or fit scores {u.shape}"
        ) from None


def _check_number(num_selected: int, num_devices: int) -> None:
    if num_selected > num_devices:
        raise ValueError(f"num_selected={num_selected} must not exceed the {num_devices} devices")
    if num_selected < 1:
        raise ValueError(f"num_selected={num_selected} must be >= 1: at least one device has to transmit")


# The integral, of rows (n, K) of scores u and noise σ. Method, error and work are derived in docs/proofs/selection.md.
# Standard deviations beyond which a score is never found: Φ(−8.5) < 1e-17.
_REACH = 8.5
# Gauss-Legendre: points on a panel, and its length in what changes fastest there. Doubling either changes nothing
# above 1e-12 (tests/schemes/test_ranking.py).
_NODES, _PANEL = 16, 1.5
# A distance that is shorter by less than this may be so by rounding alone.
_ALMOST = 1 - 2.0**-50
# The least noise that counts as noise, in units of 2^-500 of the largest score or noise of a row.
_TINY = float(np.finfo(np.float64).tiny)
# Numbers in flight at a time: 32 MB.
_CHUNK = 2**22


def scaled(u: Floats, std: Floats) -> tuple[Floats, Floats]:
    """In units of a power of two for each row, which is exact: no sum overflows and no noise is subnormal."""
    size = np.frexp(np.maximum(np.abs(u), std).max(axis=-1, keepdims=True))[1]
    return np.ldexp(u, 500 - size), np.where(std > 0, np.maximum(np.ldexp(std, 500 - size), _TINY), 0.0)


# A point is a sum of two floats, high + low, along a first axis of two; |low| is at most half the spacing of floats at
# high. Near a score any noise can be resolved, however small beside the score.


def _plus(x: Floats, step: Floats) -> Floats:
    low = x[1] + step
    high = x[0] + low
    rest = high - x[0]
    return np.stack((high, (x[0] - (high - rest)) + (low - rest)))


def _minus(x: Floats, y: Floats) -> Floats:
    return (x[0] - y[0]) + (x[1] - y[1])


def _reaches(u: Floats, std: Floats) -> tuple[Floats, Floats]:
    """Points from and to which each device's noisy score may be found."""
    score = np.stack((u, np.zeros_like(u)))
    return _plus(score, -_REACH * std), _plus(score, _REACH * std)


def _rows(u: Floats, std: Floats, num_selected: int) -> Floats:
    """Of rows (n, K): first who is surely in or out, then the others by quadrature."""
    u, std = scaled(u, std)
    starts, ends = _reaches(u, std)
    rows = np.arange(len(u))
    a, b = (x[:, rows, np.lexsort((x[1], x[0]), axis=1)[:, num_selected - 1]] for x in (starts, ends))
    surely, never = _minus(a[..., None], ends) > 0, _minus(starts, b[..., None]) > 0
    order = np.argsort(np.where(surely, 0, np.where(never, 2, 1)), axis=1, kind="stable")
    first, last = int(surely.sum(axis=1).min()), int((~never).sum(axis=1).max())
    in_doubt = order[:, first:last]
    p = np.zeros_like(u)
    np.put_along_axis(p, order[:, :first], 1.0, axis=1)
    u, std = (np.take_along_axis(x, in_doubt, axis=1) for x in (u, std))
    np.put_along_axis(p, in_doubt, _between(u, std, a, b, num_selected - first), axis=1)
    return p


def _between(u: Floats, std: Floats, a: Floats, b: Floats, num_selected: int) -> Floats:
    """Below `a` a device is selected surely, above `b` never, and between them by quadrature."""
    if num_selected == u.shape[1]:
        return np.ones_like(u)
    a, b = (_saturated(u, std, a, b, num_selected, certain=certain) for certain in (True, False))
    edges = _panels(u, std, a, b)
    lengths = _minus(edges[..., 1:], edges[..., :-1])[..., None]
    at, weight = np.polynomial.legendre.leggauss(_NODES)
    p = _below(a[..., None], u, std)[:, 0]
    step = max(1, _CHUNK // (_NODES * u.size))
    for i in range(0, lengths.shape[1], step):
        left, length = edges[..., :-1][..., i : i + step], lengths[:, i : i + step]
        high, low = np.broadcast_arrays(left[0][..., None], left[1][..., None] + length * (1 + at) / 2)
        x = np.stack((high.reshape(len(u), -1), low.reshape(len(u), -1)))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            density = np.where(std[:, None] > 0, np.exp(-(_standard(x, u, std) ** 2) / 2), 0.0)
            # Within its reach a panel has at most 1.5 of a device's σ, beyond there is no density.
            per_panel = np.where(std[:, None] > 0, np.minimum(length / std[:, None], 2.0), 0.0)
        dt = (per_panel[:, :, None] * weight[:, None]).reshape(density.shape) / np.sqrt(8 * np.pi)
        p = p + np.einsum("nqk,nqk,nqk->nk", dt, density, _seats(_below(x, u, std), num_selected))
    still = std == 0
    if np.any(still):
        p = np.where(still, _at_a_point(u, std, num_selected), p)
    return np.clip(p, 0.0, 1.0)


def _standard(x: Floats, u: Floats, std: Floats) -> Floats:
    """(x − u)/σ at points x (2, n, q) for each device: (n, q, K). Without noise infinite, NaN at the score itself."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return ((x[0][..., None] - u[:, None]) + x[1][..., None]) / std[:, None]


def _below(x: Floats, u: Floats, std: Floats) -> Floats:
    """Pr(ũ_j < x) at points x (2, n, q) for each device: (n, q, K)."""
    from airpool._support.special import ndtr

    t = _standard(x, u, std)
    return np.where(std[:, None] > 0, ndtr(t), t > 0)


def _panels(u: Floats, std: Floats, a: Floats, b: Floats) -> Floats:
    """Edges (2, n, P + 1) from a to b, close enough for all that changes between them; the last ones may repeat."""
    from airpool._support.special import ndtr

    starts, ends = _reaches(u, std)
    rows, order = np.arange(len(u)), np.lexsort((starts[1], starts[0]), axis=1)
    u, std = (np.take_along_axis(x, order, axis=1) for x in (u, std))
    starts, ends = (np.take_along_axis(x, order[None], axis=2) for x in (starts, ends))

    def scales(x: Floats, *, ahead: bool) -> tuple[Floats, Floats]:
        """Just ahead of x or just behind it: the smallest noise, and the width over which the count grows by one."""
        since, until = _minus(x[..., None], starts), _minus(ends, x[..., None])
        near = (std > 0) & ((since >= 0) & (until > 0) if ahead else (since > 0) & (until >= 0))
        t = np.where(near, _standard(x[..., None], u, std)[:, 0], np.inf)
        noise = np.min(np.where(near, std, np.inf), axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            relative = np.where(near, noise[:, None] / std, 0.0)
            density = np.sum(relative * np.exp(-(t**2) / 2), axis=1) / np.sqrt(2 * np.pi)
            passing = np.fmin(np.sqrt(np.sum(ndtr(t) * ndtr(-t), axis=1)) / density, 1.0)
        return noise, noise * passing

    x, edges = a, [a]
    within = _minus(b[..., None], starts) >= 0
    while np.any((left := _minus(b, x)) > 0):
        noise, width = scales(x, ahead=True)
        # No panel reaches into a noise that is narrower than the ones under it, not even by rounding.
        coming = _minus(starts, x[..., None])
        coming = np.where((coming > 0) & (std < noise[:, None]) & within, coming, np.inf)
        nearest = np.argmax(coming < np.inf, axis=1)  # the first: distances may round alike, starts do not
        stop = coming[rows, nearest]
        step = np.minimum(np.minimum(_PANEL * width, stop), left)
        end = np.where(step >= _ALMOST * left, b, _plus(x, step))
        end = np.where(step >= _ALMOST * stop, starts[:, rows, nearest], end)
        short = np.minimum(_PANEL * scales(end, ahead=False)[1], step)
        x = np.where(short < _ALMOST * step, _plus(x, short), end)
        edges.append(x)
    return np.stack(edges, axis=-1)


def _saturated(u: Floats, std: Floats, a: Floats, b: Floats, num_selected: int, *, certain: bool) -> Floats:
    """The largest x found up to which (certain), or the smallest from which (not), the count is beyond doubt.

    By Bernstein's inequality, but for a probability below 1e-15.
    """

    def doubtless(x: Floats) -> NDArray[np.bool_]:
        q = _below(x[..., None], u, std)[:, 0]
        stray = 35 / 3 + np.sqrt((35 / 3) ** 2 + 70 * np.sum(q * (1 - q), axis=1))
        gap = num_selected - np.sum(q, axis=1)
        return (gap if certain else -gap) >= stray

    good, bad = (a, b) if certain else (b, a)
    if not np.any(doubtless(good)):
        return good
    for _ in range(40):
        middle = _plus(good, _minus(bad, good) / 2)
        passed = doubtless(middle)
        good, bad = np.where(passed, middle, good), np.where(passed, bad, middle)
    return good


def _counts(below: Floats) -> Floats:
    """Pr(N ≤ m) for m = 0 to K of how many of independent events (..., K) happen."""
    num_events = below.shape[-1]
    mass = np.zeros((*below.shape[:-1], num_events + 1))
    mass[..., 0] = 1.0
    for j in range(num_events):
        q = below[..., j, None]
        moved = mass[..., : j + 1] * q
        mass[..., : j + 1] -= moved
        mass[..., 1 : j + 2] += moved
    return np.minimum(np.cumsum(mass, axis=-1), 1.0)


def _seats(below: Floats, num_selected: int) -> Floats:
    """Pr(at most k̃ − 1 of the others are below), (n, q, K), from Pr(below) of all of them.

    The recurrence F(m) = (1 − q_k) S(m) + q_k S(m − 1), solved in the direction in which errors never grow.
    """
    count = _counts(below)
    q = below
    up, down = np.zeros_like(q), np.ones_like(q)
    odds = np.minimum(q, 0.5) / (1 - np.minimum(q, 0.5))
    for m in range(num_selected):
        total = count[..., m, None]
        up = total + odds * (total - up)
    odds = (1 - np.maximum(q, 0.5)) / np.maximum(q, 0.5)
    for m in range(q.shape[-1] - 1, num_selected - 1, -1):
        total = count[..., m, None]
        down = total + odds * (total - down)
    return np.clip(np.where(q <= 0.5, up, down), 0.0, 1.0)


def _at_a_point(u: Floats, std: Floats, num_selected: int) -> Floats:
    """Of devices without noise, (n, K): how often at most k̃ − 1 of the others come before them."""
    index = np.arange(u.shape[1])
    before = _below(np.stack((u, np.zeros_like(u))), u, std)
    ties = (std[:, None] == 0) & (u[:, :, None] == u[:, None]) & (index < index[:, None])
    before = np.where(ties, 1.0, before)
    before[:, index, index] = 0.0
    return _counts(before)[..., num_selected - 1]
