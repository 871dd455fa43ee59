"""Training: one small recipe, one loop, torch and NumPy alone, so that it runs on any machine with a GPU.

Views live on the device as bytes; a step draws some objects and some of their views, moves, stretches, mirrors and
partly hides them, and asks for the right class from the pooled map and, with less weight, from every single view; and
from every view also for the side it shows, which keeps what tells sides apart in the map. The weights that count are an
average over the last steps. Everything is chosen on the validation split; nothing here looks at the test set.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airpool import files
from airpool.models.vgg import MAP_SHAPE, MVCNN, Architecture, pool_views


@dataclass(frozen=True)
class Recipe:
    """How a trunk is trained; every number was chosen on validation (docs/models.md).

    objects, views: per step, so that a step sees objects × views images.
    view_loss: weight of the loss on single views; pose_loss: of that on class and side together.
    scale, stretch, shift: largest relative change of size, of width against height, and of position.
    mirror: left and right swapped half of the time; erase: largest side of a hidden rectangle, as a part of the view.
    average: decay of the running average of the weights, per step.
    """

    epochs: int = 50
    objects: int = 48
    views: int = 6
    learning_rate: float = 2e-3
    warm_up: float = 0.15
    weight_decay: float = 0.2
    label_smoothing: float = 0.1
    view_loss: float = 0.5
    pose_loss: float = 0.3
    scale: float = 0.15
    stretch: float = 0.1
    shift: float = 0.06
    mirror: bool = True
    erase: float = 0.5
    average: float = 0.998
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "objects", "views"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be >= 1")
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate={self.learning_rate} must be between 0 and 1")
        if not 0 <= self.average < 1:
            raise ValueError(f"average={self.average} must be >= 0 and < 1")


@dataclass(frozen=True, eq=False)
class Images:
    """Views (N, K, channels, H, H) uint8 and labels (N,) int64, on one device."""

    views: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if self.views.ndim != 5 or self.views.dtype != torch.uint8:
            raise ValueError(f"views is {self.views.dtype} {tuple(self.views.shape)}: must be uint8 (N, K, C, H, H)")
        if self.labels.shape != self.views.shape[:1]:
            raise ValueError(f"labels has shape {tuple(self.labels.shape)}: must be ({len(self.views)},)")

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model, in eval mode, and how it got there: one entry of history for each epoch."""

    model: MVCNN
    recipe: Recipe
    history: tuple[dict[str, float], ...]

    def record(self) -> dict[str, Any]:
        """What a results file says of it."""
        return {
            "recipe": asdict(self.recipe),
            "architecture": asdict(self.model.architecture),
            "history": list(self.history),
        }


def train(
    recipe: Recipe,
    architecture: Architecture,
    images: Images,
    *,
    validation: Images | None = None,
    checkpoint: Path | None = None,
    log: Callable[[str], None] = lambda _: None,
) -> Trained:
    """An MVCNN trained by the recipe. With a checkpoint it is saved after every epoch, and taken up again from there.

    Holds for: the same recipe, data and torch give the same order of objects and views; floating point sums on CUDA
    may still differ in their last bits.
    """
    device = images.views.device
    torch.manual_seed(recipe.seed)
    model, average = (MVCNN(architecture).to(device) for _ in range(2))
    average.load_state_dict(model.state_dict())
    learner = _Learner(model, nn.Linear(MAP_SHAPE[0], architecture.num_classes * images.views.shape[1]).to(device))
    torch.compiler.reset()  # each model anew: after eight of the same shape torch would give up compiling
    forward = torch.compile(model.features) if device.type == "cuda" else model.features
    decay, rest = _groups(learner)
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": recipe.weight_decay}, {"params": rest, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        fused=device.type == "cuda",
    )
    steps = max(1, len(images) // recipe.objects)
    history: list[dict[str, float]] = []
    if checkpoint is not None and checkpoint.exists():
        history = _load(checkpoint, recipe, learner, average, optimizer)
        log(f"taken up again after epoch {len(history)}")
    for epoch in range(len(history), recipe.epochs):
        start = time.perf_counter()
        # The order depends on seed and epoch alone, so that a run taken up again sees what it would have seen.
        rng = torch.Generator().manual_seed(recipe.seed * 100_003 + epoch)
        order = torch.randperm(len(images), generator=rng)
        total = torch.zeros((), device=device)
        model.train()
        for step in range(steps):
            rows = order[step * recipe.objects : (step + 1) * recipe.objects]
            for group in optimizer.param_groups:
                progress = (epoch * steps + step) / (recipe.epochs * steps)
                group["lr"] = recipe.learning_rate * schedule(progress, warm_up=recipe.warm_up)
            loss = _loss(learner, forward, *drawn(images, rows, recipe, rng), recipe)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            _follow(average, model, min(recipe.average, (epoch * steps + step) / (epoch * steps + step + 10)))
            total += loss.detach()
        entry = {"epoch": epoch + 1, "loss": float(total) / steps, "seconds": time.perf_counter() - start}
        if validation is not None:
            entry["validation"] = accuracy(average, validation)
        history.append(entry)
        log(" ".join(f"{name}={value:.4g}" for name, value in entry.items()))
        if checkpoint is not None:
            _save(checkpoint, recipe, learner, average, optimizer, history)
    return Trained(average.eval(), recipe, tuple(history))


def _groups(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Weights that decay, and biases and norms that do not."""
    decay = [p for p in model.parameters() if p.ndim > 1]
    return decay, [p for p in model.parameters() if p.ndim <= 1]


def schedule(progress: float, *, warm_up: float) -> float:
    """Part of the largest rate: linear warm-up, then a cosine to zero."""
    if progress < warm_up:
        return progress / warm_up
    return 0.5 * (1 + math.cos(math.pi * (progress - warm_up) / (1 - warm_up)))


def drawn(images: Images, rows: Tensor, recipe: Recipe, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Some views (n, v, C, H, H) float in [0, 1] of these objects, changed as the recipe says.

    With them the labels (n,) and sides (n, v): the number of the view, or of the one across where it is mirrored.
    """
    device, num_views = images.views.device, images.views.shape[1]
    n, v = len(rows), min(recipe.views, num_views)
    side = torch.rand(n, num_views, generator=rng).argsort(1)[:, :v]
    views = images.views[rows.to(device)[:, None], side.to(device)].float() / 255
    moves = torch.rand(n * v, 5, generator=rng) * 2 - 1
    size, width = 1 + recipe.scale * moves[:, 0], 1 + recipe.stretch * moves[:, 4]
    mirrored = (moves[:, 3] > 0) & recipe.mirror
    theta = torch.zeros(n * v, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1] = torch.where(mirrored, -1, 1) * size * width, size / width
    theta[:, :, 2] = 2 * recipe.shift * moves[:, 1:3]
    flat = views.flatten(0, 1)
    grid = F.affine_grid(theta.to(device), list(flat.shape), align_corners=False)
    moved = F.grid_sample(flat, grid, align_corners=False)
    if recipe.erase > 0:
        centre, reach = torch.rand(2, n * v, 2, 1, generator=rng).to(device)
        ticks = torch.linspace(0, 1, flat.shape[-1], device=device)
        across, down = ((ticks - centre).abs() < reach * recipe.erase / 2).unbind(1)
        moved = moved * ~(across[:, None, None, :] & down[:, None, :, None])
    side = torch.where(mirrored.unflatten(0, (n, v)), -side % num_views, side)
    return moved.unflatten(0, (n, v)), images.labels[rows.to(device)], side.to(device)


class _Learner(nn.Module):
    """The model and what is needed only while it learns."""

    def __init__(self, model: MVCNN, sides: nn.Linear) -> None:
        super().__init__()
        self.model, self.sides = model, sides


def _loss(
    learner: _Learner,
    forward: Callable[[Tensor], Tensor],
    views: Tensor,
    labels: Tensor,
    side: Tensor,
    recipe: Recipe,
) -> Tensor:
    def entropy(logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.float(), targets, label_smoothing=recipe.label_smoothing)

    model, repeated = learner.model, labels.repeat_interleave(views.shape[1])
    with torch.autocast(views.device.type, torch.bfloat16, enabled=views.is_cuda):
        maps = forward(views.flatten(0, 1).contiguous(memory_format=torch.channels_last))
        pooled = pool_views(maps.unflatten(0, views.shape[:2]), pooling=model.architecture.pooling)
        loss = entropy(model.classifier(pooled), labels)
        if recipe.view_loss > 0:
            loss = loss + recipe.view_loss * entropy(model.classifier(maps), repeated)
        if recipe.pose_loss > 0:
            num_sides = learner.sides.out_features // model.architecture.num_classes
            seen = learner.sides(maps.mean((2, 3)))
            loss = loss + recipe.pose_loss * entropy(seen, repeated * num_sides + side.flatten())
    return loss


@torch.no_grad()
def _follow(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Moves the running average towards the model; batch norm's statistics with it."""
    mine, theirs = (list(each.state_dict().values()) for each in (average, model))
    floating = [i for i, x in enumerate(mine) if x.is_floating_point()]
    torch._foreach_lerp_([mine[i] for i in floating], [theirs[i] for i in floating], 1 - decay)  # pyright: ignore[reportPrivateImportUsage]


@torch.no_grad()
def predictions(model: MVCNN, images: Images, *, batch: int = 64) -> Tensor:
    """Logits (N, classes) from all views, in eval mode."""
    was_training = model.training
    model.eval()
    out: list[Tensor] = []
    for start in range(0, len(images), batch):
        views = images.views[start : start + batch].float() / 255
        with torch.autocast(views.device.type, torch.bfloat16, enabled=views.is_cuda):
            flat = views.flatten(0, 1).contiguous(memory_format=torch.channels_last)
            maps = model.features(flat).unflatten(0, views.shape[:2])
            out.append(model.classifier(pool_views(maps, pooling=model.architecture.pooling)).float())
    model.train(was_training)
    return torch.cat(out)


def accuracy(model: MVCNN, images: Images) -> float:
    """Share of objects whose class is found."""
    return float((predictions(model, images).argmax(1) == images.labels).float().mean())


def _save(
    path: Path, recipe: Recipe, learner: nn.Module, average: nn.Module, optimizer: torch.optim.Optimizer, history: Any
) -> None:
    from safetensors.torch import save as serialised

    tensors = {f"learner.{k}": v for k, v in learner.state_dict().items()}
    tensors |= {f"average.{k}": v for k, v in average.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{k}": torch.as_tensor(v) for k, v in state.items()}
    about = {"recipe": json.dumps(asdict(recipe)), "history": json.dumps(history)}
    files.write(path, serialised({k: v.contiguous() for k, v in tensors.items()}, metadata=about))


def _load(
    path: Path, recipe: Recipe, learner: nn.Module, average: nn.Module, optimizer: torch.optim.Optimizer
) -> list[dict[str, float]]:
    from safetensors import safe_open

    device = str(next(learner.parameters()).device)
    with safe_open(path, framework="pt", device=device) as file:  # pyright: ignore[reportPrivateImportUsage]
        about = file.metadata()
        tensors: dict[str, Tensor] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    if replace(Recipe(**json.loads(about["recipe"])), epochs=recipe.epochs) != recipe:
        raise ValueError(f"{path} was made by another recipe: {about['recipe']}; give another checkpoint")

    def part(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    learner.load_state_dict(part("learner."))
    average.load_state_dict(part("average."))
    state = optimizer.state_dict()
    state["state"] = {}
    for key, value in part("optimizer.").items():
        index, _, name = key.partition(".")
        state["state"].setdefault(int(index), {})[name] = value
    optimizer.load_state_dict(state)
    return json.loads(about["history"])
