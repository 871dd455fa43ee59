"""Reconstruction: a picture of the attacked view, painted by a decoder that was trained at the attacked noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from airpool._support import figures
from airpool.evaluation.attacks import likeness
from airpool.evaluation.attacks.attack import AttackSetting
from airpool.evaluation.attacks.decoder import Decoder, train
from airpool.evaluation.attacks.positions import Scope, bound
from airpool.evaluation.attacks.result import AttackResult
from airpool.evaluation.attacks.scenes import mean_pictures
from airpool.evaluation.attacks.targets import OPTIONS, Targets, wanted
from airpool.models.layers import in_float64

_COORDINATES, _BATCH, _SHOWN = 256, 64, 6


@dataclass(frozen=True)
class Reconstruct:
    """Options: those of `targets`, and steps, width: of the decoder's training, of its last layer.

    A picture is judged by its likeness to the view, beside the mean picture and that of the true class, which need no
    signal; and as a guess: of all held-out views, is the true one nearest to it.
    """

    about: str = "Paint the attacked view."
    options: Mapping[str, Any] = field(default_factory=lambda: {**OPTIONS, "steps": 600, "width": 16})

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
            AttackResult(
                "reconstruct",
                setting.position,
                setting.network,
                secret=f"nearest of {size} views",
                of=scope,
                trials=size,
                successes=int((nearest == rows).sum()),
                prior=1 / size,
                bound=bound(setting.network, setting.position, scope, prior=1 / size, device=setting.device),
                seed=setting.seed,
                device=setting.device,
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
    # √λ/(λ + σ²), as `Coordinates.scaled`: λ is what noise leaves of the signals' variance.
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
        train(decoder, _counted(batch, advance), steps=options["steps"])
    with torch.no_grad():
        painted = decoder(*inputs(held_out, 0))
    rows = torch.arange(len(painted), device=where)
    return painted, targets.test.originals(rows, torch.full_like(rows, targets.camera))


def _counted(batch: Any, advance: Any) -> Any:
    def counted() -> Any:
        advance(1)
        return batch()

    return counted


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
