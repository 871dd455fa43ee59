"""A model of your own sensors, as `airpool.fit` makes it, in one file: safetensors, with what it is in the header.

sensors.*               centre and scale of the features
heads.*                 local classifiers, one for all sensors or one each, and temperatures
codecs.NAME.*           encoder and decoder of each codec
test.*, validation.*    of held-out objects: labels, local posteriors, latents by each codec but the vote
trunk.*                 of a model of cameras whose trunk was trained further: its weights, in half precision
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airpool._support import files
from airpool._support.brief import Brief
from airpool._support.threads import single_thread
from airpool._support.version import __version__
from airpool.models import local, stored, weights
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.codec import SUFFIX, Codec, quantised
from airpool.models.heads import pooled_classifier
from airpool.models.images import trunk as image_trunk
from airpool.models.images.trunk import ImageTrunk
from airpool.models.local import HeadRecipe
from airpool.models.model import Model, Objects
from airpool.models.sensors.stacking import Sensors
from airpool.models.stored import SPLITS, HeldOut


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


@dataclass(frozen=True, eq=False, repr=False)
class Fitted(Model):
    """A model of your own sensors. by_name: its codecs, the default first. about: how it was made, as plain data.

    trunk: of cameras, what makes features of their pictures.

    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from airpool import fit, load
    >>> from airpool.models.sensors.fitting import FitRecipe
    >>> quick = FitRecipe(alike=True, hidden=(0,), head_steps=9, codec_steps=1, trials=1)
    >>> labels = np.arange(45) % 3
    >>> model = fit(np.eye(3)[labels][:, None].repeat(2, axis=1), labels, epsilon=4, recipe=quick, name="two")
    >>> with TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/two.safetensors")
    ...     load(f"{folder}/two.safetensors").name
    'two'
    """

    name: str
    labels: tuple[str, ...]
    sensors: Sensors
    heads: Heads
    by_name: Mapping[str, Codec]
    objects: Mapping[HeldOut, Mapping[str, Tensor]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    trunk: ImageTrunk | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        return self.labels

    @property
    def codecs(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    @property
    def told(self) -> dict[str, str | int | float]:
        return {name: value for name, value in self.about.items() if isinstance(value, str | int | float)}

    def trunk_of(self, codec: str | None = None) -> str:
        self.checked(codec)
        return "sensors" if self.trunk is None else self.trunk.name

    @property
    def view_shape(self) -> tuple[int, ...] | None:
        return None if self.trunk is None else self.trunk.view_shape

    def named_codec(self, name: str) -> Codec:
        return self.by_name[name]

    def encoded_objects(self, split: HeldOut, codec: str) -> Objects:
        if split not in self.objects:
            reason = " (of folds, it is fitted to all objects: its card says what the folds measured)"
            raise ValueError(f"{self.name} was fitted without {split} objects{reason if self.trunk else ''}")
        held = self.objects[split]
        labels, posteriors = held["labels"].long(), held["posteriors"].float()
        own = {key: held[f"{codec}.{key}"] for key in ("latents", "step") if f"{codec}.{key}" in held}
        return Objects(stored.latents_of(self.by_name[codec], own, posteriors), labels, posteriors)

    def encode(self, inputs: Any, *, codec: str | None = None) -> Tensor:
        """Latents (N, K, r) of features (N, K, F), of a list of K arrays (N, F_k), or of pictures (N, K, 3, H, H)."""
        return self.seen(inputs, codec=codec)[0]

    def seen(self, inputs: Any, *, codec: str | None = None) -> tuple[Tensor, Tensor]:
        """Latents (N, K, r) and local posteriors (N, K, C) of features or of pictures."""
        if self.trunk is not None and getattr(inputs, "ndim", 0) == 5:
            inputs = self.trunk.features(inputs)
        return self._of_features(inputs, codec)

    @single_thread()
    def _of_features(self, inputs: Any, codec: str | None) -> tuple[Tensor, Tensor]:
        features = self.sensors.standardised(inputs)
        posteriors = self.heads.posteriors(features)
        chosen = self.codec(codec)
        with torch.no_grad():
            return codecs.encoded(chosen, {"feature": features, "posterior": posteriors}), posteriors

    def save(self, path: Path | str) -> None:
        """Writes the model as one file, which `airpool.load` reads."""
        if (path := Path(path)).suffix != SUFFIX:
            raise ValueError(f"{path} must end with {SUFFIX}")
        parts: dict[str, Tensor] = {"sensors.centre": self.sensors.centre, "sensors.scale": self.sensors.scale}
        parts["heads.temperatures"] = self.heads.temperatures
        for index, each in enumerate(self.heads.classifiers):
            parts |= {f"heads.{index}.{key}": value for key, value in halved(each.state_dict()).items()}
        headers: dict[str, Any] = {}
        for name, each in self.by_name.items():
            arrays, headers[name] = codecs.file_parts(each)
            tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
            parts |= {f"codecs.{name}.{key}": value for key, value in tensors.items()}
        for split, held in self.objects.items():
            parts |= {f"{split}.{key}": value for key, value in held.items()}
        model = {"name": self.name, "classes": self.labels, "widths": self.sensors.widths, "codecs": headers}
        if self.trunk is not None:
            parts |= {f"trunk.{key}": value for key, value in (self.trunk.own or {}).items()}
            model["trunk"] = self.trunk.described()
        files.write_tensors(path, parts, {"about": {**self.about, "model": model, "version": __version__}})


def halved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices in half precision, as they are stored."""
    return {name: tensor.detach().half() if tensor.ndim > 1 else tensor.detach() for name, tensor in tensors.items()}


def kept(labels: Tensor, posteriors: Tensor, latents: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Held-out objects as a file keeps them. latents: by codec, all but the vote."""
    out = {"labels": labels.to(torch.int32), "posteriors": posteriors.half()}
    for name, each in latents.items():
        steps, step = quantised(each)
        out |= {f"{name}.latents": steps, f"{name}.step": step.reshape(1)}
    return out


def read(path: Path) -> Fitted:
    """The model in a file."""
    found, arrays, about = stored.in_file(path)
    widths, described = about.pop("widths"), about.pop("trunk")
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    classifiers = []
    while own := {key: value.float() for key, value in stored.part(tensors, f"heads.{len(classifiers)}.").items()}:
        matrices = [value for key, value in own.items() if key.endswith("weight")]
        if "0.weight" not in own:
            raise ValueError(f"{path}: damaged (heads.{len(classifiers)}.0.weight); copy it again or fit anew")
        with torch.device("meta"):
            hidden = len(own["0.weight"]) if len(matrices) > 1 else None
            head = pooled_classifier(len(found.classes), channels=max(widths), hidden=hidden)
        classifiers.append(weights.fill(head, own, path))
    if len(classifiers) not in (1, len(widths)):
        raise ValueError(f"{path}: damaged (heads.{len(classifiers)}); copy it again or fit anew")
    heads, sensors = Heads(tuple(classifiers), tensors["heads.temperatures"]), stored.part(tensors, "sensors.")
    by_name = {name: codecs.in_torch(found.codec(name)) for name in found.trunks}
    objects: dict[HeldOut, Any] = {split: held for split in SPLITS if (held := stored.part(tensors, f"{split}."))}
    try:
        trunk = described and image_trunk.restored(described, stored.part(tensors, "trunk."))
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    return Fitted(found.name, found.classes, Sensors(widths, **sensors), heads, by_name, objects, about, trunk)
