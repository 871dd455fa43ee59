"""Leakage of a network over one inference, a day and a year: the numbers of a statement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from airpool.account.guesses import REPORTED
from airpool.account.report import PrivacyReport, number
from airpool.network import NetworkError

# Odds of a yes-or-no guess up to which a secret is called protected, and weakly protected; above MOST it is neither.
PROTECTED, WEAKLY = 0.75, 0.95
MOST = 10.0  # ε


@dataclass(frozen=True)
class Period:
    """Leakage of every device over one period, all of whose inferences show the same secret.

    epsilon, local: per device. odds, local_odds: (priors, devices), as of `guesses.REPORTED`. missing: why nothing is
    known, and every number the largest that there is; "" elsewhere. reasons: by name, of each ε that is infinite.
    static: ε of the worst device if a channel that is drawn anew each time stays as it is; None where that is no
    question. selected: the same if the server chooses its moments by the channel. assumptions: of the period's report.
    """

    name: str
    inferences: int
    epsilon: tuple[float, ...]
    local: tuple[float, ...]
    object: float
    odds: tuple[tuple[float, ...], ...]
    local_odds: tuple[tuple[float, ...], ...]
    object_odds: tuple[float, ...]
    missing: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    static: float | None = None
    selected: float | None = None
    assumptions: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "inferences": self.inferences,
            "epsilon": [number(each) for each in self.epsilon],
            "epsilon_local": [number(each) for each in self.local],
            "epsilon_object": number(self.object),
            "epsilon_if_static": None if self.static is None else number(self.static),
            "epsilon_if_selected": None if self.selected is None else number(self.selected),
            "odds": {str(prior): each for prior, each in zip(REPORTED, self.odds, strict=True)},
            "odds_local": {str(prior): each for prior, each in zip(REPORTED, self.local_odds, strict=True)},
            "odds_object": {str(prior): each for prior, each in zip(REPORTED, self.object_odds, strict=True)},
            "missing": self.missing,
            "reasons": dict(self.reasons),
        }


def level(over: Period) -> str:
    """The word for the worst device's protection over a period."""
    return verdict(max(over.epsilon), max(over.odds[0]))


def verdict(epsilon: float, odds: float) -> str:
    """The word for a protection. odds: of a yes-or-no guess.

    >>> verdict(2.0, 0.693), verdict(6.0, 0.9), verdict(12.6, 0.94)
    ('protected', 'weakly protected', 'not protected')
    """
    if epsilon > MOST or odds > WEAKLY:
        return "not protected"
    return "protected" if odds <= PROTECTED else "weakly protected"


def period(report: PrivacyReport, name: str, inferences: int) -> Period:
    """One period. More inferences than can be composed, or than live noise serves, have no limit.

    name: "" where only the verdict is asked for, without `static` and `selected`.
    """
    try:
        found = report.over(inferences)
        odds = found.odds
        stays, chosen = (found.epsilon_if_static, found.epsilon_if_selected) if name else (None, None)
    except ValueError as error:
        if inferences == 1:
            raise
        none, sure = (inf,) * report.network.devices.count, (1.0,) * report.network.devices.count
        both = (sure,) * len(REPORTED)
        return Period(name, inferences, none, none, inf, both, both, (1.0,) * len(REPORTED), missing=str(error))
    return Period(
        name,
        inferences,
        tuple(map(float, found.epsilon)),
        tuple(map(float, found.epsilon_local)),
        found.epsilon_object,
        tuple(tuple(map(float, each.device)) for each in odds),
        tuple(tuple(map(float, each.local)) for each in odds),
        tuple(each.object for each in odds),
        reasons=found.reasons,
        static=None if stays is None else float(np.max(stays)),
        selected=None if chosen is None else float(np.max(chosen)),
        assumptions=found.assumptions,
    )


def lasting(report: PrivacyReport, periods: Sequence[Period]) -> tuple[int, int]:
    """Inferences of one secret that keep the worst device protected and weakly protected, up to the longest period's.

    Each is searched for between what is known to keep it and what is known not to, the periods among it.
    """
    words = {each.inferences: level(each) for each in periods}

    def most(*kept: str) -> int:
        bad = min((n for n, word in words.items() if word not in kept), default=None)
        good = max((n for n in words if bad is None or n < bad), default=0)
        while good and bad is not None and bad - good > 1:
            middle = min(2 * good, (good + bad) // 2)
            words[middle] = level(period(report, "", middle))
            good, bad = (middle, bad) if words[middle] in kept else (good, middle)
        return good

    return most("protected"), most("protected", "weakly protected")


def level_by(inferences: int, lasting: tuple[int, int]) -> str:
    """The word for so many inferences, from how long each protection lasts.

    >>> level_by(1, (1, 10)), level_by(10, (1, 10)), level_by(11, (1, 10))
    ('protected', 'weakly protected', 'not protected')
    """
    protected, weakly = lasting
    return "protected" if inferences <= protected else "weakly protected" if inferences <= weakly else "not protected"


def one_colluder_more(report: PrivacyReport) -> tuple[float, float]:
    """ε and yes-or-no odds of the worst device against one device more that tells its noise; never below the server's.

    Own noise alone counts where no other device is left, or where a secure sum refuses so many colluders.
    """
    assert report.again is not None
    once, local = report.odds[0], (float(np.max(report.epsilon_local)), float(np.max(report.odds[0].local)))
    try:
        more = report.again(colluders=report.network.colluders + 1)
        found = more.worst, more.odds[0].worst
    except NetworkError:
        found = local
    return max(found[0], report.worst), max(found[1], once.worst)
