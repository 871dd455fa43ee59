"""Random networks with all options at once, small enough to be looked at by the hundred.

What comes together: schemes, scores, unlike devices, colluders (by number and by name), dropouts, cover noise, all
neighbour relations, access, fading, outage, power rules, CSI and phase errors, antennas of
the server and of an eavesdropper, channels that stay, up to 100 devices, 2^20 inferences, δ down to 1e-12.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from airpool.network import Adversary, Channel, Claim, Devices, Network, NetworkError, named_scheme
from airpool.radio.link import link_of


def any_network(seed: int) -> tuple[Network, Claim]:
    """A network, and what is claimed of it."""
    rng = np.random.default_rng([2028, seed])
    while True:
        try:
            network, claim = _drawn(rng)
            # Every third eavesdropper never learns the answer.
            return network, replace(claim, knows_answer=seed % 3 > 0)
        except NetworkError:
            continue  # a combination that cannot be made


def _drawn(rng: np.random.Generator) -> tuple[Network, Claim]:
    def one(*options: Any, p: list[float] | None = None) -> Any:
        return options[rng.choice(len(options), p=p)]

    scheme = one("1", "2.1", "2.2", p=[0.65, 0.2, 0.15])
    relations = ("zero-out", "replace", "remove") if scheme == "1" else ("zero-out", "replace")
    channel = _channel(rng, scheme)
    # Sampled laws take long with many devices.
    simple = channel.known and channel.antennas == 1
    alike = 0.5 if simple else 0.8
    few = int(rng.integers(2, 7))
    count = few if not simple else one(1, few, few, int(rng.integers(7, 25)), int(rng.integers(25, 101)))

    def column(low: float, high: float, *often: float) -> tuple[float, ...]:
        """Uniform in logarithms, mostly the same for all devices, now and then a special value."""
        values = np.exp(rng.uniform(np.log(low), np.log(high), count))
        values = np.full(count, values[0]) if rng.random() < alike or count > 24 else values
        special = (rng.random(count) < (0.1 if simple else 0.03)) & (count <= 24) & bool(often)
        return tuple(float(rng.choice(often)) if s else float(v) for s, v in zip(special, values, strict=True))

    times = int(one(1, 1, 1, int(rng.integers(2, 30)), 2 ** int(rng.integers(5, 21))))
    absent = rng.multinomial(int(one(0, 0, 1, 2)), [0.5, 0.5])
    # Many inferences are for noise to match.
    noise = np.sqrt(times) ** float(rng.uniform(0.7, 1.1))
    random_channel = not simple or channel.power_rule == "backoff"
    devices = Devices(
        count=count,
        weight=column(0.3 / count, 3 / count, 0.0),
        clip_norm=column(0.5, 2.0),
        noise_std=tuple(x * noise / np.sqrt(count) for x in column(0.2, 2.0, 0.0)),
        participation=one(1.0, column(0.3, 1.0, 0.0, 1.0, 1e-6), column(0.8, 1.0)),
        power_dbm=tuple(float(x) for x in rng.uniform(20, 30, count)),
        path_loss_db=float(one(0.0, 0.0, 6.0)),
    )
    chosen = named_scheme(
        scheme,
        score_rule=one("clip", "scale"),
        score_bound=float(rng.uniform(0.1, 2.0)),
        score_noise_std=float(rng.uniform(0.3, 2.0)) * noise,
        threshold=float(rng.uniform(-0.5, 1.5)),
        num_selected=int(rng.integers(1, count + 1)),
    )
    adversary = Adversary(int(one(0, 0, 1, 2)) if channel.access == "superposed" and count < 25 else 0)
    dimension, least = int(one(1, 2, 3, 16, 64)), -12 if times == 1 else -10
    delta = float(10 ** rng.uniform(-4.5, -1.5) if random_channel else 10 ** rng.uniform(least, -2))
    claim = Claim(delta=delta, neighbours=one(*relations), inferences=times)
    network = Network(
        devices=devices,
        channel=channel,
        scheme=chosen,
        adversary=adversary,
        dimension=dimension,
        cover_noise=bool(rng.random() < 0.3),
        colluders=int(min(absent[0], count - 1)),
        dropouts=int(min(absent[1], count - 1)),
    )
    if channel.access != "secure":
        gamma = link_of(network).gamma
        if channel.power_rule == "paper":
            # So far below what the powers allow that they never limit anybody: what arrives is aligned.
            channel = replace(channel, gamma=gamma * 0.05)
            gamma *= 0.05
        network = replace(network, channel=replace(channel, noise_std=gamma * float(rng.uniform(0, 1.0)) / count))
    named = (int(rng.integers(count)),) if count > 2 and rng.random() < 0.1 else ()
    return network, replace(claim, colluding=named, credit_channel_noise=bool(rng.random() < 0.2))


def _channel(rng: np.random.Generator, scheme: str) -> Channel:
    def one(*options: Any, p: list[float] | None = None) -> Any:
        return options[rng.choice(len(options), p=p)]

    access = one("superposed", "orthogonal", "secure", p=[0.8, 0.1, 0.1])
    if access == "secure":
        return Channel(access="secure")
    rule = one("truncate", "backoff", "paper", p=[0.7, 0.2, 0.1])
    if rule == "paper":
        return Channel(access=access, power_rule=rule)
    fading, decibels = one("none", "rician", "rayleigh"), float(rng.uniform(-3, 12))
    return Channel(
        fading=fading,
        k_factor_db=decibels if fading == "rician" else Channel.k_factor_db,
        access=access,
        power_rule=rule,
        outage=float(np.exp(rng.uniform(np.log(1e-4), np.log(0.4)))),
        csi_error_std=one(0.0, float(rng.uniform(0.03, 0.3)), p=[0.85, 0.15]),
        phase_error_std=one(0.0, 0.3, p=[0.9, 0.1]),
        redrawn=bool(rng.random() < 0.75),
        antennas=int(one(1, 2, 3, p=[0.92, 0.05, 0.03])) if scheme != "2.2" else 1,
    )
