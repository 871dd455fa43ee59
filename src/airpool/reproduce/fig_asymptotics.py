"""The error against the number of devices and against depth, beside the paper's bound and the product of norms.

devices   K views of an object, drawn from its twelve, through a network of which something is kept fixed: E‖ẑ − z̄‖²
          over the air, by formula (studies.asymptotics), and the paper's bound on it (paper.mse, no codec).
depth     ReLU networks with L hidden layers, random or trained, on the mean view as a server receives it from twelve
          devices at ε = 2: E‖h_L(ẑ) − h_L(z̄)‖², the same over the spread of h_L(z̄), and ∏‖W‖² E‖ẑ − z̄‖²
          (studies.depth).

A small version of docs/theory.md, section 7. Measured by studies/fig_asymptotics.py.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from airpool.figures import BLACK, BLUE, GREEN, GREY, ORANGE, RED
from airpool.reproduce.description import Result
from airpool.reproduce.plot import Mark, curve, mark
from airpool.reproduce.tables import Rows, column, where
from airpool.reproduce.verdicts import Gain, Judgement, tested

COUNTS, DEPTHS = (12, 25, 50, 100, 200, 500), (1, 2, 4, 8, 16)
TRIALS, NETS = 100, 3  # behind each error: over the air, and against depth
# What stays fixed as devices join; and the networks of every depth. With their colours.
REGIMES = {"fixed σ": RED, "fixed local ε": ORANGE, "fixed device ε": BLUE, "fixed device ε, p = 0.9": GREEN}
KINDS = {"random": BLUE, "trained without noise": RED, "trained with noise": GREEN}
# The largest |ln(y/ŷ)| of what is called a power law.
STRAIGHT = 0.1


class PowerLaw(NamedTuple):
    """y = a x^rate, fitted in logarithms. rate_se: standard error. misfit: the largest |ln(y/ŷ)|."""

    rate: float
    rate_se: float
    misfit: float


def power_law(rows: Rows, name: str = "error", *, weighted: bool = True) -> PowerLaw:
    """The fit of a column against size; weighted: by the errors, whose misfit then widens the standard error."""
    x, y = np.log(column(rows, "size")), np.log(column(rows, name))
    weight = np.array(column(rows, name)) / column(rows, "error_se") if weighted else np.ones_like(y)
    line, cov = np.polyfit(x, y, 1, w=weight, cov="unscaled")
    misfit = y - np.polyval(line, x)
    chi_square = float(np.sum((weight * misfit) ** 2)) / (len(x) - 2)
    se = np.sqrt(cov[0, 0] * (max(1.0, chi_square) if weighted else chi_square))
    return PowerLaw(float(line[0]), float(se), float(np.abs(misfit).max()))


def law(table: Rows, kind: str, name: str = "error") -> str:
    """The power law of a column in K or L, where there is one: every point within STRAIGHT of it."""
    fit = power_law(where(table, kind=kind), name, weighted=name == "error" and kind in REGIMES)
    return "no power law" if fit.misfit > STRAIGHT else f"{'K' if kind in REGIMES else 'L'}^{fit.rate:+.2f}"


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
    fit = power_law(rows)
    low, high = Gain(fit.rate, fit.rate_se, len(rows) * (NETS - 1)).interval()
    return fit.misfit <= STRAIGHT and low > 0.5 and high < 1.5


def marks(table: Rows) -> list[list[Mark]]:
    devices = _curves(table, REGIMES, "exact", slope=-1.0, through="fixed device ε")
    layers = _curves(table, KINDS, "error", slope=1.0, through="trained without noise")
    bounds = {"fixed σ": "the paper's bound, fixed σ", "random": "∏‖W‖₂² · input error, random"}
    above = [
        curve(where(table, kind=kind), "size", "bound", "--", color=GREY, label=label) for kind, label in bounds.items()
    ]
    return [[*devices, above[0]], [*layers, above[1]]]


def _curves(table: Rows, kinds: dict[str, str], line: str, *, slope: float, through: str) -> list[Mark]:
    """The error of each kind, with two standard errors, and the paper's slope through the first point of one."""
    out = []
    for kind, colour in kinds.items():
        rows, name = where(table, kind=kind), law(table, kind)
        label = f"{kind}: " + (f"${name.replace('^', '^{')}}}$" if "^" in name else name)
        bars = [2 * row["error_se"] for row in rows]
        out.append(curve(rows, "size", line, color=colour, label=label))
        look = {"fmt": "o", "color": colour, "markersize": 3.5}
        out.append(mark("errorbar", column(rows, "size"), column(rows, "error"), bars, **look))
    rows = where(table, kind=through)
    sizes = column(rows, "size")
    paper = [rows[0]["error"] * (size / sizes[0]) ** slope for size in sizes]
    letter = "K" if kinds is REGIMES else "L"
    return [*out, mark("plot", sizes, paper, ":", color=BLACK, label=f"the paper: ${letter}^{{{slope:+g}}}$")]


def judge(table: Rows) -> Judgement:
    tests = []
    for kind in (*REGIMES, *KINDS):
        rows = larger_half(table, kind)
        first, last = rows[0], rows[-1]
        numbers = {"kind": kind, "law": law(table, kind), "first": first, "last": last}
        numbers |= {"times": last["size"] / first["size"], "factor": last["error"] / first["error"]}
        if kind in REGIMES:
            tests.append(tested("devices", grows_at_most(rows, -1), **numbers))
        else:
            tests.append(tested("layers", grows_at_most(rows, 1), **numbers))
            tests.append(tested("linear", is_linear(rows), **numbers))
    over = [row["bound"] / row["exact"] for row in where(table, part="devices")]
    deep = where(table, kind="random")[-1]
    spread = ", ".join(f"{law(table, kind, 'to_spread')} ({kind})" for kind in KINDS)
    bounds = ", ".join(dict.fromkeys(law(table, kind, "bound") for kind in REGIMES))
    words = {"straight": STRAIGHT, "spread": spread, "product": deep["bound"] / deep["error"], "deepest": deep["size"]}
    return tests, words | {"least": min(over), "most": max(over), "bounds": bounds}


RESULT = Result("fig-asymptotics", "a study (python -m studies.fig_asymptotics)", marks, judge)
