"""Probability that a device is among the k̃ lowest noisy scores, by quadrature: the law behind `ranking.participation`.

    p_k = ∫ φ_k(x) Pr(#{j ≠ k : ũ_j < x} ≤ k̃ − 1) dx

Rows (n, K) of scores u and noise σ. Method, error and work are derived in docs/proofs/selection.md.
"""

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats

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


def participation(u: Floats, std: Floats, num_selected: int) -> Floats:
    """p of each device, of the shape of scores and noise, (..., K)."""
    num_devices = u.shape[-1]
    if num_selected == num_devices:
        return np.ones_like(u)
    p = np.zeros((u.size // num_devices, num_devices))
    at_a_time = max(1, _CHUNK // (256 * num_devices))
    for start in range(0, len(p), at_a_time):
        some = slice(start, start + at_a_time)
        p[some] = _rows(u.reshape(p.shape)[some], std.reshape(p.shape)[some], num_selected)
    return p.reshape(u.shape)


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
