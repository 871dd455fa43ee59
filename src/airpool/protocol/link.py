"""A network's radio: its fading, its transmitters, the γ that they share, and how often each falls silent."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from airpool.arrays import Floats
from airpool.network import Network, NetworkError
from airpool.wireless.fading import Fading, cdf
from airpool.wireless.power import Transmitters, threshold

if TYPE_CHECKING:
    from airpool.wireless.outage import Moments


@dataclass(frozen=True, eq=False)
class Radio:
    """What the channel makes of a network; everything here is public and independent of the data.

    outage: of each device, how often its power does not suffice to arrive aligned (under `paper`, over its noise too).
    """

    fading: Fading
    transmitters: Transmitters
    gamma: float
    outage: Floats

    def only(self, device: int) -> "Radio":
        """The radio of one device."""
        pick, all_of = slice(device, device + 1), self.transmitters
        own = replace(
            all_of,
            feature_norm=all_of.feature_norm[pick],
            noise_std=all_of.noise_std[pick],
            power_max=all_of.power_max[pick],
        )
        return replace(self, transmitters=own, outage=self.outage[pick])


def radio(network: Network) -> Radio:
    """The radio of a network; γ is found here where the network says "auto".

    Edge cases: under truncate, a device that can never be aligned at a fixed γ → an error that names it.
    """
    # Laws need SciPy; a radio that was found beforehand does not (training on a machine without it).
    from airpool.wireless.outage import auto_gamma, outage_probability

    channel, d = network.channel, network.devices
    fading = Fading(channel.fading, k_factor_db=channel.k_factor_db)
    transmitters = Transmitters.of(
        weight=d.column("weight"),
        clip_norm=d.column("clip_norm"),
        noise_std=d.column("noise_std"),
        power_dbm=d.column("power_dbm"),
        dimension=network.dimension,
    )
    csi = channel.csi_error_std
    if not np.any(transmitters.amplitude > 0):
        return Radio(fading, transmitters, 1.0, np.zeros(d.count))
    if channel.gamma == "auto":
        gamma = auto_gamma(fading, transmitters, outage=channel.outage, csi_error_std=csi)
    else:
        gamma = channel.gamma
    if channel.power_rule == "paper":
        return Radio(fading, transmitters, gamma, _limited_by_paper(fading, transmitters, gamma, csi))
    outage = outage_probability(fading, transmitters, gamma=gamma, csi_error_std=csi)
    if channel.power_rule == "truncate" and np.any(outage >= 1):
        weak = int(np.argmax(outage))
        raise NetworkError(
            f"channel.gamma={gamma:g} is beyond the power of device {weak}: with power_dbm="
            f"{d.column('power_dbm')[weak]:g} it reaches {transmitters.reach[weak]:.4g}; lower gamma or write "
            'gamma = "auto"'
        )
    return Radio(fading, transmitters, gamma, outage)


def alignment(network: Network, link: Radio) -> "Moments":
    """E[g] and E[g²] of each device that takes part, over the fading; an outage counts as g = 0."""
    from airpool.wireless.outage import alignment_moments

    channel = network.channel
    return alignment_moments(
        link.fading,
        link.transmitters,
        gamma=link.gamma,
        rule=channel.power_rule,
        csi_error_std=channel.csi_error_std,
        phase_error_std=channel.phase_error_std,
    )


def receivers(network: Network, link: Radio, on_the_air: Floats) -> float:
    """How often the receiver's noise counts on average: once for the sum, or once for everybody who is heard alone.

    on_the_air: how often each device sends, whether or not its power then suffices.
    """
    if network.channel.access == "superposed":
        return 1.0
    # Whoever is too weak is silent under truncate alone.
    silent = link.outage if network.channel.power_rule == "truncate" else 0.0
    return float(np.sum(on_the_air * (1 - silent)))


# A noise longer than all but this share counts as limited, so that rare outcomes are never missed.
_RARE = 1e-20


def _limited_by_paper(fading: Fading, transmitters: Transmitters, gamma: float, csi_error_std: float) -> Floats:
    """Pr(ĥ < γ√(w²C² + ‖n‖²)/√P) of each device, over fading, CSI error and noise; an upper bound where ĥ varies."""
    from scipy.special import chdtrc, chdtri

    r, std = transmitters.dimension, transmitters.noise_std
    if fading.model == "none" and csi_error_std == 0:
        spare = fading.path_gain**2 * transmitters.power_max / gamma**2 - transmitters.feature_norm**2
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            room = np.where(std > 0, spare / std**2, np.where(spare >= 0, np.inf, 0.0))
        return np.where(spare > 0, chdtrc(r, np.maximum(room, 0.0)), np.where(spare == 0, std > 0, 1.0))
    longest = np.sqrt(chdtri(r, _RARE)) * std
    return (
        cdf(fading, threshold(transmitters, gamma=gamma, rule="paper", norm=longest), csi_error_std=csi_error_std)
        + _RARE
    )
