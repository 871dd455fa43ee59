"""ε of a stream by moments of the privacy loss: for inferences whose data may choose one of several laws (Scheme 2.1).

Composing the upper envelope of several curves grants every inference the worst of all of them at once. A moment is
linear in the logarithm: of any sequence of laws, chosen in advance or as answers come in, it is at most that of the
worst law, T times. Tight to a few per cent for many inferences, where the envelope is not; loose for few. Proof:
docs/proofs/privacy.md, "Several laws in one stream".
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from airpool._support.arrays import Floats, as_floats
from airpool._support.special import xlog1py

# λ = α − 1 at which moments are taken: any of them gives a valid ε, the smallest is the answer.
_ORDERS = as_floats(np.geomspace(1e-4, 1e3, 141))
# Relative error of two roundings.
_ROUNDING = 2.0**-52


class Losses(Protocol):
    """Interface of compose.Loss."""

    @property
    def step(self) -> float: ...
    @property
    def lowest(self) -> int: ...
    @property
    def mass(self) -> Floats: ...
    @property
    def infinite(self) -> float: ...


class LossMoments:
    """ln E[e^(λL)] of the worst of several losses, at every order λ, and how likely a loss is infinite at most."""

    def __init__(self, losses: Sequence[Losses]) -> None:
        self.infinite = max(loss.infinite for loss in losses)
        self.log = np.maximum.reduce([_log_moments(loss) for loss in losses])

    def epsilon(self, inferences: int, delta: float) -> float:
        """ε at δ of `inferences` inferences, rounded up; inf where an infinite loss alone is likelier than δ.

        δ(ε) ≤ T·Pr(L = ∞) + e^(T·ln M(λ) − λε)·(λ/(1+λ))^λ/(1+λ)      for every λ > 0
        """
        left = delta - inferences * self.infinite * (1 + 4 * _ROUNDING)
        if left <= 0:
            return np.inf
        most = xlog1py(_ORDERS, -1 / (1 + _ORDERS)) - np.log1p(_ORDERS)  # ln max_u (1 − e^−u)e^(−λu)
        found = (inferences * self.log + most - np.log(left)) / _ORDERS
        return max(float(np.min(found)) * (1 + 1e-12), 0.0)


def _log_moments(loss: Losses) -> Floats:
    at = loss.step * np.arange(loss.lowest, loss.lowest + len(loss.mass), dtype=np.float64)
    # No term overflows, and the last one alone keeps the sum far from what underflows.
    found = np.log(np.exp(_ORDERS[:, None] * (at - at[-1])) @ loss.mass) + _ORDERS * at[-1]
    # A sum of len(at) products, each with an exponent that is rounded.
    return as_floats(found + _ROUNDING * (len(at) + 64 + _ORDERS * np.abs(at).max()))
