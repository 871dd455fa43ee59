"""The demo's figures: PNG and SVG in the house style, with their data as CSV."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airpool.account.report import number
from airpool.demo import Demo
from airpool.demo.claim import COVERED, Claim
from airpool.demo.comparison import Curve
from airpool.demo.one_object import STEP_DEG, Sent
from airpool.demo.tables import plain
from airpool.figures import BLACK, BLUE, GREEN, GREY, ORANGE, RED, SKY, canvas, figure, write_csv
from airpool.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

_DEFAULTS = "the paper's defaults: K = 12, C = 100, w = 1/12, p = 0.9, delta = 1e-5, r = 784"


def draw(demo: Demo, folder: Path) -> dict[str, Path]:
    """Writes every figure with its data; returns the path of each drawing."""
    about = f"airpool {__version__}; seed {demo.seed}"
    accuracy = folder / "accuracy.svg"
    rows = [row for curve in (demo.paper, demo.ours) for row in curve.rows()]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    comment = f"{about}; {demo.trials} trials; voxel renders of ModelNet40"
    with _drawn(accuracy, columns, comment, height=4.5) as axes:
        _accuracy(axes, demo.paper, demo.ours)

    heard, sent = folder / "object-heard.svg", demo.sent
    ideal, estimate = sent.ideal.tolist(), sent.estimate.tolist()
    columns = {"coordinate": range(len(ideal)), "ideal": ideal, "heard": estimate}
    with _drawn(heard, columns, f"{about}; {sent.shape.name}", width=5.4, height=3.0) as axes:
        _received(axes, sent)

    claim = folder / "paper-claim.svg"
    columns = {name: [number(value) for value in values] for name, values in demo.claim.curves.items()}
    with _drawn(claim, columns, f"{about}; {_DEFAULTS}", height=4.5) as axes:
        _claim(axes, demo.claim)
    return {"accuracy": accuracy, "views": _views(sent, folder), "heard": heard, "claim": claim}


@contextmanager
def _drawn(svg: Path, columns: Mapping[str, Sequence[Any]], comment: str, **size: float) -> Iterator["Axes"]:
    """Axes whose figure is written as SVG and PNG, with its data."""
    write_csv(svg.with_suffix(".csv"), columns, comment=comment)
    with figure(svg, svg.with_suffix(".png"), **size) as (_, axes):
        yield axes


def _accuracy(axes: "Axes", paper: Curve, ours: Curve) -> None:
    """Accuracy against ε: ours, the paper's network at its claimed and its exact ε, and the paper's printed values."""
    from matplotlib.ticker import NullFormatter, PercentFormatter

    for curve, column, fmt, colour, label in (
        (ours, "epsilon_device", "o-", BLUE, "ours, at its exact ε (zero-out)"),
        (paper, "epsilon_device", "s--", ORANGE, "paper's, at its exact ε (zero-out)"),
        (paper, "epsilon", "^-", RED, "paper's, at its claimed ε"),
    ):
        rows = [point.row() for point in curve.points]
        x, mean, low, high = (
            np.array([row[name] for row in rows]) for name in (column, "accuracy_mean", "accuracy_low", "accuracy_high")
        )
        face = "white" if fmt == "s--" else colour
        look: Any = {"color": colour, "markerfacecolor": face, "capsize": 2.5, "markersize": 5}
        axes.errorbar(x, mean, yerr=np.abs([low - mean, high - mean]), fmt=fmt, label=label, **look)
    in_paper = [(point.epsilon, *point.printed) for point in paper.points if point.printed is not None]
    if in_paper:
        x, mean, std = zip(*in_paper, strict=True)
        axes.errorbar(x, mean, yerr=std, fmt="x", color=BLACK, capsize=2.5, label="printed in the paper (CAD renders)")
    for curve, colour in ((ours, BLUE), (paper, ORANGE)):
        axes.axhline(curve.without_noise.accuracy_mean, color=colour, linestyle=":", linewidth=1.2)
    axes.errorbar([], [], fmt=":", color=GREY, linewidth=1.2, label="without noise, each codec")
    axes.set(xscale="log", ylim=(0, 1), ylabel=f"accuracy on {ours.without_noise.objects:,} test objects")
    axes.set_xlabel(f"ε of each device, one inference, δ = {plain(ours.points[0].network.delta)}")
    axes.set_xticks([0.5, 1, 2, 4, 6, 10], ["0.5", "1", "2", "4", "6", "10"])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def picture(view: "Tensor") -> bytes:
    """A camera's view as a PNG: the shading (H, H), dark on white."""
    from matplotlib.image import imsave

    buffer = BytesIO()
    imsave(buffer, _on_white(view), cmap="gray", vmin=0, vmax=1, format="png")
    return buffer.getvalue()


def _on_white(view: "Tensor") -> NDArray[np.float32]:
    return (0.9 * view).where(view > 0, 1.0).numpy()


def _views(sent: Sent, folder: Path) -> Path:
    """All views on one sheet; silent cameras are marked."""
    png = folder / "object-views.png"
    with canvas(png, png.with_suffix(".svg"), width=6.5, height=2.9) as fig:
        for k, axes in enumerate(fig.subplots(2, 6).flat):
            axes.imshow(_on_white(sent.views[k, 0]), cmap="gray", vmin=0, vmax=1)
            active = sent.on_the_air[k]
            axes.set_title(f"{k}: {STEP_DEG * k:.0f}°" + ("" if active else ", silent"), color=BLACK if active else RED)
            axes.set(xticks=[], yticks=[])
            axes.grid(False)
            axes.spines[:].set(visible=True, color=GREY if active else RED, linewidth=0.6 if active else 1.8)
    return png


def _received(axes: "Axes", sent: Sent) -> None:
    """The server's estimate over the sum of the noiseless latents."""
    ideal, estimate = sent.ideal.numpy(), sent.estimate.numpy()
    index = np.arange(len(ideal))
    axes.bar(index, ideal, color=SKY, label="sum of the noiseless latents (never sent)")
    axes.vlines(index, ideal, estimate, color=RED, linewidth=0.8)
    axes.plot(index, estimate, "o", color=RED, markersize=3.5, label="what the server receives")
    axes.axhline(0, color=BLACK, linewidth=0.6)
    axes.grid(False, axis="x")
    axes.set(xlabel="coordinate of the latent", ylabel="value (clip norm = 1)")
    axes.margins(x=0.02)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


def _claim(axes: "Axes", found: Claim) -> None:
    """ε against σ, claimed and exact."""
    devices = found.network.devices
    for name, colour, line, label in (
        ("remove", RED, "v-", "exact: remove (the paper's own)"),
        ("replace", ORANGE, "s-", "exact: replace"),
        ("zero-out", BLUE, "o-", "exact: zero-out"),
        (COVERED, GREEN, "-.", "exact: zero-out, cover noise"),
        ("theorem 1 (bernstein)", GREY, ":", "Theorem 1, Bernstein's slack"),
        ("theorem 1 (quadratic)", BLACK, "--", "Theorem 1, quadratic slack"),
    ):
        values = found.curves[name]
        axes.plot(found.curves["noise_std"], values, line, color=colour, label=label, markevery=4, markersize=4)
    own = devices.column("noise_std")[0]
    axes.axvline(own, color=GREY, linewidth=1)
    axes.annotate("the paper's σ", (own, 0.6), xytext=(4, 0), textcoords="offset points", color=GREY, fontsize=8)
    axes.set(xscale="log", yscale="log", ylabel=f"ε of each device at δ = {plain(found.network.delta)}")
    axes.set_xlabel(f"σ, noise per coordinate (clip norm {devices.column('clip_norm')[0]:g})")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
