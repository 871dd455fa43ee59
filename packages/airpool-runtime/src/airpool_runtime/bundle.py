"""A device's trunk, local head and encoder in one file: read by NumPy and ONNX Runtime alone.

    bundle = read(Path("cameras.zip"))
    seen = bundle.encoder(device=3, devices=12)(view)      # view (C, H, H), bytes

airpool_lab.bundle makes it, once and with torch. The file is a zip of the trunk (ONNX; vision.int8), the matrices
(npz, never pickle) and a description (JSON).
"""

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from airpool._support import files
from airpool._support.version import __version__
from airpool.models.cameras import camera, temperatures
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.codec import Codec
from airpool.models.layers import FURTHEST, Layers, softmax, through
from airpool.models.vision import int8
from airpool.models.vision.int8 import Int8Trunk
from airpool_runtime.device import Seen

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
        archive.writestr(int8.GRAPH, bundle.trunk.graph)
        archive.writestr("arrays.npz", packed.getvalue())
        archive.writestr("about.json", about)


def read(path: Path, *, threads: int | None = None) -> Bundle:
    """A written bundle; threads: of its trunk, by default one per core."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; `airpool bundle` makes one")
    try:
        with zipfile.ZipFile(path) as archive:
            _require_small(archive)
            graph, packed, about = (archive.read(name) for name in (int8.GRAPH, "arrays.npz", "about.json"))
        arrays = _arrays(packed)
        described = json.loads(about)
        own = {name.removeprefix("codec."): each for name, each in arrays.items() if name.startswith("codec.")}
        codec = codecs.built(path, own, described.pop("encoder"))
        trunk = Int8Trunk(graph, threads=threads)
        found = Bundle(trunk, _heads(arrays), arrays["temperatures"], codec, described, arrays.get("scaling"))
        if (names := described.get("cameras")) and len(names) != len(found.temperatures):
            raise ValueError(f"{len(names)} cameras have a name, and {len(found.temperatures)} a temperature")
        return found
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[-120:]
        raise ValueError(f"{path}: damaged, or no bundle of `airpool bundle` ({reason})") from None


def _heads(arrays: Mapping[str, NDArray[Any]]) -> tuple[Layers, ...]:
    """The local classifiers of a file: one of all cameras, or one each."""
    heads: list[Layers] = []
    for number in range(len(arrays["temperatures"])):
        name = f"head{number}"
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
