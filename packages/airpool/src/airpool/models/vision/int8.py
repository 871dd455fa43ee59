"""A trunk in int8 on a device without an accelerator: NumPy and ONNX Runtime (extra `int8`), no torch.

    trunk = int8.load(path)
    maps = trunk(views)

`models.vision.quantisation` makes such trunks of torch modules. Files of earlier versions hold OpenVINO's xml and bin,
and are read where OpenVINO is installed (extra `openvino`).
"""

import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support import extras, files
from airpool._support.version import cores

_ONNX, _OPENVINO = ("trunk.onnx",), ("trunk.xml", "trunk.bin")

Run = Callable[[NDArray[np.float32]], NDArray[np.float32]]


class Int8Trunk:
    """Views (B, C, H, H), bytes or floats in [0, 1], to maps (B, F, h, w) float32.

    Holds for: the CPU, one call at a time. The first call with a new batch size takes longer.
    """

    def __init__(self, parts: Mapping[str, bytes], *, threads: int | None = None) -> None:
        """parts: files by name, as `read_parts` finds them. threads: by default one per core."""
        if threads is not None and threads < 1:
            raise ValueError(f"threads={threads} must be ≥ 1, or None for one per core")
        self.parts = dict(parts)
        start = _by_openvino if "trunk.xml" in parts else _by_onnx_runtime
        self.view_shape, self._run = start(self.parts, threads)

    def __call__(self, views: NDArray[Any]) -> NDArray[np.float32]:
        views = checked(views, self.view_shape)
        if len(views) == 0:
            return self(np.zeros((1, *self.view_shape), np.float32))[:0]
        return self._run(views)


def _by_onnx_runtime(parts: Mapping[str, bytes], threads: int | None) -> tuple[tuple[int, ...], Run]:
    runtime = onnxruntime()
    settings = runtime.SessionOptions()
    # Left to itself it ties its threads to cores: devices that share a machine would all use the first ones.
    settings.intra_op_num_threads = threads or cores()
    settings.inter_op_num_threads = 1
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle between inferences
    settings.enable_cpu_mem_arena = False  # it would keep twice the memory
    try:
        session = runtime.InferenceSession(parts["trunk.onnx"], settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own classes, which derive from nothing more
        raise ValueError(str(error)) from None
    (views,) = session.get_inputs()

    def run(some: NDArray[np.float32]) -> NDArray[np.float32]:
        return session.run(None, {views.name: some})[0]

    return tuple(views.shape[1:]), run


def _by_openvino(parts: Mapping[str, bytes], threads: int | None) -> tuple[tuple[int, ...], Run]:
    core = openvino().Core()
    model = core.read_model(parts["trunk.xml"], parts["trunk.bin"])
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",  # what is not int8: not bfloat16, even where it is available
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,  # or devices that share a machine would all use its first cores
    }
    settings |= {} if threads is None else {"INFERENCE_NUM_THREADS": threads}
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    shape = tuple(size.get_length() for size in list(model.input(0).partial_shape)[1:])
    return shape, lambda some: request.infer({0: some}, share_inputs=True)[0]


def save(path: Path, trunk: Int8Trunk) -> None:
    """Writes a zip file of the trunk's ONNX graph, which other tools read once unpacked."""
    with files.opened(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in trunk.parts.items():
            archive.writestr(name, part)


def load(path: Path, *, threads: int | None = None) -> Int8Trunk:
    """A saved trunk: its maps are the same to the last bit."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; airpool.models.vision.int8.save writes int8 trunks")
    try:
        with zipfile.ZipFile(path) as archive:
            parts = read_parts(archive)
        return Int8Trunk(parts, threads=threads)
    except (zipfile.BadZipFile, KeyError, ValueError, RuntimeError, zlib.error) as error:  # RuntimeError: OpenVINO's
        reason = " ".join(str(error).split())[-120:]
        raise ValueError(f"{path}: damaged, or no int8 trunk of airpool.models.vision.int8.save ({reason})") from None


def read_parts(archive: zipfile.ZipFile) -> dict[str, bytes]:
    """The trunk's files in an archive: ONNX, or OpenVINO's of earlier versions. A KeyError where there are none."""
    names = _OPENVINO if "trunk.xml" in archive.namelist() else _ONNX
    return {name: archive.read(name) for name in names}


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
def onnxruntime() -> Any:
    """ONNX Runtime without telemetry."""
    # Since 1.29 its Linux builds send reports and write an identifier into the home folder, unless this is set before
    # it is imported. Where another library has imported it first, it sends no more from here on.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]
    except ImportError as missing:
        raise ImportError(f"trunks in int8 need ONNX Runtime ({missing}): {extras.install('int8')}") from None
    onnxruntime.disable_telemetry_events()
    onnxruntime.set_default_logger_severity(3)  # errors: they are raised as well
    return onnxruntime


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
        reason = f"this file of an earlier version needs OpenVINO ({missing})"
        raise ImportError(f"{reason}: {extras.install('openvino')}, or make it again") from None
    return openvino
