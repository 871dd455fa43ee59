"""Inferences over the waveform: the devices' signals as OFDM frames, through every impairment, back to ẑ.

The devices are those of simulation.py (clip, weight, noise, participation); fading and power control are the
waveform's. In `Waveform.receive` noise comes from the generator that is passed in and gives no privacy; `live_frame` is
that of a real device. ε of all samples is against an adversary that keeps every one (docs/howto/radio.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats
from airpool.account.assumptions import said_of_plugins
from airpool.account.guarantee import answered
from airpool.account.report import PrivacyReport
from airpool.account.views import Question
from airpool.network import Channel, Claim, Network, require_one_slot
from airpool.network.network import with_its_coins
from airpool.privacy import gaussian
from airpool.privacy.noise import live_noise
from airpool.protocol import live
from airpool.protocol.device import padded
from airpool.protocol.medium import pack, unpack
from airpool.protocol.simulation import receive
from airpool.radio.link import ALWAYS_STRONG, link_of
from airpool_lab.waveform.frame import Frame, Symbols, demodulate, guards, modulate
from airpool_lab.waveform.uplink import Impairments, Paths, Uplink, uplink

Matrix = NDArray[np.complex128]
# Least receiver noise, as a share of the power in the loudest direction: −110 dB, far below any receiver's.
RECEIVER = 1e-11
# Inferences at a time: their samples stay in the processor's cache.
_TOGETHER = 64


@dataclass(frozen=True)
class Waveform:
    """Modulation of symbols into samples, and the impairments of these."""

    frame: Frame = field(default_factory=Frame)
    impairments: Impairments = field(default_factory=Impairments)

    def receive(self, latents: Floats, network: Network, *, rng: np.random.Generator, trials: int = 1) -> "Arrived":
        """Reception of latents (n, K, r) over this waveform, `trials` times each.

        Its channel takes the place of the network's, of which the receiver's noise alone is left: per sample, and over
        γ = 1.
        """
        require_plain(network)
        plain = replace(evened(network), channel=Channel(gamma=ALWAYS_STRONG))
        got = receive(_filled(latents, network), plain, rng=rng, trials=trials, path="full")
        assert got.signals is not None
        n, t, k, _ = got.signals.shape
        on = (got.alignment != 0).reshape(n * t, k, 1)
        symbols = pack(got.signals).reshape(n * t, k, -1) * on
        parts = [
            self._arrived(symbols[i : i + _TOGETHER], on[i : i + _TOGETHER], network, rng)
            for i in range(0, n * t, _TOGETHER)
        ]
        estimate, energy, clipped = (np.concatenate(each).reshape(n, t, -1) for each in zip(*parts, strict=True))
        return Arrived(estimate, on.reshape(n, t, k), energy[..., 0], clipped)

    def _arrived(
        self, symbols: Symbols, on: NDArray[np.bool_], network: Network, rng: np.random.Generator
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Estimates (n, r), energy (n,) and what was clipped (n, K), of symbols (n, K, c)."""
        frame, shape = self.frame, symbols.shape[:2]
        link = uplink(shape, symbols.shape[-1], frame, self.impairments, rng)
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

    def report(self, network: Network, claim: Claim = Claim()) -> PrivacyReport:
        """Leakage of the samples."""
        return waveform_report(network, self, claim)


@dataclass(frozen=True, eq=False)
class Arrived:
    """estimate: ẑ (n, t, r). transmitting: who took part, (n, t, K). energy: Σ|x|² of all samples sent, (n, t).

    clipped: whether an amplifier clipped, (n, t, K).
    """

    estimate: Floats
    transmitting: NDArray[np.bool_]
    energy: Floats
    clipped: NDArray[np.bool_]


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
    network.scheme.require_coins(
        f"scheme {network.scheme.name} is simulated with symbols alone; over a waveform use scheme 1"
    )


def waveform_report(network: Network, waveform: Waveform, claim: Claim = Claim()) -> PrivacyReport:
    """Leakage of `Waveform.receive` to an adversary that keeps every sample.

    Without impairments the samples are a function of the symbols' sum, and the report is that of symbols. With any,
    a device may be received by itself, if only for a sample: what is proven for every draw of them is that all are.
    Holds for: guards too, which say no more than who takes part; under `remove` that is what is asked, so ε is inf.
    """
    require_plain(network)
    secret = not claim.neighbours.keeps_noise and waveform.frame.guard > 0
    carrier = _Carried(exact=waveform.impairments == Impairments() and not secret)
    return answered(Question(network, claim, carrier))


@dataclass(frozen=True)
class _Carried:
    """The account of a network whose signals a waveform carries. exact: the samples are a function of the sum."""

    exact: bool

    def accounted(self, network: Network) -> Network:
        """All that is sent: under `remove` the noise that fills up the last symbol shows too."""
        if self.exact:
            return replace(evened(network), channel=Channel(gamma=ALWAYS_STRONG))
        return replace(with_its_coins(network), channel=Channel(access="orthogonal", gamma=ALWAYS_STRONG))

    def assumptions(self, network: Network, lines: tuple[str, ...]) -> tuple[str, ...]:
        """Those of symbols, and why devices may be told apart."""
        why = "Over a waveform whoever keeps every sample may tell devices apart by their paths, clocks and guards."
        return (*(() if self.exact else (why,)), *lines, *said_of_plugins(network))


def live_frame(
    latent: Floats, network: Network, frame: Frame, claim: Claim = Claim(), *, device: int, gain: float
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
        noise = live_noise(std, (2, 2 * frame.guard)) * (link_of(even).gamma / gain)
        samples = samples + guards(noise[0] + 1j * noise[1], frame, len(symbols))
    return samples, live.live_report(even, claim)


def estimate(samples: Symbols, network: Network, frame: Frame) -> Floats:
    """ẑ (..., r) of a frame that begins with the first sample."""
    symbols = -(-network.dimension // 2)
    return unpack(demodulate(samples, frame, symbols), network.dimension) / link_of(evened(network)).gamma


def leverages(maps: Sequence[Matrix], noises: Sequence[Matrix], *, receiver: float = RECEIVER) -> NDArray[np.float64]:
    """λ_max of every device, from A_k (samples, symbols) and F_k (samples, sources), whose columns include σ_kA_k.

    receiver: its noise, as a share of the power in the loudest direction. Without any, the smallest difference between
        two devices' carriers leaves each of them alone in some direction.
    Holds for: circular noise, independent of the data; any linear map, known to the adversary.
    Edge cases: no noise at all → inf.
    """
    total = sum((f @ f.conj().T for f in noises), np.zeros((len(maps[0]),) * 2, dtype=np.complex128))
    values, vectors = np.linalg.eigh(total)
    if values[-1] <= 0:
        return np.full(len(maps), np.inf)
    whitened = vectors / np.sqrt(np.maximum(values, 0.0) + receiver * values[-1])
    return np.array([float(np.linalg.norm(whitened.conj().T @ a, 2)) ** 2 for a in maps])


def sample_maps(link: Uplink, device: int, run: int = 0) -> tuple[Matrix, Matrix]:
    """A of one device, from its symbols to all received samples, (samples, c), and the same from its guards."""
    c, guard = link.symbols, 2 * link.frame.guard
    at, all_paths = (run, device), link.paths
    phase = None if all_paths.phase is None else all_paths.phase[at]
    paths = Paths(all_paths.taps[at], all_paths.timing[at], all_paths.carrier[at], phase)
    one = Uplink(link.frame, paths, link.estimate[at], link.margin)
    symbols = np.concatenate([np.eye(c), np.zeros((guard, c))]).astype(np.complex128)
    noise = np.concatenate([np.zeros((c, guard)), np.eye(guard)]).astype(np.complex128)
    columns = one.samples(symbols, noise if guard else None).T
    return columns[:, :c], columns[:, c:]


def waveform_epsilon(
    network: Network, link: Uplink, claim: Claim = Claim(), *, run: int = 0, receiver: float = RECEIVER
) -> Floats:
    """ε of each device over one draw of all paths, known to the adversary, that keeps every received sample.

        μ_k² = (w_kC_k)²·λ_max[A_k^H (Σ_j σ_j²(A_jA_j^H + guards) + receiver)⁻¹ A_k]

    Holds for: Scheme 1 with all devices taking part, zero-out and replace; circular noise in every symbol (an odd r is
    padded with noise, as protocol/waveform.py sends it); a receiver noise of at least −110 dB of the loudest direction.
    Never above the local ε.
    """
    d = network.devices
    if (why := why_local(network, link, claim)) is not None:
        raise ValueError(f"over all samples the local ε is all that is claimed: {why}")
    shift, std = (np.array(d.column("weight")) * np.array(d.column("clip_norm")), np.array(d.column("noise_std")))
    both = [sample_maps(link, k, run) for k in range(d.count)]
    noises = [s * np.concatenate(pair, axis=1) for s, pair in zip(std, both, strict=True)]
    found = leverages([a for a, _ in both], noises, receiver=receiver)
    distance = shift * claim.neighbours.sensitivity * np.sqrt(claim.inferences * network.slots.count)
    with np.errstate(divide="ignore"):
        local = gaussian.epsilon(distance / std, claim.delta)
    return np.minimum(gaussian.epsilon(distance * np.sqrt(found), claim.delta), local)


def why_local(network: Network, link: Uplink, claim: Claim = Claim()) -> str | None:
    """Reason why no other device's noise is counted over a waveform, in words; None where it is."""
    channel = network.channel
    if not channel.rules.superposes or channel.fading != "none" or not channel.known or channel.antennas > 1:
        return (
            "a waveform brings fading and errors of its own, for one antenna: channel.access, fading, csi_error_std, "
            "phase_error_std and antennas must be left at their defaults"
        )
    if not network.scheme.independent or not claim.neighbours.keeps_noise:
        return "schemes 2.1 and 2.2 (scores) and neighbours = remove are accounted for with symbols alone"
    if min(network.devices.column("participation")) < 1 or network.colluders or claim.colluding or network.dropouts:
        return "participation below 1, dropouts and colluders (colluding too) are accounted for with symbols alone"
    if claim.live:
        return "live noise is accounted for with symbols alone"
    if np.isfinite(link.limit):
        return "an amplifier that clips is not linear, and how often it does so depends on the features"
    return None
