"""Training runs on a packed file: which objects, which plan, and the result.

A plan holds data, architecture and recipe with its seed. Weights on disk of the same plan are not trained again, an
interrupted run resumes, and the weights of another plan are never overwritten.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.files import sha256
from airpool.models import weights
from airpool.models.vision import lite
from airpool.models.vision.features import Images
from airpool.models.vision.mvcnn import TRUNKS, Architecture
from airpool.models.vision.views import Cameras
from airpool_lab.training import card
from airpool_lab.vision import cad
from airpool_lab.vision.cad import SPLITS, Meshes, Split
from airpool_lab.vision.renders import renders
from airpool_lab.vision.training import TrunkRecipe, accuracy, predictions, train

_BATCH = 16  # objects at a time, twelve views each
_MODELNET = "01c00a495697f2a2"  # of the names of ModelNet40's classes


@dataclass(frozen=True, eq=False)
class Source:
    """A packed file, and its rows that are used for each split: all of them, or at most `limit`."""

    path: Path
    sha256: str
    meshes: Meshes
    rows: dict[Split, NDArray[np.intp]]
    limit: int | None

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.meshes.classes.tolist())

    def images(
        self,
        which: Split,
        *,
        resolution: int,
        extra_views: int = 0,
        torch_device: torch.device | str = "cpu",
        on_objects: Callable[[int], None] = lambda _: None,
    ) -> Images:
        """Views of the objects of a split from twelve cameras and some extra ones, rendered now, and their labels."""
        rows, cameras = self.rows[which], Cameras(resolution=resolution)
        views = renders(
            self.meshes, rows, cameras, extra_views=extra_views, torch_device=torch_device, on_objects=on_objects
        )
        return Images(views, torch.from_numpy(self.meshes.label[rows].astype(np.int64)).to(torch_device))

    @property
    def duplicates(self) -> torch.Tensor:
        """Indices, among the test objects that are used, of those that have the mesh of a training object."""
        return torch.from_numpy(np.flatnonzero(self.meshes.twin[self.rows["test"]]))

    def about(self) -> dict[str, Any]:
        """The card's entry on the data. It is ModelNet40 if its classes are."""
        official = hashlib.sha256(",".join(sorted(self.classes)).encode()).hexdigest()[:16] == _MODELNET
        return {
            "file": self.path.name,
            "sha256": self.sha256,
            "objects": len(self.meshes),
            "classes": len(self.classes),
            "limit": self.limit,
            "what": card.RENDERS.format("ModelNet40" if official else "the user's own objects"),
            "licence": card.MODELNET if official else None,
        }

    def record(self) -> dict[str, Any]:
        """Record of the data in a plan."""
        return {"sha256": self.sha256, "objects": self.limit or "all"}

    def split(self) -> dict[str, Any]:
        """The card's entry on the split."""
        how = "about a tenth of the training objects, by a hash of class and name (airpool_lab.vision.cad)"
        none = "none: no training object's name falls into the tenth that is kept aside"
        return {
            **{which: len(rows) for which, rows in self.rows.items()},
            "how": how if len(self.rows["validation"]) else none,
        }


def source(path: Path, *, limit: int | None = None) -> Source:
    """The packed file at this path; with a limit, at most `limit` evenly spaced objects of each split."""
    if limit is not None and limit < 1:
        raise ValueError(f"objects={limit} must be ≥ 1")
    meshes = cad.read(path)
    rows: dict[Split, NDArray[np.intp]] = {which: some_rows(meshes.indices(which), limit) for which in SPLITS}
    if not len(rows["train"]):
        raise ValueError(f"{path} holds no training objects")
    return Source(path, sha256(path), meshes, rows, limit)


@dataclass(frozen=True)
class TrunkPlan:
    """Inputs that determine the weights, up to the last bits on CUDA. imagenet: the file of weights to start from.

    classes: their names, for the file's header; no part of the record.
    """

    data: dict[str, Any]  # of `Source.record`
    architecture: Architecture
    recipe: TrunkRecipe
    imagenet: Path | None = None
    classes: tuple[str, ...] | None = None

    def record(self) -> dict[str, Any]:
        """The plan as JSON returns it."""
        start = {"imagenet": None if self.imagenet is None else sha256(self.imagenet)}
        record = {"data": self.data, "architecture": asdict(self.architecture), "recipe": asdict(self.recipe)}
        return json.loads(json.dumps({**record, "start": start}))

    def start(self) -> dict[str, torch.Tensor] | None:
        """The ImageNet weights, checked to fit the trunk."""
        if self.imagenet is None:
            return None
        if self.architecture.trunk not in lite.SCALES:
            raise ValueError(f"ImageNet weights are for {', '.join(lite.SCALES)}, not for {self.architecture.trunk}")
        found = lite.read_imagenet(self.imagenet)
        try:
            lite.imagenet(TRUNKS[self.architecture.trunk].build(self.architecture), found)
        except ValueError as error:
            raise ValueError(f"{self.imagenet}: {error}") from None
        return found


def made(path: Path, plan: TrunkPlan) -> bool:
    """Whether the weights of this plan are at `path`. Those of another plan, finished or with a checkpoint, are an
    error, and so are ImageNet weights that do not fit."""
    done, begun = path.exists(), path.with_suffix(".plan.json")
    if done or (begun.exists() and path.with_suffix(".checkpoint").exists()):
        was = weights.read(path)[1] if done else json.loads(begun.read_text("utf-8"))
        compare(path if done else begun, was, plan.record())
    if not done:
        plan.start()
    return done


def make(
    path: Path,
    plan: TrunkPlan,
    images: Images,
    validation: Images | None = None,
    *,
    seconds: float = float("inf"),
    log: Callable[[str], None] = lambda _: None,
) -> bool:
    """Trains the weights of this plan into `path`, unless they are there; resumes an interrupted run.

    Meanwhile a checkpoint (0.05 to 0.15 GB) and the plan lie beside them. False where `seconds` were over before.
    """
    checkpoint, begun = path.with_suffix(".checkpoint"), path.with_suffix(".plan.json")
    if not made(path, plan):
        if not begun.exists():  # a checkpoint of an unknown plan
            checkpoint.unlink(missing_ok=True)
        files.write(begun, json.dumps(plan.record()))
        trained = train(
            plan.recipe,
            plan.architecture,
            images,
            imagenet=plan.start(),
            validation=validation,
            checkpoint=checkpoint,
            seconds=seconds,
            log=log,
        )
        if not trained.finished:
            return False
        about = {**plan.record(), "seed": plan.recipe.seed, "history": list(trained.history)}
        if plan.classes is not None:
            about["classes"] = list(plan.classes)
        weights.save(path, trained.model, about)
    for leftover in (checkpoint, begun):
        leftover.unlink(missing_ok=True)
    return True


def result(path: Path, source: Source, *, validation: Images | None, test: Images | None) -> dict[str, Any]:
    """The card's entry on the weights at `path`, measured as they are on disk."""
    device = next((images.views.device for images in (validation, test) if images is not None), "cpu")
    model, about = weights.load(path, device=device)
    validated = tested = None
    if validation is not None:
        validated = accuracy(model, validation, batch=_BATCH)
    if test is not None:
        found, classes = predictions(model, test, batch=_BATCH).argmax(1), source.classes
        tested = card.measured(found, test.labels, classes=classes, duplicates=source.duplicates)
    return {
        "seed": about["seed"],
        "weights": path.name,
        "sha256": sha256(path),
        "seconds": sum(epoch["seconds"] for epoch in about["history"]),
        "validation": validated,
        "test": tested,
    }


def some_rows(rows: NDArray[np.intp], limit: int | None) -> NDArray[np.intp]:
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
