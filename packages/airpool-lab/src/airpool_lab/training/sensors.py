"""Heads, vote and codec of your own sensors: fitted to a file of features, in one file, with its card."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.files import sha256
from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee
from airpool.models import loop
from airpool.models.sensors import fitted, fitting
from airpool.models.sensors.fitting import FitRecipe
from airpool.network import Claim, Network
from airpool_lab.training import card, codec
from airpool_lab.training.work import Made, TrainingJob, check_name

_KEYS = ("labels", "groups", "present", "split")


class FeaturesFile(NamedTuple):
    """Arguments of `airpool.fit`. missing: number of (object, sensor) pairs with NaN, which `present` marks."""

    features: Any
    labels: NDArray[Any]
    groups: NDArray[Any] | None
    present: NDArray[np.bool_] | None
    split: NDArray[Any] | None
    missing: int

    @property
    def num_devices(self) -> int:
        return len(self.features) if isinstance(self.features, list) else self.features.shape[1]

    @property
    def measurements(self) -> int:
        """Number of (object, sensor) pairs."""
        return len(self.labels) * self.num_devices


def read(path: Path) -> FeaturesFile:
    """The features of a file; NaN becomes a missing sensor."""
    try:
        with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except (AttributeError, BadZipFile, EOFError, RuntimeError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(
            f"{path}: no npz file that can be read ({files.why_unreadable(error)}); numpy.savez writes one"
        ) from None
    if "labels" not in found:
        raise ValueError(f"{path}: labels missing; there is {', '.join(sorted(found)) or 'nothing'}")
    numbered = [f"features_{k}" for k in range(sum(name.startswith("features_") for name in found))]
    if ("features" in found) == bool(numbered) or not found.keys() >= set(numbered):
        raise ValueError(f"{path}: must hold features (N, K, F), or features_0, features_1, … (N, F) of a sensor each")
    names = ["features", *numbered] if "features" in found else numbered
    for name in sorted(found.keys() - {*names, *_KEYS}):
        raise ValueError(f"{path}: {name} is not known; there can be {', '.join((*names, *_KEYS))}")
    for name in names:
        if found[name].ndim != (3 if name == "features" else 2) or found[name].dtype.kind not in "fiu":
            wanted = "(N, K, F)" if name == "features" else "(N, F)"
            raise ValueError(f"{path}: {name} is {found[name].dtype} {found[name].shape}, must be numbers {wanted}")
    if len({len(found[name]) for name in names}) > 1:
        raise ValueError(f"{path}: {names[0]} to {names[-1]} must have one length, a row for each object")
    rows = [np.isnan(found[name].astype(np.float64)).any(-1) for name in names]
    hollow = rows[0] if "features" in found else np.stack(rows, 1)
    present, missing = found.get("present"), int(hollow.sum())
    if present is not None and (present.shape != hollow.shape or present.dtype != np.bool_):
        raise ValueError(f"{path}: present is {present.dtype} {present.shape}, must be bool {hollow.shape}")
    if missing:
        present = ~hollow if present is None else present & ~hollow
    features = found["features"] if "features" in found else [found[name] for name in numbered]
    return FeaturesFile(features, found["labels"], found.get("groups"), present, found.get("split"), missing)


_SET = ("head_steps", "codec_steps", "codec_hidden", "server_hidden", "trials")
_FIXED = ("seed", "alike", "hidden", "head", "codec", "dimension")


def settings(values: Mapping[str, Any], seed: int = 0, *, dimension: int | None = None) -> FitRecipe:
    """The recipe of a model, with some of its fields set by name. dimension: of the codec; None: its default."""
    return loop.settled(values, FitRecipe(seed=seed, dimension=dimension), fixed=_FIXED)[0]


def make(
    job: TrainingJob,
    name: str,
    found: FeaturesFile,
    network: Network,
    claim: Claim = Claim(),
    *,
    recipe: FitRecipe,
    epsilon: Sequence[float] | None = None,
    trials: int = 20,
) -> Made:
    """Fits a model to the features of a file, job.data, and writes it as NAME.safetensors, with its card."""
    file = job.out / f"{name}.safetensors"
    _check(job, name, found, file)
    budgets = tuple(sorted(set(epsilon or fitting.EPSILON)))
    model = fitting.fit(
        found.features,
        found.labels,
        groups=found.groups,
        present=found.present,
        split=found.split,
        network=network,
        epsilon=budgets,
        recipe=recipe,
        name=name,
        progress=job.progress,
    )
    model.save(file)
    about = model.about
    split = {kind: about["split"][kind] for kind in ("train", "validation", "test")}
    by = "whole groups" if about["split"]["groups"] else "single objects"
    data = {"what": "features of your own sensors", "file": job.data.name, "sha256": sha256(job.data), "limit": None}
    data |= {"objects": sum(split.values()), "classes": len(model.classes), "licence": "your own"}

    network = replace(network, dimension=model.codec().dimension)
    reports = [guarantee(calibrate(network, claim, epsilon=each), claim) for each in budgets]
    held = {which: model.held_out(which) for which in (("validation", "test") if job.test else ("validation",))}
    sent: Any = {"test": None, **{which: (objects.latents, objects.labels) for which, objects in held.items()}}
    with job.progress("measuring", len(reports) + 1) as advance:
        measured = codec.measured(model.codec(), sent, reports, trials=trials, advance=advance)
    made = card.card(
        name=name,
        data=data,
        split={**split, "how": by + (", as the file says" if found.split is not None else "")},
        recipe={key: value for key, value in asdict(recipe).items() if key in _SET},
        runs=[{"seed": recipe.seed, "weights": file.name, "sha256": sha256(file)} | measured],
        architecture={**about["heads"], "default codec": model.codecs[0], "sensors": model.num_devices},
        air=codec.air_of(reports, trials=trials),
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
