"""Codecs: their interface, their registry, and their files.

    device   what the codec reads (..., d) → encoder → latent (..., r), ‖z‖ ≤ 1
    server   estimate (..., r) and its level of signal and noise → decoder → logits (..., C)

A codec is written once, for NumPy arrays and torch tensors: training, the simulator, a running device and the server
call the same code (docs/howto/plugins.md). Everything here but `load` and `in_torch` works without torch.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from array_api_compat import array_namespace

from airpool._support import files
from airpool._support.arrays import Array, Floats
from airpool._support.plugins import PluginError, Registry
from airpool._support.version import __version__
from airpool.models.layers import in_numpy
from airpool.radio.link import Level

if TYPE_CHECKING:
    import torch

Reads = Literal["feature", "map", "posterior"]

SUFFIX = ".safetensors"

_READS = ("feature", "map", "posterior")
_REMEDY = "copy it again or train anew"


class Codec(Protocol):
    """Encoder and decoder, with arrays of NumPy or torch.

    kind: its name in CODECS. reads: what the encoder is given of a view: the local head's "posterior" (..., C), the
    "feature" that the head reads (..., F), or all of the trunk's "map" (..., F·7·7). dimension: r. num_classes: C.

    >>> class Posterior:
    ...     kind, reads, dimension, num_classes = "posterior", "posterior", 3, 3
    ...     def encoder(self, read):
    ...         return read
    ...     def server(self, level):
    ...         return lambda estimate: estimate / level.signal
    ...     def parts(self):
    ...         return {}, {}
    ...     @classmethod
    ...     def built(cls, arrays, settings):
    ...         return cls()
    >>> posteriors = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    >>> decode = decoder(Posterior(), Level(signal=1.0, noise_std=0.1))
    >>> decode(encoded(Posterior(), {"posterior": posteriors})).argmax(-1).tolist()
    [0, 2]
    """

    @property
    def kind(self) -> str:
        """Its registered name."""
        ...

    @property
    def reads(self) -> Reads:
        """The part of a view that the encoder is given."""
        ...

    @property
    def dimension(self) -> int:
        """r, numbers in a latent."""
        ...

    @property
    def num_classes(self) -> int:
        """C."""
        ...

    def encoder(self, read: Array, /) -> Array:
        """Latents (..., r), no longer than one; never raises on values."""
        ...

    def server(self, level: Level, /) -> Callable[[Array], Array]:
        """The decoder of a network with this level of signal and noise: estimates (..., r) → logits (..., C)."""
        ...

    def parts(self) -> tuple[Mapping[str, Array], Mapping[str, Any]]:
        """Content of its file: arrays by name, and settings that JSON can hold."""
        ...

    @classmethod
    def built(cls, arrays: Mapping[str, Array], settings: Mapping[str, Any], /) -> "Codec":
        """The codec of the arrays and settings of `parts`; `settings` holds its `kind` as well."""
        ...


CODECS: Registry[type[Codec]] = Registry(
    "codec",
    "airpool.codecs",
    dict.fromkeys(("compact", "map"), "airpool.models.codecs.dense:DenseCodec")
    | {"vote": "airpool.models.codecs.vote:Vote"},
    needs=("encoder", "server", "parts", "built"),
)


def encoded(codec: Codec, view: Mapping[str, Array]) -> Array:
    """Latents of views, given as "feature", "map" or "posterior"; the codec reads one of these.

    An error names the codec where it gives something else than latents.
    """
    if codec.reads not in view:
        raise ValueError(f"codec {codec.kind!r} reads a view's {codec.reads}, there is its {' and '.join(view)} alone")
    read = view[codec.reads]
    with _named(codec, "encoder"):
        latents = codec.encoder(read)
    wanted = (*read.shape[:-1], codec.dimension)
    if (found := tuple(getattr(latents, "shape", ()))) != wanted:
        raise PluginError(f"codec {codec.kind!r}: its encoder gives shape {found}, must be {wanted}")
    return latents


def decoder(codec: Codec, level: Level) -> Callable[[Array], Array]:
    """The codec's server for this level. An error names the codec where it gives something else than logits."""
    with _named(codec, "server"):
        decode = codec.server(level)

    def logits(estimate: Array) -> Array:
        with _named(codec, "server"):
            found = decode(estimate)
        wanted = (*estimate.shape[:-1], codec.num_classes)
        if (shape := tuple(getattr(found, "shape", ()))) != wanted:
            raise PluginError(f"codec {codec.kind!r}: its server gives logits of shape {shape}, must be {wanted}")
        return found

    return logits


@contextmanager
def _named(codec: Codec, member: str) -> Iterator[None]:
    """Names the codec in what its own code raises."""
    try:
        yield
    except Exception as error:
        raise PluginError(f"codec {codec.kind!r}: its {member} fails: {type(error).__name__}: {error}") from error


def of_device(codec: Codec, device: int) -> Codec:
    """The codec as one device runs it: its own encoder, where every device has one."""
    own = getattr(codec, "of_device", None)
    return codec if own is None else own(device)


def matrices(codec: Codec, level: Level) -> tuple[tuple[Floats, Floats], ...]:
    """The server for this level as layers (matrix, bias) with ReLU between them, for theory: the codec's `matrices`."""
    own = getattr(codec, "matrices", None)
    if own is None:
        raise PluginError(
            f"codec {codec.kind!r} has no `matrices`, its server as layers with ReLU between, which theory needs"
        )
    return own(level)


def moved(codec: Codec, convert: Callable[[Array], Array]) -> Codec:
    """The codec with every array converted."""
    arrays, settings = codec.parts()
    return type(codec).built({name: convert(each) for name, each in arrays.items()}, {"kind": codec.kind, **settings})


def in_torch(codec: Codec, device: "torch.device | str" = "cpu") -> Codec:
    import torch

    return moved(codec, lambda array: torch.tensor(in_numpy(array), device=device))


# Files


def file_parts(codec: Codec) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays as a file holds them, and what its header says. Of a trained codec, matrices are in half precision."""
    arrays, settings = codec.parts()
    half = getattr(codec, "halved", False)
    out = {
        name: np.asarray(in_numpy(each), np.float16 if half and each.ndim > 1 else np.float32)
        for name, each in arrays.items()
    }
    return out, {"codec": {"kind": codec.kind, **settings}}


def save(path: Path, codec: Codec, about: Mapping[str, Any]) -> None:
    """Writes the codec's file. Refuses values that are not finite as they are stored."""
    arrays, header = file_parts(codec)
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite, so {path} is not written: try a smaller learning_rate")
    files.write_tensors(path, arrays, {"about": {**about, **header, "version": __version__}})


def read(path: Path) -> tuple[Codec, dict[str, Any]]:
    """A saved codec in NumPy, and its header."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; `airpool train` writes codecs")
    arrays, header = files.read_tensors(path, device=None, remedy=_REMEDY)
    files.require_finite(path, arrays, remedy=_REMEDY)
    about = header.get("about")
    if not isinstance(about, dict):
        raise ValueError(f"{path}: not written by airpool; `airpool train` writes codecs")
    return built(path, arrays, about), about


def load(path: Path, *, device: "torch.device | str" = "cpu") -> tuple[Any, dict[str, Any]]:
    """A saved codec in torch, and its header."""
    codec, about = read(path)
    return in_torch(codec, device), about


def built(path: Path, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> Codec:
    """The codec of a file's arrays and header, in float32. An error names the file."""
    try:
        own = dict(about["codec"]) if "codec" in about else {"kind": "vote", **about["vote"]}  # of earlier versions
        kind = CODECS.get(own["kind"])
        codec = kind.built({name: _single(each) for name, each in arrays.items()}, own)
        _require(codec, own["kind"])
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: holds no codec that airpool knows ({reason})") from None
    return codec


def _single(array: Array) -> Array:
    xp = array_namespace(array)
    return xp.astype(array, xp.float32)


def _require(codec: Codec, kind: str) -> None:
    """Raises an error that says what is wrong with a codec of a plug-in."""
    for name, wanted, ok in (
        ("kind", repr(kind), lambda value: value == kind),
        ("reads", " or ".join(_READS), lambda value: value in _READS),
        ("dimension", "a whole number ≥ 1", lambda value: isinstance(value, int) and value >= 1),
        ("num_classes", "a whole number ≥ 2", lambda value: isinstance(value, int) and value >= 2),
    ):
        value = getattr(codec, name, None)
        if not ok(value):
            raise PluginError(f"codec {kind!r}: its {name} is {value!r}, must be {wanted}")


# Latents on disk


def quantised(latents: Array) -> tuple[Array, Array]:
    """Latents as int8 steps from -127 to 127, and the size of a step."""
    xp = array_namespace(latents)
    step = xp.clip(xp.max(xp.abs(latents)), min=1e-12) / 127
    return xp.astype(xp.round(latents / step), xp.int8), step


def unpacked(arrays: Mapping[str, Array]) -> Array:
    """Latents (N, K, r) of their int8 steps, which may stand for principal directions (scripts/assets.py)."""
    inside = _single(arrays["latents"]) * arrays["step"]
    return inside @ _single(arrays["basis"]) + arrays["centre"] if "basis" in arrays else inside
