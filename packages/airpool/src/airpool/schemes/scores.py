"""The uncertainty of a device: the entropy of its own classifier's posterior, and the bounded score made of it.

    u = H(posterior) in bits  →  bounded to the public range [0, Γ] or [0, Γ/2]

Never raises on the values of a posterior: an exception would leak them. For NumPy and torch, without SciPy.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from airpool._support.arrays import Array, Floats
from airpool._support.rules import SCALE, STD, check
from airpool.schemes.scheme import Scheme

Score = Literal["shannon", "min"]
ScoreRule = Literal["clip", "scale"]

# How far inside its range a bounded score ends, in the resolution of its numbers: float32 may round a range up.
_MARGIN = 4.0


class Range(NamedTuple):
    """Interval of every bounded score; its length is the score's sensitivity."""

    low: float
    high: float


def uncertainty(posteriors: Array, score: Score) -> Array:
    """The raw score of each posterior (..., L) in bits: −Σ p log₂ p (shannon) or −log₂ max p (min).

    Posteriors are normalised: they need not add up to 1 exactly.
    Edge cases: an entry that is negative or not finite, or nothing but zeros → NaN, which `bounded` makes a constant.

    >>> import numpy as np
    >>> uncertainty(np.array([[1.0, 0.0, 0.0, 0.0], [0.5, 0.25, 0.25, 0.0], [1.0, 1.0, 1.0, 1.0]]), "shannon")
    array([0. , 1.5, 2. ])
    """
    if posteriors.ndim < 1 or posteriors.shape[-1] < 2:
        raise ValueError(f"posteriors has shape {tuple(posteriors.shape)}, must be (..., L) with L >= 2 classes")
    xp = array_namespace(posteriors)
    valid = xp.all(xp.isfinite(posteriors) & (posteriors >= 0), axis=-1) & xp.any(posteriors > 0, axis=-1)
    p = xp.where(valid[..., None], posteriors, xp.ones_like(posteriors))
    share = p / xp.max(p, axis=-1, keepdims=True)
    total = xp.sum(share, axis=-1)
    if score == "shannon":
        p = share / total[..., None]
        bits = xp.abs(xp.sum(p * xp.log2(xp.where(p > 0, p, xp.ones_like(p))), axis=-1))
    else:
        bits = xp.log2(total)
    return xp.where(valid, bits, xp.full_like(bits, math.nan))


@dataclass(frozen=True)
class Scored(Scheme):
    """A scheme by an uncertainty score in bits: how it is computed, bounded and noised."""

    score: Score = "shannon"
    score_rule: ScoreRule = "clip"
    score_bound: Annotated[float, SCALE] = 1.0
    score_noise_std: Annotated[float, STD] = 0.3162

    independent: ClassVar[bool] = False
    needs_posteriors: ClassVar[bool] = True
    sets_participation: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self, "scheme.")

    @abstractmethod
    def participation_by_score(self, scores: Floats) -> Floats:
        """The probability of each device to take part, from bounded scores (..., K)."""

    @abstractmethod
    def select(self, noisy_scores: Array) -> Array:
        """Who takes part, from noisy scores (..., K), for NumPy and torch."""

    def score_range(self, num_classes: int | None = None) -> Range:
        """The true range of a bounded score, the sensitivity that is accounted for.

            clip: [0, min(Γ, log₂ L)]      scale: [0, min(Γ/2, log₂ L)]

        Without the number of classes, which a network does not know, log₂ L is left out: never too small.
        Differs from the paper: it calls Γ the sensitivity of a scaled score, twice its range.
        """
        high = self.score_bound if self.score_rule == "clip" else self.score_bound / 2
        return Range(0.0, high if num_classes is None else min(high, _most_bits(num_classes)))

    def bounded(self, bits: Array, num_classes: int | None = None) -> Array:
        """Raw scores in bits, bounded by the rule; always within `score_range`, just inside its upper end.

            clip: min(u, Γ)      scale: u·min(1, Γ/(2 log₂ L))

        Edge cases: not finite → the upper end, a public constant; outside [0, log₂ L] → cut. `scale` needs the number
        of classes L.
        """
        xp = array_namespace(bits)
        top = self.score_range(num_classes).high * (1 - _MARGIN * float(xp.finfo(bits.dtype).eps))
        finite = xp.isfinite(bits)
        u = xp.where(finite, bits, xp.zeros_like(bits))
        if self.score_rule == "scale":
            if num_classes is None:
                raise ValueError("scheme.score_rule='scale' needs num_classes, the number of classes behind the scores")
            u = u * min(1.0, self.score_bound / (2 * _most_bits(num_classes)))
        return xp.where(finite, xp.clip(u, 0.0, top), xp.full_like(u, top))

    @staticmethod
    def _its_score(noisy_score: float | None) -> str:
        return "its noisy score" if noisy_score is None else f"its noisy score, {noisy_score:.3g} bit,"

    @classmethod
    def unused(cls) -> dict[str, str]:
        return {"participation": "a device takes part by its score, not by a coin"}


def scored(scheme: Scheme) -> Scored:
    """The scheme, if devices are chosen by their scores; else an error."""
    if not isinstance(scheme, Scored):
        raise ValueError(f"scheme {scheme.name} has no scores: a coin decides who transmits")
    return scheme


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Uncertainty of each device, for schemes that choose by scores: posteriors (n, K, L), or scores (n, K) in bits.

    num_classes: of the posteriors behind the scores; the score rule `scale` needs it.
    """

    posteriors: Array | None = None
    scores: Array | None = None
    num_classes: int | None = None

    def raw(self, scheme: Scheme) -> tuple[Array | None, int | None]:
        """Raw scores in bits and the number of classes; (None, None) where neither was given."""
        if self.posteriors is None:
            return self.scores, self.num_classes
        if self.scores is not None:
            raise ValueError("give scores or posteriors, not both: scores are made of posteriors")
        if not scheme.needs_posteriors:
            raise ValueError(
                f"posteriors are for Schemes 2.1 and 2.2; under Scheme {scheme.name} a coin decides: leave them out"
            )
        return uncertainty(self.posteriors, scored(scheme).score), int(self.posteriors.shape[-1])


def check_scores(scores: Any, scheme: Scheme, *, example: Array) -> None:
    """Raises where raw scores do not fit latents (n, K, r); their values are never examined."""
    if not scheme.needs_posteriors:
        if scores is not None:
            raise ValueError(
                f"scores are for Schemes 2.1 and 2.2; under Scheme {scheme.name} a coin decides: leave them out"
            )
        return
    if scores is None:
        raise ValueError(
            f"scheme {scheme.name} needs scores, each device's uncertainty in bits (objects, devices): "
            "airpool.schemes.scores.uncertainty makes them of posteriors"
        )
    wanted, shape = tuple(example.shape[:2]), tuple(getattr(scores, "shape", ()))
    if shape != wanted:
        raise ValueError(f"scores has shape {shape}, must be ({wanted[0]} objects, {wanted[1]} devices)")
    xp = array_namespace(scores)
    if xp is not array_namespace(example) or not xp.isdtype(scores.dtype, "real floating"):
        raise ValueError(f"scores is {type(scores).__name__} of {scores.dtype}, must be real floating as the latents")


def _most_bits(num_classes: int) -> float:
    if isinstance(num_classes, bool) or not isinstance(num_classes, int) or num_classes < 2:
        raise ValueError(f"num_classes={num_classes!r} must be a whole number >= 2")
    return math.log2(num_classes)


def participation(scores: Any, scheme: Scheme, *, num_classes: int | None = None) -> Floats:
    """The exact probability of each device to transmit, from raw scores in bits, (n, K) → (n, K)."""
    bits = np.asarray(scores, dtype=np.float64)
    if bits.ndim != 2 or not bits.size:
        raise ValueError(f"scores has shape {bits.shape}, must be (objects, devices), with at least one of each")
    by_score = scored(scheme)
    return by_score.participation_by_score(by_score.bounded(bits, num_classes))


def expected_participation(scores: Any, scheme: Scheme, *, num_classes: int | None = None) -> Floats:
    """The mean over calibration objects, (n, K) → (K,): what `radio.link.level(participation=...)` takes."""
    return participation(scores, scheme, num_classes=num_classes).mean(axis=0)


def expected_of_posteriors(posteriors: Any, scheme: Scheme) -> Floats:
    """The same from the posteriors (n, K, L) of calibration objects, scored as the scheme says."""
    bits = uncertainty(posteriors, scored(scheme).score)
    return expected_participation(bits, scheme, num_classes=posteriors.shape[-1])
