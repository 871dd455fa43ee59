"""Weights on disk: safetensors, never pickle, and in the header, as JSON, what they are.

Matrices and filters are stored in half precision; in memory all is float32. What has one dimension (biases, batch
norm's statistics) stays float32 on disk too: a few thousandths of the size, and small variances would lose digits.
Batch norm's counters of batches, which nothing reads, are left out.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from airpool import files
from airpool.models.vgg import MVCNN, Architecture
from airpool.version import __version__

Module = TypeVar("Module", bound=nn.Module)


def save(path: Path, model: MVCNN, about: Mapping[str, Any]) -> None:
    """The model's file, whole or not at all; its header says `about`, the architecture and airpool's version."""
    write(path, model.state_dict(), {**about, "architecture": asdict(model.architecture)})


def load(path: Path | Sequence[Path], *, device: torch.device | str = "cpu") -> tuple[MVCNN, dict[str, Any]]:
    """A model in eval mode, from one file or from several that each hold a part of it, and what its header says."""
    tensors, about = read(path, device=device)
    try:
        architecture = Architecture(**about["architecture"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{_named(path)}: holds no trunk that airpool knows ({_reason(error)})") from None
    with torch.device("meta"):  # no memory, no random numbers drawn
        model = MVCNN(architecture)
    return fill(model, tensors, _named(path)), about


def write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Tensors by name into one file, whole or not at all; those of integers are left out.

    Refuses what is not finite, in half precision where that is what is stored: a training that diverged.
    """
    from safetensors.torch import save as serialised

    stored = {name: _stored(tensor) for name, tensor in tensors.items() if tensor.is_floating_point()}
    for name, tensor in stored.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{name} is not finite, so {path} is not written: try a smaller learning_rate")
    header = {"about": json.dumps({**about, "version": __version__})}
    files.write(path, serialised(stored, metadata=header))


def read(
    path: Path | Sequence[Path], *, device: torch.device | str = "cpu"
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Float32 tensors by name, and what the header says. The parts of a model must carry the same header."""
    paths = [path] if isinstance(path, Path) else list(path)
    if not paths:
        raise ValueError("no file of weights given")
    parts = [_read(each, torch.device(device)) for each in paths]
    tensors, about = parts[0]
    for other, (more, described) in zip(paths[1:], parts[1:], strict=True):
        if described != about or tensors.keys() & more.keys():
            raise ValueError(f"{paths[0]} and {other} are not parts of one model")
        tensors |= more
    return tensors, about


def fill(module: Module, tensors: Mapping[str, Tensor], name: str) -> Module:
    """The module, in eval mode, with these tensors as its parameters and buffers; an error calls them by `name`."""
    own = module.state_dict()
    counters = {key for key, value in own.items() if not value.is_floating_point()}
    for key in sorted((own.keys() | tensors.keys()) - counters):
        if key not in own or key not in tensors or own[key].shape != tensors[key].shape:
            raise ValueError(f"{name}: {key!r} is missing or does not fit, so these are not the weights of this model")
    device = next(iter(tensors.values())).device
    module.load_state_dict({**tensors, **{key: torch.tensor(0, device=device) for key in counters}}, assign=True)
    return module.eval()


def _read(path: Path, device: torch.device) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; `airpool train` writes files of weights")
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:  # pyright: ignore[reportPrivateImportUsage]
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path}: damaged, or no safetensors file ({error}); copy it again or train anew") from None
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{path}: {name} is not finite; copy the file again or train anew")
    try:
        about = json.loads(header["about"])
        return tensors, {**about}
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path}: not written by airpool; `airpool train` writes files of weights") from None


def _stored(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().cpu().contiguous()
    return tensor.half() if tensor.ndim > 1 else tensor.float()


def _named(path: Path | Sequence[Path]) -> str:
    return str(path) if isinstance(path, Path) else ", ".join(map(str, path))


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
