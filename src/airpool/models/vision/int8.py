"""A trunk in int8 on a device without an accelerator: NumPy and OpenVINO (extra `int8`), no torch.

    trunk = int8.load(path)
    maps = trunk(views)

`models.quantisation` makes such trunks of torch modules. OpenVINO sends telemetry whenever it is imported; this module
disables it.
"""

import os
import sys
import zipfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support import extras, files

_NAMES = ("trunk.xml", "trunk.bin")


class Int8Trunk:
    """Views (B, C, H, H), bytes or floats in [0, 1], to maps (B, F, h, w) float32.

    Holds for: the CPU, one call at a time. The first call with a new batch size takes longer.
    """

    def __init__(self, graph: bytes, constants: bytes, *, threads: int | None = None) -> None:
        """graph, constants: OpenVINO's xml and bin. threads: by default one per core."""
        if threads is not None and threads < 1:
            raise ValueError(f"threads={threads} must be ≥ 1, or None for one per core")
        self.parts = (graph, constants)
        core = openvino().Core()
        model = core.read_model(graph, constants)
        self.view_shape: tuple[int, ...] = tuple(size.get_length() for size in list(model.input(0).partial_shape)[1:])
        settings = {
            "INFERENCE_PRECISION_HINT": "f32",  # what is not int8: not bfloat16, even where it is available
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,  # or devices that share a machine would all use its first cores
        }
        settings |= {} if threads is None else {"INFERENCE_NUM_THREADS": threads}
        self._request = core.compile_model(model, "CPU", settings).create_infer_request()

    def __call__(self, views: NDArray[Any]) -> NDArray[np.float32]:
        views = checked(views, self.view_shape)
        if len(views) == 0:
            return self(np.zeros((1, *self.view_shape), np.float32))[:0]
        return self._request.infer({0: views}, share_inputs=True)[0]


def save(path: Path, trunk: Int8Trunk) -> None:
    """Writes a zip file of OpenVINO's xml and bin; its tools read them once unpacked."""
    with files.opened(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in zip(_NAMES, trunk.parts, strict=True):
            archive.writestr(name, part)


def load(path: Path, *, threads: int | None = None) -> Int8Trunk:
    """A saved trunk: its maps are the same to the last bit."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; airpool.models.vision.int8.save writes int8 trunks")
    try:
        with zipfile.ZipFile(path) as archive:
            parts = [archive.read(name) for name in _NAMES]
        return Int8Trunk(*parts, threads=threads)
    except (zipfile.BadZipFile, KeyError, RuntimeError, zlib.error) as error:  # RuntimeError: OpenVINO's
        reason = " ".join(str(error).split())[-120:]
        raise ValueError(f"{path}: damaged, or no int8 trunk of airpool.models.vision.int8.save ({reason})") from None


def checked(views: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The views as float32, checked to be (B, *shape) and within [0, 1]."""
    numbers = views.dtype == np.uint8 or views.dtype.kind == "f"
    if views.ndim != 4 or views.shape[1:] != shape or not numbers:
        what = f"{views.dtype} {views.shape}"
        raise ValueError(f"views is {what}: must be bytes or floats (B, {', '.join(map(str, shape))})")
    if views.dtype == np.uint8:
        return np.divide(views, 255, dtype=np.float32)
    if views.size and not (views.min() >= 0 and views.max() <= 1):
        raise ValueError(f"views from {views.min():.4g} to {views.max():.4g}: must lie in [0, 1], or be bytes (uint8)")
    return np.ascontiguousarray(views, np.float32)


@cache
def openvino() -> Any:
    """OpenVINO without telemetry and AMX."""
    # Without its telemetry package it uses a stub that sends nothing.
    sys.modules.setdefault("openvino_telemetry", None)  # pyright: ignore[reportArgumentType]
    # Some virtual machines advertise AMX and trap on it. Where AMX works, DEFAULT is faster.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    try:
        import openvino  # pyright: ignore[reportMissingImports]
    except ImportError as missing:
        raise ImportError(f"trunks in int8 need OpenVINO ({missing}): {extras.install('int8')}") from None
    return openvino
