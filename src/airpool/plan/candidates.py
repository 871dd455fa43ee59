"""Ways to build a network for a budget: codec, participation, cover noise, scheme, and how unlike targets are served.

A candidate and what is given (devices, power, channel, δ, neighbours, number of inferences) make a network that meets
its targets exactly; what is left to find out is how accurate it is. The clip norm is 1, the length of every latent: any
other is the same network in other units. γ is the largest that keeps the outage at the channel's target.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from airpool.account.budget import split
from airpool.account.calibration import calibrate
from airpool.arrays import Floats
from airpool.design import clipping, weights
from airpool.network import Coin, Network, Ranking, Scheme, Threshold

Handle = Literal["noise", "weights", "clipping"]


@dataclass(frozen=True)
class Candidate:
    """One way. handle: what serves devices with unlike targets: everybody's noise by the strictest, weights, or clip
    norms. scheme, share: who transmits, and the score's share of the budget (selection.budget)."""

    codec: str = "compact"
    participation: float = 1.0
    cover_noise: bool = False
    handle: Handle = "noise"
    scheme: Scheme = field(default_factory=Coin)
    share: float = 0.0

    @property
    def words(self) -> str:
        """For a table: "compact, p = 0.9, cover noise"."""
        out = [self.codec]
        if isinstance(self.scheme, Coin):
            out.append(f"p = {self.participation:g}" + (", cover noise" if self.cover_noise else ""))
        elif isinstance(self.scheme, Threshold):
            out.append(f"Scheme 2.1, η = {self.scheme.threshold:g}, {self.share:.0%} for the score")
        else:
            out.append(f"Scheme 2.2, k̃ = {self.scheme.num_selected}, {self.share:.0%} for the score")
        if self.handle != "noise":
            out.append(f"own {self.handle}")
        return ", ".join(out)


PAPER = Candidate(codec="q16", participation=0.9)


def candidates(num_devices: int, codecs: tuple[str, ...], *, unlike: bool) -> tuple[Candidate, ...]:
    """All that are tried. unlike: devices have targets of their own, or unlike weights may pay."""
    plain = [
        Candidate(codec, p, cover)
        for codec in codecs
        for p, cover in ((1.0, False), (0.9, False), (0.9, True), (0.7, True))
    ]
    first = codecs[0]
    chosen = sorted({max(1, round(part * num_devices)) for part in (0.5, 0.75, 0.92)} - {num_devices})
    ranked = [
        Candidate(first, scheme=Ranking(num_selected=count), share=share) for count in chosen for share in (0.02, 0.1)
    ]
    local = [
        Candidate(first, scheme=Threshold(threshold=threshold), share=share)
        for threshold in (0.5, 1.0)
        for share in (0.1, 0.3)
    ]
    if not unlike:
        return (*plain, *ranked, *local)
    handles: tuple[Handle, ...] = ("weights", "clipping")
    return (*plain, *(replace(plain[0], handle=handle) for handle in handles), *ranked, *local)


def network(candidate: Candidate, given: Network, *, epsilon: Floats, dimension: int, calibration: Floats) -> Network:
    """The candidate's network that meets every target; a ValueError where none does.

    given: devices (count, power), channel, δ, neighbours, colluders, dropouts and number of inferences.
    calibration: latents (n, K, r) of other objects than those to be named, for weights and clip norms.
    """
    if not isinstance(candidate.scheme, Coin) and given.neighbours == "remove":
        raise ValueError("neighbours='remove' is not accounted for with Schemes 2.1 and 2.2")
    bare = replace(
        given,
        dimension=dimension,
        cover_noise=candidate.cover_noise,
        scheme=candidate.scheme,
        devices=replace(
            given.devices,
            weight=None,
            clip_norm=1.0,
            noise_std=0.05,
            participation=candidate.participation,
            epsilon=tuple(epsilon.tolist()),
        ),
    )
    if not isinstance(candidate.scheme, Coin):
        strictest = float(np.min(epsilon))
        met = split(bare, epsilon=strictest, share=candidate.share)
        return replace(met, devices=replace(met.devices, epsilon=tuple(epsilon.tolist())))
    uniform = calibrate(bare)
    if candidate.handle == "weights":
        return weights.design(uniform, calibration, normalise="free").network
    if candidate.handle == "clipping":
        return clipping.design(uniform, calibration).network
    return uniform
