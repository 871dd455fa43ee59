"""The paper's feasible weights for two devices: by Theorem 1 and exactly."""

from pathlib import Path
from typing import Any, Literal

import numpy as np

from airpool.arrays import Floats
from airpool.figures import BLACK, BLUE, GREY, ORANGE, canvas
from airpool.paper import theorem1, weights
from airpool.privacy.calibrate import largest_shift
from airpool.privacy.device import Aggregate, epsilon
from airpool.reproduce.results import OnStep, Rows, as_csv, both, measured, unheard, where
from airpool.reproduce.verdicts import CAPTION, Check, Finding
from airpool.sweep import Table

ID = "fig-feasible"
TITLE = "Feasible weights for two devices"
PAPER = (
    "The weights of K = 2 devices that Theorem 1 allows, w_k ≤ w_max,k, and the line w₁ + w₂ = 1 on which the optimum "
    "lies. Neither ε nor noise is given: here ε = 4 and 10, σ² = 0.1, δ = δ′ = 1e-5 as in its experiments, and C = 1 "
    "(C = 100, as there, makes every limit 100 times smaller, and no weights add up to 1)."
)
SETTING = "No data and no channel: formulas alone."
FRESH = True
Account = Literal["exact", "no slack", "quadratic", "appendix", "statement", "bernstein"]
TARGETS, NOISE_VAR, CLIP_NORM, DELTA = np.array([4.0, 10.0]), 0.1, 1.0, 1e-5
# Theorem 1 is defined at p = 0.9 from about this δ′ on; at 1e-5, which the paper uses, never.
LARGE_DELTA_PRIME = 0.05
APPENDIX = "Appendix on weights, optimisation problem and figure"


def largest_weights(account: Account, *, participation: float, delta_prime: float) -> Floats:
    """w_max of both devices; 0 where Theorem 1 says nothing.

    "no slack" is Theorem 1 with t = 0, as its condition Pr(|μ − μ̄| ≥ t) ≤ δ′ allows where all take part for sure.

    >>> largest_weights("exact", participation=1.0, delta_prime=1e-5).round(4)
    array([0.4136, 0.8946])
    >>> largest_weights("no slack", participation=1.0, delta_prime=1e-5).round(4)
    array([0.3692, 0.9231])
    """
    if account == "exact":
        two = Aggregate(np.ones(2), np.full(2, NOISE_VAR), np.full(2, participation))
        return largest_shift(two, TARGETS, DELTA, "zero-out") / CLIP_NORM
    if account == "no slack":
        if participation != 1:
            raise ValueError(
                f"participation={participation} must be 1: otherwise the noise varies, and t = 0 is not allowed"
            )
        exponent = np.log1p(np.expm1(TARGETS) * (1 - delta_prime))
        return exponent * np.sqrt(2 * NOISE_VAR) / (CLIP_NORM * np.sqrt(2 * np.log(1.25 / DELTA)))
    given: dict[str, Any] = {"clip_norm": CLIP_NORM, "noise_std": np.full(2, NOISE_VAR**0.5), "delta": DELTA}
    return weights.largest_weight(TARGETS, participation=participation, delta_prime=delta_prime, tail=account, **given)


def devices_needed(tail: theorem1.Tail, *, participation: float, delta_prime: float) -> int:
    """The smallest number of like devices for which Theorem 1 says anything, at this noise.

    >>> devices_needed("quadratic", participation=0.9, delta_prime=1e-5)
    6
    """
    count = 1
    while True:
        var, p = np.full(count, NOISE_VAR), np.full(count, participation)
        if float(np.sum(p * var)) > theorem1.slack(var, p, delta_prime, tail):
            return count
        count += 1


def row(*, participation: float, account: Account, delta_prime: float) -> dict[str, Any]:
    """The largest weights, what they truly cost, and how much of the line w₁ + w₂ = 1 they leave."""
    w = largest_weights(account, participation=participation, delta_prime=delta_prime)
    true = epsilon(Aggregate(w * CLIP_NORM, np.full(2, NOISE_VAR), np.full(2, participation)), DELTA).upper
    low, high = max(0.0, 1 - float(w[1])), min(1.0, float(w[0]))
    needed = (
        None
        if account in ("exact", "no slack")
        else devices_needed(account, participation=participation, delta_prime=delta_prime)
    )
    return {
        "weight_1": w[0],
        "weight_2": w[1],
        "target_1": TARGETS[0],
        "target_2": TARGETS[1],
        "epsilon_1": true[0],
        "epsilon_2": true[1],
        "line_from": low if low <= high else None,
        "line_to": high if low <= high else None,
        "all_silent": (1 - participation) ** 2,
        "devices_needed": needed,
    }


def compute(*, seed: int = 0, on_step: OnStep = unheard) -> Table:
    tails: tuple[Account, ...] = ("quadratic", "appendix", "statement", "bernstein")
    points = [
        {"participation": 1.0, "account": "no slack", "delta_prime": DELTA},
        {"participation": 0.9, "account": "quadratic", "delta_prime": LARGE_DELTA_PRIME},
    ]
    for p in (1.0, 0.9):
        points += [{"participation": p, "account": each, "delta_prime": DELTA} for each in ("exact", *tails)]
    return measured(row, points, result=ID, seed=seed, on_step=on_step)


def draw(table: Rows, folder: Path) -> list[Path]:
    files = both(folder, ID)
    panels = (
        (1.0, ("no slack", DELTA), "both always take part", "Theorem 1 (t = 0)"),
        (0.9, ("quadratic", LARGE_DELTA_PRIME), "each takes part with 0.9", f"Theorem 1 at δ′ = {LARGE_DELTA_PRIME:g}"),
    )
    with canvas(*files, width=7.4, height=4.4) as fig:
        for axes, (p, (account, delta_prime), title, label) in zip(
            fig.subplots(1, 2, sharey=True), panels, strict=True
        ):
            (claimed,) = where(table, participation=p, account=account, delta_prime=delta_prime)
            (exact,) = where(table, participation=p, account="exact")
            for found, colour, style, name, wide in (
                (exact, BLUE, "-", "exact, δ = 1e-5", 7),
                (claimed, ORANGE, "--", label, 3),
            ):
                w = found["weight_1"], found["weight_2"]
                axes.fill([0, w[0], w[0], 0], [0, 0, w[1], w[1]], color=colour, alpha=0.15, lw=0)
                axes.plot([0, w[0], w[0]], [w[1], w[1], 0], style, color=colour, label=name)
                if found["line_from"] is not None:
                    ends = np.array([found["line_from"], found["line_to"]])
                    axes.plot(ends, 1 - ends, color=colour, lw=wide, solid_capstyle="butt", zorder=3)
            axes.plot([0, 1], [1, 0], ":", color=GREY, lw=1.2, label="$w_1 + w_2 = 1$")
            axes.plot(0.5, 0.5, "o", color=BLACK, ms=5, label="equal weights")
            axes.set(title=title, xlabel="$w_1$  (ε = 4)", xlim=(0, 1.05), ylim=(0, 1.05), aspect="equal")
            axes.legend(loc="upper right", fontsize=7.5)
        fig.axes[0].set_ylabel("$w_2$  (ε = 10)")
    return [*files, as_csv(table, folder / f"{ID}.csv")]


def finding(table: Rows) -> Finding:
    at_paper = [r for r in table if r["devices_needed"] is not None and r["delta_prime"] == DELTA]
    defined = [r for r in table if r["account"] != "exact" and r["weight_1"] > 0]
    exact = {p: where(table, account="exact", participation=p)[0] for p in (1.0, 0.9)}
    corner = [r[f"epsilon_{k}"] / r[f"target_{k}"] - 1 for r in exact.values() for k in (1, 2)]
    mended = min((r for r in at_paper if r["participation"] == 0.9), key=lambda r: r["devices_needed"])

    def pair(r: dict[str, Any], name: str = "weight", digits: int = 3) -> str:
        return f"({r[f'{name}_1']:.{digits}f}, {r[f'{name}_2']:.{digits}f})"

    def adding(rows: Rows) -> str:
        return ", ".join(f"up to {pair(r)}: {'none' if r['line_from'] is None else 'some'}" for r in rows)

    shrunk = 1 - exact[0.9]["weight_1"] / exact[1.0]["weight_1"]
    return Finding(
        [
            Check(
                "the feasible weights are a box, w_k ≤ w_max,k (exact account)",
                APPENDIX,
                max(map(abs, corner)) < 1e-6,
                f"In its corner, {pair(exact[1.0])} at p = 1 and {pair(exact[0.9])} at p = 0.9, both devices' exact ε "
                f"are their targets to {max(map(abs, corner)):.0e}: neither limit depends on the other's weight.",
            ),
            Check(
                "its sides are found from Theorem 1, given ε",
                CAPTION,
                any(r["weight_1"] > 0 and r["weight_2"] > 0 for r in at_paper),
                "At δ′ = 1e-5, two devices and any noise, Theorem 1 is defined in "
                f"{sum(r['weight_1'] > 0 for r in at_paper)} of {len(at_paper)} cases (p = 1 and 0.9; four forms of t, "
                f"two printed and two mended); the mildest needs {mended['devices_needed']} devices at p = 0.9. Two "
                f"are both silent with probability {mended['all_silent']:.2g}, far above δ′.",
            ),
            Check(
                "weights up to Theorem 1's limit meet ε, where it is defined",
                "Theorem 1",
                all(r[f"epsilon_{k}"] <= r[f"target_{k}"] for r in defined for k in (1, 2)),
                "; ".join(
                    f"{r['account']}, p = {r['participation']:g}, δ′ = {r['delta_prime']:g}: {pair(r)} has exact ε "
                    f"{pair(r, 'epsilon', 2)}"
                    for r in defined
                )
                + f" for targets {pair(table[0], 'target', 0)}.",
            ),
            Check(
                "some weights of the box add up to 1 (Theorem 1 at the paper's δ′)",
                APPENDIX,
                any(r["line_from"] is not None for r in at_paper),
                f"Weights {adding([mended])}.",
            ),
            Check(
                "some weights of the box add up to 1 (exact account)",
                APPENDIX,
                all(r["line_from"] is not None for r in exact.values()),
                f"Weights {adding(list(exact.values()))}.",
            ),
        ],
        more='"no slack" is t = 0, which Theorem 1 allows at p = 1.',
        instead=(
            "Find the sides as roots of the exact ε (design.weights.largest_weight). With few devices let all take "
            f"part: at p = 0.9 the other one's silence takes {shrunk:.0%} of the first device's weight."
        ),
    )
