"""A trunk in int8 on a device without an accelerator: NumPy and ONNX Runtime (extra `int8`), no torch.

    trunk = int8.load(path)
    maps = trunk(views)

`airpool_lab.vision.quantisation` makes such trunks of torch modules.
"""

import os
import zipfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support import extras, files
from airpool._support.version import cores

GRAPH = "trunk.onnx"  # its name in an archive


class Int8Trunk:
    """Views (B, C, H, H), bytes or floats in [0, 1], to maps (B, F, h, w) float32.

    Holds for: the CPU, one call at a time. The first call with a new batch size takes longer.
    """

    def __init__(self, graph: bytes, *, threads: int | None = None) -> None:
        """graph: of ONNX. threads: by default one per core."""
        if threads is not None and threads < 1:
            raise ValueError(f"threads={threads} must be ≥ 1, or None for one per core")
        self.graph, self._session = graph, _session(graph, threads)
        (views,) = self._session.get_inputs()
        self.view_shape, self._name = tuple[int, ...](views.shape[1:]), views.name

    def __call__(self, views: NDArray[Any]) -> NDArray[np.float32]:
        views = checked(views, self.view_shape)
        if len(views) == 0:
            return self(np.zeros((1, *self.view_shape), np.float32))[:0]
        return self._session.run(None, {self._name: views})[0]


def _session(graph: bytes, threads: int | None) -> Any:
    runtime = onnxruntime()
    settings = runtime.SessionOptions()
    # Left to itself it ties its threads to cores: devices that share a machine would all use the first ones.
    settings.intra_op_num_threads = threads or cores()
    settings.inter_op_num_threads = 1
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle between inferences
    settings.enable_cpu_mem_arena = False  # it would keep twice the memory
    try:
        return runtime.InferenceSession(graph, settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own classes, which derive from nothing more
        raise ValueError(str(error)) from None


def save(path: Path, trunk: Int8Trunk) -> None:
    """Writes a zip file of the trunk's ONNX graph, which other tools read once unpacked."""
    with files.opened(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(GRAPH, trunk.graph)


def load(path: Path, *, threads: int | None = None) -> Int8Trunk:
    """A saved trunk: its maps are the same to the last bit."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; airpool.models.vision.int8.save writes int8 trunks")
    try:
        with zipfile.ZipFile(path) as archive:
            graph = archive.read(GRAPH)
        return Int8Trunk(graph, threads=threads)
    except (zipfile.BadZipFile, KeyError, ValueError, RuntimeError, zlib.error) as error:
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
def onnxruntime() -> Any:
    """ONNX Runtime without telemetry."""
    # Since 1.29 its Linux builds send reports and write an identifier into the home folder, unless this is set before
    # it is imported. Where another library has imported it first, it sends no more from here on.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]
    except ImportError as missing:
        raise ImportError(f"trunks in int8 need ONNX Runtime ({missing}): {extras.install('airpool[int8]')}") from None
    onnxruntime.disable_telemetry_events()
    onnxruntime.set_default_logger_severity(3)  # errors: they are raised as well
    return onnxruntime
