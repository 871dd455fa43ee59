"""The signals that an adversary receives at its position, from the code that transmits (protocol.simulation).

The receiver's noise is left out: the bounds do not count it either.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats
from airpool.evaluation.audit import directions
from airpool.network import Claim, Network
from airpool.network.network import with_its_coins
from airpool.protocol.device import clipped, padded
from airpool.protocol.medium import pack, unpack
from airpool.protocol.simulation import Drawn, Received, receive
from airpool_lab.attacks.positions import Position, heard_of

_MOST_NUMBERS = 2**24  # of a batch
_FLOOR = 1e-12  # of the noise in any direction, in units of its largest
_MOST_SLOTS = 10_000  # of a stream


@dataclass(frozen=True, eq=False)
class Heard:
    """Signals (n, t, r): w z of the attacked device, what else is in the sum, and noise of a known size.

    noise_std: per coordinate, (n, t); inf where nothing was received. present: whether the device was heard, (n, t);
    under cover noise it always is, whether or not it takes part.
    """

    signal: Floats
    noise_std: Floats
    present: NDArray[np.bool_]


def hear(
    network: Network,
    claim: Claim,
    place: Position,
    latents: Floats,
    *,
    rng: np.random.Generator,
    device: int = 0,
    trials: int = 1,
    others_known: bool = False,
) -> Heard:
    """Signals of latents (n, K, r), `trials` times each. A stream is averaged, each slot by its precision.

    Where one draw of coins or gains serves several slots or inferences, only the noise is new in them.
    others_known: the adversary knows the features of all other devices, and takes them off; its noise stays.
    Holds for: Scheme 1, known channels (position antennas: all).
    """
    network, claim = heard_of(network, claim, place)
    network.scheme.require_coins(f"scheme {network.scheme.name} chooses by scores: latents are attacked in Scheme 1")
    if not 0 <= device < network.devices.count:
        raise ValueError(f"device={device} must be from 0 to {network.devices.count - 1}")
    rows = max(1, _MOST_NUMBERS // (trials * network.devices.count * network.coordinates))
    noiseless = replace(with_its_coins(network), channel=replace(network.channel, noise_std=0.0))
    if (times := claim.inferences * network.slots.count) > _MOST_SLOTS:
        raise ValueError(
            f"inferences and slots: {times:,} transmissions of a view must be at most {_MOST_SLOTS:,} here"
        )
    parts = []
    for start in range(0, len(latents), rows):
        some = np.asarray(latents[start : start + rows], dtype=np.float64)
        if place.name == "antennas":
            parts.append(_at_antennas(noiseless, claim, some, rng, device, trials, others_known))
            continue
        sums = _stream(noiseless, claim.inferences, some, rng, trials)
        slots = (_in_sum(noiseless, place, some, got, device, others_known) for got in sums)
        parts.append(next(slots) if times == 1 else _averaged(slots))
    return Heard(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("signal", "noise_std", "present")))


def quiet(network: Network, claim: Claim) -> tuple[Network, Claim]:
    """Both without noise, with every device and at most two inferences: clean signals for a gallery."""
    silent = replace(network.devices, noise_std=0.0, participation=1.0)
    return replace(network, devices=silent), replace(claim, inferences=min(claim.inferences, 2))


def _stream(network: Network, inferences: int, z: Floats, rng: np.random.Generator, trials: int) -> Iterator[Received]:
    """Every slot of every inference, one after the other."""
    if not network.channel.known:
        raise ValueError("csi_error_std and phase_error_std must be 0 here: errors are attacked at position antennas")
    one, participation = network.one_slot, np.array(network.devices.column("participation"))
    drawn: Drawn | None = None
    for slot in range(inferences * network.slots.count):
        if network.slots.redrawn or slot % network.slots.count == 0:
            if drawn is not None and not network.channel.redrawn:  # the same gains, new coins
                drawn = replace(drawn, takes_part=rng.random(drawn.gain.shape) < participation)
            else:
                drawn = None
        got = receive(z, one, rng=rng, trials=trials, path="full", drawn=drawn)
        drawn = got.drawn
        yield got


def _in_sum(network: Network, place: Position, z: Floats, got: Received, device: int, others_known: bool) -> Heard:
    assert got.signals is not None
    g, d = np.asarray(got.alignment), network.devices
    variance, present = np.array(d.column("noise_std")) ** 2, g[..., device] != 0
    if place.name in ("link", "colluding"):
        signal = g[..., device, None] * got.signals[..., device, : network.dimension]
        variance = g[..., device] ** 2 * variance[device]
    else:
        signal, variance = np.asarray(got.estimate), g**2 @ variance
        if others_known:
            share = g * (np.array(d.column("participation")) if network.cover_noise else 1.0)
            share[..., device] = 0
            signal = signal - np.einsum("ntk,nkr->ntr", share, _weighted(network, z))
    heard = np.any(g != 0, axis=-1) if place.view == "device" else present
    return Heard(signal, np.where(heard, np.sqrt(variance), np.inf), present)


def _at_antennas(
    network: Network,
    claim: Claim,
    z: Floats,
    rng: np.random.Generator,
    device: int,
    trials: int,
    others_known: bool,
) -> Heard:
    """The best linear estimate of the device's signal given all gains, v^H G⁻¹ y / v^H G⁻¹ v; G: covariance of noise.

    A floor keeps directions without noise in it: there the device is heard as well as can be.
    """
    play, d = directions.mechanism(network, claim, elsewhere=True), network.devices
    variance = np.array(d.column("noise_std")) ** 2
    signals, stds = [], []
    for features in z:
        seen = play(features, trials, rng)
        v, y = seen.directions, seen.components
        if others_known:
            sent = padded(_weighted(network, features[None])[0], network.coordinates)
            sent[device] = 0
            y = y - np.einsum("tkd,kc->tcd", v, pack(sent))
        noise = np.einsum("k,tkd,tke->tde", variance, v, np.conj(v))
        largest = np.linalg.eigvalsh(noise)[:, -1]
        floor = _FLOOR * np.where(largest > 0, largest, 1.0)
        towards = np.linalg.solve(noise + floor[:, None, None] * np.eye(v.shape[-1]), v[:, device, :, None])[..., 0]
        gain = np.einsum("td,td->t", np.conj(v[:, device]), towards).real
        found = np.einsum("td,tcd->tc", np.conj(towards), y) / np.where(gain > 0, gain, 1.0)[:, None]
        signals.append(unpack(found, network.coordinates)[:, : network.dimension])
        stds.append(np.where(gain > 0, 1 / np.sqrt(np.where(gain > 0, gain, 1.0)), np.inf))
    std = np.array(stds)
    return Heard(np.array(signals), std, np.isfinite(std))


def _weighted(network: Network, z: Floats) -> Floats:
    """w z of all devices, clipped, (n, K, r)."""
    d = network.devices
    return np.array(d.column("weight"))[:, None] * clipped(z, d.column("clip_norm"))


def _averaged(slots: Iterable[Heard]) -> Heard:
    """One signal for several of the same view: only slots in which the device is heard count."""
    total = weighted = np.zeros(())
    for each in slots:
        precision = np.where(each.present, np.maximum(each.noise_std, 1e-150), np.inf) ** -2.0
        total, weighted = total + precision, weighted + precision[..., None] * each.signal
    some = np.where(total > 0, total, 1.0)
    return Heard(weighted / some[..., None], np.where(total > 0, some**-0.5, np.inf), total > 0)
