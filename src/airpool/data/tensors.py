"""Safetensors files, never pickle: named tensors, and JSON in the header. The only reader and writer of them."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from airpool import files


def write(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any] | None = None) -> None:
    """Writes the whole file or nothing. Each entry of the header becomes JSON."""
    from safetensors.torch import save

    text = {name: json.dumps(value) for name, value in (header or {}).items()}
    files.write(path, save({name: each.detach().cpu().contiguous() for name, each in tensors.items()}, metadata=text))


def read(
    path: Path, *, device: torch.device | str = "cpu", remedy: str = "copy it again"
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors by name, and the header. A header entry that is not JSON is returned as text."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_dir():
        raise ValueError(f"{path}: a folder, must be a safetensors file")
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:  # pyright: ignore[reportPrivateImportUsage]
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path}: damaged, or no safetensors file ({error}); {remedy}") from None
    return tensors, {name: _parsed(text) for name, text in header.items()}


def require_finite(path: Path, tensors: Mapping[str, Tensor], *, remedy: str = "copy the file again") -> None:
    """Raises an error that names the first tensor with an entry that is not finite."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{path}: {name} is not finite; {remedy}")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
