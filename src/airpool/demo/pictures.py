"""The demo's figures: PNG and SVG in the house style, the data beside each as CSV."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airpool.account.report import number
from airpool.demo.claim import COVERED, Claim
from airpool.demo.comparison import Curve
from airpool.demo.one_object import STEP_DEG, Sent
from airpool.demo.tables import plain
from airpool.figures import BLACK, BLUE, GREEN, GREY, ORANGE, RED, SKY, canvas, figure, write_csv

if TYPE_CHECKING:
    from torch import Tensor


def _both(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.svg", folder / f"{name}.png"


def accuracy(curves: Sequence[Curve], folder: Path, comment: str) -> Path:
    """Accuracy against ε: ours, the paper's network by its claim and by the truth, and what the paper printed."""
    from matplotlib.ticker import NullFormatter, PercentFormatter

    rows = [row for curve in curves for row in curve.rows()]
    write_csv(folder / "accuracy.csv", {name: [row[name] for row in rows] for name in rows[0]}, comment=comment)
    paper, ours = curves
    svg, png = _both(folder, "accuracy")
    with figure(svg, png, width=5.0, height=4.5) as (_, axes):
        for curve, colour in ((ours, BLUE), (paper, ORANGE)):
            axes.axhline(curve.without_noise.accuracy_mean, color=colour, linestyle=":", linewidth=1.2)
        series: list[tuple[Curve, Sequence[float], str, dict[str, Any]]] = [
            (ours, [p.device for p in ours.points], "ours, at its exact ε (zero-out)", {"color": BLUE, "fmt": "o-"}),
            (
                paper,
                [p.device for p in paper.points],
                "paper's, at its exact ε (zero-out)",
                {"color": ORANGE, "fmt": "s--", "markerfacecolor": "white"},
            ),
            (
                paper,
                [p.epsilon for p in paper.points],
                "paper's, at its claimed ε",
                {"color": RED, "fmt": "^-"},
            ),
        ]
        for curve, x, label, look in series:
            mean = np.array([p.evaluation.accuracy_mean for p in curve.points])
            ends = np.array([p.evaluation.accuracy_ci for p in curve.points]).T
            axes.errorbar(x, mean, yerr=np.abs(ends - mean), label=label, capsize=2.5, markersize=5, **look)
        told = [(p.epsilon, *p.printed) for p in paper.points if p.printed is not None]
        if told:
            x, mean, std = zip(*told, strict=True)
            axes.errorbar(
                x, mean, yerr=std, fmt="x", color=BLACK, capsize=2.5, label="printed in the paper (CAD renders)"
            )
        axes.set_xscale("log")
        axes.set_xticks([0.5, 1, 2, 4, 6, 10], ["0.5", "1", "2", "4", "6", "10"])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_xlabel(f"ε of each device, one inference, δ = {plain(ours.points[0].network.delta)}")
        axes.set_ylabel(f"accuracy on {ours.without_noise.objects:,} test objects")
        (dotted,) = axes.plot([], [], ":", color=GREY, linewidth=1.2)
        handles, names = axes.get_legend_handles_labels()
        handles, names = [*handles, dotted], [*names, "without noise, each codec"]
        axes.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    return svg


def picture(view: "Tensor") -> bytes:
    """What a camera sees, as a PNG: the shading (H, H) in ink on white."""
    from matplotlib.image import imsave

    buffer = BytesIO()
    imsave(buffer, _on_white(view), cmap="gray", vmin=0, vmax=1, format="png")
    return buffer.getvalue()


def _on_white(view: "Tensor") -> NDArray[np.float32]:
    return (0.9 * view).where(view > 0, 1.0).numpy()


def views(sent: Sent, folder: Path) -> Path:
    """All views on one sheet, with who was silent."""
    png = folder / "object-views.png"
    with canvas(png, folder / "object-views.svg", width=6.5, height=2.9) as fig:
        for k, axes in enumerate(fig.subplots(2, 6).flat):
            axes.imshow(_on_white(sent.views[k, 0]), cmap="gray", vmin=0, vmax=1)
            spoke = sent.on_the_air[k]
            axes.set_title(f"{k}: {STEP_DEG * k:.0f}°" + ("" if spoke else ", silent"), color=BLACK if spoke else RED)
            axes.set(xticks=[], yticks=[])
            axes.grid(False)
            axes.spines[:].set(visible=True, color=GREY if spoke else RED, linewidth=0.6 if spoke else 1.8)
    return png


def heard(sent: Sent, folder: Path, comment: str) -> Path:
    """The numbers that the server gets, on those that it would get without noise and silence."""
    ideal, received = sent.ideal.numpy(), sent.heard.numpy()
    index = np.arange(len(ideal))
    columns = {"coordinate": index.tolist(), "ideal": ideal.tolist(), "heard": received.tolist()}
    write_csv(folder / "object-heard.csv", columns, comment=comment)
    svg, png = _both(folder, "object-heard")
    with figure(svg, png, width=5.4, height=3.0) as (_, axes):
        axes.bar(index, ideal, color=SKY, label="sum of the clean latents: nobody gets this")
        axes.vlines(index, ideal, received, color=RED, linewidth=0.8)
        axes.plot(index, received, "o", color=RED, markersize=3.5, label="what the server heard")
        axes.axhline(0, color=BLACK, linewidth=0.6)
        axes.grid(False, axis="x")
        axes.set_xlabel("coordinate of the latent")
        axes.set_ylabel("value (clip norm = 1)")
        axes.margins(x=0.02)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return svg


def claim(found: Claim, folder: Path, comment: str) -> Path:
    """ε against σ, claim and truth."""
    look = {
        "remove": (RED, "v-", "true: remove (the paper's own)"),
        "replace": (ORANGE, "s-", "true: replace"),
        "zero-out": (BLUE, "o-", "true: zero-out"),
        COVERED: (GREEN, "-.", "true: zero-out, cover noise"),
        "theorem 1 (bernstein)": (GREY, ":", "Theorem 1, Bernstein's slack"),
        "theorem 1 (quadratic)": (BLACK, "--", "Theorem 1, quadratic slack"),
    }
    columns = {name: [number(value) for value in values] for name, values in found.curves.items()}
    write_csv(folder / "paper-claim.csv", columns, comment=comment)
    svg, png = _both(folder, "paper-claim")
    with figure(svg, png, width=5.0, height=4.5) as (_, axes):
        std = found.curves["noise_std"]
        for name, (colour, line, label) in look.items():
            axes.plot(std, found.curves[name], line, color=colour, label=label, markevery=4, markersize=4)
        own = found.network.devices.column("noise_std")[0]
        axes.axvline(own, color=GREY, linewidth=1)
        axes.annotate("the paper's σ", (own, 0.6), xytext=(4, 0), textcoords="offset points", color=GREY, fontsize=8)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(f"σ, noise per coordinate (clip norm {found.network.devices.column('clip_norm')[0]:g})")
        axes.set_ylabel(f"ε of each device at δ = {plain(found.network.delta)}")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    return svg
