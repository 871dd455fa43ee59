"""The device: encode, guard and clip, take part or not, weight, add noise, scale to the power available.

    z = W f      z ← clip(z, C)      z̃ = τ w z + n      x = (α/p) z̃

One `taking_part` and one `transmit` for all devices, for NumPy and torch: in bulk (simulation.py) or alone (alone.py).
They differ in where coins and noise come from, a `Randomness`. Never raises on feature values: an exception would leak
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from airpool._support.arrays import Array, like, require_array
from airpool.network import Network, scheme_rules, scored
from airpool.protocol.maps import Map, apply
from airpool.protocol.randomness import Randomness
from airpool.radio.csi import Misalignment
from airpool.radio.link import Link
from airpool.radio.power import Transmission, Transmitters
from airpool.radio.power import transmit as control
from airpool.schemes.scores import bounded, score_range

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


@dataclass(frozen=True, eq=False)
class Senders:
    """Devices whose signals are made together: all of a network, (K,), or the one of index `only`, (1,)."""

    network: Network
    link: Link
    only: int | None = None

    def column(self, name: str) -> tuple[float, ...]:
        """A setting of each of them."""
        every = self.network.devices.column(name)
        return every if self.only is None else every[self.only : self.only + 1]

    @cached_property
    def transmitters(self) -> Transmitters:
        every = self.link.transmitters
        return every if self.only is None else every.alone(self.only)


def taking_part(
    senders: Senders,
    source: Randomness,
    gain: Array,
    *,
    scores: Array | None = None,
    num_classes: int | None = None,
    selected: bool | None = None,
) -> tuple[Array, Array | None]:
    """τ of each device, (n, t, K) as gains are, and the noisy scores that decided it, if any did.

    A coin (Scheme 1), the device's own noisy score ũ ≤ η (2.1), or the ranking server's answer to all ũ (2.2).
    scores: (n, K), raw, in bits. selected: decided before, for a device that runs alone: by the ranking server, or in
    an earlier slot.
    """
    network, xp, shape = senders.network, array_namespace(gain), tuple(gain.shape)
    rules = scheme_rules(network.scheme)
    if selected is not None:
        return xp.full_like(gain, bool(selected), dtype=xp.bool), None
    if not rules.scored:
        if all(p == 1 for p in network.devices.column("participation")):
            return xp.ones_like(gain, dtype=xp.bool), None
        return source.coins(np.array(senders.column("participation")), shape, dtype=gain.dtype), None
    scheme = scored(network.scheme)
    u = bounded(xp.astype(scores, gain.dtype), scheme, num_classes)
    if source.on_grid and not rules.ranked:
        # A coin of the score's probability, off by the rules' coin_bias at most: a grid would move it further.
        return source.coins(rules.participation(scheme, u)[:, None], shape, dtype=gain.dtype), None
    noisy_scores = noisy(u, scheme.score_noise_std, trials=shape[1], source=source, limit=score_range(scheme).high)
    return rules.chosen(scheme, noisy_scores), noisy_scores


def noisy(bounded_scores: Array, std: float, *, trials: int, source: Randomness, limit: float) -> Array:
    """ũ = u + v of n objects, `trials` times each: (n, K) → (n, t, K). Nothing is drawn where std is 0."""
    xp, (n, num_devices) = array_namespace(bounded_scores), bounded_scores.shape
    if std == 0:
        return xp.broadcast_to(bounded_scores[:, None], (n, trials, num_devices))
    each = (std,) * num_devices
    u = source.rounded(bounded_scores[..., None], each, (limit,) * num_devices)[:, None]
    return (u + source.noise(each, (n, trials, num_devices, 1), dtype=u.dtype))[..., 0]


@dataclass(frozen=True, eq=False)
class Outgoing:
    """Signals z̃ of each device, (n, t, K, coordinates), sent or not, and their power control, (n, t, K)."""

    noisy: Array
    sent: Transmission

    @property
    def samples(self) -> Array:
        """x = (α/p) z̃, all zeros where a device is silent."""
        return self.sent.scale[..., None] * self.noisy


def transmit(
    latents: Array,
    senders: Senders,
    source: Randomness,
    *,
    gain: Array,
    takes_part: Array,
    misalignment: Misalignment | None = None,
) -> Outgoing:
    """z̃ = τ w z + n and its power, from latents (n, K, r), gains and τ (n, t, K). Simulated and live devices.

    Takes the same steps whatever the feature is and whoever takes part: the time must not depend on them.
    """
    xp, r, std = array_namespace(latents), senders.network.coordinates, senders.column("noise_std")
    feature = source.rounded(weighted(latents, senders), std, senders.transmitters.feature_norm.tolist())
    noise = source.noise(std, (*gain.shape, r), dtype=feature.dtype)
    signal = xp.astype(takes_part, feature.dtype)[..., None] * padded(feature, r)[:, None] + noise
    norm = xp.sqrt(xp.vecdot(noise, noise)) if senders.network.channel.power_rule == "paper" else None
    sent = power(senders, gain, takes_part=takes_part, misalignment=misalignment, noise_norm=norm)
    return Outgoing(signal, sent)


def weighted(latents: Array, senders: Senders) -> Array:
    """w z of each device, (n, K, r), clipped."""
    z = clipped(latents, senders.column("clip_norm"))
    return like(senders.column("weight"), z)[:, None] * z


def padded(feature: Array, coordinates: int) -> Array:
    """The feature (..., r) with zeros up to `coordinates`; noise comes on top of them too."""
    xp, more = array_namespace(feature), coordinates - feature.shape[-1]
    return feature if more == 0 else xp.concat([feature, xp.zeros_like(feature[..., :more])], axis=-1)


def power(
    senders: Senders,
    gain: Array,
    *,
    takes_part: Array,
    misalignment: Misalignment | None = None,
    noise_norm: Array | None = None,
) -> Transmission:
    """The scale α/p of each device and the resulting alignment; under cover noise no device is silent by choice.

    noise_norm: ‖n‖, which the power rule `paper` depends on.
    """
    return control(
        senders.transmitters,
        gain,
        gamma=senders.link.gamma,
        rule=senders.network.channel.power_rule,
        taking_part=None if senders.network.cover_noise else takes_part,
        misalignment=misalignment,
        noise_norm=noise_norm,
    )
