"""The card of a model of cameras: a page of Markdown, the same as JSON, and the figure of its confusions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from airpool._support import figures
from airpool.models.images.pictures import named

NO_NOISE = "no noise"
_CONFUSIONS = 10


def cell(value: dict[str, Any] | None) -> str:
    """A number of the table as it is printed.

    >>> cell({"mean": 0.98125, "std": 0.027, "each": []}), cell({"mean": 1.0, "std": None, "each": []}), cell(None)
    ('.981 ± .027', '1.000', '')
    """
    if value is None:
        return ""
    numbers = [value["mean"]] + ([] if value["std"] is None else [value["std"]])
    return " ± ".join(f"{each:.3f}".removeprefix("0") for each in numbers)


def header(record: Mapping[str, Any]) -> list[str]:
    """Columns of the table."""
    return ["", *(f"ε={each:g}" for each in record["budgets"]), NO_NOISE]


def rows(record: Mapping[str, Any]) -> list[list[str]]:
    """The table as it is printed."""
    columns = [*(f"{each:g}" for each in record["budgets"]), NO_NOISE]
    return [[name, *(cell(found.get(each)) for each in columns)] for name, found in record.get("table", {}).items()]


def how_measured(record: Mapping[str, Any]) -> str:
    """The way in which the accuracy was obtained, in words."""
    draws = f"{record['trials']} draws of the noise"
    beside = "One camera: alone, and not private. Chance: always the most frequent class."
    if record["folds"]:
        return (
            f"Mean ± standard deviation over {record['folds']} folds, {draws}. The objects, whole groups of them, were "
            f"dealt into {record['folds']} parts; for each, a model was fitted without it and tested on it: "
            f"{record['tested']} test objects in all. The model in the file was fitted in the same way to all objects "
            f"afterwards: no test of its own remains, and with more to learn from it should do no worse. {beside}"
        )
    if not record["tested"]:
        return "Nothing was tested: the pictures come with a split without test objects."
    return (
        f"On {record['tested']} test objects that nothing was fitted to or chosen by, {draws}. One object more or "
        f"less is {1 / record['tested']:.3f}; `--folds 5` tests on all of them. {beside}"
    )


def markdown(record: Mapping[str, Any], *, picture: str) -> str:
    """The page. picture: the figure's file."""
    trunk, heads, name = record["trunk"], record["heads"], record["name"]
    kind = "trained further on these pictures, weights in the file" if trunk["own"] else "frozen"
    facts = {
        "pictures": f"{record['pictures']} of {sum(record['classes'].values())} objects by "
        f"{len(record['cameras'])} cameras ({named(record['cameras'])}), from {record['source']}",
        "classes": ", ".join(f"{label} {count}" for label, count in record["classes"].items()),
        "groups": f"{record['groups']}, none of them on two sides of a split",
        "trunk": f"EfficientNet-{trunk['name'].capitalize()}, ImageNet weights (Apache-2.0), {kind}; SHA-256 "
        f"{trunk['sha256'][:16]}…",
        "heads": f"{'one for all cameras' if heads['alike'] else 'one for each camera'}, linear, a temperature each",
        "codecs": f"the vote and a trained codec; default: {record['default']}",
        "seed, version": f"{record['seed']}, airpool {record['version']}",
        "file": f"SHA-256 {record['sha256'][:16]}…",
    }
    lines = [f"# {name}", "", "|  |  |", "| --- | --- |"]
    lines += [f"| {key} | {_plain(value)} |" for key, value in facts.items()]
    if record["notes"]:
        lines += ["", "Left out or joined:", "", *(f"- {_plain(note)}" for note in record["notes"])]
    lines += ["", "## Accuracy", "", how_measured(record), ""]
    if table := rows(record):
        lines += [f"| {' | '.join(header(record))} |", "|" + " --- |" * len(header(record))]
        lines += [f"| {' | '.join(row)} |" for row in table]
        lines += ["", "ε is exact, of each camera and inference (δ = 1e-5, zero-out); ideal channel, equal devices."]
        lines += ["", f"![Confusions]({picture})", "", *_confusions(record)]
    tested = "" if record["folds"] else f"    airpool evaluate --model {name}.safetensors --epsilon 2\n"
    return "\n".join(lines) + "\n" + _CARE.format(name=name) + tested


def _confusions(record: Mapping[str, Any]) -> list[str]:
    counts, names = np.array(record["confusion"]), list(record["classes"])
    wrong = [(counts[i, j], i, j) for i in range(len(names)) for j in range(len(names)) if i != j and counts[i, j] > 0]
    if not wrong:
        return [f"No confusions at ε = {record['confused_at']:g}."]
    lines = [f"| class | taken for, at ε = {record['confused_at']:g} | objects |", "| --- | --- | --- |"]
    worst = sorted(wrong, key=lambda each: (-each[0], each[1:]))[:_CONFUSIONS]
    return lines + [f"| {_plain(names[i])} | {_plain(names[j])} | {count:.2f} |" for count, i, j in worst]


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


_CARE = """
## Read with care

The accuracy holds for objects like these, seen by these cameras in this light. Another place needs pictures of its own.

The file holds no picture. Of held-out objects it holds class, local posteriors and latents: as personal as what the
cameras saw. `{name}.features` holds what the trunk made of every picture; delete it when no run is to follow.

    airpool bundle --model {name}.safetensors --images FOLDER --out {name}.zip
"""


_WRITTEN = 15  # classes, beyond which numbers in the cells could not be read


def draw(record: Mapping[str, Any], *paths: Path) -> None:
    """Draws the confusions of a record, as shares of each class; nothing where nothing was tested."""
    if record["confusion"] is None:
        return
    counts, names = np.array(record["confusion"]), list(record["classes"])
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1e-12)
    size = 2.2 + 0.34 * min(len(names), 40)
    with figures.figure(*paths, width=size + 1.6, height=size) as (_, axes):
        shown = axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
        axes.figure.colorbar(shown, label="share of the class", shrink=0.8)
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel(f"answer at ε = {record['confused_at']:g}")
        axes.set_ylabel("class")
        axes.grid(visible=False)
        for i, j in np.argwhere(share >= 0.005).tolist() if len(names) <= _WRITTEN else ():
            text = f"{share[i, j]:.2f}".removeprefix("0")
            axes.text(j, i, text, ha="center", va="center", fontsize=7, color="white" if share[i, j] > 0.5 else "black")
