"""Accuracy against ε for several q at equal leakage, r = 49q: codecs trained on a GPU."""

from typing import Any

import numpy as np

from airpool.figures import BLACK, BLUE, GREEN, ORANGE, RED, SKY
from airpool.reproduce.description import GPU_RUN, Result
from airpool.reproduce.plot import Mark, curve, mark
from airpool.reproduce.tables import Rows, column, where
from airpool.reproduce.verdicts import BY, Gain, Judgement, beats, span, tested

THROUGH, WITHOUT = "through noise", "without noise"
COLOURS = (SKY, BLUE, GREEN, ORANGE, RED)
PANELS = (("theorem 1", WITHOUT), ("theorem 1", THROUGH), ("exact", THROUGH))
LINE: dict[str, Any] = {"ms": 3.5, "lw": 1}


def over_codecs(table: Rows) -> Rows:
    """Mean accuracy over the codecs of each q, training, account and ε, and its standard deviation over codecs.

    The deviation is pooled over all q: q = 512 has one codec, and is assumed to vary as the others do.
    """
    keys = ("q", "dimension", "trained", "account", "epsilon")
    groups: dict[tuple[Any, ...], list[float]] = {}
    for row in table:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row["accuracy"])
    out = []
    for key, values in groups.items():
        same = [some for other, some in groups.items() if other[2:] == key[2:]]
        squares = sum(float(np.sum((np.array(some) - np.mean(some)) ** 2)) for some in same)
        pooled = (squares / max(1, sum(len(some) - 1 for some in same))) ** 0.5
        means = {"accuracy": float(np.mean(values)), "codec_std": pooled, "codecs": len(values)}
        out.append(dict(zip(keys, key, strict=True)) | means)
    return out


def marks(table: Rows) -> list[list[Mark]]:
    means = over_codecs(table)
    panels = [_by_epsilon(where(means, account=account, trained=trained)) for account, trained in PANELS]
    return [*panels, _by_length(where(means, account="theorem 1"))]


def _by_epsilon(means: Rows) -> list[Mark]:
    marks = []
    for q, colour in zip(sorted(set(column(means, "q"))), COLOURS, strict=True):
        rows = where(means, q=q)
        label = f"q = {q}, r = {rows[0]['dimension']:,}"
        marks.append(curve(rows, "epsilon", "accuracy", "o-", color=colour, label=label, **LINE))
    return [*marks, mark("axhline", 1 / 40, color=BLACK, linewidth=0.6, linestyle=":")]


def _by_length(means: Rows) -> list[Mark]:
    """The difference to the shortest latent, with two standard errors of each mean."""
    marks = []
    for epsilon, colour in zip((1.0, 2.0, 3.98, 10.0), COLOURS[1:], strict=True):
        for trained, style in ((THROUGH, "o-"), (WITHOUT, "s--")):
            rows = where(means, epsilon=epsilon, trained=trained)
            more = [row["accuracy"] - rows[0]["accuracy"] for row in rows]
            bars = [2 * row["codec_std"] / row["codecs"] ** 0.5 for row in rows]
            look = {"fmt": style, "color": colour, "capsize": 2, **LINE}
            marks.append(mark("errorbar", column(rows, "dimension"), more, bars, **look))
        marks.append(mark("plot", [], [], "o-", color=colour, label=f"ε = {epsilon:g}", **LINE))
    return [*marks, mark("plot", [], [], "s--", color=BLACK, label="trained without noise", **LINE)]


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


def judge(table: Rows) -> Judgement:
    means = over_codecs(table)
    least, most = min(column(means, "q")), max(column(means, "q"))
    tests = []
    for trained in (WITHOUT, THROUGH):
        for account, by in BY.items():
            losses = lost(means, trained=trained, account=account)
            tests.append(tested("falls", beats(losses), trained=trained, by=by, losses=span(losses)))
    each = where(means, account="exact", epsilon=means[0]["epsilon"], trained=THROUGH)
    codecs = ", ".join(f"q = {row['q']}: {row['codecs']}" for row in each)
    return tests, {"least": least, "most": most, "times": most // least, "codecs": codecs}


RESULT = Result("fig-dim", GPU_RUN, marks, judge)
