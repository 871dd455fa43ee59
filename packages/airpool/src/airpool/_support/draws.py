"""Random numbers from a NumPy or a torch generator. Only this module and sionna_models distinguish the two."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace

from airpool._support.arrays import Array, Floats

if TYPE_CHECKING:
    import torch

Generator: TypeAlias = "np.random.Generator | torch.Generator"


def standard_normal(rng: Generator, shape: tuple[int, ...], *, dtype: Any = None) -> Array:
    """Independent N(0, 1) draws: a NumPy array, or a tensor on the generator's device.

    dtype: of the generator's library; by default float64 for NumPy, torch's own default for torch.

    >>> standard_normal(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """
    if isinstance(rng, np.random.Generator):
        return rng.standard_normal(shape, dtype=np.float64 if dtype is None else dtype)
    torch = _torch(rng)
    return torch.randn(shape, generator=rng, device=rng.device, dtype=dtype)


def ones(rng: Generator, shape: tuple[int, ...], *, dtype: Any = None) -> Array:
    """Ones, in the library and on the device of the generator: what a channel without fading draws."""
    if isinstance(rng, np.random.Generator):
        return np.ones(shape, dtype=dtype)
    return _torch(rng).ones(shape, device=rng.device, dtype=dtype)


def zeros(rng: Generator, shape: tuple[int, ...], *, dtype: Any = None) -> Array:
    """Zeros, in the library and on the device of the generator."""
    return ones(rng, shape, dtype=dtype) * 0


def uniform(rng: Generator, shape: tuple[int, ...], *, dtype: Any = None) -> Array:
    """Independent draws from [0, 1): a NumPy array, or a tensor on the generator's device."""
    if isinstance(rng, np.random.Generator):
        return rng.random(shape, dtype=np.float64 if dtype is None else dtype)
    return _torch(rng).rand(shape, generator=rng, device=rng.device, dtype=dtype)


def by_quantile(
    rng: Generator, shape: tuple[int, ...], quantile: Callable[[Floats], Floats], *, dtype: Any = None
) -> Array:
    """Independent draws of the law with this quantile function, which takes and returns NumPy arrays in float64."""
    least = 2.0**-54  # uniform numbers may be 0, where a quantile need not exist
    if isinstance(rng, np.random.Generator):
        return np.asarray(quantile(np.maximum(rng.random(shape), least)), dtype=np.float64 if dtype is None else dtype)
    torch = _torch(rng)
    u = torch.rand(shape, generator=rng, device=rng.device, dtype=torch.float64)
    drawn = torch.as_tensor(quantile(np.maximum(u.cpu().numpy(), least)), device=rng.device)
    return drawn.to(torch.get_default_dtype() if dtype is None else dtype)


def spawn(rng: Generator, number: int) -> list[Generator]:
    """Independent generators of the same library and device: one for each sender, so that none shares its noise.

    >>> [int(each.integers(100)) for each in spawn(np.random.default_rng(0), 2)] != [0, 0]
    True
    """
    if isinstance(rng, np.random.Generator):
        return list(rng.spawn(number))
    torch = _torch(rng)
    return [torch.Generator(device=rng.device).manual_seed(seed(rng)) for _ in range(number)]


def by_device(
    draw: Callable[..., Array], own: Sequence[Generator], shape: tuple[int, ...], *, axis: int = -1, dtype: Any
) -> Array:
    """Numbers of this shape, at index k of the devices' axis from own[k]; a single generator draws all at once."""
    if len(own) == 1:
        return draw(own[0], shape, dtype=dtype)
    each = list(shape)
    del each[axis]
    parts = [draw(rng, tuple(each), dtype=dtype) for rng in own]
    return array_namespace(parts[0]).stack(parts, axis=axis)


def seed(rng: Generator) -> int:
    """A 63-bit seed for a library that brings its own generator."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    torch = _torch(rng)
    return int(torch.randint(2**63 - 1, (), generator=rng, device=rng.device, dtype=torch.int64))


def _torch(rng: Any) -> Any:
    """The module torch, which is loaded wherever a torch.Generator exists."""
    if type(rng).__module__.partition(".")[0] != "torch":
        raise ValueError(f"rng={rng!r} must be a numpy.random.Generator or a torch.Generator")
    import torch

    return torch
