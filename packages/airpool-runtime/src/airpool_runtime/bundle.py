"""A device's trunk, local head and encoder in one file: read by NumPy and ONNX Runtime alone, made once with torch.

    bundle = read(Path("cameras.zip"))
    seen = bundle.encoder(device=3, devices=12)(view)      # view (C, H, H), bytes

The file is a zip of the trunk (ONNX; models.vision.int8), the matrices (npz, never pickle) and a description (JSON).
Those of earlier versions hold OpenVINO's xml and bin in the place of ONNX; the extra `openvino` reads them.
"""

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.version import __version__
from airpool.models.cameras import camera, temperatures
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.codec import Codec
from airpool.models.layers import FURTHEST, Layers, in_numpy, softmax, through
from airpool.models.vision import int8
from airpool.models.vision.int8 import Int8Trunk
from airpool.runtime.device import Seen

if TYPE_CHECKING:
    from torch import Tensor

    from airpool.models.pretrained import Pretrained
    from airpool.models.sensors.fitted import Fitted

_LARGEST = 256 * 2**20  # bytes of all parts, unpacked


@dataclass(frozen=True, eq=False)
class Bundle:
    """heads: the local classifier of all cameras, or one each. temperatures: (K,). about: codec, model, classes.

    scaling: (2, K, F), centre and scale of each camera's features, of a model that `airpool.fit` made; else None.
    """

    trunk: Int8Trunk
    heads: tuple[Layers, ...]
    temperatures: NDArray[Any]
    codec: Codec
    about: dict[str, Any]
    scaling: NDArray[Any] | None = None

    @property
    def view_shape(self) -> tuple[int, ...]:
        """Shape of a view, (C, H, H)."""
        return self.trunk.view_shape

    def camera(self, *, device: int, devices: int) -> str | None:
        """Name of the camera that a device of so many has; None where the model's cameras have no names."""
        names = self.about.get("cameras")
        return names[camera(device, devices, len(self.temperatures))] if names else None

    def encoder(self, *, device: int, devices: int) -> Callable[[NDArray[Any]], Seen]:
        """Encoder of a view (C, H, H) of one of so many devices, bytes or floats in [0, 1]: to latent and posterior."""
        own = camera(device, devices, len(self.temperatures))
        head, codec = self.heads[own % len(self.heads)], codecs.of_device(self.codec, own)
        # Cameras of your own are those of training; views of other shipped cameras share a mean temperature.
        fitted = temperatures(self.temperatures, devices)[device] if self.scaling is None else self.temperatures[own]
        temperature = np.float32(fitted)

        @np.errstate(all="ignore")
        def encode(view: NDArray[Any]) -> Seen:
            maps = self.trunk(view[None])[0]  # (F, h, w)
            flat = maps.reshape(len(maps), -1)
            average = flat.mean(-1)
            if self.scaling is not None:
                centre, scale = self.scaling[:, own]
                average = np.clip((average - centre) / scale, -FURTHEST, FURTHEST).astype(np.float32)
            posterior = softmax(through(head, average) / temperature)
            latent = codecs.encoded(codec, {"feature": average, "map": flat.reshape(-1), "posterior": posterior})
            return Seen(np.asarray(latent, np.float64), np.asarray(posterior, np.float64))

        return encode


def write(path: Path, bundle: Bundle) -> None:
    packed = io.BytesIO()
    codec, header = codecs.file_parts(bundle.codec)
    arrays = {f"codec.{name}": each for name, each in codec.items()} | {"temperatures": bundle.temperatures}
    arrays |= {} if bundle.scaling is None else {"scaling": bundle.scaling}
    for number, head in enumerate(bundle.heads):
        for k, (matrix, bias) in enumerate(head):
            arrays |= {f"head{number}.weight{k}": matrix, f"head{number}.bias{k}": bias}
    np.savez(packed, allow_pickle=False, **arrays)
    about = json.dumps({**bundle.about, "encoder": header, "version": __version__}, indent=1)
    with files.opened(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in (bundle.trunk.parts | {"arrays.npz": packed.getvalue(), "about.json": about}).items():
            archive.writestr(name, part)


def read(path: Path, *, threads: int | None = None) -> Bundle:
    """A written bundle; threads: of its trunk, by default one per core."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; `airpool bundle` makes one")
    try:
        with zipfile.ZipFile(path) as archive:
            _require_small(archive)
            parts, packed, about = int8.read_parts(archive), archive.read("arrays.npz"), archive.read("about.json")
        arrays = _arrays(packed)
        described = json.loads(about)
        if "encoder" not in described:
            raise ValueError("an earlier version wrote it: run `airpool bundle` again")
        own = {name.removeprefix("codec."): each for name, each in arrays.items() if name.startswith("codec.")}
        codec = codecs.built(path, own, described.pop("encoder"))
        trunk = Int8Trunk(parts, threads=threads)
        found = Bundle(trunk, _heads(arrays), arrays["temperatures"], codec, described, arrays.get("scaling"))
        if (names := described.get("cameras")) and len(names) != len(found.temperatures):
            raise ValueError(f"{len(names)} cameras have a name, and {len(found.temperatures)} a temperature")
        return found
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[-120:]
        raise ValueError(f"{path}: damaged, or no bundle of `airpool bundle` ({reason})") from None


def _heads(arrays: Mapping[str, NDArray[Any]]) -> tuple[Layers, ...]:
    """The local classifiers of a file; one written before they could be several has a single one, `head`."""
    heads: list[Layers] = []
    names = ["head"] if "head.weight0" in arrays else [f"head{k}" for k in range(len(arrays["temperatures"]))]
    for name in names:
        count = sum(key.startswith(f"{name}.weight") for key in arrays)
        if count:
            heads.append(tuple((arrays[f"{name}.weight{k}"], arrays[f"{name}.bias{k}"]) for k in range(count)))
    if len(heads) not in (1, len(arrays["temperatures"])):
        raise KeyError("head0.weight0")
    return tuple(heads)


def _require_small(archive: zipfile.ZipFile) -> None:
    size = sum(each.file_size for each in archive.infolist())
    if size > _LARGEST:
        raise ValueError(f"it unpacks to {size} bytes, must be at most {_LARGEST}")


def _arrays(packed: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file. NumPy allocates what an array's header declares: it must be what the file holds."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        _require_small(archive)
        for each in archive.infolist():
            with archive.open(each) as part:
                if npy.read_magic(part) != (1, 0):
                    raise ValueError(f"{each.filename}: must be of the format that numpy.savez writes")
                shape, _, dtype = npy.read_array_header_1_0(part)
                if part.tell() + math.prod(shape) * dtype.itemsize != each.file_size:
                    raise ValueError(f"{each.filename} declares {shape}, which is not what it holds")
    with np.load(io.BytesIO(packed), allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


def made(model_name: str = "modelnet40", *, codec: str | None = None, views: "Tensor | None" = None) -> Bundle:
    """The bundle of a shipped model, or of your own cameras, in int8. Needs the extra `bundle`; takes minutes.

    views: (N, C, H, H) to fit int8 to, not those it is tested on (models.images.calibration); of the shipped model by
    default of our own shapes, but the first variant of each class.
    """
    from airpool.models.pretrained import Pretrained, load
    from airpool.models.sensors.fitted import Fitted

    model = load(model_name)
    if isinstance(model, Fitted):
        return _of_cameras(model, codec, views)
    if not isinstance(model, Pretrained):
        raise ValueError(f"{model_name} takes no images, so it has no trunk to bundle: use a source MODULE:FUNCTION")
    if model.trunk_of(codec) != model.trunk_of():
        raise ValueError(
            f"codec {codec!r} must be one of {', '.join(model.deployable)}: its trunk is the one that ships"
        )
    trunk = _quantised(model.trunk.features, calibration_views(model) if views is None else views)
    about = {"model": model_name, "codec": model.checked(codec), "classes": list(model.classes)}
    own = codecs.moved(model.codec(codec), in_numpy)
    return Bundle(trunk, (_layers(model.head.classifier),), in_numpy(model.head.temperatures), own, about)


def _of_cameras(model: "Fitted", codec: str | None, views: "Tensor | None") -> Bundle:
    """The bundle of a model that `airpool.fit` made of pictures, with all that is each camera's own."""
    if model.trunk is None:
        raise ValueError(f"{model.name} takes no images, so it has no trunk to bundle: use a source MODULE:FUNCTION")
    if views is None:
        raise ValueError(
            f"{model.name} holds no pictures, and int8 is fitted to some: name a folder, --images FOLDER, as it "
            "was given to `airpool fit`"
        )
    heads = tuple(_layers(each) for each in model.heads.classifiers)
    scaling = np.stack([in_numpy(model.sensors.centre), in_numpy(model.sensors.scale)])
    about = {"model": model.name, "codec": model.checked(codec), "classes": list(model.classes)}
    about["cameras"] = model.about.get("pictures", {}).get("cameras")
    own = codecs.moved(model.codec(codec), in_numpy)
    trunk = _quantised(model.trunk.module, views)
    return Bundle(trunk, heads, in_numpy(model.heads.temperatures), own, about, scaling)


def _quantised(trunk: Any, views: "Tensor") -> Int8Trunk:
    from airpool.models.vision.quantisation import quantise

    return quantise(trunk, views)


def _layers(classifier: Any) -> Layers:
    parameters = [in_numpy(each) for each in classifier.parameters()]
    return tuple(zip(parameters[::2], parameters[1::2], strict=True))


def calibration_views(model: "Pretrained", count: int = 120) -> "Tensor":
    """Views (count, C, H, H) of our own shapes, but the first variant of each class, evenly over the cameras."""
    import torch

    from airpool.models.vision import shapes
    from airpool.models.vision.views import Cameras, views

    ring, first = Cameras(resolution=model.trunk.architecture.resolution), set[str]()
    some = [shape for shape in shapes.all() if shape.label in first or first.add(shape.label)]
    seen = []
    for k in range(count):
        shape, camera = some[k % len(some)], ring.alone(5 * k % ring.num_views)
        seen.append(views([(shape.vertices, shape.faces)], camera)[0, 0])
    return torch.stack(seen)
