"""What needs a GPU: runs of studies/train_codecs.py for codecs of several q, as result tables.

    python -m studies.gpu_runs RUNS.json [MORE.json]     # writes results/fig-dim.json and fig-hetero-512.json

Settings of such a run: tE, Theorem 1 claims E (p = 0.9); zE, exact zero-out ε = E (p = 1); hWAY-E, every other device
at an exact ε = E, the others at 10. Of each, accuracy of objects and of classes for several seeds of the noise. A codec
trained for "quiet" alone never met noise.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from airpool._support.version import today
from airpool_lab.paper.figures.description import RESULTS, Rows
from airpool_lab.paper.figures.fig_dim import THROUGH, WITHOUT
from airpool_lab.sweep import Effort, Table

ACCOUNTS = {"t": "theorem 1", "z": "exact"}
TRANSMISSIONS = 20  # of every object, for each seed of the noise


def dimension_rows(runs: list[dict[str, Any]]) -> Rows:
    """One row for each codec (q and seed), account and ε."""
    return [
        _about(run) | {"account": ACCOUNTS[name[0]], "epsilon": float(name[1:])} | _measured(found)
        for run in runs
        for name, found in run["test"].items()
        if name[0] in ACCOUNTS
    ]


def unlike_rows(runs: list[dict[str, Any]], q: int) -> Rows:
    """Of the codecs with this q that met noise: exact, every way; by Theorem 1, uniform alone, the setting tE."""
    rows = []
    for run in (run for run in runs if _q(run) == q and _trained(run) == THROUGH):
        for name, found in run["test"].items():
            if name[0] == "h":
                way, epsilon = name[1:].split("-")
                about = {"account": "exact", "way": way, "epsilon": float(epsilon)}
            elif name[0] == "t":
                about = {"account": "theorem 1", "way": "uniform", "epsilon": float(name[1:])}
            else:
                continue
            rows.append(_about(run) | about | _measured(found))
    return rows


def _q(run: dict[str, Any]) -> int:
    return run["dimension"] // 49


def _trained(run: dict[str, Any]) -> str:
    return WITHOUT if run["train"] == ["quiet"] else THROUGH


def _about(run: dict[str, Any]) -> dict[str, Any]:
    return {"q": _q(run), "dimension": run["dimension"], "trained": _trained(run), "seed": run["seed"]}


def _measured(found: list[list[float]]) -> dict[str, Any]:
    accuracy, class_mean = np.array(found).T
    return {
        "accuracy": float(accuracy.mean()),
        "accuracy_std": float(accuracy.std(ddof=1)),
        "class_mean": float(class_mean.mean()),
        "noise_seeds": len(accuracy),
        "transmissions": TRANSMISSIONS,
    }


def as_table(rows: Rows, runs: list[dict[str, Any]], *, source: str) -> Table:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    effort = Effort(work=sum(run["seconds"] for run in runs), measured=len(rows))
    return Table(
        columns,
        parameters=tuple(
            name for name in ("q", "dimension", "trained", "account", "way", "epsilon") if name in columns
        ),
        failures=(),
        function="studies.train_codecs train",
        seed=0,
        version=", ".join(sorted({run["version"] for run in runs})),
        effort=effort,
        command=f"python -m studies.gpu_runs {source}",
        measured=today(),
        machine="one NVIDIA H200",
    )


def main(*paths: Path, folder: Path = RESULTS) -> None:
    runs = [run for path in paths for run in json.loads(path.read_text("utf-8"))]
    source = " ".join(path.name for path in paths)
    as_table(dimension_rows(runs), runs, source=source).write(folder / "fig-dim.json")
    as_table(unlike_rows(runs, 512), runs, source=source).write(folder / "fig-hetero-512.json")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m studies.gpu_runs RUNS.json [MORE.json]")
    main(*map(Path, sys.argv[1:]))
