"""Laws that every figure keeps: nothing stands over data, every axis is named, and all of it is legible in print."""

# pyright: reportArgumentType=false, reportIndexIssue=false, reportGeneralTypeIssues=false, reportOperatorIssue=false
# Matplotlib annotates in part only.

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import same_color, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from airpool._support import figures

PALETTE = {value for value in vars(figures).values() if isinstance(value, str) and value.startswith("#")}
PAGE, LEAST = 6.5, 6.0  # inches between the margins of a printed page, and the smallest type on it in points


def broken(fig: Figure) -> list[str]:
    """The laws that a finished figure breaks, in words."""
    fig.draw_without_rendering()  # places legends and labels
    return [*_covered(fig), *_nameless(fig), *_small(fig), *_off_palette(fig), *_cut(fig)]


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[str]]]:
    """Every figure drawn within, by number and title, with the laws it breaks."""
    found: dict[str, list[str]] = {}
    plain = Figure.savefig

    def savefig(self: Figure, *given: Any, **named: Any) -> None:
        plain(self, *given, **named)
        if not any(self is each for each in seen):
            seen.append(self)
            found[f"{len(seen)}: {_title(self)}"] = broken(self)

    seen: list[Figure] = []
    with monkeypatch.context() as patched:
        patched.setattr(Figure, "savefig", savefig)
        yield found


def _title(fig: Figure) -> str:
    return "; ".join(filter(None, (axes.get_title() or axes.get_ylabel() for axes in fig.axes)))


def _marks(axes: Axes) -> Iterator[tuple[Path, bool]]:
    """What is drawn of the data, within the axes, in pixels; and whether its inside counts."""
    frame = axes.bbox
    for line in axes.lines:
        points = line.get_transform().transform(np.column_stack(line.get_data(orig=False)).astype(float))
        if len(points) and np.isfinite(points).any():
            if line.get_linestyle() not in ("None", "", " "):
                yield Path(points[np.isfinite(points).all(axis=1)]).clip_to_bbox(frame, inside=True), False
            for x, y in points if line.get_marker() not in ("None", "", None) else ():
                if frame.contains(x, y):
                    yield Path([[x, y]]), False
    for patch in axes.patches:
        if isinstance(patch, Rectangle) and (patch.get_alpha() or 1) > 0.2:  # a paler one shades the background
            yield patch.get_transform().transform_path(patch.get_path()).clip_to_bbox(frame, inside=True), True
    for some in axes.collections:
        if isinstance(some, LineCollection):
            for each in some.get_paths():
                yield some.get_transform().transform_path(each).clip_to_bbox(frame, inside=True), False


def _covered(fig: Figure) -> Iterator[str]:
    own = [legend for axes in fig.axes if (legend := axes.get_legend())]
    boxes = [("a legend", legend.get_window_extent()) for legend in (*own, *fig.legends)]
    boxes += [(repr(text.get_text()), text.get_window_extent()) for axes in fig.axes for text in axes.texts]
    for axes in fig.axes:
        for path, filled in _marks(axes):
            for name, box in boxes:
                inner = Bbox([[box.x0 + 1, box.y0 + 1], [box.x1 - 1, box.y1 - 1]])
                if len(path.vertices) == 1:
                    over = inner.contains(*path.vertices[0])
                else:
                    over = len(path.vertices) > 1 and path.intersects_bbox(inner, filled=filled)
                if over:
                    yield f"{name} stands over data of {axes.get_title() or axes.get_ylabel()!r}"


def _nameless(fig: Figure) -> Iterator[str]:
    for axes in fig.axes:
        if not axes.axison or axes.images:
            continue
        for kind, siblings in (("x", axes.get_shared_x_axes()), ("y", axes.get_shared_y_axes())):
            if not any(getattr(each, f"get_{kind}label")() for each in siblings.get_siblings(axes)):
                yield f"the {kind} axis of {axes.get_title()!r} has no label"


def _texts(fig: Figure) -> list[Text]:
    return [each for each in fig.findobj(Text) if each.get_visible() and each.get_text().strip()]


def _small(fig: Figure) -> Iterator[str]:
    shrunk = min(1.0, PAGE / fig.get_figwidth())
    sizes = {each.get_fontsize() * shrunk: each.get_text() for each in _texts(fig)}
    if sizes and min(sizes) < LEAST:
        yield f"{sizes[min(sizes)]!r} has {min(sizes):.1f} points on a printed page"


def _off_palette(fig: Figure) -> Iterator[str]:
    for axes in fig.axes:
        for line in axes.lines:
            if not any(same_color(line.get_color(), each) for each in PALETTE):
                yield f"{to_hex(line.get_color())} is not in the palette"


def _cut(fig: Figure) -> Iterator[str]:
    """Tick labels may leave their axis; matplotlib does not draw those."""
    named = [text for axes in fig.axes for text in (axes.title, axes.xaxis.label, axes.yaxis.label)]
    own = [legend for axes in fig.axes if (legend := axes.get_legend())]
    named += [text for legend in (*own, *fig.legends) for text in legend.get_texts()]
    edge = Bbox([[fig.bbox.x0 - 1, fig.bbox.y0 - 1], [fig.bbox.x1 + 1, fig.bbox.y1 + 1]])
    for text in named:
        box = text.get_window_extent()
        if text.get_visible() and text.get_text() and not (edge.contains(*box.p0) and edge.contains(*box.p1)):
            yield f"{text.get_text()!r} is cut off at the edge"
