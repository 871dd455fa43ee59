"""Codecs on a trunk's features, one for each seed, trained for several ε at once, and measured for their card."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from airpool._support.progress import Progress, silent
from airpool._support.tensors import sha256
from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee
from airpool.evaluation.training import accuracy
from airpool.evaluation.training.work import Made, StoredTrunk
from airpool.models import recipes
from airpool.models.codecs import codec as codecs
from airpool.models.codecs import runs as codec_runs
from airpool.models.codecs.dense import CodecShape, paper_shape
from airpool.models.codecs.training import CodecRecipe, Setting, encoded, setting
from airpool.models.vision.cad import Split
from airpool.network import Network

BUDGETS = (1.0, 2.0, 3.98, 10.0)
_VIEWS = 12
_FIXED = ("seed", "kind", "dimension", "num_classes", "features")


@dataclass(frozen=True, eq=False)
class CodecSettings:
    """A recipe and a shape, and the networks to train for, one for each ε, the strictest first."""

    recipe: CodecRecipe
    shape: CodecShape
    networks: Sequence[Setting]


def settings(
    values: Mapping[str, Any],
    net: Network,
    *,
    kind: str = "compact",
    epsilon: Sequence[float] | None = None,
    colluding: tuple[int, ...] = (),
    progress: Progress = silent,
) -> CodecSettings:
    """Recipe and shape of a kind of codec, with some of their fields set by name, and the network once for each ε,
    with the least noise that meets it."""
    plain = paper_shape(1) if kind == "map" else CodecShape()
    shape = replace(plain, kind=kind, dimension=net.dimension)
    recipe, shape = recipes.settled(values, CodecRecipe(), shape, fixed=_FIXED)
    if net.devices.count != _VIEWS:
        raise ValueError(f"a network of {net.devices.count} devices must have {_VIEWS}, one for each view")
    with progress("calibrating", None):
        targets = sorted(set(epsilon or BUDGETS))
        networks = [setting(calibrate(net, epsilon=each, colluding=colluding)) for each in targets]
    return CodecSettings(recipe, shape, networks)


def make(trunk: StoredTrunk, name: str, settings: CodecSettings, *, seeds: Sequence[int], trials: int = 20) -> Made:
    """Trains the codecs that do not exist yet, NAME-SEED.safetensors, and writes the card of all."""
    work, source, hashes = trunk.work, trunk.work.source, trunk.hashes
    channels = trunk.model.architecture.map_shape[0]
    shape = replace(settings.shape, num_classes=len(source.classes), features=channels)

    def features(which: Split) -> tuple[Tensor, Tensor]:
        return trunk.features(which, "codec", whole=shape.kind == "map")

    plan = codec_runs.CodecPlan(source.record(), hashes, shape, settings.networks)
    files = {work.file(f"{name}-{seed}"): replace(settings.recipe, seed=seed) for seed in seeds}
    codec_runs.make(plan, files, lambda: features("train"), work.job.progress)

    reports = [guarantee(each.network) for each in settings.networks]
    splits = {"validation": features("validation"), "test": features("test") if work.job.test else None}
    results = []
    with work.job.progress("measuring", len(files) * (len(reports) + 1)) as advance:
        for file, recipe in files.items():
            codec, _ = codecs.load(file, device=work.splits.torch_device)
            sent = _sent(codec, splits, source.duplicates)
            found = accuracy.measured(codec, sent, reports, trials=trials, advance=advance)
            results.append({"seed": recipe.seed, "weights": file.name, "sha256": sha256(file)} | found)
    air, recipe = accuracy.air(reports, trials=trials), next(iter(files.values()))
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
