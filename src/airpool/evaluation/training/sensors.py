"""Heads, vote and codec of your own sensors: fitted to a file of features, in one file, with its card."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from airpool._support.tensors import sha256
from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee
from airpool.evaluation.training import accuracy
from airpool.evaluation.training.work import Made, TrainingJob, check_name
from airpool.models import card, recipes
from airpool.models.sensors import fitted, fitting
from airpool.models.sensors.file import FeaturesFile
from airpool.models.sensors.fitting import FitRecipe
from airpool.network import Network

_SET = ("head_steps", "codec_steps", "codec_hidden", "server_hidden", "trials")
_FIXED = ("seed", "alike", "hidden", "head", "codec", "dimension")


def settings(values: Mapping[str, Any], seed: int = 0, *, dimension: int | None = None) -> FitRecipe:
    """The recipe of a model, with some of its fields set by name. dimension: of the codec; None: its default."""
    return recipes.settled(values, FitRecipe(seed=seed, dimension=dimension), fixed=_FIXED)[0]


def make(
    job: TrainingJob,
    name: str,
    found: FeaturesFile,
    network: Network,
    *,
    recipe: FitRecipe,
    epsilon: Sequence[float] | None = None,
    trials: int = 20,
) -> Made:
    """Fits a model to the features of a file, job.data, and writes it as NAME.safetensors, with its card."""
    file = job.out / f"{name}.safetensors"
    _check(job, name, found, file)
    budgets = tuple(sorted(set(epsilon or fitting.EPSILON)))
    columns: Any = {"groups": found.groups, "present": found.present, "split": found.split}
    how: Any = {"network": network, "epsilon": budgets, "recipe": recipe, "name": name, "progress": job.progress}
    model = fitting.fit(found.features, found.labels, **columns, **how)
    model.save(file)
    about = model.about
    split = {kind: about["split"][kind] for kind in ("train", "validation", "test")}
    by = "whole groups" if about["split"]["groups"] else "single objects"
    data = {"what": "features of your own sensors", "file": job.data.name, "sha256": sha256(job.data), "limit": None}
    data |= {"objects": sum(split.values()), "classes": len(model.classes), "licence": "your own"}

    network = replace(network, dimension=model.codec().dimension)
    reports = [guarantee(calibrate(network, epsilon=each)) for each in budgets]
    held = {which: model.held_out(which) for which in (("validation", "test") if job.test else ("validation",))}
    sent: Any = {"test": None, **{which: (objects.latents, objects.labels) for which, objects in held.items()}}
    with job.progress("measuring", len(reports) + 1) as advance:
        measured = accuracy.measured(model.codec(), sent, reports, trials=trials, advance=advance)
    made = card.card(
        name=name,
        data=data,
        split={**split, "how": by + (", as the file says" if found.split is not None else "")},
        recipe={key: value for key, value in asdict(recipe).items() if key in _SET},
        runs=[{"seed": recipe.seed, "weights": file.name, "sha256": sha256(file)} | measured],
        architecture={**about["heads"], "default codec": model.codecs[0], "sensors": model.num_devices},
        air=accuracy.air(reports, trials=trials),
    )
    return made, [file, *card.write(job.out / name, made)]


def _check(job: TrainingJob, name: str, found: FeaturesFile, file: Path) -> None:
    """Errors that can be found before anything is trained; makes the folder."""
    check_name(name)
    if job.test and found.split is not None and "test" not in found.split.astype(str):
        raise ValueError("the split in the file has no test objects: leave out --test")
    job.out.mkdir(parents=True, exist_ok=True)
    if file.exists():
        fitted.read(file)  # nothing but a model of own sensors is overwritten
