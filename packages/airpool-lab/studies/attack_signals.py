"""Targets of studies.attack_decoders: latents at a position, their principal coordinates, and draws of signals."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from airpool_lab.attacks import targets
from airpool_lab.attacks.reconstruct import Decoder
from airpool_lab.attacks.targets import Scenes

BATCH = 256
_LONG = 4096  # coordinates from which latents are kept in half precision
_SAMPLE = 12_000  # long latents of which principal coordinates are found
_FLOOR = 1e-3  # of the mean variance, that noise is taken to have at least


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Principal coordinates of latents (N, r): centre (r,), directions (r, d), standard deviations (d,).

    Noise that is white among the latents is white among the coordinates, with the same standard deviation.
    """

    centre: Tensor
    directions: Tensor
    std: Tensor

    @classmethod
    def of(cls, latents: Tensor, *, most: int = 512, seed: int = 0) -> "Coordinates":
        """The `most` leading ones of latents (N, r)."""
        centre = latents.float().mean(0)
        x = latents.float() - centre
        if x.shape[1] <= 2 * most:
            values, vectors = torch.linalg.eigh(x.T @ x / len(x))
            values, vectors = values.flip(0)[:most], vectors.flip(1)[:, :most]
            return cls(centre, vectors.contiguous(), values.clamp(min=0).sqrt())
        torch.manual_seed(seed)
        _, s, v = torch.svd_lowrank(x, q=min(most, *x.shape), niter=3)
        return cls(centre, v, s / math.sqrt(len(x)))

    def project(self, latents: Tensor) -> Tensor:
        """Coordinates (..., d) of latents (..., r)."""
        return (latents.to(self.centre.dtype) - self.centre) @ self.directions

    def scaled(self, coordinates: Tensor, noise_std: float) -> Tensor:
        """Noisy coordinates times √λ/(λ + σ²): of a Gaussian, the posterior mean in standard deviations."""
        variance = self.std.square()
        noise = max(noise_std**2, _FLOOR * float(variance.mean()))
        return coordinates * (self.std / (variance + noise))

    def recovered(self, noise_std: float) -> float:
        """Part of the latents' variance that the best linear estimate recovers; of Gaussian latents, any estimate."""
        variance = self.std.square()
        return float((variance * (variance / (variance + noise_std**2)).nan_to_num()).sum() / variance.sum())


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
    channels = whole[0].shape[-1] // 49 if isinstance(sender, targets.Channels) else 0
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
