"""Mechanisms that are nearly what is accounted for: what the outcomes that go astray cost.

Let the outcome of a mechanism be within total variation t of the one that is accounted for, whatever the data. Then,
with δ° the curve that is accounted for,

    δ(ε) ≤ δ°(ε) + (1 + e^ε)·t.

Proof: for every event E, P(E) ≤ P°(E) + t ≤ e^ε Q°(E) + δ°(ε) + t ≤ e^ε Q(E) + δ°(ε) + (1 + e^ε)·t. ∎
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from airpool.arrays import Floats

# Rounds of the search; each ends at an ε that was checked, so running out of them means inf.
_ROUNDS = 100
# Where less than this share of δ is left, ε is inf.
_LEAST_SHARE = 1e-3


def epsilon(epsilon_at: Callable[[float], Floats], delta: float, distance: ArrayLike) -> Floats:
    """ε of each device at δ, within `distance` (per device) of a mechanism whose ε at δ° is `epsilon_at(δ°)`.

    The smallest fixed point of ε = epsilon_at(δ − (1 + e^ε)·t), from below; rounded up.
    Edge cases: distance 0 → epsilon_at(δ); too far for any ε → inf.

    >>> from airpool.privacy.gaussian import epsilon as gaussian
    >>> epsilon(lambda d: gaussian(np.array([1.0, 1.0, 1.0]), d), 1e-5, [0.0, 1e-8, 1e-5]).round(3)
    array([4.377, 4.397,   inf])
    """
    found = epsilon_at(delta)
    t = np.broadcast_to(np.asarray(distance, dtype=np.float64), found.shape)
    if not np.any(t):
        return found
    for _ in range(_ROUNDS):
        with np.errstate(over="ignore", invalid="ignore"):
            cost = np.where(t > 0, (1 + np.exp(found)) * t, 0.0)
        left = np.where(cost > 0, np.nextafter(delta - cost, 0.0), delta)
        needed = np.full(found.shape, np.inf)
        for value in np.unique(left[left >= _LEAST_SHARE * delta]):
            at = left == value
            needed[at] = epsilon_at(float(value))[at]
        if np.all(needed <= found):
            return found
        found = np.where(needed <= found, found, needed * (1 + 1e-12))
    return np.where(t > 0, np.inf, found)
