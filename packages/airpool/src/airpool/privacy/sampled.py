"""The noise floor where signals arrive along random directions: an adversary with several antennas (howto/radio.md).

Device j is received along a vector v_j of d complex components, one for each antenna. Given all v, the feature of
device k stands in noise of variance R_k beside its own:

    1/R_k = v_k^H (Σ_{j≠k} τ_j a_j v_j v_j^H + extra·I)⁻¹ v_k

Equal devices in Rayleigh channels: a/(a + R_k) has a Beta law. Elsewhere the law is sampled, and enclosed by a
confidence band (empirical Bernstein) that fails with probability _FAILURE over the sample. Proofs:
docs/proofs/privacy.md, "Random directions".
"""

from functools import lru_cache
from typing import Any

import numpy as np

from airpool._support.arrays import Floats, as_floats
from airpool._support.special import xlogy
from airpool.privacy.floor import Floor
from airpool.privacy.law import Arrivals, Law, alike, binomial, in_order, stacked

# Draws, and their number at a time; beyond MOST_DEVICES devices they would take too long.
DRAWS, _CHUNK, MOST_DEVICES = 3 * 2**18, 2**11, 64
# Half as many draws, a quarter or a sixteenth where devices and components are many or draws costly: a wider band.
_MANY, _VERY_MANY = 32, 128
# One draw of this many for the first steps of a search: ε a few per cent larger.
_ROUGHLY = 16
# Width of a cell of ln R, sampled and computed, and the range of cells, in units of the largest device's noise.
_STEP, _FINE_STEP, _LEAST, _MOST = 2.0**-9, 2.0**-13, 1e-6, 1e6
# The largest R, of this share together, count as equally large.
_COMMON = 1e-3
# How often the band does not hold, over the draws; their seed is fixed.
_FAILURE, _SEED = 1e-9, 20_190
# What arithmetic and cut tails may cost.
_ARITHMETIC = 1e-11
# A determinant below this share of its largest possible value counts as 0.
_SINGULAR = 1e-12


def sampled_floor(
    variance: Floats, participation: Floats, arrivals: Arrivals, *, extra: float = 0.0, absent: int = 0
) -> Floor | None:
    """Law of R_k for every device, from below and from above; None where nothing but own noise is counted.

    participation: given that a device is present.
    Holds for: directions, participation and noise that are independent of each other and of the data. Devices that do
    not count (`absent`) are any of equal ones; among heterogeneous ones nothing is claimed.
    """
    unit, count = float(variance.max()), len(variance)
    kinds = in_order(alike(variance, participation, arrivals.of_device.astype(np.float64))[1])
    absent = min(absent, count - 1)
    if arrivals.rayleigh and kinds.max() == 0:
        below, above = _beta(arrivals, count - 1 - absent, float(participation[0]))
        rows = (Law(law.variance * unit, law.mass) for law in (below, above))
        return Floor(*rows, slack=_ARITHMETIC, device=np.arange(count), row=kinds, wide=True)
    if count > MOST_DEVICES or (absent and kinds.max() > 0):
        return None
    # Twelve digits: a factor on all noise, as in a search, changes nothing here.
    ratios = tuple(float(f"{x / unit:.12g}") for x in (*variance, extra))
    columns = (ratios, tuple(participation.tolist()), tuple(kinds.tolist()))
    laws = _laws(arrivals, *columns, absent, _draws(arrivals, count))
    # Logarithms are off by far less than this.
    low, high = (Law(law.variance * unit * (1 + off), law.mass) for law, off in zip(laws, (-1e-11, 1e-11), strict=True))
    return Floor(low, high, slack=0.0, device=np.arange(count), row=kinds, wide=True)


def _draws(arrivals: Arrivals, count: int) -> int:
    size = count * arrivals.draw(1, np.random.default_rng(_SEED)).shape[-1]
    if size > _VERY_MANY:
        draws = DRAWS // (16 if arrivals.costly else 4)
    else:
        draws = DRAWS // (2 if arrivals.costly or size > _MANY else 1)
    return draws // _ROUGHLY if arrivals.rough else draws


@lru_cache(maxsize=32)
def _laws(
    arrivals: Arrivals,
    ratios: tuple[float, ...],
    participation: tuple[float, ...],
    kinds: tuple[int, ...],
    absent: int,
    draws: int,
) -> tuple[Law, Law]:
    *variance, extra = ratios
    lent, p, kind = np.array(variance), np.array(participation), np.array(kinds)
    edge = np.exp(np.arange(np.log(_LEAST), np.log(_MOST), _STEP))
    first, second = (np.zeros((kind.max() + 1, len(edge) + 1)) for _ in range(2))
    rng, d = np.random.default_rng(_SEED), 1
    if absent:  # equal devices: all but the last `absent` count, and are looked at
        lent[len(lent) - absent :] = 0.0
    looked_at = np.arange(len(lent) - absent)
    for _ in range(draws // _CHUNK):
        v = arrivals.draw(_CHUNK, rng)
        on, d = rng.random(v.shape[:2]) < p, v.shape[-1]
        with np.errstate(divide="ignore"):
            log_rest = np.log(around(v, np.where(on, lent, 0.0), extra))
        cell = np.clip(np.floor((log_rest - np.log(_LEAST)) / _STEP) + 1, 0, len(edge)).astype(np.int64)
        cell[~(on & np.any(v != 0, axis=-1))] = len(edge) + 1
        for each in np.unique(kind[looked_at]):
            # X(x), the share of these devices that are received with R below x: sums of X and X² at every edge.
            one = np.sort(cell[:, looked_at[kind[looked_at] == each]], axis=1)
            odd = np.ones(one.shape) * as_floats(np.arange(1.0, 2 * one.shape[1], 2.0))
            for sums, weight in ((first, np.ones(one.shape)), (second, odd)):
                found = np.bincount(one.ravel(), weights=weight.ravel(), minlength=len(edge) + 2)
                sums[each] += found[: len(edge) + 1]
    low: list[tuple[Floats, Floats]] = []
    high: list[tuple[Floats, Floats]] = []
    z = float(np.log(5 * len(edge) * len(kind) / _FAILURE))
    for each in range(len(first)):
        one = int(np.argmax(kind == each))
        members = int(np.sum(kind[looked_at] == each))
        # Leverages a/(a + R) add up to the number of components at most: so few devices have a small R at a time.
        with np.errstate(divide="ignore"):
            largest = np.append(np.minimum(d * (1 + edge / lent[one]) / members, 1.0), 1.0)
        received = float(arrivals.presence[one] * p[one])
        below, above = _band(first[each] / members, second[each] / members**2, largest, draws, z)
        low.append(_law(np.append(0.0, edge), above, received, down=True))
        high.append(_law(np.append(edge, np.inf), below, received, down=False))
    return stacked(low), stacked(high)


@lru_cache(maxsize=32)
def _beta(arrivals: Arrivals, others: int, participation: float) -> tuple[Law, Law]:
    """The law of R/a among equal devices: with n on the air, a/(a + R) is Beta(d, n − d).

    With an aligned component, 1/n + (1 − 1/n)·Beta(d, n − 1 − d). As many components as devices: R = 0.
    """
    from airpool._support.special import betainc

    d, one = arrivals.rayleigh, int(arrivals.aligned)
    edge = np.exp(np.arange(np.log(_LEAST), np.log(_MOST), _FINE_STEP))
    below = np.zeros(len(edge) + 1)
    for m, mass in zip(*binomial(others, participation, tail=_ARITHMETIC), strict=True):
        n = int(m) + 1
        if n <= d + one:
            below += mass
            continue
        complement = edge / (1 + edge) * (n / (n - 1) if one else 1.0)
        below[:-1] += mass * betainc(n - one - d, d, np.minimum(complement, 1.0))
        below[-1] += mass
    low = _law(np.append(0.0, edge), below, 1.0, down=True)
    return stacked([low]), stacked([_law(np.append(edge, np.inf), below, 1.0, down=False)])


def _law(value: Floats, below: Floats, received: float, *, down: bool) -> tuple[Floats, Floats]:
    """Values and masses from Pr(received, R < edge), given that; the largest are equal (`down`) or left out."""
    given = below[:-1] / received if received > 0 else np.ones(len(below) - 1)
    share = np.append(np.clip(given, 0.0, 1.0), 1.0)
    most = value[np.searchsorted(share, share[-2] - _COMMON)]
    mass = np.diff(share, prepend=0.0)
    kept = (mass > 0) & (down | (value <= most)) & np.isfinite(value)
    if not kept.any():  # received so rarely that no draw shows it
        return np.ones(1), np.zeros(1)
    return np.minimum(value, most)[kept], mass[kept]


def around(v: Floats, noise: Floats, extra: float) -> Floats:
    """R of every device, (n, K): from vectors (n, K, d) and the noise of those who transmit, (n, K).

    With g = v^H(Σ a v v^H + extra)⁻¹v over all devices, R = 1/g − a; 0 where the others leave a component free.
    """
    d, adjoint = v.shape[-1], np.conj(v)
    total: Any = np.swapaxes(noise[..., None] * v, 1, 2) @ adjoint + extra * np.eye(d)
    size = np.prod(np.einsum("ndd->nd", total).real, axis=-1)
    singular = ~(np.linalg.det(total).real > _SINGULAR * size)
    total[singular] = np.eye(d)
    inverse: Any = np.linalg.inv(total)  # pyright: ignore[reportUnknownVariableType]
    g = np.einsum("nkd,nkd->nk", adjoint @ inverse, v).real  # pyright: ignore[reportUnknownArgumentType]
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.maximum(1 / g - noise, 0.0)
    return np.where(singular[:, None] | ~np.isfinite(rest), 0.0, rest)


def _band(first: Floats, second: Floats, largest: Floats, draws: int, z: float) -> tuple[Floats, Floats]:
    """Pr(received, R < x) at every edge x, from below and from above, of sums of X and X², X at most `largest`.

    Maurer and Pontil's empirical Bernstein bound, each side of which fails with probability 2e^−z; from above also
    Hoeffding's, which fails with e^−z and is less than half as far away where next to nothing was seen.
    """
    mean, square = np.cumsum(first) / draws, np.cumsum(second) / draws
    spread = np.sqrt(2 * np.maximum(square - mean**2, 0.0) * z / (draws - 1)) + largest * 7 * z / (3 * (draws - 1))
    above = np.minimum(mean + spread, largest * _most_likely(np.minimum(mean / largest, 1.0), z / draws))
    return np.maximum.accumulate(np.maximum(mean - spread, 0.0)), np.minimum.accumulate(above[::-1])[::-1]


def _most_likely(mean: Floats, rate: float) -> Floats:
    """The largest u with kl(mean, u) ≤ rate, rounded up; kl of two coins. For `mean` of n draws in [0, 1], the
    expectation exceeds u with probability e^(−n·rate) at most (Hoeffding 1963, Theorem 1).

    >>> _most_likely(np.array([0.0, 0.5, 1.0]), 1e-3).round(6)
    array([0.001  , 0.52235, 1.     ])
    """
    # kl ≥ (u − mean)²/2u, so this is too large; kl is convex in u, so Newton's steps stay too large.
    u = mean + rate + np.sqrt(rate**2 + 2 * mean * rate)
    inside = u < 1
    m, v = mean[inside], u[inside]
    for _ in range(4):
        excess = xlogy(m, m / v) - (1 - m) * (np.log1p(-v) - np.log1p(-m)) - rate
        v = v - np.maximum(excess, 0.0) * v * (1 - v) / (v - m)
    u[inside] = v * (1 + 1e-9)
    return np.minimum(u, 1.0)
