"""The frontier of a plan: accuracy against ε for its best candidate, by device, local and object ε, and the paper's."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airpool._support.files import jsonable
from airpool.evaluation.plan.candidates import PAPER, Candidate, built
from airpool.evaluation.plan.search import Option, Plan, simulated

if TYPE_CHECKING:
    from airpool.models.model import Model

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
_COLUMNS = ("candidate", "epsilon", "epsilon_local", "epsilon_object", "accuracy_mean", "accuracy_low", "accuracy_high")


@dataclass(frozen=True, eq=False)
class Frontier:
    """Options of the plan's candidate and of the paper's at rising targets; all on validation objects."""

    options: tuple[Option, ...]
    paper: tuple[Option, ...]

    def columns(self) -> dict[str, list[Any]]:
        kinds = ["plan"] * len(self.options) + ["paper"] * len(self.paper)
        rows = [option.row() for option in (*self.options, *self.paper)]
        return jsonable({"kind": kinds, **{key: [row[key] for row in rows] for key in _COLUMNS}})


def frontier(
    plan: Plan,
    *,
    model: "Model",
    factors: Sequence[float] = FACTORS,
    trials: int = 5,
    on_point: Callable[[], None] = lambda: None,
) -> Frontier:
    """The plan's best candidate and the paper's network at `factors` times its targets.

    What cannot be built is left out. Devices and channel are those of the plan's network.
    """
    given = plan.best.network
    targets = np.array(given.devices.epsilon)

    def along(candidate: Candidate) -> tuple[Option, ...]:
        out: list[Option] = []
        for factor in factors:
            with suppress(ValueError):
                net = built(candidate, given, targets * factor, model, live=plan.live)
                out.append(simulated(candidate, net, model, trials=trials, seed=plan.seed, live=plan.live))
            on_point()
        return tuple(out)

    return Frontier(along(plan.best.candidate), along(PAPER))


def draw(found: Frontier, plan: Plan, path: Path) -> None:
    """Draws accuracy against device, local and object ε, and the paper's network at the same device ε."""
    from airpool._support.figures import BLUE, GREEN, GREY, ORANGE, RED, figure

    curves = {
        "epsilon": (BLUE, "device ε"),
        "epsilon_local": (ORANGE, "local ε"),
        "epsilon_object": (GREEN, "object ε"),
    }
    with figure(path, width=6.4, height=3.8) as (_, axes):
        for key, (colour, text) in curves.items():
            points = [(option.row()[key], option.accuracy) for option in found.options]
            axes.plot(*zip(*points, strict=True), color=colour, marker="o", ms=3, label=text)
        lows, highs = zip(*(option.interval for option in found.options), strict=True)
        worst = [option.evaluation.report.worst for option in found.options]
        axes.fill_between(worst, lows, highs, color=BLUE, alpha=0.15, lw=0, label="95 %, as many other objects")
        if found.paper:
            points = [(option.evaluation.report.worst, option.accuracy) for option in found.paper]
            axes.plot(*zip(*points, strict=True), "--", color=RED, label="the paper's network, device ε")
        best = plan.best
        axes.plot([best.evaluation.report.worst], [best.accuracy], "*", color=GREY, ms=11, label="this plan")
        axes.set(xscale="log", xlabel=f"ε at δ = {best.network.delta:g}", ylabel="accuracy (validation)")
        axes.set_title(best.candidate.words)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
