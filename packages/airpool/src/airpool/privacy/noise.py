"""Live noise: a discrete Gaussian on a public grid, from the operating system's entropy (docs/theory/guarantee.md §9).

σ fixes a step h, a power of two with 2^19 ≤ σ/h < 2^20. The clipped feature is rounded to u ∈ h·Z^r (`to_grid`), and
the noise is n = h·(aX + bY) with X, Y ~ N_Z(0, 2^22) (discrete_gaussian.py) and public integers a, b.

Theorem (docs/proofs/privacy.md, "Live noise"): against N(0, σ_k² I_r), which is what the rest of airpool accounts for,

    δ(ε) ≤ δ_M(ε) + (1 + e^ε)·K·r·T·2^−186

for K devices and T inferences, when the adversary observes (a) what each device sends, (b) aligned sums of it, or (c)
any linear map of it plus a receiver noise of at least 2^−17 times the privacy noise. Removal and credit for receiver
noise need (c).
"""

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, checked, not_negative
from airpool.privacy.discrete_gaussian import SPREAD, Entropy, combination

# Total variation distance per device, coordinate and inference: step 4 of the proof.
ERROR = 2.0**-186
# Theorem, (c): the least receiver noise, relative to the privacy noise it comes with.
RECEIVER_NOISE_RATIO = 2.0**-17
LARGEST_STD_RATIO = 1e5

_STEPS_PER_STD = 2**20
_SMOOTHING = 3
_COST_SHARE = 2.0**20


@dataclass(frozen=True)
class Grid:
    """Grid of the noise of one σ: multiples of h = `step`, as h·(aX + bY) with (a, b) = `coefficients`."""

    step: float
    coefficients: tuple[int, int]

    @property
    def sampled_std(self) -> float:
        """σ̂, the standard deviation that is really drawn: above σ by less than 3 parts in 10,000."""
        return self.step * SPREAD * math.hypot(*self.coefficients)


def live_noise(noise_std: float, size: int | tuple[int, ...]) -> Floats:
    """Fresh noise from the operating system, multiples of the step of `grid_of(noise_std)`; cannot be seeded.

    noise_std: the σ that may be accounted for.
    Holds for: the theorem above. No state is kept between calls, so forked processes are independent.

    >>> noise = live_noise(0.05, 64)
    >>> noise.shape, bool(np.all(noise % grid_of(0.05).step == 0))
    ((64,), True)
    """
    return noise_from(os.urandom, noise_std, size)


def noise_from(entropy: Entropy, noise_std: float, size: int | tuple[int, ...]) -> Floats:
    """The same from given entropy. A seeded generator's (`rng.bytes`) gives no privacy."""
    grid = grid_of(noise_std)
    shape = size if isinstance(size, tuple) else (size,)
    drawn = combination(*grid.coefficients, math.prod(shape), entropy).astype(np.float64)
    return drawn.reshape(shape) * grid.step


def grid_of(noise_std: float) -> Grid:
    """The grid on which a device with this σ sends: public, and in exact arithmetic, so the same everywhere.

    >>> grid = grid_of(1.0)
    >>> grid.step == 2**-19, grid.sampled_std
    (True, 1.0000...)
    """
    # Wider than any use, and narrow enough that a step is never subnormal nor a sum infinite.
    std = checked(
        "noise_std",
        noise_std,
        allowed="must be > 0 and finite (2^-900 to 2^900)",
        ok=lambda x: (x >= 2.0**-900) & (x <= 2.0**900),
    )
    if std.ndim:
        raise ValueError(f"noise_std={noise_std!r} must be one number")
    return _grid(float(std))


@lru_cache(maxsize=1024)
def _grid(std: float) -> Grid:
    step = math.ldexp(1 / _STEPS_PER_STD, math.frexp(std)[1])
    least = math.ceil((Fraction(std / step) ** 2 + _SMOOTHING**2) / SPREAD**2)
    pairs = ((1 + math.isqrt(max(least - b * b, 1) - 1), b) for b in range(math.isqrt(least) + 1))
    return Grid(step, min((p for p in pairs if math.gcd(*p) == 1), key=lambda p: p[0] ** 2 + p[1] ** 2))


@np.errstate(all="ignore")
def to_grid(values: ArrayLike, step: float, limit: float) -> Floats:
    """Values rounded towards zero to multiples of `step`, so that no norm grows.

    limit: the largest norm that they may have, a public number; the grid must not be finer than float64 can hold.
    Holds for: finite values. Noise of the same step adds to them without rounding.

    >>> to_grid([0.6, -0.8], 0.25, 1.0)
    array([ 0.5 , -0.75])
    """
    largest = float(not_negative("limit", limit))
    if not step > 0 or math.frexp(step)[0] != 0.5 or not largest / step <= 2.0**52:
        raise ValueError(f"step={step!r} must be a power of two, and at least {largest:g} times 2^-52")
    # Adding zero turns −0 into 0: its sign would be a bit of the value.
    return np.trunc(np.asarray(values, dtype=np.float64) / step) * step + 0.0


def delta_cost(noise_std: ArrayLike, *, dimension: int, epsilon: float, inferences: int = 1) -> float:
    """Cost of the grid in δ at ε: (1 + e^ε)·K·r·T·2^−186, and at most 1; K is the size of `noise_std`.

    >>> delta_cost(np.full(12, 0.05), dimension=25_088, epsilon=10.0)
    6.76...e-47
    """
    std = checked("noise_std", noise_std, allowed="must be > 0 and finite", ok=lambda x: (x > 0) & (x < np.inf))
    if std.max() > LARGEST_STD_RATIO * std.min():
        raise ValueError(f"noise_std from {std.min():g} to {std.max():g} must lie within a factor of 1e5")
    for name, count in ("dimension", dimension), ("inferences", inferences):
        checked(name, count, allowed="must be >= 1", ok=lambda x: x >= 1)
    checked("epsilon", epsilon, allowed="must be a number", ok=lambda x: ~np.isnan(x))
    return min(1.0, (1 + math.exp(min(epsilon, 700.0))) * ERROR * std.size * dimension * inferences)


def smallest_delta(noise_std: ArrayLike, *, dimension: int, epsilon: float, inferences: int = 1) -> float:
    """The smallest δ that live noise supports: below it the grid would take more than a millionth part of δ.

    >>> smallest_delta(np.full(12, 0.05), dimension=25_088, epsilon=10.0)
    7.08...e-41
    """
    return _COST_SHARE * delta_cost(noise_std, dimension=dimension, epsilon=epsilon, inferences=inferences)
