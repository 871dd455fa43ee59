"""Model cards: data, training and accuracy of a file of weights, as JSON and as a page (card.md.jinja)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from airpool._support import files
from airpool._support.rounding import up
from airpool._support.version import __version__

RENDERS = "renders of the CAD models of {}"
MODELNET = "ModelNet is provided for academic research; its CAD models belong to their authors"

_CONFUSIONS = 10
_TEMPLATE = "card.md.jinja"


def measured(found: Tensor, labels: Tensor, *, classes: Sequence[str], duplicates: Tensor) -> dict[str, Any]:
    """Accuracy of the classes found (N,) against labels (N,): over objects, over classes, and of each class.

    duplicates: indices of objects that also stand in the training set; the accuracies are given without them, too.
    class_mean is over the classes that have objects; the accuracy of one that has none is None.
    confusion: (C, C), rows are labels, columns what was found.
    """
    if found.shape != labels.shape or labels.ndim != 1 or not len(labels):
        raise ValueError(f"found {tuple(found.shape)} and labels {tuple(labels.shape)} must be (N,) both, N ≥ 1")
    pairs = labels.cpu() * len(classes) + found.cpu()
    unseen = torch.ones(len(labels), dtype=torch.bool)
    unseen[duplicates.cpu()] = False
    whole, rest = (
        torch.bincount(each, minlength=len(classes) ** 2).reshape(len(classes), -1) for each in (pairs, pairs[unseen])
    )
    per_class = {}
    for i, (name, row) in enumerate(zip(classes, whole.tolist(), strict=True)):
        per_class[name] = {"objects": sum(row), "accuracy": row[i] / sum(row) if sum(row) else None}
    return {
        **_accuracy(whole),
        "without_duplicates": _accuracy(rest),
        "per_class": per_class,
        "confusion": whole.tolist(),
    }


def card(
    *,
    name: str,
    data: Mapping[str, Any],
    split: Mapping[str, Any],
    recipe: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    architecture: Mapping[str, Any] | None = None,
    trunk: Mapping[str, str] | None = None,
    calibration: Mapping[str, Any] | None = None,
    air: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A model card: what is given, and means and standard deviations over the runs, which differ in their seeds.

    runs: for each, seed, weights (its file), validation (accuracy or None) and test (from `measured`, or None).
    data, split: from `runs.Source`. Of a local head, trunk: SHA-256 of the files it stands on, by name; calibration:
    temperatures (K,), and for validation and test the fields of `local.Calibration`, or None. Of a codec, too, trunk;
    architecture: its shape; air: `channel` in words, `trials` of each object, and for each of the `networks` the exact
    ε of the worst device and noise_std. Then each run has air, too: for each network, and at the end for none,
    validation and test (or None) with accuracy_mean, accuracy_std over the trials and class_mean.
    """
    tests = [run["test"] for run in runs if run.get("test")]
    return {
        "name": name,
        "version": __version__,
        "data": dict(data),
        "split": dict(split),
        "architecture": dict(architecture) if architecture else None,
        "recipe": {key: value for key, value in recipe.items() if key != "seed"},
        "seeds": [run["seed"] for run in runs],
        "validation": spread([run.get("validation") for run in runs]),
        "test": _summary(tests) if len(tests) == len(runs) else None,
        "trunk": dict(trunk) if trunk else None,
        "calibration": dict(calibration) if calibration else None,
        "air": dict(air) if air else None,
        "runs": [dict(run) for run in runs],
    }


def write(path: Path, card: Mapping[str, Any]) -> tuple[Path, Path]:
    """Writes the card as PATH.json and as PATH.md; returns both paths."""
    json_file, md_file = (path.with_name(path.name + suffix) for suffix in (".json", ".md"))
    files.write(json_file, as_json(card))
    files.write(md_file, markdown(card))
    return json_file, md_file


def as_json(card: Mapping[str, Any]) -> str:
    """The card as JSON, a line for each entry."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in card.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def markdown(card: Mapping[str, Any]) -> str:
    """The card as a page."""
    return _template().render(_context(card)).rstrip() + "\n"


def summary(card: Mapping[str, Any]) -> str:
    """The part of the page about accuracy and, of a local head, calibration."""
    template = _template()
    return "".join(template.blocks["summary"](template.new_context(_context(card)))).strip()


def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("airpool.models", "."),
        undefined=StrictUndefined,
        finalize=lambda value: value.replace("|", r"\|") if isinstance(value, str) else value,
    )
    environment.filters |= {
        "mean": fmean,
        "number": _number,
        "settings": lambda values: ", ".join(f"{key} {json.dumps(value)}" for key, value in values.items()),
        "spread": lambda values: (
            _number(values["mean"])
            + ("" if values["std"] is None else f" ± {values['std']:.4f} ({len(values['each'])} seeds)")
        ),
    }
    return environment.get_template(_TEMPLATE)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _context(card: Mapping[str, Any]) -> dict[str, Any]:
    """Context of the template: the card, and values derived from it."""
    runs, air, test = card["runs"], card.get("air"), card["test"]
    confusions, rows, splits, over = [], [], [], ""
    if test:
        names = list(test["per_class"])
        confusion = torch.tensor([run["test"]["confusion"] for run in runs]).sum(0)
        wrong = [(-int(confusion[i, j]), i, j) for i, j in confusion.nonzero().tolist() if i != j]
        confusions = [(names[i], names[j], -times) for times, i, j in sorted(wrong)[:_CONFUSIONS]]
    if air:
        over = f"{len(runs)} seeds" if len(runs) > 1 else f"{air['trials']} draws of the noise"
        splits = [split for split in ("validation", "test") if runs[0]["air"][0][split]]
        named = [{"epsilon": up(each["epsilon"]), "noise_std": f"{each['noise_std']:.4g}"} for each in air["networks"]]
        for i, network in enumerate([*named, {"epsilon": "no noise, no radio", "noise_std": ""}]):
            seen = [[run["air"][i][split] for run in runs] for split in splits]
            rows.append({**network, "cells": [_over_runs(each) for each in seen]})
    return {
        **card,
        "air": air,
        "air_rows": rows,
        "splits": splits,
        "over": over,
        "confusions": confusions,
        "tested": test or (card["calibration"] or {}).get("test") or "test" in splits,
        "columns": ("accuracy", "error_raw", "error", "error_by_chance"),
    }


def _over_runs(seen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Accuracy of one network over the runs; the deviation of a single run is that over its trials."""
    found = spread([each["accuracy_mean"] for each in seen])
    std = found["std"] if len(seen) > 1 else seen[0]["accuracy_std"]
    return {"mean": found["mean"], "std": std, "class_mean": fmean(each["class_mean"] for each in seen)}


def _accuracy(confusion: Tensor) -> dict[str, Any]:
    right, objects = confusion.diag(), confusion.sum(1)
    count, there = int(objects.sum()), objects > 0
    return {
        "objects": count,
        "instance": int(right.sum()) / count if count else None,
        "class_mean": float((right[there] / objects[there]).double().mean()) if count else None,
    }


def _summary(tests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summary of one test set, over the runs."""

    def spreads(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {key: spread([test[key] for test in each]) for key in ("instance", "class_mean")}

    first, unseen = tests[0], [test["without_duplicates"] for test in tests]
    per_class = {}
    for name, row in first["per_class"].items():
        mean = spread([test["per_class"][name]["accuracy"] for test in tests])["mean"]
        per_class[name] = {"objects": row["objects"], "accuracy": mean}
    return {
        "objects": first["objects"],
        "duplicates": first["objects"] - unseen[0]["objects"],
        **spreads(tests),
        "without_duplicates": spreads(unseen),
        "per_class": per_class,
    }


def spread(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean and sample standard deviation; None where there is nothing, or one value only."""
    there = [value for value in values if value is not None]
    return {
        "mean": fmean(there) if there else None,
        "std": stdev(there) if len(there) > 1 else None,
        "each": list(values),
    }
