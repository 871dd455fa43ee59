"""The error against the number of devices and against depth, beside the paper's bound and the product of norms.

devices   K views of an object, drawn from its twelve, through a network of which something is kept fixed: E‖ẑ − z̄‖²
          over the air, by formula (studies.asymptotics), and the paper's bound on it (formulas.weights, no codec).
depth     ReLU networks with L hidden layers, random or trained, on the mean view as a server receives it from twelve
          devices at ε = 2: E‖h_L(ẑ) − h_L(z̄)‖², the same over the spread of h_L(z̄), and ∏‖W‖² E‖ẑ − z̄‖²
          (studies.depth).

A small version of docs/theory/accuracy.md, section 7. Measured by studies/fig_asymptotics.py.
"""

from itertools import pairwise

import numpy as np

from airpool_lab.paper.figures.description import Gain, Judgement, Result, Rows, column, tested, where

COUNTS, DEPTHS = (12, 25, 50, 100, 200, 500), (1, 2, 4, 8, 16)
TRIALS, NETS = 100, 3  # behind each error: over the air, and against depth
# What stays fixed as devices join; and the networks of every depth.
REGIMES: tuple[str, ...] = ("fixed σ", "fixed local ε", "fixed device ε", "fixed device ε, p = 0.9")
KINDS = ("random", "trained without noise", "trained with noise")
# The largest |ln(y/ŷ)| of what is called a power law.
STRAIGHT = 0.1


def power_law(rows: Rows, name: str = "error", *, weighted: bool = True) -> tuple[float, float, float]:
    """The exponent of a column as a power of size, fitted in logarithms; its standard error; the largest |ln(y/ŷ)|.

    weighted: by the errors, whose misfit then widens the standard error.
    """
    x, y = np.log(column(rows, "size")), np.log(column(rows, name))
    weight = np.array(column(rows, name)) / column(rows, "error_se") if weighted else np.ones_like(y)
    line, cov = np.polyfit(x, y, 1, w=weight, cov="unscaled")
    misfit = y - np.polyval(line, x)
    chi_square = float(np.sum((weight * misfit) ** 2)) / (len(x) - 2)
    se = np.sqrt(cov[0, 0] * (max(1.0, chi_square) if weighted else chi_square))
    return float(line[0]), float(se), float(np.abs(misfit).max())


def law(table: Rows, kind: str, name: str = "error") -> str:
    """The power law of a column in K or L, where there is one: every point within STRAIGHT of it."""
    rate, _, misfit = power_law(where(table, kind=kind), name, weighted=name == "error" and kind in REGIMES)
    return "no power law" if misfit > STRAIGHT else f"{'K' if kind in REGIMES else 'L'}^{rate:+.2f}"


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
    rate, se, misfit = power_law(rows)
    low, high = Gain(rate, se, len(rows) * (NETS - 1)).interval()
    return misfit <= STRAIGHT and low > 0.5 and high < 1.5


def drawn(table: Rows) -> Rows:
    """Each row with the power law of its kind, and with the paper's through the first row of its kind."""
    out = []
    for row in table:
        first, found = where(table, kind=row["kind"])[0], law(table, row["kind"])
        letter, slope = ("K", -1) if row["part"] == "devices" else ("L", 1)
        paper = first["error"] * (row["size"] / first["size"]) ** slope
        shown = f"${found.replace('^', '^{')}}}$" if "^" in found else found
        out.append(row | {"law": shown, "paper": paper, "letter": letter, "slope": slope})
    return out


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


RESULT = Result("fig-asymptotics", "a study (python -m studies.fig_asymptotics)", judge, drawn)
