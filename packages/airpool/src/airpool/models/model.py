"""Interface of every model, shipped or your own: local heads, codecs, and held-out objects as a codec encodes them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray
from torch import Tensor

from airpool._support.arrays import Array
from airpool._support.brief import Brief
from airpool.models import stored
from airpool.models.cameras import camera_note, cameras
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.codec import SUFFIX, Codec
from airpool.models.sensors.stacking import mask
from airpool.models.stored import HeldOut
from airpool.network import Network, Scheme
from airpool.radio.link import Level
from airpool.schemes.scores import expected_of_posteriors


@dataclass(frozen=True, eq=False, repr=False)
class Objects(Brief):
    """Objects that no weight was trained on: latents (N, K, r), labels (N,), local posteriors (N, K, C).

    note: which sensors were left out or repeated to fit the devices, or None.

    >>> import torch
    >>> seen = Objects(torch.zeros(5, 12, 40), torch.zeros(5), torch.full((5, 12, 40), 1 / 40))
    >>> len(seen), seen.fitted(3).latents.shape
    (5, torch.Size([5, 3, 40]))
    """

    latents: Tensor
    labels: Tensor
    posteriors: Tensor
    note: str | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def fitted(self, num_devices: int) -> "Objects":
        """The objects as `num_devices` devices see them: with evenly spaced sensors, or with all of them in turn.

        Edge cases: more devices than sensors → those that share a sensor send the same latent, each with its own noise.
        """
        held = self.latents.shape[1]
        which = cameras(num_devices, held)
        if num_devices == held:
            return self
        latents, posteriors = self.latents[:, which], self.posteriors[:, which]
        return Objects(latents, self.labels, posteriors, camera_note(num_devices, held))


class Model(Brief, ABC):
    """A model as `evaluate`, `plan`, `design` and `infer` read it. codecs: names, the default (None) first.

    Wherever a codec is named, the file of one of your own may stand, which then reads the default's trunk.
    vote_fitted_to: the held-out objects that its votes were fitted to, if any.

    >>> from airpool import load
    >>> model = load("modelnet40")
    >>> model.classes[:2], model.num_devices, model.codecs, model.deployable, model.view_shape
    (('airplane', 'bathtub'), 12, ('vote', 'compact', 'q16', 'vote-vgg11'), ('vote', 'compact'), (2, 224, 224))
    >>> model.codec("compact").dimension, model.wanted("vote"), model.trunk_of("q16")
    (40, {'devices': 12, 'dimension': 40}, 'vgg11')
    >>> held = model.held_out("test", codec="compact")
    >>> held.latents.shape, model.participation(Network.uniform(num_devices=12)) is None
    (torch.Size([2468, 12, 40]), True)
    >>> latents, server = model.vote(held.posteriors, codec="compact")           # what `evaluate` compares with
    >>> views = Tensor(1, 2, *model.view_shape).zero_()
    >>> model.encode(views).shape, [part.shape[-1] for part in model.seen(views)]
    (torch.Size([1, 2, 40]), [40, 40])
    """

    name: str
    vote_fitted_to: ClassVar[HeldOut | None] = None

    def _repr_html_(self) -> str:
        from airpool._support.notebook import facts, shown

        classes, default = self.classes, self.codecs[0]
        more = ", …" if len(classes) > 8 else ""
        rows = {
            "classes": f"{len(classes)}: {', '.join(map(str, classes[:8]))}{more}",
            "codecs": f"{', '.join(self.codecs)}; the default is {default}",
            "trunk": self.trunk_of(),
            **{name.replace("_", " "): str(value) for name, value in self.told.items()},
        }
        return shown(f"Model {self.name}", facts(rows.items()))

    @property
    def told(self) -> dict[str, str | int | float]:
        """Facts of its making, for a notebook."""
        return {}

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, C of them, in the order of the labels."""

    @property
    @abstractmethod
    def codecs(self) -> tuple[str, ...]:
        """Names of its codecs, the default first."""

    @abstractmethod
    def trunk_of(self, codec: str | None = None) -> str:
        """Name of the trunk whose features a codec reads, such as "lite2"."""

    @property
    def view_shape(self) -> tuple[int, ...] | None:
        """Channels, height and width of the images that `seen` takes; None where it takes features alone."""
        return None

    @abstractmethod
    def named_codec(self, name: str) -> Codec:
        """The codec of one of these names."""

    @abstractmethod
    def encoded_objects(self, split: HeldOut, codec: str) -> Objects:
        """Held-out objects by one of these codecs."""

    @abstractmethod
    def encode(self, inputs: Any, *, codec: str | None = None) -> Tensor:
        """Latents (N, K, r) of what the sensors measured."""

    @abstractmethod
    def seen(self, inputs: Any, *, codec: str | None = None) -> tuple[Tensor, Tensor]:
        """Latents (N, K, r) and local posteriors (N, K, C) of what the sensors measured."""

    @property
    def num_devices(self) -> int:
        """K, the number of sensors."""
        return self.held_out("validation").posteriors.shape[1]

    def codec(self, name: str | None = None) -> Codec:
        """A codec: the devices' encoder and the server's decoder. name: left out, the default."""
        name = self.checked(name)
        return codecs.load(Path(name))[0] if name.endswith(SUFFIX) else self.named_codec(name)

    def wanted(self, codec: str | None = None) -> dict[str, int]:
        """Devices and dimension of a network for this codec."""
        return {"devices": self.num_devices, "dimension": self.codec(codec).dimension}

    @property
    def deployable(self) -> tuple[str, ...]:
        """Names of the codecs on the default's trunk, which is the one that ships."""
        return tuple(name for name in self.codecs if self.trunk_of(name) == self.trunk_of())

    def vote(
        self, posteriors: Tensor, *, codec: str | None = None
    ) -> tuple[Tensor, Callable[[Level], Callable[[Tensor], Tensor]]] | None:
        """Latents (N, K, C) of the vote on the codec's trunk and its server, as `evaluate` takes them.

        None where there is no vote, or the codec is the vote itself.
        """
        trunk = self.trunk_of(codec)
        own = [name for name in self.codecs if self.trunk_of(name) == trunk and self.codec(name).kind == "vote"]
        if not own or self.checked(codec) in own:
            return None
        vote = self.codec(own[0])
        return vote.encoder(posteriors), vote.server

    def held_out(self, split: HeldOut = "test", *, codec: str | None = None) -> Objects:
        """Latents by a codec, labels and local posteriors of the test or the validation objects."""
        if split not in ("test", "validation"):
            raise ValueError(f"split={split!r} must be test or validation")
        if not (name := self.checked(codec)).endswith(SUFFIX):
            return self.encoded_objects(split, name)
        held = self.encoded_objects(split, self.codecs[0])
        return Objects(stored.latents_of(self.codec(name), {}, held.posteriors), held.labels, held.posteriors)

    def participation(self, network: Network, *, codec: str | None = None) -> NDArray[Any] | None:
        """Expected participation of each device on the validation objects, where scores choose; else None.

        A public number, for `level`: it does not depend on the object at hand.
        """
        if not network.scheme.needs_posteriors:
            return None
        return _expected_participation(self, network.scheme, network.devices.count, self.checked(codec)).copy()

    def checked(self, codec: str | None) -> str:
        """The codec's name, or its file; None: the default's."""
        return stored.checked(codec, self.codecs)


@cache
def _expected_participation(model: Model, scheme: Scheme, num_devices: int, codec: str) -> NDArray[Any]:
    return expected_of_posteriors(model.held_out("validation", codec=codec).fitted(num_devices).posteriors, scheme)


def declared(latents: Tensor, posteriors: Tensor | None, present: Array) -> tuple[Tensor, Tensor | None]:
    """Latents 0 and posteriors uniform where a sensor is absent; present: (N, K) bool."""
    there = mask(present, tuple(latents.shape[:2])).to(latents.device)[..., None]
    latents = latents.where(there, 0.0)
    return latents, None if posteriors is None else posteriors.where(there, 1 / posteriors.shape[-1])
