"""Scheme 2.1, local selection: a device transmits iff its noisy score is at most a threshold (theory/selection.md).

    τ = 1 iff u + v ≤ η,  v ~ N(0, σ₀²)

The draw is protocol.device.taking_part. The leakage is privacy.leakage.by_threshold.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Array, Floats, finite, not_negative
from airpool._support.rules import SCORE
from airpool.schemes.scores import Scored


@final
@dataclass(frozen=True)
class Threshold(Scored):
    """Scheme 2.1: a device transmits if its own noisy score is at most the threshold, in bits.

    score: uncertainty of the local posterior, Shannon's or min-entropy. score_rule: how it is bounded, clip or scale
    (theory/selection.md §1). score_bound: Γ, its bound, in bits. score_noise_std: of the noise that is added to it.

    >>> Threshold(threshold=1.5, score_noise_std=0.5).name
    '2.1'
    """

    threshold: Annotated[float, SCORE] = 0.5
    name: ClassVar[str] = "2.1"
    assumption: ClassVar[str] = (
        "A changed feature may have any score; the others take part as rarely as their scores allow."
    )
    coin_bias: ClassVar[float] = 2.0**-48  # the rounding of Φ
    title: ClassVar[str] = "the sure ones"
    about: ClassVar[str] = "A device transmits if its noisy score is below a threshold."

    def participation(self, network: object, /) -> None:
        return None

    def participation_by_score(self, scores: Floats) -> Floats:
        return participation(scores, threshold=self.threshold, score_noise_std=self.score_noise_std)

    def select(self, noisy_scores: Array) -> Array:
        return noisy_scores <= self.threshold

    @property
    def words(self) -> str:
        return f"Scheme 2.1, η = {self.threshold:g}"

    def why_silent(self, participation: float, noisy_score: float | None) -> str:
        above = f"{self._its_score(noisy_score)} is above the threshold {self.threshold:.3g}"
        return f"It is too unsure of what it sees: {above}."

    @classmethod
    def unused(cls) -> dict[str, str]:
        return super().unused() | {"num_selected": "scheme 2.2 chooses a number of devices; 2.1 has a threshold"}


def participation(score: ArrayLike, *, threshold: float, score_noise_std: ArrayLike) -> Floats:
    """p = Φ((η − u)/σ₀): how often a device with bounded score u transmits; without noise 0 or 1.

    Nothing is divided by it (the paper's x = (α/p) z̃): 1/p would leak u.

    >>> participation(0.758, threshold=0.5, score_noise_std=0.1**0.5).round(4)
    np.float64(0.2073)
    """
    from airpool._support.special import ndtr

    gap = finite("threshold", threshold) - finite("score", score)
    std = not_negative("score_noise_std", score_noise_std)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        p = np.where(std > 0, ndtr(gap / std), gap >= 0)
    return np.asarray(p, dtype=np.float64)[()]
