"""The one description of a result: what measures its table, what is drawn of it, how its statements are tested.

What the paper shows and states is in statements.toml, the figure in figures.toml.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from airpool._support.progress import silent
from airpool.evaluation.sweep import Table, run
from airpool.paper.figures.tables import OnStep, Rows
from airpool.paper.figures.verdicts import Check, Finding, Judgement

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
