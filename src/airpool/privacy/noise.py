"""Noise that keeps the promise: on a public grid, from the operating system's entropy (spec §3.10).

σ fixes a step h, a power of two with 2^19 ≤ σ/h < 2^20. The clipped feature is rounded to u ∈ h·Z^r
(`to_grid`), and the noise is n = h·(aX + bY) with X, Y ~ N_Z(0, 2^22) (discrete_gaussian.py). The integers
a, b are public, coprime, and make σ̂² = h²·2^22·(a² + b²) as small as can be above σ² + 9h². u + n is exact
in float64 and carries no low bits that tell anything, as floating-point Gaussians do (Mironov 2012).

**Theorem.** Let K devices with max σ ≤ 1e5·min σ send u_k + n_k, in T inferences. Let M be the same with
n_k ~ N(0, σ_k² I_r), which is what the rest of airpool accounts for. Then, at every ε,

    δ(ε) ≤ δ_M(ε) + (1 + e^ε)·K·r·T·2^−186

when the adversary observes
(a) the vectors u_k + n_k, or any function of each (what a device transmits): the local guarantee;
(b) the aligned sum of any of them: the device and the object guarantee;
(c) y = Σ_k B_k(u_k + n_k) + m, whatever the matrices B_k (unequal gains, phases, many antennas), if they are
    independent of data and noise, and m ~ N(0, σ_m² I) with σ_m ≥ 2^−17 times the largest standard deviation
    of the privacy noise in any direction of y: a receiver noise 102 dB below the privacy noise is enough.

Holds for: zero-out and replace; participation known, or hidden by cover noise; the others' features known.
Removal takes noise away, and the grid of a sum may show whose: (c) only, with σ̂ (`Grid.sampled_std`) for σ.
Credit for receiver noise: (c) only. Not covered, so that (a) is what remains: gains that are not aligned
under a better receiver than (c)'s; nonlinear hardware between device and sum (a DAC that rounds, an
amplifier that clips); floating-point sums, unless they are rounded back to the finest step. Not covered at
all: side channels (the work does not branch on the noise, but its table sits in a cache), and an accounting
by the probability of a test on a noisy value (scheme 2.1's u + v ≤ η), which the grid moves by up to a step.

**Proof.** Let τ(t) = 2 Σ_{m≥1} e^(−2π²t²m²), so τ(3) < 2^−255. By Poisson summation, for every real c,

    Σ_{i∈Z} e^(−(i−c)²/2t²) = t√2π·(1 + e) with |e| ≤ τ(t).                                           (1)

1. A device. aX + bY = j is solved by x = x₀ + bi, y = y₀ − ai, i ∈ Z. With s² = 2^22(a² + b²) its pmf is
   proportional to e^(−j²/2s²) times a sum (1) with t = 2^11/√(a² + b²) ≥ 3.9. So it is N_Z(0, s²) up to
   factors 1 ± τ(3).
2. A sum. Let P, Q be discrete Gaussians of variance p, q on cZ and c′Z, c a multiple of c′. Then P + Q has at
   j ∈ c′Z a mass proportional to e^(−j²/2(p+q)) times a sum (1) with t = √(pq/(p+q))/c. Here this is at least
   min σ/(√2·max h) ≥ 3.7. So P + Q is discrete Gaussian on c′Z of variance p + q up to factors 1 ± τ(3), and
   by induction so is the sum of any devices' noise, on the finest step h among them, of variance Σσ̂².
3. Post-processing. Given y, let F draw j ∈ hZ with probability ∝ e^(−(j−y)²/18h²). For u ∈ hZ, F(u + y) is
   u + F(y) in law. By (1), F's normaliser is constant up to 1 ± τ(3). So for S ~ N(0, v) the law of F(S) is
   ∫ e^(−s²/2v − (j−s)²/18h²) ds ∝ e^(−j²/2(v+9h²)) up to the same factors: the noise of step 2, if
   v = Σσ̂² − 9h² ≥ Σσ². So the released sum nearly is a random map, which knows no data, of what M releases.
4. Distance. Laws that agree up to factors 1 ± τ and normalisation are within τ/(1 − τ) in total variation.
   One device and coordinate thus costs at most 2·2^−188 (its two draws from the table) + 3·2^−254 < 2^−186,
   and distances add up over coordinates, devices and (adaptive) inferences.
5. Let P, Q be within t of P°, Q°, and P°(E) ≤ e^ε Q°(E) + δ_M for every event E. Then
   P(E) ≤ P°(E) + t ≤ e^ε Q°(E) + δ_M + t ≤ e^ε Q(E) + δ_M + (1 + e^ε)t. That is (b); (a) is its case of one.
6. (c). Put D = diag(s²) over all n = K·r integers, with s = σ̂/h ≥ 2^19, and G = B·diag(σ̂). The density of y,
   relative to that under continuous noise N(0, σ̂²), is proportional to Σ_{j∈Z^n} e^(−(j−c)ᵀA(j−c)/2) with
   A⁻¹ = √D (I + GᵀG/σ_m²)⁻¹ √D. By Poisson summation in n dimensions it is constant up to a relative
   Σ_{m≠0} e^(−2π² mᵀA⁻¹m) ≤ (1 + τ(3))^n − 1, since A⁻¹ ⪰ 2^38/(1 + ‖G‖²/σ_m²) ⪰ 9. Continue as in 4 and 5;
   N(0, σ̂²) is N(0, σ²) and further noise, which is post-processing. ∎

After Canonne, Kamath & Steinke (2020) and, for sums, Kairouz, Liu & Steinke (2021).
"""

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from airpool.arrays import Floats, checked, not_negative
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
    """Where noise of one σ lies: at multiples of h = `step`, as h·(aX + bY) with (a, b) = `coefficients`."""

    step: float
    coefficients: tuple[int, int]

    @property
    def sampled_std(self) -> float:
        """σ̂, the standard deviation that is really drawn: above σ by less than 3 parts in 10,000."""
        return self.step * SPREAD * math.hypot(*self.coefficients)


@dataclass(frozen=True, eq=False)
class Noise:
    """`values` are multiples of `step`; `noise_std` is the σ that may be accounted for."""

    values: Floats
    step: float
    noise_std: float


def live_noise(noise_std: float, size: int | tuple[int, ...]) -> Noise:
    """Fresh noise of standard deviation `noise_std` from the operating system; cannot be seeded.

    Holds for: the theorem above. No state is kept between calls, so forked processes are independent.

    >>> noise = live_noise(0.05, 64)
    >>> noise.values.shape, bool(np.all(noise.values % noise.step == 0))
    ((64,), True)
    """
    return noise_from(os.urandom, noise_std, size)


def noise_from(entropy: Entropy, noise_std: float, size: int | tuple[int, ...]) -> Noise:
    """The same from given entropy. That of a seeded generator (`rng.bytes`) protects nobody."""
    grid = grid_of(noise_std)
    shape = size if isinstance(size, tuple) else (size,)
    drawn = combination(*grid.coefficients, math.prod(shape), entropy).astype(np.float64)
    return Noise(drawn.reshape(shape) * grid.step, step=grid.step, noise_std=float(noise_std))


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
    """What the grid adds to δ at ε: (1 + e^ε)·K·r·T·2^−186, and at most 1; K is the size of `noise_std`.

    Holds for: the theorem above. The proof leaves a factor of 2, which covers the rounding in here.

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
