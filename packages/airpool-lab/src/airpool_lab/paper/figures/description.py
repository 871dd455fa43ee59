"""The description of a result of the paper: what measures its table, what is drawn, how its statements are tested.

What the paper shows and states is in statements.toml, the figure in figures.toml. A table is committed as
results/ID.json and read back as rows. One rule says when a finding holds, holds in part or does not hold
(docs/decisions/0011-verdicts.md): a finding is a list of the paper's statements, each with one computed test on the
result's table. A statement holds where its test passes at every point that it is about, and is not tested where the
table lacks the data or the test cannot fail. Means are compared with their standard errors, at 5 % for a statement,
shared among its comparisons.
"""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from math import hypot, inf
from pathlib import Path
from typing import Any, Literal, NamedTuple

from scipy.stats import t as student

from airpool._support.progress import silent
from airpool._support.table import number
from airpool_lab.sweep import Table, run

Rows = list[dict[str, Any]]
OnStep = Callable[[int], None]

RESULTS = Path(__file__).parent / "results"


class Stored(NamedTuple):
    """A table on disk. about: what measured it, with parameters, seed, version, command, day and machine."""

    rows: Rows
    about: dict[str, Any]

    def line(self) -> str:
        """Its origin, in one line."""
        when = "measured {measured} on {machine}; " if self.about["measured"] else ""
        return ("airpool {version}; " + when + "{function}; seed {seed}; {command}").format(**self.about)


def read(path: Path) -> Stored:
    """A table written by a sweep as JSON; "inf" and "nan" become numbers."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such result table; airpool reproduce {path.stem} --fresh makes one")
    try:
        data = json.loads(path.read_text("utf-8"))
        columns = data["columns"]
        rows = [dict(zip(columns, map(number, row), strict=True)) for row in zip(*columns.values(), strict=True)]
        about = {name: data[name] for name in ("function", "seed", "version", "command", "parameters")}
        # Tables of earlier days do not have them.
        about |= {name: data.get(name, "") for name in ("measured", "machine")}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: no result table ({type(error).__name__}: {error})") from None
    return Stored(rows, about)


def where(rows: Rows, **chosen: Any) -> Rows:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in chosen.items())]


def column(rows: Rows, name: str) -> list[Any]:
    return [row[name] for row in rows]


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


GPU_RUN = "a GPU run (python -m studies.train_codecs, then python -m studies.gpu_runs RUNS.json)"


@dataclass(frozen=True, eq=False)
class Result:
    """A figure or table of the paper.

    measurement: a function and the points at which it gives the rows of the table; or the name of what
        measures the table outside of the package.
    judge: the tests of the paper's statements on a table, and the numbers that all its words share.
    drawn, data: the rows that are drawn and that are written as CSV, where they are not the table's own.
    """

    id: str
    measurement: tuple[Callable[..., Mapping[str, Any]], Sequence[Mapping[str, Any]]] | str
    judge: Callable[[Rows], Judgement]
    drawn: Callable[[Rows], Rows] = list
    data: Callable[[Rows], Rows] = list

    @property
    def title(self) -> str:
        return text(self.id)["title"]

    @property
    def setting(self) -> str:
        """Data and channel of our table."""
        return " ".join(text("settings")[name] for name in text(self.id)["setting"])

    def compute(self, *, seed: int = 0, on_step: OnStep | None = None) -> Table:
        """Measures the table again. Raises where the package cannot, or where any point fails."""
        if isinstance(self.measurement, str):
            raise ValueError(
                f"{self.id} cannot be measured again here: its table comes from {self.measurement}, run in airpool's "
                "repository; leave --fresh out to draw it"
            )
        progress = silent if on_step is None else lambda _what, _total: nullcontext(on_step)
        table = run(*self.measurement, seed=seed, progress=progress, command=f"airpool reproduce {self.id} --fresh")
        if table.failures:
            raise RuntimeError("\n".join(map(str, table.failures)))
        return table

    def finding(self, rows: Rows) -> Finding:
        """The paper's statements, tested on a table."""
        words, (tests, shared) = text(self.id), self.judge(rows)
        shared = {**shared, **{name: each.format(**shared) for name, each in words.get("numbers", {}).items()}}
        checks = []
        for name, holds, own in tests:
            statement, numbers = words["statements"][name], {"source": words.get("source"), **shared, **own}
            found = statement.get("untested", statement["found"]) if holds is None else statement["found"]
            says, where, found = (each.format(**numbers) for each in (statement["says"], statement["where"], found))
            checks.append(Check(says, where, holds, found))
        return Finding(checks, *(words[part].format(**shared) for part in ("more", "instead")))


def text(name: str, *, file: str = "statements.toml") -> dict[str, Any]:
    """The section with this name; one that is `like` another has all of its entries, unless they are given again."""
    of = sections(file)
    return of.get(of[name].get("like"), {}) | of[name]


@cache
def sections(file: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))
