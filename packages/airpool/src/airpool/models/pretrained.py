"""Shipped models: trunk, codecs, local head, and latents of held-out objects; and models of your own, by path.

    model = airpool.load("modelnet40")                       # or the file that `airpool.fit` made
    model.trunk, model.head, model.codec("vote")             # torch modules, in eval mode, and the default codec
    model.held_out("test", codec="vote")                     # latents, labels and local posteriors of 2,468 objects
    airpool.infer(model, views, network=net, rng=rng)        # views in, label and guarantee out

A codec stands on a trunk: most on the one that ships, q16 on the paper's VGG11, of which latents ship, but no weights.
Every file is checked against its SHA-256 before it is used. Nothing is downloaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

import numpy as np
import torch
from torch import Tensor

from airpool._support import draws, files
from airpool._support.arrays import Array
from airpool._support.progress import automatic
from airpool.models import local, stored, weights
from airpool.models.cameras import temperatures
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.codec import SUFFIX, Codec
from airpool.models.layers import in_float64
from airpool.models.local import LocalHead
from airpool.models.model import Model, Objects, declared
from airpool.models.sensors import fitted
from airpool.models.stored import HeldOut
from airpool.models.vision import features
from airpool.models.vision.mvcnn import MVCNN
from airpool.network import Claim, Network, require_network
from airpool.protocol.inference import BySlots, Inference, Simulation, infer_features, level_of
from airpool.schemes.scores import Uncertainty


@dataclass(frozen=True, eq=False, repr=False)
class Pretrained(Model):
    """A folder of weights and latents, each loaded on first use."""

    name: str
    folder: Path
    manifest: Mapping[str, Any]
    vote_fitted_to: ClassVar[HeldOut | None] = "validation"

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.manifest["classes"])

    @property
    def codecs(self) -> tuple[str, ...]:
        return tuple(self.manifest["codecs"])

    def trunk_of(self, codec: str | None = None) -> str:
        name = self.checked(codec)
        return self.manifest["codecs"][self.codecs[0] if name.endswith(SUFFIX) else name]

    @property
    def view_shape(self) -> tuple[int, ...]:
        shape = self.trunk.architecture
        return shape.in_channels, shape.resolution, shape.resolution

    @cached_property
    def trunk(self) -> MVCNN:
        """The trunk that ships, with the classifier that it was trained with."""
        return weights.load(self.file("trunk.safetensors"))[0]

    @cached_property
    def head(self) -> LocalHead:
        """The trunk's local head."""
        return local.load(self.file("head.safetensors"))[0]

    def named_codec(self, name: str) -> Codec:
        return _codec(self, name)

    def encoded_objects(self, split: HeldOut, codec: str) -> Objects:
        return _held_out(self, split, codec)

    def encode(self, inputs: Tensor, *, codec: str | None = None) -> Tensor:
        """Latents (N, K, r) of views (N, K, 2, H, H) of the trunk's resolution, bytes or floats in [0, 1]."""
        return self._encoded(inputs, codec)[0]

    def seen(self, inputs: Tensor, *, codec: str | None = None) -> tuple[Tensor, Tensor]:
        """Latents (N, K, r) and local posteriors (N, K, C) of views (N, K, 2, H, H), in one pass through the trunk."""
        latents, averages = self._encoded(inputs, codec)
        return latents, self._posteriors(averages)

    def _encoded(self, views: Tensor, codec: str | None) -> tuple[Tensor, Tensor]:
        """Latents, and the averages of the maps that they were made of, (N, K, F)."""
        chosen, needed = self.codec(codec), self.trunk_of(codec)
        if needed != self.trunk.architecture.trunk:
            raise ValueError(
                f"codec {codec!r} reads maps of {needed}, whose weights do not ship, only latents: train it with "
                f"`airpool train trunk --kind {needed}` and a codec on it with `airpool train codec`"
            )
        features.check_views(views, self.view_shape)
        with torch.no_grad():
            if chosen.reads != "map":
                averages = features.pooled(self.trunk.features, views)
                return codecs.encoded(chosen, {"feature": averages, "posterior": self._posteriors(averages)}), averages
            pieces = [
                (codecs.encoded(chosen, {"map": some}), some.unflatten(-1, (self.head.sizes[0], -1)).mean(-1))
                for some in features.maps(self.trunk.features, views)
            ]
            latents, averages = (torch.cat(each) for each in zip(*pieces, strict=True))
            return latents, averages

    def _posteriors(self, averages: Tensor) -> Tensor:
        """Posteriors of each camera, by its own temperature; of cameras that do not ship, by the mean of these."""
        own = temperatures(self.head.temperatures, averages.shape[1])
        return local.local_distribution(averages, self.head.classifier, own)

    def file(self, name: str) -> Path:
        """The path of a file, after its checksum was verified."""
        return stored.file_of(self.folder, self.manifest, name)


@overload
def load(name: Literal["modelnet40"] = ...) -> Pretrained: ...
@overload
def load(name: str | Path) -> Model: ...
def load(name: str | Path = "modelnet40") -> Model:
    """The model that ships under this name, or that lies in this file.

    name: "modelnet40", "wearables" or "photos", which ship; or the path of a file that `airpool.fit` or `airpool fit`
    wrote. Nothing is downloaded.

    >>> model = load("modelnet40")
    >>> len(model.classes), model.codecs[0], len(model.held_out("test")), model.wanted("vote")
    (40, 'vote', 2468, {'devices': 12, 'dimension': 40})
    """
    if not isinstance(name, str | Path):
        raise TypeError(f"name is of type {type(name).__name__}, must be the name or the file of a model")
    if Path(name).suffix == SUFFIX:
        return fitted.read(Path(name))
    return _shipped(str(name))


@cache
def _shipped(name: str) -> Model:
    path = stored.where(name)
    if path.suffix == SUFFIX:
        return fitted.read(path)
    return Pretrained(name, path.parent, stored.manifest_of(path.parent))


@automatic("inferring")
def infer(
    model: Model,
    inputs: Any,
    *,
    network: Network,
    claim: Claim = Claim(),
    rng: draws.Generator,
    codec: str | None = None,
    present: Array | None = None,
    simulation: Simulation | None = None,
) -> Inference:
    """Labels of N objects, sent through a network, with its guarantee; in up to network.slots.count slots, until sure.

    inputs: views (N, K, 2, H, H) of the shipped model; of one that `airpool.fit` made, pictures (N, K, 3, H, H) if it
    was given such, or features.
    claim: what the guarantee is asked.
    The network's dimension must be the codec's r, its clip norms at most 1, the length of a latent. In Schemes 2.1 and
    2.2 the scores come from the local head. codec: left out, the model's default.
    present: (N, K), False where a sensor was declared absent before it measured: its device sends noise alone. A sensor
    that is there and measures NaN sends the same: the two are indistinguishable.
    rng: a NumPy generator computes all in float64 on the CPU, as a run of processes with one seed computes it
    by the full path (airpool_runtime.seeded). simulation: trials, path, baseline, and the report, if known already.

    >>> from airpool import fit
    >>> from airpool.models.sensors.fitting import FitRecipe
    >>> labels = np.arange(60) % 3                                      # three classes, seen by four sensors
    >>> features = np.eye(3)[labels][:, None] + np.random.default_rng(0).normal(scale=0.2, size=(60, 4, 3))
    >>> quick = FitRecipe(alike=True, hidden=(0,), head_steps=20, codec_steps=1, trials=1)
    >>> model = fit(features, labels, epsilon=4, recipe=quick)
    >>> net = Network.uniform(num_devices=4, dimension=3, noise_std=0.02)
    >>> found = infer(model, features[:5], network=net, rng=np.random.default_rng(1))
    >>> found.label.shape, bool((found.label[:, 0] == labels[:5]).all()), found.report.network == net
    ((5, 1), True, True)
    """
    require_network(network)
    if not isinstance(model, Model):
        raise TypeError(f'model is of type {type(model).__name__}, must be what airpool.load("modelnet40") gives')
    chosen = model.codec(codec)
    if network.dimension != chosen.dimension:
        needed = chosen.dimension
        name = codec or model.codecs[0]
        raise ValueError(f"the network has dimension={network.dimension}, the codec {name!r} needs dimension={needed}")
    with torch.no_grad():
        chooses = network.scheme.needs_posteriors
        latents, posteriors = model.seen(inputs, codec=codec) if chooses else (model.encode(inputs, codec=codec), None)
        if present is not None:
            latents, posteriors = declared(latents, posteriors, present)
    return infer_encoded(
        model, latents, posteriors, network=network, claim=claim, rng=rng, codec=codec, simulation=simulation
    )


@torch.no_grad()
def infer_encoded(
    model: Model,
    latents: Tensor,
    posteriors: Tensor | None,
    *,
    network: Network,
    claim: Claim = Claim(),
    rng: draws.Generator,
    codec: str | None = None,
    simulation: Simulation | None = None,
) -> Inference:
    """`infer` of what the model has encoded already: latents and, where scores choose, posteriors (`Model.seen`)."""
    chosen, baseline = model.codec(codec), None if simulation is None else simulation.baseline
    public = level_of(network, baseline, participation=model.participation(network, codec=codec))
    features, probabilities = latents, posteriors if network.scheme.needs_posteriors else None
    if isinstance(rng, np.random.Generator):
        features, probabilities = (None if x is None else x.double().cpu().numpy() for x in (latents, probabilities))
        chosen = codecs.moved(chosen, in_float64)  # as a running server computes it
    server = BySlots(lambda slots: codecs.decoder(chosen, public.of_mean(slots)))
    uncertainty = Uncertainty(probabilities)
    return infer_features(
        features, network, claim, server=server, rng=rng, uncertainty=uncertainty, simulation=simulation
    )


@cache
def _codec(model: Pretrained, name: str) -> Codec:
    return codecs.load(model.file(name + SUFFIX))[0]


@cache
def _held_out(model: Pretrained, split: HeldOut, codec: str) -> Objects:
    arrays: dict[str, Tensor] = {}
    for path in stored.object_files(model.folder, model.manifest, split, codec):
        arrays |= files.read_tensors(path)[0]
    posteriors = arrays["posteriors"].float()
    latents = stored.latents_of(model.codec(codec), arrays, posteriors)
    return Objects(latents, arrays["labels"].long(), posteriors)
