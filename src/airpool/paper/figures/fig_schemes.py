"""Accuracy against ε of Schemes 1, 2.1 and 2.2: the curves that Table 2 has three points of (table_2.py)."""

from airpool.evaluation.sweep import grid
from airpool.paper.figures.description import Result
from airpool.paper.figures.table_2 import SCHEMES, beside_paper, cell, order

EPSILONS = (1.0, 1.5849, 2.5119, 3.9811, 6.3096, 10.0)
POINTS = grid(scheme=SCHEMES, account=["feature", "exact"], epsilon=EPSILONS)
RESULT = Result("fig-schemes", (cell, POINTS), order, drawn=beside_paper)
