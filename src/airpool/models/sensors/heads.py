"""Local heads of your own sensors: one classifier for all or one each, and what they say of objects they never saw."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airpool._support.brief import Brief
from airpool.models import local
from airpool.models.local import HeadRecipe


@dataclass(frozen=True, eq=False)
class Part:
    """Some objects: standardised features (N, K, F), labels (N,), and which sensors were present (N, K)."""

    features: Tensor
    labels: Tensor
    present: Tensor

    def __getitem__(self, rows: Tensor) -> "Part":
        return Part(self.features[rows], self.labels[rows], self.present[rows])

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False, repr=False)
class Heads(Brief):
    """Classifiers of standardised features, one for all sensors or one each, and temperatures (K,)."""

    classifiers: tuple[nn.Sequential, ...]
    temperatures: Tensor

    def posteriors(self, features: Tensor) -> Tensor:
        """(N, K, C) of features (N, K, F)."""
        return (_logits(self.classifiers, features) / self.temperatures[:, None]).softmax(-1)


@dataclass(frozen=True, eq=False)
class Crossed:
    """Local posteriors (N, K, C) of training objects, by heads trained on other groups; uniform where none was present.

    loss: mean negative log-likelihood of the labels. temperatures: (K,), fitted to these objects.
    """

    posteriors: Tensor
    temperatures: Tensor
    loss: float


def crossed(
    recipe: HeadRecipe,
    train: Part,
    fold: Tensor,
    *,
    alike: bool,
    num_classes: int,
    on_fold: Callable[[int], None] = lambda _: None,
) -> Crossed:
    """Cross-validated posteriors of heads of this recipe: in each fold (N,), by heads trained on the others."""
    logits = torch.zeros(*train.present.shape, num_classes)
    for each in fold.unique():
        own = fold == each
        classifiers = trained(recipe, train[~own], train[own], alike=alike, num_classes=num_classes)
        logits[own] = _logits(classifiers, train.features[own])
        on_fold(1)
    temperatures = torch.ones(train.present.shape[1])
    for k, there in enumerate(train.present.unbind(1)):
        temperatures[k] = local.fit_temperatures(logits[there, k : k + 1], train.labels[there])[0]
    scaled = logits / temperatures[:, None]
    targets = train.labels[:, None].expand(train.present.shape)[train.present]
    loss = float(F.cross_entropy(scaled[train.present], targets))
    posteriors = scaled.softmax(-1).where(train.present[..., None], 1 / num_classes)
    return Crossed(posteriors, temperatures, loss)


def trained(
    recipe: HeadRecipe, train: Part, aside: Part, *, alike: bool, num_classes: int
) -> tuple[nn.Sequential, ...]:
    """A classifier for all sensors, or one for each, of the objects at which they were present."""
    which = [slice(None)] if alike else [slice(k, k + 1) for k in range(train.present.shape[1])]
    out = []
    for sensors in which:
        shown, held = _pairs(train, sensors), _pairs(aside, sensors)
        if len(held[1]) < 2 or not len(shown[1]):
            raise ValueError(
                f"sensor {sensors.start or 0} was present at {len(shown[1])} objects to train on and {len(held[1])} to "
                "judge it, must be 1 and 2 at least: leave it out, or give more objects"
            )
        out.append(local.fit(recipe, *shown, validation=held, num_classes=num_classes).classifier)
    return tuple(out)


def long_enough(recipe: HeadRecipe, objects: int, *, steps: int) -> HeadRecipe:
    """The recipe with at least `steps` steps."""
    return replace(recipe, epochs=max(recipe.epochs, math.ceil(steps * recipe.views / max(objects, recipe.views))))


def _pairs(part: Part, sensors: slice) -> tuple[Tensor, Tensor]:
    """Features (M, 1, F) and labels (M,) of single sensors at the objects at which they were present."""
    there = part.present[:, sensors]
    return part.features[:, sensors][there][:, None], part.labels[:, None].expand(part.present.shape)[:, sensors][there]


@torch.no_grad()
def _logits(classifiers: Sequence[nn.Sequential], features: Tensor) -> Tensor:
    own = [classifiers[k % len(classifiers)] for k in range(features.shape[1])]
    return torch.stack([each(features[:, k, :, None, None]) for k, each in enumerate(own)], 1)
