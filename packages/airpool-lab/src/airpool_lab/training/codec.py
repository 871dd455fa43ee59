"""Codecs on a trunk's features, one for each seed, trained for several ε at once, and measured for their card.

A plan says what made a file; files that are there are compared with it, and only the others are made.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from airpool._support.files import sha256
from airpool._support.progress import Progress, silent
from airpool._support.rounding import full
from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee
from airpool.account.report import PrivacyReport
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects
from airpool.models import loop
from airpool.models.codecs import codec as codecs
from airpool.models.codecs import training as codec_training
from airpool.models.codecs.codec import Codec
from airpool.models.codecs.dense import CodecShape, paper_shape
from airpool.models.codecs.training import CodecRecipe, Setting, encoded, setting
from airpool.network import Claim, Network
from airpool.protocol.inference import Baseline
from airpool_lab.training.work import Made, StoredTrunk
from airpool_lab.vision import runs
from airpool_lab.vision.cad import Split


def described(net: Network, claim: Claim) -> str:
    """The network and the claim in words, but for its noise."""
    p = net.devices.column("participation")
    words = [
        f"{claim.neighbours} neighbours, δ = {full(claim.delta)}",
        f"{net.devices.count} devices, p = " + (f"{p[0]:g}" if len(set(p)) == 1 else f"{min(p):g} to {max(p):g}"),
        f"fading {net.channel.fading}, receiver's noise {net.channel.noise_std:g}, {net.channel.access}",
    ]
    return "; ".join([*words, "cover noise"] if net.cover_noise else words)


def _record(nets: Sequence[Network]) -> dict[str, Any]:
    """Record of the networks in a plan: their ε, and all settings that they share."""
    net = nets[0]
    # Without slots, which no plan has: a codec is trained for one.
    tables = {table: asdict(getattr(net, table)) for table in ("devices", "channel", "scheme", "adversary")}
    shared = {f"{table}.{name}": value for table, values in tables.items() for name, value in values.items()}
    shared |= {f.name: getattr(net, f.name) for f in fields(net) if f.name not in (*tables, "slots")}
    for name in ("devices.noise_std", "devices.epsilon"):
        del shared[name]
    return {"epsilon": [each.devices.column("epsilon")[0] for each in nets], **shared}


_COLUMNS = ("objects", "accuracy_mean", "accuracy_std", "class_mean")


def measured(
    codec: Codec,
    sent: Mapping[str, tuple[Tensor, Tensor] | None],
    reports: Sequence[PrivacyReport],
    *,
    trials: int,
    advance: Callable[[int], None],
) -> dict[str, Any]:
    """Accuracy of latents and labels by split, in every network, and at the end without any noise."""
    claim = reports[0].claim

    def row(net: Network, trials: int, report: PrivacyReport | None, instead: Baseline | None) -> dict[str, Any]:
        found = {
            which: part
            and evaluate(EncodedObjects(*part, codec.server), net, claim, trials=trials, report=report, instead=instead)
            for which, part in sent.items()
        }
        advance(1)
        return {which: each and {name: getattr(each, name) for name in _COLUMNS} for which, each in found.items()}

    rows = [row(report.network, trials, report, None) for report in reports]
    rows.append(row(reports[0].network, 1, None, "centralised"))
    return {"validation": rows[-1]["validation"]["accuracy_mean"], "test": None, "air": rows}


def air_of(reports: Sequence[PrivacyReport], *, trials: int) -> dict[str, Any]:
    """The card's entry on the networks."""
    networks = [
        {"target": d.column("epsilon")[0], "epsilon": report.worst, "noise_std": max(d.column("noise_std"))}
        for report in reports
        for d in (report.network.devices,)
    ]
    return {"channel": described(reports[0].network, reports[0].claim), "trials": trials, "networks": networks}


BUDGETS = (1.0, 2.0, 3.98, 10.0)
_VIEWS = 12
_FIXED = ("seed", "kind", "dimension", "num_classes", "features")


@dataclass(frozen=True, eq=False)
class CodecSettings:
    """A recipe and a shape, and the networks to train for, one for each ε of the claim, the strictest first."""

    recipe: CodecRecipe
    shape: CodecShape
    networks: Sequence[Setting]
    claim: Claim


def settings(
    values: Mapping[str, Any],
    net: Network,
    claim: Claim = Claim(),
    *,
    kind: str = "compact",
    epsilon: Sequence[float] | None = None,
    progress: Progress = silent,
) -> CodecSettings:
    """Recipe and shape of a kind of codec, with some of their fields set by name, and the network once for each ε,
    with the least noise that meets it."""
    plain = paper_shape(1) if kind == "map" else CodecShape()
    shape = replace(plain, kind=kind, dimension=net.dimension)
    recipe, shape = loop.settled(values, CodecRecipe(), shape, fixed=_FIXED)
    if net.devices.count != _VIEWS:
        raise ValueError(f"a network of {net.devices.count} devices must have {_VIEWS}, one for each view")
    with progress("calibrating", None):
        targets = sorted(set(epsilon or BUDGETS))
        networks = [setting(calibrate(net, claim, epsilon=each)) for each in targets]
    return CodecSettings(recipe, shape, networks, claim)


def make(trunk: StoredTrunk, name: str, settings: CodecSettings, *, seeds: Sequence[int], trials: int = 20) -> Made:
    """Trains the codecs that do not exist yet, NAME-SEED.safetensors, and writes the card of all."""
    work, source, hashes = trunk.work, trunk.work.source, trunk.hashes
    channels = trunk.model.architecture.map_shape[0]
    shape = replace(settings.shape, num_classes=len(source.classes), features=channels)

    def features(which: Split) -> tuple[Tensor, Tensor]:
        return trunk.features(which, "codec", whole=shape.kind == "map")

    files = {work.file(f"{name}-{seed}"): replace(settings.recipe, seed=seed) for seed in seeds}
    made_from = {"data": source.record(), "trunk": hashes, "codec": asdict(shape)}
    made_from |= {"network": _record([each.network for each in settings.networks]), "claim": asdict(settings.claim)}
    plans = {file: json.loads(json.dumps({**made_from, "recipe": asdict(each)})) for file, each in files.items()}
    for file, plan in plans.items():  # all are checked before any work
        if file.exists():
            runs.compare(file, codecs.load(file)[1], plan)
    for file, recipe in files.items():
        if not file.exists():
            shown = features("train")
            with work.job.progress(f"training {file.stem}", recipe.epochs) as advance:
                codec = codec_training.fit(recipe, shape, *shown, settings=settings.networks, on_epochs=advance)
            codecs.save(file, codec, {**plans[file], "seed": recipe.seed})

    reports = [guarantee(each.network, settings.claim) for each in settings.networks]
    splits = {"validation": features("validation"), "test": features("test") if work.job.test else None}
    results = []
    with work.job.progress("measuring", len(files) * (len(reports) + 1)) as advance:
        for file, recipe in files.items():
            codec, _ = codecs.load(file, device=work.splits.torch_device)
            sent = _sent(codec, splits, source.duplicates)
            found = measured(codec, sent, reports, trials=trials, advance=advance)
            results.append({"seed": recipe.seed, "weights": file.name, "sha256": sha256(file)} | found)
    air, recipe = air_of(reports, trials=trials), next(iter(files.values()))
    return work.card(name, list(files), recipe, results, architecture=asdict(shape), trunk=hashes, air=air)


def _sent(
    codec: codecs.Codec, splits: Mapping[str, tuple[Tensor, Tensor] | None], duplicates: Tensor
) -> dict[str, tuple[Tensor, Tensor] | None]:
    """Latents and labels of each split, and of the test objects without those that also stand in the training set."""
    sent = {which: part and (encoded(codec, part[0]), part[1]) for which, part in splits.items()}
    if test := sent["test"]:
        unseen = torch.ones(len(test[1]), dtype=torch.bool)
        unseen[duplicates] = False
        rows = unseen.to(test[1].device)
        sent["without_duplicates"] = (test[0][rows], test[1][rows]) if unseen.any() else None
    return sent
