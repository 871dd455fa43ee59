"""Scheme 2.2: a ranking server hears noisy scores, and nothing else, and names the k̃ lowest (the paper's Algorithm 3).

    𝒦̃ = the k̃ devices of smallest ũ_k = u_k + v_k,  v_k ~ N(0, σ_k²)

First the server's role, `selected`; then how often it names whom: `participation`, exactly, and `union_bounds`, without
an integral. The paper's own bounds are paper.theorem3, what it all leaks is privacy.leakage's `ranking_game`.
"""

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike, NDArray

from airpool.wireless.arrays import Array, Floats, finite, not_negative, require

# Beyond so many standard deviations a score is never found: Φ(−8.5) < 1e-17.
_REACH = 8.5
# Gauss-Legendre: points on a panel, and its length in what changes fastest there. Doubling either changes nothing
# above 1e-12 (tests/test_ranking.py).
_NODES, _PANEL = 16, 1.5
# Numbers in flight at a time: 32 MB.
_CHUNK = 2**22


def selected(noisy_scores: Array, num_selected: int) -> Array:
    """Who transmits, (..., K) of bool: exactly `num_selected` of each row, those of the lowest noisy scores.

    Of equal scores the device of the lower index goes first. Equal scores hardly occur where there is noise, and the
    rule looks at nothing but what the server hears anyway, so it leaks nothing.

    >>> selected(np.array([0.9, 0.2, 0.5, 0.2, 0.5]), 3)
    array([False,  True,  True,  True, False])
    """
    xp = array_namespace(noisy_scores)
    _check_number(num_selected, int(noisy_scores.shape[-1]))
    require("noisy_scores", noisy_scores, "must be finite: no device sends anything else", ok=xp.isfinite)
    order = xp.argsort(noisy_scores, axis=-1, stable=True)
    return xp.argsort(order, axis=-1) < num_selected


def participation(scores: ArrayLike, *, score_noise_std: ArrayLike, num_selected: int) -> Floats:
    """How often each device is among the lowest, from bounded scores (..., K), one row for each object.

        p_k = ∫ φ_k(x) Pr(#{j ≠ k : ũ_j < x} ≤ k̃ − 1) dx

    The count is Poisson-binomial. Quadrature on panels as short as the sharpest change under them, good to about 1e-10;
    they sum to k̃.
    score_noise_std: one number, one per device, or the shape of scores.
    Differs from the paper: its Theorem 3 bounds this, not always on the right side (paper.theorem3).
    Edge cases: a device without noise sits at one point; equal ones are ranked by index, as the server does.

    >>> u, std = [0.2, 0.35, 0.5, 0.9, 1.4, 2.0], [0.3, 0.3, 0.4, 0.2, 0.5, 0.3]
    >>> participation(u, score_noise_std=std, num_selected=3).round(3)
    array([0.975, 0.936, 0.796, 0.216, 0.076, 0.   ])
    """
    u, std = _checked(scores, score_noise_std, num_selected)
    num_devices = u.shape[-1]
    if num_selected == num_devices:
        return np.ones_like(u)
    u_rows, std_rows = u.reshape(-1, num_devices), std.reshape(-1, num_devices)
    at_a_time = max(1, _CHUNK // (256 * num_devices))
    pieces = [
        _participation(u_rows[start : start + at_a_time], std_rows[start : start + at_a_time], num_selected)
        for start in range(0, len(u_rows), at_a_time)
    ]
    return np.concatenate(pieces).reshape(u.shape) if pieces else np.zeros_like(u)


class Bounds(NamedTuple):
    """Proven ends of every device's participation."""

    lower: Floats
    upper: Floats


def union_bounds(scores: ArrayLike, *, score_noise_std: ArrayLike, num_selected: int) -> Bounds:
    """Bounds without an integral, (..., K) each, cut to [0, 1]. 𝒦 is the true set, of the k̃ lowest scores.

        k ∈ 𝒦:  p_k ≥ 1 − Σ_{j∉𝒦} Φ((u_k − u_j)/√(σ_k² + σ_j²))      somebody outside came before it
        k ∉ 𝒦:  p_k ≤ Σ_{i∈𝒦} Φ((u_i − u_k)/√(σ_i² + σ_k²))          it came before somebody inside

    Holds for: any scores and noise; the other side is 1 or 0. These stand where the paper's Theorem 3 fails.
    Edge cases: two devices without noise never swap.

    >>> low, high = union_bounds([0.0, 0.5, 1.5], score_noise_std=0.3, num_selected=2)
    >>> low.round(4), high.round(4)
    (array([0.9998, 0.9908, 0.    ]), array([1.    , 1.    , 0.0094]))
    """
    from scipy.special import ndtr

    u, std = _checked(scores, score_noise_std, num_selected)
    inside = selected(u, num_selected)
    gap, spread = u[..., :, None] - u[..., None, :], np.hypot(std[..., :, None], std[..., None, :])
    with np.errstate(divide="ignore", invalid="ignore"):
        later = np.where(spread > 0, ndtr(gap / spread), 0.0)  # Pr(the first of the pair comes after the second)
    passed = np.sum(later * ~inside[..., None, :], axis=-1)
    passing = np.sum(np.swapaxes(later, -1, -2) * inside[..., None, :], axis=-1)
    return Bounds(np.where(inside, np.clip(1 - passed, 0, 1), 0.0), np.where(inside, 1.0, np.clip(passing, 0, 1)))


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
        raise ValueError(f"num_selected={num_selected} must be >= 1: somebody has to transmit")


def _participation(u: Floats, std: Floats, num_selected: int) -> Floats:
    """Of rows (n, K): below `a` a device is selected surely, above `b` never, and between them by quadrature."""
    start, end = np.min(u - _REACH * std, axis=1), np.max(u + _REACH * std, axis=1)
    a = _saturated(u, std, start, end, num_selected, certain=True)
    b = _saturated(u, std, start, end, num_selected, certain=False)
    edges = _panels(u, std, a, b)
    at, weight = np.polynomial.legendre.leggauss(_NODES)
    middle, half = (edges[:, 1:] + edges[:, :-1]) / 2, np.diff(edges, axis=1) / 2
    x = (middle[..., None] + half[..., None] * at).reshape(len(u), -1)
    dx = (half[..., None] * weight).reshape(len(u), -1)
    p = _below(a[:, None], u, std)[:, 0]
    step = max(1, _CHUNK // (len(u) * (u.shape[1] + 1)))
    for i in range(0, x.shape[1], step):
        some = x[:, i : i + step]
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (some[..., None] - u[:, None]) / std[:, None]
            density = np.where(std[:, None] > 0, np.exp(-(t**2) / 2) / (np.sqrt(2 * np.pi) * std[:, None]), 0.0)
        p = p + np.einsum("nq,nqk,nqk->nk", dx[:, i : i + step], density, _seats(_below(some, u, std), num_selected))
    still = std == 0
    if np.any(still):
        p = np.where(still, _at_a_point(u, std, num_selected), p)
    return np.clip(p, 0.0, 1.0)


def _below(x: Floats, u: Floats, std: Floats) -> Floats:
    """Pr(ũ_j < x) at points x (n, q) for each device: (n, q, K)."""
    from scipy.special import ndtr

    gap = x[..., None] - u[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(std[:, None] > 0, ndtr(gap / std[:, None]), gap > 0)


def _panels(u: Floats, std: Floats, a: Floats, b: Floats) -> Floats:
    """Edges (n, P + 1) from a to b, close enough for everything that changes between them; the last ones may repeat."""
    starts, ends = u - _REACH * std, u + _REACH * std

    def scale(x: Floats) -> Floats:
        """The smallest noise at x, or the width over which the count passes one more device, if that is smaller."""
        near = (std > 0) & (starts <= x[:, None]) & (x[:, None] < ends)
        with np.errstate(divide="ignore", invalid="ignore"):
            density = np.where(near, np.exp(-(((x[:, None] - u) / std) ** 2) / 2) / (np.sqrt(2 * np.pi) * std), 0.0)
            q = _below(x[:, None], u, std)[:, 0]
            width = np.sqrt(np.sum(q * (1 - q), axis=1)) / np.sum(density, axis=1)
        return np.fmin(np.min(np.where(near, std, np.inf), axis=1), np.where(width > 0, width, np.inf))

    x = a
    edges = [x]
    while np.any(x < b):
        here = scale(x)
        # No panel reaches into a noise that is narrower than itself.
        ahead = np.where((starts > x[:, None]) & (std < here[:, None]), starts, np.inf).min(axis=1)
        reach = np.minimum(np.minimum(x + _PANEL * here, ahead), b)
        x = np.minimum(reach, x + _PANEL * np.minimum(here, scale(reach)))
        # Where rounding would not let it move on, the panel is too short to matter.
        x = np.minimum(np.maximum(x, np.nextafter(edges[-1], np.inf)), b)
        edges.append(x)
    return np.stack(edges, axis=1)


def _saturated(u: Floats, std: Floats, start: Floats, end: Floats, num_selected: int, *, certain: bool) -> Floats:
    """The largest x found up to which (certain), or the smallest from which (not), the count is beyond doubt.

    Bernstein: a Poisson-binomial count strays from its mean by t with probability ≤ exp(−t²/(2(var + t/3))) < 1e-15.
    """

    def doubtless(x: Floats) -> NDArray[np.bool_]:
        q = _below(x[:, None], u, std)[:, 0]
        stray = 35 / 3 + np.sqrt((35 / 3) ** 2 + 70 * np.sum(q * (1 - q), axis=1))
        gap = num_selected - np.sum(q, axis=1)
        return (gap if certain else -gap) >= stray

    good, bad = (start, end) if certain else (end, start)
    if not np.any(doubtless(good)):
        return good
    good, bad = good.copy(), bad.copy()
    for _ in range(40):
        middle = (good + bad) / 2
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

    With F the law of the count of all, and S that without device k, F(m) = (1 − q_k) S(m) + q_k S(m − 1). Solved
    upwards where q_k ≤ ½ and downwards where not, so that errors never grow.
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
    num_devices = u.shape[1]
    index = np.arange(num_devices)
    before = _below(u, u, std)
    ties = (std[:, None] == 0) & (u[:, :, None] == u[:, None]) & (index < index[:, None])
    before = np.where(ties, 1.0, before)
    before[:, index, index] = 0.0
    step = max(1, _CHUNK // (len(u) * (num_devices + 1)))
    pieces = [_counts(before[:, i : i + step])[..., num_selected - 1] for i in range(0, num_devices, step)]
    return np.concatenate(pieces, axis=1)
