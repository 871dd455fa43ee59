"""Latents that an attacker of pictures goes for: a view's whole map, its leading channels, and what codecs send.

    map      the trunk's map less its mean, r = F·7·7
    q16      the map less its mean in its 16 leading principal channels, r = 784: no other 16 channels keep more of it
    others   codecs of the model: compact and vote, r = 40

All are in units of their clip norm: no longer than 1, so the noise of a link is 1/μ in every coordinate. Map and q16
are clipped to the median length of training latents, a public number.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from airpool.models import local
from airpool.models.cameras import temperatures
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.codec import Codec
from airpool.models.local import LocalHead
from airpool.protocol.device import clipped

if TYPE_CHECKING:
    from airpool.models.pretrained import Pretrained

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


def sender(name: str, model: "Pretrained", maps: Tensor) -> Channels | CodecSignals:
    """The sender of this name: "map", "q16", or a codec on the model's trunk. maps: of training (N, K, F, h, w)."""
    if name in CHANNELS:
        return channels(maps.split(64))[CHANNELS.index(name)]
    classifier = copy.deepcopy(model.head.classifier).to(maps.device)
    head = replace(model.head, classifier=classifier, temperatures=model.head.temperatures.to(maps.device))
    return CodecSignals(_codec(name, model), head)


def dimension(name: str, model: "Pretrained") -> int:
    """r of the sender of this name."""
    features, height, width = model.trunk.architecture.map_shape
    if name in CHANNELS:
        return (features, Q)[CHANNELS.index(name)] * height * width
    return _codec(name, model).dimension


def _codec(name: str, model: "Pretrained") -> Codec:
    known = (*CHANNELS, *model.deployable)
    if name not in known and not name.endswith(codecs.SUFFIX):
        raise ValueError(f"codec={name!r} must be {', '.join(known)}, or the file of one on the trunk that ships")
    return model.codec(name)
