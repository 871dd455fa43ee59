"""A model of your own sensors, as `airpool.fit` makes it, in one file: safetensors, with what it is in the header.

sensors.*               centre and scale of the features
heads.*                 local classifiers, one for all sensors or one each, and temperatures
codecs.NAME.*           encoder and decoder of each codec
test.*, validation.*    of held-out objects: labels, local posteriors, latents by each codec but the vote
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from airpool.data import tensors as tensor_file
from airpool.models import codec as codecs
from airpool.models import vote as votes
from airpool.models import weights
from airpool.models.codec import AnyCodec, Codec, quantised
from airpool.models.heads import pooled_classifier
from airpool.models.model import HeldOut, Model, Objects
from airpool.models.sensor_heads import Heads
from airpool.models.sensors import Sensors
from airpool.models.vote import Vote
from airpool.version import __version__

SUFFIX = ".safetensors"

_SPLITS: tuple[HeldOut, ...] = ("validation", "test")


@dataclass(frozen=True, eq=False)
class Fitted(Model):
    """A model of your own sensors. by_name: its codecs, the default first. about: how it was made, as plain data."""

    name: str
    labels: tuple[str, ...]
    sensors: Sensors
    heads: Heads
    by_name: Mapping[str, AnyCodec]
    objects: Mapping[HeldOut, Mapping[str, Tensor]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.labels

    @property
    def codecs(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    def trunk_of(self, codec: str | None = None) -> str:
        self.checked(codec)
        return "sensors"

    def named_codec(self, name: str) -> AnyCodec:
        return self.by_name[name]

    def encoded_objects(self, split: HeldOut, codec: str) -> Objects:
        if split not in self.objects:
            raise ValueError(f"{self.name} was fitted without {split} objects")
        held = self.objects[split]
        labels, posteriors = held["labels"].long(), held["posteriors"].float()
        if isinstance(vote := self.by_name[codec], Vote):
            return Objects(vote.encoder(posteriors), labels, posteriors)
        return Objects(held[f"{codec}.latents"].float() * held[f"{codec}.step"], labels, posteriors)

    def encode(self, inputs: Any, *, codec: str | None = None) -> Tensor:
        """Latents (N, K, r) of features (N, K, F), or of a list of K arrays (N, F_k)."""
        return self.seen(inputs, codec=codec)[0]

    def seen(self, inputs: Any, *, codec: str | None = None) -> tuple[Tensor, Tensor]:
        """Latents (N, K, r) and local posteriors (N, K, C) of features."""
        features = self.sensors.standardised(inputs)
        posteriors = self.heads.posteriors(features)
        chosen = self.codec(codec)
        with torch.no_grad():
            return chosen.encoder(posteriors if isinstance(chosen, Vote) else features), posteriors

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
            if isinstance(each, Vote):
                tensors, headers[name] = votes.parts(each)
            else:
                assert isinstance(each, Codec)
                tensors, headers[name] = halved(each.state_dict()), {"codec": asdict(each.shape)}
            parts |= {f"codecs.{name}.{key}": value for key, value in tensors.items()}
        for split, held in self.objects.items():
            parts |= {f"{split}.{key}": value for key, value in held.items()}
        model = {"name": self.name, "classes": self.labels, "widths": self.sensors.widths, "codecs": headers}
        tensor_file.write(path, parts, {"about": {**self.about, "model": model, "version": __version__}})


def halved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices in half precision, as they are stored."""
    return {name: tensor.detach().half() if tensor.ndim > 1 else tensor.detach() for name, tensor in tensors.items()}


def kept(labels: Tensor, posteriors: Tensor, latents: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a file keeps of held-out objects; latents: by each codec but the vote."""
    out = {"labels": labels.to(torch.int32), "posteriors": posteriors.half()}
    for name, each in latents.items():
        steps, step = quantised(each)
        out |= {f"{name}.latents": steps, f"{name}.step": step.reshape(1)}
    return out


def read(path: Path) -> Fitted:
    """The model in a file."""
    remedy = "copy it again or fit anew"
    tensors, header = tensor_file.read(path, remedy=remedy)
    about = header.get("about")
    if not isinstance(about, dict) or "model" not in about:
        raise ValueError(f"{path}: holds no model; `airpool.fit` and `airpool train codec --features` make one")
    tensor_file.require_finite(path, tensors, remedy=remedy)

    def part(prefix: str) -> dict[str, Tensor]:
        return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}

    def floats(prefix: str) -> dict[str, Tensor]:
        return {key: value.float() for key, value in part(prefix).items()}

    try:
        model = about.pop("model")
        name, classes, widths = str(model["name"]), tuple(map(str, model["classes"])), tuple(model["widths"])
        objects: dict[HeldOut, Any] = {split: held for split in _SPLITS if (held := part(f"{split}."))}
        by_name: dict[str, AnyCodec] = {}
        for each, own in model["codecs"].items():
            by_name[each] = (votes if "vote" in own else codecs).built(path, floats(f"codecs.{each}."), own)
        _require_shapes(tensors, widths, len(classes), by_name)
        classifiers = []
        while own := floats(f"heads.{len(classifiers)}."):
            (*_, (_, last)), first = ((k, v) for k, v in own.items() if k.endswith("weight")), own["0.weight"]
            with torch.device("meta"):
                hidden = len(first) if first is not last else None
                head = pooled_classifier(len(classes), channels=max(widths), hidden=hidden)
            classifiers.append(weights.fill(head, own, path))
        if len(classifiers) not in (1, len(widths)):
            raise KeyError(f"heads.{len(classifiers)}")
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: damaged ({error}); {remedy}") from None
    heads = Heads(tuple(classifiers), tensors["heads.temperatures"])
    return Fitted(name, classes, Sensors(widths, **part("sensors.")), heads, by_name, objects, about)


def _require_shapes(
    tensors: Mapping[str, Tensor], widths: tuple[int, ...], num_classes: int, by_name: Mapping[str, AnyCodec]
) -> None:
    """A KeyError that names the first tensor beside heads and codecs that is missing or does not fit the header."""
    devices, width = len(widths), max(widths, default=0)
    wanted: dict[str, tuple[int, ...]] = {"sensors.centre": (devices, width), "sensors.scale": (devices, width)}
    wanted["heads.temperatures"] = (devices,)
    tested = any(name.startswith("test.") for name in tensors)
    for split in _SPLITS if tested else ("validation",):
        count = len(tensors[f"{split}.labels"])
        wanted[f"{split}.posteriors"] = (count, devices, num_classes)
        for name, codec in by_name.items():
            if not isinstance(codec, Vote):
                wanted[f"{split}.{name}.latents"] = (count, devices, codec.shape.dimension)
                wanted[f"{split}.{name}.step"] = (1,)
    for name, shape in wanted.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            raise KeyError(name)
    if not by_name or any(codec.shape.num_classes != num_classes for codec in by_name.values()):
        raise KeyError("codecs")
