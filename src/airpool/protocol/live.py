"""A live device: the steps of device.py with noise and coins from the operating system.

    ranked = noisy_score(score, network)                                       # Scheme 2.2: to the ranking server
    signal(latent, network, device=3, gain=h, selected=answer)                 # once it has answered

No generator can be passed in: a device process cannot use seeded noise by accident. The noise is privacy/noise.py's
`live_noise`; whether the device transmits is decided in `_takes_part`.
"""

import os
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats
from airpool.account.guarantee import PrivacyReport, guarantee
from airpool.network import Network, require_network, scheme_rules, scored
from airpool.privacy.noise import grid_of, live_noise, to_grid
from airpool.protocol import device as stations
from airpool.radio.link import link_of
from airpool.schemes.scores import bounded, score_range


@dataclass(frozen=True, eq=False)
class Signal:
    """What device k transmits: x, all zeros where it is silent; (r,), or (r + 1,) where an odd r is padded with noise.

    sends: whether it transmits at all, which is visible nearby. Secrets of the device are not included.
    report: what the network leaks, with the δ that live noise costs.
    """

    samples: Floats
    sends: bool
    power: float
    report: PrivacyReport


@lru_cache(maxsize=64)
def live_report(network: Network) -> PrivacyReport:
    """The guarantee of a network whose devices draw live noise; an error where it must not transmit.

    Refused: the paper's power rule; a δ that the sampler does not support; noise_std that is 0 somewhere or spread
    over more than a factor of 1e5, where the finest grid in the sum would reveal the coarser ones.
    """
    if network.channel.power_rule == "paper":
        raise ValueError("power_rule='paper' must not go on the air: at the power limit it reveals a feature")
    return guarantee(network, live=True)


@np.errstate(all="ignore")
def signal(
    latent: ArrayLike,
    network: Network,
    *,
    device: int,
    gain: float,
    score: float | None = None,
    num_classes: int | None = None,
    selected: bool | None = None,
) -> Signal:
    """One transmission of one latent, (r,), over a channel of known gain h.

    score: Scheme 2.1, the device's raw uncertainty in bits (num_classes: of its posterior, where the rule is `scale`).
    selected: Scheme 2.2, the ranking server's answer to `noisy_score`.
    Holds for: the ε of `live_report`, which counts what grid and coins cost; a gain that is independent of the data.
    Never raises on the values of latent and score: an exception would leak them.
    Edge cases: a latent that is not finite is sent as 0; a channel too weak for its power → silent (truncate).
    """
    require_network(network)
    d = network.devices
    if isinstance(device, bool) or not isinstance(device, int | np.integer):
        raise TypeError(f"device={device!r} must be a whole number")
    if not 0 <= device < d.count:
        raise ValueError(f"device={device} must be from 0 to {d.count - 1}")
    if np.iscomplexobj(latent):
        raise TypeError("latent is complex, must be real: two real coordinates share one symbol")
    z = np.asarray(latent, dtype=np.float64)
    if z.shape != (network.dimension,):
        raise ValueError(f"latent has shape {z.shape}, must be ({network.dimension},)")
    if not np.isfinite(gain) or gain < 0:
        raise ValueError(f"gain={gain} must be >= 0 and finite")
    report = live_report(network)
    weight, std = d.column("weight")[device], d.column("noise_std")[device]
    takes_part = _takes_part(network, device, score=score, num_classes=num_classes, selected=selected)
    # Constant steps: the time must depend neither on the feature nor on taking part.
    clip_norm = d.column("clip_norm")[device]
    feature = to_grid(weight * stations.clipped(z[None], [clip_norm])[0], grid_of(std).step, weight * clip_norm)
    feature = stations.padded(feature, network.coordinates)
    noisy = stations.signal(feature, live_noise(std, network.coordinates).values, np.float64(takes_part))
    sent = stations.power(
        network,
        link_of(network),
        np.full(d.count, gain),
        takes_part=np.full(d.count, takes_part),
        signal_norm=np.full(d.count, np.linalg.norm(noisy)),
    )
    scale = float(sent.scale[device])
    # Adding zero turns the −0 of a silent device into 0: its sign would be a bit of z̃.
    samples = scale * noisy + 0.0
    return Signal(samples, scale > 0, float(samples @ samples), report)


@np.errstate(all="ignore")
def noisy_score(score: float, network: Network, *, num_classes: int | None = None) -> float:
    """ũ = u + v for the ranking server of Scheme 2.2, from a raw uncertainty in bits; fresh noise at each call.

    Holds for: the ε of the network's report, one call for each inference. A score that is not finite counts as the
    upper end of the range.
    """
    require_network(network)
    if not scheme_rules(network.scheme).ranked:
        raise ValueError(f"scheme.name={network.scheme.name!r} must be 2.2: otherwise no score leaves the device")
    scheme = scored(network.scheme)
    if scheme.score_noise_std == 0:
        raise ValueError("scheme.score_noise_std=0 must be > 0: a score without noise must not leave the device")
    live_report(network)
    step = grid_of(scheme.score_noise_std).step
    u = to_grid(bounded(np.array([score], dtype=np.float64), scheme, num_classes), step, score_range(scheme).high)
    return float((u + live_noise(scheme.score_noise_std, 1).values)[0])


def _takes_part(
    network: Network, device: int, *, score: float | None, num_classes: int | None, selected: bool | None
) -> bool:
    scheme, rules = network.scheme, scheme_rules(network.scheme)
    wanted = "selected" if rules.ranked else "score" if rules.scored else None
    for name, value in (("score", score), ("selected", selected)):
        if (value is not None) != (name == wanted):
            verb = "needs" if name == wanted else "takes no"
            raise ValueError(f"scheme {scheme.name} {verb} {name}: 2.1 goes by a score, 2.2 by being selected")
    if not rules.scored:
        return _coin(network.devices.column("participation")[device])
    if rules.ranked:
        if not isinstance(selected, bool | np.bool_):
            raise ValueError(f"selected={selected!r} must be true or false, what the ranking server answered")
        return bool(selected)
    # A coin of the score's probability, off by the rules' coin_bias at most; noise on a grid would move it further.
    u = bounded(np.array([score], dtype=np.float64), scored(scheme), num_classes)
    return _coin(float(rules.participation(scheme, u)[0]))


def _coin(probability: float) -> bool:
    """True with exactly this probability, from the operating system's entropy."""
    ones, outcomes = probability.as_integer_ratio()  # outcomes is a power of two
    bits = outcomes.bit_length() - 1
    return int.from_bytes(os.urandom(bits // 8 + 1), "big") % outcomes < ones
