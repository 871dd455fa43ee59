"""Inferences over the waveform: the devices' signals as OFDM frames, through every impairment, back to ẑ.

The devices are those of simulation.py (clip, weight, noise, participation); fading and power control are the
waveform's. In `receive_waveform` noise comes from the generator that is passed in and gives no privacy; `live_frame` is
that of a real device.
"""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats
from airpool.account.assumptions import said_of_plugins
from airpool.account.guarantee import guarantee
from airpool.account.report import PrivacyReport
from airpool.network import Channel, Network, require_one_slot, scheme_rules
from airpool.network.network import with_its_coins
from airpool.privacy.noise import live_noise
from airpool.protocol import live
from airpool.protocol.device import padded
from airpool.protocol.medium import pack, unpack
from airpool.protocol.simulation import receive
from airpool.radio.link import ALWAYS_STRONG, link_of
from airpool.radio.waveform.frame import Frame, Symbols, demodulate, guards, modulate
from airpool.radio.waveform.uplink import Impairments, uplink

# Inferences at a time: their samples stay in the processor's cache.
_TOGETHER = 64


@dataclass(frozen=True)
class Waveform:
    """Modulation of symbols into samples, and the impairments of these."""

    frame: Frame = field(default_factory=Frame)
    impairments: Impairments = field(default_factory=Impairments)


@dataclass(frozen=True, eq=False)
class Arrived:
    """estimate: ẑ (n, t, r). transmitting: who took part, (n, t, K). energy: Σ|x|² of all samples sent, (n, t).

    clipped: whether an amplifier clipped, (n, t, K).
    """

    estimate: Floats
    transmitting: NDArray[np.bool_]
    energy: Floats
    clipped: NDArray[np.bool_]


def receive_waveform(
    latents: Floats, network: Network, *, rng: np.random.Generator, waveform: Waveform | None = None, trials: int = 1
) -> Arrived:
    """Reception of latents (n, K, r) over the waveform, `trials` times each.

    The waveform's channel takes the place of the network's, of which the receiver's noise alone is left: per sample,
    and over γ = 1.
    """
    require_plain(network)
    waveform, even = waveform or Waveform(), evened(network)
    plain = replace(even, channel=Channel(gamma=ALWAYS_STRONG))
    got = receive(_filled(latents, network), plain, rng=rng, trials=trials, path="full")
    assert got.signals is not None
    n, t, k, _ = got.signals.shape
    on = (got.alignment != 0).reshape(n * t, k, 1)
    symbols = pack(got.signals).reshape(n * t, k, -1) * on
    parts = [
        _arrived(symbols[i : i + _TOGETHER], on[i : i + _TOGETHER], network, waveform, rng)
        for i in range(0, n * t, _TOGETHER)
    ]
    estimate, energy, clipped = (np.concatenate(each).reshape(n, t, -1) for each in zip(*parts, strict=True))
    return Arrived(estimate, on.reshape(n, t, k), energy[..., 0], clipped)


def _arrived(
    symbols: Symbols, on: NDArray[np.bool_], network: Network, waveform: Waveform, rng: np.random.Generator
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Estimates (n, r), energy (n,) and what was clipped (n, K), of symbols (n, K, c)."""
    frame, shape = waveform.frame, symbols.shape[:2]
    link = uplink(shape, symbols.shape[-1], frame, waveform.impairments, rng)
    guard_noise = None
    if frame.guard:
        std = np.array(network.devices.column("noise_std"))[:, None]
        normals = rng.standard_normal((2, *shape, 2 * frame.guard))
        guard_noise = (normals[0] + 1j * normals[1]) * std * on
    sent, clipped = link.sent(symbols, guard_noise)
    samples = link.arriving(sent).sum(axis=-2)
    if network.channel.noise_std:
        normals = rng.standard_normal((2, *samples.shape))
        samples = samples + network.channel.noise_std * (normals[0] + 1j * normals[1])
    energy = np.sum(sent.real**2 + sent.imag**2, axis=(-2, -1))
    return unpack(link.received(samples), network.dimension), energy, clipped


def evened(network: Network) -> Network:
    """The network as its symbols are sent: an odd r is padded with a coordinate of 0, which gets noise as any other.

    Without that noise the last symbol would be real, and an adversary with I and Q would tell its devices apart.
    """
    return replace(with_its_coins(network), dimension=network.dimension + network.dimension % 2)


def _filled(latents: Floats, network: Network) -> Floats:
    """Latents (..., r) with a 0 at the end where r is odd."""
    if np.shape(latents)[-1:] != (network.dimension,):
        raise ValueError(f"latents have shape {np.shape(latents)}, must end with {network.dimension} coordinates")
    return padded(latents, evened(network).dimension)


def require_plain(network: Network) -> None:
    """An error where the network's channel has what a waveform brings itself, or scores choose."""
    require_one_slot(network, "a waveform carries one slot")
    channel = network.channel
    if channel.fading != "none" or not channel.known or channel.antennas > 1 or not channel.rules.superposes:
        raise ValueError(
            "over a waveform, fading and errors are its own: leave channel.fading, csi_error_std, phase_error_std, "
            "antennas and access at their defaults"
        )
    if scheme_rules(network.scheme).scored:
        raise ValueError(f"scheme {network.scheme.name} is simulated with symbols alone; over a waveform use scheme 1")


def waveform_report(network: Network, waveform: Waveform) -> PrivacyReport:
    """Leakage of `receive_waveform` to an adversary that keeps every sample.

    Without impairments the samples are a function of the symbols' sum, and the report is that of symbols. With any,
    a device may be received by itself, if only for a sample: what is proven for every draw of them is that all are.
    Holds for: guards too, which say no more than who takes part; under `remove` that is what is asked, so ε is inf.
    """
    require_plain(network)
    secret = not network.neighbours.keeps_noise and waveform.frame.guard > 0
    if waveform.impairments == Impairments() and not secret:
        # All that is sent: under `remove` the noise that fills up the last symbol shows too.
        report = guarantee(replace(evened(network), channel=Channel(gamma=ALWAYS_STRONG)))
        lines = (*report.assumptions, *said_of_plugins(network))
        return replace(report, network=network, again=partial(_again, network, waveform), assumptions=lines)
    report = guarantee(replace(with_its_coins(network), channel=Channel(access="orthogonal", gamma=ALWAYS_STRONG)))
    why = "Over a waveform whoever keeps every sample may tell devices apart by their paths, clocks and guards."
    return replace(
        report,
        network=network,
        again=partial(_again, network, waveform),
        epsilon_lower=None,
        least=_nothing_known,
        assumptions=(why, *report.assumptions, *said_of_plugins(network)),
    )


def _again(network: Network, waveform: Waveform, inferences: int) -> PrivacyReport:
    """The report of another number of inferences over the same waveform."""
    return waveform_report(replace(network, inferences=inferences), waveform)


def _nothing_known() -> None:
    """No lower end."""


def live_frame(
    latent: Floats, network: Network, frame: Frame, *, device: int, gain: float
) -> tuple[Symbols, PrivacyReport]:
    """The samples that a live device sends, all noise from the operating system, and what they leak.

    Holds for: the local ε of the report. Its device ε needs more: signals that arrive aligned in every sample, and a
    sum that is not rounded before it is formed (privacy.noise); single precision rounds.
    """
    even = evened(network)
    sent = live.signal(_filled(latent, network), even, device=device, gain=gain)
    symbols = pack(sent.samples)
    samples = modulate(symbols, frame)
    if frame.guard and sent.sends:
        std = network.devices.column("noise_std")[device]
        noise = live_noise(std, (2, 2 * frame.guard)).values * (link_of(even).gamma / gain)
        samples = samples + guards(noise[0] + 1j * noise[1], frame, len(symbols))
    return samples, live.live_report(even)


def estimate(samples: Symbols, network: Network, frame: Frame) -> Floats:
    """ẑ (..., r) of a frame that begins with the first sample."""
    symbols = -(-network.dimension // 2)
    return unpack(demodulate(samples, frame, symbols), network.dimension) / link_of(evened(network)).gamma
