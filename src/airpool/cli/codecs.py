"""The codecs of `airpool train codec` and `all`: recipe, networks, training, and measurements for the card."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airpool.cli import training as t
from airpool.cli.output import progress
from airpool.network import Network

if TYPE_CHECKING:
    from torch import Tensor

    from airpool.account.guarantee import PrivacyReport
    from airpool.models.codecs.dense import CodecShape
    from airpool.models.codecs.training import CodecRecipe, Setting
    from airpool.models.vision.cad import Split


BUDGETS = (1.0, 2.0, 3.98, 10.0)
_VIEWS = 12


def settings(values: dict[str, Any], kind: str, dimension: int) -> "tuple[CodecRecipe, CodecShape]":
    from airpool.models import recipes
    from airpool.models.codecs.dense import CodecShape, paper_shape
    from airpool.models.codecs.training import CodecRecipe

    plain = paper_shape(1) if kind == "map" else CodecShape()
    shape = replace(plain, kind=kind, dimension=dimension)
    fixed = ("seed", "kind", "dimension", "num_classes", "features")
    recipe, shape = recipes.settled(values, CodecRecipe(), shape, fixed=fixed)
    return recipe, shape


def calibrated(net: Network, epsilon: Sequence[float] | None, colluding: tuple[int, ...]) -> "list[Setting]":
    """The network once for each ε, the strictest first, with the least noise that meets it."""
    from airpool.account.calibration import calibrate
    from airpool.models.codecs.training import setting

    if net.devices.count != _VIEWS:
        raise ValueError(f"a network of {net.devices.count} devices must have {_VIEWS}, one for each view")
    with progress("calibrating"):
        targets = sorted(set(epsilon or BUDGETS))
        return [setting(calibrate(net, epsilon=each, colluding=colluding)) for each in targets]


def make(
    name: str,
    recipes: "Sequence[CodecRecipe]",
    shape: "CodecShape",
    here: "Sequence[Setting]",
    trunk: t.StoredTrunk,
    *,
    trials: int = 20,
) -> t.Made:
    """Trains the codecs that do not exist yet, one for each recipe, which differ in their seeds; writes the card."""
    from airpool.account.guarantee import guarantee
    from airpool.models.codecs import runs as codec_runs
    from airpool.models.vision import runs

    work, source, hashes = trunk.work, trunk.work.source, trunk.hashes
    shape = replace(shape, num_classes=len(source.classes), features=trunk.model.architecture.map_shape[0])

    def features(which: "Split") -> "tuple[Tensor, Tensor]":
        return trunk.features(which, "codec", whole=shape.kind == "map")

    plan = codec_runs.CodecPlan(source.record(), hashes, shape, here)
    files = {work.folder / f"{name}-{recipe.seed}.safetensors": recipe for recipe in recipes}
    codec_runs.make(plan, files, lambda: features("train"), progress)

    reports = [guarantee(each.network) for each in here]
    splits: dict[Split, Any] = {"validation": features("validation"), "test": features("test") if work.test else None}
    with progress("measuring", total=len(files) * (len(here) + 1)) as advance:
        results = [
            {"seed": recipe.seed, "weights": file.name, "sha256": runs.sha256(file)}
            | _measured(file, work, reports, splits, trials, advance)
            for file, recipe in files.items()
        ]
    networks = [
        {"target": d.column("epsilon")[0], "epsilon": report.worst, "noise_std": max(d.column("noise_std"))}
        for report in reports
        for d in (report.network.devices,)
    ]
    air = {"channel": codec_runs.described(here[0].network), "trials": trials, "networks": networks}
    return work.card(name, list(files), recipes[0], results, architecture=asdict(shape), trunk=hashes, air=air)


def _measured(
    file: Path,
    work: t.Work,
    reports: "Sequence[PrivacyReport]",
    splits: "Mapping[Split, tuple[Tensor, Tensor] | None]",
    trials: int,
    advance: Callable[[int], None],
) -> dict[str, Any]:
    """Measurements of the codec in this file, for its card: accuracy in every network, and at the end without any.

    The test set is measured again without the objects that also stand in the training set.
    """
    import torch

    from airpool.evaluation.evaluate import evaluate
    from airpool.models.codecs import codec as codecs
    from airpool.models.codecs.training import encoded

    codec, _ = codecs.load(file, device=work.splits.torch_device)
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
