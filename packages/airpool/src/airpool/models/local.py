"""The local head: each device's own classifier of its view, with calibrated probabilities.

One shallow classifier, shared by all devices, on the average of a view's feature map: the trunk's own, or a new one;
and one temperature per device, since some views tell more than others. Scheme 2 selects devices by the entropy of the
result.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airpool._support.brief import Brief
from airpool._support.threads import single_thread
from airpool.models import loop, weights
from airpool.models.heads import expected_calibration_error, fit_temperature, pooled_classifier
from airpool.models.vision.mvcnn import MVCNN


@dataclass(frozen=True)
class HeadRecipe:
    """Training settings of a local head.

    epochs: 0 keeps the trunk's own classifier. hidden: units of a hidden layer, 0 for none. views: per step.
    """

    epochs: int = 8
    views: int = 1024
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    label_smoothing: float = 0.0
    hidden: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        loop.check_recipe(self, zero=("epochs",))


@dataclass(frozen=True)
class Calibration:
    """Accuracy and expected calibration error (15 bins) of each of K devices on N objects.

    error_raw: at temperature 1. error: at the device's own temperature. error_by_chance: the mean error of perfectly
    calibrated probabilities on as few objects.
    """

    objects: int
    accuracy: tuple[float, ...]
    error_raw: tuple[float, ...]
    error: tuple[float, ...]
    error_by_chance: tuple[float, ...]


@dataclass(frozen=True, eq=False, repr=False)
class LocalHead(Brief):
    """A classifier (maps or averages in, logits out) in eval mode, and temperatures (K,).

    validation: measured with temperatures that were fitted on the other half of the validation objects.
    """

    classifier: nn.Sequential
    temperatures: Tensor
    recipe: HeadRecipe
    validation: Calibration

    @property
    def sizes(self) -> tuple[int, int]:
        """Channels that it reads, and classes that it tells apart."""
        first, *_, last = self.classifier.parameters()
        return first.shape[1], len(last)

    def measured(self, features: Tensor, labels: Tensor) -> Calibration:
        """Measurements on data that had no part in the fit: features (N, K, F), labels (N,)."""
        return calibration(logits_of(self.classifier, features), labels, self.temperatures)


@single_thread()
def fit(
    recipe: HeadRecipe,
    features: Tensor,
    labels: Tensor,
    *,
    validation: tuple[Tensor, Tensor],
    num_classes: int,
    on_epochs: Callable[[int], None] = lambda _: None,
) -> LocalHead:
    """A local head for features (N, K, F), averages of maps, with labels (N,); validation: likewise.

    AdamW on the cross entropy of single views. The same recipe, data and torch give the same result on a CPU; torch's
    global random state is left unchanged.
    """
    if recipe.epochs < 1:
        raise ValueError("epochs=0 must be ≥ 1 to train a head; `calibrated` takes a classifier as it is")
    loop.check_features(features, labels)
    loop.check_features(*validation)
    with torch.random.fork_rng(devices=[features.device] if features.is_cuda else []):
        torch.manual_seed(recipe.seed)
        classifier = _trained(recipe, features, labels, num_classes, on_epochs)
    return calibrated(classifier, logits_of(classifier, validation[0]), validation[1], recipe)


def calibrated(
    classifier: nn.Sequential, logits: Tensor, labels: Tensor, recipe: HeadRecipe | None = None
) -> LocalHead:
    """A local head of a classifier as it is, such as a trunk's own: its logits (N, K, C) on validation fit the rest."""
    if len(labels) < 2:
        raise ValueError(f"{len(labels)} validation objects: temperatures need 2 at least")
    recipe = recipe or HeadRecipe(epochs=0)
    honest = calibration(logits, labels, crossed_temperatures(logits, labels, seed=recipe.seed))
    return LocalHead(classifier, fit_temperatures(logits, labels), recipe, honest)


def own(model: MVCNN) -> nn.Sequential:
    """The trunk's own classifier, which must be linear."""
    if model.architecture.head != "linear":
        raise ValueError(f"the trunk's head is {model.architecture.head!r}, not linear: train a local one, epochs ≥ 1")
    return model.classifier


def local_distribution(features: Tensor, classifier: nn.Module, temperatures: Tensor) -> Tensor:
    """Probabilities (N, K, C), softmax(logits_k / T_k), from features (N, K, F) and temperatures (K,)."""
    return posteriors(logits_of(classifier, features), temperatures)


def fit_temperatures(logits: Tensor, labels: Tensor) -> Tensor:
    """The best temperature (K,) of each device, from logits (N, K, C) and labels (N,).

    Edge case: a device that is right about every object keeps 1, where the likelihood would make it certain.
    """
    errs = (logits.argmax(-1) != labels[:, None]).any(0).tolist()
    fitted = [fit_temperature(own, labels) if errs[k] else 1.0 for k, own in enumerate(logits.unbind(1))]
    return torch.tensor(fitted, device=logits.device)


def crossed_temperatures(logits: Tensor, labels: Tensor, *, seed: int = 0) -> Tensor:
    """Temperatures (N, K): of each object, fitted on the random half of the objects that does not contain it."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).to(logits.device)
    out = logits.new_empty(logits.shape[:2])
    halves = order.tensor_split(2)
    for own, other in (halves, halves[::-1]):
        out[own] = fit_temperatures(logits[other], labels[other])
    return out


def calibration(logits: Tensor, labels: Tensor, temperatures: Tensor) -> Calibration:
    """Calibration of logits (N, K, C) against labels (N,), with temperatures (K,), or (N, K), one for each object."""
    raw, probs = (posteriors(logits, t).unbind(1) for t in (torch.ones_like(temperatures), temperatures))
    rng = torch.Generator().manual_seed(0)
    return Calibration(
        objects=len(labels),
        accuracy=tuple((logits.argmax(-1) == labels[:, None]).double().mean(0).tolist()),
        error_raw=tuple(expected_calibration_error(own, labels) for own in raw),
        error=tuple(expected_calibration_error(own, labels) for own in probs),
        error_by_chance=tuple(_error_by_chance(own.cpu(), rng) for own in probs),
    )


def save(path: Path, head: LocalHead, about: Mapping[str, Any]) -> None:
    """Writes the head's file."""
    tensors = {**head.classifier.state_dict(), "temperatures": head.temperatures}
    own = {"head": {"recipe": asdict(head.recipe), "validation": asdict(head.validation)}}
    weights.write(path, tensors, {**about, **own})


def load(path: Path, *, device: torch.device | str = "cpu") -> tuple[LocalHead, dict[str, Any]]:
    """A saved head, and its header."""
    tensors, about = weights.read(path, device=device)
    with weights.building(path, "local head"):
        recipe, seen = HeadRecipe(**about["head"]["recipe"]), about["head"]["validation"]
        columns = {name: tuple(each) for name, each in seen.items() if name != "objects"}
        validation = Calibration(objects=seen["objects"], **columns)
        temperatures = tensors.pop("temperatures")
        num_classes, channels = len(tensors["3.bias" if recipe.hidden else "0.bias"]), tensors["0.weight"].shape[1]
        classifier = pooled_classifier(num_classes, channels=channels, hidden=recipe.hidden or None)
    return LocalHead(weights.fill(classifier, tensors, path), temperatures, recipe, validation), about


def _trained(
    recipe: HeadRecipe, features: Tensor, labels: Tensor, num_classes: int, on_epochs: Callable[[int], None]
) -> nn.Sequential:
    # Standardised, so that a learning rate suits any trunk; the first layer absorbs it afterwards.
    centre = features.mean((0, 1))
    scale = float((features - centre).square().mean().sqrt()) or 1.0
    inputs = ((features - centre) / scale).flatten(0, 1)
    targets = labels.repeat_interleave(features.shape[1])
    classifier = pooled_classifier(num_classes, channels=features.shape[-1], hidden=recipe.hidden or None)
    classifier = classifier.to(features.device).train()
    optimizer = torch.optim.AdamW(classifier.parameters(), weight_decay=recipe.weight_decay)

    def batches(_: int) -> Sequence[Tensor]:
        return torch.randperm(len(targets)).to(features.device).split(recipe.views)

    def loss(rows: Tensor) -> Tensor:
        logits = classifier(inputs[rows][:, :, None, None])
        return F.cross_entropy(logits, targets[rows], label_smoothing=recipe.label_smoothing)

    for _ in loop.epochs(recipe, optimizer, batches, loss):
        on_epochs(1)
    first = classifier.get_submodule("0")
    assert isinstance(first, nn.Linear)
    with torch.no_grad():
        first.weight /= scale
        for matrix in (p for p in classifier.parameters() if p.ndim > 1):
            matrix.copy_(matrix.half())  # as stored on disk, so that what is calibrated is what is kept
        first.bias.sub_(first.weight @ centre)
    return classifier.eval()


@torch.no_grad()
def logits_of(classifier: nn.Module, features: Tensor) -> Tensor:
    return classifier(features.flatten(0, 1)[:, :, None, None]).unflatten(0, features.shape[:2])


def posteriors(logits: Tensor, temperatures: Tensor) -> Tensor:
    return (logits / temperatures[..., None]).softmax(-1)


def _error_by_chance(probs: Tensor, rng: torch.Generator, *, draws: int = 20) -> float:
    """Mean ECE of labels drawn from the probabilities (N, C) themselves."""
    labels = torch.multinomial(probs, draws, replacement=True, generator=rng)
    return sum(expected_calibration_error(probs, drawn) for drawn in labels.unbind(1)) / draws
