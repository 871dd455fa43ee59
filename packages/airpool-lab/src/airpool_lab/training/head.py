"""Local heads and votes on a trunk's features."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from airpool._support.files import sha256
from airpool.models import local, loop, weights
from airpool.models.codecs import codec as codecs
from airpool.models.codecs import vote as votes
from airpool.models.local import HeadRecipe
from airpool_lab.training.work import Made, StoredTrunk

_FEW = 100  # validation objects, below which calibration is rough


def settings(values: Mapping[str, Any], seed: int = 0) -> HeadRecipe:
    """The recipe of a head, with some of its fields set by name; without epochs, the trunk's own classifier."""
    return loop.settled(values, HeadRecipe(epochs=0, seed=seed), fixed=("seed",))[0]


def make(trunk: StoredTrunk, name: str, recipe: HeadRecipe) -> Made:
    """Calibrates a head, after training where it has epochs, in place of any that exists; writes its card."""
    work, source, file = trunk.work, trunk.work.source, trunk.work.file(name)
    if file.exists():
        local.load(file)  # nothing but a head is overwritten
    if not recipe.epochs:
        trunk.require_classes()
    aside = trunk.features("validation", "head")
    if (few := len(source.rows["validation"])) < _FEW:
        warnings.warn(f"{few} validation objects: temperatures and calibration errors are rough", stacklevel=2)
    if recipe.epochs:
        shown = trunk.features("train", "head")
        with work.job.progress("training", recipe.epochs) as advance:
            fitted = local.fit(recipe, *shown, validation=aside, num_classes=len(source.classes), on_epochs=advance)
    else:
        own = local.own(trunk.model)
        fitted = local.calibrated(own, local.logits_of(own, aside[0]), aside[1], recipe)
    local.save(file, fitted, {"data": source.about(), "trunk": trunk.hashes, "classes": list(source.classes)})
    calibration = {
        "temperatures": fitted.temperatures.tolist(),
        "validation": asdict(fitted.validation),
        "test": asdict(fitted.measured(*trunk.features("test", "head"))) if work.job.test else None,
    }
    accuracy = {"validation": fmean(fitted.validation.accuracy), "test": None}
    result = {"seed": recipe.seed, "weights": file.name, "sha256": sha256(file), **accuracy}
    return work.card(name, [file], recipe, [result], trunk=trunk.hashes, calibration=calibration)


def make_vote(trunk: StoredTrunk, name: str, head: Path) -> Path:
    """Fits the vote to the local posteriors of the validation objects, in place of any that exists."""
    file, source = trunk.work.file(name), trunk.work.source
    if file.exists() and (kind := codecs.read(file)[0].kind) != "vote":
        raise ValueError(f"{file}: holds a codec of kind {kind!r}, which is not overwritten: give another --name")
    fitted, told = local.load(head, device=trunk.work.splits.torch_device)
    channels, num_classes = fitted.sizes
    weights.require_classes(head, told, num_classes, source.classes)
    other = isinstance(of := told.get("trunk"), dict) and set(of.values()) != set(trunk.hashes.values())
    if other or channels != trunk.model.architecture.map_shape[0]:
        raise ValueError(f"{head}: the local head of another trunk than {', '.join(trunk.hashes)}")
    features, labels = trunk.features("validation", "vote")
    posteriors = local.local_distribution(features, fitted.classifier, fitted.temperatures)
    about = {"data": source.about(), "trunk": trunk.hashes, "head": sha256(head), "classes": list(source.classes)}
    codecs.save(file, votes.fit(posteriors, labels), about)
    return file
