"""Atomic writes of files, arrays of NumPy's files, and safetensors, never pickle."""

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import torch


def plain(value: Any, constant: Callable[[str], Any] = float) -> Any:
    """The value as JSON returns it: arrays and tuples become lists. constant: reads "Infinity", "-Infinity", "NaN"."""
    return json.loads(json.dumps(value, default=lambda array: array.tolist()), parse_constant=constant)


def jsonable(value: Any) -> Any:
    """The same for a file or a stream. JSON has no infinity and no NaN: they become "inf", "-inf" and "nan"."""
    return plain(value, lambda text: str(float(text)))


def write(path: str | Path, content: str | bytes) -> None:
    """Writes a file, text as UTF-8, in place of what was there."""
    with opened(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def require_writable(path: str | Path, *, folder: bool = False) -> None:
    """Raises the OSError that writing this file, or files in this folder, would raise; nothing is made."""
    target = Path(os.path.realpath(path))
    there = next(each for each in (target, *target.parents) if each.exists())
    wrong = 0
    if (there != target or folder) and not there.is_dir():
        wrong = errno.ENOTDIR
    elif there == target and not folder and there.is_dir():
        wrong = errno.EISDIR
    elif not os.access(there, os.W_OK | (os.X_OK if there.is_dir() else 0)):
        wrong = errno.EACCES
    if wrong:
        raise OSError(wrong, os.strerror(wrong), str(path))


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place at `path` once all of it is on the disk.

    Its folder is made where there is none.
    Edge cases: after any error no temporary file is left, and a file that was there before is as it was; an OSError
    names `path`. A link is followed. What is no regular file (a pipe, a terminal) is written to directly.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        # At most 255 bytes, whatever the alphabet.
        partial = target.with_name(f".{target.name[:48]}.{secrets.token_hex(4)}.tmp")
        try:
            with partial.open("xb") as file:
                if target.exists():
                    shutil.copymode(target, partial)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def array(path: Path) -> Any:
    """The array of an npy file; an error that names the file where it holds none."""
    from zipfile import BadZipFile

    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path}: no npy file that can be read ({why_unreadable(error)})") from None
    if not isinstance(found, np.ndarray):
        found.close()
        raise ValueError(f"{path}: holds several arrays, must be npy, as numpy.save writes it")
    return found


def why_unreadable(error: Exception) -> str:
    """NumPy's reason why a file cannot be read, without its advice to unpickle what it cannot read.

    >>> why_unreadable(ValueError("Cannot load file containing pickled data when allow_pickle=False"))
    'it holds no plain arrays'
    """
    return "it holds no plain arrays" if "pickle" in str(error) else str(error) or type(error).__name__


def log(path: Path) -> BinaryIO:
    """An empty file for what another process prints."""
    return path.open("wb")


def write_tensors(path: Path, tensors: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> None:
    """Writes the whole file or nothing. Each entry of the header becomes JSON. Tensors are all of NumPy or of torch."""
    import numpy as np

    text = {name: json.dumps(value) for name, value in (header or {}).items()}
    if all(isinstance(each, np.ndarray) for each in tensors.values()):
        from safetensors.numpy import save as in_numpy

        content = in_numpy({name: np.ascontiguousarray(each) for name, each in tensors.items()}, metadata=text)
    else:
        from safetensors.torch import save as in_torch

        content = in_torch({name: each.detach().cpu().contiguous() for name, each in tensors.items()}, metadata=text)
    write(path, content)


def read_tensors(
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
    import numpy as np

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
