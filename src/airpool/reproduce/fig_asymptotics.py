"""The error against the number of devices and against depth, beside the paper's bound and the product of norms.

devices   K views of an object, drawn from its twelve, through a network of which something is kept fixed: E‖ẑ − z̄‖²
          over the air, by formula (studies.asymptotics), and the paper's bound on it (paper.mse, no codec).
depth     ReLU networks with L hidden layers, random or trained, on the mean view as twelve devices at ε = 2 let a
          server hear it: E‖h_L(ẑ) − h_L(z̄)‖², the same over the spread of h_L(z̄), and
          ∏‖W‖² E‖ẑ − z̄‖² (studies.depth).

A small version of docs/theory.md, section 7, which also has the trunk, views and accuracy. Measured by
studies/fig_asymptotics.py.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from airpool.figures import BLACK, BLUE, GREEN, GREY, ORANGE, RED, canvas
from airpool.reproduce.results import IDEAL, RENDERS, OnStep, Rows, as_csv, both, column, elsewhere, unheard, where
from airpool.reproduce.trends import trend
from airpool.reproduce.verdicts import Check, Finding, Gain
from airpool.sweep import Table

ID = "fig-asymptotics"
TITLE = "The error against the number of devices and against depth"
PAPER = (
    "The paper argues, without a figure or a proof, that the error behaves like O(1/K) in the number of devices and "
    "like O(L) in the number of layers."
)
SETTING = f"{RENDERS} {IDEAL}"
FRESH = False

COUNTS, DEPTHS = (12, 25, 50, 100, 200, 500), (1, 2, 4, 8, 16)
TRIALS, NETS = 100, 3  # behind each error: over the air, and against depth
# What stays as devices join; and the networks of every depth.
REGIMES: tuple[str, ...] = ("fixed σ", "fixed local ε", "fixed device ε", "fixed device ε, p = 0.9")
KINDS = ("random", "trained without noise", "trained with noise")
# The largest |ln(y/ŷ)| of what is called a power law.
STRAIGHT = 0.1
SOURCE = "Section IV, asymptotic analysis"


def compute(*, seed: int = 0, on_step: OnStep = unheard) -> Table:
    raise elsewhere(ID, "a study (python -m studies.fig_asymptotics)")


def law(table: Rows, kind: str, name: str = "error") -> str:
    """The power law of a column in K or L, where there is one: every point within STRAIGHT of a straight line.

    In logarithms; against K weighted by the errors.
    """
    rows = where(table, kind=kind)
    x, y = (np.array(column(rows, key)) for key in ("size", name))
    fit = trend(x, y, std=column(rows, "error_se") if name == "error" and kind in REGIMES else None)
    if np.abs(np.log(y / fit(x))).max() > STRAIGHT:
        return "no power law"
    return f"{'K' if kind in REGIMES else 'L'}^{fit.rate:+.2f}"


def larger_half(table: Rows, kind: str) -> Rows:
    """The rows that an asymptotic statement is judged by."""
    rows = where(table, kind=kind)
    return rows[len(rows) // 2 :]


def grows_at_most(rows: Rows, power: float) -> bool:
    """Whether error/size^power never rises beyond its error from one size to the next."""
    steps = [
        Gain(
            np.log(b["error"] / a["error"]) - power * np.log(b["size"] / a["size"]),
            np.hypot(a["error_se"] / a["error"], b["error_se"] / b["error"]),
            2 * ((TRIALS if a["part"] == "devices" else NETS) - 1),
        )
        for a, b in pairwise(rows)
    ]
    return not any(step.interval(len(steps))[0] > 0 for step in steps)


def is_linear(rows: Rows) -> bool:
    """Whether the error follows a power law in size whose exponent, with its 95 % interval, rounds to 1."""
    x, y = (np.array(column(rows, key)) for key in ("size", "error"))
    fit = trend(x, y, std=column(rows, "error_se"))
    low, high = Gain(fit.rate, fit.rate_se, len(rows) * (NETS - 1)).interval()
    return bool(np.abs(np.log(y / fit(x))).max() <= STRAIGHT and low > 0.5 and high < 1.5)


def draw(table: Rows, folder: Path) -> list[Path]:
    data = as_csv(table, folder / f"{ID}.csv")
    paths = both(folder, ID)
    with canvas(*paths, width=8.4, height=4.4) as fig:
        left, right = fig.subplots(1, 2)
        for kind, colour in zip(REGIMES, (RED, ORANGE, BLUE, GREEN), strict=True):
            _plot(left, table, kind, colour, "exact")
        for kind, colour in zip(KINDS, (BLUE, RED, GREEN), strict=True):
            _plot(right, table, kind, colour, "error")
        _paper(left, where(table, kind="fixed device ε"), COUNTS, -1.0, "the paper: $K^{-1}$")
        _paper(right, where(table, kind="trained without noise"), DEPTHS, 1.0, "the paper: $L^{+1}$")
        rows = where(table, kind="fixed σ")
        left.plot(column(rows, "size"), column(rows, "bound"), "--", color=GREY, label="the paper's bound, fixed σ")
        rows = where(table, kind="random")
        right.plot(column(rows, "size"), column(rows, "bound"), "--", color=GREY, label="∏‖W‖₂² · input error, random")
        left.set(xlabel="K, number of devices", ylabel="E‖ẑ − z̄‖²", title="more devices")
        right.set(xlabel="L, hidden layers", ylabel="E‖h(ẑ) − h(z̄)‖²", title="more layers")
        for axes in (left, right):
            axes.set(xscale="log", yscale="log")
        # Where the product of norms leaves the picture it has long said nothing.
        right.set_ylim(0.1, 1e6)
        for axes in (left, right):
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return [*paths, data]


def _plot(axes: Axes, table: Rows, kind: str, colour: str, line: str) -> None:
    rows = where(table, kind=kind)
    x, name = column(rows, "size"), law(table, kind)
    label = f"{kind}: " + (f"${name.replace('^', '^{')}}}$" if "^" in name else name)
    axes.plot(x, column(rows, line), color=colour, label=label)
    axes.errorbar(
        x, column(rows, "error"), [2 * row["error_se"] for row in rows], fmt="o", color=colour, markersize=3.5
    )


def _paper(axes: Axes, rows: Rows, sizes: tuple[int, ...], power: float, label: str) -> None:
    start = rows[0]["error"]
    axes.plot(sizes, [start * (size / sizes[0]) ** power for size in sizes], ":", color=BLACK, label=label)


def finding(table: Rows) -> Finding:
    checks = []
    for kind in REGIMES:
        rows = larger_half(table, kind)
        found = f"{law(table, kind)}; {_ends(rows, 'K')}."
        checks.append(Check(f"MSE ~ O(1/K) at {kind}", f"{SOURCE}, devices", grows_at_most(rows, -1), found))
    for kind in KINDS:
        rows = larger_half(table, kind)
        found = f"{law(table, kind)}; {_ends(rows, 'L')}."
        checks.append(Check(f"MSE ~ O(L), {kind}", f"{SOURCE}, layers", grows_at_most(rows, 1), found))
        checks.append(Check(f"MSE grows about linearly in L, {kind}", f"{SOURCE}, layers", is_linear(rows), found))
    over = [row["bound"] / row["exact"] for row in where(table, part="devices")]
    deep = where(table, kind="random")[-1]
    spread = ", ".join(f"{law(table, kind, 'to_spread')} ({kind})" for kind in KINDS)
    bounds = ", ".join(dict.fromkeys(law(table, kind, "bound") for kind in REGIMES))
    return Finding(
        checks,
        more=(
            "O(·) is an upper bound: what falls faster satisfies it. It is judged on the larger half of the sizes. A "
            f"power law is named where every point is within {STRAIGHT:.0%} of it. Over the spread of the objects the "
            f"error against depth has {spread}; the product of norms is {deep['bound'] / deep['error']:.1e} times "
            f"the error at L = {deep['size']}. The paper's own bound on the error is {min(over):.1e} to "
            f"{max(over):.1e} times the error here and grows like {bounds}."
        ),
        instead=(
            "Say what is fixed. At fixed device ε the noise falls like 1/K², and with p < 1 the bias (1−p)²‖z̄‖² "
            "stays: scale the weights by 1/p. Train the server with the noise it will meet (docs/theory.md, 7)."
        ),
    )


def _ends(rows: Rows, letter: str) -> str:
    first, last = rows[0], rows[-1]
    times, factor = last["size"] / first["size"], last["error"] / first["error"]
    return f"from {letter} = {first['size']} to {last['size']}, {times:g} times, the error changes {factor:.3g} times"
