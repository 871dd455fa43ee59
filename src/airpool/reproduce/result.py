"""The one description of a result: what measures its table, how it is drawn, how its statements are tested.

What the paper shows and states, in words, is in statements.toml.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from airpool.reproduce.plot import Picture
from airpool.reproduce.tables import OnStep, Rows, measured
from airpool.reproduce.verdicts import Check, Finding, Judgement
from airpool.sweep import Table

GPU_RUN = "a GPU run (python -m studies.train_codecs, then python -m studies.gpu_runs RUNS.json)"


@dataclass(frozen=True)
class Measurement:
    """A function and the points at which it gives the rows of a table."""

    function: Callable[..., Mapping[str, Any]]
    points: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Result:
    """A figure or table of the paper.

    measurement: what measures its table, or, in words, where that is done outside of the package.
    picture, judge: what a table looks like, and the tests of the paper's statements on it.
    data: the rows written as CSV, where they are not the table's own.
    """

    id: str
    measurement: Measurement | str
    picture: Callable[[Rows], Picture]
    judge: Callable[[Rows], Judgement]
    data: Callable[[Rows], Rows] = list

    @property
    def title(self) -> str:
        return text(self.id)["title"]

    @property
    def paper(self) -> str:
        """What the paper shows."""
        return text(self.id)["paper"]

    @property
    def setting(self) -> str:
        """Data and channel of our table."""
        return " ".join(text("settings")[name] for name in text(self.id)["setting"])

    def compute(self, *, seed: int = 0, on_step: OnStep | None = None) -> Table:
        """Measures the table again. Raises ValueError where the package cannot."""
        if isinstance(self.measurement, str):
            raise ValueError(
                f"{self.id} cannot be measured again here: its table comes from {self.measurement}, run in airpool's "
                "repository; leave --fresh out to draw it"
            )
        function, points = self.measurement.function, self.measurement.points
        return measured(function, points, result=self.id, seed=seed, on_step=on_step)

    def finding(self, rows: Rows) -> Finding:
        """The paper's statements, tested on a table."""
        words, judged = text(self.id), self.judge(rows)
        checks = []
        for test in judged.tests:
            numbers = {"source": words.get("source")} | dict(judged.numbers) | dict(test.numbers)
            says, where, found = (words["statements"][test.statement][part] for part in ("says", "where", "found"))
            checks.append(Check(says.format(**numbers), where.format(**numbers), test.holds, found.format(**numbers)))
        return Finding(checks, *(words[part].format(**judged.numbers) for part in ("more", "instead")))


@cache
def text(name: str) -> dict[str, Any]:
    """The section of statements.toml with this name."""
    sections = tomllib.loads(Path(__file__).with_name("statements.toml").read_text("utf-8"))
    return sections.get(sections[name].get("like"), {}) | sections[name]
