"""Training runs of codecs on a trunk's features: which plan made a file, and which files are still to be made."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from airpool._support.progress import Progress, silent
from airpool._support.rounding import full
from airpool.models.codecs import codec as codecs
from airpool.models.codecs import training as codec_training
from airpool.models.codecs.dense import CodecShape
from airpool.models.codecs.training import CodecRecipe, Setting
from airpool.models.vision import runs
from airpool.network import Network


@dataclass(frozen=True, eq=False)
class CodecPlan:
    """Inputs that determine codecs, besides their recipes. data: `runs.Source.record`; trunk: SHA-256 of its files."""

    data: Mapping[str, Any]
    trunk: Mapping[str, str]
    shape: CodecShape
    settings: Sequence[Setting]

    def record(self, recipe: CodecRecipe) -> dict[str, Any]:
        """The plan of one codec as JSON returns it."""
        plan = {"data": self.data, "trunk": self.trunk, "codec": asdict(self.shape)}
        network = _record([each.network for each in self.settings])
        return json.loads(json.dumps({**plan, "network": network, "recipe": asdict(recipe)}))


def make(
    plan: CodecPlan,
    files: Mapping[Path, CodecRecipe],
    features: Callable[[], tuple[Tensor, Tensor]],
    progress: Progress = silent,
) -> None:
    """Trains the codecs whose files do not exist; those that do must have been made by the same plan.

    features: gives features (N, K, d) and labels (N,), asked for where something is to be trained.
    """
    for file, recipe in files.items():  # all are checked before any work
        if file.exists():
            runs.compare(file, codecs.load(file)[1], plan.record(recipe))
    for file, recipe in files.items():
        if not file.exists():
            shown = features()
            with progress(f"training {file.stem}", recipe.epochs) as advance:
                codec = codec_training.fit(recipe, plan.shape, *shown, settings=plan.settings, on_epochs=advance)
            codecs.save(file, codec, {**plan.record(recipe), "seed": recipe.seed})


def described(net: Network) -> str:
    """The network in words, but for its noise."""
    p = net.devices.column("participation")
    words = [
        f"{net.neighbours} neighbours, δ = {full(net.delta)}",
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
