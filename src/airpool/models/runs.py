"""Training runs on a packed file: which objects, which plan, and the result.

A plan holds data, architecture and recipe with its seed. Weights on disk of the same plan are not trained again, an
interrupted run resumes, and the weights of another plan are never overwritten.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from airpool import files
from airpool.data import dataset, modelnet
from airpool.data.dataset import Dataset
from airpool.data.modelnet import SPLITS, Indices, Split
from airpool.data.tensors import sha256
from airpool.data.views import renders
from airpool.models import card, weights
from airpool.models.features import Images
from airpool.models.train import Recipe, accuracy, predictions, train
from airpool.models.vgg import Architecture

_BATCH = 16  # objects at a time, twelve views each: 1.5 GB


@dataclass(frozen=True, eq=False)
class Source:
    """A packed file, and its rows that are used for each split: all of them, or at most `limit`."""

    path: Path
    sha256: str
    dataset: Dataset
    rows: dict[Split, Indices]
    limit: int | None

    def images(
        self,
        which: Split,
        *,
        resolution: int,
        torch_device: torch.device | str = "cpu",
        on_objects: Callable[[int], None] = lambda _: None,
    ) -> Images:
        """Views of the objects of a split from twelve cameras, rendered now, and their labels."""
        rows = self.rows[which]
        views = renders(
            self.dataset.objects[rows], resolution=resolution, torch_device=torch_device, on_objects=on_objects
        )
        return Images(views, torch.from_numpy(self.dataset.labels[rows]).to(torch_device))

    @cached_property
    def duplicates(self) -> torch.Tensor:
        """Indices, among the test objects that are used, of those that also stand in the file's training set."""
        return torch.from_numpy(np.flatnonzero(np.isin(self.rows["test"], modelnet.duplicates(self.dataset))))

    def about(self) -> dict[str, Any]:
        """The card's entry on the data. It is ModelNet40 if it has exactly those 40 classes."""
        official = {name.partition("/")[0] for name in modelnet.listed()} == set(self.dataset.classes)
        return {
            "file": self.path.name,
            "sha256": self.sha256,
            "objects": len(self.dataset),
            "classes": len(self.dataset.classes),
            "limit": self.limit,
            "what": card.RENDERS.format("ModelNet40" if official else "somebody's own objects"),
            "licence": card.MODELNET if official else None,
        }

    def split(self) -> dict[str, Any]:
        """The card's entry on the split."""
        data, aside = self.dataset, self.rows["validation"]
        if not len(aside):
            how = "none: no class has enough training objects to spare one"
        elif f"{data.classes[data.labels[aside[0]]]}/{data.names[aside[0]]}" in modelnet.listed():
            how = "a fixed tenth of the training objects: listed in airpool's data/validation.txt"
        else:
            how = "a tenth of every class's training objects, picked by airpool.data.modelnet.chosen"
        return {**{which: len(rows) for which, rows in self.rows.items()}, "how": how}


def source(path: Path, *, limit: int | None = None) -> Source:
    """The packed file at this path; with a limit, at most so many evenly spaced objects of each split."""
    if limit is not None and limit < 1:
        raise ValueError(f"objects={limit} must be ≥ 1")
    data = dataset.read(path)
    rows: dict[Split, Indices] = {which: some_rows(modelnet.split(data, which), limit) for which in SPLITS}
    if not len(rows["train"]):
        raise ValueError(f"{path} holds no training objects")
    return Source(path, sha256(path), data, rows, limit)


@dataclass(frozen=True)
class Plan:
    """What determines the weights, up to the last bits on CUDA."""

    recipe: Recipe
    architecture: Architecture
    sha256: str
    limit: int | None

    def record(self) -> dict[str, Any]:
        """The plan as JSON returns it."""
        data = {"sha256": self.sha256, "objects": self.limit or "all"}
        record = {"data": data, "architecture": asdict(self.architecture), "recipe": asdict(self.recipe)}
        return json.loads(json.dumps(record))


def made(path: Path, plan: Plan) -> bool:
    """Whether the weights of this plan are at `path`. Those of another plan, finished or begun, are an error."""
    done, begun = path.exists(), path.with_suffix(".plan.json")
    if done or begun.exists():
        was = weights.read(path)[1] if done else json.loads(begun.read_text("utf-8"))
        compare(path if done else begun, was, plan.record())
    return done


def make(
    path: Path,
    plan: Plan,
    images: Images,
    validation: Images | None = None,
    *,
    log: Callable[[str], None] = lambda _: None,
) -> None:
    """Trains the weights of this plan into `path`, unless they are there; resumes an interrupted run.

    Meanwhile a checkpoint (0.15 GB) and the plan lie beside them.
    """
    checkpoint, begun = path.with_suffix(".checkpoint"), path.with_suffix(".plan.json")
    if not made(path, plan):
        if not begun.exists():  # a checkpoint of an unknown plan
            checkpoint.unlink(missing_ok=True)
        files.write(begun, json.dumps(plan.record()))
        trained = train(plan.recipe, plan.architecture, images, validation=validation, checkpoint=checkpoint, log=log)
        about = {**plan.record(), "seed": plan.recipe.seed, "history": list(trained.history)}
        weights.save(path, trained.model, about)
    for leftover in (checkpoint, begun):
        leftover.unlink(missing_ok=True)


def result(path: Path, source: Source, *, validation: Images | None, test: Images | None) -> dict[str, Any]:
    """The card's entry on the weights at `path`, measured as they are on disk."""
    device = next((images.views.device for images in (validation, test) if images is not None), "cpu")
    model, about = weights.load(path, device=device)
    validated = tested = None
    if validation is not None:
        validated = accuracy(model, validation, batch=_BATCH)
    if test is not None:
        found, classes = predictions(model, test, batch=_BATCH).argmax(1), source.dataset.classes
        tested = card.measured(found, test.labels, classes=classes, duplicates=source.duplicates)
    return {
        "seed": about["seed"],
        "weights": path.name,
        "sha256": sha256(path),
        "seconds": sum(epoch["seconds"] for epoch in about["history"]),
        "validation": validated,
        "test": tested,
    }


def some_rows(rows: Indices, limit: int | None) -> Indices:
    """At most `limit` of the rows, evenly spaced: a file is ordered by class."""
    return rows if limit is None or limit >= len(rows) else rows[np.arange(limit) * len(rows) // limit]


def compare(path: Path, made: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    """Raises an error that says how the plan that made `path` differs from this one."""
    for part, wanted in plan.items():
        was = made.get(part) or {}
        for key in sorted(wanted.keys() | was.keys()):
            if was.get(key) != wanted.get(key):
                raise ValueError(
                    f"{path} was made with {part}.{key} = {was.get(key)}, not {wanted.get(key)}: "
                    "ask for the same, remove it, or write elsewhere"
                )
