"""Device, medium and server together, in bulk: latents in, the server's estimate of their noisy sum out.

    ẑ = Σ_k g_k (τ_k w_k z_k + n_k) + m/γ

The full path calls device.py, medium.py and server.py. The fast path (`_fast`), the default, is a shortcut with the
same law, which a test proves: it draws the noise of the sum at once. Where power control depends on the noise there is
none, and all goes by the full path. For NumPy and torch, CPU and CUDA. Needs no SciPy where the link is
given. Noise comes from the generator that is passed in, and gives no privacy: a real device uses live.py.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Literal

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from airpool._support import draws
from airpool._support.arrays import Array, like, require_array
from airpool._support.brief import Brief
from airpool.network import Network, require_network, require_one_slot
from airpool.protocol import device, medium, server
from airpool.protocol.device import Seeded
from airpool.radio.fading import sample_gains
from airpool.radio.link import Link, link_of
from airpool.radio.power import Misalignment, Transmission
from airpool.schemes.scores import check_scores

Path = Literal["fast", "full"]


@dataclass(frozen=True, eq=False, repr=False)
class Received(Brief):
    """Reception of n objects in t trials, with what only a simulator knows.

    estimate: ẑ, (n, t, r). All else has shape (n, t, K): who took part (secret under cover noise), the gain h, what
    was transmitted, and the noisy scores (secret in Scheme 2.1, known to the ranking server in 2.2).
    squares: computes ‖z̃‖² of each device on demand; on the fast path its mean over the noise.
    signals: z̃ of each device, (n, t, K, coordinates), noise included; on the full path alone.
    """

    estimate: Array
    sent: Transmission
    squares: Callable[[], Array]
    drawn: "Drawn"
    signals: Array | None = None

    @property
    def taking_part(self) -> Array:
        return self.drawn.takes_part

    @property
    def gain(self) -> Array:
        return self.drawn.gain

    @property
    def noisy_scores(self) -> Array | None:
        return self.drawn.noisy_scores

    @property
    def alignment(self) -> Array:
        """g of each device, 0 where silent."""
        return self.sent.alignment

    @property
    def any_signal(self) -> Array:
        """Whether any device transmitted, (n, t)."""
        return array_namespace(self.alignment).any(self.alignment != 0, axis=-1)

    @property
    def scale(self) -> Array:
        """α/p of each device: it sent scale·z̃."""
        return self.sent.scale

    @property
    def power(self) -> Array:
        """‖x‖² of each device in mW, 0 where silent."""
        return self.scale**2 * self.squares()

    @property
    def energy(self) -> Array:
        """Σ_k ‖x_k‖² of each inference, in mW · channel uses."""
        return array_namespace(self.gain).sum(self.power, axis=-1)


@dataclass(frozen=True, eq=False, repr=False)
class Drawn(Brief):
    """A draw of coins, scores and channel, (n, t, K): all that is random about a transmission but its noise."""

    gain: Array
    off: Misalignment | None
    takes_part: Array
    noisy_scores: Array | None

    def of(self, rows: Array) -> "Drawn":
        """The draw of some of the n·t inferences, one trial each."""

        def some(values: Array) -> Array:
            return values.reshape((-1, 1, values.shape[-1]))[rows]

        off = self.off and Misalignment(*(some(getattr(self.off, each.name)) for each in fields(Misalignment)))
        scores = None if self.noisy_scores is None else some(self.noisy_scores)
        return Drawn(some(self.gain), off, some(self.takes_part), scores)


@np.errstate(all="ignore")
def receive(
    latents: Array,
    network: Network,
    *,
    rng: draws.Generator,
    trials: int = 1,
    path: Path = "fast",
    scores: Array | None = None,
    num_classes: int | None = None,
    only_best: bool = False,
    link: Link | None = None,
    drawn: Drawn | None = None,
) -> Received:
    """The server's estimates of latents (n, K, r), `trials` independent transmissions each.

    path: "full" goes through every device; "fast" draws the sum's noise at once, where `has_shortcut` says so.
    scores: (n, K), raw uncertainty in bits, for Schemes 2.1 and 2.2 only; bounded here, as accounted for.
    num_classes: of the posteriors behind the scores; the rule `scale` needs it.
    only_best: only the device with the strongest channel transmits; in Scheme 2.2, of those selected.
    drawn: that of an earlier slot, which then serves this one too.
    Differs from the paper: in 2.1 and 2.2 nothing is divided by p_k, which depends on the score and would leak it.
    """
    check_latents(latents, network)
    require_one_slot(network, "a simulated transmission is one slot")
    _check_generator(rng, latents)
    check_scores(scores, network.scheme, example=latents)
    if trials < 1:
        raise ValueError(f"trials={trials} must be >= 1")
    if path not in ("fast", "full"):
        raise ValueError(f"path={path!r} must be fast or full")
    link = link_of(network) if link is None else link
    path = path if has_shortcut(network) else "full"
    if array_namespace(latents).finfo(latents.dtype).bits < 32:
        latents = array_namespace(latents).astype(latents, array_namespace(latents).float32)
    _check_squares(link, latents)
    senders, shape = device.Senders(network, link), (int(latents.shape[0]), trials, int(latents.shape[1]))
    # The full path has a generator for the air and one for each device; the fast path needs no more than one.
    air, *own = [rng, rng] if path == "fast" else draws.spawn(rng, shape[-1] + 1)
    source = Seeded(own)
    if drawn is None:
        gain = sample_gains(link.fading, shape, air, dtype=latents.dtype)
        off = medium.misalignment(gain, network.channel, air)
        takes_part, noisy_scores = device.taking_part(senders, source, gain, scores=scores, num_classes=num_classes)
        if only_best:
            takes_part = takes_part & _strongest(gain, takes_part, network)
        drawn = Drawn(gain, off, takes_part, noisy_scores)
    gain, off, takes_part = drawn.gain, drawn.off, drawn.takes_part
    if path == "fast":
        estimate, sent, squares = _fast(latents, senders, rng, gain=gain, off=off, takes_part=takes_part)
        return Received(estimate, sent, squares, drawn)
    out = device.transmit(latents, senders, source, gain=gain, takes_part=takes_part, misalignment=off)
    y = medium.received(out.samples, network, gain=gain, off=off, rng=air, transmitting=out.sent.alignment != 0)
    squares = partial(array_namespace(latents).vecdot, out.noisy, out.noisy)
    estimate = server.estimate(y, link.gamma)
    return Received(estimate, out.sent, squares, drawn, out.noisy)


def has_shortcut(network: Network) -> bool:
    """Whether the noise of the sum may be drawn at once: no power rule depends on it."""
    return network.channel.power_rule != "paper"


def _fast(
    latents: Array,
    senders: device.Senders,
    rng: draws.Generator,
    *,
    gain: Array,
    off: Misalignment | None,
    takes_part: Array,
) -> tuple[Array, Transmission, Callable[[], Array]]:
    """ẑ, power control and ‖z̃‖² in one step: all noise as one Gaussian, exact since no alignment depends on it."""
    xp, network, gamma = array_namespace(latents), senders.network, senders.link.gamma
    feature, std = device.weighted(latents, senders), like(senders.column("noise_std"), latents)
    sent = device.power(senders, gain, takes_part=takes_part, misalignment=off)
    g, mixing = sent.alignment, sent.quadrature
    noise_gain = g**2 if mixing is None else g**2 + mixing**2
    variance = xp.matmul(noise_gain, (std * std)[:, None])
    receivers = 1.0
    if network.channel.rules.separate:
        receivers = xp.sum(xp.astype(g != 0, g.dtype), axis=-1, keepdims=True)
    variance = variance + receivers * (network.channel.noise_std / gamma) ** 2
    cover = network.cover_noise
    active = xp.astype(takes_part, g.dtype) if cover else 1.0
    estimate = xp.matmul(g * active if cover else g, feature)
    if mixing is not None:
        estimate = estimate + xp.matmul(mixing * active if cover else mixing, medium.turned(feature))
    noise = draws.standard_normal(rng, tuple(estimate.shape), dtype=g.dtype)
    noise *= xp.sqrt(variance)
    estimate += noise
    return estimate, sent, partial(_mean_squares, feature, active, float(network.coordinates) * std * std)


def _mean_squares(feature: Array, active: Array | float, noise: Array) -> Array:
    """E‖z̃‖² over the noise, (n, t, K)."""
    return active * array_namespace(feature).vecdot(feature, feature)[:, None, :] + noise


def _strongest(gain: Array, takes_part: Array, network: Network) -> Array:
    """Mask of the device with the strongest channel, (n, t, K); in Scheme 2.2, of those selected."""
    able = array_namespace(gain).where(takes_part, gain, gain * 0 - 1) if network.scheme.needs_ranking_server else gain
    best = array_namespace(gain).argmax(able, axis=-1)[..., None]
    return best == like(np.arange(gain.shape[-1]), gain)


def in_batches(latents: Array, *, trials: int, batch: int = 2**18) -> Iterator[tuple[slice, int]]:
    """Slices of objects and numbers of trials that keep memory flat: at most `batch` inferences at a time.

    As many trials of as few objects as fit: what is done once for each object (clipping) then costs little.
    """
    objects = int(latents.shape[0])
    per_step = max(1, min(objects, batch // trials))
    for start in range(0, objects, per_step):
        rows = slice(start, min(start + per_step, objects))
        each = max(1, batch // (rows.stop - rows.start))
        for done in range(0, trials, each):
            yield rows, min(each, trials - done)


def check_latents(latents: Array, network: Network) -> None:
    """Checks library, type and shape, never the values of latents: an exception would leak them."""
    require_network(network)
    require_array("latents", latents)
    shape = tuple(latents.shape)
    wanted = (network.devices.count, network.dimension)
    if len(shape) != 3 or shape[1:] != wanted:
        raise ValueError(f"latents has shape {shape}, must be (objects, {wanted[0]} devices, {wanted[1]} coordinates)")
    if shape[0] == 0:
        raise ValueError("latents has no objects, must have at least one")
    if not array_namespace(latents).isdtype(latents.dtype, "real floating"):
        raise ValueError(f"latents has type {latents.dtype}, must be real floating numbers")


def _check_generator(rng: draws.Generator, latents: Array) -> None:
    home = draws.ones(rng, (0,))
    if array_namespace(home) is not array_namespace(latents) or device_of(home) != device_of(latents):
        where = (
            "numpy.random.Generator" if isinstance(latents, np.ndarray) else f"torch.Generator({device_of(latents)})"
        )
        raise ValueError(f"rng of type {type(rng).__name__} must be a {where}, as latents are")


def _check_squares(link: Link, z: Array) -> None:
    """Raises unless the powers of signal and noise fit the latents' type: an underflow would remove the noise."""
    xp, sent = array_namespace(z), link.transmitters
    largest = float(max(sent.feature_norm.max(), sent.noise_std.max()))
    kind = xp.finfo(z.dtype)
    for value in (largest, link.gamma):
        if value > 0 and not float(kind.smallest_normal) < value**2 < float(kind.max) / (sent.dimension + 1e3) ** 2:
            raise ValueError(
                f"signals of size {largest:.3g} at gamma={link.gamma:.3g}: their squares do not fit {z.dtype}; "
                "give float64 latents, or scale weight and noise_std together"
            )
