"""One style for every figure: readable in print and for the colour-blind, PNG and SVG, the data beside it as CSV."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airpool import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's palette: distinct under every common kind of colour blindness, and in grey.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#000000",
    "#777777",
)

_STYLE: Any = {
    "figure.dpi": 150,
    "savefig.dpi": 150,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "airpool",
}


@contextmanager
def canvas(*paths: str | Path, width: float = 5.0, height: float = 3.4) -> Iterator["Figure"]:
    """An empty figure in the house style; written to every path at the end (PNG, SVG or PDF by its ending)."""
    import matplotlib
    from matplotlib.figure import Figure

    wanted = [Path(path) for path in paths]
    for file in wanted:
        if file.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ValueError(f"{file}: a figure's name must end in .png, .svg or .pdf")
    with matplotlib.rc_context(_STYLE):
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
    """A canvas with one pair of axes."""
    with canvas(*paths, width=width, height=height) as fig:
        yield fig, fig.subplots()


def write_csv(path: str | Path, columns: Mapping[str, Sequence[Any]], *, comment: str = "") -> None:
    """The data behind a figure, with a first line that says how it came about."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = StringIO(newline="")
    if comment:
        text.write(f"# {comment}\n")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    files.write(path, text.getvalue())
