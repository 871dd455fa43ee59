"""The training loop that trunks, codecs and heads share, and its checkpoints."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from airpool._support import files


def check_features(features: Tensor, labels: Tensor) -> None:
    if features.ndim != 3 or labels.shape != features.shape[:1] or not len(labels):
        shapes = f"features {tuple(features.shape)} and labels {tuple(labels.shape)}"
        raise ValueError(f"{shapes} must be (N, K, d) and (N,), N ≥ 1")


def class_weights(labels: Tensor, num_classes: int, *, balance: float) -> Tensor:
    """Weights (C,) of the classes in a loss; balance: from 0, all alike, to 1, so that each class counts the same.

    >>> class_weights(torch.tensor([0, 0, 0, 1]), 2, balance=1.0).tolist()
    [1.3333333730697632, 4.0]
    """
    counts = labels.bincount(minlength=num_classes).clamp(min=1).float()
    return (counts / len(labels)) ** -balance


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

    recipe: any with epochs, learning_rate and perhaps warm_up and gradient_norm. batches: rows of each step, given the
    epoch. loss: of such rows. after_step: receives the number of steps before this one.
    """
    warm_up, gradient_norm = getattr(recipe, "warm_up", 0.0), getattr(recipe, "gradient_norm", 0.0)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for epoch in range(start, recipe.epochs):
        rows, total = batches(epoch), 0.0
        for step, some in enumerate(rows):
            progress = (epoch + step / len(rows)) / recipe.epochs
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate * schedule(progress, warm_up=warm_up)
            value = loss(some)
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            if gradient_norm > 0:
                nn.utils.clip_grad_norm_(parameters, gradient_norm)
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
    files.write_tensors(path, tensors, {"recipe": asdict(recipe), "history": history})


def load(path: Path, recipe: Any, parts: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer) -> list[Any]:
    """Restores modules and optimizer from a checkpoint of the same recipe, and returns the history."""
    device = next(next(iter(parts.values())).parameters()).device
    tensors, header = files.read_tensors(path, device=device, remedy="remove it to begin again")
    if "recipe" not in header:
        raise ValueError(f"{path} is no checkpoint; give another one, or remove it to begin again")
    if {**header["recipe"], "epochs": recipe.epochs} != json.loads(json.dumps(asdict(recipe))):
        raise ValueError(f"{path} was made by another recipe: {header['recipe']}; give another checkpoint")

    def part(prefix: str) -> dict[str, Tensor]:
        return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}

    for name, module in parts.items():
        own, kept = ({key: each.shape for key, each in of.items()} for of in (module.state_dict(), part(f"{name}.")))
        if own != kept:
            raise ValueError(f"{path} was made for another architecture; give another checkpoint")
        module.load_state_dict(part(f"{name}."))
    state = optimizer.state_dict()
    state["state"] = {}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for key, value in part("optimizer.").items():
        index, _, name = key.partition(".")
        own = parameters[int(index)]
        # Laid out in memory as the parameter is, which a fused step needs.
        same = torch.empty_like(own, dtype=value.dtype).copy_(value) if value.shape == own.shape else value
        state["state"].setdefault(int(index), {})[name] = same
    optimizer.load_state_dict(state)
    return header["history"]


# What is allowed, in words and as a test, and the fields that it holds for: every field of every recipe.
_GROUPS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("≥ 1", lambda x: x >= 1, "epochs objects views pictures trials"),
    ("≥ 0", lambda x: x >= 0, "weight_decay hidden extra_views object_loss view_loss pose_loss consistency"),
    ("≥ 0", lambda x: x >= 0, "gradient_norm turn_deg scale stretch shift seed"),
    ("≥ 0 and < 1", lambda x: 0 <= x < 1, "warm_up label_smoothing dropout drop_path average light"),
    ("from 0 to 1", lambda x: 0 <= x <= 1, "erased balance"),
    ("between 0 and 1", lambda x: 0 < x < 1, "learning_rate head_rate"),
    ("a smallest and a largest side, from 0 to 1", lambda x: 0 <= x[0] <= x[1] <= 1, "erase"),
    ("True or False", lambda x: isinstance(x, bool), "mirror"),
)
_LIMITS = {name: (allowed, ok) for allowed, ok, names in _GROUPS for name in names.split()}


def check_recipe(recipe: Any, *, zero: Sequence[str] = ()) -> None:
    """Raises an error that names a field of a recipe (a dataclass) that is out of range. zero: which may be 0, too.

    A field without a limit is a KeyError: no recipe can have one that is not checked.
    """
    for each in fields(recipe):
        value, (allowed, ok) = getattr(recipe, each.name), _LIMITS[each.name]
        if not ok(value) and not (each.name in zero and value == 0):
            raise ValueError(f"{each.name}={value} must be {allowed}")


def settled(values: Mapping[str, Any], *defaults: Any, fixed: Sequence[str] = ()) -> list[Any]:
    """The dataclasses, each with those of its fields changed that are named in `values`; `fixed` cannot be.

    >>> from airpool.network import Channel
    >>> settled({"outage": 0.1}, Channel())[0].outage
    0.1
    """
    own = [{f.name for f in fields(each)} - set(fixed) for each in defaults]
    if unknown := sorted(values.keys() - set().union(*own)):
        hint = "has its own option or follows from the data" if unknown[0] in fixed else "is not a field"
        raise ValueError(f"{unknown[0]} {hint}; what can be set: {', '.join(sorted(set().union(*own)))}")
    return [
        replace(each, **{name: _checked(name, values[name], getattr(each, name)) for name in names & values.keys()})
        for each, names in zip(defaults, own, strict=True)
    ]


def _checked(name: str, value: Any, default: Any) -> Any:
    """The value, if it is of the default's type; an integer is accepted as a number, a list as a tuple."""
    kind, given = type(default), type(value)
    if kind is float and given in (int, float) and math.isfinite(value):
        return float(value)
    if kind is tuple and given is list and len(value) == len(default):
        return tuple(map(float, value))
    if kind is given and kind is not float:
        return value
    wanted = {bool: "true or false", int: "an integer", float: "a number", tuple: "a list, such as [0.1, 0.5]"}
    raise ValueError(f"{name}={value!r} must be {wanted.get(kind, 'text')}")
