"""Training of a trunk, any in `mvcnn.TRUNKS`: torch and NumPy alone, so that it runs on any machine with a GPU.

A step draws some objects and some of their views and changes them. The loss is the sum, each part with its weight, of
the cross entropy of the pooled map, of every single view, of class and side of every single view (which keeps the map
informative about the side), and of how far each view is from all views of its object together. The result is a running
average of the weights. Hyper-parameters are chosen on validation; nothing here reads the test set.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airpool.models import loop
from airpool.models.vision import lite
from airpool.models.vision.features import Images, spatial
from airpool.models.vision.mvcnn import MVCNN, Architecture, pool_views


@dataclass(frozen=True)
class Augmentation:
    """Ranges of the random changes to a view; each change is uniform up to the number given.

    turn_deg: about the view's centre. scale, stretch: relative change of size, and of width against height. shift: of
    position, relative to the side. mirror: swap left and right half of the time. light: relative change of each
    channel, which is also raised or lowered by up to 0.4 of it. erase: smallest and largest side, relative to the view,
    of a rectangle that is erased in a share `erased` of the views.
    """

    turn_deg: float = 0.0
    scale: float = 0.15
    stretch: float = 0.1
    shift: float = 0.06
    mirror: bool = True
    light: float = 0.0
    erase: tuple[float, float] = (0.0, 0.5)
    erased: float = 1.0


@torch.no_grad()
def augmented(views: Tensor, change: Augmentation, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Views (B, C, H, H) float in [0, 1] of uint8 ones, changed, and which of them (B,) are mirrored."""
    count, channels, side = views.shape[:3]

    def uniform(*shape: int) -> Tensor:
        """Uniform numbers from -1 to 1."""
        return torch.rand(count, *shape, device=views.device, generator=rng) * 2 - 1

    angle = math.radians(change.turn_deg) * uniform()
    size, width = torch.exp(change.scale * uniform()), torch.exp(change.stretch * uniform())
    mirrored = (uniform() > 0) & change.mirror
    cos, sin = torch.cos(angle) * size, torch.sin(angle) * size
    flip = torch.where(mirrored, -1.0, 1.0) * width
    across, down = (2 * change.shift * uniform(2)).unbind(1)
    theta = torch.stack((cos * flip, -sin / width, across, sin * flip, cos / width, down), 1).view(-1, 2, 3)
    grid = F.affine_grid(theta, list(views.shape), align_corners=False)
    out = F.grid_sample(views.float() / 255, grid, align_corners=False)
    if change.light > 0:
        gain, bias = 1 + change.light * uniform(channels, 1, 1), 0.4 * change.light * uniform(channels, 1, 1)
        out = (out * gain + bias).clamp(0, 1) * (out > 0)
    if change.erased > 0:
        least, most = change.erase
        reach = 0.5 * (least + (most - least) * (uniform(2, 1) + 1) / 2) * ((uniform(1, 1) + 1) / 2 < change.erased)
        ticks = (torch.arange(side, device=views.device) + 0.5) / side
        inside = (ticks - (uniform(2, 1) + 1) / 2).abs() < reach
        out = out * ~(inside[:, 0, None, :] & inside[:, 1, :, None])[:, None]
    return out, mirrored


CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class TrunkRecipe(Augmentation):
    """Training settings of a trunk; every number was chosen on validation (results/models.md). RECIPES: one per trunk.

    objects, views: per step, so that a step sees objects × views images. extra_views: rendered of each training object
    beside the cameras' own, from random directions (`vision.renders`).
    object_loss, view_loss, pose_loss, consistency: weights of the parts of the loss, in the module's order.
    balance: weight of rare classes, from 0, by frequency, to 1, all equal.
    dropout: of the map's channels. drop_path: of the last residual block, falling linearly to 0 in the first.
    gradient_norm: the largest, beyond which gradients are scaled down; 0 for no limit.
    average: decay of the running average of the weights, per step.
    """

    epochs: int = 50
    objects: int = 48
    views: int = 6
    extra_views: int = 0
    learning_rate: float = 2e-3
    warm_up: float = 0.15
    weight_decay: float = 0.2
    label_smoothing: float = 0.1
    object_loss: float = 1.0
    view_loss: float = 0.5
    pose_loss: float = 0.3
    consistency: float = 0.0
    balance: float = 0.0
    dropout: float = 0.0
    drop_path: float = 0.0
    gradient_norm: float = 0.0
    average: float = 0.998
    seed: int = 0

    def __post_init__(self) -> None:
        loop.check_recipe(self)
        if not self.object_loss + self.view_loss > 0:
            raise ValueError("object_loss or view_loss must be > 0: nothing else trains the classifier")


_FINE_TUNED = TrunkRecipe(
    epochs=12,
    objects=64,
    extra_views=12,
    learning_rate=1e-3,
    warm_up=0.04,
    weight_decay=0.05,
    object_loss=0.0,
    view_loss=1.0,
    pose_loss=0.0,
    consistency=0.5,
    balance=0.3,
    dropout=0.2,
    drop_path=0.1,
    gradient_norm=5.0,
    average=0.9995,
    turn_deg=10.0,
    scale=0.18,
    stretch=0.0,
    shift=0.05,
    light=0.25,
    erase=(0.1, 0.5),
    erased=0.4,
)
# Lite from ImageNet weights; all others from scratch.
RECIPES: dict[str, TrunkRecipe] = {"lite0": _FINE_TUNED, "lite1": _FINE_TUNED, "lite2": _FINE_TUNED}


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model, in eval mode, and one entry of history for each epoch."""

    model: MVCNN
    recipe: TrunkRecipe
    history: tuple[dict[str, float], ...]

    @property
    def finished(self) -> bool:
        """False where the time ran out before the last epoch."""
        return len(self.history) >= self.recipe.epochs


def train(
    recipe: TrunkRecipe,
    architecture: Architecture,
    images: Images,
    *,
    imagenet: Mapping[str, Tensor] | None = None,
    validation: Images | None = None,
    checkpoint: Path | None = None,
    seconds: float = float("inf"),
    log: Callable[[str], None] = lambda _: None,
) -> Trained:
    """An MVCNN trained by the recipe, from random weights or, of Lite, from ImageNet's.

    images: the cameras' views, then `extra_views` more; view c shows side c mod K. Once a minute and at the end a
    checkpoint is written and validation measured. checkpoint: where it exists, training resumes from it. seconds: ends
    after the epoch in which they are over. log: called with a line for each epoch.

    Holds for: the same recipe, data, torch and kind of device give the same objects and views; floating point sums on
    CUDA may still differ in their last bits.
    """
    device, num_sides = images.views.device, images.views.shape[1] - recipe.extra_views
    if num_sides < 1:
        raise ValueError(f"extra_views={recipe.extra_views} must be fewer than the {images.views.shape[1]} views given")
    learner, average = _models(recipe, architecture, num_sides, imagenet, device)
    torch.compiler.reset()  # after eight models of the same shape torch would stop compiling
    model = learner.model
    forward = torch.compile(model.features) if device.type == "cuda" else model.features
    decay, rest = ([p for p in learner.parameters() if (p.ndim > 1) == matrix] for matrix in (True, False))
    groups = [{"params": decay, "weight_decay": recipe.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=device.type == "cuda")
    rng, parts = torch.Generator(device), {"learner": learner, "average": average}
    weight = loop.class_weights(images.labels, architecture.num_classes, balance=recipe.balance)

    def batches(epoch: int) -> Sequence[Tensor]:
        # What is drawn depends on seed and epoch alone, so that a resumed run sees the same data.
        rng.manual_seed(recipe.seed * 100_003 + epoch)
        torch.manual_seed(recipe.seed * 100_003 + epoch)  # dropout
        model.train()
        return loop.full_batches(torch.randperm(len(images), generator=rng, device=device), recipe.objects)

    def loss(rows: Tensor) -> Tensor:
        return _loss(learner, forward, drawn(images, rows, recipe, rng, num_sides=num_sides), recipe, weight)

    def follow(step: int) -> None:
        _follow(average, model, min(recipe.average, (step + 1) / (step + 10)))

    history: list[dict[str, float]] = []
    if checkpoint is not None and checkpoint.exists():
        history = loop.load(checkpoint, recipe, parts, optimizer)
        log(f"resumed after epoch {len(history)}")
    begin = saved = start = time.perf_counter()
    for mean_loss in loop.epochs(recipe, optimizer, batches, loss, start=len(history), after_step=follow):
        now = time.perf_counter()
        history.append({"epoch": len(history) + 1, "loss": mean_loss, "seconds": now - start})
        ends = len(history) == recipe.epochs or now - begin > seconds
        if ends or now - saved > CHECKPOINT_SECONDS:
            if validation is not None:
                history[-1]["validation"] = accuracy(average, validation)
            if checkpoint is not None:
                loop.save(checkpoint, recipe, parts, optimizer, history)
            saved = time.perf_counter()
        log(" ".join(f"{name}={value:.4g}" for name, value in history[-1].items()))
        if ends:
            break
        start = time.perf_counter()
    return Trained(average.eval(), recipe, tuple(history))


class _Learner(nn.Module):
    """The model, and a classifier of class and side that is needed only in training."""

    def __init__(self, architecture: Architecture, num_sides: int) -> None:
        super().__init__()
        self.model = MVCNN(architecture)
        self.sides = nn.Linear(architecture.map_shape[0], architecture.num_classes * num_sides)


def _models(
    recipe: TrunkRecipe,
    architecture: Architecture,
    num_sides: int,
    imagenet: Mapping[str, Tensor] | None,
    device: torch.device,
) -> tuple[_Learner, MVCNN]:
    """The learner and its running average, both as before the first step."""
    torch.manual_seed(recipe.seed)
    learner, average = _Learner(architecture, num_sides), MVCNN(architecture)
    if imagenet is not None:
        if architecture.trunk not in lite.SCALES:
            raise ValueError(f"ImageNet weights are for {', '.join(lite.SCALES)}, not for {architecture.trunk}")
        lite.imagenet(learner.model.features, imagenet)
    blocks = [module for module in learner.modules() if hasattr(module, "drop_path")]
    for number, block in enumerate(blocks):
        setattr(block, "drop_path", recipe.drop_path * number / len(blocks))  # noqa: B010
    average.load_state_dict(learner.model.state_dict())
    both = (each.to(device, memory_format=torch.channels_last) for each in (learner, average))  # pyright: ignore[reportCallIssue]
    learner, average = both
    return learner, average.requires_grad_(False)


def drawn(
    images: Images, rows: Tensor, recipe: TrunkRecipe, rng: torch.Generator, *, num_sides: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Some views (n, v, C, H, H) float in [0, 1] of these objects, changed as the recipe says.

    With them the labels (n,) and sides (n, v): the number of the view, or of its mirror image's.
    """
    device, available = images.views.device, images.views.shape[1]
    n, v = len(rows), min(recipe.views, available)
    column = torch.rand(n, available, generator=rng, device=device).argsort(1)[:, :v]
    views, mirrored = augmented(images.views[rows[:, None], column].flatten(0, 1), recipe, rng)
    side = column % num_sides
    side = torch.where(mirrored.unflatten(0, (n, v)), -side % num_sides, side)
    return views.unflatten(0, (n, v)), images.labels[rows], side


def _loss(
    learner: _Learner,
    forward: Callable[[Tensor], Tensor],
    batch: tuple[Tensor, Tensor, Tensor],
    recipe: TrunkRecipe,
    weight: Tensor,
) -> Tensor:
    def entropy(logits: Tensor, targets: Tensor, weight: Tensor | None = weight) -> Tensor:
        return F.cross_entropy(logits.float(), targets, weight, label_smoothing=recipe.label_smoothing)

    (views, labels, side), model = batch, learner.model
    repeated = labels.repeat_interleave(views.shape[1])
    with torch.autocast(views.device.type, torch.bfloat16, enabled=views.is_cuda):
        maps = forward(views.flatten(0, 1).contiguous(memory_format=torch.channels_last))
        maps = F.dropout2d(maps, recipe.dropout)
        loss = maps.new_zeros((), dtype=torch.float32)
        if recipe.object_loss > 0:
            pooled = pool_views(maps.unflatten(0, views.shape[:2]), pooling=model.architecture.pooling)
            loss = loss + recipe.object_loss * entropy(model.classifier(pooled), labels)
        if recipe.view_loss > 0 or recipe.consistency > 0:
            logits = model.classifier(maps)
            loss = loss + recipe.view_loss * entropy(logits, repeated)
            loss = loss + recipe.consistency * _inconsistency(logits.unflatten(0, views.shape[:2]))
        if recipe.pose_loss > 0:
            num_sides = learner.sides.out_features // model.architecture.num_classes
            joint = repeated * num_sides + side.flatten()
            loss = loss + recipe.pose_loss * entropy(learner.sides(maps.mean((2, 3))), joint, None)
    return loss


def _inconsistency(logits: Tensor) -> Tensor:
    """Mean divergence KL(all ‖ each) of the views' posteriors (n, v, C) from what they say together, held fixed."""
    each = logits.float().log_softmax(-1)
    together = each.mean(1, keepdim=True).log_softmax(-1).detach()
    return (together.exp() * (together - each)).sum(-1).mean()


@torch.no_grad()
def _follow(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Moves the running average, batch norm's statistics included, towards the model."""
    mine, theirs = (list(each.state_dict().values()) for each in (average, model))
    floating = [i for i, x in enumerate(mine) if x.is_floating_point()]
    torch._foreach_lerp_([mine[i] for i in floating], [theirs[i] for i in floating], 1 - decay)  # pyright: ignore[reportPrivateImportUsage]


@torch.no_grad()
def predictions(model: MVCNN, images: Images, *, batch: int = 64, single: bool = False) -> Tensor:
    """Logits (N, classes) from all views, in eval mode; of each view alone, (N, K, classes), if `single`."""
    out, was_training = [], model.classifier.training
    for maps in spatial(model.features, images, batch=batch):
        pooled = maps.flatten(0, 1) if single else pool_views(maps, pooling=model.architecture.pooling)
        logits = model.classifier.eval()(pooled)
        model.classifier.train(was_training)
        out.append(logits.unflatten(0, maps.shape[:2]) if single else logits)
    return torch.cat(out)


def accuracy(model: MVCNN, images: Images, *, batch: int = 64) -> float:
    """Share of objects whose class is found."""
    return float((predictions(model, images, batch=batch).argmax(1) == images.labels).double().mean())
