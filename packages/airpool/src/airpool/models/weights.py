"""Weights on disk: safetensors, with a JSON header `about` that says what they are.

Matrices and filters are stored in half precision, vectors (biases, batch norm's statistics) in float32: small variances
would lose digits. In memory all are float32. Batch norm's counters, which nothing reads, are not stored.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from airpool._support import files
from airpool._support.version import __version__
from airpool.models.vision.mvcnn import MVCNN, Architecture

Module = TypeVar("Module", bound=nn.Module)
Paths = Path | Sequence[Path]


def save(path: Path, model: MVCNN, about: Mapping[str, Any]) -> None:
    """Writes the model's file; its header holds `about`, the architecture and airpool's version."""
    write(path, model.state_dict(), {**about, "architecture": asdict(model.architecture)})


def load(path: Paths, *, device: torch.device | str = "cpu") -> tuple[MVCNN, dict[str, Any]]:
    """A model in eval mode, from one file or from several that each hold a part of it, and its header."""
    tensors, about = read(path, device=device)
    with building(path, "trunk"):
        model = MVCNN(Architecture(**about["architecture"]))
    return fill(model, tensors, path), about


@contextmanager
def building(path: Paths, kind: str) -> Iterator[None]:
    """Builds modules without memory or random numbers. A wrong header is an error that names the file."""
    try:
        with torch.device("meta"):
            yield
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{_named(path)}: holds no {kind} that airpool knows ({reason})") from None


def require_classes(path: Paths, about: Mapping[str, Any], num_classes: int, classes: Sequence[str]) -> None:
    """Raises an error if a file was made for other classes than the data's, or for these in another order.

    about: its header; where it holds no `classes`, their number alone is compared.
    """
    if num_classes != len(classes):
        raise ValueError(f"{_named(path)}: made for {num_classes} classes, the data have {len(classes)}")
    known = about.get("classes", list(classes))
    if not isinstance(known, list) or len(known) != num_classes:
        raise ValueError(f"{_named(path)}: damaged, its header must name {num_classes} classes; train anew")
    for number, (was, now) in enumerate(zip(known, classes, strict=True)):
        if was != now:
            raise ValueError(f"{_named(path)}: made for other classes: class {number} is {was!r}, of the data {now!r}")


def fill(module: Module, tensors: Mapping[str, Tensor], path: Paths) -> Module:
    """The module, in eval mode, with a file's tensors as its parameters and buffers."""
    own = module.state_dict()
    counters = {key for key, value in own.items() if not value.is_floating_point()}
    for key in sorted((own.keys() | tensors.keys()) - counters):
        if key not in own or key not in tensors or own[key].shape != tensors[key].shape:
            raise ValueError(
                f"{_named(path)}: {key!r} is missing or does not fit, so these are not the weights of this model"
            )
    device = next(iter(tensors.values())).device
    module.load_state_dict({**tensors, **{key: torch.tensor(0, device=device) for key in counters}}, assign=True)
    return module.eval()


def write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Writes float tensors by name; integers are left out. Refuses values that are not finite as they are stored."""
    stored = {
        name: tensor.detach().half() if tensor.ndim > 1 else tensor.detach().float()
        for name, tensor in tensors.items()
        if tensor.is_floating_point()
    }
    for name, tensor in stored.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{name} is not finite, so {path} is not written: try a smaller learning_rate")
    files.write_tensors(path, stored, {"about": {**about, "version": __version__}})


def read(path: Paths, *, device: torch.device | str = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Float32 tensors by name, and the header. The parts of a model must carry the same header."""
    paths = [path] if isinstance(path, Path) else list(path)
    if not paths:
        raise ValueError("no file of weights given")
    parts = [_read(each, device) for each in paths]
    tensors, about = parts[0]
    for other, (more, described) in zip(paths[1:], parts[1:], strict=True):
        if described != about or tensors.keys() & more.keys():
            raise ValueError(f"{paths[0]} and {other} are not parts of one model")
        tensors |= more
    return tensors, about


def _named(path: Paths) -> str:
    return str(path) if isinstance(path, Path) else ", ".join(map(str, path))


def _read(path: Path, device: torch.device | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; `airpool train` writes files of weights")
    tensors, header = files.read_tensors(path, device=device, remedy="copy it again or train anew")
    files.require_finite(path, tensors, remedy="copy the file again or train anew")
    if not isinstance(about := header.get("about"), dict):
        raise ValueError(f"{path}: not written by airpool; `airpool train` writes files of weights")
    return {name: tensor.float() for name, tensor in tensors.items()}, about
