"""Training: one small recipe, one loop, torch and NumPy alone, so that it runs on any machine with a GPU.

Views live on the device as bytes; a step draws some objects and some of their views, moves, scales and mirrors them,
and asks for the right class from the pooled map and, with less weight, from every single view. The weights that count
are an average over the last steps. Everything is chosen on the validation split; nothing here looks at the test set.
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

from .vgg import MVCNN, Architecture, pool_views

_POSES = 12


@dataclass(frozen=True)
class Recipe:
    """How a trunk is trained; every number was chosen on validation (docs/models.md).

    objects, views: per step, so that a step sees objects × views images. view_loss: weight of the loss on single views.
    scale, shift: largest relative change of size and position; mirror: left and right swapped half of the time.
    average: decay of the running average of the weights, per step.
    """

    epochs: int = 32
    objects: int = 32
    views: int = 12
    learning_rate: float = 1.5e-3
    warm_up: float = 0.15
    weight_decay: float = 0.05
    label_smoothing: float = 0.1
    view_loss: float = 0.5
    scale: float = 0.1
    stretch: float = 0.0
    shift: float = 0.05
    mirror: bool = True
    erase: float = 0.0
    mixup: float = 0.0
    pose_loss: float = 0.0
    dropout: float = 0.0
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
    torch.compiler.reset()
    forward = torch.compile(model.features) if device.type == "cuda" else model.features
    poses = nn.Linear(512, architecture.num_classes * _POSES).to(device)
    decay, rest = _groups(nn.ModuleList((model, poses)))
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": recipe.weight_decay}, {"params": rest, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        fused=device.type == "cuda",
    )
    steps = max(1, len(images) // recipe.objects)
    history: list[dict[str, float]] = []
    if checkpoint is not None and checkpoint.exists():
        history = _load(checkpoint, recipe, model, average, optimizer)
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
                group["lr"] = recipe.learning_rate * _schedule((epoch * steps + step) / (recipe.epochs * steps), recipe)
            views, labels, pose = drawn(images, rows, recipe, rng)
            loss = _loss(model, forward, poses, views, labels, pose, recipe)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            _follow(average, model, min(recipe.average, (epoch * steps + step) / (epoch * steps + step + 10)))
            total += loss.detach()
        entry = {"epoch": epoch + 1, "loss": float(total) / steps, "seconds": time.perf_counter() - start}
        if validation is not None and epoch + 1 == recipe.epochs:
            entry["validation"] = accuracy(average, validation)
        history.append(entry)
        log(" ".join(f"{name}={value:.4g}" for name, value in entry.items()))
        if checkpoint is not None:
            _save(checkpoint, recipe, model, average, optimizer, history)
    return Trained(average.eval(), recipe, tuple(history))


def _groups(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Weights that decay, and biases and norms that do not."""
    decay = [p for p in model.parameters() if p.ndim > 1]
    return decay, [p for p in model.parameters() if p.ndim <= 1]


def _schedule(progress: float, recipe: Recipe) -> float:
    """Linear warm-up, then a cosine to zero."""
    if progress < recipe.warm_up:
        return progress / recipe.warm_up
    return 0.5 * (1 + math.cos(math.pi * (progress - recipe.warm_up) / (1 - recipe.warm_up)))


def drawn(images: Images, rows: Tensor, recipe: Recipe, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Some views (n, v, C, H, H) float in [0, 1] of these objects, moved and mirrored, their labels and poses."""
    device, num_views = images.views.device, images.views.shape[1]
    n, v = len(rows), min(recipe.views, num_views)
    chosen = torch.rand(n, num_views, generator=rng).argsort(1)[:, :v]
    views = images.views[rows.to(device)[:, None], chosen.to(device)].float() / 255
    moves = torch.rand(n * v, 5, generator=rng) * 2 - 1
    size, wide = 1 + recipe.scale * moves[:, 0], 1 + recipe.stretch * moves[:, 4]
    mirrored = (moves[:, 3] > 0) & recipe.mirror
    flip = torch.where(mirrored, -1.0, 1.0)
    theta = torch.zeros(n * v, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1] = size * flip * wide, size / wide
    theta[:, :, 2] = 2 * recipe.shift * moves[:, 1:3]
    flat = views.flatten(0, 1)
    grid = F.affine_grid(theta.to(device), list(flat.shape), align_corners=False)
    moved = F.grid_sample(flat, grid, align_corners=False)
    if recipe.erase > 0:
        box = torch.rand(n * v, 4, 1, generator=rng).to(device)
        ticks = torch.linspace(0, 1, flat.shape[-1], device=device)
        hidden_x, hidden_y = ((ticks - box[:, i]).abs() < box[:, i + 2] * recipe.erase / 2 for i in (0, 1))
        moved = moved * ~(hidden_x[:, None, None, :] & hidden_y[:, None, :, None])
    pose = chosen % _POSES
    pose = torch.where(mirrored.unflatten(0, (n, v)), (-pose) % _POSES, pose)
    return moved.unflatten(0, (n, v)), images.labels[rows.to(device)], pose.to(device)


def _loss(
    model: MVCNN,
    forward: Callable[[Tensor], Tensor],
    poses: nn.Linear,
    views: Tensor,
    labels: Tensor,
    pose: Tensor,
    recipe: Recipe,
) -> Tensor:
    num_views = views.shape[1]
    share = 1.0
    other = labels
    if recipe.mixup > 0:
        share = float(torch.distributions.Beta(recipe.mixup, recipe.mixup).sample())
        views, other = views.lerp(views.roll(1, 0), 1 - share), labels.roll(1, 0)

    def entropy(logits: Tensor, a: Tensor, b: Tensor) -> Tensor:
        first = F.cross_entropy(logits.float(), a, label_smoothing=recipe.label_smoothing)
        if share == 1:
            return first
        return first * share + (1 - share) * F.cross_entropy(logits.float(), b, label_smoothing=recipe.label_smoothing)

    with torch.autocast(views.device.type, torch.bfloat16, enabled=views.is_cuda):
        flat = views.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        maps = forward(flat)
        if recipe.dropout > 0:
            maps = F.dropout2d(maps, recipe.dropout)
        single = maps.unflatten(0, views.shape[:2])
        pooled = model.classifier(pool_views(single, pooling=model.architecture.pooling))
        loss = entropy(pooled, labels, other)
        each, each_other = labels.repeat_interleave(num_views), other.repeat_interleave(num_views)
        if recipe.view_loss > 0:
            loss = loss + recipe.view_loss * entropy(model.classifier(maps), each, each_other)
        if recipe.pose_loss > 0:
            seen = poses(maps.mean((2, 3)))
            loss = loss + recipe.pose_loss * entropy(
                seen, each * _POSES + pose.flatten(), each_other * _POSES + pose.roll(1, 0).flatten()
            )
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
    path: Path, recipe: Recipe, model: nn.Module, average: nn.Module, optimizer: torch.optim.Optimizer, history: Any
) -> None:
    from safetensors.torch import save_file

    tensors = {f"model.{k}": v for k, v in model.state_dict().items()}
    tensors |= {f"average.{k}": v for k, v in average.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{k}": torch.as_tensor(v) for k, v in state.items()}
    about = {"recipe": json.dumps(asdict(recipe)), "history": json.dumps(history)}
    partial = path.with_suffix(".partial")
    save_file({k: v.contiguous() for k, v in tensors.items()}, partial, metadata=about)
    # A kill while writing leaves the old checkpoint whole.
    partial.replace(path)


def _load(
    path: Path, recipe: Recipe, model: nn.Module, average: nn.Module, optimizer: torch.optim.Optimizer
) -> list[dict[str, float]]:
    from safetensors import safe_open

    device = str(next(model.parameters()).device)
    with safe_open(path, framework="pt", device=device) as file:  # pyright: ignore[reportPrivateImportUsage]
        about = file.metadata()
        tensors: dict[str, Tensor] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    if replace(Recipe(**json.loads(about["recipe"])), epochs=recipe.epochs) != recipe:
        raise ValueError(f"{path} was made by another recipe: {about['recipe']}; give another checkpoint")

    def part(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    model.load_state_dict(part("model."))
    average.load_state_dict(part("average."))
    state = optimizer.state_dict()
    state["state"] = {}
    for key, value in part("optimizer.").items():
        index, _, name = key.partition(".")
        state["state"].setdefault(int(index), {})[name] = value
    optimizer.load_state_dict(state)
    return json.loads(about["history"])
