"""A server with several antennas: one public receive beam, chosen from the channels to lift the weakest device.

    maximise min_k |wᴴh_k|,  ‖w‖ = 1,      h_k = μ·(phases) + CN(0, v·I)

The gain of device k is |wᴴh_k|, the same for all that devices do; gains of one inference depend on each other.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from airpool.arrays import Array, Floats
from airpool.draws import Generator, standard_normal

# Steps of the search; each turns the beam a little towards the device that is weakest.
_STEPS, _TURN = 40, 0.6
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
    single = xp.min(xp.abs(h), axis=-2)
    best = xp.astype(single == xp.max(single, axis=-1, keepdims=True), h.dtype)
    best = best / _norm(best)
    reached, w = xp.min(received(best, h, modulus=True), axis=-1, keepdims=True), best
    for step in range(_STEPS):
        c = received(w, h)
        size = xp.abs(c)
        weakest = xp.astype(size == xp.min(size, axis=-1, keepdims=True), h.dtype)
        towards = xp.sum((weakest * xp.conj(c) / (size + 1e-30))[..., None] * h, axis=-2)
        w = w + _TURN / (1 + step / 4) * towards / (_norm(towards) + 1e-30)
        w = w / _norm(w)
        least = xp.min(received(w, h, modulus=True), axis=-1, keepdims=True)
        best = xp.where(least > reached, w, best)
        reached = xp.maximum(least, reached)
    return best


def received(w: Array, h: Array, *, modulus: bool = False) -> Array:
    """wᴴh of every device, (..., K), or its modulus."""
    xp = array_namespace(h)
    c = xp.sum(xp.conj(w)[..., None, :] * h, axis=-1)
    return xp.abs(c) if modulus else c


def _norm(w: Array) -> Array:
    xp = array_namespace(w)
    return xp.sqrt(xp.sum(xp.abs(w) ** 2, axis=-1, keepdims=True))


@lru_cache(maxsize=32)
def reference(mean: float, variance: float, antennas: int, num_devices: int) -> Floats:
    """Equally likely values of one device's gain, sorted."""
    rng = np.random.default_rng(_SEED)
    h = channels(mean, variance, (_DRAWS, num_devices), antennas, rng)
    gain = np.sort(received(beam(h), h, modulus=True), axis=None)
    return gain[(np.arange(_QUANTILES) * (gain.size / _QUANTILES) + gain.size / _QUANTILES / 2).astype(np.int64)]
