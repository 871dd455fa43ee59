"""A server with several antennas: one public receive beam, chosen from the channels to lift the weakest device.

    maximise min_k |wᴴh_k|,  ‖w‖ = 1,      h_k = μ·(phases) + CN(0, v·I)

The gain of device k is |wᴴh_k|, the same for all that devices do; gains of one inference depend on each other.
"""

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as _device
from numpy.typing import NDArray

from airpool._support.arrays import Array, Floats
from airpool._support.draws import Generator, standard_normal

# Steps of the search; each turns the beam a little towards the device that is weakest.
_STEPS, _TURN = 40, 0.6
# Numbers that are worked on at a time.
_CACHED = 2**16
# Draws behind the law of a gain, and the quantiles that it is given by.
_DRAWS, _QUANTILES, _SEED = 2**13, 2**13, 20_191


def channels(
    mean: float, variance: float, shape: tuple[int, ...], antennas: int, rng: Generator, *, dtype: Any = None
) -> Array:
    """Complex channels (*shape, M): every antenna sees the direct path, of amplitude `mean`, in a phase of its own."""
    normals = standard_normal(rng, (4, *shape, antennas), dtype=dtype)
    xp = array_namespace(normals)
    direct = normals[2, ...] + 1j * normals[3, ...]
    scattered = (normals[0, ...] + 1j * normals[1, ...]) * float(variance / 2) ** 0.5
    return scattered + mean * direct / xp.abs(direct)


def beam(h: Array) -> Array:
    """w (..., M), of norm 1, for channels h (..., K, M): the best of a fixed number of steps.

    Never worse for the weakest device than the best single antenna.
    """
    xp = array_namespace(h)
    *outer, count, antennas = h.shape
    flat = xp.reshape(h, (-1, count, antennas))
    # Draws are processed in blocks that fit a processor's cache; other devices take all at once.
    size = max(_CACHED // (count * antennas), 1) if isinstance(h, np.ndarray) else max(flat.shape[0], 1)
    blocks = [_search(flat[i : i + size, ...]) for i in range(0, flat.shape[0], size)]
    return xp.reshape(xp.concat(blocks, axis=0) if blocks else flat[:, 0, :], (*outer, antennas))


def drawn(
    mean: float, variance: float, shape: tuple[int, int], antennas: int, rng: np.random.Generator
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """`channels` and their `beam`. Beams are kept: a generator in the same state draws the same channels again."""
    key = (mean, variance, shape, antennas, str(rng.bit_generator.state))
    h = channels(mean, variance, shape, antennas, rng)
    if (w := _beams.get(key)) is None:
        w = beam(h)
        if sum(each.size for each in tuple(_beams.values())) + w.size > _KEPT:
            _beams.clear()
        _beams[key] = w
    return h, w


# By how their channels were drawn, and how many numbers are kept: 64 MiB.
_beams: dict[Hashable, NDArray[np.complex128]] = {}
_KEPT = 2**22


def _search(h: Array) -> Array:
    """The beams of channels (n, K, M). In here draws come last, and real and imaginary parts are apart: far faster."""
    xp = array_namespace(h)
    number, count, antennas = h.shape
    across = xp.permute_dims(h, (2, 1, 0))
    # Through one axis, so that draws lie beside each other in memory too.
    parts = xp.reshape(xp.stack([xp.real(across), xp.imag(across)]), (-1,))
    parts = xp.reshape(parts, (2 * antennas, count, number))
    turned = xp.concat([parts[antennas:, ...], -parts[:antennas, ...]], axis=0)  # of −i·h
    draws = xp.arange(number, device=_device(h))
    single = xp.min(parts[:antennas, ...] ** 2 + parts[antennas:, ...] ** 2, axis=1)
    first = xp.astype(single == xp.max(single, axis=0, keepdims=True), parts.dtype)
    best = w = _unit(xp.concat([first, xp.zeros_like(first)], axis=0))
    reached = None
    for step in range(_STEPS + 1):
        # wᴴh of every device, (K, n)
        real, imag = xp.einsum("mkn,mn->kn", parts, w), xp.einsum("mkn,mn->kn", turned, w)
        power = real**2 + imag**2
        least = xp.min(power, axis=0)
        best = w if reached is None else xp.where(least > reached, w, best)
        reached = least if reached is None else xp.maximum(least, reached)
        if step < _STEPS:
            at = xp.argmin(power, axis=0) * number + draws
            x, y = (xp.take(xp.reshape(each, (-1,)), at, axis=0) for each in (real, imag))
            of = [xp.take(xp.reshape(parts[m, ...], (-1,)), at, axis=0) for m in range(2 * antennas)]
            # conj(wᴴh)·h of the weakest device
            towards = [x * a + y * b for a, b in zip(of[:antennas], of[antennas:], strict=True)]
            towards += [x * b - y * a for a, b in zip(of[:antennas], of[antennas:], strict=True)]
            w = _unit(w + _TURN / (1 + step / 4) * _unit(xp.stack(towards)))
    return xp.permute_dims(best[:antennas, ...] + 1j * best[antennas:, ...], (1, 0))


def _unit(w: Array) -> Array:
    """Vectors scaled to length 1 along the first axis; 0 stays 0."""
    xp = array_namespace(w)
    return w / (xp.sqrt(xp.sum(w**2, axis=0)) + 1e-30)


def received(w: Array, h: Array, *, modulus: bool = False) -> Array:
    """wᴴh of every device, (..., K), or its modulus."""
    xp = array_namespace(h)
    c = xp.sum(xp.conj(w)[..., None, :] * h, axis=-1)
    return xp.abs(c) if modulus else c


@lru_cache(maxsize=32)
def reference(mean: float, variance: float, antennas: int, num_devices: int) -> Floats:
    """Equally likely values of one device's gain, sorted."""
    rng = np.random.default_rng(_SEED)
    h = channels(mean, variance, (_DRAWS, num_devices), antennas, rng)
    gain = np.sort(received(beam(h), h, modulus=True), axis=None)
    return gain[(np.arange(_QUANTILES) * (gain.size / _QUANTILES) + gain.size / _QUANTILES / 2).astype(np.int64)]
