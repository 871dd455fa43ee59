"""The codecs of `airpool train codec` and `all`: recipe, networks, training, and measurements for the card."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airpool.cli import training as t
from airpool.cli.output import progress
from airpool.network import Network

if TYPE_CHECKING:
    from torch import Tensor

    from airpool.account.guarantee import PrivacyReport
    from airpool.data.modelnet import Split
    from airpool.models.codec import CodecShape
    from airpool.models.codec_training import CodecRecipe, Setting


BUDGETS = (1.0, 2.0, 3.98, 10.0)


def settings(values: dict[str, Any], kind: str, dimension: int) -> "tuple[CodecRecipe, CodecShape]":
    from airpool.models.codec import CodecShape, paper_shape
    from airpool.models.codec_training import CodecRecipe

    plain = paper_shape(1) if kind == "map" else CodecShape()
    shape = replace(plain, kind=kind, dimension=dimension)
    fixed = ("seed", "kind", "dimension", "num_classes", "features")
    recipe, shape = t.settled(values, CodecRecipe(), shape, fixed=fixed)
    return recipe, shape


def calibrated(net: Network, epsilon: Sequence[float] | None, colluding: tuple[int, ...]) -> "list[Setting]":
    """The network once for each ε, the strictest first, with the least noise that meets it."""
    from airpool.account.calibration import calibrate
    from airpool.data.voxels import NUM_POSES
    from airpool.models.codec_training import setting

    if net.devices.count != NUM_POSES:
        raise ValueError(f"a network of {net.devices.count} devices must have {NUM_POSES}, one for each view")
    with progress("calibrating"):
        targets = sorted(set(epsilon or BUDGETS))
        return [setting(calibrate(net, epsilon=each, colluding=colluding)) for each in targets]


def make(
    work: t.Work,
    name: str,
    trunk: Sequence[Path],
    recipes: "Sequence[CodecRecipe]",
    shape: "CodecShape",
    here: "Sequence[Setting]",
    seen: "t.Seen",
    *,
    trials: int = 20,
) -> t.Made:
    """Trains the codecs that do not exist yet, one for each recipe, which differ in their seeds; writes the card."""
    from airpool.account.guarantee import guarantee
    from airpool.models import runs

    source, hashes = work.source, {path.name: runs.sha256(path) for path in trunk}
    shape = replace(shape, num_classes=len(source.dataset.classes))
    plan = {
        "data": {"sha256": source.sha256, "objects": source.limit or "all"},
        "trunk": hashes,
        "codec": asdict(shape),
        "network": _record([each.network for each in here]),
    }
    files = {work.folder / f"{name}-{recipe.seed}.safetensors": recipe for recipe in recipes}
    _train(files, plan, shape, here, seen)

    reports = [guarantee(each.network) for each in here]
    splits: dict[Split, Any] = {"validation": seen("validation"), "test": seen("test") if work.test else None}
    with progress("measuring", total=len(files) * (len(here) + 1)) as advance:
        results = [
            {"seed": recipe.seed, "weights": file.name, "sha256": runs.sha256(file)}
            | _measured(file, work, reports, splits, trials, advance)
            for file, recipe in files.items()
        ]
    networks = [
        {"target": target, "epsilon": report.worst, "noise_std": max(report.network.devices.column("noise_std"))}
        for target, report in zip(plan["network"]["epsilon"], reports, strict=True)
    ]
    air = {"channel": _described(here[0].network), "trials": trials, "networks": networks}
    return work.card(name, list(files), recipes[0], results, architecture=asdict(shape), trunk=hashes, air=air)


def _train(
    files: "Mapping[Path, CodecRecipe]",
    plan: Mapping[str, Any],
    shape: "CodecShape",
    here: "Sequence[Setting]",
    seen: "t.Seen",
) -> None:
    """Trains the files that do not exist; those that do must have been made by the same plan."""
    from airpool.models import codec as codecs
    from airpool.models import codec_training, runs

    plans = {file: json.loads(json.dumps({**plan, "recipe": asdict(own)})) for file, own in files.items()}
    for file in filter(Path.exists, files):  # all are checked before any work
        runs.compare(file, codecs.load(file)[1], plans[file])
    for file, recipe in files.items():
        if not file.exists():
            shown = seen("train")
            with progress(f"training {file.stem}", total=recipe.epochs) as advance:
                codec = codec_training.fit(recipe, shape, *shown, settings=here, on_epochs=advance)
            codecs.save(file, codec, {**plans[file], "seed": recipe.seed})


def _measured(
    file: Path,
    work: t.Work,
    reports: "Sequence[PrivacyReport]",
    splits: "Mapping[Split, tuple[Tensor, Tensor] | None]",
    trials: int,
    advance: Callable[[int], None],
) -> dict[str, Any]:
    """What a card says of the codec in this file: accuracy in every network, and at the end without any.

    The test set is measured again without the objects that also stand in the training set.
    """
    import torch

    from airpool.evaluate import evaluate
    from airpool.models import codec as codecs
    from airpool.models.codec_training import encoded

    codec, _ = codecs.load(file, device=work.torch_device)
    sent: dict[str, Any] = {which: part and (encoded(codec, part[0]), part[1]) for which, part in splits.items()}
    if sent["test"]:
        unseen = torch.ones(len(sent["test"][1]), dtype=torch.bool)
        unseen[work.source.duplicates] = False
        doubtless = tuple(each[unseen.to(each.device)] for each in sent["test"])
        sent["without_duplicates"] = doubtless if unseen.any() else None

    def row(net: Network, **how: Any) -> dict[str, Any]:
        advance(1)
        found = {which: part and evaluate(net, *part, server=codec.server, **how) for which, part in sent.items()}
        columns = ("objects", "accuracy_mean", "accuracy_std", "class_mean")
        return {which: each and {name: getattr(each, name) for name in columns} for which, each in found.items()}

    rows = [row(report.network, trials=trials, report=report) for report in reports]
    rows.append(row(reports[0].network, trials=1, baseline="centralised"))
    return {"validation": rows[-1]["validation"]["accuracy_mean"], "test": None, "air": rows}


def _record(nets: Sequence[Network]) -> dict[str, Any]:
    """What a plan says of the networks: their ε, and all else that they share."""
    net = nets[0]
    tables = {table: asdict(getattr(net, table)) for table in ("devices", "channel", "scheme")}
    shared = {f"{table}.{name}": value for table, values in tables.items() for name, value in values.items()}
    shared |= {f.name: getattr(net, f.name) for f in fields(net) if f.name not in tables}
    for name in ("devices.noise_std", "devices.epsilon"):
        del shared[name]
    return {"epsilon": [each.devices.column("epsilon")[0] for each in nets], **shared}


def _described(net: Network) -> str:
    """What the networks share, in words."""
    p = net.devices.column("participation")
    words = [
        f"{net.neighbours} neighbours, δ = {net.delta:g}",
        f"{net.devices.count} devices, p = " + (f"{p[0]:g}" if len(set(p)) == 1 else f"{min(p):g} to {max(p):g}"),
        f"fading {net.channel.fading}, receiver's noise {net.channel.noise_std:g}, {net.channel.access}",
    ]
    return "; ".join([*words, "cover noise"] if net.cover_noise else words)
