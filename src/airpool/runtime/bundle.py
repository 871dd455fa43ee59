"""A device's trunk, local head and encoder in one file: read by NumPy and ONNX Runtime alone, made once with torch.

    bundle = read(Path("cameras.zip"))
    seen = bundle.encoder(device=3, devices=12)(view)      # view (C, H, H), bytes

The file is a zip of the trunk (ONNX; models.int8), the matrices (npz, never pickle) and a description (JSON). Those of
earlier versions hold OpenVINO's xml and bin in the place of ONNX; the extra `openvino` reads them.
"""

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.version import __version__
from airpool.models.cameras import temperatures
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.codec import Codec
from airpool.models.layers import Layers, in_numpy, softmax, through
from airpool.models.vision import int8
from airpool.models.vision.int8 import Int8Trunk
from airpool.runtime.device import Seen

if TYPE_CHECKING:
    from torch import Tensor

    from airpool.models.pretrained import Pretrained

_LARGEST = 256 * 2**20  # bytes of all parts, unpacked


@dataclass(frozen=True, eq=False)
class Bundle:
    """head: the local classifier. temperatures: (K,). about: codec, model, classes."""

    trunk: Int8Trunk
    head: Layers
    temperatures: NDArray[Any]
    codec: Codec
    about: dict[str, Any]

    @property
    def view_shape(self) -> tuple[int, ...]:
        """Shape of a view, (C, H, H)."""
        return self.trunk.view_shape

    def encoder(self, *, device: int, devices: int) -> Callable[[NDArray[Any]], Seen]:
        """Encoder of a view (C, H, H) of one of so many devices, bytes or floats in [0, 1]: to latent and posterior."""
        temperature = np.float32(temperatures(self.temperatures, devices)[device])

        @np.errstate(all="ignore")
        def encode(view: NDArray[Any]) -> Seen:
            maps = self.trunk(view[None])[0]  # (F, h, w)
            flat = maps.reshape(len(maps), -1)
            average = flat.mean(-1)
            posterior = softmax(through(self.head, average) / temperature)
            latent = codecs.encoded(self.codec, {"feature": average, "map": flat.reshape(-1), "posterior": posterior})
            return Seen(np.asarray(latent, np.float64), np.asarray(posterior, np.float64))

        return encode


def write(path: Path, bundle: Bundle) -> None:
    packed = io.BytesIO()
    codec, header = codecs.file_parts(bundle.codec)
    arrays = {f"codec.{name}": each for name, each in codec.items()} | {"temperatures": bundle.temperatures}
    for k, (matrix, bias) in enumerate(bundle.head):
        arrays |= {f"head.weight{k}": matrix, f"head.bias{k}": bias}
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
        count = sum(name.startswith("head.weight") for name in arrays)
        head = tuple((arrays[f"head.weight{k}"], arrays[f"head.bias{k}"]) for k in range(count))
        trunk = Int8Trunk(parts, threads=threads)
        return Bundle(trunk, head, arrays["temperatures"], codec, described)
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[-120:]
        raise ValueError(f"{path}: damaged, or no bundle of `airpool bundle` ({reason})") from None


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
    """The bundle of a shipped model, in int8. Needs torch and onnx (extra `bundle`); takes minutes.

    views: (N, C, H, H) to fit int8 to, not those it is tested on; by default of our own shapes, but the first variant
    of each class.
    """
    from airpool.models.pretrained import Pretrained, load
    from airpool.models.vision.quantisation import quantise

    model = load(model_name)
    if not isinstance(model, Pretrained):
        raise ValueError(f"{model_name} takes no images, so it has no trunk to bundle: use a source MODULE:FUNCTION")
    if model.trunk_of(codec) != model.trunk_of():
        raise ValueError(
            f"codec {codec!r} must be one of {', '.join(model.deployable)}: its trunk is the one that ships"
        )
    trunk = quantise(model.trunk.features, calibration_views(model) if views is None else views)
    parameters = [in_numpy(each) for each in model.head.classifier.parameters()]
    head = tuple(zip(parameters[::2], parameters[1::2], strict=True))
    about = {"model": model_name, "codec": model.checked(codec), "classes": list(model.classes)}
    own = codecs.moved(model.codec(codec), in_numpy)
    return Bundle(trunk, head, in_numpy(model.head.temperatures), own, about)


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
