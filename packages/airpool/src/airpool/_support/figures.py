"""One style for all figures, readable in print and by the colour-blind; their data is written as CSV."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airpool._support import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: distinct in grey and under every common kind of colour blindness.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#777777"
# The same meaning has the same colour in every figure: what airpool computes or measures, what the paper prints or
# claims, and what is proven to limit both.
OURS, PAPER, BOUND = BLUE, ORANGE, BLACK

_STYLE = Path(__file__).with_name("figures.mplstyle")


@contextmanager
def canvas(*paths: str | Path, width: float = 5.0, height: float = 3.4) -> Iterator["Figure"]:
    """An empty figure in the house style. On exit it is written to every path, as PNG, SVG or PDF by its suffix."""
    import matplotlib
    from matplotlib.figure import Figure

    wanted = [Path(path) for path in paths]
    for file in wanted:
        if file.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ValueError(f"{file}: a figure's name must end in .png, .svg or .pdf")
    with matplotlib.rc_context(fname=_STYLE):
        fig = Figure(figsize=(width, height), layout="constrained")
        yield fig
        for file in wanted:
            file.parent.mkdir(parents=True, exist_ok=True)
            # No date in the file: the same data gives the same bytes.
            kind, drawn = file.suffix.lower().removeprefix("."), BytesIO()
            fig.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else None)
            files.write(file, drawn.getvalue())


@contextmanager
def figure(*paths: str | Path, width: float = 5.0, height: float = 3.4) -> Iterator[tuple["Figure", "Axes"]]:
    """A canvas with one set of axes."""
    with canvas(*paths, width=width, height=height) as fig:
        yield fig, fig.subplots()


def space_by_error(axes: "Axes") -> None:
    """Spaces the accuracies on the y axis by the logarithm of the error 1 − accuracy; limits are set afterwards.

    .90 and .93 are as far apart as .3 and .5, so that curves that all end near the top can be told apart.
    """
    import numpy as np

    functions = (lambda a: -np.log1p(-np.minimum(a, 1 - 1e-6)), lambda x: -np.expm1(-x))
    axes.set_yscale("function", functions=functions)
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99])
    axes.yaxis.set_major_formatter("{x:g}")


def write_csv(path: str | Path, columns: Mapping[str, Sequence[Any]], *, comment: str = "") -> None:
    """Writes the data behind a figure; `comment`, its origin, becomes the first line."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = StringIO(newline="")
    if comment:
        text.write(f"# {comment}\n")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    files.write(path, text.getvalue())
