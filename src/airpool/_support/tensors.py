"""Safetensors files, never pickle: named tensors of torch or NumPy, and JSON in the header."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airpool._support import files

if TYPE_CHECKING:
    import torch


def write(path: Path, tensors: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> None:
    """Writes the whole file or nothing. Each entry of the header becomes JSON. Tensors are all of NumPy or of torch."""
    text = {name: json.dumps(value) for name, value in (header or {}).items()}
    if all(isinstance(each, np.ndarray) for each in tensors.values()):
        from safetensors.numpy import save as in_numpy

        content = in_numpy({name: np.ascontiguousarray(each) for name, each in tensors.items()}, metadata=text)
    else:
        from safetensors.torch import save as in_torch

        content = in_torch({name: each.detach().cpu().contiguous() for name, each in tensors.items()}, metadata=text)
    files.write(path, content)


def read(
    path: Path, *, device: "torch.device | str | None" = "cpu", remedy: str = "copy it again"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors by name, and the header. A header entry that is not JSON is returned as text.

    device: where torch puts them; None: NumPy arrays, without torch.
    """
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_dir():
        raise ValueError(f"{path}: a folder, must be a safetensors file")
    try:
        where = {"framework": "np"} if device is None else {"framework": "pt", "device": str(device)}
        with safe_open(path, **where) as file:  # pyright: ignore[reportPrivateImportUsage]
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path}: damaged, or no safetensors file ({error}); {remedy}") from None
    return tensors, {name: _parsed(text) for name, text in header.items()}


def require_finite(path: Path, tensors: Mapping[str, Any], *, remedy: str = "copy the file again") -> None:
    """Raises an error that names the first tensor with an entry that is not finite."""
    for name, tensor in tensors.items():
        finite = np.isfinite(tensor) if isinstance(tensor, np.ndarray) else tensor.isfinite()
        if not bool(finite.all()):
            raise ValueError(f"{path}: {name} is not finite; {remedy}")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
