"""Accuracy against ε for several q at equal leakage, r = 49q: codecs trained on a GPU."""

from typing import Any

import numpy as np

from airpool_lab.paper.figures.description import (
    BY,
    GPU_RUN,
    Gain,
    Judgement,
    Result,
    Rows,
    beats,
    column,
    span,
    tested,
    where,
)

THROUGH, WITHOUT = "through noise", "without noise"


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


def drawn(table: Rows) -> Rows:
    """The means, with the difference to the shortest latent, the standard error, and a place on an axis of lengths."""
    means = over_codecs(table)
    for row in means:
        shortest, *_ = where(means, **{key: row[key] for key in ("trained", "account", "epsilon")})
        row["more"] = row["accuracy"] - shortest["accuracy"]
        row["se"] = row["codec_std"] / row["codecs"] ** 0.5
        row["at"] = np.log2(row["q"]) / 2
    return means


def judge(table: Rows) -> Judgement:
    """Whether the least q beats the largest; errors over trained codecs."""
    means = over_codecs(table)
    least, most = min(column(means, "q")), max(column(means, "q"))
    tests = []
    for trained in (WITHOUT, THROUGH):
        for account, by in BY.items():
            own = where(means, trained=trained, account=account)
            dof = sum(row["codecs"] - 1 for row in own if row["epsilon"] == own[0]["epsilon"])
            losses = []
            for short, long in zip(where(own, q=least), where(own, q=most), strict=True):
                se = short["codec_std"] * (1 / short["codecs"] + 1 / long["codecs"]) ** 0.5
                losses.append(Gain(short["accuracy"] - long["accuracy"], se, dof))
            tests.append(tested("falls", beats(losses), trained=trained, by=by, losses=span(losses)))
    each = where(means, account="exact", epsilon=means[0]["epsilon"], trained=THROUGH)
    codecs = ", ".join(f"q = {row['q']}: {row['codecs']}" for row in each)
    return tests, {"least": least, "most": most, "times": most // least, "codecs": codecs}


RESULT = Result("fig-dim", GPU_RUN, judge, drawn)
