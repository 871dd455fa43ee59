"""Positions of an adversary, and the bound on its guesses that belongs to each (docs/results/attacks.md).

    B(κ)   a secret that is guessed with probability κ without the signal is guessed with at most B(κ) with it

κ is the best guess of an adversary that knows all but the signal, the other views included. A secret of one view is
protected by the noise of all devices in the sum, by the device's own noise elsewhere. What several views show is a
secret of the object: its bound is printed as the number it is, close to 1.
"""

from dataclasses import dataclass, replace
from typing import Literal

from airpool.account.odds import odds
from airpool.network import Adversary, Claim, Network, Slots

Scope = Literal["view", "object"]  # what a secret is of
Curve = Literal["device", "local", "object", "eavesdropper"]  # fields of airpool.odds


@dataclass(frozen=True)
class Position:
    """A place of the adversary. view, object: the curve that bounds a secret of one view, or of the object.

    object: None where nothing is claimed, and the bound is 1. repeated: it hears all inferences of the claim.
    """

    name: str
    hears: str
    view: Curve
    object: Curve | None
    repeated: bool = False

    @property
    def alone(self) -> bool:
        """Whether one view is all that is heard: what the object's views share is then bounded like a view's secret."""
        return self.object == self.view


POSITIONS = {
    each.name: each
    for each in (
        Position("link", "one device alone, on a link of its own", "local", "local"),
        Position("sum", "the sum of all devices", "device", "object"),
        Position("colluding", "the sum, and what all other devices have sent", "local", None),
        Position("antennas", "all devices, at an array elsewhere", "eavesdropper", None),
        Position("repeated", "the sums of all inferences, of one view", "device", "object", repeated=True),
    )
}


def position(name: str) -> Position:
    """The position of this name; an error that lists all where there is none."""
    if name not in POSITIONS:
        raise ValueError(f"position {name!r} must be one of {', '.join(POSITIONS)}")
    return POSITIONS[name]


def heard_of(network: Network, claim: Claim, place: Position) -> tuple[Network, Claim]:
    """What the adversary receives there, and the claim on it: one slot, or all inferences where it hears them all."""
    if place.name != "antennas":
        network = replace(network, adversary=Adversary())
    elif not network.adversary.antennas:
        raise ValueError("position 'antennas' needs an eavesdropper: give --antennas M, or adversary.antennas")
    if place.repeated:
        if claim.inferences * network.slots.count == 1:
            raise ValueError(f"position {place.name!r} needs inferences > 1: give --inferences T")
        return network, claim
    return replace(network, slots=Slots()), replace(claim, inferences=1)


def bound(network: Network, claim: Claim, place: Position, scope: Scope, *, prior: float, device: int = 0) -> float:
    """B(κ): the largest probability of a right guess from this position. prior: κ."""
    if not 0 < prior <= 1:
        raise ValueError(f"prior={prior:g} must be > 0 and at most 1")
    heard, curve = heard_of(network, claim, place), place.view if scope == "view" else place.object
    if curve is None or prior == 1:
        return 1.0
    found = getattr(odds(*heard, prior=prior), curve)
    return float(found if curve == "object" else found[device])
