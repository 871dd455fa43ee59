"""Targets of studies.attack_decoders: latents at a position, their principal coordinates, and draws of signals."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from airpool.evaluation.attacks import signals
from airpool.evaluation.attacks.decoder import Coordinates, Decoder
from airpool.evaluation.attacks.scenes import Scenes

BATCH = 256
_LONG = 4096  # coordinates from which latents are kept in half precision
_SAMPLE = 12_000  # long latents of which principal coordinates are found


@dataclass(frozen=True, eq=False)
class Latents:
    """Latents in units of the clip norm, and their principal coordinates (N, K or 1, d).

    link: (N, K, r), of each device. sum: (N, 1, r), of all devices together.
    """

    whole: Tensor
    coordinates: Tensor


@dataclass(frozen=True, eq=False)
class Attacked:
    """One codec at one position: training and test objects and our shapes. channels: of a map, otherwise 0."""

    train: Latents
    test: Latents
    own: Latents
    space: Coordinates
    channels: int
    length: float  # about that of a signal: 1 on a link, K in the sum

    def drawn(self, latents: Latents, rows: Tensor, camera: Tensor, noise: tuple[float, torch.Generator | None]) -> Any:
        """Inputs of the decoder for some objects and cameras, with fresh noise; without noise, the map as well."""
        std, rng = noise
        sender = camera % latents.whole.shape[1]
        x = latents.coordinates[rows, sender]
        if std:
            x = x + std * torch.randn(x.shape, device=x.device, generator=rng)
        inputs = (self.space.scaled(x, std), camera)
        if std or not self.channels:
            return inputs
        return *inputs, self.as_map(latents.whole[rows, sender].float())

    def as_map(self, latents: Tensor) -> Tensor | None:
        """Latents (B, r) as a map (B, channels, 7, 7) of values about 1; None where they are none."""
        if not self.channels:
            return None
        return latents.unflatten(-1, (self.channels, 7, 7)) * (math.sqrt(latents.shape[-1]) / self.length)


@torch.no_grad()
def attacked_at(sender: Any, parts: tuple[Scenes, Scenes, Scenes], position: str) -> Attacked:
    """Latents of the scenes at this position."""
    whole = []
    for each in parts:
        pieces = [sender.encode(some) for some in each.maps.split(64)]
        if position == "sum":
            pieces = [some.sum(1, keepdim=True) for some in pieces]
        kind = torch.float16 if pieces[0].shape[-1] > _LONG else torch.float32
        whole.append(torch.cat([some.to(kind) for some in pieces]))
    sample = whole[0].flatten(0, 1)
    if sample.shape[-1] > _LONG:
        sample = sample[torch.randperm(len(sample), device=sample.device)[:_SAMPLE]]
    space = Coordinates.of(sample, most=784 if sample.shape[-1] <= 784 else 512)
    train, test, own = (Latents(each, torch.cat([space.project(x) for x in each.split(256)])) for each in whole)
    channels = whole[0].shape[-1] // 49 if isinstance(sender, signals.Channels) else 0
    length = float(parts[0].maps.shape[1]) if position == "sum" else 1.0
    return Attacked(train, test, own, space, channels, length)


def batch(attacked: Attacked, training: Scenes, std: float) -> tuple[tuple[Tensor, ...], Tensor]:
    """Random training views: inputs of the decoder with fresh noise, and originals."""
    device, size = training.pictures.device, min(BATCH, 4 * len(training))
    rows = torch.randint(len(training), (size,), device=device)
    camera = torch.randint(training.pictures.shape[1], (size,), device=device)
    return attacked.drawn(attacked.train, rows, camera, (std, None)), training.originals(rows, camera)


@torch.no_grad()
def paint(decoder: Decoder, attacked: Attacked, latents: Latents, camera: Tensor, noise: tuple[float, Any]) -> Tensor:
    """A picture (N, 2, side, side) of each object as its camera sees it."""
    rows = torch.arange(len(camera), device=camera.device)
    return torch.cat([decoder(*attacked.drawn(latents, x, camera[x], noise)).float() for x in rows.split(256)])


def nearest(received: Tensor, gallery: Tensor) -> Tensor:
    """Index (n,) of the likeliest entry of a gallery (G, r) for signals (n, r) in white Gaussian noise.

    Short latents are compared in float64, so that near ones are told apart.
    """
    kind = torch.float64 if gallery.shape[1] <= _LONG else torch.float32
    entries = gallery.to(kind)
    return (received.to(kind) @ entries.T - entries.square().sum(1) / 2).argmax(1)
