"""Views under attack: scenes, the latents that are sent of them, and the signals that are received.

Scenes are small pictures and the trunk's maps of training and held-out objects. With packed meshes the splits are those
of the file, and test objects with a twin are left out. Without, they are our own shapes: the first variant of each
kind, and every fourth after it, is held out. What is sent of a scene:

    map      the trunk's map less its mean, r = F·7·7
    q16      the map less its mean in its 16 leading principal channels, r = 784: no other 16 channels keep more of it
    others   codecs of the model: compact and vote, r = 40

All are in units of their clip norm: no longer than 1, so the noise of a link is 1/μ in every coordinate. Map and q16
are clipped to the median length of training latents, a public number.

Noise is white, so an attacker loses nothing by looking at it in the space that latents span: signals are drawn there,
by the code that transmits, in as many coordinates as it needs.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from airpool._support.arrays import Floats
from airpool.models import local
from airpool.models.cameras import cameras, temperatures
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.codec import Codec
from airpool.models.local import LocalHead
from airpool.models.pretrained import Pretrained, load
from airpool.models.vision import features, shapes
from airpool.models.vision.views import Cameras, views
from airpool.protocol.device import clipped
from airpool_lab.attacks.attack import AttackSetting
from airpool_lab.attacks.hearing import Heard, hear
from airpool_lab.vision import runs
from airpool_lab.vision.renders import renders
from airpool_lab.vision.runs import Source

_BATCH = {"cuda": 32, "cpu": 1}  # objects at a time
_HELD_OUT_EVERY = 4


@dataclass(frozen=True, eq=False)
class Scenes:
    """Maps (N, K, F, 7, 7) in half precision, pictures (N, K, 2, side, side) as bytes, labels (N,)."""

    maps: Tensor
    pictures: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def originals(self, rows: Tensor, camera: Tensor) -> Tensor:
        """Pictures (n, 2, side, side) in [0, 1] of some objects, each by its camera (n,)."""
        return self.pictures[rows, camera].float() / 255


def scenes(
    trunk: nn.Module,
    seen: Tensor,
    labels: Tensor,
    *,
    side: int,
    on_objects: Callable[[int], None] = lambda _: None,
) -> Scenes:
    """Scenes of views (N, K, 2, H, H) as bytes, averaged down to `side`, of which H is a multiple."""
    small, maps, batch = [], [], _BATCH.get(seen.device.type, 1)
    for some, found in zip(seen.split(batch), features.spatial(trunk, seen, batch=batch), strict=True):
        small.append(shrunk(some.float() / 255, side).mul(255).round().byte())
        maps.append(found.half())
        on_objects(len(some))
    return Scenes(torch.cat(maps), torch.cat(small), labels)


def shrunk(pictures: Tensor, side: int) -> Tensor:
    """Pictures (..., C, H, H) averaged down to (..., C, side, side)."""
    small = F.avg_pool2d(pictures.flatten(0, -3), pictures.shape[-1] // side)
    return small.reshape(*pictures.shape[:-2], side, side)


def mean_pictures(training: Scenes, num_classes: int) -> tuple[Tensor, Tensor]:
    """Pictures painted without a signal: the mean of each camera (K, 2, H, H), and of each class (C, K, 2, H, H)."""
    mean = torch.stack([each.float().mean(0) for each in training.pictures.unbind(1)]) / 255
    of_class = torch.stack([mean] * num_classes)
    for label in training.labels.unique().tolist():
        of_class[label] = training.pictures[training.labels == label].float().mean(0) / 255
    return mean, of_class


def alone(source: Source) -> NDArray[np.intp]:
    """Rows of the test objects that have the mesh of no training object, and of no test object before them."""
    twins = set(source.duplicates.tolist())
    rows = [int(row) for i, row in enumerate(source.rows["test"]) if i not in twins]
    first = {source.meshes.digests[row]: row for row in reversed(rows)}
    return np.array([row for row in rows if first[source.meshes.digests[row]] == row], dtype=np.intp)


def _scenes_of_meshes(trunk: nn.Module, setting: AttackSetting) -> tuple[Scenes, Scenes]:
    """Training and test scenes of a packed file; at most `objects` of each, or all of them for 0."""
    options, found = setting.options, []
    source = runs.source(Path(options["meshes"]), limit=options["objects"] or None)
    for name, rows in (("training", source.rows["train"]), ("test", alone(source))):
        where = options["torch_device"]
        labels = torch.from_numpy(source.meshes.label[rows].astype(np.int64)).to(where)
        with setting.progress(f"{name} views", 2 * len(rows)) as advance:
            seen = renders(source.meshes, rows, Cameras(), torch_device=where, on_objects=advance)
            found.append(scenes(trunk, seen, labels, side=options["side"], on_objects=advance))
    return found[0], found[1]


def _scenes_of_shapes(trunk: nn.Module, setting: AttackSetting, classes: Sequence[str]) -> tuple[Scenes, Scenes]:
    """Training and held-out scenes of our own shapes; of `objects` shapes, or all of them for 0."""
    options, where = setting.options, setting.options["torch_device"]
    every = [each for each in shapes.all() if each.label in classes][: options["objects"] or None]
    labels = torch.tensor([classes.index(each.label) for each in every], device=where)
    with setting.progress("views of our shapes", 2 * len(every)) as advance:
        seen = []
        for each in every:
            seen.append(views([(each.vertices, each.faces)], device=where, dtype=torch.uint8))
            advance(1)
        whole = scenes(trunk, torch.cat(seen), labels, side=options["side"], on_objects=advance)
    aside = torch.tensor([each.variant % _HELD_OUT_EVERY == 0 for each in every], device=where)
    return _of(whole, ~aside), _of(whole, aside)


def _of(whole: Scenes, mask: Tensor) -> Scenes:
    return Scenes(whole.maps[mask], whole.pictures[mask], whole.labels[mask])


CHANNELS = ("map", "q16")
Q = 16


@dataclass(frozen=True, eq=False)
class Channels:
    """Map (..., F, h, w) to latents: less the mean map, in some directions of its channels (F, q), or in all."""

    centre: Tensor  # (F, h, w)
    directions: Tensor | None
    clip_norm: float

    def encode(self, maps: Tensor, cameras: Tensor | None = None) -> Tensor:
        """Clipped latents (..., r) of maps (..., F, h, w), in units of the clip norm; alike for all cameras."""
        return clipped(self.raw(maps) / self.clip_norm, 1.0)

    def raw(self, maps: Tensor) -> Tensor:
        x = maps.float() - self.centre
        if self.directions is not None:
            x = torch.einsum("...fhw,fq->...qhw", x, self.directions)
        return x.flatten(-3)


@dataclass(frozen=True, eq=False)
class CodecSignals:
    """Maps of all cameras (N, K, F, h, w) to what a codec on their averages sends."""

    codec: Codec
    head: LocalHead

    def encode(self, maps: Tensor, cameras: Tensor | None = None) -> Tensor:
        """Clipped latents (N, K, r). cameras: those of the maps, (N, K) or (K,); left out, all of them in order."""
        own = (
            temperatures(self.head.temperatures, maps.shape[1]) if cameras is None else self.head.temperatures[cameras]
        )
        logits = self.head.classifier(maps.float().flatten(0, 1)).unflatten(0, maps.shape[:2])
        read = {"feature": maps.float().mean((-2, -1)), "posterior": local.posteriors(logits, own)}
        return clipped(codecs.encoded(self.codec, read), 1.0)


def channels(maps: Sequence[Tensor]) -> tuple[Channels, Channels]:
    """The map and q16, fitted to training maps (n, K, F, h, w), given in batches."""
    sums = [some.flatten(0, 1).sum(0, dtype=torch.float64) for some in maps]
    centre = (torch.stack(sums).sum(0) / sum(some.shape[0] * some.shape[1] for some in maps)).float()
    square = torch.zeros(len(centre), len(centre), device=centre.device)
    for some in maps:
        x = (some.flatten(0, 1).float() - centre).transpose(0, 1).flatten(1)  # (F, n·h·w)
        square += x @ x.T
    leading = torch.linalg.eigh(square / square.trace())[1].flip(1)[:, :Q].contiguous()

    def fitted(directions: Tensor | None) -> Channels:
        plain = Channels(centre, directions, 1.0)
        lengths = torch.cat([plain.raw(some.flatten(0, 1)).norm(dim=-1) for some in maps])
        return replace(plain, clip_norm=float(lengths.median()))

    return fitted(None), fitted(leading)


def sender(name: str, model: Pretrained, maps: Tensor) -> Channels | CodecSignals:
    """The sender of this name: "map", "q16", or a codec on the model's trunk. maps: of training (N, K, F, h, w)."""
    if name in CHANNELS:
        return channels(maps.split(64))[CHANNELS.index(name)]
    classifier = copy.deepcopy(model.head.classifier).to(maps.device)
    head = replace(model.head, classifier=classifier, temperatures=model.head.temperatures.to(maps.device))
    return CodecSignals(_codec(name, model), head)


def dimension(name: str, model: Pretrained) -> int:
    """r of the sender of this name."""
    features, height, width = model.trunk.architecture.map_shape
    if name in CHANNELS:
        return (features, Q)[CHANNELS.index(name)] * height * width
    return _codec(name, model).dimension


def _codec(name: str, model: Pretrained) -> Codec:
    known = (*CHANNELS, *model.deployable)
    if name not in known and not name.endswith(codecs.SUFFIX):
        raise ValueError(f"codec={name!r} must be {', '.join(known)}, or the file of one on the trunk that ships")
    return model.codec(name)


# codec: map, q16, compact or vote. meshes: a packed file; left out, our own shapes. objects: at most so many of each
# split, 0 for all. side: pixels along a picture's side.
OPTIONS = {"codec": "vote", "meshes": "", "objects": 0, "side": 56, "torch_device": "cpu"}


def wanted(options: Any) -> dict[str, int]:
    """Devices and dimension of a network for the attacked codec."""
    model = load("modelnet40")
    return {"devices": model.num_devices, "dimension": dimension(options["codec"], model)}


@dataclass(frozen=True, eq=False)
class Targets:
    """Training and held-out scenes, and the latents (N, K, r) that all cameras of the model would send of them."""

    setting: AttackSetting
    model: Pretrained
    trunk: nn.Sequential
    training: Scenes
    test: Scenes
    sent: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, setting: AttackSetting) -> "Targets":
        """The targets that the options name."""
        options, model = setting.options, load("modelnet40")
        where = torch.device(options["torch_device"])
        if where.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"torch_device={options['torch_device']!r}: torch finds no CUDA device here")
        wide = dimension(options["codec"], model)
        if setting.network.dimension != wide:
            raise ValueError(f"the network has dimension={setting.network.dimension}, the attacked codec {wide}")
        if options["codec"] in CHANNELS and setting.network.channel.fading != "none":
            raise ValueError(
                f"codec={options['codec']!r} needs fading='none', not {setting.network.channel.fading!r}: its signals "
                "are drawn in fewer coordinates, and the power of a device depends on their number"
            )
        trunk = copy.deepcopy(model.trunk.features).to(where)
        if options["meshes"]:
            training, test = _scenes_of_meshes(trunk, setting)
        else:
            training, test = _scenes_of_shapes(trunk, setting, model.classes)
        if not len(training) or len(test) < 2:
            raise ValueError(f"objects={options['objects']} leaves {len(test)} held-out objects: at least 2 are needed")
        sent_by = sender(options["codec"], model, training.maps)
        with torch.no_grad():
            latents = [torch.cat([sent_by.encode(x) for x in each.maps.split(32)]) for each in (training, test)]
        return cls(setting, model, trunk, training, test, (latents[0], latents[1]))

    @cached_property
    def camera(self) -> int:
        """The attacked device's camera."""
        return self._cameras[self.setting.device]

    @cached_property
    def _cameras(self) -> list[int]:
        return cameras(self.setting.network.devices.count, self.model.num_devices)

    def spanned(self, latents: Tensor, *, most: int) -> Tensor:
        """Orthonormal directions (r, d) of the space of latents (N, K, r): all of it, or its `most` leading ones."""
        flat = latents.flatten(0, 1).float()
        if flat.shape[1] <= most:
            return torch.eye(flat.shape[1], device=flat.device)
        if len(flat) <= most:
            return torch.linalg.qr(flat.T)[0]
        torch.manual_seed(self.setting.seed)
        return torch.svd_lowrank(flat, q=most, niter=3)[2]

    def heard(self, coordinates: Floats, rng: np.random.Generator, *, turned: int = 0, trials: int = 1) -> Heard:
        """Signals of latents in coordinates (n, cameras, d), by the network's own devices, clip, weights and noise.

        turned: by so many cameras, so that the attacked device has another view.
        """
        setting, views = self.setting, np.roll(coordinates, -turned, axis=1)[:, self._cameras]
        network = replace(setting.network, dimension=views.shape[-1])
        return hear(network, setting.claim, setting.position, views, rng=rng, device=setting.device, trials=trials)

    def weighted(self, coordinates: Floats) -> Floats:
        """The signal of latents (n, d) of the attacked device, without noise."""
        devices, k = self.setting.network.devices, self.setting.device
        return devices.column("weight")[k] * clipped(coordinates, devices.column("clip_norm")[k])
