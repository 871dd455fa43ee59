"""Feasible weights for two devices: by Theorem 1 and exactly."""

from itertools import count
from typing import Any, Literal

import numpy as np

from airpool._support.arrays import Floats
from airpool.account import theorem1
from airpool.privacy.calibrate import largest_shift
from airpool.privacy.device import Aggregate, epsilon
from airpool_lab.paper.figures.description import Judgement, Result, Rows, tested, where
from airpool_lab.paper.formulas import weights
from airpool_lab.sweep import grid

Account = Literal["exact", "no slack", "quadratic", "appendix", "statement", "bernstein"]
ACCOUNTS: tuple[Account, ...] = ("exact", "quadratic", "appendix", "statement", "bernstein")
TARGETS, NOISE_VAR, DELTA = np.array([4.0, 10.0]), 0.1, 1e-5
# At p = 0.9 Theorem 1 is defined for two devices from about this δ′ on; at the paper's 1e-5 it never is.
LARGE_DELTA_PRIME = 0.05
PANELS = ((1.0, "no slack", DELTA), (0.9, "quadratic", LARGE_DELTA_PRIME))


def largest_weights(account: Account, *, participation: float, delta_prime: float) -> Floats:
    """w_max of both devices; 0 where Theorem 1 is undefined.

    "no slack" is Theorem 1 with t = 0, as its condition Pr(|μ − μ̄| ≥ t) ≤ δ′ allows where p = 1.

    >>> largest_weights("exact", participation=1.0, delta_prime=1e-5).round(4)
    array([0.4136, 0.8946])
    >>> largest_weights("no slack", participation=1.0, delta_prime=1e-5).round(4)
    array([0.3692, 0.9231])
    """
    if account == "exact":
        two = Aggregate(np.ones(2), np.full(2, NOISE_VAR), np.full(2, participation))
        return largest_shift(two, TARGETS, DELTA, "zero-out")
    if account == "no slack":
        if participation != 1:
            raise ValueError(f"participation={participation} must be 1: t = 0 needs noise that does not vary")
        exponent = np.log1p(np.expm1(TARGETS) * (1 - delta_prime))
        return exponent * np.sqrt(2 * NOISE_VAR) / np.sqrt(2 * np.log(1.25 / DELTA))
    return weights.largest_weight(
        TARGETS,
        clip_norm=1.0,
        noise_std=np.full(2, NOISE_VAR**0.5),
        participation=participation,
        delta=DELTA,
        delta_prime=delta_prime,
        tail=account,
    )


def row(*, participation: float, account: Account, delta_prime: float) -> dict[str, Any]:
    """The largest weights, their exact ε, and the part of the line w₁ + w₂ = 1 that they leave.

    devices_needed: the smallest number of equal devices for which Theorem 1 is defined, at this noise.
    """

    def defined(K: int, tail: theorem1.Tail) -> bool:
        slack = theorem1.slack(np.full(K, NOISE_VAR), np.full(K, participation), delta_prime, tail)
        return K * participation * NOISE_VAR > slack

    w = largest_weights(account, participation=participation, delta_prime=delta_prime)
    true = epsilon(Aggregate(w, np.full(2, NOISE_VAR), np.full(2, participation)), DELTA).upper
    low, high = max(0.0, 1 - float(w[1])), min(1.0, float(w[0]))
    needed = None
    if account not in ("exact", "no slack"):
        needed = next(K for K in count(1) if defined(K, account))
    both = {"weight": w, "target": TARGETS, "epsilon": true}
    return {f"{name}_{k}": values[k - 1] for name, values in both.items() for k in (1, 2)} | {
        "line_from": low if low <= high else None,
        "line_to": high if low <= high else None,
        "all_silent": (1 - participation) ** 2,
        "devices_needed": needed,
    }


def drawn(table: Rows) -> Rows:
    """For each panel both boxes: the corners of its area, its edge, and the ends of its part of the line."""
    out: Rows = []
    for p, account, delta_prime in PANELS:
        for box, name, at in (("exact", "exact", DELTA), ("claimed", account, delta_prime)):
            (found,) = where(table, participation=p, account=name, delta_prime=at)
            x, y = found["weight_1"], found["weight_2"]
            ends = [] if found["line_from"] is None else [found["line_from"], found["line_to"]]
            edge = [(0, y), (x, y), (x, 0)]
            parts = {"area": [(0, 0), *edge[::-1]], "edge": edge, "line": [(end, 1 - end) for end in ends]}
            for part, points in parts.items():
                out += [{"participation": p, "box": box, "part": part, "x": x, "y": y} for x, y in points]
    return out


def judge(table: Rows) -> Judgement:
    def pair(r: dict[str, Any], name: str = "weight", digits: int = 3) -> str:
        return f"({r[f'{name}_1']:.{digits}f}, {r[f'{name}_2']:.{digits}f})"

    def on_line(rows: Rows) -> str:
        return ", ".join(f"up to {pair(r)}: {'none' if r['line_from'] is None else 'some'}" for r in rows)

    at_paper = [r for r in table if r["devices_needed"] is not None and r["delta_prime"] == DELTA]
    defined = [r for r in table if r["account"] != "exact" and r["weight_1"] > 0]
    exact = [where(table, account="exact", participation=p)[0] for p in (1.0, 0.9)]
    off = max(abs(r[f"epsilon_{k}"] / r[f"target_{k}"] - 1) for r in exact for k in (1, 2))
    mildest = min((r for r in at_paper if r["participation"] == 0.9), key=lambda r: r["devices_needed"])
    meets = all(r[f"epsilon_{k}"] <= r[f"target_{k}"] for r in defined for k in (1, 2))
    setting = "{account}, p = {participation:g}, δ′ = {delta_prime:g}"
    cost = "; ".join(f"{setting.format(**r)}: {pair(r)} has exact ε {pair(r, 'epsilon', 2)}" for r in defined)
    sides = [r for r in at_paper if r["weight_1"] > 0 and r["weight_2"] > 0]
    tests = [
        tested("box", off < 1e-6, corner=pair(exact[0]), smaller=pair(exact[1]), off=off),
        tested("sides", bool(sides), defined=len(sides), cases=len(at_paper), mildest=mildest),
        tested("meets", meets, cost=cost, targets=pair(table[0], "target", 0)),
        tested("line_paper", any(r["line_from"] is not None for r in at_paper), on_line=on_line([mildest])),
        tested("line_exact", all(r["line_from"] is not None for r in exact), on_line=on_line(exact)),
    ]
    return tests, {"shrunk": 1 - exact[1]["weight_1"] / exact[0]["weight_1"]}


POINTS = [{"participation": p, "account": account, "delta_prime": at} for p, account, at in PANELS]
POINTS += grid(participation=[1.0, 0.9], account=ACCOUNTS, delta_prime=[DELTA])
RESULT = Result("fig-feasible", (row, POINTS), judge, drawn)
