"""Participation against the noise on the scores: Theorem 3's bounds, Scheme 2.1, and the exact values."""

from typing import Any

import numpy as np

from airpool.schemes import ranking, threshold
from airpool_lab.paper.figures.description import Judgement, Result, Rows, tested
from airpool_lab.paper.figures.table_1 import DEVICES, TABLE_1, entropies, paper_score
from airpool_lab.paper.formulas import theorem3
from airpool_lab.sweep import grid

GAP = 0.1
STDS = (*np.geomspace(0.01, 2.0, 47).round(5).tolist(), 0.3)
K, SELECTED = len(DEVICES), (6, 11)
# Curves closer than this look the same in the figure.
COINCIDE = 0.01
# The scores that Ψ alone describes: neighbours exactly Ψ apart.
SCORES = GAP * np.arange(K)


def row(*, noise_std: float) -> dict[str, Any]:
    """Theorem 3 as printed, the exact participation of the true set, and Scheme 2.1 at the paper's u_k and at ours."""
    std = np.full(K, noise_std)
    # Where every device is selected the upper bound is the product alone, as the caption describes it.
    every = theorem3.bounds(SCORES, score_noise_std=std, num_selected=K, gap=GAP)
    out: dict[str, Any] = {"printed_lower": every.lower[0], "product": every.upper[0]}
    for number in SELECTED:
        p = ranking.participation(SCORES, score_noise_std=std, num_selected=number)
        union = ranking.union_bounds(SCORES, score_noise_std=std, num_selected=number)
        printed = theorem3.bounds(SCORES, score_noise_std=std, num_selected=number, gap=GAP).upper
        out |= {f"exact_{number}_first": p[0], f"exact_{number}_last": p[number - 1], f"exact_{number}_sum": p.sum()}
        broken = np.sum(p[:number] > printed[:number] + 1e-9)
        out |= {f"union_{number}_last": union.lower[number - 1], f"printed_{number}_broken": int(broken)}
    for eta in TABLE_1:
        at = threshold.participation(paper_score(eta), threshold=eta, score_noise_std=noise_std)
        over = threshold.participation(entropies(), threshold=eta, score_noise_std=noise_std)
        out |= {f"p21_{eta:g}": float(at), f"p21_{eta:g}_objects": over.mean()}
    return out


def judge(table: Rows) -> Judgement:
    noisy = [r for r in table if r["noise_std"] >= 0.3]
    apart = max(r["product"] - r["printed_lower"] for r in noisy)
    below = [r[f"exact_{n}_last"] - r["printed_lower"] for n in SELECTED for r in table]
    short = {n: sum(r[f"exact_{n}_sum"] / K < r["printed_lower"] - 1e-9 for r in table) for n in SELECTED}
    broken = {n: sum(r[f"printed_{n}_broken"] > 0 for r in table) for n in SELECTED}
    # The farthest of the true set from k̃/K, at each σ.
    away = {n: [max(abs(r[f"exact_{n}_{end}"] - n / K) for end in ("first", "last")) for r in noisy] for n in SELECTED}
    tests = [
        tested("coincide", apart <= COINCIDE, apart=apart, coincide=COINCIDE),
        tested("lower", min(below) >= -1e-9, least=min(below), most=max(below)),
        tested("every", False if any(short.values()) else None, short=short),
        tested("upper", not any(broken.values()), broken=broken, sizes=len(table)),
        tested("approaches", all(np.all(np.diff(values) < 0) for values in away.values()), away=away),
    ]
    return tests, {"at": noisy[0], "last": table[-1], "end": {n: away[n][-1] for n in SELECTED}}


RESULT = Result("fig-psigma", (row, grid(noise_std=sorted(STDS))), judge)
