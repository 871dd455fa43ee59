"""Trunks, one for each seed: trained on twelve views of every object, and measured for their card."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from airpool.models import loop
from airpool.models.vision.mvcnn import Architecture
from airpool_lab.training import work as works
from airpool_lab.training.work import Made, TrainingJob, Work
from airpool_lab.vision import runs
from airpool_lab.vision.training import RECIPES, TrunkRecipe

TrunkSettings = tuple[TrunkRecipe, Architecture]

_FIXED = ("seed", "trunk", "num_classes", "in_channels")


def settings(values: Mapping[str, Any], kind: str = "lite2") -> TrunkSettings:
    """Recipe and architecture of a kind of trunk, with some of their fields set by name."""
    recipe, architecture = loop.settled(
        values, RECIPES.get(kind, TrunkRecipe()), Architecture(trunk=kind), fixed=_FIXED
    )
    return recipe, architecture


def begin(job: TrainingJob, name: str, settings: TrunkSettings) -> Work:
    recipe, architecture = settings
    return works.begin(job, name, architecture, extra_views=recipe.extra_views)


def make(work: Work, name: str, settings: TrunkSettings, *, seeds: Sequence[int], imagenet: Path | None = None) -> Made:
    """Trains the weights that do not exist yet, NAME-SEED.safetensors, and writes the card of all."""
    (recipe, architecture), source, job = settings, work.source, work.job
    if architecture.trunk.startswith("lite") and imagenet is None:
        warnings.warn(f"{architecture.trunk} starts from random weights; --imagenet names others", stacklevel=2)
    architecture = replace(architecture, num_classes=len(source.classes))
    plans = {
        work.file(f"{name}-{seed}"): runs.TrunkPlan(
            source.record(), architecture, replace(recipe, seed=seed), imagenet, source.classes
        )
        for seed in seeds
    }
    left = {file: plan for file, plan in plans.items() if not runs.made(file, plan)}  # all are checked before any work
    for file, plan in left.items():
        shown = work.splits.images("train")
        assert shown is not None
        with job.progress(f"training {file.stem}", recipe.epochs) as advance:
            runs.make(file, plan, shown, work.splits.images("validation"), log=_log(file.stem, job.log, advance))
    aside, unseen, results = work.splits.images("validation"), work.splits.images("test") if job.test else None, []
    with job.progress("measuring", len(plans)) as advance:
        for file in plans:
            results.append(runs.result(file, source, validation=aside, test=unseen))
            advance(1)
    return work.card(name, list(plans), recipe, results, architecture=asdict(architecture))


def _log(name: str, log: Callable[[str], None], advance: Callable[[int], None]) -> Callable[[str], None]:
    """Logger of one training run, which also advances the progress by the epochs in the log."""
    done = 0

    def line(text: str) -> None:
        nonlocal done
        log(f"{name}: {text}")
        if epoch := re.search(r"epoch[= ](\d+)", text):
            advance(int(epoch[1]) - done)
            done = int(epoch[1])

    return line
