"""The classifier that every device has of its own: what it thinks of its view alone, and how far to believe it.

One shallow classifier, shared by all devices, on the average of a view's feature map; then one temperature for each
device, since some sides of an object tell more than others. Scheme 2 chooses devices by the entropy of the result.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airpool.models import weights
from airpool.models.heads import expected_calibration_error, fit_temperature, pooled_classifier


@dataclass(frozen=True)
class HeadRecipe:
    """How a local classifier is trained. hidden: units of a layer between, 0 for none. views: per step."""

    epochs: int = 8
    views: int = 1024
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    label_smoothing: float = 0.0
    hidden: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("views", 1), ("hidden", 0), ("weight_decay", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be ≥ {least}")
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate={self.learning_rate} must be between 0 and 1")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing={self.label_smoothing} must be ≥ 0 and < 1")


@dataclass(frozen=True)
class Calibration:
    """How often each of K devices is right about N objects, and how far its confidence is from that (ECE, 15 bins).

    error_raw: at temperature 1. error: at the device's own temperature. error_by_chance: what a device whose
    probabilities were the truth would show with so few objects, on average; an error near it is as good as none.
    """

    objects: int
    accuracy: tuple[float, ...]
    error_raw: tuple[float, ...]
    error: tuple[float, ...]
    error_by_chance: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class LocalHead:
    """A fitted classifier (maps or averages in, logits out) in eval mode, and temperatures (K,).

    validation: measured with temperatures that were fitted on the other half of the validation objects.
    """

    classifier: nn.Sequential
    temperatures: Tensor
    recipe: HeadRecipe
    validation: Calibration

    def measured(self, features: Tensor, labels: Tensor) -> Calibration:
        """On data that had no part in the fit: features (N, K, 512), labels (N,)."""
        return calibration(_logits(self.classifier, features), labels, self.temperatures)


def fit(
    recipe: HeadRecipe,
    features: Tensor,
    labels: Tensor,
    *,
    validation: tuple[Tensor, Tensor],
    num_classes: int,
    on_epochs: Callable[[int], None] = lambda _: None,
) -> LocalHead:
    """A local classifier for features (N, K, F), averages of maps, with labels (N,); validation: likewise.

    AdamW on the cross entropy of single views, the rate falling by a cosine. The same recipe, data and torch give the
    same result on a CPU; torch's own random state is left as it was.
    """
    _check(features, labels)
    _check(*validation)
    if len(validation[1]) < 2:
        raise ValueError(f"{len(validation[1])} validation objects: temperatures need 2 at least")
    with torch.random.fork_rng(devices=[features.device] if features.is_cuda else []):
        torch.manual_seed(recipe.seed)
        classifier = _trained(recipe, features, labels, num_classes, on_epochs)
    logits = _logits(classifier, validation[0])
    honest = calibration(logits, validation[1], crossed_temperatures(logits, validation[1], seed=recipe.seed))
    return LocalHead(classifier, fit_temperatures(logits, validation[1]), recipe, honest)


def local_distribution(features: Tensor, classifier: nn.Module, temperatures: Tensor) -> Tensor:
    """Probabilities (N, K, C) of each class for each device, from features (N, K, F) and temperatures (K,).

    p_k = softmax(logits_k / T_k)
    """
    return _distribution(_logits(classifier, features), temperatures)


def fit_temperatures(logits: Tensor, labels: Tensor) -> Tensor:
    """The best temperature (K,) of each device, from logits (N, K, C) and labels (N,).

    Edge case: a device that is right about every object keeps 1. The likelihood would have it certain of everything,
    when it has only not been seen to err yet.
    """
    errs = (logits.argmax(-1) != labels[:, None]).any(0).tolist()
    fitted = [fit_temperature(own, labels) if errs[k] else 1.0 for k, own in enumerate(logits.unbind(1))]
    return torch.tensor(fitted, device=logits.device)


def crossed_temperatures(logits: Tensor, labels: Tensor, *, seed: int = 0) -> Tensor:
    """Temperatures (N, K): each object's from the half of the objects, drawn at random, that it does not belong to."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).to(logits.device)
    out = logits.new_empty(logits.shape[:2])
    halves = order.tensor_split(2)
    for own, other in (halves, halves[::-1]):
        out[own] = fit_temperatures(logits[other], labels[other])
    return out


def calibration(logits: Tensor, labels: Tensor, temperatures: Tensor) -> Calibration:
    """Of logits (N, K, C) against labels (N,), with temperatures (K,), or (N, K) where objects have their own."""
    raw, probs = (_distribution(logits, t) for t in (torch.ones_like(temperatures), temperatures))
    rng = torch.Generator().manual_seed(0)
    devices = range(logits.shape[1])
    return Calibration(
        objects=len(labels),
        accuracy=tuple((logits.argmax(-1) == labels[:, None]).double().mean(0).tolist()),
        error_raw=tuple(expected_calibration_error(raw[:, k], labels) for k in devices),
        error=tuple(expected_calibration_error(probs[:, k], labels) for k in devices),
        error_by_chance=tuple(_error_by_chance(probs[:, k].cpu(), rng) for k in devices),
    )


def save(path: Path, head: LocalHead, about: Mapping[str, Any]) -> None:
    """The head's file, as `weights.write` writes it."""
    tensors = {**head.classifier.state_dict(), "temperatures": head.temperatures}
    more = {"head": {"recipe": asdict(head.recipe), "validation": asdict(head.validation)}}
    weights.write(path, tensors, {**about, **more})


def load(path: Path, *, device: torch.device | str = "cpu") -> tuple[LocalHead, dict[str, Any]]:
    """A saved head, and what its header says."""
    tensors, about = weights.read(path, device=device)
    try:
        recipe = HeadRecipe(**about["head"]["recipe"])
        seen: dict[str, Any] = about["head"]["validation"]
        columns = {name: tuple(each) for name, each in seen.items() if name != "objects"}
        validation = Calibration(objects=seen["objects"], **columns)
        temperatures = tensors.pop("temperatures")
        num_classes, channels = len(tensors["3.bias" if recipe.hidden else "0.bias"]), tensors["0.weight"].shape[1]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: holds no local head that airpool knows ({error!r})") from None
    with torch.device("meta"):
        classifier = pooled_classifier(num_classes, channels=channels, hidden=recipe.hidden or None)
    return LocalHead(weights.fill(classifier, tensors, str(path)), temperatures, recipe, validation), about


def _trained(
    recipe: HeadRecipe, features: Tensor, labels: Tensor, num_classes: int, on_epochs: Callable[[int], None]
) -> nn.Sequential:
    # Centred and of size one, so that a rate suits any trunk; the first layer takes it on afterwards.
    centre = features.mean((0, 1))
    scale = float((features - centre).square().mean().sqrt()) or 1.0
    inputs = ((features - centre) / scale).flatten(0, 1)
    targets = labels.repeat_interleave(features.shape[1])
    classifier = pooled_classifier(num_classes, channels=features.shape[-1], hidden=recipe.hidden or None)
    classifier = classifier.to(features.device).train()
    optimizer = torch.optim.AdamW(classifier.parameters(), weight_decay=recipe.weight_decay)
    for epoch in range(recipe.epochs):
        batches = torch.randperm(len(targets)).to(features.device).split(recipe.views)
        for step, rows in enumerate(batches):
            progress = (epoch + step / len(batches)) / recipe.epochs
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
            logits = classifier(inputs[rows][:, :, None, None])
            loss = F.cross_entropy(logits, targets[rows], label_smoothing=recipe.label_smoothing)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        on_epochs(1)
    first = classifier.get_submodule("0")
    assert isinstance(first, nn.Linear)
    with torch.no_grad():
        first.weight /= scale
        for matrix in (p for p in classifier.parameters() if p.ndim > 1):
            matrix.copy_(matrix.half())  # as it will lie on disk: what is calibrated is what is kept
        first.bias.sub_(first.weight @ centre)
    return classifier.eval()


@torch.no_grad()
def _logits(classifier: nn.Module, features: Tensor) -> Tensor:
    return classifier(features.flatten(0, 1)[:, :, None, None]).unflatten(0, features.shape[:2])


def _distribution(logits: Tensor, temperatures: Tensor) -> Tensor:
    return (logits / temperatures[..., None]).softmax(-1)


def _error_by_chance(probs: Tensor, rng: torch.Generator, *, draws: int = 20) -> float:
    """Mean ECE of labels drawn from the probabilities (N, C) themselves."""
    labels = torch.multinomial(probs, draws, replacement=True, generator=rng)
    return sum(expected_calibration_error(probs, drawn) for drawn in labels.unbind(1)) / draws


def _check(features: Tensor, labels: Tensor) -> None:
    if features.ndim != 3 or labels.shape != features.shape[:1] or not len(labels):
        raise ValueError(
            f"features {tuple(features.shape)} and labels {tuple(labels.shape)} must be (N, K, F) and (N,), N ≥ 1"
        )
