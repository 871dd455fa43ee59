"""The exact law of an estimate, given an object: a mixture of Gaussians, one for each way in which devices are heard.

    given who is heard, ẑ ~ N(Σ_k s_k w_k z_k, v I),   v = Σ_k t_k σ_k² + receivers·σ_m²/γ²

s_k: device k's feature is on the air; t_k: its noise is (the same, without cover noise). The likely ways are listed,
all others are left out and count as lost: certificates stay valid.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool.arrays import Floats, require_shape
from airpool.network import Coin, Network
from airpool.protocol.device import clipped
from airpool.protocol.link import Radio, radio
from airpool.theory.mse import pooled_error

# How many ways are listed by default; twelve devices that may be silent or not have 4,096.
MOST_WAYS = 4096


@dataclass(frozen=True, eq=False)
class Law:
    """Ways of being heard: who speaks (S, K), how likely (S,), and the noise's variance (S,) in each coordinate.

    weight, clip_norm: of each device (K,). left_out: probability of the ways that are not listed. What is missing
    besides is no answer: nobody is heard.
    """

    speaking: NDArray[np.bool_]
    probability: Floats
    variance: Floats
    weight: Floats
    clip_norm: Floats
    left_out: float

    def sent(self, latents: ArrayLike) -> Floats:
        """Latents (n, K, r) as the devices send them: clipped, and 0 where they are not finite."""
        z = require_shape("latents", np.asarray(latents, dtype=np.float64), (-1, len(self.weight), -1))
        return clipped(z, self.clip_norm)

    def means(self, latents: Floats, way: int) -> Floats:
        """E[ẑ | way] (n, r) from latents (n, K, r) as `sent`."""
        return np.einsum("nkr,k->nr", latents, self.speaking[way] * self.weight)

    def rounding(self, latents: Floats) -> Floats:
        """How far any of the `means` may be off by rounding, (n, r)."""
        return pooled_error(latents, self.weight)


def law(network: Network, *, most: int = MOST_WAYS, link: Radio | None = None) -> Law:
    """The law of ẑ in a network, up to `most` ways of being heard.

    Holds for: Scheme 1, truncate (or backoff where nobody is ever too weak), gains and phases known, superposed or
        orthogonal access, any fading. Devices are silent or in outage independently of one another. Under Sionna's
        models the outage is that of a large sample, and so is the law.
    Edge cases: p = 1 and no outage → one way. Nobody ever speaks → none, and everything is lost.

    >>> law(Network.uniform(num_devices=12, participation=0.9)).probability[0].round(6)
    np.float64(0.28243)
    """
    if most < 1:
        raise ValueError(f"most={most} must be ≥ 1")
    link = radio(network) if link is None else link
    _check(network, link)
    d = network.devices
    p, std = np.array(d.column("participation")), np.array(d.column("noise_std"))
    present = 1.0 - link.outage
    # Of each device: its feature and its noise are on the air, its noise alone, nothing.
    alone = (1 - p) * present if network.cover_noise else np.zeros_like(p)
    states = np.stack((p * present, alone, 1 - p * present - alone), axis=1)
    chosen, probability = np.zeros((1, 0), dtype=np.int8), np.ones(1)
    for of_device in states:
        likely = probability[:, None] * of_device
        way, state = np.nonzero(likely > 0)
        order = np.argsort(-likely[way, state], kind="stable")[:most]
        chosen = np.concatenate((chosen[way[order]], state[order, None].astype(np.int8)), axis=1)
        probability = likely[way[order], state[order]]
    speaking, sounding = chosen == 0, chosen < 2
    left_out = max(0.0, 1.0 - float(np.sum(probability)))
    heard = np.any(sounding, axis=1)
    speaking, sounding, probability = speaking[heard], sounding[heard], probability[heard]
    times = 1.0 if network.channel.access == "superposed" else np.sum(sounding, axis=1)
    variance = np.asarray(sounding @ std**2 + times * (network.channel.noise_std / link.gamma) ** 2, dtype=np.float64)
    return Law(speaking, probability, variance, np.array(d.column("weight")), np.array(d.column("clip_norm")), left_out)


def _check(network: Network, link: Radio) -> None:
    channel = network.channel
    if not isinstance(network.scheme, Coin):
        raise ValueError(f"scheme.name={network.scheme.name!r} must be 1: by scores, who transmits depends on features")
    known = not (channel.csi_error_std or channel.phase_error_std)
    aligned = channel.power_rule == "truncate" or (channel.power_rule == "backoff" and not np.any(link.outage > 0))
    if not (known and aligned):
        raise ValueError(
            f"channel.power_rule={channel.power_rule!r}, csi_error_std={channel.csi_error_std:g}, phase_error_std="
            f"{channel.phase_error_std:g}: the law is known for truncate with exact gains and phases; the mean square "
            "error (theory.mse) covers more"
        )
