"""The training loop that trunks, codecs and heads share, its recipes' limits, and its checkpoints."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from airpool.data import tensors as tensor_file

_ALLOWED: dict[str, tuple[str, Callable[[float], bool]]] = {
    **dict.fromkeys(("epochs", "objects", "views", "trials"), ("≥ 1", lambda x: x >= 1)),
    **dict.fromkeys(("weight_decay", "hidden"), ("≥ 0", lambda x: x >= 0)),
    **dict.fromkeys(("warm_up", "label_smoothing", "dropout", "average"), ("≥ 0 and < 1", lambda x: 0 <= x < 1)),
    "learning_rate": ("between 0 and 1", lambda x: 0 < x < 1),
}


def check_recipe(recipe: Any) -> None:
    """Raises an error that names a field of a recipe (a dataclass) that is out of range."""
    for name, value in vars(recipe).items():
        allowed, ok = _ALLOWED.get(name, ("", lambda _: True))
        if not ok(value):
            raise ValueError(f"{name}={value} must be {allowed}")


def check_features(features: Tensor, labels: Tensor) -> None:
    if features.ndim != 3 or labels.shape != features.shape[:1] or not len(labels):
        shapes = f"features {tuple(features.shape)} and labels {tuple(labels.shape)}"
        raise ValueError(f"{shapes} must be (N, K, d) and (N,), N ≥ 1")


def schedule(progress: float, *, warm_up: float = 0.0) -> float:
    """Fraction of the largest learning rate: linear warm-up, then a cosine to zero."""
    if progress < warm_up:
        return progress / warm_up
    return 0.5 * (1 + math.cos(math.pi * (progress - warm_up) / (1 - warm_up)))


def full_batches(order: Tensor, size: int) -> Sequence[Tensor]:
    """Batches of this size, without the rest; one batch if there are fewer rows."""
    return order[: max(1, len(order) // size) * size].split(size)


def epochs(
    recipe: Any,
    optimizer: torch.optim.Optimizer,
    batches: Callable[[int], Sequence[Tensor]],
    loss: Callable[[Tensor], Tensor],
    *,
    start: int = 0,
    after_step: Callable[[int], None] = lambda _: None,
) -> Iterator[float]:
    """Trains, and yields the mean loss after each epoch from `start` on.

    recipe: any with epochs, learning_rate and perhaps warm_up. batches: rows of each step, given the epoch. loss: of
    such rows. after_step: receives the number of steps before this one.
    """
    warm_up = getattr(recipe, "warm_up", 0.0)
    for epoch in range(start, recipe.epochs):
        rows, total = batches(epoch), 0.0
        for step, some in enumerate(rows):
            progress = (epoch + step / len(rows)) / recipe.epochs
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate * schedule(progress, warm_up=warm_up)
            value = loss(some)
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            optimizer.step()
            after_step(epoch * len(rows) + step)
            total = total + value.detach()
        yield float(total) / len(rows)


def save(
    path: Path, recipe: Any, parts: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer, history: Sequence[Any]
) -> None:
    """Writes a checkpoint: modules by name, the optimizer, the recipe and the history so far."""
    tensors = {f"{name}.{key}": value for name, part in parts.items() for key, value in part.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(value) for key, value in state.items()}
    tensor_file.write(path, tensors, {"recipe": asdict(recipe), "history": history})


def load(path: Path, recipe: Any, parts: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer) -> list[Any]:
    """Restores modules and optimizer from a checkpoint of the same recipe, and returns the history."""
    device = next(next(iter(parts.values())).parameters()).device
    tensors, header = tensor_file.read(path, device=device, remedy="remove it to begin again")
    if {**header["recipe"], "epochs": recipe.epochs} != json.loads(json.dumps(asdict(recipe))):
        raise ValueError(f"{path} was made by another recipe: {header['recipe']}; give another checkpoint")

    def part(prefix: str) -> dict[str, Tensor]:
        return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}

    for name, module in parts.items():
        module.load_state_dict(part(f"{name}."))
    state = optimizer.state_dict()
    state["state"] = {}
    for key, value in part("optimizer.").items():
        index, _, name = key.partition(".")
        state["state"].setdefault(int(index), {})[name] = value
    optimizer.load_state_dict(state)
    return header["history"]
