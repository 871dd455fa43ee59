"""Training runs on a packed file: which objects, what was made of them already, and what came of it.

A run is known by its plan: data, architecture, and recipe with its seed. Weights on disk that have the same plan are
not made twice, a run that was stopped goes on, and what another plan made is never overwritten or taken for this one's.
"""

import hashlib
import json
from collections.abc import Callable
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
from airpool.data.prepare import holds_meshes
from airpool.data.renders import renders
from airpool.models import card, weights
from airpool.models.train import Images, Recipe, predictions, train
from airpool.models.vgg import MVCNN, Architecture

_BATCH = 16  # objects at a time, twelve views each: 1.5 GB


@dataclass(frozen=True, eq=False)
class Source:
    """A packed file, and the rows of it that are used for each split: all of them, or `limit` at most."""

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
        """What twelve cameras see of the objects of a split, rendered now, and their labels."""
        rows = self.rows[which]
        views = renders(
            self.dataset.objects[rows], resolution=resolution, torch_device=torch_device, on_objects=on_objects
        )
        return Images(views, torch.from_numpy(self.dataset.labels[rows]).to(torch_device))

    @cached_property
    def duplicates(self) -> torch.Tensor:
        """Which of the test objects that are used, counted from 0, also stand in the file's training set."""
        return torch.from_numpy(np.flatnonzero(np.isin(self.rows["test"], modelnet.duplicates(self.dataset))))

    def about(self) -> dict[str, Any]:
        """What a card says of the data. It is ModelNet40 if it has those 40 classes and no others."""
        official = {name.partition("/")[0] for name in modelnet._listed()} == set(self.dataset.classes)
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
        """What a card says of the split."""
        data, aside = self.dataset, self.rows["validation"]
        if not len(aside):
            how = "none: no class has enough training objects to spare one"
        elif f"{data.classes[data.labels[aside[0]]]}/{data.names[aside[0]]}" in modelnet._listed():
            how = "a tenth of the training objects, fixed for good: listed in airpool's data/validation.txt"
        else:
            how = "a tenth of every class's training objects, picked by airpool.data.modelnet.chosen"
        return {**{which: len(rows) for which, rows in self.rows.items()}, "how": how}


def source(path: Path, *, limit: int | None = None) -> Source:
    """The packed file at this path; with a limit, so many objects of each split at most, spread evenly over it."""
    if path.exists() and holds_meshes(path):
        raise ValueError(f"{path} is no packed voxel file: `airpool data prepare` makes one of meshes")
    if limit is not None and limit < 1:
        raise ValueError(f"objects={limit} must be ≥ 1")
    data = dataset.read(path)
    rows: dict[Split, Indices] = {which: some_rows(modelnet.split(data, which), limit) for which in SPLITS}
    if not len(rows["train"]):
        raise ValueError(f"{path} holds no training objects")
    return Source(path, sha256(path), data, rows, limit)


@dataclass(frozen=True)
class Plan:
    """What decides which weights come out, up to the last bits on CUDA."""

    recipe: Recipe
    architecture: Architecture
    sha256: str
    limit: int | None

    def record(self) -> dict[str, Any]:
        """As it comes back from JSON."""
        record = {
            "data": {"sha256": self.sha256, "objects": self.limit or "all"},
            "architecture": asdict(self.architecture),
            "recipe": asdict(self.recipe),
        }
        return json.loads(json.dumps(record))


def made(path: Path, plan: Plan) -> bool:
    """Whether the weights of this plan lie at `path`. Those of another plan, done or begun, are an error."""
    done, begun = path.exists(), _begun(path)
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
    """Trains the weights of this plan into `path`, unless they are there; takes up what was begun.

    Until they are written, whole or not at all, a checkpoint (0.15 GB) and the plan lie beside them; then both go.
    """
    checkpoint = path.with_suffix(".checkpoint")
    if not made(path, plan):
        if not _begun(path).exists():  # whose the checkpoint is, nobody knows
            checkpoint.unlink(missing_ok=True)
        files.write(_begun(path), json.dumps(plan.record()))
        trained = train(plan.recipe, plan.architecture, images, validation=validation, checkpoint=checkpoint, log=log)
        about = {**plan.record(), "seed": plan.recipe.seed, "history": list(trained.history)}
        weights.save(path, trained.model, about)
    for leftover in (checkpoint, _begun(path)):
        leftover.unlink(missing_ok=True)


def result(path: Path, source: Source, *, validation: Images | None, test: Images | None) -> dict[str, Any]:
    """What a card says of the weights at `path`, measured as they lie on disk."""
    shown = [images for images in (validation, test) if images is not None]
    model, about = weights.load(path, device=shown[0].views.device if shown else "cpu")
    validated = tested = None
    if validation is not None:
        validated = float((_found(model, validation) == validation.labels).double().mean())
    if test is not None:
        twins, classes = source.duplicates, source.dataset.classes
        tested = card.measured(_found(model, test), test.labels, classes=classes, duplicates=twins)
    return {
        "seed": about["seed"],
        "weights": path.name,
        "sha256": sha256(path),
        "seconds": sum(epoch["seconds"] for epoch in about["history"]),
        "validation": validated,
        "test": tested,
    }


def _found(model: MVCNN, images: Images) -> torch.Tensor:
    return predictions(model, images, batch=_BATCH).argmax(1)


def some_rows(rows: Indices, limit: int | None) -> Indices:
    """At most so many of the rows, spread evenly: a file is ordered by class."""
    return rows if limit is None or limit >= len(rows) else rows[np.arange(limit) * len(rows) // limit]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _begun(path: Path) -> Path:
    return path.with_suffix(".plan.json")


def compare(path: Path, made: dict[str, Any], plan: dict[str, Any]) -> None:
    """Refuses what was made by another plan, and says in what they differ."""
    for part, wanted in plan.items():
        was = made.get(part) or {}
        for key in sorted(wanted.keys() | was.keys()):
            if was.get(key) != wanted.get(key):
                raise ValueError(
                    f"{path} was made with {part}.{key} = {was.get(key)}, not {wanted.get(key)}: "
                    "ask for the same, remove it, or write elsewhere"
                )
