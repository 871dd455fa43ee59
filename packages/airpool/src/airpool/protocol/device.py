"""The device: encode, guard and clip, take part or not, weight, add noise, scale to the power available.

    z = W f      z ← clip(z, C)      z̃ = τ w z + n      x = (α/p) z̃

One `taking_part` and one `transmit` for all devices, for NumPy and torch: in bulk (simulation.py) or alone (alone.py).
They differ in where coins and noise come from, a `Randomness`. Never raises on feature values: an exception would leak
them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from airpool._support import draws
from airpool._support.arrays import Array, like, require, require_array
from airpool.account.report import PrivacyReport
from airpool.network import Claim, Network, scored
from airpool.radio.link import Link
from airpool.radio.power import Misalignment, Transmission, Transmitters
from airpool.radio.power import transmit as control


class Randomness(Protocol):
    """Coins and noise of K devices. The devices' axis is the last of coins, and the last but one of values and noise.

    on_grid: noise is a discrete Gaussian, and values are rounded before it is added.
    """

    @property
    def on_grid(self) -> bool: ...

    def report(self, network: Network, claim: Claim) -> PrivacyReport | None:
        """The guarantee that this noise gives; None: none. Raises an error where the network must not transmit."""
        ...

    def coins(self, probability: Array, shape: tuple[int, ...], *, dtype: Any) -> Array:
        """Independent draws of bool, (n, t, K), true with this probability, which broadcasts to the shape."""
        ...

    def rounded(self, values: Array, std: Sequence[float], limit: Sequence[float]) -> Array:
        """Values (..., K, r) to which noise of these standard deviations may be added. limit: their largest norms."""
        ...

    def noise(self, std: Sequence[float], shape: tuple[int, ...], *, dtype: Any) -> Array:
        """Independent noise (..., K, r) of standard deviation std[k]."""
        ...


@dataclass(frozen=True)
class Seeded:
    """Generators of a simulation: one for each device, or a single one for all. Gives no privacy."""

    own: Sequence[draws.Generator]
    on_grid = False

    def report(self, network: Network, claim: Claim) -> None:
        return None

    def coins(self, probability: Array, shape: tuple[int, ...], *, dtype: Any) -> Array:
        uniform, p = draws.by_device(draws.uniform, self.own, shape, dtype=dtype), np.ravel(probability)
        return uniform < (float(p[0]) if np.all(p == p[0]) else like(probability, uniform))

    def rounded(self, values: Array, std: Sequence[float], limit: Sequence[float]) -> Array:
        return values

    def noise(self, std: Sequence[float], shape: tuple[int, ...], *, dtype: Any) -> Array:
        normals = draws.by_device(draws.standard_normal, self.own, shape, axis=-2, dtype=dtype)
        return like(std, normals)[:, None] * normals


Map = Callable[[Array], Array] | Array  # a function, a torch module, or a matrix that multiplies from the left


def apply(function: Map, x: Array, *, name: str = "function") -> Array:
    """f(x) along the last axis; a matrix (out, in) multiplies from the left."""
    if callable(function):
        return function(x)
    if not any(is_one(function) and is_one(x) for is_one in (is_numpy_array, is_torch_array)):
        library = "torch" if is_torch_array(x) else "NumPy"
        wanted = f"a function, a torch module or a {library} matrix"
        raise TypeError(f"{name} is of type {type(function).__name__}, must be {wanted}")
    if function.ndim != 2 or function.shape[1] != x.shape[-1]:
        raise ValueError(f"{name} has shape {tuple(function.shape)}, must be a matrix (*, {x.shape[-1]})")
    xp = array_namespace(x)
    # Parameters are checked; features never are.
    require(name, function, "must be finite", ok=xp.isfinite)
    if is_torch_array(x) and (function.dtype != x.dtype or function.device != x.device):
        raise ValueError(f"{name} is {function.dtype} on {function.device}, must be {x.dtype} on {x.device}, as x is")
    # Features that are too large or not finite are guarded by the clip: a warning would leak them.
    with np.errstate(all="ignore"):
        return xp.matmul(x, function.T)


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
    if selected is not None:
        return xp.full_like(gain, bool(selected), dtype=xp.bool), None
    if network.scheme.independent:
        if all(p == 1 for p in network.devices.column("participation")):
            return xp.ones_like(gain, dtype=xp.bool), None
        return source.coins(np.array(senders.column("participation")), shape, dtype=gain.dtype), None
    scheme = scored(network.scheme)
    u = scheme.bounded(xp.astype(scores, gain.dtype), num_classes)
    if source.on_grid and not scheme.needs_ranking_server:
        # A coin of the score's probability, off by the scheme's coin_bias at most: a grid would move it further.
        return source.coins(scheme.participation_by_score(u)[:, None], shape, dtype=gain.dtype), None
    noisy_scores = noisy(u, scheme.score_noise_std, trials=shape[1], source=source, limit=scheme.score_range().high)
    return scheme.select(noisy_scores), noisy_scores


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
