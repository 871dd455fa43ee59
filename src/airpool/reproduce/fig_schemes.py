"""Accuracy against ε of Schemes 1, 2.1 and 2.2: the curves that Table 2 has three points of (table_2.py)."""

from airpool.figures import BLACK, BLUE, GREEN, ORANGE, RED
from airpool.paper.accuracy import TABLE_2
from airpool.reproduce.description import Result
from airpool.reproduce.plot import Mark, curve, mark
from airpool.reproduce.table_2 import SCHEMES, Account, cell, gains, order
from airpool.reproduce.tables import Rows, where
from airpool.reproduce.verdicts import Judgement, span
from airpool.sweep import grid

EPSILONS = (1.0, 1.5849, 2.5119, 3.9811, 6.3096, 10.0)
ACCOUNTS: tuple[Account, ...] = ("feature", "exact")
LOOKS = {"1": (BLUE, "o-"), "2.1": (RED, "^-"), "2.2": (GREEN, "s-"), "1, p = 1": (ORANGE, "d--")}


def marks(table: Rows) -> list[list[Mark]]:
    panels = []
    for account in ACCOUNTS:
        panel = []
        for scheme, (colour, style) in LOOKS.items():
            rows = where(table, scheme=scheme, account=account)
            look = {"color": colour, "ms": 4, "capsize": 2}
            label = f"Scheme {scheme}" + (", p = 0.9" if scheme == "1" else "")
            panel.append(curve(rows, "epsilon", "accuracy", style, error="accuracy_std", label=label, **look))
        panel.append(mark("axhline", 1 / 40, color=BLACK, linewidth=0.6, linestyle=":"))
        if account == "feature":
            for scheme, cells in TABLE_2.items():
                means, stds = zip(*cells.values(), strict=True)
                label = "printed in the paper (same colours)" if scheme == "1" else None
                look = {"fmt": "x", "color": LOOKS[scheme][0], "capsize": 2, "label": label}
                panel.append(mark("errorbar", list(cells), means, stds, **look))
        panels.append(panel)
    return panels


def judge(table: Rows) -> Judgement:
    return order(table), {"everybody": span(gains(table, "1, p = 1", "1", "feature"))}


POINTS = grid(scheme=SCHEMES, account=ACCOUNTS, epsilon=EPSILONS)
RESULT = Result("fig-schemes", (cell, POINTS), marks, judge)
