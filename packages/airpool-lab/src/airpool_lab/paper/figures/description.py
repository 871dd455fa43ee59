"""The one rule by which a finding of the paper holds, holds in part or does not hold (docs/decisions/0011-verdicts.md).

A finding is a list of the paper's statements, each with one computed test on the result's table: it holds where the
test passes at every point that it is about, and is not tested where the table lacks the data or the test cannot fail.
Means are compared with their standard errors, at 5 % for a statement, shared among its comparisons.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, inf
from typing import Any, Literal, NamedTuple

from scipy.stats import t as student

from airpool.paper.figures.tables import Rows, where

Holds = Literal["yes", "partly", "no"]
WORDS: dict[Holds, str] = {"yes": "holds", "partly": "holds in part", "no": "does not hold"}
LEVEL = 0.05
# The accounts of ε by which a statement is tested.
BY = {"theorem 1": "by Theorem 1", "exact": "at equal exact ε"}
# A statement's name in statements.toml, whether it holds (None: not tested), and the numbers in its words.
Tested = tuple[str, bool | None, Mapping[str, Any]]
# The tested statements of a result, and the numbers that all its words share.
Judgement = tuple[Sequence[Tested], Mapping[str, Any]]


def tested(statement: str, holds: bool | None, **numbers: Any) -> Tested:
    return statement, holds, numbers


@dataclass(frozen=True)
class Check:
    """A statement of the paper, where it is made, whether it holds (None: not tested), and our numbers."""

    says: str
    where: str
    holds: bool | None
    found: str

    @property
    def word(self) -> str:
        return "not tested" if self.holds is None else "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class Finding:
    """The paper's statements, tested. more: what else the table shows; instead: what to do."""

    checks: Sequence[Check]
    more: str
    instead: str

    @property
    def holds(self) -> Holds:
        """The finding holds if every statement does, does not hold if none does, and holds in part otherwise."""
        if not self.checks:
            raise ValueError("checks=[] must have at least one statement of the paper")
        held = [bool(check.holds) for check in self.checks]
        return "yes" if all(held) else "partly" if any(held) else "no"

    @property
    def sentence(self) -> str:
        """The statements in groups, so that it cannot contradict the verdict: Holds: …. Does not hold: …."""
        groups: dict[str, list[str]] = {"holds": [], "does not hold": [], "not tested": []}
        for check in self.checks:
            groups[check.word].append(check.says)
        return " ".join(f"{word.capitalize()}: {'; '.join(says)}." for word, says in groups.items() if says)


class Gain(NamedTuple):
    """A difference of two means, its standard error and the degrees of freedom behind that (inf: known exactly)."""

    value: float
    se: float = 0.0
    dof: float = inf

    def interval(self, among: int = 1) -> tuple[float, float]:
        """The 95 % interval, wider where it is one `among` several of the same statement (Bonferroni).

        >>> low, high = Gain(1.0, 0.1).interval()
        >>> round(low, 3), round(high, 3)
        (0.804, 1.196)
        """
        half = float(student.isf(LEVEL / (2 * among), self.dof)) * self.se
        return self.value - half, self.value + half


def gains(ours: Rows, theirs: Rows) -> list[Gain]:
    """Gain of our accuracy over theirs at each ε; each a mean over independent draws of the noise."""
    out = []
    for row in ours:
        pair = (row, *where(theirs, epsilon=row["epsilon"]))
        counts = [each["trials"] if "trials" in each else each["noise_seeds"] for each in pair]
        errors = [each["accuracy_std"] / count**0.5 for each, count in zip(pair, counts, strict=True)]
        out.append(Gain(row["accuracy"] - pair[1]["accuracy"], hypot(*errors), sum(counts) - 2))
    return out


def beats(gains: Sequence[Gain]) -> bool:
    """Whether one curve beats another: above it beyond the error somewhere, and below it beyond the error nowhere.

    >>> beats([Gain(0.1, 0.01), Gain(-0.01, 0.01)]), beats([Gain(0.01, 0.01)]), beats([Gain(0.1), Gain(-0.1)])
    (True, False, False)
    """
    spans = [each.interval(len(gains)) for each in gains]
    return any(low > 0 for low, _ in spans) and not any(high < 0 for _, high in spans)


def span(gains: Sequence[Gain]) -> str:
    """The gains as text.

    >>> span([Gain(0.1, 0.002), Gain(-0.01, 0.001)])
    '-0.010 to +0.100 (standard errors up to 0.002)'
    """
    least, most = (f"{end(each.value for each in gains):+z.3f}" for end in (min, max))
    values = least if len(gains) == 1 else f"{least} to {most}"
    return f"{values} (standard error{'' if len(gains) == 1 else 's up to'} {max(each.se for each in gains):.3f})"
