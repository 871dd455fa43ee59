"""Accuracy of a model of cameras on its test objects: at each ε and without noise, beside one camera and chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airpool._support.brief import Brief
from airpool.account.calibration import calibrate
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.models.codecs.training import decoded, setting
from airpool.models.model import Model
from airpool.network import Network

NO_NOISE = "no noise"
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

    def spread(row: str, column: str) -> dict[str, Any]:
        each = [one.rows[row][column] for one in found]
        return {"mean": fmean(each), "std": stdev(each) if len(each) > 1 else None, "each": each}

    return {row: {column: spread(row, column) for column in found[0].rows[row]} for row in found[0].rows}


def cell(value: dict[str, Any] | None) -> str:
    """A number of the table as it is printed.

    >>> cell({"mean": 0.98125, "std": 0.027, "each": []}), cell({"mean": 1.0, "std": None, "each": []}), cell(None)
    ('.981 ± .027', '1.000', '')
    """
    if value is None:
        return ""
    numbers = [value["mean"]] + ([] if value["std"] is None else [value["std"]])
    return " ± ".join(f"{each:.3f}".removeprefix("0") for each in numbers)


@torch.no_grad()
def _confusion(model: Model, network: Network, labels: Tensor, *, trials: int, seed: int) -> NDArray[np.float64]:
    """(C, C) in objects: how many of each class (rows) are taken for which, on average over the noise."""
    codec, sent = model.codec(), model.held_out("test").latents
    rng = torch.Generator().manual_seed(seed)
    answers = decoded(codec, sent, setting(network), rng, trials=trials).argmax(-1)  # (N, trials)
    classes = len(model.classes)
    pairs = (labels[:, None] * classes + answers).flatten()
    return pairs.bincount(minlength=classes**2).reshape(classes, classes).numpy() / trials
