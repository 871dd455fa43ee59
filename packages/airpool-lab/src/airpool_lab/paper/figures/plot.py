"""The one template for figures: figures.toml has each figure as data and says what its entries mean."""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from airpool._support import figures
from airpool_lab.paper.figures.description import Rows, column
from airpool_lab.paper.figures.description import where as chosen

Data = Mapping[str, Any]


def draw(rows: Rows, figure: Data, *paths: Path) -> None:
    """Draws a table into files, PNG, SVG or PDF by their suffix."""
    (width, height), columns, share = figure["size"], figure.get("columns", 1), figure.get("share", {})
    with figures.canvas(*paths, width=width, height=height) as fig:
        grid: Any = fig.subplots(len(figure["panels"]) // columns, columns, squeeze=False, **share)
        for number, (axes, panel) in enumerate(zip(grid.flat, figure["panels"], strict=True)):
            for mark in _marks(figure["marks"], panel):
                if number in mark.pop("panels", (number,)):
                    _add(axes, rows, **mark)
            own = {name: panel[name] for name in panel if name not in ("where", "of", "legend")}
            properties = figure.get("axes", {}) | own
            if properties.pop("by_error", False):
                figures.space_by_error(axes)
            axes.set(**properties)
            if "xticklabels" in properties:
                axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
            if share:
                axes.label_outer()
            if figure.get("grid") == "y":
                axes.grid(False, axis="x")
            if "legend" in panel:
                axes.legend(**panel["legend"])
        if "legend" in figure:
            pairs = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in fig.axes]
            known = {label: handle for each in pairs for handle, label in each}
            fig.legend(known.values(), known.keys(), **figure["legend"])


def _marks(groups: Sequence[Data], panel: Data) -> Iterator[dict[str, Any]]:
    """The marks of all groups, each with what it inherits from group and panel."""
    for group in groups:
        for variation in group.get("each", [{}]):
            for own in group.get("marks", [{}]):
                parts = panel, group, variation, own
                shared = {key: dict(ChainMap(*(part.get(key, {}) for part in parts[::-1]))) for key in ("where", "of")}
                mark = {**group, **variation, **own, **shared}
                yield {key: mark[key] for key in mark if key not in ("each", "marks")}


def _add(axes: Any, rows: Rows, *, data: Sequence[Any], where: Data, of: Data, **look: Any) -> None:
    """Draws one mark. look: arguments of the method; and shift, added to x; bars, a factor of the error bars."""
    method, shift, bars = look.pop("method", "plot"), look.pop("shift", 0), look.pop("bars", 1)
    names = [name.format(**of) if isinstance(name, str) else name for name in data]
    columns = [name for name in names if isinstance(name, str)]
    rows = [row for row in chosen(rows, **where) if all(row[name] is not None for name in columns)]
    if columns and not rows:
        return
    values: list[Any] = [np.array(column(rows, name)) if name in columns else name for name in names]
    if columns:
        values[0], values[-1] = values[0] + shift, values[-1] * bars
    known = {**where, **of, **(rows[0] if columns else {})}
    look = {key: value.format(**known) if isinstance(value, str) else value for key, value in look.items()}
    look["color"] = getattr(figures, look["color"].upper())
    if method == "plot":
        values.append(look.pop("fmt", "-"))
    if method == "bar":
        axes.set_axisbelow(True)
    getattr(axes, method)(*values, **look)
