"""The one template for figures: panels of marks, in the frame that statements.toml describes.

size, columns    inches, and how many panels stand in a row
share            sharex and sharey; labels of shared axes are shown at the edge only
axes             properties of every panel's axes (xlabel, ylim, ...)
panels           a table for each panel: properties of its own axes, and `legend`, the options of its legend
legend           options of one legend for all panels
grid             "y": horizontal grid lines only
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from airpool.figures import canvas
from airpool.reproduce.tables import Rows, column

Method = Literal["plot", "errorbar", "bar", "vlines", "fill", "fill_between", "axhline"]


class Mark(NamedTuple):
    """One call of matplotlib: a method of its axes, the data and the look."""

    method: Method
    data: Sequence[Any]
    look: Mapping[str, Any]


def mark(method: Method, *data: Any, **look: Any) -> Mark:
    return Mark(method, data, look)


def curve(rows: Rows, x: str, y: str, style: str = "-", *, error: str = "", **look: Any) -> Mark:
    """One column of a table against another; error: the column of its error bars."""
    points = column(rows, x), column(rows, y)
    if error:
        return mark("errorbar", *points, column(rows, error), fmt=style, **look)
    return mark("plot", *points, style, **look)


def draw(panels: Sequence[Sequence[Mark]], frame: Mapping[str, Any], *paths: Path) -> None:
    """Draws the marks of each panel into files, PNG, SVG or PDF by their suffix."""
    (width, height), columns, share = frame["size"], frame.get("columns", 1), frame.get("share", {})
    with canvas(*paths, width=width, height=height) as fig:
        grid: Any = fig.subplots(len(panels) // columns, columns, squeeze=False, **share)
        for axes, marks, own in zip(grid.flat, panels, frame["panels"], strict=True):
            for each in marks:
                getattr(axes, each.method)(*each.data, **each.look)
            if any(each.method == "bar" for each in marks):
                axes.set_axisbelow(True)
            properties = frame.get("axes", {}) | {name: value for name, value in own.items() if name != "legend"}
            axes.set(**properties)
            if "xticklabels" in properties:
                axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
            if share:
                axes.label_outer()
            if frame.get("grid") == "y":
                axes.grid(False, axis="x")
            if "legend" in own:
                axes.legend(**own["legend"])
        if "legend" in frame:
            fig.legend(*fig.axes[0].get_legend_handles_labels(), **frame["legend"])
