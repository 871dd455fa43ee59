"""Accuracy against ε of Schemes 1, 2.1 and 2.2: the curves that Table 2 has three points of (table_2.py)."""

from airpool.figures import BLACK, BLUE, GREEN, ORANGE, RED
from airpool.paper.accuracy import TABLE_2
from airpool.reproduce.plot import EPSILON_AXIS, Panel, Picture, curve, mark
from airpool.reproduce.result import Measurement, Result
from airpool.reproduce.table_2 import SCHEMES, Account, cell, gains, order
from airpool.reproduce.tables import Rows, where
from airpool.reproduce.verdicts import Judgement, span
from airpool.sweep import grid

EPSILONS = (1.0, 1.5849, 2.5119, 3.9811, 6.3096, 10.0)
ACCOUNTS: dict[Account, str] = {
    "feature": "the paper's account: Theorem 1, features alone",
    "exact": "exact account, scores included",
}
LOOKS = dict(zip(SCHEMES, ((BLUE, "o-"), (RED, "^-"), (GREEN, "s-"), (ORANGE, "d--")), strict=True))


def picture(table: Rows) -> Picture:
    panels = []
    for account, title in ACCOUNTS.items():
        marks = []
        for scheme, (colour, style) in LOOKS.items():
            rows = where(table, scheme=scheme, account=account)
            look = {"color": colour, "ms": 4, "capsize": 2}
            label = f"Scheme {scheme}" + (", p = 0.9" if scheme == "1" else "")
            marks.append(curve(rows, "epsilon", "accuracy", style, error="accuracy_std", label=label, **look))
        marks.append(mark("axhline", 1 / 40, color=BLACK, linewidth=0.6, linestyle=":"))
        if account == "feature":
            for scheme, cells in TABLE_2.items():
                means, stds = zip(*cells.values(), strict=True)
                label = "printed in the paper (same colours)" if scheme == "1" else None
                look = {"fmt": "x", "color": LOOKS[scheme][0], "capsize": 2, "label": label}
                marks.append(mark("errorbar", list(cells), means, stds, **look))
        axes = {"xlabel": "ε of the worst device, δ = 1e-5", "ylabel": "accuracy on test objects", "ylim": (0, 0.95)}
        panels.append(Panel(marks, EPSILON_AXIS | axes | {"title": title}, {"loc": "lower right"}))
    return Picture(panels, (8.0, 4.0), columns=2, share={"sharey": True})


def judge(table: Rows) -> Judgement:
    return Judgement(order(table), {"everybody": span(gains(table, "1, p = 1", "1", "feature"))})


POINTS = grid(scheme=SCHEMES, account=list(ACCOUNTS), epsilon=EPSILONS)
RESULT = Result("fig-schemes", Measurement(cell, POINTS), picture, judge)
