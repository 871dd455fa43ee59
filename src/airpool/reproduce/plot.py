"""The one template for figures: a picture has panels, a panel has marks, a mark is one call of matplotlib."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from airpool.figures import canvas
from airpool.reproduce.tables import Rows, column

Method = Literal["plot", "errorbar", "bar", "vlines", "fill", "fill_between", "axhline"]

# The ε axis of every accuracy figure.
EPSILON_AXIS: dict[str, Any] = {
    "xscale": "log",
    "xticks": [1, 2, 4, 6, 10],
    "xticklabels": ["1", "2", "4", "6", "10"],
}


@dataclass(frozen=True, eq=False)
class Mark:
    """A method of matplotlib's axes, its data and its look."""

    method: Method
    data: Sequence[Any]
    look: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Panel:
    """Marks on one pair of axes.

    axes: their properties (title, xlabel, xlim, ...). legend: its options; None for no legend.
    grid: the direction in which grid lines are drawn.
    """

    marks: Sequence[Mark]
    axes: Mapping[str, Any]
    legend: Mapping[str, Any] | None = None
    grid: Literal["both", "y"] = "both"


@dataclass(frozen=True, eq=False)
class Picture:
    """Panels in rows of `columns`.

    size: width and height in inches. share: sharex and sharey; labels of shared axes are shown at the edge only.
    legend: options of one legend for all panels, from the first.
    """

    panels: Sequence[Panel]
    size: tuple[float, float]
    columns: int = 1
    share: Mapping[str, bool] = field(default_factory=dict)
    legend: Mapping[str, Any] | None = None


def mark(method: Method, *data: Any, **look: Any) -> Mark:
    return Mark(method, data, look)


def curve(rows: Rows, x: str, y: str, style: str = "-", *, error: str = "", **look: Any) -> Mark:
    """One column of a table against another; error: the column of its error bars."""
    points = column(rows, x), column(rows, y)
    if error:
        return mark("errorbar", *points, column(rows, error), fmt=style, **look)
    return mark("plot", *points, style, **look)


def draw(picture: Picture, *paths: Path) -> None:
    """Draws the picture into files, PNG, SVG or PDF by their suffix."""
    width, height = picture.size
    rows = -(-len(picture.panels) // picture.columns)
    with canvas(*paths, width=width, height=height) as fig:
        grid: Any = fig.subplots(rows, picture.columns, squeeze=False, **picture.share)
        for axes, panel in zip(grid.flat, picture.panels, strict=True):
            for each in panel.marks:
                getattr(axes, each.method)(*each.data, **each.look)
            if any(each.method == "bar" for each in panel.marks):
                axes.set_axisbelow(True)
            axes.set(**panel.axes)
            if picture.share:
                axes.label_outer()
            if "xticklabels" in panel.axes:
                axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
            if panel.grid == "y":
                axes.grid(False, axis="x")
            if panel.legend is not None:
                axes.legend(**panel.legend)
        if picture.legend is not None:
            fig.legend(*fig.axes[0].get_legend_handles_labels(), **picture.legend)
