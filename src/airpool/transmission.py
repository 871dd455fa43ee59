"""What one device does when it is really on the air: clip, add live noise, set its power, send or stay silent.

There is no generator to pass in anywhere here: coin and noise come from the operating system, so that a device process
cannot get seeded noise by accident. Simulations are airpool.inference.
"""

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .network import Network
from .privacy.arrays import Floats
from .privacy.noise import grid_of, live_noise, to_grid
from .radio import Radio, radio
from .wireless.power import transmit


@dataclass(frozen=True, eq=False)
class Signal:
    """What device k sends: x, (r,), all zeros where it is silent.

    sends: whether it transmits at all, which anybody near by can see. Whether it took part under cover noise, its
    clipping and its noise stay on the device: they are not in here.
    """

    samples: Floats
    sends: bool
    power: float


def signal(latent: ArrayLike, network: Network, *, device: int, gain: float, link: Radio | None = None) -> Signal:
    """One transmission of one latent, (r,), over a channel of known gain h.

    Holds for: the ε of the network's report, up to the δ that the grid costs (privacy.noise.delta_cost); the channel's
    gain is independent of the data. The coin is biased by at most 2^−64.
    Edge cases: a latent that is not finite is sent as 0; a channel too weak for its power → silent (truncate).
    """
    d, rule = network.devices, network.channel.power_rule
    if not 0 <= device < d.count:
        raise ValueError(f"device={device} must be from 0 to {d.count - 1}")
    z = np.asarray(latent, dtype=np.float64)
    if z.shape != (network.dimension,):
        raise ValueError(f"latent has shape {z.shape}, must be ({network.dimension},)")
    if not np.isfinite(gain) or gain < 0:
        raise ValueError(f"gain={gain} must be >= 0 and finite")
    if rule == "paper":
        raise ValueError("power_rule='paper' must not go on the air: at its power limit it tells a feature from none")
    weight, std = d.column("weight")[device], d.column("noise_std")[device]
    link = radio(network) if link is None else link

    takes_part = _coin(d.column("participation")[device])
    # An untouched feature must not be told from a silent one by the time it takes: both ways run through all steps.
    step = grid_of(std).step
    with np.errstate(over="ignore"):
        weighted = weight * z if weight > 0 else np.zeros_like(z)
    feature = to_grid(weighted, step, weight * d.column("clip_norm")[device])
    noisy = takes_part * feature + live_noise(std, network.dimension).values
    sent = transmit(
        link.only(device).transmitters,
        np.array([gain]),
        gamma=link.gamma,
        rule=rule,
        taking_part=np.array([takes_part or network.cover_noise]),
        signal_norm=np.array([np.linalg.norm(noisy)]),
    )
    # Adding zero turns the −0 of a silent device into 0: its sign would be a bit of z̃.
    samples = float(sent.scale[0]) * noisy + 0.0
    return Signal(samples, bool(sent.scale[0] > 0), float(samples @ samples))


def _coin(probability: float) -> bool:
    """True with this probability, from the operating system's entropy."""
    return int.from_bytes(os.urandom(8), "big") < probability * 2.0**64
