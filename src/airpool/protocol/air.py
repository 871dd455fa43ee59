"""Latents over the air: clipped, weighted, noised, sent, added up by the channel, and scaled back by the server.

    ẑ = Σ_k τ_k g_k (w_k z_k + n_k) + m/γ

Who takes part, τ, is a coin (Scheme 1), an own noisy score (2.1), or the word of a ranking server (2.2).

Written once for NumPy and torch, CPU and CUDA, for any number of objects, devices, coordinates and trials. Needs no
SciPy: it also runs in training, wherever torch does. A simulation: the noise comes from the generator passed in.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from airpool import draws
from airpool.arrays import Array, like, require_array
from airpool.network import Network, Ranking, Threshold, require_network
from airpool.protocol.link import Radio, radio
from airpool.selection import ranking, threshold
from airpool.selection.scores import bounded, check_scores, noisy
from airpool.wireless.csi import Misalignment, misalign
from airpool.wireless.fading import sample_gains
from airpool.wireless.power import Transmission, transmit

Path = Literal["fast", "full"]

# How far inside C a clipped vector ends, in the resolution of its numbers: a few roundings, and those of a sum of r
# squares in any order.
_HAIR, _HAIR_PER_COORDINATE = 8.0, 0.25


@dataclass(frozen=True, eq=False)
class Received:
    """What the air delivers, for n objects and t trials, and what a simulator alone may look at.

    estimate: ẑ, (n, t, r). The rest has shape (n, t, K): who took part, gain h, alignment g (0 where silent), what was
    sent, and ‖z̃‖² (its mean over the noise on the fast path). heard: (n, t), whether anybody transmitted.
    Under cover noise nobody but the simulator knows who took part, and `heard` is true for whoever is on the air.
    noisy_scores: (n, t, K) in Schemes 2.1 and 2.2. In 2.1 they stay on the devices, in 2.2 the ranking server has them.
    """

    estimate: Array
    taking_part: Array
    gain: Array
    alignment: Array
    sent: Transmission
    signal_square: Array
    heard: Array
    noisy_scores: Array | None = None

    @property
    def scale(self) -> Array:
        """α/p of each device: it sent scale·z̃."""
        return self.sent.scale

    @property
    def power(self) -> Array:
        """‖x‖² of each device in mW, 0 where silent."""
        return self.scale**2 * self.signal_square

    @property
    def energy(self) -> Array:
        """Σ_k ‖x_k‖² of each inference, in mW · channel uses."""
        return array_namespace(self.power).sum(self.power, axis=-1)


@np.errstate(all="ignore")
def clipped(latents: Array, clip_norm: Any) -> Array:
    """Every latent (..., K, r) scaled to just inside its clip norm where it is longer, and 0 where it is not finite.

    Never raises on feature values: an exception would leak them.
    Edge cases: half precision cannot keep the norm; such latents come back in single precision.

    >>> clipped(np.array([[[3.0, 4.0], [np.nan, 1.0]]]), [1.0, 1.0]).round(6)
    array([[[0.6, 0.8],
            [0. , 0. ]]])
    """
    xp = array_namespace(latents)
    if xp.finfo(latents.dtype).bits < 32:
        latents = xp.astype(latents, xp.float32)
    hair = (_HAIR + _HAIR_PER_COORDINATE * latents.shape[-1]) * float(xp.finfo(latents.dtype).eps)
    if hair > 0.5:
        raise ValueError(f"latents has {latents.shape[-1]} coordinates of {latents.dtype}: too many; use float64")
    limit = like(clip_norm, latents)[..., None] * (1 - hair)
    finite = xp.all(xp.isfinite(latents), axis=-1, keepdims=True)
    z = xp.where(finite, latents, xp.zeros_like(latents))
    # In units of the limit, or of the largest entry beyond it: no square overflows, and none that matters vanishes.
    unit = xp.maximum(xp.max(xp.abs(z), axis=-1, keepdims=True), limit)
    unit = xp.where(unit > 0, unit, xp.ones_like(unit))
    scaled = z / unit
    square = xp.sum(scaled * scaled, axis=-1, keepdims=True)
    longer = square > (limit / unit) ** 2
    # Where it is not longer no root is taken: it has no slope at 0, where training may well come by.
    norm = xp.sqrt(xp.where(longer, square, xp.ones_like(square)))
    return xp.where(longer, scaled * (limit / norm), z)


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
    link: Radio | None = None,
) -> Received:
    """Latents (n, K, r) over the air: what the server makes of them, `trials` independent times each.

    scores: (n, K), each device's raw uncertainty in bits; Schemes 2.1 and 2.2 choose by them, and only they. They are
        bounded in here, so that none exceeds what is accounted for; what is not finite becomes the upper end.
    num_classes: of the posteriors behind the scores; the rule `scale` needs it.
    only_best: only the device with the strongest channel speaks; in Scheme 2.2, of those selected.
    link: the network's radio, if it is known already.
    Differs from the paper: in 2.1 and 2.2 nothing is divided by p_k, which depends on the score and would tell it. The
    devices' `participation` is Scheme 1's alone.
    """
    check_latents(latents, network)
    _check_generator(rng, latents)
    check_scores(scores, network.scheme, example=latents)
    if trials < 1:
        raise ValueError(f"trials={trials} must be >= 1")
    if path not in ("fast", "full"):
        raise ValueError(f"path={path!r} must be fast or full")
    link = radio(network) if link is None else link
    rule = network.channel.power_rule
    if path == "fast" and rule in ("paper", "exact"):
        raise ValueError(f"path='fast' is not exact where power_rule={rule!r} looks at the noise; use path='full'")
    z = clipped(latents, network.devices.column("clip_norm"))
    _check_squares(link, z)
    shape = (*(int(n) for n in latents.shape[:1]), trials, int(latents.shape[1]))
    air, own = _generators(rng, shape[-1], path)
    gain = sample_gains(link.fading, shape, air, dtype=z.dtype)
    off = _misalignment(gain, network, air)
    taking_part, noisy_scores = _taking_part(network, shape, own, z, scores, num_classes)
    if only_best:
        xp = array_namespace(gain)
        able = xp.where(taking_part, gain, gain * 0 - 1) if isinstance(network.scheme, Ranking) else gain
        strongest = xp.argmax(able, axis=-1)[..., None]
        taking_part = taking_part & (strongest == like(np.arange(shape[-1]), gain))
    carry = _full if path == "full" else _fast
    return replace(carry(z, network, link, _Drawn(gain, off, taking_part, air, own)), noisy_scores=noisy_scores)


def _check_squares(link: Radio, z: Array) -> None:
    """That the powers of signal and noise are numbers of the latents' type: beyond it noise would vanish unseen."""
    xp, sent = array_namespace(z), link.transmitters
    loudest = float(max(sent.feature_norm.max(), sent.noise_std.max()))
    kind = xp.finfo(z.dtype)
    for value in (loudest, link.gamma):
        if value > 0 and not float(kind.smallest_normal) < value**2 < float(kind.max) / (sent.dimension + 1e3) ** 2:
            raise ValueError(
                f"signals of size {loudest:.3g} at gamma={link.gamma:.3g}: their squares do not fit {z.dtype}; "
                "give float64 latents, or scale weight and noise_std together"
            )


class _Drawn(NamedTuple):
    """What does not depend on the noise, drawn before it, and the generators that the noise comes from."""

    gain: Array
    off: Misalignment | None
    taking_part: Array
    air: draws.Generator
    own: list[draws.Generator]


def _check_generator(rng: draws.Generator, latents: Array) -> None:
    home = draws.ones(rng, (0,))
    if array_namespace(home) is not array_namespace(latents) or device(home) != device(latents):
        where = "numpy.random.Generator" if isinstance(latents, np.ndarray) else f"torch.Generator({device(latents)})"
        raise ValueError(f"rng of type {type(rng).__name__} must be a {where}, where latents live")


def _generators(rng: draws.Generator, num_devices: int, path: Path) -> tuple[draws.Generator, list[draws.Generator]]:
    """One generator for the air, and one for each device on the full path; the fast path needs no more than one."""
    if path == "fast":
        return rng, [rng]
    air, *own = draws.spawn(rng, num_devices + 1)
    return air, own


def _taking_part(
    network: Network,
    shape: tuple[int, ...],
    own: list[draws.Generator],
    example: Array,
    scores: Array | None,
    num_classes: int | None,
) -> tuple[Array, Array | None]:
    """Who takes part, (n, t, K), and the noisy scores that decided it."""
    scheme = network.scheme
    if scores is None:
        return _coins(network, shape, own, example), None
    u = bounded(array_namespace(scores).astype(scores, example.dtype), scheme, num_classes)
    noisy_scores = noisy(u, scheme.score_noise_std, trials=shape[1], own=own)
    if isinstance(scheme, Threshold):
        return threshold.speaks(noisy_scores, scheme.threshold), noisy_scores
    return ranking.selected(noisy_scores, scheme.num_selected), noisy_scores


def _coins(network: Network, shape: tuple[int, ...], own: list[draws.Generator], example: Array) -> Array:
    """Each device's coin, (n, t, K)."""
    xp = array_namespace(example)
    p = np.array(network.devices.column("participation"))
    if np.all(p == 1):
        return xp.ones_like(draws.ones(own[0], shape, dtype=example.dtype), dtype=xp.bool)
    if len(own) == 1:
        return draws.uniform(own[0], shape, dtype=example.dtype) < like(p, example)
    coins = [draws.uniform(each, shape[:-1], dtype=example.dtype) < float(p[k]) for k, each in enumerate(own)]
    return xp.stack(coins, axis=-1)


def _misalignment(gain: Array, network: Network, air: draws.Generator) -> Misalignment | None:
    csi, phase = network.channel.csi_error_std, network.channel.phase_error_std
    if not (csi or phase):
        return None
    normals = draws.standard_normal(air, (3, *gain.shape), dtype=gain.dtype)
    return misalign(gain, normals, csi_error_std=csi, phase_error_std=phase)


def _fast(z: Array, network: Network, link: Radio, drawn: _Drawn) -> Received:
    """All devices' noise and the receiver's as one Gaussian: exact, since no alignment depends on the noise."""
    xp = array_namespace(z)
    gain, off, taking_part, _, own = drawn
    sent = _sent(network, link, gain, off, taking_part)
    g, tau = sent.alignment, xp.astype(taking_part, z.dtype)
    speaking = g * tau if network.cover_noise else g
    weight, std = (like(network.devices.column(name), z) for name in ("weight", "noise_std"))
    estimate = xp.matmul(speaking, weight[:, None] * z)
    variance = xp.matmul(g * g, (std * std)[:, None])
    estimate += xp.sqrt(variance + _receiver_variance(network, link, g)) * draws.standard_normal(
        own[0], tuple(estimate.shape), dtype=z.dtype
    )
    square = xp.sum(z * z, axis=-1)[:, None, :] * weight * weight
    square = (square * tau if network.cover_noise else square) + float(network.dimension) * std * std
    return Received(estimate, taking_part, gain, g, sent, square, xp.any(g != 0, axis=-1))


def _sent(
    network: Network, link: Radio, gain: Array, off: Misalignment | None, taking_part: Array, **norms: Array
) -> Transmission:
    """Power and alignment; under cover noise nobody is silent by choice."""
    return transmit(
        link.transmitters,
        gain,
        gamma=link.gamma,
        rule=network.channel.power_rule,
        taking_part=None if network.cover_noise else taking_part,
        misalignment=off,
        **norms,
    )


def _receiver_variance(network: Network, link: Radio, alignment: Array) -> Any:
    """Of the receiver's noise in ẑ: once for the sum, or once for everybody who is heard alone."""
    variance = (network.channel.noise_std / link.gamma) ** 2
    if network.channel.access == "superposed":
        return variance
    xp = array_namespace(alignment)
    return variance * xp.sum(xp.astype(alignment != 0, alignment.dtype), axis=-1, keepdims=True)


def _full(z: Array, network: Network, link: Radio, drawn: _Drawn) -> Received:
    """Device by device, as it happens: own noise, own power, h x on the air, and the receiver's noise at the end."""
    xp = array_namespace(z)
    gain, off, taking_part, air, own = drawn
    n, t, num_devices = gain.shape
    d, gamma = network.devices, link.gamma
    y = draws.zeros(air, (n, t, int(z.shape[-1])), dtype=z.dtype)
    aim, alignment, magnitude, square = (xp.zeros_like(gain) for _ in range(4))
    for k in range(num_devices):
        noise = draws.standard_normal(own[k], tuple(y.shape), dtype=z.dtype) * d.column("noise_std")[k]
        weighted = (z[:, k, :] * d.column("weight")[k])[:, None, :]
        if network.cover_noise:
            weighted = weighted * xp.astype(taking_part[..., k], z.dtype)[..., None]
        signal = weighted + noise
        alone = {"noise_norm": _norm(noise)[..., None], "signal_norm": _norm(signal)[..., None]}
        sent = _sent(
            network,
            link.only(k),
            gain[..., k, None],
            None
            if off is None
            else Misalignment(*(x[..., k, None] for x in (off.estimate, off.in_phase, off.magnitude))),
            taking_part[..., k, None],
            **alone,
        )
        # γ g is what the channel makes of the transmitted scale: h·α/p, turned by whatever phase is left.
        y += (gamma * sent.alignment) * signal
        alignment[..., k] = sent.alignment[..., 0]
        aim[..., k], magnitude[..., k] = sent.aim[..., 0], sent.magnitude[..., 0]
        square[..., k] = alone["signal_norm"][..., 0] ** 2
    heard = xp.any(alignment != 0, axis=-1)
    times = xp.sqrt(_receiver_variance(network, link, alignment) + xp.zeros_like(y[..., :1])) * gamma
    y += times * draws.standard_normal(air, tuple(y.shape), dtype=z.dtype)
    everything = Transmission(aim, gain if off is None else off.estimate, gamma, alignment, magnitude)
    return Received(y / gamma, taking_part, gain, alignment, everything, square, heard)


def _norm(x: Array) -> Array:
    xp = array_namespace(x)
    return xp.sqrt(xp.sum(x * x, axis=-1))


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
    """Library, type and shape. What latents contain is never looked at: an exception would leak it."""
    require_network(network)
    require_array("latents", latents)
    shape = tuple(latents.shape)
    wanted = (network.devices.count, network.dimension)
    if len(shape) != 3 or shape[1:] != wanted:
        raise ValueError(f"latents has shape {shape}, must be (objects, {wanted[0]} devices, {wanted[1]} coordinates)")
    if shape[0] == 0:
        raise ValueError("latents has no objects, must have at least one")
    xp = array_namespace(latents)
    if not xp.isdtype(latents.dtype, "real floating"):
        raise ValueError(f"latents has type {latents.dtype}, must be real floating numbers")
