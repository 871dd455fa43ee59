"""What ships with airpool: trunk, codecs, local head, and latents of held-out objects.

    model = airpool.load("modelnet40")
    model.trunk, model.codec("compact"), model.head          # torch modules, in eval mode
    model.held_out("test", codec="compact")                  # latents, labels and local posteriors of 2,468 objects
    airpool.infer(model, views, network=net, rng=rng)        # views in, label and guarantee out

Every file is checked against its SHA-256 before it is used. Nothing is downloaded.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from airpool.arrays import require, require_array
from airpool.data import tensors
from airpool.data.tensors import sha256
from airpool.models import codec as codecs
from airpool.models import features, local, weights
from airpool.models.codec import Codec
from airpool.models.local import LocalHead
from airpool.models.vgg import MVCNN
from airpool.network import Coin, Network, Scheme, require_network
from airpool.protocol.inference import Inference, infer_features
from airpool.protocol.link import level
from airpool.selection.participation import expected_of_posteriors

ASSETS = Path(__file__).parent.parent / "assets"

HeldOut = Literal["test", "validation"]

_MOST_PER_CAMERA = 10  # devices that may share one shipped camera


@dataclass(frozen=True, eq=False)
class Objects:
    """Objects that no weight was trained on: latents (N, K, r), labels (N,), local posteriors (N, K, C).

    In the order of the packed file. note: which cameras were left out or repeated to fit the devices, or None.
    """

    latents: Tensor
    labels: Tensor
    posteriors: Tensor
    note: str | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def fitted(self, num_devices: int) -> "Objects":
        """The objects as `num_devices` devices see them: through evenly spaced cameras, or through all of them in turn.

        Edge cases: more devices than cameras → those that share a camera send the same latent, each with its own noise.
        """
        held = self.latents.shape[1]
        if not 1 <= num_devices <= _MOST_PER_CAMERA * held:
            raise ValueError(
                f"num_devices={num_devices} must be from 1 to {_MOST_PER_CAMERA * held}: only {held} cameras ship, and "
                f"at most {_MOST_PER_CAMERA} devices may share one; evaluate more devices on latents of your own"
            )
        if num_devices == held:
            return self
        if num_devices < held:
            which = [k * held // num_devices for k in range(num_devices)]
            used, rest = (", ".join(str(k) for k in range(held) if (k in which) == wanted) for wanted in (True, False))
            note = f"Of the {held} cameras that ship, used: {used}; left out: {rest}."
        else:
            which = [k % held for k in range(num_devices)]
            note = (
                f"Only {held} cameras ship: from device {held} on, their views are repeated in turn, with fresh noise; "
                f"the accuracy is not that of {num_devices} different cameras."
            )
        return Objects(self.latents[:, which], self.labels, self.posteriors[:, which], note)


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A folder of weights and latents, each loaded on first use."""

    name: str
    folder: Path
    manifest: Mapping[str, Any]

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.manifest["classes"])

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of the codecs."""
        return tuple(self.manifest["codecs"])

    @cached_property
    def trunk(self) -> MVCNN:
        """The trunk, with the classifier that it was trained with."""
        return weights.load(self.file("trunk.safetensors"))[0]

    @cached_property
    def head(self) -> LocalHead:
        return local.load(self.file("head.safetensors"))[0]

    def codec(self, name: str = "compact") -> Codec:
        """A codec: the devices' encoder and the server's decoder."""
        if name not in self.codecs:
            raise ValueError(f"codec {name!r} must be one of {', '.join(self.codecs)}")
        return _codec(self, name)

    def held_out(self, split: HeldOut = "test", *, codec: str = "compact") -> Objects:
        """Latents by a codec, labels and local posteriors of the test or the validation objects."""
        if split not in ("test", "validation"):
            raise ValueError(f"split={split!r} must be test or validation")
        self.codec(codec)
        return _held_out(self, split, codec)

    def encode(self, views: Tensor, *, codec: str = "compact") -> Tensor:
        """Latents (N, K, r) of views (N, K, 2, H, H), bytes or floats in [0, 1]."""
        return self._encoded(views, codec)[0]

    def seen(self, views: Tensor, *, codec: str = "compact") -> tuple[Tensor, Tensor]:
        """Latents (N, K, r) and local posteriors (N, K, C) of views (N, K, 2, H, H), in one pass through the trunk."""
        latents, averages = self._encoded(views, codec)
        temperatures = self.head.temperatures
        if averages.shape[1] != len(temperatures):
            raise ValueError(f"views has {averages.shape[1]} devices, the local head is fitted to {len(temperatures)}")
        return latents, local.local_distribution(averages, self.head.classifier, temperatures)

    def _encoded(self, views: Tensor, codec: str) -> tuple[Tensor, Tensor]:
        """Latents, and the averages of the maps that they were made of, (N, K, F)."""
        chosen = self.codec(codec)
        check_views(views, channels=next(self.trunk.features.parameters()).shape[1])
        with torch.no_grad():
            if chosen.shape.kind != "map":
                averages = features.pooled(self.trunk.features, views)
                return chosen.encoder(averages), averages
            channels = next(self.head.classifier.parameters()).shape[1]
            pieces = [
                (chosen.encoder(some), some.unflatten(-1, (channels, -1)).mean(-1))
                for some in features.maps(self.trunk.features, views)
            ]
            latents, averages = (torch.cat(each) for each in zip(*pieces, strict=True))
            return latents, averages

    def participation(self, network: Network) -> NDArray[Any] | None:
        """How often each device is expected to transmit on the validation objects, where scores choose; else None.

        A public number, for `level`: it does not depend on the object at hand.
        """
        if isinstance(network.scheme, Coin):
            return None
        return _expected_participation(self, network.scheme, network.devices.count).copy()

    def file(self, name: str) -> Path:
        """The path of a file, after its checksum was verified."""
        if name not in self.manifest["files"]:
            raise ValueError(f"{name} is not a file of {self.name!r}")
        return _checked(self.folder / name, self.manifest["files"][name]["sha256"])


def check_views(views: Tensor, *, channels: int) -> None:
    """Checks that views are (N, K, channels, H, H), bytes or floats in [0, 1]."""
    require_array("views", views, torch=True)
    shape = tuple(views.shape)
    if len(shape) != 5 or shape[2] != channels or shape[3] != shape[4] or 0 in shape:
        raise ValueError(f"views has shape {shape}, must be (N, K, {channels}, H, H)")
    if views.dtype != torch.uint8:
        if not views.is_floating_point():
            raise ValueError(f"views is {views.dtype}, must be uint8, or floating numbers from 0 to 1")
        hint = "must be from 0 to 1 (bytes go from 0 to 255: give them as uint8)"
        require("views", views, hint, ok=lambda x: (x >= 0) & (x <= 1))


@cache
def load(name: str = "modelnet40") -> Pretrained:
    """The pretrained model of this name."""
    if not isinstance(name, str):
        raise TypeError(f"name is of type {type(name).__name__}, must be the name of a pretrained model")
    manifest = ASSETS / name / "manifest.json"
    if not manifest.exists():
        there = sorted(path.parent.name for path in ASSETS.glob("*/manifest.json"))
        raise ValueError(f"no pretrained model {name!r}: there is {', '.join(there) or 'none'} in {ASSETS}")
    try:
        return Pretrained(name, manifest.parent, json.loads(manifest.read_text("utf-8")))
    except ValueError as error:
        raise ValueError(f"{manifest}: damaged ({error}); install airpool again") from None


def infer(
    model: Pretrained,
    views: Tensor,
    *,
    network: Network,
    rng: torch.Generator,
    codec: str = "compact",
    trials: int = 1,
) -> Inference:
    """Labels of N objects from their views (N, K, 2, H, H), sent through a network, with its guarantee.

    The network's dimension must be the codec's r, its clip norms at most 1, the length of a latent. In Schemes 2.1 and
    2.2 the scores come from the local head.
    """
    require_network(network)
    if not hasattr(model, "codec"):
        raise TypeError(f'model is of type {type(model).__name__}, must be what airpool.load("modelnet40") gives')
    chosen = model.codec(codec)
    if network.dimension != chosen.shape.dimension:
        needed = chosen.shape.dimension
        raise ValueError(f"the network has dimension={network.dimension}, the codec {codec!r} needs dimension={needed}")
    with torch.no_grad():
        chooses = not isinstance(network.scheme, Coin)
        latents, posteriors = model.seen(views, codec=codec) if chooses else (model.encode(views, codec=codec), None)
        return infer_features(
            latents,
            network,
            posteriors=posteriors,
            classifier=chosen.server(level(network, participation=model.participation(network))),
            rng=rng,
            trials=trials,
        )


@cache
def _codec(model: Pretrained, name: str) -> Codec:
    return codecs.load(model.file(f"{name}.safetensors"))[0]


@cache
def _expected_participation(model: Pretrained, scheme: Scheme, num_devices: int) -> NDArray[Any]:
    return expected_of_posteriors(model.held_out("validation").fitted(num_devices).posteriors, scheme)


@cache
def _held_out(model: Pretrained, split: HeldOut, codec: str) -> Objects:
    latents, rest = (tensors.read(model.file(f"{name}-{split}.safetensors"))[0] for name in (codec, "objects"))
    found = latents["latents"].float() * latents["step"]
    return Objects(found, rest["labels"].long(), rest["posteriors"].float())


@cache
def _checked(path: Path, expected: str) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"{path}: missing; install airpool again")
    if (found := sha256(path)) != expected:
        raise ValueError(f"{path}: damaged (SHA-256 {found[:12]}…, must be {expected[:12]}…); install airpool again")
    return path
