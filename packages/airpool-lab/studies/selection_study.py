"""Schemes 1, 2.1 and 2.2 at equal total ε, some cameras bad: measured for docs/theory/selection.md, and drawn.

    python -m studies.selection_study              draws from the tables in studies/results, in seconds
    python -m studies.selection_study --fresh      measures them again first, in about ten minutes on one core

Every scheme chooses its parameters on validation objects with cameras gone bad by another seed; the test objects are
read once, at what was chosen, with two draws of bad cameras and three of noise.
"""

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from airpool import Claim, guarantee
from airpool._support.figures import BLACK, BLUE, GREEN, GREY, PURPLE, RED, canvas, space_by_error
from airpool_lab.sweep import grid, run
from studies.selection_contest import TOLD, Candidate, Setting, candidates, claimed, judged, views
from studies.tables import FIGURES, RESULTS, Rows, column, copy_as_csv, rows, save

NAMES = ("selection-study", "selection-search", "selection-paper")

BAD_SHARES, EPSILONS = (0.0, 0.25, 0.5, 0.75), (1.0, 2.0, 4.0, 10.0)
METHODS = ("1", "soft", "2.1", "2.1 cover", "2.2", "oracle")
VALIDATION_SEEDS, TEST_SEEDS, NOISE_SEEDS = (100, 101), (0, 1), (0, 1, 2)
# Far from the seeds above: a generator that picks bad cameras and one that throws coins must not be the same.
VALIDATION_NOISE, TEST_NOISE = 10_000, 20_000
STEPS = {12: 1, 50: 2, 200: 4}  # every so many objects: many devices cost much, and leave little to chance

# Where a scheme that looks at features might win.
SEARCHED: tuple[dict[str, Any], ...] = (
    *({"bad_share": q, "epsilon": e, "num_devices": 50} for q in (0.5, 0.75, 0.9) for e in (1.0, 4.0, 10.0)),
    *({"bad_share": q, "epsilon": e, "num_devices": 200} for q in (0.75, 0.9) for e in (1.0, 4.0, 10.0)),
    {"bad_share": 0.75, "epsilon": 30.0, "num_devices": 200},
    *({"bad_share": q, "epsilon": 30.0, "num_devices": 12} for q in (0.5, 0.75)),
    {"bad_share": 0.75, "epsilon": 20.0, "num_devices": 12, "neighbours": "replace"},
    *({"bad_share": q, "epsilon": 10.0, "num_devices": 12, "fading": "rician"} for q in (0.5, 0.75)),
)
DEFAULTS = {"fading": "none", "neighbours": "zero-out"}


# Measuring


def study_row(
    *, method: str, bad_share: float, epsilon: float, num_devices: int, fading: str, neighbours: Any
) -> dict[str, Any]:
    """One scheme in one setting: what it chose on validation, and how it then does on test."""
    setting = Setting(epsilon, num_devices, fading, neighbours)
    given = {"bad_share": bad_share, "num_devices": num_devices, "step": STEPS[num_devices]}
    return _contest(partial(candidates, method, setting), setting.claim, given)


def paper_row(*, method: str, bad_share: float, epsilon: float) -> dict[str, Any]:
    """The same where the paper's Theorem 1 and lemma say ε; `epsilon_exact` is what it is."""
    given = {"bad_share": bad_share, "num_devices": 12, "step": 1}
    validation = views("validation", seed=VALIDATION_SEEDS[0], **given)
    return _contest(partial(claimed, method, epsilon, validation), Claim(), given)


def _contest(field: Callable[[], Iterable[Candidate]], claim: Claim, given: dict[str, Any]) -> dict[str, Any]:
    drawn = [views("validation", seed=seed, **given) for seed in VALIDATION_SEEDS]
    reference = drawn[0]

    def on_validation(candidate: Candidate) -> list[tuple[float, float]]:
        """Accuracy for each way of telling the decoder its level."""
        found = [
            judged(candidate, seen, reference=reference, seed=VALIDATION_NOISE + at) for at, seen in enumerate(drawn)
        ]
        return [(mean(each.accuracy[told] for each in found), told) for told in TOLD]

    tried = [(*scored, candidate) for candidate in field() for scored in on_validation(candidate)]
    best, told, chosen = max(tried, key=lambda each: each[0])  # the first of equals: Scheme 1, where it is among them
    found = [
        judged(
            chosen,
            views("test", seed=seed, **given),
            reference=reference,
            seed=TEST_NOISE + 10 * seed + noise,
            told=(told,),
        )
        for seed, noise in product(TEST_SEEDS, NOISE_SEEDS)
    ]
    runs = [each.accuracy[told] for each in found]
    network = chosen.network
    return {
        "accuracy_mean": mean(runs),
        "accuracy_std": stdev(runs),
        "validation": best,
        "tried": len(tried),
        "chosen": _words(chosen),
        "told": told,
        "epsilon_exact": guarantee(network, claim).worst,
        "noise_std": network.devices.column("noise_std")[0],
        "score_noise_std": getattr(network.scheme, "score_noise_std", None),
        "energy": mean(each.energy for each in found),
        "runs": runs,
    }


def _words(candidate: Candidate) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in candidate.parameters.items()) or "-"


def measure(results: Path, *, command: str) -> None:
    points = grid(method=METHODS, bad_share=BAD_SHARES, epsilon=EPSILONS, num_devices=12, **DEFAULTS)
    save(run(study_row, points, command=command), results / f"{NAMES[0]}.json")
    points = [
        {"method": method} | DEFAULTS | setting
        for setting in SEARCHED
        for method in (METHODS if setting["num_devices"] == 12 else ("1", "soft", "2.2", "oracle"))
    ]
    save(run(study_row, points, command=command), results / f"{NAMES[1]}.json")
    points = grid(method=["1", "1, p = 1", "2.1", "2.2"], bad_share=[0.0, 0.5, 0.75], epsilon=[4.0, 10.0])
    save(run(paper_row, points, command=command), results / f"{NAMES[2]}.json")


# Drawing

STYLES: dict[str, tuple[str, str, str]] = {
    "1": (BLACK, "o", "Scheme 1"),
    "soft": (GREEN, "s", "Scheme 1, soft weights (no extra leakage)"),
    "2.1": (PURPLE, "v", "Scheme 2.1"),
    "2.1 cover": (RED, "^", "Scheme 2.1, cover noise"),
    "2.2": (BLUE, "D", "Scheme 2.2"),
    "oracle": (GREY, "*", "oracle: knows the bad cameras (no scheme)"),
}


def gain(row: dict[str, Any], reference: dict[str, Any]) -> tuple[float, float]:
    """Mean and spread of the difference in accuracy, run by run: same bad cameras, same seed of noise."""
    away = [a - b for a, b in zip(row["runs"], reference["runs"], strict=True)]
    return mean(away), stdev(away)


def draw(results: Path, figures: Path) -> None:
    copy_as_csv(NAMES, results, figures)
    _draw_study(rows(results / f"{NAMES[0]}.json"), figures)
    _draw_search(rows(results / f"{NAMES[1]}.json"), figures)


def _draw_study(table: Rows, figures: Path) -> None:
    paths = [figures / f"{NAMES[0]}.{ending}" for ending in ("png", "svg")]
    with canvas(*paths, width=8.4, height=6.0) as fig:
        axes = fig.subplots(2, len(BAD_SHARES), sharex=True, sharey="row", height_ratios=(3, 2))
        for at, bad_share in enumerate(BAD_SHARES):
            some = [row for row in table if row["bad_share"] == bad_share]
            _paint_accuracy(axes[0, at], some)
            _paint_gain(axes[1, at], some)
            axes[0, at].set_title(f"{bad_share:.0%} bad cameras" if bad_share else "no bad cameras")
            axes[1, at].set_xlabel("total device ε")
        axes[0, 0].set_ylabel("accuracy (δ = 1e-5)")
        axes[1, 0].set_ylabel("gain over Scheme 1, points")
        space_by_error(axes[0, 0])
        axes[0, 0].set_ylim(0.44, 0.935)
        handles, names = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, names, loc="outside lower center", ncols=3)


def _of(table: Rows, method: str) -> Rows:
    return sorted((row for row in table if row["method"] == method), key=lambda row: row["epsilon"])


def _paint_accuracy(axes: Axes, table: Rows) -> None:
    for method, (colour, marker, label) in STYLES.items():
        some = _of(table, method)
        style = ":" if method == "oracle" else "-"
        axes.errorbar(
            column(some, "epsilon"),
            column(some, "accuracy_mean"),
            column(some, "accuracy_std"),
            color=colour,
            marker=marker,
            markersize=4,
            linestyle=style,
            linewidth=1.2,
            label=label,
        )
    _epsilon_axis(axes)


def _paint_gain(axes: Axes, table: Rows) -> None:
    for method, (colour, marker, _) in STYLES.items():
        some = _of(table, method)
        away = [gain(row, base) for row, base in zip(some, _of(table, "1"), strict=True)]
        points, bars = ([100 * each[i] for each in away] for i in (0, 1))
        style = ":" if method == "oracle" else "-"
        eps = column(some, "epsilon")
        axes.errorbar(eps, points, bars, color=colour, marker=marker, markersize=4, linestyle=style, linewidth=1.2)
    _epsilon_axis(axes)


def _epsilon_axis(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(EPSILONS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{epsilon:g}" for epsilon in EPSILONS])


def _setting(row: dict[str, Any]) -> str:
    more = [row[name] for name, usual in DEFAULTS.items() if row[name] != usual]
    return ", ".join([f"K = {row['num_devices']}", f"{row['bad_share']:.0%} bad", f"ε = {row['epsilon']:g}", *more])


def _draw_search(table: Rows, figures: Path) -> None:
    settings = list(dict.fromkeys(map(_setting, table)))
    paths = [figures / f"{NAMES[1]}.{ending}" for ending in ("png", "svg")]
    with canvas(*paths, width=7.4, height=0.27 * len(settings) + 1.2) as fig:
        axes = fig.subplots()
        base = {_setting(row): row for row in _of(table, "1")}
        for method, (colour, marker, label) in STYLES.items():
            some = [row for row in table if row["method"] == method]
            if method == "1":
                continue
            away = [gain(row, base[_setting(row)]) for row in some]
            at = [settings.index(_setting(row)) for row in some]
            points, bars = ([100 * each[i] for each in away] for i in (0, 1))
            axes.errorbar(points, at, xerr=bars, color=colour, marker=marker, markersize=5, linestyle="", label=label)
        axes.axvline(0, color=BLACK, linewidth=1)
        axes.set_yticks(range(len(settings)), settings)
        axes.invert_yaxis()
        axes.set(xlabel="gain over Scheme 1 at the same total ε, points of accuracy", ylabel="setting")
        fig.legend(loc="outside lower center", ncols=2)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m studies.selection_study")
    parser.add_argument("--fresh", action="store_true", help="measure the tables again")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--figures", type=Path, default=FIGURES)
    given = parser.parse_args(arguments)
    if given.fresh:
        measure(given.results, command="python -m studies.selection_study --fresh")
    draw(given.results, given.figures)
    print(f"drew {', '.join(NAMES[:2])}")


if __name__ == "__main__":
    main()
