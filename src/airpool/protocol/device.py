"""The device: encode, guard and clip, take part or not, weight, add noise, scale to the power available.

    z = W f      z ← clip(z, C)      z̃ = τ w z + n      x = (α/p) z̃

Simulator and live device call the same functions, for NumPy and torch. They differ in where randomness comes from:
simulation.py passes in generators and draws n itself, live.py takes noise and coins from the operating system.
Never raises on feature values: an exception would leak them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from airpool._support import draws
from airpool._support.arrays import Array, like, require_array
from airpool.network import Network, scheme_rules, scored
from airpool.protocol.maps import Map, apply
from airpool.radio.csi import Misalignment
from airpool.radio.link import Link
from airpool.radio.power import Transmission, transmit
from airpool.schemes.scores import bounded

# How far inside C a clipped vector ends, in units of the floating-point resolution: a few roundings, plus those of a
# sum of r squares in any order.
_MARGIN, _MARGIN_PER_COORDINATE = 8.0, 0.25


def encode(features: Array, encoder: Map | Sequence[Map] | None) -> Array:
    """z = W f of every device: (n, K, d) → (n, K, r). A sequence gives every device its own encoder."""
    require_array("features", features)
    if features.ndim != 3:
        raise ValueError(f"features has shape {np.shape(features)}, must be (objects, devices, coordinates)")
    if encoder is None:
        return features
    if isinstance(encoder, list | tuple):
        if len(encoder) != features.shape[1]:
            raise ValueError(f"encoder has {len(encoder)} entries for {features.shape[1]} devices")
        each = [apply(one, features[:, k, :], name=f"encoder[{k}]") for k, one in enumerate(encoder)]
        return array_namespace(features).stack(each, axis=1)
    return apply(encoder, features, name="encoder")  # pyright: ignore[reportArgumentType]


@np.errstate(all="ignore")
def clipped(latents: Array, clip_norm: Any) -> Array:
    """Every latent (..., K, r) scaled to just inside its clip norm where it is longer, and 0 where it is not finite.

    Takes the same steps whatever the values are. Half precision cannot keep the norm: it becomes single precision.

    >>> clipped(np.array([[[3.0, 4.0], [np.nan, 1.0]]]), [1.0, 1.0]).round(6)
    array([[[0.6, 0.8],
            [0. , 0. ]]])
    """
    xp = array_namespace(latents)
    if xp.finfo(latents.dtype).bits < 32:
        latents = xp.astype(latents, xp.float32)
    margin = (_MARGIN + _MARGIN_PER_COORDINATE * latents.shape[-1]) * float(xp.finfo(latents.dtype).eps)
    if margin > 0.5:
        raise ValueError(f"latents has {latents.shape[-1]} coordinates of {latents.dtype}: too many; use float64")
    limit = like(clip_norm, latents)[..., None] * (1 - margin)
    # The largest entry is not finite where any is not.
    finite = xp.isfinite(xp.max(xp.abs(latents), axis=-1, keepdims=True))
    z = xp.where(finite, latents, xp.zeros_like(latents))
    # In units of the limit, or of the largest entry beyond it: no square overflows, and none that matters vanishes.
    unit = xp.maximum(xp.max(xp.abs(z), axis=-1, keepdims=True), limit)
    unit = xp.where(unit > 0, unit, xp.ones_like(unit))
    scaled = z / unit
    square = xp.vecdot(scaled, scaled)[..., None]
    longer = square > (limit / unit) ** 2
    # No root is taken where the latent is short: its gradient is infinite at 0, which training may reach.
    norm = xp.sqrt(xp.where(longer, square, xp.ones_like(square)))
    return xp.where(longer, scaled * (limit / norm), z)


def taking_part(
    network: Network,
    shape: tuple[int, ...],
    own: Sequence[draws.Generator],
    *,
    dtype: Any,
    scores: Array | None = None,
    num_classes: int | None = None,
) -> tuple[Array, Array | None]:
    """τ of each device, (n, t, K), and the noisy scores that decided it, if any did.

    A coin (Scheme 1), the device's own noisy score ũ ≤ η (2.1), or the ranking server's answer to all ũ (2.2).
    A live device decides in live._takes_part, by the same rules.
    own: a generator for each device, or a single one for all.
    """
    rules = scheme_rules(network.scheme)
    if not rules.scored or scores is None:
        p = np.array(network.devices.column("participation"))
        if np.all(p == 1):
            return draws.ones(own[0], shape, dtype=dtype) > 0, None
        uniform = draws.by_device(draws.uniform, own, shape, dtype=dtype)
        return uniform < (float(p[0]) if np.all(p == p[0]) else like(p, uniform)), None
    scheme = scored(network.scheme)
    u = bounded(array_namespace(scores).astype(scores, dtype), scheme, num_classes)
    noisy_scores = noisy(u, scheme.score_noise_std, trials=shape[1], own=own)
    return rules.chosen(scheme, noisy_scores), noisy_scores


def noisy(bounded_scores: Array, std: float, *, trials: int, own: Sequence[draws.Generator]) -> Array:
    """ũ = u + v of n objects, `trials` times each: (n, K) → (n, t, K)."""
    u = bounded_scores[:, None, :]
    shape = (u.shape[0], trials, u.shape[2])
    if std == 0:
        return u + draws.zeros(own[0], shape, dtype=u.dtype)
    return u + std * draws.by_device(draws.standard_normal, own, shape, dtype=u.dtype)


def padded(feature: Array, coordinates: int) -> Array:
    """The feature (..., r) with zeros up to `coordinates`; noise comes on top of them too."""
    xp, more = array_namespace(feature), coordinates - feature.shape[-1]
    return feature if more == 0 else xp.concat([feature, xp.zeros_like(feature[..., :more])], axis=-1)


def signal(feature: Array, noise: Array, takes_part: Array) -> Array:
    """z̃ = τ w z + n, (..., r), from w z and n."""
    return takes_part * feature + noise


def power(
    network: Network,
    link: Link,
    gain: Array,
    *,
    takes_part: Array,
    misalignment: Misalignment | None = None,
    noise_norm: Array | None = None,
    signal_norm: Array | None = None,
) -> Transmission:
    """The scale α/p of each device and the alignment that results; under cover noise nobody is silent by choice.

    noise_norm, signal_norm: ‖n‖ and ‖z̃‖, which the power rules `paper` and `exact` depend on.
    """
    return transmit(
        link.transmitters,
        gain,
        gamma=link.gamma,
        rule=network.channel.power_rule,
        taking_part=None if network.cover_noise else takes_part,
        misalignment=misalignment,
        noise_norm=noise_norm,
        signal_norm=signal_norm,
    )
