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
import torch
from numpy.typing import NDArray
from torch import Tensor

from airpool._support import figures, files
from airpool._support.brief import Brief
from airpool._support.files import sha256
from airpool._support.progress import Progress, silent
from airpool._support.version import __version__
from airpool.account.calibration import calibrate
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.models.codecs.codec import SUFFIX
from airpool.models.codecs.training import decoded, setting
from airpool.models.images import fitting
from airpool.models.images import trunk as trunks
from airpool.models.images.features import PictureFeatures
from airpool.models.images.pictures import Pictures, require_enough
from airpool.models.images.trunk import ImageTrunk
from airpool.models.model import Model
from airpool.models.sensors import fitted
from airpool.models.sensors.fitted import Fitted
from airpool.models.sensors.fitting import FitRecipe, Names, class_of, dealt, dealt_out, group_of
from airpool.network import Network
from airpool_lab.pictures import card
from airpool_lab.pictures.card import NO_NOISE
from airpool_lab.training.card import as_json, spread

CODECS = ("vote", "compact")
BUDGETS = (0.5, 1.0, 2.0, 4.0, 8.0)
CONFUSED_AT = 2.0  # ε of the confusion figure, or the budget that is nearest

# Names of the rows: the model's default codec, then both, then what needs no radio.
DEFAULT, ONE_CAMERA, CHANCE = "the model", "one camera", "chance"


@dataclass(frozen=True, eq=False, repr=False)
class CameraAccuracy(Brief):
    """Of the test objects of one model. rows: accuracy by name and column; confusion: (C, C), of labels and answers, in
    objects, at one ε."""

    rows: dict[str, dict[str, float]]
    confusion: NDArray[np.float64]
    objects: int
    default: str


def measured(
    model: Model, present: NDArray[np.bool_], *, budgets: Sequence[float], trials: int, seed: int = 0
) -> CameraAccuracy:
    """Accuracy on the test objects. present: (N, K) of these, whether a camera had a picture of it."""
    held = model.held_out("test")
    labels, devices = held.labels, model.num_devices
    rows: dict[str, dict[str, float]] = {name: {} for name in (DEFAULT, *CODECS)}
    confusion = np.zeros((len(model.classes),) * 2)
    at = min(budgets, key=lambda each: abs(each - CONFUSED_AT))
    for name in CODECS:
        net = Network.uniform(num_devices=devices, dimension=model.codec(name).dimension)
        for epsilon in budgets:
            noisy = calibrate(net, epsilon=epsilon)
            found = evaluate(held_out(model, noisy, codec=name), noisy, trials=trials, seed=seed)
            rows[name][f"{epsilon:g}"] = found.accuracy_mean
            if name == model.codecs[0] and epsilon == at:
                confusion = _confusion(model, noisy, labels, trials=trials, seed=seed)
        sent = model.held_out("test", codec=name).latents
        exact = EncodedObjects(sent, labels, model.codec(name).server)
        rows[name][NO_NOISE] = evaluate(exact, net, instead="centralised", trials=1).accuracy_mean
    rows[DEFAULT] = dict(rows[model.codecs[0]])
    right = (held.posteriors.argmax(-1) == labels[:, None]).numpy()
    rows[ONE_CAMERA] = {NO_NOISE: float(right[present].mean())}
    rows[CHANCE] = {NO_NOISE: float(labels.bincount().max() / len(labels))}
    return CameraAccuracy(rows, confusion, len(labels), model.codecs[0])


def table(found: Sequence[CameraAccuracy]) -> dict[str, dict[str, dict[str, Any]]]:
    """Mean and, over several folds, standard deviation of every row and column."""
    rows = found[0].rows
    return {row: {column: spread([one.rows[row][column] for one in found]) for column in rows[row]} for row in rows}


@torch.no_grad()
def _confusion(model: Model, network: Network, labels: Tensor, *, trials: int, seed: int) -> NDArray[np.float64]:
    """(C, C) in objects: how many of each class (rows) are taken for which, on average over the noise."""
    codec, sent = model.codec(), model.held_out("test").latents
    rng = torch.Generator().manual_seed(seed)
    answers = decoded(codec, sent, setting(network), rng, trials=trials).argmax(-1)  # (N, trials)
    classes = len(model.classes)
    pairs = (labels[:, None] * classes + answers).flatten()
    return pairs.bincount(minlength=classes**2).reshape(classes, classes).numpy() / trials


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
    parts, splits = _splits(found.pictures, job)
    fits = [_fitted(found, trunk, split, job) for split in splits]
    results, model = [accuracy for _, accuracy in fits if accuracy is not None], fits[-1][0]
    model.save(job.out)
    record = _record(found.pictures, model, results, job, source)
    files.write(beside[0], as_json(record))
    files.write(beside[1], card.markdown(record, picture=beside[2].name))
    card.draw(record, *beside[2:])
    names = {"object": found.pictures.objects, "class": found.pictures.labels, "group": found.pictures.groups}
    figures.write_csv(listed, {**names, "part": parts})
    return record, [job.out, *beside, listed]


def _splits(pictures: Pictures, job: CameraJob) -> tuple[list[str], list[Names]]:
    """The part of every object, for the list; and the splits to fit to, the last for the model that is kept."""
    count, seed = len(pictures.objects), job.recipe.seed
    labels, group = class_of(pictures.labels, count)[1], group_of(pictures.groups, count)
    if not job.folds:
        split = dealt_out(labels, group, pictures.split, seed=seed)
        return split.tolist(), [split]
    require_enough(pictures.labels, pictures.groups, job.folds)
    fold = dealt(labels, group, [str(each) for each in range(job.folds)], seed=seed)
    tests = [*(fold == str(each) for each in range(job.folds)), np.zeros(count, bool)]
    return [f"fold {each}" for each in fold.tolist()], [_aside(labels, group, test=test, seed=seed) for test in tests]


def _aside(labels: NDArray[np.int64], group: NDArray[np.int64], *, test: NDArray[np.bool_], seed: int) -> Names:
    """The split of one fold: of the other groups, one of each class in up to eight validates."""
    rest = ~test
    counts = [len(np.unique(group[rest & (labels == each)])) for each in np.unique(labels)]
    parts = ("validation", *["train"] * (max(1, min(8, *counts) - 1)))
    split = np.full(len(labels), "test", f"<U{len('validation')}")
    split[rest] = dealt(labels[rest], group[rest], parts, seed=seed)
    return split


def _fitted(
    found: PictureFeatures, trunk: ImageTrunk, split: Names, job: CameraJob
) -> tuple[Fitted, CameraAccuracy | None]:
    """The model of a split, and its accuracy on the test objects, if there are any."""
    present, name, budgets = found.present[split == "test"], job.out.stem, job.budgets
    if job.tune is not None:
        trunk, found = job.tune(found, split == "train", split == "validation")
    model = fitting.fitted(
        found, trunk, split=split, epsilon=budgets, recipe=job.recipe, name=name, progress=job.progress
    )
    if not len(present):
        return model, None
    return model, measured(model, present, budgets=budgets, trials=job.trials, seed=job.recipe.seed)


def _record(
    pictures: Pictures, model: Fitted, results: Sequence[CameraAccuracy], job: CameraJob, source: str
) -> dict[str, Any]:
    """All that the card says, as plain data."""
    assert model.trunk is not None
    counts = {label: pictures.labels.count(label) for label in model.classes}
    tested = {"table": table(results), "defaults": [each.default for each in results]} if results else {}
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
        "confused_at": min(job.budgets, key=lambda each: abs(each - CONFUSED_AT)),
    }
