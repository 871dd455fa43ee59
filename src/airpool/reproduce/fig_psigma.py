"""The paper's participation against the noise on the scores: Theorem 3's bounds, Scheme 2.1, and the truth."""

from pathlib import Path
from typing import Any

import numpy as np

from airpool.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, canvas
from airpool.paper import theorem3
from airpool.reproduce.results import RENDERS, OnStep, Rows, as_csv, both, column, measured, unheard
from airpool.reproduce.uncertainty import DEVICES, TABLE_1, entropies, paper_score
from airpool.reproduce.verdicts import CAPTION, Check, Finding
from airpool.selection import ranking, threshold
from airpool.sweep import Table, grid

ID = "fig-psigma"
TITLE = "Participation against the noise on the scores"
PAPER = (
    "Theorem 3's bounds on p_k against σ for Ψ = 0.1 and K = 12, with p_k of Scheme 2.1 at η = 0.5 and 0.3. By the "
    "caption of its Table 1, the two bounds coincide for any σ ≥ 0.3."
)
SETTING = RENDERS
FRESH = True
GAP = 0.1
STDS = (*np.geomspace(0.01, 2.0, 47).round(5).tolist(), 0.3)
SELECTED = (6, 11)
# Curves so near each other cannot be told apart in the figure.
COINCIDE = 0.01
# The scores that Ψ alone describes: neighbours exactly Ψ apart.
SCORES = GAP * np.arange(len(DEVICES))


def row(*, noise_std: float) -> dict[str, Any]:
    """Theorem 3 as printed, the exact participation of the true set, and Scheme 2.1 at the paper's u_k and at ours."""
    std = np.full(len(DEVICES), noise_std)
    out: dict[str, Any] = {
        "printed_lower": theorem3.lower(std, gap=GAP),
        # Everybody selected leaves the product alone, the bound that the caption describes.
        "product": theorem3.upper(SCORES, score_noise_std=std, num_selected=len(DEVICES), gap=GAP)[0],
    }
    for number in SELECTED:
        p = ranking.participation(SCORES, score_noise_std=std, num_selected=number)
        union = ranking.union_bounds(SCORES, score_noise_std=std, num_selected=number)
        printed = theorem3.upper(SCORES, score_noise_std=std, num_selected=number, gap=GAP)
        out |= {f"exact_{number}_first": p[0], f"exact_{number}_last": p[number - 1], f"exact_{number}_sum": p.sum()}
        broken = np.sum(p[:number] > printed[:number] + 1e-9)
        out |= {f"union_{number}_last": union.lower[number - 1], f"printed_{number}_broken": int(broken)}
    for eta in TABLE_1:
        at = threshold.participation(paper_score(eta), threshold=eta, score_noise_std=noise_std)
        over = threshold.participation(entropies(), threshold=eta, score_noise_std=noise_std)
        out |= {f"p21_{eta:g}": float(at), f"p21_{eta:g}_objects": over.mean()}
    return out


def compute(*, seed: int = 0, on_step: OnStep = unheard) -> Table:
    return measured(row, grid(noise_std=sorted(STDS)), result=ID, seed=seed, on_step=on_step)


def draw(table: Rows, folder: Path) -> list[Path]:
    files = both(folder, ID)
    std = column(table, "noise_std")
    with canvas(*files, width=7.6, height=4.2) as fig:
        left, right = fig.subplots(1, 2, sharey=True, sharex=True)
        left.plot(std, column(table, "product"), color=BLUE, label="2.2, at most (Theorem 3's product)")
        left.plot(std, column(table, "printed_lower"), "--", color=RED, label="2.2, at least (Theorem 3)")
        for eta, colour, style in ((0.5, GREEN, "-."), (0.3, PURPLE, ":")):
            left.plot(std, column(table, f"p21_{eta:g}"), style, color=colour, label=f"2.1, η = {eta:g}, paper's $u_k$")
            right.plot(
                std, column(table, f"p21_{eta:g}_objects"), style, color=colour, label=f"2.1, η = {eta:g}, our objects"
            )
        for number, colour in ((11, BLUE), (6, ORANGE)):
            ends = [column(table, f"exact_{number}_{which}") for which in ("last", "first")]
            right.fill_between(
                std, *ends, color=colour, alpha=0.35, lw=1, label=f"2.2, {number} of 12: the true set, exact"
            )
            right.plot(
                std, column(table, f"union_{number}_last"), "--", lw=1, color=colour, label="  union bound, below"
            )
            right.axhline(number / 12, color=GREY, lw=0.8, ls=":")
        for axes, title in ((left, "As the paper has it"), (right, "Exact")):
            axes.set(xscale="log", xlabel="σ₀", title=title, ylim=(-0.02, 1.02))
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=7.5)
        left.set_ylabel("$p_k$")
    return [*files, as_csv(table, folder / f"{ID}.csv")]


def finding(table: Rows) -> Finding:
    loud = [r for r in table if r["noise_std"] >= 0.3]
    at, last = loud[0], table[-1]
    apart = max(r["product"] - r["printed_lower"] for r in loud)
    below = [r[f"exact_{n}_last"] - r["printed_lower"] for n in SELECTED for r in table]
    short = {n: sum(r[f"exact_{n}_sum"] / len(DEVICES) < r["printed_lower"] - 1e-9 for r in table) for n in SELECTED}
    broken = {n: sum(r[f"printed_{n}_broken"] > 0 for r in table) for n in SELECTED}
    # The farthest of the true set from k̃/K, at each σ.
    away = {
        n: [max(abs(r[f"exact_{n}_{end}"] - n / len(DEVICES)) for end in ("first", "last")) for r in loud]
        for n in SELECTED
    }

    def ends(row: dict[str, Any], number: int) -> str:
        return f"{row[f'exact_{number}_last']:.2f} to {row[f'exact_{number}_first']:.2f}"

    return Finding(
        [
            Check(
                "the upper and lower bound coincide for any σ ≥ 0.3",
                "Table 1, caption",
                apart <= COINCIDE,
                f"They are at most {apart:.4f} apart there, at 0; required: {COINCIDE:g}.",
            ),
            Check(
                "p_k is at least the lower bound (true set)",
                "Theorem 3, " + CAPTION,
                min(below) >= -1e-9,
                f"The least p_k exceeds it by {min(below):.1e} to {max(below):.2f}.",
            ),
            Check(
                "p_k is at least the lower bound (every device)",
                "Theorem 3",
                False if any(short.values()) else None,
                f"The mean p_k, k̃/K, is below it at {short[11]} values of σ where 11 of 12 are selected and at "
                f"{short[6]} where 6 are. The table has the true set's p_k only.",
            ),
            Check(
                "p_k is at most the upper bound (true set)",
                "Theorem 3, " + CAPTION,
                not any(broken.values()),
                f"The whole printed bound is below the exact p_k of some device at {broken[11]} of {len(table)} values "
                f"of σ where 11 of 12 are selected, at {broken[6]} where 6 are. At σ = {at['noise_std']:g} p_k is "
                f"{ends(at, 11)} and {ends(at, 6)}, the product as drawn {at['product']:.4f}.",
            ),
            Check(
                "with more noise p_k approaches k̃/K",
                "Section V, remark on noise and sorting",
                all(np.all(np.diff(values) < 0) for values in away.values()),
                f"From σ = {at['noise_std']:g} to {last['noise_std']:g} the farthest p_k is {away[11][0]:.2f} to "
                f"{away[11][-1]:.2f} off 11/12, and {away[6][0]:.2f} to {away[6][-1]:.2f} off 6/12.",
            ),
        ],
        more=("Where both bounds are near 0, p_k is not: participations add up to the number selected."),
        instead=(
            "Use the exact integral (selection.ranking.participation). Scheme 2.1's curves are right for one score; "
            f"over real objects participation is a mean: {at['p21_0.5_objects']:.2f} at η = 0.5 and σ₀ = 0.3, where Φ "
            f"at the paper's u_k is {at['p21_0.5']:.2f}."
        ),
    )
