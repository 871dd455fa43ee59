"""A fading law of your own: Weibull, c^k exponential. k = 2 is Rayleigh; a smaller k fades more deeply.

    airpool epsilon  --plugin examples/plugins/fading.py --devices 12 --fading weibull:k=1.5 --outage 0.05
    airpool evaluate --plugin examples/plugins/fading.py --epsilon 2 --fading weibull:k=1.5 --outage 0.05

A law is a frozen dataclass whose fields are its settings. airpool draws gains from `quantile`, and takes outage, γ and
with them ε from `cdf`. Both are checked against each other, and for a mean power of 1, when the law is first used.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import airpool


@airpool.register("fading", "weibull")
@dataclass(frozen=True)
class Weibull:
    """k: the shape, from 0.5 to 20."""

    k: float = 2.0

    def __post_init__(self) -> None:
        if not isinstance(self.k, float) or not 0.5 <= self.k <= 20:
            raise ValueError(f"k={self.k} must be a number from 0.5 to 20")

    @property
    def scale(self) -> float:
        """Makes the mean power 1: E[c²] = scale²·Γ(1 + 2/k)."""
        return math.gamma(1 + 2 / self.k) ** -0.5

    def cdf(self, gain: NDArray[np.float64]) -> NDArray[np.float64]:
        return -np.expm1(-((gain / self.scale) ** self.k))

    def quantile(self, probability: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.scale * (-np.log1p(-probability)) ** (1 / self.k)
