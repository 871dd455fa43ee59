"""A simulated device: the steps of device.py with a generator of its own. Its noise is seeded and gives no privacy.

One seed gives every inference of a run its generators: of the air and of each device, as protocol.simulation spawns
them. So a run over any medium gives what `airpool.infer(..., rng=generator(seed, number), path="full")` gives.
"""

from functools import lru_cache

import numpy as np

from airpool._support.arrays import Floats
from airpool.network import Network, scheme_rules, scored
from airpool.protocol import device as stations
from airpool.radio.link import link_of
from airpool.schemes.scores import bounded

NOTE = "Simulated: the noise is seeded and protects nobody."


def require(seed: int | None) -> None:
    if seed is not None and seed < 0:
        raise ValueError(f"the seed of a simulated run, {seed}, must be >= 0")


def generator(seed: int, number: int) -> np.random.Generator:
    """The generator of inference `number` of a run."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))


def child(seed: int, number: int, index: int) -> np.random.Generator:
    """The generator of the air (0) or of device index − 1: what `draws.spawn` makes of `generator`."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, index)))


def noisy_score(score: float, network: Network, rng: np.random.Generator, num_classes: int | None) -> float:
    """ũ = u + v: nothing is drawn where the noise is 0."""
    scheme = scored(network.scheme)
    u = float(bounded(np.array([score]), scheme, num_classes)[0])
    return u + scheme.score_noise_std * float(rng.standard_normal()) if scheme.score_noise_std else u


@np.errstate(all="ignore")
def signal(
    latent: Floats,
    network: Network,
    *,
    device: int,
    gain: float,
    rng: np.random.Generator,
    score: float | None = None,
    num_classes: int | None = None,
    selected: bool | None = None,
) -> tuple[Floats, float]:
    """x and its scale α/p, drawn in the order of protocol.simulation; arguments as of live.signal."""
    d, rules = network.devices, scheme_rules(network.scheme)
    if not rules.scored:
        p = _participation(network)
        takes_part = True if p is None else bool(rng.random() < p[device])
    elif rules.ranked:
        takes_part = bool(selected)
    else:
        noisy_scores = np.array([noisy_score(np.nan if score is None else score, network, rng, num_classes)])
        takes_part = bool(rules.chosen(network.scheme, noisy_scores)[0])
    r = network.coordinates
    noise = d.column("noise_std")[device] * rng.standard_normal(r)
    z = stations.padded(stations.clipped(latent[None], [d.column("clip_norm")[device]])[0], r)
    noisy = stations.signal(d.column("weight")[device] * z, noise, np.float64(takes_part))
    sent = stations.power(network, link_of(network), np.full(d.count, gain), takes_part=np.full(d.count, takes_part))
    scale = float(sent.scale[device])
    return scale * noisy + 0.0, scale


@lru_cache(maxsize=64)
def _participation(network: Network) -> tuple[float, ...] | None:
    """None where all always take part: then no coin is tossed."""
    p = network.devices.column("participation")
    return None if all(each == 1 for each in p) else p
