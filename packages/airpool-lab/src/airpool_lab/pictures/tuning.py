"""`--fine-tune`: the trunk is trained on, with pictures of training objects; validation objects say for how long.

Batch norms keep ImageNet's statistics: a dozen pictures of one shop would be poor ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from airpool._support.progress import Progress, silent
from airpool.models import loop
from airpool.models.images import features
from airpool.models.images import trunk as trunks
from airpool.models.images.features import PictureFeatures
from airpool.models.images.trunk import WIDTH, ImageTrunk
from airpool.models.sensors import fitting
from airpool_lab.vision.training import Augmentation, augmented

_SECONDS = 0.15  # of one picture in one epoch, on one core


@dataclass(frozen=True)
class TuningRecipe(Augmentation):
    """Settings of fine-tuning. pictures: per step. head_rate: learning rate of the classifier, which starts anew."""

    epochs: int = 12
    pictures: int = 64
    learning_rate: float = 1e-4
    head_rate: float = 2e-3
    weight_decay: float = 0.05
    label_smoothing: float = 0.1
    turn_deg: float = 10.0
    light: float = 0.2
    erased: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        loop.check_recipe(self)


def torch_device(wanted: str | None, pictures: int, recipe: TuningRecipe) -> str:
    """cuda where there is one. A CPU must be asked for: it would take long."""
    if wanted not in (None, "cpu", "cuda"):
        raise ValueError(f"--torch-device {wanted!r} must be cpu or cuda")
    if torch.cuda.is_available() and wanted != "cpu":
        return "cuda"
    if wanted == "cuda":
        raise ValueError("--torch-device cuda: torch finds no CUDA device here")
    if wanted is None:
        minutes = pictures * recipe.epochs * _SECONDS / 60
        raise ValueError(
            f"--fine-tune needs a GPU, and torch finds none. On a CPU it would take about {minutes:.0f} minutes, and "
            "once more for each fold: add --torch-device cpu if you want that"
        )
    return "cpu"


def tuned(
    found: PictureFeatures,
    train: NDArray[np.bool_],
    validation: NDArray[np.bool_],
    *,
    recipe: TuningRecipe,
    device: str,
    progress: Progress = silent,
) -> tuple[ImageTrunk, PictureFeatures]:
    """The trunk as it was after the epoch with the least loss on validation, and what it makes of all pictures.

    train, validation: (N,), which objects. No other object is looked at.
    """
    torch.manual_seed(recipe.seed)
    labels = torch.from_numpy(fitting.class_of(found.pictures.labels, len(found.pictures.objects))[1])
    shown, aside = (_pictures(found, rows, labels) for rows in (train, validation))
    layers = trunks.shipped().layers().to(device)
    head = nn.Linear(WIDTH, int(labels.max()) + 1, device=device)
    slow = {"params": list(layers.parameters()), "lr": recipe.learning_rate}
    optimizer = torch.optim.AdamW(
        [slow, {"params": list(head.parameters()), "lr": recipe.head_rate}], weight_decay=recipe.weight_decay
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: (1 + cos(pi * done / recipe.epochs)) / 2)
    rng, order = torch.Generator(device).manual_seed(recipe.seed), torch.Generator().manual_seed(recipe.seed)
    best, least = trunks.own(layers), float("inf")
    with progress("trunk", recipe.epochs) as advance:
        for _ in range(recipe.epochs):
            for some in torch.randperm(len(shown[1]), generator=order).split(recipe.pictures):
                views, _ = augmented(shown[0][some].to(device), recipe, rng)
                loss = _loss(layers, head, views, shown[1][some].to(device), smoothing=recipe.label_smoothing)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            scheduler.step()
            if (now := _validated(layers, head, *aside, device)) < least:
                best, least = trunks.own(layers), now
            advance(1)
    return best, features.features(found.pictures, best, progress=progress)


def _pictures(found: PictureFeatures, rows: NDArray[np.bool_], labels: Tensor) -> tuple[Tensor, Tensor]:
    """Views (n, 3, H, H), bytes, of all pictures of some objects, and their classes (n,)."""
    own = [shot for shot in found.pictures.shots if rows[shot.object]]
    pairs: Sequence[tuple[Tensor, Tensor]] = [
        (torch.from_numpy(view), labels[shot.object])
        for shot, view in zip(own, features.views(own, ordered=found.pictures.ordered), strict=True)
        if view is not None
    ]
    views, targets = zip(*pairs, strict=True)
    return torch.stack(views), torch.stack(targets)


def _loss(layers: nn.Module, head: nn.Module, views: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
    layers.eval()  # batch norms keep their statistics
    with torch.autocast(views.device.type, torch.bfloat16, enabled=views.is_cuda):
        maps = layers(views.contiguous(memory_format=torch.channels_last))
    return F.cross_entropy(head(maps.float().mean((-2, -1))), labels, label_smoothing=smoothing)


@torch.no_grad()
def _validated(layers: nn.Module, head: nn.Module, views: Tensor, labels: Tensor, device: str) -> float:
    parts = zip(views.split(64), labels.split(64), strict=True)
    losses = [float(_loss(layers, head, x.to(device).float() / 255, y.to(device))) * len(y) for x, y in parts]
    return sum(losses) / len(labels)
