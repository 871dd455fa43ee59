"""The medium: what the server receives of signals sent together (superposed) or one after the other (orthogonal).

    superposed: y = Σ_k h_k x_k + m      orthogonal: y_k = h_k x_k + m_k

Signals are real vectors of r coordinates, sent in r real channel uses; `noise_std` is the receiver's noise per real
coordinate. On a complex channel two coordinates share one symbol (`pack`): ⌈r/2⌉ uses, and complex noise of variance
2·noise_std², noise_std² in each component. Packing is linear: packed noise is the noise of packed signals.
"""

import math
from typing import Any

from array_api_compat import array_namespace

from airpool._support import draws
from airpool._support.arrays import Array, not_negative, require_shape
from airpool.network import Channel, Network
from airpool.radio.power import Misalignment, misalign


def misalignment(gain: Array, channel: Channel, rng: draws.Generator) -> Misalignment | None:
    """The devices' estimates of gains (n, t, K) and the resulting misalignment; None where gains are known exactly."""
    if channel.known:
        return None
    normals = draws.standard_normal(rng, (3, *gain.shape), dtype=gain.dtype)
    return misalign(gain, normals, csi_error_std=channel.csi_error_std, phase_error_std=channel.phase_error_std)


def receiver_noise(shape: tuple[int, ...], rng: draws.Generator, *, noise_std: float, dtype: Any = None) -> Array:
    """m ~ N(0, noise_std²) in each real coordinate, where the generator lives."""
    std = float(not_negative("noise_std", noise_std))
    return draws.standard_normal(rng, shape, dtype=dtype) * std if std else draws.zeros(rng, shape, dtype=dtype)


def received(
    signals: Array,
    network: Network,
    *,
    gain: Array,
    off: Misalignment | None,
    rng: draws.Generator,
    transmitting: Array,
) -> Array:
    """y (..., r) of signals x (..., K, coordinates), without their padding; the receiver's noise comes from `rng`.

    Under orthogonal access, the sum that the server makes of the y_k of all that are transmitting, (..., K).
    """
    xp, channel, shape = array_namespace(signals), network.channel, tuple(signals.shape)
    alone = channel.rules.separate
    noise_shape = shape if alone else (*shape[:-2], shape[-1])
    noise = receiver_noise(noise_shape, rng, noise_std=channel.noise_std, dtype=signals.dtype)
    coefficient = gain
    if off is not None:  # a symbol reaches the server with ρ·ĥ, of modulus h
        coefficient = off.estimate * (off.in_phase + 1j * off.quadrature)
        signals, noise = pack(signals), pack(noise)
    if alone:
        each = separate(signals, coefficient, noise)
        y = xp.sum(xp.where(transmitting[..., None], each, xp.zeros_like(each)), axis=-2)
    else:
        y = superpose(signals, coefficient, noise)
    return (y if off is None else unpack(y, shape[-1]))[..., : network.dimension]


def superpose(signals: Array, gain: Array, noise: Array | None = None) -> Array:
    """y = Σ_k h_k x_k + m: all devices together; the receiver's noise is added once, to the sum.

    signals (..., K, r), gain (..., K), noise (..., r) → (..., r). Gains may be complex if packed signals are.

    >>> import numpy as np
    >>> superpose(np.array([[1.0, 2.0], [10.0, 20.0]]), np.array([1.0, 0.5]))
    array([ 6., 12.])
    """
    xp = array_namespace(signals, gain)
    *batch, num_devices, dimension = _signal_shape(signals)
    require_shape("gain", gain, (*batch, num_devices))
    total = xp.matmul(gain[..., None, :], signals)[..., 0, :]
    return total if noise is None else total + require_shape("noise", noise, (*batch, dimension))


def separate(signals: Array, gain: Array, noise: Array | None = None) -> Array:
    """y_k = h_k x_k + m_k: each device separately (orthogonal access): own receiver noise, K times the channel uses.

    signals (..., K, r), gain (..., K), noise (..., K, r) → (..., K, r).
    """
    *batch, num_devices, _ = _signal_shape(signals)
    require_shape("gain", gain, (*batch, num_devices))
    each = gain[..., None] * signals
    return each if noise is None else each + require_shape("noise", noise, tuple(signals.shape))


def pack(reals: Array) -> Array:
    """Two real coordinates in each complex symbol: (..., r) → (..., ⌈r/2⌉). An odd last one is paired with 0.

    >>> import numpy as np
    >>> pack(np.array([1.0, 2.0, 3.0]))
    array([1.+2.j, 3.+0.j])
    """
    xp = array_namespace(reals)
    if reals.shape[-1] % 2:
        reals = xp.concat([reals, xp.zeros_like(reals[..., :1])], axis=-1)
    return reals[..., 0::2] + 1j * reals[..., 1::2]


def unpack(symbols: Array, dimension: int) -> Array:
    """The inverse of `pack`: (..., ⌈r/2⌉) → (..., r)."""
    xp = array_namespace(symbols)
    if symbols.shape[-1] != channel_uses(dimension):
        raise ValueError(f"dimension={dimension} must be the number of reals in {symbols.shape[-1]} symbols")
    both = xp.stack([xp.real(symbols), xp.imag(symbols)], axis=-1)
    return xp.reshape(both, (*symbols.shape[:-1], -1))[..., :dimension]


def turned(reals: Array) -> Array:
    """j·s of packed symbols s, as reals (..., r): what Im ρ adds to every coordinate from the other one of its symbol.

    >>> import numpy as np
    >>> turned(np.array([1.0, 2.0, 3.0]))
    array([-2.,  1.,  0.])
    """
    return unpack(1j * pack(reals), reals.shape[-1])


def channel_uses(dimension: int, *, num_devices: int = 1) -> int:
    """Channel uses of one inference; `num_devices` times as many under orthogonal access.

    >>> channel_uses(7), channel_uses(7, num_devices=12)
    (4, 48)
    """
    if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
        raise ValueError(f"dimension={dimension!r} must be a whole number >= 1")
    return num_devices * math.ceil(dimension / 2)


def _signal_shape(signals: Array) -> tuple[int, ...]:
    if signals.ndim < 2:
        raise ValueError(f"signals has shape {tuple(signals.shape)}, must be (..., devices, coordinates)")
    return tuple(signals.shape)
