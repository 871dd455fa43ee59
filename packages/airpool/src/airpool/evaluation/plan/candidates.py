"""Candidate networks for a budget: codec, participation, cover noise, scheme, and how heterogeneous targets are met.

A candidate and what is given (devices, power, channel, the claim) make a network that meets its targets exactly; its
accuracy is left to simulation. The clip norm is 1, the norm of every latent: any other is the
same network in other units. γ is the largest that keeps the outage at the channel's target.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from airpool._support.arrays import Floats
from airpool.account.calibration import calibrate
from airpool.evaluation.design import clipping, weights
from airpool.models.model import Model
from airpool.network import Claim, Coin, Network, Ranking, Scheme, Threshold

Handle = Literal["noise", "weights", "clipping"]


@dataclass(frozen=True)
class Candidate:
    """One choice of codec, participation and scheme, which with the given devices and channel makes a network.

    handle: what meets heterogeneous targets: noise for the strictest, or each device's own weight or clip norm.
    scheme: who transmits. share: the score's share of the budget, where a score decides it (`account.calibration`).
    codec: by name, or the file of your own. participation: of every device. cover_noise: silent devices send noise.

    >>> Candidate("compact", participation=0.9, cover_noise=True).words
    'compact, p = 0.9, cover noise'
    """

    codec: str = "vote"
    participation: float = 1.0
    cover_noise: bool = False
    handle: Handle = "noise"
    scheme: Scheme = field(default_factory=Coin)
    share: float = 0.0

    @property
    def words(self) -> str:
        """Description for a table: "vote, p = 0.9, cover noise"."""
        if not self.scheme.independent:
            chosen = f"{self.scheme.words}, {self.share:.0%} for the score"
        else:
            chosen = self.scheme.words if self.scheme.sets_participation else f"p = {self.participation:g}"
            chosen += ", cover noise" if self.cover_noise else ""
        return f"{self.codec}, {chosen}" + ("" if self.handle == "noise" else f", own {self.handle}")


# Columns of the devices that a candidate decides, whatever is given.
DESIGNED = ("weight", "clip_norm", "noise_std", "participation", "epsilon")
PAPER = Candidate(codec="q16", participation=0.9)


def candidates(
    num_devices: int, codecs: tuple[str, ...], *, heterogeneous: bool, covered: bool = False
) -> tuple[Candidate, ...]:
    """All that are tried. heterogeneous: devices have targets of their own. covered: cover noise is implied."""
    chances = ((1.0, False), (0.9, False), (0.9, True), (0.7, True))
    if covered:
        chances = tuple((p, True) for p in (1.0, 0.9, 0.7))
    plain = [Candidate(codec, p, cover) for codec in codecs for p, cover in chances]
    own: list[Handle] = ["weights", "clipping"] if heterogeneous else []
    first = codecs[0]
    counts = sorted({max(1, round(part * num_devices)) for part in (0.5, 0.75, 0.92)} - {num_devices})
    ranked = [Candidate(first, scheme=Ranking(num_selected=n), share=share) for n in counts for share in (0.02, 0.1)]
    local = [Candidate(first, scheme=Threshold(threshold=t), share=share) for t in (0.5, 1.0) for share in (0.1, 0.3)]
    return (*plain, *(replace(plain[0], handle=handle) for handle in own), *ranked, *local)


def brought(given: Network, codecs: tuple[str, ...]) -> tuple[Candidate, ...]:
    """Candidates with the scheme that the network brings; none where it is airpool's own."""
    if not given.scheme.sets_participation:
        return ()
    covered = given.channel.rules.cover_noise
    return tuple(Candidate(codec, cover_noise=covered, scheme=given.scheme) for codec in codecs)


def built(candidate: Candidate, given: Network, claim: Claim, targets: Floats, model: Model) -> Network:
    """The candidate's network that meets every target (K,); a ValueError where none does.

    given: devices (count, power, path loss), channel, colluders and dropouts. Weights and clip norms are designed on
    the validation objects.
    """
    wanted, p = tuple(targets.tolist()), candidate.participation
    devices = replace(given.devices, weight=None, clip_norm=1.0, noise_std=0.05, participation=p, epsilon=wanted)
    bare = replace(
        given,
        dimension=model.codec(candidate.codec).dimension,
        devices=devices,
        scheme=candidate.scheme,
        cover_noise=candidate.cover_noise,
    )
    if not candidate.scheme.independent:
        if not claim.neighbours.keeps_noise:
            raise ValueError(f"neighbours={claim.neighbours!r} is not accounted for with Schemes 2.1 and 2.2")
        met = calibrate(bare, claim, epsilon=float(np.min(targets)), share=candidate.share)
        return replace(met, devices=replace(met.devices, epsilon=wanted))
    uniform = calibrate(bare, claim)
    if candidate.handle == "noise":
        return uniform
    known = model.held_out("validation", codec=candidate.codec).fitted(given.devices.count)
    latents = known.latents.double().numpy()
    if candidate.handle == "weights":
        return weights.design(uniform, latents, claim, normalise="free").network
    return clipping.design(uniform, latents, claim).network
