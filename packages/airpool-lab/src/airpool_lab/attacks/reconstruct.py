"""Reconstruction: a picture of the attacked view, painted by a decoder that was trained at the attacked noise.

    signal → principal coordinates, each scaled by its signal-to-noise ratio → hidden layer → 7×7 → … → picture

What is known is used: the noise level, the covariance of the latents, which camera it is. Every step draws fresh noise.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airpool._support import figures
from airpool.models.layers import in_float64
from airpool_lab.attacks import likeness
from airpool_lab.attacks.attack import AttackSetting, result_of
from airpool_lab.attacks.positions import Scope
from airpool_lab.attacks.result import AttackResult
from airpool_lab.attacks.targets import OPTIONS, Targets, mean_pictures, wanted

_DARKEST = 1e-3  # mean of a pixel, at least


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


_COORDINATES, _BATCH, _SHOWN = 256, 64, 6


class Reconstruct:
    """Options: those of `targets`, and steps, width: of the decoder's training, of its last layer.

    A picture is judged by its likeness to the view, beside the mean picture and that of the true class, which need no
    signal; and as a guess: of all held-out views, is the true one nearest to it.
    """

    about = "Paint the attacked view."
    options: ClassVar = {**OPTIONS, "steps": 600, "width": 16}

    def wanted(self, options: Mapping[str, Any]) -> dict[str, int]:
        return wanted(options)

    def run(self, setting: AttackSetting, /) -> Sequence[AttackResult]:
        targets = Targets.of(setting)
        mean, of_class = mean_pictures(targets.training, len(targets.model.classes))
        painted, originals = _painted(targets, mean)
        camera, labels = targets.camera, targets.test.labels
        without = {"mean image": mean[camera].expand_as(originals), "class mean": of_class[labels, camera]}
        numbers: dict[str, Any] = {"codec": setting.options["codec"]}
        for name, pictures in {"": painted, **without}.items():
            for measure, value in _measures(targets, pictures, originals).items():
                numbers[f"{measure} of the {name}" if name else measure] = value
        nearest = torch.cdist(painted.flatten(1), originals.flatten(1)).argmin(1)
        size, rows = len(originals), torch.arange(len(originals), device=nearest.device)
        scope: Scope = "view" if setting.position.alone else "object"
        return [
            result_of(
                setting,
                "reconstruct",
                f"nearest of {size} views",
                scope,
                trials=size,
                right=int((nearest == rows).sum()),
                prior=1 / size,
                numbers=numbers,
                picture=_drawn(setting.out, {"original": originals, "reconstructed": painted, **without}),
            )
        ]


RECONSTRUCT = Reconstruct()


def _painted(targets: Targets, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Pictures (n, 2, side, side) of the held-out objects' attacked views, and the originals. mean: of each camera."""
    setting, options, scenes = targets.setting, targets.setting.options, targets.training
    where, rng = scenes.pictures.device, np.random.default_rng(setting.seed)
    directions = targets.spanned(targets.sent[0], most=_COORDINATES)
    known, held_out = (in_float64(each @ directions) for each in targets.sent)
    cameras = known.shape[1]

    def drawn(coordinates: Any, turned: int) -> tuple[Any, float]:
        heard = targets.heard(coordinates, rng, turned=turned)
        finite = heard.noise_std[np.isfinite(heard.noise_std)]
        return heard.signal[:, 0], float(finite.mean()) if len(finite) else 0.0

    lesson = [drawn(known, turned) for turned in range(cameras)]
    sample, noise = np.concatenate([each for each, _ in lesson]), np.mean([std for _, std in lesson])
    centre, spread = sample.mean(axis=0), sample.var(axis=0)
    # √λ/(λ + σ²), the posterior mean of a Gaussian in standard deviations: λ is what noise leaves of the variance.
    scale = np.sqrt(np.maximum(spread - noise**2, 1e-3 * spread.mean())) / np.maximum(spread, 1e-3 * spread.mean())

    def inputs(coordinates: Any, turned: int) -> tuple[Tensor, Tensor]:
        signal = (drawn(coordinates, turned)[0] - centre) * scale
        camera = (targets.camera + turned) % cameras
        return torch.tensor(signal, device=where).float(), torch.full((len(signal),), camera, device=where)

    def batch() -> tuple[tuple[Tensor, ...], Tensor]:
        rows, turned = rng.integers(len(known), size=_BATCH), int(rng.integers(cameras))
        given = inputs(known[rows], turned)
        return given, scenes.originals(torch.from_numpy(rows).to(where), given[1])

    torch.manual_seed(setting.seed)
    decoder = Decoder(known.shape[-1], mean, width=options["width"]).to(where)
    with setting.progress("training the decoder", options["steps"]) as advance:
        train(decoder, lambda: (advance(1), batch())[1], steps=options["steps"])
    with torch.no_grad():
        painted = decoder(*inputs(held_out, 0))
    rows = torch.arange(len(painted), device=where)
    return painted, targets.test.originals(rows, torch.full_like(rows, targets.camera))


def _measures(targets: Targets, pictures: Tensor, originals: Tensor) -> dict[str, float]:
    """Means over the views that show something."""
    resolution = targets.model.trunk.architecture.resolution
    distance = likeness.perceptual(targets.trunk, pictures, originals, resolution=resolution)
    psnr = likeness.psnr(pictures, originals, likeness.foreground(originals))
    return {
        "PSNR in dB": float(psnr[psnr.isfinite()].mean()),
        "SSIM": float(likeness.ssim(pictures, originals).mean()),
        "perceptual distance": float(distance.mean()),
    }


def _drawn(out: Path | None, columns: Mapping[str, Tensor]) -> Path | None:
    """Writes the shading of a few objects, a row each, to reconstruct.png in the folder."""
    if out is None:
        return None
    path, count = out / "reconstruct.png", min(_SHOWN, len(columns["original"]))
    rows = np.linspace(0, len(columns["original"]) - 1, count).astype(int)
    with figures.canvas(path, width=1.1 * len(columns), height=1.1 * count + 0.3) as fig:
        axes = fig.subplots(count, len(columns), squeeze=False)
        for (name, pictures), column in zip(columns.items(), axes.T, strict=True):
            column[0].set_title(name, fontsize=8)
            for row, axis in zip(rows, column, strict=True):
                axis.imshow(pictures[row, 0].cpu().numpy(), cmap="gray", vmin=0, vmax=1)
                axis.set_axis_off()
    return path
