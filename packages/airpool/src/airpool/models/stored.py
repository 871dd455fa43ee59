"""Models on disk, shipped or made by `airpool.fit`: classes, codecs and held-out objects. Read without torch.

A folder holds a manifest and one file for each part; every file is checked against its SHA-256 before it is used.
A model of your own sensors is one safetensors file (models.sensors.fitted). Nothing is downloaded.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from array_api_compat import array_namespace
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.arrays import Array
from airpool._support.brief import Brief
from airpool._support.plugins import PluginError
from airpool.models import assets
from airpool.models.cameras import cameras
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.codec import SUFFIX, Codec
from airpool.network import Network
from airpool.schemes.scores import expected_of_posteriors

HeldOut = Literal["test", "validation"]
Arrays = dict[str, NDArray[Any]]

SPLITS: tuple[HeldOut, ...] = ("validation", "test")

_REMEDY = "copy it again or fit anew"


@dataclass(frozen=True, eq=False, repr=False)
class StoredModel(Brief):
    """A model as its files describe it. trunks: the source of each codec's features, the default codec first.

    read_codec: by name. read_objects: of split and codec: labels (N,), posteriors (N, K, C), and unless the codec reads
    posteriors, its packed latents (codec.unpacked).
    """

    name: str
    classes: tuple[str, ...]
    trunks: Mapping[str, str]
    read_codec: Callable[[str], Codec]
    read_objects: Callable[[str, str], Arrays]

    def codec(self, name: str | None = None) -> Codec:
        """A codec by its name or its file, in NumPy; None: the default."""
        name = checked(name, tuple(self.trunks))
        return codecs.read(Path(name))[0] if name.endswith(SUFFIX) else self.read_codec(name)

    def objects(self, split: str, codec: str | None = None) -> Arrays:
        """The arrays of `read_objects`; of a codec in a file of its own, those of the default."""
        name = checked(codec, tuple(self.trunks))
        return self.read_objects(split, next(iter(self.trunks)) if name.endswith(SUFFIX) else name)

    def participation(self, network: Network, *, codec: str | None = None) -> NDArray[Any] | None:
        """Expected participation of each device, as `Model.participation`."""
        if not network.scheme.needs_posteriors:
            return None
        posteriors = self.objects("validation", codec)["posteriors"].astype("float32")
        which = cameras(network.devices.count, posteriors.shape[1])
        return expected_of_posteriors(posteriors[:, which], network.scheme)


def latents_of(codec: Codec, arrays: Mapping[str, Array], posteriors: Array) -> Array:
    """Latents of held-out objects: of their posteriors where the codec reads these, else those of the file."""
    if codec.reads == "posterior":
        latents = codecs.encoded(codec, {"posterior": posteriors})
        if bool(array_namespace(latents).any(array_namespace(latents).isnan(latents))):
            raise PluginError(f"codec {codec.kind!r}: its encoder gives NaN for stored objects")
        return latents
    if "latents" not in arrays:
        raise ValueError(f"codec {codec.kind!r} reads a view's {codec.reads}, which is not stored of held-out objects")
    return codecs.unpacked(arrays)


def checked(codec: str | None, known: tuple[str, ...]) -> str:
    """A codec's name; None: the default's. A file of a codec of your own stands for itself."""
    if codec is not None and codec not in known and not codec.endswith(SUFFIX):
        raise ValueError(f"codec {codec!r} must be one of {', '.join(known)}, or a file that ends with {SUFFIX}")
    return codec or known[0]


@cache
def found(name: str) -> StoredModel:
    """The model that ships under this name, or that lies in this file."""
    if name.endswith(SUFFIX):
        return in_file(Path(name))[0]
    return in_file(path)[0] if (path := where(name)).suffix == SUFFIX else _in_folder(name, path.parent)


def where(name: str) -> Path:
    """The manifest or the file of a model that ships."""
    there = assets.folder(f"the model {name!r}")
    for path in (there / "sensors" / (name + SUFFIX), there / name / "manifest.json"):
        if path.exists():
            return path
    raise ValueError(f"no pretrained model {name!r}: there is {', '.join(shipped()) or 'none'} in {there}")


def shipped() -> list[str]:
    """The names of the models that ship; none where airpool-models is not installed."""
    if (there := assets.installed()) is None:
        return []
    folders = {path.parent.name for path in there.glob("*/manifest.json")}
    return sorted(folders | {path.stem for path in there.glob("sensors/*" + SUFFIX)})


# A folder


def manifest_of(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: damaged ({error}); install airpool-models again") from None
    lacking = [name for name in ("classes", "codecs", "files") if not isinstance(found, dict) or name not in found]
    if lacking:
        raise ValueError(f"{path}: lacks {', '.join(lacking)}; install the airpool-models of this version")
    return found


def file_of(folder: Path, manifest: Mapping[str, Any], name: str) -> Path:
    """The path of a model's file, after its checksum was verified."""
    if name not in manifest["files"]:
        raise ValueError(f"{name} is not a file of {folder.name!r}; held-out objects are {' or '.join(SPLITS)}")
    return verified(folder / name, manifest["files"][name]["sha256"])


def object_files(folder: Path, manifest: Mapping[str, Any], split: str, codec: str) -> list[Path]:
    """The files of held-out objects: of labels and posteriors, and of latents where they ship."""
    names = [f"{manifest['codecs'][codec]}-{split}{SUFFIX}", f"{codec}-{split}{SUFFIX}"]
    return [file_of(folder, manifest, each) for each in names if each is names[0] or each in manifest["files"]]


def _in_folder(name: str, folder: Path) -> StoredModel:
    manifest = manifest_of(folder)

    @cache
    def codec(codec: str) -> Codec:
        return codecs.read(file_of(folder, manifest, codec + SUFFIX))[0]

    @cache
    def objects(split: str, codec: str) -> Arrays:
        merged: Arrays = {}
        for path in object_files(folder, manifest, split, codec):
            merged |= files.read_tensors(path, device=None)[0]
        return merged

    return StoredModel(name, tuple(manifest["classes"]), manifest["codecs"], codec, objects)


@cache
def verified(path: Path, expected: str) -> Path:
    """The path of a shipped file, after its checksum was verified."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: missing; install airpool-models again")
    if (actual := files.sha256(path)) != expected:
        raise ValueError(
            f"{path}: damaged (SHA-256 {actual[:12]}…, must be {expected[:12]}…); install airpool-models again"
        )
    return path


# One file


def in_file(path: Path) -> tuple[StoredModel, Arrays, dict[str, Any]]:
    """A model that `airpool.fit` made, all arrays of its file, and its header, with `widths` and `trunk`."""
    arrays, header = files.read_tensors(path, device=None, remedy=_REMEDY)
    about = header.get("about")
    if not isinstance(about, dict) or "model" not in about:
        raise ValueError(f"{path}: holds no model; `airpool.fit` and `airpool train codec --features` make one")
    files.require_finite(path, arrays, remedy=_REMEDY)
    try:
        model = about.pop("model")
        name, classes, widths = str(model["name"]), tuple(map(str, model["classes"])), tuple(model["widths"])
        by_name = {
            each: codecs.built(path, part(arrays, f"codecs.{each}."), own) for each, own in model["codecs"].items()
        }
        _require_shapes(arrays, widths, len(classes), by_name)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: damaged ({error}); {_REMEDY}") from None

    def objects(split: str, codec: str) -> Arrays:
        if split not in SPLITS:
            raise ValueError(f"held-out objects {split!r} must be test or validation")
        held = part(arrays, f"{split}.")
        if not held:
            raise ValueError(f"{name} was fitted without {split} objects")
        return {key: value for key, value in held.items() if "." not in key} | part(held, f"{codec}.")

    trunk = model.get("trunk")
    trunks = dict.fromkeys(by_name, trunk["name"] if trunk else "sensors")
    found = StoredModel(name, classes, trunks, by_name.__getitem__, objects)
    return found, arrays, {**about, "widths": widths, "trunk": trunk}


def part(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The arrays whose names begin with a prefix, by the rest of their names."""
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


def _require_shapes(
    arrays: Mapping[str, Array], widths: tuple[int, ...], num_classes: int, by_name: Mapping[str, Codec]
) -> None:
    """A KeyError that names the first array beside heads and codecs that is missing or does not fit the header."""
    devices, width = len(widths), max(widths, default=0)
    wanted: dict[str, tuple[int, ...]] = {"sensors.centre": (devices, width), "sensors.scale": (devices, width)}
    wanted["heads.temperatures"] = (devices,)
    tested = any(name.startswith("test.") for name in arrays)
    for split in SPLITS if tested else ("validation",):
        count = len(arrays[f"{split}.labels"])
        wanted[f"{split}.posteriors"] = (count, devices, num_classes)
        for name, codec in by_name.items():
            if codec.reads != "posterior":
                wanted[f"{split}.{name}.latents"] = (count, devices, codec.dimension)
                wanted[f"{split}.{name}.step"] = (1,)
    for name, shape in wanted.items():
        if name not in arrays or tuple(arrays[name].shape) != shape:
            raise KeyError(name)
    if not by_name or any(codec.num_classes != num_classes for codec in by_name.values()):
        raise KeyError("codecs")
