"""ε of a waveform: against an adversary that keeps every sample (docs/howto/radio.md)."""

import numpy as np

from airpool._support.arrays import Floats
from airpool.network import Network, scheme_rules
from airpool.privacy import gaussian
from airpool.privacy.linear import RECEIVER, Matrix, leverages
from airpool.radio.waveform.propagation import Paths
from airpool.radio.waveform.uplink import Uplink


def sample_maps(link: Uplink, device: int, run: int = 0) -> tuple[Matrix, Matrix]:
    """A of one device, from its symbols to all received samples, (samples, c), and the same from its guards."""
    c, guard = link.symbols, 2 * link.frame.guard
    one = Uplink(link.frame, _of(link.paths, run, device), link.estimate[run, device], link.margin)
    symbols = np.concatenate([np.eye(c), np.zeros((guard, c))]).astype(np.complex128)
    noise = np.concatenate([np.zeros((c, guard)), np.eye(guard)]).astype(np.complex128)
    columns = one.samples(symbols, noise if guard else None).T
    return columns[:, :c], columns[:, c:]


def waveform_epsilon(network: Network, link: Uplink, *, run: int = 0, receiver: float = RECEIVER) -> Floats:
    """ε of each device over one draw of all paths, known to the adversary, that keeps every received sample.

        μ_k² = (w_kC_k)²·λ_max[A_k^H (Σ_j σ_j²(A_jA_j^H + guards) + receiver)⁻¹ A_k]

    Holds for: Scheme 1 with all devices taking part, zero-out and replace; circular noise in every symbol (an odd r is
    padded with noise, as protocol/waveform.py sends it); a receiver noise of at least −110 dB of the loudest direction.
    Never above the local ε.
    """
    d = network.devices
    if (why := why_local(network, link)) is not None:
        raise ValueError(f"over all samples the local ε is all that is claimed: {why}")
    shift, std = (np.array(d.column("weight")) * np.array(d.column("clip_norm")), np.array(d.column("noise_std")))
    both = [sample_maps(link, k, run) for k in range(d.count)]
    noises = [s * np.concatenate(pair, axis=1) for s, pair in zip(std, both, strict=True)]
    found = leverages([a for a, _ in both], noises, receiver=receiver)
    distance = shift * network.neighbours.sensitivity * np.sqrt(network.inferences * network.slots.count)
    with np.errstate(divide="ignore"):
        local = gaussian.epsilon(distance / std, network.delta)
    return np.minimum(gaussian.epsilon(distance * np.sqrt(found), network.delta), local)


def why_local(network: Network, link: Uplink) -> str | None:
    """Reason why no other device's noise is counted over a waveform, in words; None where it is."""
    channel = network.channel
    if not channel.rules.superposes or channel.fading != "none" or not channel.known or channel.antennas > 1:
        return (
            "a waveform brings fading and errors of its own, for one antenna: channel.access, fading, csi_error_std, "
            "phase_error_std and antennas must be left at their defaults"
        )
    if scheme_rules(network.scheme).scored or not network.neighbours.keeps_noise:
        return "schemes 2.1 and 2.2 (scores) and neighbours = remove are accounted for with symbols alone"
    if min(network.devices.column("participation")) < 1 or network.colluders or network.dropouts:
        return "participation below 1, colluders and dropouts are accounted for with symbols alone"
    if np.isfinite(link.limit):
        return "an amplifier that clips is not linear, and how often it does so depends on the features"
    return None


def _of(paths: Paths, run: int, device: int) -> Paths:
    phase = None if paths.phase is None else paths.phase[run, device]
    return Paths(paths.taps[run, device], paths.timing[run, device], paths.carrier[run, device], phase)
