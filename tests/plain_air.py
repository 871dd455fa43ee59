"""Scheme 1 in plain NumPy, device by device: a reference that shares no code with the simulator and the audit."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from airpool._support.arrays import Floats
from airpool.evaluation.audit.release import Observed, Release

_MARGIN = 1e-9  # how far inside C a clipped vector ends


def without(devices: Release, device: int) -> Release:
    """The same devices when one has vanished, and its noise with it: the `remove` neighbour."""
    keep = np.arange(devices.num_devices) != device
    return replace(
        devices,
        weight=devices.weight * keep,
        noise_std=devices.noise_std * keep,
        participation=devices.participation * keep,
    )


@np.errstate(all="ignore")
def clipped(latents: Floats, clip_norm: Floats) -> Floats:
    """Each latent (..., r), scaled down to just inside its clip norm where longer; 0 where not finite.

    >>> clipped(np.array([[3.0, 4.0], [0.3, 0.4], [np.nan, 1.0]]), np.array([1.0, 1.0, 1.0])).round(6)
    array([[0.6, 0.8], [0.3, 0.4], [0. , 0. ]])
    """
    guarded = np.where(np.isfinite(latents).all(axis=-1, keepdims=True), latents, 0.0)
    # Norms of unit-sized vectors: squares of very large or small entries would overflow or vanish.
    largest = np.abs(guarded).max(axis=-1, keepdims=True)
    unit = guarded / np.where(largest > 0, largest, 1.0)
    length = np.maximum(np.linalg.norm(unit, axis=-1, keepdims=True), 1.0)
    allowed = clip_norm[..., None] * (1 - _MARGIN) / length
    return np.where(largest <= allowed, guarded, unit * np.minimum(largest, allowed))


def received(
    devices: Release,
    features: Floats,
    runs: int,
    *,
    rngs: Sequence[np.random.Generator],
    receiver_rng: np.random.Generator | None = None,
) -> Observed:
    """`runs` independent inferences on the same features (K, r); each device has a generator of its own."""
    K = devices.num_devices
    if features.ndim != 2 or len(features) != K:
        raise ValueError(f"features has shape {features.shape}: it must be ({K}, r), one latent a device")
    if len(rngs) != K:
        raise ValueError(f"rngs has length {len(rngs)}: it must be {K}, one generator a device")
    signal = devices.weight[:, None] * clipped(features, devices.clip_norm)
    total = np.zeros((runs, features.shape[1]))
    tau = np.empty((runs, K), dtype=np.bool_)
    sent = np.empty((runs, len(devices.colluders), features.shape[1]))
    x = np.empty_like(total)
    for k, rng in enumerate(rngs):
        tau[:, k] = rng.random(runs) < devices.participation[k]
        rng.standard_normal(out=x)
        x *= devices.noise_std[k]
        if devices.cover_noise:
            x += tau[:, k, None] * signal[k]
        else:
            x += signal[k]
            x *= tau[:, k, None]
        total += x
        if k in devices.colluders:
            sent[:, devices.colluders.index(k)] = x
    if devices.receiver_noise_std > 0:
        if receiver_rng is None:
            raise ValueError("receiver_rng=None must be a generator where receiver_noise_std > 0")
        total += devices.receiver_noise_std * receiver_rng.standard_normal(total.shape)
    return Observed(total, None if devices.cover_noise else tau, sent if devices.colluders else None)


def simulated(devices: Release, features: Floats, runs: int, rng: np.random.Generator) -> Observed:
    """`received` with generators spawned from one; `partial(simulated, devices)` is a mechanism to audit.

    >>> from airpool.evaluation.audit.release import release
    >>> devices = release(2, clip_norm=1.0, noise_std=0.0)
    >>> simulated(devices, np.array([[0.5, 0.0], [0.0, 7.0]]), 1, np.random.default_rng(0)).total.round(6)
    array([[0.25, 0.5 ]])
    """
    *rngs, receiver_rng = rng.spawn(devices.num_devices + 1)
    return received(devices, features, runs, rngs=rngs, receiver_rng=receiver_rng)
