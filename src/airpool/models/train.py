"""Training of a trunk: torch and NumPy alone, so that it runs on any machine with a GPU.

A step draws some objects and some of their views, moves, stretches, mirrors and partly erases them. The loss is the
cross entropy of the pooled map, of every single view, and of class and side of every single view, which keeps the map
informative about the side. The result is a running average of the weights. Hyper-parameters are chosen on validation;
nothing here reads the test set.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airpool.models import loop
from airpool.models.features import Images, spatial
from airpool.models.vgg import MAP_SHAPE, MVCNN, Architecture, pool_views


@dataclass(frozen=True)
class Recipe:
    """How a trunk is trained; every number was chosen on validation (docs/models.md).

    objects, views: per step, so that a step sees objects × views images.
    view_loss: weight of the loss on single views; pose_loss: of the loss on class and side together.
    scale, stretch, shift: largest relative change of size, of width against height, and of position.
    mirror: swap left and right half of the time; erase: largest side of an erased rectangle, relative to the view.
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
        loop.check_recipe(self)


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model, in eval mode, and one entry of history for each epoch."""

    model: MVCNN
    recipe: Recipe
    history: tuple[dict[str, float], ...]


def train(
    recipe: Recipe,
    architecture: Architecture,
    images: Images,
    *,
    validation: Images | None = None,
    checkpoint: Path | None = None,
    log: Callable[[str], None] = lambda _: None,
) -> Trained:
    """An MVCNN trained by the recipe. A checkpoint is written after every epoch, and resumed from if it exists.

    Holds for: the same recipe, data and torch give the same order of objects and views; floating point sums on CUDA
    may still differ in their last bits.
    """
    device = images.views.device
    torch.manual_seed(recipe.seed)
    model, average = (MVCNN(architecture).to(device) for _ in range(2))
    average.load_state_dict(model.state_dict())
    sides = nn.Linear(MAP_SHAPE[0], architecture.num_classes * images.views.shape[1]).to(device)
    learner = nn.ModuleDict({"model": model, "sides": sides})  # the second is needed only while learning
    torch.compiler.reset()  # after eight models of the same shape torch would stop compiling
    forward = torch.compile(model.features) if device.type == "cuda" else model.features
    decay, rest = ([p for p in learner.parameters() if (p.ndim > 1) == matrix] for matrix in (True, False))
    groups = [{"params": decay, "weight_decay": recipe.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=device.type == "cuda")
    rng, parts = torch.Generator(), {"learner": learner, "average": average}

    def batches(epoch: int) -> Sequence[Tensor]:
        # The order depends on seed and epoch alone, so that a resumed run sees the same data.
        rng.manual_seed(recipe.seed * 100_003 + epoch)
        model.train()
        return loop.full_batches(torch.randperm(len(images), generator=rng), recipe.objects)

    def loss(rows: Tensor) -> Tensor:
        return _loss(model, sides, forward, drawn(images, rows, recipe, rng), recipe)

    def follow(step: int) -> None:
        _follow(average, model, min(recipe.average, step / (step + 10)))

    history: list[dict[str, float]] = []
    if checkpoint is not None and checkpoint.exists():
        history = loop.load(checkpoint, recipe, parts, optimizer)
        log(f"resumed after epoch {len(history)}")
    start = time.perf_counter()
    for mean_loss in loop.epochs(recipe, optimizer, batches, loss, start=len(history), after_step=follow):
        entry = {"epoch": len(history) + 1, "loss": mean_loss, "seconds": time.perf_counter() - start}
        if validation is not None:
            entry["validation"] = accuracy(average, validation)
        history.append(entry)
        log(" ".join(f"{name}={value:.4g}" for name, value in entry.items()))
        if checkpoint is not None:
            loop.save(checkpoint, recipe, parts, optimizer, history)
        start = time.perf_counter()
    return Trained(average.eval(), recipe, tuple(history))


def drawn(images: Images, rows: Tensor, recipe: Recipe, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Some views (n, v, C, H, H) float in [0, 1] of these objects, changed as the recipe says.

    With them the labels (n,) and sides (n, v): the number of the view, or of its mirror image's.
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


def _loss(
    model: MVCNN,
    sides: nn.Linear,
    forward: Callable[[Tensor], Tensor],
    batch: tuple[Tensor, Tensor, Tensor],
    recipe: Recipe,
) -> Tensor:
    def entropy(logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.float(), targets, label_smoothing=recipe.label_smoothing)

    views, labels, side = batch
    repeated = labels.repeat_interleave(views.shape[1])
    with torch.autocast(views.device.type, torch.bfloat16, enabled=views.is_cuda):
        maps = forward(views.flatten(0, 1).contiguous(memory_format=torch.channels_last))
        pooled = pool_views(maps.unflatten(0, views.shape[:2]), pooling=model.architecture.pooling)
        loss = entropy(model.classifier(pooled), labels)
        if recipe.view_loss > 0:
            loss = loss + recipe.view_loss * entropy(model.classifier(maps), repeated)
        if recipe.pose_loss > 0:
            num_sides = sides.out_features // model.architecture.num_classes
            joint = repeated * num_sides + side.flatten()
            loss = loss + recipe.pose_loss * entropy(sides(maps.mean((2, 3))), joint)
    return loss


@torch.no_grad()
def _follow(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Moves the running average, batch norm's statistics included, towards the model."""
    mine, theirs = (list(each.state_dict().values()) for each in (average, model))
    floating = [i for i, x in enumerate(mine) if x.is_floating_point()]
    torch._foreach_lerp_([mine[i] for i in floating], [theirs[i] for i in floating], 1 - decay)  # pyright: ignore[reportPrivateImportUsage]


@torch.no_grad()
def predictions(model: MVCNN, images: Images, *, batch: int = 64) -> Tensor:
    """Logits (N, classes) from all views, in eval mode."""
    was_training, pooling = model.training, model.architecture.pooling
    model.eval()
    found = spatial(model.features, images, batch=batch)
    out = torch.cat([model.classifier(pool_views(maps, pooling=pooling)) for maps in found])
    model.train(was_training)
    return out


def accuracy(model: MVCNN, images: Images, *, batch: int = 64) -> float:
    """Share of objects whose class is found."""
    return float((predictions(model, images, batch=batch).argmax(1) == images.labels).double().mean())
