"""From pictures to a model of cameras, with its accuracy on objects that it has not seen, its figure and its card.

    OUT.safetensors       the model
    OUT.md, OUT.json      its card: how it was made, the table, the confusions; the same as data
    OUT.png, OUT.svg      which classes are taken for which
    OUT-objects.csv       the part that every object was in: train, validation or test, or its fold
    OUT.features          what the trunk made of each picture, for the next run: as personal as the pictures

With folds, the accuracy is that of models which were each fitted without one fold, on that fold; the model that is kept
is fitted to all objects afterwards, in the same way, and has no test objects of its own. Without folds, the model is
kept that was fitted to three fifths of the objects, and its accuracy is that on another fifth.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support import figures, files
from airpool._support.progress import Progress, silent
from airpool._support.tensors import sha256
from airpool._support.version import __version__
from airpool.evaluation.pictures import accuracy, card, confusion
from airpool.evaluation.pictures.accuracy import BUDGETS, CameraAccuracy
from airpool.models.codecs.codec import SUFFIX
from airpool.models.images import fitting
from airpool.models.images import trunk as trunks
from airpool.models.images.features import PictureFeatures
from airpool.models.images.pictures import Pictures, require_enough
from airpool.models.images.trunk import ImageTrunk
from airpool.models.sensors import columns, fitted, groups
from airpool.models.sensors.fitted import Fitted
from airpool.models.sensors.fitting import FitRecipe

# Of pictures and the rows to train and validate on, a trunk and what it makes of all of them.
Tuner = Callable[[PictureFeatures, NDArray[np.bool_], NDArray[np.bool_]], tuple[ImageTrunk, PictureFeatures]]


@dataclass(frozen=True)
class CameraJob:
    """out: the model to write. folds: 0 for a single split. budgets: ε of the table, which the codec is trained for.

    tune: trains the trunk further on the pictures of a split; None: it stays as it ships.
    """

    out: Path
    folds: int = 0
    budgets: tuple[float, ...] = BUDGETS
    trials: int = 50
    recipe: FitRecipe = fitting.RECIPE
    tune: Tuner | None = None
    progress: Progress = silent

    def __post_init__(self) -> None:
        if self.out.suffix != SUFFIX:
            raise ValueError(f"{self.out} must end with {SUFFIX}")
        if self.folds != 0 and self.folds < 2:
            raise ValueError(f"folds={self.folds} must be 2 or more, or 0 for a single split")
        if not self.budgets or self.trials < 1:
            raise ValueError(f"trials={self.trials} must be ≥ 1, and there must be an ε")


def make(pictures: Pictures, job: CameraJob, *, source: str) -> tuple[dict[str, Any], list[Path]]:
    """Writes the model and what stands beside it; returns the record of its card, and the files.

    source: a name for the pictures. Raises an error before the work where they are too few, or a file would be lost.
    """
    if job.folds and pictures.split is not None:
        raise ValueError("the pictures come with a split: leave out --folds, or the column split")
    require_enough(pictures.labels, pictures.groups, max(job.folds, 3))
    if job.out.exists():
        fitted.read(job.out)  # nothing but such a model is overwritten
    beside = [job.out.with_suffix(ending) for ending in (".json", ".md", ".png", ".svg")]
    listed = job.out.with_name(job.out.stem + "-objects.csv")
    if not job.out.exists() and (others := [each.name for each in (*beside, listed) if each.exists()]):
        raise ValueError(f"{', '.join(others)} would be overwritten, without {job.out.name} beside: name another --out")
    job.out.parent.mkdir(parents=True, exist_ok=True)
    trunk = trunks.shipped()
    found = fitting.seen(pictures, trunk, cache=job.out.with_suffix(".features"), progress=job.progress)
    parts, results, model = (_folds if job.folds else _single)(found, trunk, job)
    model.save(job.out)
    record = _record(found.pictures, model, results, job, source)
    files.write(beside[0], card.as_json(record))
    files.write(beside[1], card.markdown(record, picture=beside[2].name))
    confusion.draw(record, *beside[2:])
    names = {"object": found.pictures.objects, "class": found.pictures.labels, "group": found.pictures.groups}
    figures.write_csv(listed, {**names, "part": parts})
    return record, [job.out, *beside, listed]


def _single(
    found: PictureFeatures, trunk: ImageTrunk, job: CameraJob
) -> tuple[list[str], list[CameraAccuracy], Fitted]:
    split = _split(found, job.recipe.seed)
    model = _fitted(found, trunk, split, job)
    return split.tolist(), [_measured(model, found, split, job)] if "test" in split else [], model


def _folds(found: PictureFeatures, trunk: ImageTrunk, job: CameraJob) -> tuple[list[str], list[CameraAccuracy], Fitted]:
    labels, group = _numbers(found)
    require_enough(found.pictures.labels, found.pictures.groups, job.folds)
    fold = groups.dealt(labels, group, [str(each) for each in range(job.folds)], seed=job.recipe.seed)
    results = []
    for each in range(job.folds):
        split = _aside(labels, group, test=fold == str(each), seed=job.recipe.seed)
        model = _fitted(found, trunk, split, job)
        results.append(_measured(model, found, split, job))
    everything = _aside(labels, group, test=np.zeros(len(labels), bool), seed=job.recipe.seed)
    return [f"fold {each}" for each in fold.tolist()], results, _fitted(found, trunk, everything, job)


def _aside(labels: NDArray[np.int64], group: NDArray[np.int64], *, test: NDArray[np.bool_], seed: int) -> groups.Names:
    """The split of one fold: of the other groups, one of each class in up to eight validates."""
    rest = ~test
    counts = [len(np.unique(group[rest & (labels == each)])) for each in np.unique(labels)]
    parts = ("validation", *["train"] * (max(1, min(8, *counts) - 1)))
    split = np.full(len(labels), "test", f"<U{len('validation')}")
    split[rest] = groups.dealt(labels[rest], group[rest], parts, seed=seed)
    return split


def _split(found: PictureFeatures, seed: int) -> groups.Names:
    labels, group = _numbers(found)
    return groups.split(labels, group, found.pictures.split, seed=seed)


def _numbers(found: PictureFeatures) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    count = len(found.pictures.objects)
    return columns.classes(found.pictures.labels, count)[1], columns.groups(found.pictures.groups, count)


def _fitted(found: PictureFeatures, trunk: ImageTrunk, split: groups.Names, job: CameraJob) -> Fitted:
    if job.tune is not None:
        trunk, found = job.tune(found, split == "train", split == "validation")
    how: Any = {"epsilon": job.budgets, "recipe": job.recipe, "name": job.out.stem, "progress": job.progress}
    return fitting.fitted(found, trunk, split=split, **how)


def _measured(model: Fitted, found: PictureFeatures, split: groups.Names, job: CameraJob) -> CameraAccuracy:
    present = found.present[split == "test"]
    return accuracy.measured(model, present, budgets=job.budgets, trials=job.trials, seed=job.recipe.seed)


def _record(
    pictures: Pictures, model: Fitted, results: Sequence[CameraAccuracy], job: CameraJob, source: str
) -> dict[str, Any]:
    """All that the card says, as plain data."""
    assert model.trunk is not None
    counts = {label: pictures.labels.count(label) for label in model.classes}
    tested = {"table": accuracy.table(results), "defaults": [each.default for each in results]} if results else {}
    return {
        "name": job.out.stem,
        "version": __version__,
        "source": source,
        "sha256": sha256(job.out),
        "cameras": list(pictures.cameras),
        "classes": counts,
        "groups": len(set(pictures.groups)),
        "pictures": model.about["pictures"]["read"],
        "notes": list(pictures.notes),
        "folds": job.folds,
        "split": model.about["split"],
        "default": model.codecs[0],
        "heads": model.about["heads"],
        "trunk": model.trunk.described(),
        "budgets": list(job.budgets),
        "trials": job.trials,
        "seed": job.recipe.seed,
        "recipe": asdict(job.recipe),
        "tested": sum(each.objects for each in results),
        **tested,
        "confusion": sum((each.confusion for each in results), np.zeros(())).tolist() if results else None,
        "confused_at": min(job.budgets, key=lambda each: abs(each - accuracy.CONFUSED_AT)),
    }
