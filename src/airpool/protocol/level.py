"""How loud and how noisy the server's estimate is: public numbers, before anything is sent."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from airpool.arrays import Floats, probability
from airpool.network import Coin, Network, Threshold
from airpool.protocol.link import Radio, alignment, radio, receivers


@dataclass(frozen=True)
class Level:
    """Of ẑ: its expected length where all latents are the same and at full norm, and its noise in each coordinate."""

    signal: float
    noise_std: float


def level(network: Network, link: Radio | None = None, *, participation: ArrayLike | None = None) -> Level:
    """What a server may know of ẑ = Σ τ g (w z + n) + m/γ without hearing it.

        signal = Σ_k p_k E[g_k] w_k C_k,   noise² = Σ_k p_k E[g_k²] σ_k² + σ_m²/γ²

    Under cover noise everybody's noise is on the air; under orthogonal access σ_m²/γ² counts once for each device that
    is heard, Σ_k p_k Pr(g_k ≠ 0) of them.
    participation: where scores choose, how often each device is expected to transmit, (K,) or one number: a public one,
        from calibration data (`selection.participation.expected_participation`), never from the inference at hand.
        Scheme 2.1 needs it; in 2.2 it is k̃/K unless given, right on average over the devices. In Scheme 1 p is known.
    Holds for: truncate and backoff; about for paper and exact, where g depends on the noise. How many take part varies
    around its mean: that is part of neither number.
    Edge cases: nobody ever takes part → 0, and the receiver's noise if superposed.

    >>> net = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, participation=0.9, dimension=40)
    >>> round(level(net).signal, 6), round(level(net).noise_std, 6)
    (0.9, 0.164317)
    """
    link = radio(network) if link is None else link
    d, channel = network.devices, network.channel
    moments = alignment(network, link)
    p = _participation(network, participation)
    w, c, std = (np.array(d.column(name)) for name in ("weight", "clip_norm", "noise_std"))
    on_the_air = np.ones_like(p) if network.cover_noise else p
    noise_var = np.sum(on_the_air * moments.mean_square * std**2)
    noise_var += receivers(network, link, on_the_air) * (channel.noise_std / link.gamma) ** 2
    return Level(float(np.sum(p * moments.mean * w * c)), float(np.sqrt(noise_var)))


def _participation(network: Network, given: ArrayLike | None) -> Floats:
    """How often each device takes part, as far as it is public."""
    d, scheme = network.devices, network.scheme
    if isinstance(scheme, Coin):
        if given is not None:
            raise ValueError("participation is for Schemes 2.1 and 2.2; in Scheme 1 it is the network's own")
        return np.array(d.column("participation"))
    if given is None and isinstance(scheme, Threshold):
        raise ValueError(
            "scheme 2.1 needs participation, how often each device is expected to speak: "
            "selection.participation.expected_participation(scores of calibration objects, network.scheme)"
        )
    p = probability("participation", scheme.num_selected / d.count if given is None else given)
    if p.shape not in ((), (d.count,)):
        raise ValueError(f"participation has shape {p.shape}, must be one number or ({d.count},)")
    return np.broadcast_to(p, (d.count,))
