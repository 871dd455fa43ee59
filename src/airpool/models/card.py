"""What a file of weights is worth: its data, its making and how often it is right, as JSON and as a page to read."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from airpool import files
from airpool.version import __version__

RENDERS = "voxel renders of {} (24³ detail), not CAD renders"
MODELNET = "ModelNet is provided for academic research; its CAD models belong to their authors"

_CONFUSIONS = 10


def measured(found: Tensor, labels: Tensor, *, classes: Sequence[str], duplicates: Tensor) -> dict[str, Any]:
    """How often the classes that were found (N,) are the labels (N,): over objects, over classes, and for each class.

    duplicates: which of the N objects also stand in the training set; everything is told again without them.
    class_mean is over the classes that have objects; the accuracy of one that has none is None.
    confusion: (C, C), rows are labels, columns what was found.
    """
    if found.shape != labels.shape or labels.ndim != 1 or not len(labels):
        raise ValueError(f"found {tuple(found.shape)} and labels {tuple(labels.shape)} must be (N,) both, N ≥ 1")
    found, labels = found.cpu(), labels.cpu()
    unseen = torch.ones(len(labels), dtype=torch.bool)
    unseen[duplicates.cpu()] = False
    confusion = _confusion(found, labels, len(classes))
    return {
        **_accuracy(confusion),
        "without_duplicates": _accuracy(_confusion(found[unseen], labels[unseen], len(classes))),
        "per_class": {
            name: {"objects": int(row.sum()), "accuracy": _share(int(row[i]), int(row.sum()))}
            for i, (name, row) in enumerate(zip(classes, confusion, strict=True))
        },
        "confusion": confusion.tolist(),
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
    """A model card: what was given, and the means and standard deviations over the runs, which differ in their seeds.

    runs: for each, seed, weights (its file), validation (accuracy or None) and test (from `measured`, or None).
    data, split: from `runs.Source`. Of a local head, trunk: SHA-256 of the files it stands on, by name; calibration:
    temperatures (K,), and for validation and test the fields of `local.Calibration`, or None. Of a codec, too, trunk;
    architecture: its shape; air: what its networks have in common in words (`channel`), how many `trials` each object
    has, and for each of the `networks` its exact ε of the worst device and noise_std. Then each run has air, too: for
    each network, and at the end for none at all, validation and test (or None) with accuracy_mean, accuracy_std over
    the trials and class_mean; and validation is that without noise or radio.
    """
    tests = [run["test"] for run in runs if run.get("test")]
    return {
        "name": name,
        "version": __version__,
        "data": dict(data),
        "split": dict(split),
        "architecture": None if architecture is None else dict(architecture),
        "recipe": {key: value for key, value in recipe.items() if key != "seed"},
        "seeds": [run["seed"] for run in runs],
        "validation": _spread([run.get("validation") for run in runs]),
        "test": _summary(tests) if len(tests) == len(runs) else None,
        "trunk": None if trunk is None else dict(trunk),
        "calibration": None if calibration is None else dict(calibration),
        "air": None if air is None else dict(air),
        "runs": [dict(run) for run in runs],
    }


def write(path: Path, card: Mapping[str, Any]) -> tuple[Path, Path]:
    """The card as PATH.json and as PATH.md, each whole or not at all; returns where they are."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in card.items()]
    texts = {".json": "{\n" + ",\n".join(lines) + "\n}\n", ".md": markdown(card)}
    json_file, md_file = (path.with_name(path.name + suffix) for suffix in texts)
    for file, text in zip((json_file, md_file), texts.values(), strict=True):
        files.write(file, text)
    return json_file, md_file


def markdown(card: Mapping[str, Any]) -> str:
    """The card as a page."""
    blocks = [
        f"# {card['name']}",
        f"Trained by airpool {card['version']} on {card['data']['what']}.",
        _table(("", ""), _origins(card)),
        summary(card),
        *(_details(card) if card["test"] else ()),
    ]
    return "\n\n".join(blocks) + "\n"


def summary(card: Mapping[str, Any]) -> str:
    """The part of the page that says how good it is: accuracy, and calibration where there is a local head."""
    calibration = card["calibration"] or {}
    tested = card["test"] or calibration.get("test") or (card.get("air") and card["runs"][0]["air"][0]["test"])
    read = "read afterwards" if tested else "not read"
    accuracy = _over_the_air(card) if card.get("air") else [_table(("", "accuracy"), _accuracies(card))]
    blocks = ["## Accuracy", f"Training saw the train and validation splits alone; the test set was {read}.", *accuracy]
    return "\n\n".join([*blocks, *(_calibration(calibration) if calibration else ())])


def _origins(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    data, split = card["data"], card["split"]
    rows = {
        "file": f"{data['file']}, {data['objects']} objects in {data['classes']} classes",
        "SHA-256": data["sha256"],
        "licence": data["licence"],
        "a trial": data["limit"] and f"at most {data['limit']} objects of each split were used",
        "split": f"train {split['train']}, validation {split['validation']}, test {split['test']} objects",
        "validation split": split["how"],
        "trunk": card["trunk"] and ", ".join(card["trunk"]),
        "architecture": card["architecture"] and _settings(card["architecture"]),
        "recipe": _settings(card["recipe"]),
        "seeds": ", ".join(map(str, card["seeds"])),
        "weights": ", ".join(run["weights"] for run in card["runs"]),
    }
    return [(name, text) for name, text in rows.items() if text]


def _accuracies(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [("validation" + (", mean over devices" if card["calibration"] else ""), card["validation"])]
    if test := card["test"]:
        others, twins = test["without_duplicates"], test["duplicates"]
        rows += [
            (f"test, {test['objects']} objects", test["instance"]),
            ("test, mean over classes", test["class_mean"]),
            (f"test, without the {twins} objects that also stand in the training set", others["instance"]),
            ("the same, mean over classes", others["class_mean"]),
        ]
    return [(name, _shown(spread)) for name, spread in rows]


def _details(card: Mapping[str, Any]) -> list[str]:
    """Each class, and which are taken for which most often, over all seeds."""
    per_class = card["test"]["per_class"]
    names = list(per_class)
    rows = [(name, str(row["objects"]), _number(row["accuracy"])) for name, row in per_class.items()]
    confusion = torch.tensor([run["test"]["confusion"] for run in card["runs"]]).sum(0)
    wrong = [(-int(confusion[i, j]), i, j) for i, j in confusion.nonzero().tolist() if i != j]
    taken = [(names[i], names[j], str(-times)) for times, i, j in sorted(wrong)[:_CONFUSIONS]]
    found = _table(("class", "taken for", "times"), taken) if taken else "None."
    return ["## Classes", _table(("class", "objects", "accuracy"), rows), "## Most frequent confusions", found]


def _calibration(given: Mapping[str, Any]) -> list[str]:
    blocks = [
        "## Calibration of the local head",
        "Expected calibration error, 15 bins: of each device's probabilities as trained, then at its temperature; and "
        "by chance, what perfect probabilities would show with so few objects. On validation, each half of the objects "
        "is measured with temperatures fitted on the other half.",
    ]
    for which in ("validation", "test"):
        if seen := given[which]:
            columns = [seen[key] for key in ("accuracy", "error_raw", "error", "error_by_chance")]
            rows = [
                (str(k), f"{temperature:.3f}", *(_number(column[k]) for column in columns))
                for k, temperature in enumerate(given["temperatures"])
            ]
            rows.append(("mean", "", *(_number(fmean(column)) for column in columns)))
            title = ("device", "temperature", "accuracy", "as trained", "calibrated", "by chance")
            blocks += [f"On {which}, {seen['objects']} objects:", _table(title, rows)]
    return blocks


def _over_the_air(card: Mapping[str, Any]) -> list[str]:
    """A row for each network: its ε and σ, and of each split the accuracy over objects and over classes."""
    air, runs = card["air"], [run["air"] for run in card["runs"]]
    over = f"{len(runs)} seeds" if len(runs) > 1 else f"{air['trials']} draws of the noise"
    splits = [split for split in ("validation", "test") if runs[0][0][split]]
    names = [(f"{each['epsilon']:.4g}", f"{each['noise_std']:.4g}") for each in air["networks"]]
    rows = []
    for i, name in enumerate([*names, ("no noise, no radio", "")]):
        cells = list(name)
        for split in splits:
            seen = [run[i][split] for run in runs]
            mean = _spread([each["accuracy_mean"] for each in seen])
            std = mean["std"] if len(runs) > 1 else seen[0]["accuracy_std"]
            cells.append(_number(mean["mean"]) + ("" if std is None else f" ± {std:.4f}"))
            cells.append(_number(fmean(each["class_mean"] for each in seen)))
        rows.append(cells)
    title = ("ε", "σ", *(head for split in splits for head in (split, "mean over classes")))
    return [f"Over the air: {air['channel']}. ε is exact, of the worst device; ± is over {over}.", _table(title, rows)]


def _confusion(found: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    return torch.bincount(labels * num_classes + found, minlength=num_classes**2).reshape(num_classes, num_classes)


def _accuracy(confusion: Tensor) -> dict[str, Any]:
    right, objects = confusion.diag(), confusion.sum(1)
    there = objects > 0
    return {
        "objects": int(objects.sum()),
        "instance": _share(int(right.sum()), int(objects.sum())),
        "class_mean": float((right[there] / objects[there]).double().mean()) if there.any() else None,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _summary(tests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of one test set, over the runs."""
    first = tests[0]
    return {
        "objects": first["objects"],
        "duplicates": first["objects"] - first["without_duplicates"]["objects"],
        **{key: _spread([test[key] for test in tests]) for key in ("instance", "class_mean")},
        "without_duplicates": {
            key: _spread([test["without_duplicates"][key] for test in tests]) for key in ("instance", "class_mean")
        },
        "per_class": {
            name: {
                "objects": row["objects"],
                "accuracy": _spread([test["per_class"][name]["accuracy"] for test in tests])["mean"],
            }
            for name, row in first["per_class"].items()
        },
    }


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean and sample standard deviation; None where there is nothing, or one value only."""
    there = [value for value in values if value is not None]
    return {
        "mean": fmean(there) if there else None,
        "std": stdev(there) if len(there) > 1 else None,
        "each": list(values),
    }


def _shown(spread: Mapping[str, Any]) -> str:
    if spread["std"] is None:
        return _number(spread["mean"])
    return f"{spread['mean']:.4f} ± {spread['std']:.4f} ({len(spread['each'])} seeds)"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {json.dumps(value)}" for key, value in values.items())


def _table(title: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [title, ["---"] * len(title), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
