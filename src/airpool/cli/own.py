"""`airpool train codec --features`: from a file of your own features to a model in one file, and its card."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer

from airpool.cli import options as o
from airpool.cli import training as t
from airpool.cli.output import progress

_SET = ("head_steps", "codec_steps", "codec_hidden", "server_hidden", "trials")


def make(
    path: Path,
    job: t.TrainingJob,
    recipe: t.RecipeOptions,
    wanted: o.NetworkOptions,
    epsilon: Sequence[float] | None,
    *,
    seed: int,
    trials: int,
) -> dict[str, t.Made]:
    """Fits a model to the file and writes it as NAME.safetensors, with its card."""
    from airpool._support.tensors import sha256
    from airpool.models import card, recipes
    from airpool.models.sensors import file as features_file
    from airpool.models.sensors import fitting
    from airpool.models.sensors.stacking import stack

    name = recipe.name or path.stem
    found = features_file.read(path)
    _check(found, job, name, trials=trials)
    if found.missing:
        count = stack(found.features)[0].shape[:2].numel()
        typer.echo(f"{found.missing} of {count} measurements hold NaN: taken as missing sensors", err=True)
    (how,) = recipes.settled(
        recipe.values(), fitting.FitRecipe(seed=seed), fixed=("seed", "alike", "hidden", "head", "codec", "dimension")
    )
    num_devices = stack(found.features)[0].shape[1]
    net = wanted.network(devices=num_devices)
    if "dimension" in wanted.given:
        how = replace(how, dimension=net.dimension)
    budgets = tuple(sorted(set(epsilon or fitting.EPSILON)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        how_made: Any = {"network": net, "epsilon": budgets, "recipe": how, "name": name, "progress": progress}
        model = fitting.fit(
            found.features,
            found.labels,
            groups=found.groups,
            present=found.present,
            split=found.split,
            **how_made,
        )
    for each in said:
        typer.echo(f"warning: {each.message}", err=True)
    file = job.out / f"{name}.safetensors"
    model.save(file)
    about = model.about
    split = {kind: about["split"][kind] for kind in ("train", "validation", "test")}
    by = "whole groups" if about["split"]["groups"] else "single objects"
    data = {"what": "features of your own sensors", "file": path.name, "sha256": sha256(path), "limit": None}
    data |= {"objects": sum(split.values()), "classes": len(model.classes), "licence": "your own"}
    air, rows = _measured(model, net, budgets, test=job.test, trials=trials)
    result = {"seed": seed, "weights": file.name, "sha256": sha256(file), "test": None, "air": rows}
    made = card.card(
        name=name,
        data=data,
        split={**split, "how": by + (", as the file says" if found.split is not None else "")},
        recipe={key: value for key, value in asdict(how).items() if key in _SET},
        runs=[result | {"validation": rows[-1]["validation"]["accuracy_mean"]}],
        architecture={**about["heads"], "default codec": model.codecs[0], "sensors": model.num_devices},
        air=air,
    )
    return {name: (made, [file, *card.write(job.out / name, made)])}


def _check(found: Any, job: t.TrainingJob, name: str, *, trials: int) -> None:
    """Errors that can be found before anything is trained; makes the folder."""
    from airpool.models.codecs.codec import SUFFIX
    from airpool.models.sensors import fitted

    if Path(name).name != name:
        raise ValueError(f"--name {name!r} must be a name, without folders")
    o.at_least(1, trials=trials)
    for option, given in (("--objects", job.objects), ("--torch-device", job.torch_device)):
        if given is not None:
            raise ValueError(f"{option} is for meshes: --features takes all objects, on the CPU; leave it out")
    if job.test and found.split is not None and "test" not in found.split.astype(str):
        raise ValueError("the split in the file has no test objects: leave out --test")
    job.out.mkdir(parents=True, exist_ok=True)
    if (file := job.out / f"{name}{SUFFIX}").exists():
        fitted.read(file)  # nothing but a model of own sensors is overwritten


def _measured(
    model: Any, net: Any, budgets: Sequence[float], *, test: bool, trials: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Measurements of the default codec, for the card: networks, and accuracy in each and at the end without any."""
    from airpool.account.calibration import calibrate
    from airpool.account.guarantee import guarantee
    from airpool.evaluation.evaluate import evaluate
    from airpool.models.codecs.runs import described

    net = replace(net, dimension=model.codec().dimension)
    reports = [guarantee(calibrate(net, epsilon=each)) for each in budgets]
    held = {which: model.held_out(which) if which == "validation" or test else None for which in ("validation", "test")}
    columns = ("objects", "accuracy_mean", "accuracy_std", "class_mean")

    def row(of: Any, **more: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for which, objects in held.items():
            found = objects and evaluate(of, objects.latents, objects.labels, server=model.codec().server, **more)
            out[which] = found and {name: getattr(found, name) for name in columns}
        return out

    with progress("measuring", total=len(reports) + 1) as advance:
        rows = []
        for report in reports:
            rows.append(row(report.network, trials=trials, report=report))
            advance(1)
        rows.append(row(net, trials=1, baseline="centralised"))
    networks = [
        {"target": each, "epsilon": report.worst, "noise_std": max(report.network.devices.column("noise_std"))}
        for each, report in zip(budgets, reports, strict=True)
    ]
    return {"channel": described(net), "trials": trials, "networks": networks}, rows
