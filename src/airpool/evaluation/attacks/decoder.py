"""The decoder network of an attacker: received signals to pictures, trained at the noise that it attacks.

    signal → principal coordinates, each scaled by its signal-to-noise ratio → hidden layer → 7×7 → … → picture

What is known is used: the noise level, the covariance of the latents, which camera it is. Every step draws fresh noise.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_DARKEST = 1e-3  # mean of a pixel, at least
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


class Decoder(nn.Module):
    """Coordinates (B, d) and cameras (B,) to pictures (B, 2, side, side), side = 7·2^n, n ≥ 2.

    mean: the mean picture of each camera (K, 2, side, side), from which training starts: what is painted of a signal
    that tells nothing. channels: of a map (B, channels, 7, 7) that is read as well, where signals come without noise; 0
    for none. width: channels of the last layer; each of the layers before has twice as many as the next.
    """

    mean: Tensor

    def __init__(self, dimension: int, mean: Tensor, *, width: int = 64, channels: int = 0) -> None:
        super().__init__()
        cameras, side = len(mean), mean.shape[-1]
        doublings = round(math.log2(side / 7))
        if side != 7 * 2**doublings or doublings < 2:
            raise ValueError(f"side={side} must be 28, 56, 112 or 224")
        wide = width * 2 ** (doublings - 1)
        self.cameras, self.wide = cameras, wide
        self.dense = nn.Sequential(nn.Linear(dimension + cameras, 2 * wide), nn.GELU(), nn.Linear(2 * wide, wide * 49))
        self.spatial = nn.Conv2d(channels, wide, 1) if channels else None
        stages: list[nn.Module] = [nn.BatchNorm2d(wide), nn.GELU()]
        while wide > width:
            stages += [nn.Upsample(scale_factor=2), *_layer(wide, wide // 2), *_layer(wide // 2, wide // 2)]
            wide //= 2
        last = nn.Conv2d(wide, 8, 3, padding=1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)  # pyright: ignore[reportArgumentType]
        self.stages = nn.Sequential(*stages, last, nn.PixelShuffle(2))
        self.register_buffer("mean", torch.logit(mean.float(), eps=_DARKEST))

    def forward(self, coordinates: Tensor, camera: Tensor, maps: Tensor | None = None) -> Tensor:
        return self.drawn(self.sketch(coordinates, camera, maps), camera)

    def sketch(self, coordinates: Tensor, camera: Tensor, maps: Tensor | None = None) -> Tensor:
        """The first layer that has places, (B, wide, 7, 7)."""
        x = self.dense(torch.cat((coordinates, F.one_hot(camera, self.cameras).to(coordinates)), 1))
        x = x.unflatten(1, (self.wide, 7, 7))
        return x if self.spatial is None else x + self.spatial(maps)

    def drawn(self, sketch: Tensor, camera: Tensor) -> Tensor:
        """Pictures of sketches."""
        return (self.stages(sketch.contiguous(memory_format=torch.channels_last)) + self.mean[camera]).sigmoid()


def _layer(inside: int, outside: int) -> list[nn.Module]:
    return [nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.GELU()]


Batch = Callable[[], tuple[tuple[Tensor, ...], Tensor]]  # draws inputs of the decoder, and originals in [0, 1]


def train(
    decoder: Decoder, batch: Batch, *, seconds: float = math.inf, steps: int = 10**9, learning_rate: float = 1e-3
) -> int:
    """Trains by the squared error over whole pictures until the steps or the seconds are over; returns the steps.

    The learning rate rises over the first twentieth and falls to 0 as a cosine.
    """
    begin, step = time.perf_counter(), 0
    cuda = next(decoder.parameters()).is_cuda
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=learning_rate, weight_decay=0.01)
    decoder.train()
    while (done := max(step / steps, (time.perf_counter() - begin) / seconds)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(20 * done + 0.02, (1 + math.cos(math.pi * done)) / 2)
        inputs, originals = batch()
        with torch.autocast(originals.device.type, torch.bfloat16, enabled=cuda):
            painted = decoder(*inputs)
        loss = F.mse_loss(painted.float(), originals)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        step += 1
        if cuda and step % 20 == 0:
            torch.cuda.synchronize()  # so that the clock sees the work
    decoder.eval()
    return step
