"""The demo as files: its figures (PNG and SVG in the house style), their data as CSV, and one page with all of it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import max_pool2d

from airpool._support import files
from airpool._support.figures import (
    BLACK,
    GREEN,
    GREY,
    OURS,
    PAPER,
    PURPLE,
    RED,
    SKY,
    canvas,
    figure,
    space_by_error,
    write_csv,
)
from airpool._support.page import Figure, render
from airpool.account.report import number, shown
from airpool.network import Claim
from airpool.network import file as network_file
from airpool_lab.demo import Demo, tables
from airpool_lab.demo.claim import COVERED, CheckedClaim
from airpool_lab.demo.comparison import Curve, Point
from airpool_lab.demo.one_object import REPEATS, Sent
from airpool_lab.demo.tables import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_DEFAULTS = "the paper's defaults: K = 12, C = 100, w = 1/12, p = 0.9, delta = 1e-5, r = 784"
# Of each curve: the codec, the ε it is drawn at, marker, colours of line and face, label.
_ACCURACY = (
    ("vote", "epsilon_device", "o-", OURS, OURS, "ours, at its exact ε (zero-out)"),
    ("q16", "epsilon_device", "s--", PAPER, "white", "paper's, at its exact ε (zero-out)"),
    ("q16", "epsilon", "^-", PAPER, PAPER, "paper's, at its claimed ε"),
)
_CLAIM = {
    "remove": (RED, "v-", "exact: remove (the paper's own)"),
    "replace": (PURPLE, "s-", "exact: replace"),
    "zero-out": (OURS, "o-", "exact: zero-out"),
    COVERED: (GREEN, "-.", "exact: zero-out, cover noise"),
    "theorem 1 (bernstein)": (PAPER, ":", "Theorem 1, Bernstein's slack"),
    "theorem 1 (quadratic)": (PAPER, "--", "Theorem 1, quadratic slack"),
}


def draw(demo: Demo, folder: Path) -> dict[str, Path]:
    """Writes every figure with its data; returns the path of each drawing."""
    about = f"airpool {demo.version}; seed {demo.seed}"
    return {
        "accuracy": _accuracy(demo, folder / "accuracy.svg", about),
        "views": _views(demo.sent, folder / "object-views.png"),
        "received": _received(demo.sent, folder / "object-received.svg", about),
        "claim": _claim(demo.claim, folder / "paper-claim.svg", about),
    }


@contextmanager
def _drawn(
    svg: Path, columns: Mapping[str, Sequence[Any]], comment: str, *, width: float = 5.0, height: float, legend: float
) -> Iterator["Axes"]:
    """Axes whose figure is written as SVG and PNG, with its data. legend: how far it is below them."""
    write_csv(svg.with_suffix(".csv"), columns, comment=comment)
    with figure(svg, svg.with_suffix(".png"), width=width, height=height) as (_, axes):
        yield axes
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -legend), ncols=2)


def _accuracy(demo: Demo, svg: Path, about: str) -> Path:
    """Accuracy against ε: ours, the paper's network at its claimed and its exact ε, and the paper's printed values."""
    from matplotlib.ticker import NullFormatter, PercentFormatter

    paper, ours = demo.paper, demo.ours
    rows = [row for curve in demo.curves for row in curve.rows()]
    comment = f"{about}; {demo.trials} trials; our renders of ModelNet40's CAD models"
    with _drawn(svg, {name: [row[name] for row in rows] for name in rows[0]}, comment, height=4.5, legend=0.16) as axes:
        for name, column, fmt, colour, face, label in _ACCURACY:
            shown = [row for row in rows if row["codec"] == name][:-1]  # the last is without noise
            x, mean, low, high = (
                np.array([row[each] for row in shown])
                for each in (column, "accuracy_mean", "accuracy_low", "accuracy_high")
            )
            look: Any = {"color": colour, "markerfacecolor": face, "capsize": 2.5, "markersize": 5}
            axes.errorbar(x, mean, yerr=np.abs([low - mean, high - mean]), fmt=fmt, label=label, **look)
        if in_paper := [(point.epsilon, *point.printed) for point in paper.points if point.printed is not None]:
            x, mean, std = zip(*in_paper, strict=True)
            label = "printed in the paper (its own renders)"
            axes.errorbar(x, mean, yerr=std, fmt="x", color=PAPER, capsize=2.5, label=label)
        for curve, colour in ((ours, OURS), (paper, PAPER)):
            axes.axhline(curve.without_noise.accuracy_mean, color=colour, linestyle=":", linewidth=1.2)
        axes.errorbar([], [], fmt=":", color=GREY, linewidth=1.2, label="without noise, each codec")
        space_by_error(axes)
        axes.set(xscale="log", ylim=(0, 0.94), ylabel=f"accuracy on {ours.without_noise.objects:,} test objects")
        axes.set_xlabel(f"ε of each device, one inference, δ = {plain(ours.points[0].evaluation.report.claim.delta)}")
        axes.set_xticks([0.5, 1, 2, 4, 6, 10], ["0.5", "1", "2", "4", "6", "10"])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    return svg


def picture(view: Tensor) -> bytes:
    """A camera's view (2, H, H) as a PNG: the shading, on white."""
    from matplotlib.image import imsave

    buffer = BytesIO()
    imsave(buffer, _on_white(view), cmap="gray", vmin=0, vmax=1, format="png")
    return buffer.getvalue()


def _on_white(view: Tensor) -> NDArray[np.float32]:
    """The shading (H, H); white where there is nothing. Depth tells how much of a pixel on the outline is covered."""
    shading, depth = view
    farthest, nearest = -max_pool2d(-depth[None], 3, 1, 1)[0], max_pool2d(depth[None], 3, 1, 1)[0]
    covered = (depth / nearest.clamp(min=1e-6)).where(farthest == 0, 1.0)
    return (0.9 * shading + 1 - covered).numpy()


def _views(sent: Sent, png: Path) -> Path:
    """All views on one sheet; silent cameras are marked."""
    silent = sent.silent
    with canvas(png, png.with_suffix(".svg"), width=6.5, height=2.9) as fig:
        for k, axes in enumerate(fig.subplots(2, 6).flat):
            axes.imshow(_on_white(sent.views[k]), cmap="gray", vmin=0, vmax=1)
            note, colour, edge, width = (", silent", RED, RED, 1.8) if k in silent else ("", BLACK, GREY, 0.6)
            axes.set_title(f"{k}: {sent.step_deg * k:.0f}°{note}", color=colour)
            axes.set(xticks=[], yticks=[])
            axes.grid(False)
            axes.spines[:].set(visible=True, color=edge, linewidth=width)
    return png


def _received(sent: Sent, svg: Path, about: str) -> Path:
    """The server's estimate over the sum of the noiseless latents; the vote's coordinates are the classes."""
    ideal, received = sent.ideal.tolist(), sent.estimate.tolist()
    index = range(len(ideal))
    columns = {"coordinate": index, "ideal": ideal, "received": received, "class": sent.classes}
    with _drawn(svg, columns, f"{about}; {sent.shape.name}", width=5.4, height=3.0, legend=0.2) as axes:
        axes.bar(index, ideal, color=SKY, label="sum of the noiseless latents (never sent)")
        axes.vlines(index, ideal, received, color=RED, linewidth=0.8)
        axes.plot(index, received, "o", color=RED, markersize=3.5, label="what the server receives")
        axes.axhline(0, color=BLACK, linewidth=0.6)
        axes.grid(False, axis="x")
        axes.set(xlabel="coordinate, one for each class", ylabel="value (clip norm = 1)")
        for name in dict.fromkeys((sent.shape.label, sent.label or sent.shape.label)):
            at = sent.classes.index(name)
            x, side = (6, "left") if at < len(ideal) / 2 else (-6, "right")
            axes.annotate(name, (at, max(ideal[at], 0)), (x, -4), textcoords="offset points", ha=side)
        axes.margins(x=0.02)
    return svg


def _claim(found: CheckedClaim, svg: Path, about: str) -> Path:
    """ε against σ, claimed and exact."""
    columns = {name: [number(value) for value in values] for name, values in found.curves.items()}
    own, clip = (found.network.devices.column(name)[0] for name in ("noise_std", "clip_norm"))
    with _drawn(svg, columns, f"{about}; {_DEFAULTS}", height=4.5, legend=0.14) as axes:
        for name, (colour, line, label) in _CLAIM.items():
            x, y = found.curves["noise_std"], found.curves[name]
            axes.plot(x, y, line, color=colour, label=label, markevery=4, markersize=4)
        axes.axvline(own, color=GREY, linewidth=1)
        axes.annotate("the paper's σ", (own, 0.6), xytext=(4, 0), textcoords="offset points", color=GREY, fontsize=8)
        axes.set(xscale="log", yscale="log", ylabel=f"ε of each device at δ = {plain(Claim().delta)}")
        axes.set_xlabel(f"σ, noise per coordinate (clip norm {clip:g})")
    return svg


NETWORK = "network.toml"
DATA = (
    "Test set: the 2,468 official test objects of ModelNet40 (Princeton University, for academic research): the "
    "paper's objects, but not its pictures. Ours are renders of the CAD models, simplified to about 2,000 faces at "
    "most (22 rebuilt from points), by our own renderer. What the cameras' networks make of them ships with airpool, "
    "the objects do not."
)
VOTE = (
    "The vote is our codec, and the baseline of every other: each camera sends its own posterior, and beyond the "
    "cameras' own network only class means are fitted. Below are codecs that were trained through the noise, each "
    "beside the vote of its trunk: q16 on VGG11, as in the paper; compact on ours, EfficientNet-Lite2. Where the "
    "difference is not clearly above zero, this training has bought nothing."
)
SLOTS = (
    "A single slot is loud enough for the hardest object. Instead, every camera may send the same feature up to "
    "sixteen times, each time with four times the noise, and the server stops when it is sure. Promised are the cap, ε "
    "of all sixteen slots, and the budget of a life. The mean is a figure after the fact, promised to no inference: it "
    "says how fast a budget is used up. A hard object is asked about to the end, and has spent its cap."
)
DEFAULTS = (
    "The paper's default network: 12 devices, clip norm 100, weight 1/12, noise variance 0.1, participation 0.9, "
    "q = 16 (r = 784), one inference, δ = 1e-5."
)


def write(demo: Demo, folder: Path) -> dict[str, Path]:
    """Writes the figures and the page; returns the path of each."""
    drawn = draw(demo, folder)
    ours = _at(demo.ours, 2.0)
    text = _dump(ours)
    stated = ours.evaluation.report.statement(source=NETWORK, digest=sha256(text.encode()).hexdigest()).html
    html = render(
        "demo.html",
        demo=demo,
        sent=demo.sent,
        ours=ours,
        stated=stated.encode(),
        paper=_at(demo.paper, 3.9811),
        least=demo.paper.points[0],
        views=[_view(demo.sent, k) for k in range(len(demo.sent.views))],
        drawings={name: path.read_bytes() for name, path in drawn.items()},
        csv={name: path.with_suffix(".csv").read_bytes() for name, path in drawn.items() if name != "views"},
        data=DATA,
        vote=VOTE,
        slots=SLOTS,
        defaults=DEFAULTS,
        repeats=REPEATS,
        tables=tables,
        shown=shown,
        percent="{:.1%}".format,
        dump=_dump,
    )
    written = {"page": ("demo.html", html), "network": (NETWORK, text), "statement": ("statement.html", stated)}
    for name, content in written.values():
        files.write(folder / name, content)
    return {what: folder / name for what, (name, _) in written.items()} | drawn


def _dump(point: Point) -> str:
    return network_file.dump(point.network, point.evaluation.report.claim)


def _view(sent: Sent, k: int) -> Figure:
    angle, silence = f"{sent.step_deg * k:.0f}", ": silent" if k in sent.silent else ""
    alt = f"The {sent.shape.label} from {angle} degrees, as camera {k} sees it"
    return Figure(picture(sent.views[k]), alt, f"camera {k}, {angle}°{silence}")


def _at(curve: Curve, epsilon: float) -> Point:
    """The point whose ε is nearest."""
    return min(curve.points, key=lambda point: abs(point.epsilon - epsilon))
