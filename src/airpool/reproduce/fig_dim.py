"""Accuracy against ε for several q at equal leakage, r = 49q: codecs trained on a GPU."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from airpool.figures import BLACK, BLUE, GREEN, ORANGE, RED, SKY, canvas
from airpool.reproduce.results import (
    GPU_RUN,
    IDEAL,
    RENDERS,
    OnStep,
    Rows,
    as_csv,
    both,
    column,
    elsewhere,
    unheard,
    where,
)
from airpool.reproduce.verdicts import BY, Check, Finding, Gain, beats, span
from airpool.sweep import Table

ID = "fig-dim"
TITLE = "Accuracy against ε for several lengths of the latent"
PAPER = (
    "Accuracy for several q (r = 49q) at the same leakage; 'performance worsens for higher dimensions due to the "
    "increase in perturbation noise'. No numbers are printed."
)
SETTING = f"{RENDERS} {IDEAL}"
FRESH = False

THROUGH, WITHOUT = "through noise", "without noise"
COLOURS = (SKY, BLUE, GREEN, ORANGE, RED)
PANELS = (
    ("theorem 1", WITHOUT, "Theorem 1, p = 0.9; trained without noise"),
    ("theorem 1", THROUGH, "Theorem 1, p = 0.9; trained through noise"),
    ("exact", THROUGH, "exact, p = 1; trained through noise"),
)


def compute(*, seed: int = 0, on_step: OnStep = unheard) -> Table:
    raise elsewhere(ID, GPU_RUN)


def over_codecs(table: Rows) -> Rows:
    """One row for each q, training, account and ε: mean over the codecs trained, and their standard deviation.

    The deviation is pooled over all q, since q = 512 has one codec: that its codecs spread as the others' is assumed.
    """
    groups: dict[tuple[int, str, str, float], Rows] = {}
    for row in table:
        groups.setdefault((row["q"], row["trained"], row["account"], row["epsilon"]), []).append(row)
    out = []
    for (q, *kind), rows in groups.items():
        alike = [column(some, "accuracy") for key, some in groups.items() if list(key[1:]) == kind]
        squares = sum(float(np.sum((np.array(a) - np.mean(a)) ** 2)) for a in alike)
        pooled = (squares / max(1, sum(len(a) - 1 for a in alike))) ** 0.5
        about = {"q": q, "dimension": rows[0]["dimension"]}
        about |= dict(zip(("trained", "account", "epsilon"), kind, strict=True))
        mean = float(np.mean(column(rows, "accuracy")))
        out.append(about | {"accuracy": mean, "codec_std": pooled, "codecs": len(rows)})
    return out


def draw(table: Rows, folder: Path) -> list[Path]:
    data = as_csv(table, folder / f"{ID}.csv")
    means = over_codecs(table)
    paths = both(folder, ID)
    with canvas(*paths, width=8.0, height=6.6) as fig:
        *panels, last = fig.subplots(2, 2).flat
        for axes, (account, trained, title) in zip(panels, PANELS, strict=True):
            _paint(axes, where(means, account=account, trained=trained))
            axes.set_title(title)
        for axes in (panels[0], panels[2]):
            axes.set_ylabel("accuracy on test objects")
        panels[-1].legend(loc="lower right")
        _paint_lengths(last, where(means, account="theorem 1"))
    return [*paths, data]


def _paint(axes: Axes, means: Rows) -> None:
    for q, colour in zip(sorted(set(column(means, "q"))), COLOURS, strict=True):
        rows = where(means, q=q)
        x, y = column(rows, "epsilon"), column(rows, "accuracy")
        axes.plot(x, y, "o-", color=colour, markersize=3.5, linewidth=1, label=f"q = {q}, r = {rows[0]['dimension']:,}")
    axes.axhline(1 / 40, color=BLACK, linewidth=0.6, linestyle=":")
    axes.set(xscale="log", xlabel="ε of every device, δ = 1e-5", ylim=(0, 0.95))
    axes.set_xticks([1, 2, 4, 6, 10], ["1", "2", "4", "6", "10"])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)


def _paint_lengths(axes: Axes, means: Rows) -> None:
    """The difference to the shortest latent, with two standard errors of each mean."""
    for epsilon, colour in zip((1.0, 2.0, 3.98, 10.0), COLOURS[1:], strict=True):
        for trained, style in ((THROUGH, "o-"), (WITHOUT, "s--")):
            rows = where(means, epsilon=epsilon, trained=trained)
            more = [row["accuracy"] - rows[0]["accuracy"] for row in rows]
            bars = [2 * row["codec_std"] / row["codecs"] ** 0.5 for row in rows]
            axes.errorbar(column(rows, "dimension"), more, bars, fmt=style, color=colour, ms=3.5, capsize=2, lw=1)
        axes.plot([], [], "o-", color=colour, markersize=3.5, linewidth=1, label=f"ε = {epsilon:g}")
    axes.plot([], [], "s--", color=BLACK, markersize=3.5, linewidth=1, label="trained without noise")
    axes.set(xscale="log", xlabel="r = 49q", ylabel="accuracy, less that of q = 1", title="Theorem 1, against r")
    axes.legend(loc="lower left")


def lost(means: Rows, *, trained: str, account: str) -> list[Gain]:
    """The accuracy that the least q has over the largest, at each ε; errors over trained codecs."""
    own = where(means, trained=trained, account=account)
    least, most = min(column(own, "q")), max(column(own, "q"))
    dof = sum(row["codecs"] - 1 for row in own if row["epsilon"] == own[0]["epsilon"])
    return [
        Gain(
            short["accuracy"] - long["accuracy"],
            short["codec_std"] * (1 / short["codecs"] + 1 / long["codecs"]) ** 0.5,
            dof,
        )
        for short in where(own, q=least)
        for long in where(own, q=most, epsilon=short["epsilon"])
    ]


def finding(table: Rows) -> Finding:
    means = over_codecs(table)
    least, most = min(column(means, "q")), max(column(means, "q"))
    checks = []
    for trained in (WITHOUT, THROUGH):
        for account, by in BY.items():
            losses = lost(means, trained=trained, account=account)
            says = f"accuracy falls as q grows at the same leakage (codecs trained {trained}, {by})"
            found = f"q = {least} over q = {most}: {span(losses)}."
            checks.append(Check(says, "Section VI, footnote", beats(losses), found))
    each = where(means, account="exact", epsilon=means[0]["epsilon"], trained=THROUGH)
    codecs = [f"q = {row['q']}: {row['codecs']}" for row in each]
    return Finding(
        checks,
        more=(
            f"The paper does not say whether its codecs met noise in training. q = {most} brings {most // least} times "
            "the noise energy; a decoder of few directions hears only the noise in those (our guess, not measured). "
            f"Codecs, each way: {', '.join(codecs)}; errors are pooled "
            "over all q."
        ),
        instead="Train encoder and decoder through the noise; choose r by what it costs to send, here as small as 40.",
    )
