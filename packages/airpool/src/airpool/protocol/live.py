"""A live device: noise and coins from the operating system.

    ranked = noisy_score(score, network)                                       # Scheme 2.2: to the ranking server
    signal(latent, network, device=3, gain=h, selected=answer)                 # once it has answered

No generator can be passed in: a device process cannot use seeded noise by accident. The noise is privacy/noise.py's
`live_noise`.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool._support.arrays import Array, Floats
from airpool.account.guarantee import PrivacyReport, guarantee
from airpool.network import Claim, Network
from airpool.privacy.noise import grid_of, live_noise, to_grid
from airpool.protocol import alone
from airpool.protocol.alone import Choice, Signal


@lru_cache(maxsize=64)
def live_report(network: Network, claim: Claim = Claim()) -> PrivacyReport:
    """The guarantee of a network whose devices draw live noise; an error where it must not transmit.

    Refused: the paper's power rule; a δ that the sampler does not support; noise_std that is 0 somewhere or spread
    over more than a factor of 1e5, where the finest grid in the sum would reveal the coarser ones.
    """
    if network.channel.power_rule == "paper":
        raise ValueError("power_rule='paper' must not go on the air: at the power limit it reveals a feature")
    return guarantee(network, replace(claim, live=True))


class OperatingSystem:
    """Randomness of live devices: exact coins, and noise on a public grid to which features are rounded."""

    on_grid = True

    def report(self, network: Network, claim: Claim) -> PrivacyReport:
        return live_report(network, claim)

    def coins(self, probability: Array, shape: tuple[int, ...], *, dtype: Any) -> NDArray[np.bool_]:
        each = np.broadcast_to(probability, shape).ravel().tolist()
        return np.array([_coin(p) for p in each]).reshape(shape)

    def rounded(self, values: Array, std: Sequence[float], limit: Sequence[float]) -> Floats:
        each = zip(std, limit, strict=True)
        return np.stack(
            [to_grid(values[..., k, :], grid_of(s).step, most) for k, (s, most) in enumerate(each)], axis=-2
        )

    def noise(self, std: Sequence[float], shape: tuple[int, ...], *, dtype: Any) -> Floats:
        return np.stack([live_noise(s, (*shape[:-2], shape[-1])) for s in std], axis=-2)


LIVE = OperatingSystem()


def signal(
    latent: ArrayLike,
    network: Network,
    claim: Claim = Claim(),
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
    choice = Choice(score, num_classes, selected)
    return alone.signal(latent, network, LIVE, claim, device=device, gain=gain, choice=choice)


def noisy_score(score: float, network: Network, claim: Claim = Claim(), *, num_classes: int | None = None) -> float:
    """ũ = u + v for the ranking server of Scheme 2.2, from a raw uncertainty in bits; fresh noise at each call.

    Holds for: the ε of the network's report, one call for each inference. A score that is not finite counts as the
    upper end of the range.
    """
    return alone.noisy_score(score, network, LIVE, claim, num_classes=num_classes)


def _coin(probability: float) -> bool:
    """True with exactly this probability, from the operating system's entropy."""
    ones, outcomes = probability.as_integer_ratio()  # outcomes is a power of two
    bits = outcomes.bit_length() - 1
    return int.from_bytes(os.urandom(bits // 8 + 1), "big") % outcomes < ones
