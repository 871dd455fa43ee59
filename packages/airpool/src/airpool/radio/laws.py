"""Fading laws at mean power 1: gains c ≥ 0 with E[c²] = 1. One frozen dataclass each; its fields are its settings.

    none            c = 1
    rician          c = |μ + CN(0, v)|, μ² = κ/(κ+1), v = 1/(κ+1), κ the K-factor
    rayleigh        c = |CN(0, 1)|
    nakagami:m=…    c² ~ Gamma(m, 1/m): m = 1 is Rayleigh, larger m fades less
    log-normal:std_db=…   20·log₁₀c ~ N(·, std_db²): shadowing

Rice's laws have a scattered part in closed form (`Rice`): with it, errors of the channel's estimate and several
antennas are accounted for. Laws of plug-ins are checked when they are first used (`require_law`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from airpool._support.arrays import Floats, as_floats
from airpool._support.rules import NetworkError
from airpool.network.fading import FadingLaw

# Noncentrality (twice the K-factor) above which Rice's law is replaced by its Gaussian limit. The error is below the
# inverse of this number; SciPy's noncentral χ² fails a few orders of magnitude above it.
_GAUSSIAN_LIMIT = 1e9
# Nodes of the checks of a plug-in's law, in normal scores (probabilities from 1e-12 to 1 − 1e-12), and in its tail.
_SCORES, _TAIL = np.linspace(-7.0, 7.0, 1401), np.geomspace(1e-300, 1e-12, 289)
# Draws that a law's `sample` is checked with, and how many are expected below the rarest level: one that is wrong by a
# factor of 2 is then noticed. A sample that is right is refused with a probability below 1e-10.
_BLOCKS, _BLOCK, _EXPECTED, _FALSE_ALARM = 4, (1024, 1024), 512, 1e-10
# Levels at which two draws must be below independently, and how far apart they are: along inferences, along devices.
_TOGETHER, _LAGS = np.array([0.5, 0.1, 0.02]), range(1, 17)
# Values that stand for a law where it enters a mixture: probabilities are off by 2^-15 at most.
_MIXTURE = 2**14


@dataclass(frozen=True)
class Rice:
    """|μ + CN(0, v)|, the law that Rayleigh, Rician and no fading share."""

    mean: float
    variance: float

    def cdf(self, gain: Floats) -> Floats:
        return rice_cdf(gain, np.asarray(self.mean), np.asarray(self.variance))

    def quantile(self, probability: Floats) -> Floats:
        from airpool._support.special import chndtrix

        if self.variance == 0:
            return np.full_like(probability, self.mean)
        return np.sqrt(self.variance / 2 * as_floats(chndtrix(probability, 2, 2 * self.mean**2 / self.variance)))


def steady() -> Rice:
    """No fading: c = 1."""
    return Rice(1.0, 0.0)


def rician(k_factor_db: float = 4.8) -> Rice:
    """A steady path, k_factor_db above the scattered power."""
    k = 10.0 ** (k_factor_db / 10)
    return Rice(float(np.sqrt(k / (k + 1))), 1 / (k + 1))


def rayleigh() -> Rice:
    """Scattered power alone."""
    return Rice(0.0, 1.0)


@dataclass(frozen=True)
class Nakagami:
    """Nakagami-m: c² ~ Gamma(m, 1/m).

    >>> Nakagami(1.0).cdf(np.array([1.0])).round(6)     # Rayleigh's, 1 − exp(−1)
    array([0.632121])
    """

    m: float = 1.0

    def __post_init__(self) -> None:
        _require("m", self.m, 0.5, 1e6)

    def cdf(self, gain: Floats) -> Floats:
        from airpool._support.special import gammainc

        return as_floats(gammainc(self.m, self.m * gain**2))

    def quantile(self, probability: Floats) -> Floats:
        from airpool._support.special import gammaincinv

        return np.sqrt(as_floats(gammaincinv(self.m, probability)) / self.m)


@dataclass(frozen=True)
class LogNormal:
    """Log-normal shadowing with a standard deviation of `std_db` decibels: ln c ~ N(−s², s²), s = std_db·ln(10)/20."""

    std_db: float = 8.0

    def __post_init__(self) -> None:
        _require("std_db", self.std_db, 1e-3, 30.0)

    @property
    def _scale(self) -> float:
        return self.std_db * math.log(10) / 20

    def cdf(self, gain: Floats) -> Floats:
        from airpool._support.special import ndtr

        with np.errstate(divide="ignore"):
            return as_floats(ndtr((np.log(gain) + self._scale**2) / self._scale))

    def quantile(self, probability: Floats) -> Floats:
        from airpool._support.special import ndtri

        return np.exp(self._scale * (as_floats(ndtri(probability)) - self._scale))


def rice_cdf(t: Floats, mean: Floats, total: Floats) -> Floats:
    """Pr(|μ + CN(0, V)| < t), elementwise: the noncentral χ² law F(2t²/V; 2, 2μ²/V), or its Gaussian limit."""
    from airpool._support.special import chndtr, ndtr

    v = np.where(total > 0, total, 1.0)
    noncentrality = np.where(total > 0, 2 * mean**2 / v, np.inf)
    far = noncentrality > _GAUSSIAN_LIMIT
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.where(total > 0, ndtr((t - np.sqrt(mean**2 + total / 2)) / np.sqrt(total / 2)), mean < t)
    return np.where(far, limit, chndtr(2 * t**2 / v, 2, np.where(far, 0.0, noncentrality)))


def mixture(law: FadingLaw) -> Floats:
    """Equally likely values of the gain, sorted: its quantiles at the middles of equal cells."""
    return law.quantile((np.arange(_MIXTURE) + 0.5) / _MIXTURE)


class Checked(NamedTuple):
    """How far a plug-in's law was checked: down to the probability `least`, `sample` by this number of draws."""

    least: float
    draws: int


def require_law(name: str, law: FadingLaw) -> Checked:
    """How far cdf, quantile and sample were found to be one distribution of gains ≥ 0 with mean power 1.

    Raises NetworkError where they are not.
    """
    from airpool._support.special import ndtr

    p = np.asarray(ndtr(_SCORES))
    try:
        gain = np.asarray(law.quantile(p), dtype=np.float64)
        between = (gain[1:] + gain[:-1]) / 2
        back, inner = (np.asarray(law.cdf(x), dtype=np.float64) for x in (gain, between))
        density = np.exp(-(_SCORES**2) / 2) / math.sqrt(2 * math.pi)
        power = float(np.sum(gain**2 * density) * (_SCORES[1] - _SCORES[0]))
    except Exception as error:
        raise NetworkError(f"fading {name!r} fails: {type(error).__name__}: {error}") from error
    if gain.shape != p.shape or back.shape != p.shape:
        raise NetworkError(f"fading {name!r}: quantile and cdf must work elementwise; {p.shape} gave {gain.shape}")
    if not (np.all(np.isfinite(gain)) and np.all(gain >= 0) and np.all(np.diff(gain) >= 0)):
        raise NetworkError(f"fading {name!r}: quantile must be finite, >= 0 and increasing")
    if not np.allclose(back, p, rtol=1e-6, atol=1e-9):
        worst = int(np.argmax(np.abs(back - p)))
        raise NetworkError(f"fading {name!r}: cdf(quantile({p[worst]:.3g})) is {back[worst]:.3g}, must be the same")
    if not np.all((inner >= p[:-1] * (1 - 1e-6) - 1e-9) & (inner <= p[1:] * (1 + 1e-6) + 1e-9)):
        raise NetworkError(f"fading {name!r}: cdf must increase from 0 to 1")
    if not abs(power - 1) < 0.01:
        raise NetworkError(f"fading {name!r} has mean power {power:.3g}, must be 1: use path_loss_db for the strength")
    least = _least_resolved(law, p, back)
    if (sample := getattr(law, "sample", None)) is None:
        return Checked(least, 0)
    return _require_sample(name, law, sample, least)


def _least_resolved(law: FadingLaw, p: Floats, back: Floats) -> float:
    """The probability down to which cdf(quantile(p)) is p to six digits."""
    try:
        with np.errstate(all="ignore"):
            rare = np.asarray(law.cdf(law.quantile(_TAIL)), dtype=np.float64)
    except Exception:  # what a law cannot say there, it is not used for
        rare = np.full_like(_TAIL, np.nan)
    every = np.concatenate([_TAIL, p])
    bad = np.flatnonzero(~(np.abs(np.concatenate([rare, back]) - every) <= 1e-6 * every))
    return float(every[bad[-1] + 1]) if bad.size else float(every[0])


def _require_sample(name: str, law: FadingLaw, sample: Callable[..., Any], least: float) -> Checked:
    """Raises NetworkError unless `sample` follows the law at every level, both tails included, independently.

    The number of draws below a quantile is binomial, and so is that of disjoint pairs of which both are.
    """
    draws = _BLOCKS * math.prod(_BLOCK)
    rarest = max(least, _EXPECTED / draws)
    low = rarest * 2.0 ** (np.arange(0, math.floor(4 * math.log2(0.5 / rarest)) + 1) / 4)
    level = np.concatenate([low, 1 - low[::-1]])
    edge, rng, below = law.quantile(level), np.random.default_rng(0), np.zeros(level.size, dtype=np.int64)
    together = np.zeros((2, len(_LAGS), len(_TOGETHER)))
    for _ in range(_BLOCKS):
        try:
            drawn = np.asarray(sample(_BLOCK, rng, dtype=None), dtype=np.float64)
        except Exception as error:
            raise NetworkError(f"fading {name!r}: its sample fails: {type(error).__name__}: {error}") from error
        if drawn.shape != _BLOCK:
            raise NetworkError(f"fading {name!r}: sample({_BLOCK}, rng) gives shape {drawn.shape}")
        if not np.all(drawn >= 0):
            raise NetworkError(f"fading {name!r}: its sample gives {np.min(drawn):.3g}, gains must be >= 0")
        where = np.searchsorted(edge, drawn.ravel(), side="right")
        below += np.cumsum(np.bincount(where, minlength=level.size + 1))[:-1]
        together += _both_below(drawn, law.quantile(_TOGETHER))
    share = below / draws
    if np.any(odd := _improbable(share, level, draws)):
        worst = int(np.argmax(np.where(odd, 1 / level, 0.0)))
        raise NetworkError(
            f"fading {name!r}: its sample does not follow its cdf: {share[worst]:.3g} of {draws:,} draws are below "
            f"quantile({level[worst]:.3g}), which chance explains with probability below {_FALSE_ALARM:g}"
        )
    pairs = _BLOCKS * np.array([_BLOCK[0] // (2 * lag) * lag * _BLOCK[1] for lag in _LAGS])[:, None]
    if np.any(_improbable(together / pairs, _TOGETHER**2, pairs)):
        off = np.abs(together / pairs - _TOGETHER**2) * np.sqrt(pairs) / _TOGETHER  # in standard deviations
        axis, lag, at = (int(each) for each in np.unravel_index(np.argmax(off), off.shape))
        raise NetworkError(
            f"fading {name!r}: its sample is not independent between {('inferences', 'devices')[axis]}: two draws that "
            f"are {_LAGS[lag]} apart are both below quantile({_TOGETHER[at]:g}) {together[axis, lag, at]:,.0f} times "
            f"in {pairs[lag, 0]:,}, and ε counts on {_TOGETHER[at] ** 2 * pairs[lag, 0]:,.0f}"
        )
    return Checked(rarest, draws)


def _both_below(drawn: Floats, edge: Floats) -> Floats:
    """How many disjoint pairs of draws are both below each edge: by axis, distance and edge."""
    found = np.zeros((2, len(_LAGS), edge.size))
    for at, low in enumerate(drawn[None] < edge[:, None, None]):
        for axis, along in enumerate((low, low.T)):
            for i, lag in enumerate(_LAGS):
                pairs = along[: len(along) // (2 * lag) * 2 * lag].reshape(-1, 2, lag, along.shape[1])
                found[axis, i, at] = np.count_nonzero(pairs[:, 0] & pairs[:, 1])
    return found


def _improbable(share: Floats, probability: Floats, draws: Any) -> Any:
    """Where chance gives such a share too rarely. Chernoff's bound: Pr(n draws differ that much) ≤ 2·exp(−n·KL)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - probability)), 0.0)
        distance = draws * (np.where(share > 0, share * np.log(share / probability), 0.0) + above)
    return distance > math.log(2 * share.size / _FALSE_ALARM)


def _require(name: str, value: object, least: float, most: float) -> None:
    if not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{name}={value} must be a number from {least:g} to {most:g}")
