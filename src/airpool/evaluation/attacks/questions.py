"""Secrets of objects and views, and who is asked about them: a question is one row for each trial.

side     the side of the object that the attacked camera sees: drawn at random, all other cameras stay where they are.
         No other view tells anything about it, so κ is exactly one over the number of sides.
class    the class of the object, as the test objects have it.
rare     whether the class is a rare one; objects are drawn so that both answers are equally likely.
share    the class, of an adversary that knows all other views: what the attacked device adds to them.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from airpool._support.arrays import Floats, Integers
from airpool.evaluation.attacks.positions import Position, Scope
from airpool.models.cameras import cameras
from airpool.network import Network
from airpool.protocol.device import clipped

Secret = Literal["side", "class", "rare", "share"]
SECRETS: tuple[Secret, ...] = ("side", "class", "rare", "share")

_RARE = 0.25  # of the objects at most belong to the rare classes together


@dataclass(frozen=True, eq=False)
class Views:
    """Latents (N, V, r) of N objects on V sides, and their classes (N,)."""

    latents: Floats
    labels: Integers

    def some(self, rows: Integers) -> "Views":
        return Views(self.latents[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class Question:
    """Trials of one secret: latents (n, K, r), its value in each (n,), and the prior of its values (C,).

    known: what the adversary knows beside the signal, (n, d). candidates: the latent of the attacked device for each
    value, (n, C, r), where the adversary knows the object. others_known: it takes the other views off the sum.
    """

    secret: Secret
    of: Scope
    latents: Floats
    values: Integers
    prior: Floats
    known: Floats | None = None
    candidates: Floats | None = None
    others_known: bool = False


def secrets_of(place: Position) -> tuple[Secret, ...]:
    """The secrets that are asked for at a position: those of the object where something is claimed of them."""
    if place.name == "antennas":
        return ("side",)
    of_object: tuple[Secret, ...] = () if place.object is None else ("class", "rare")
    return ("side", *of_object, *(() if place.name == "link" else ("share",)))


def rare_classes(labels: Integers) -> Integers:
    """The classes of the fewest objects, as many as have at most a quarter of all objects together."""
    counts = np.bincount(labels)
    order = np.argsort(counts, kind="stable")
    return order[np.cumsum(counts[order]) <= _RARE * len(labels)]


def question(
    secret: Secret,
    views: Views,
    network: Network,
    *,
    device: int,
    copies: int,
    judged: Integers,
    rng: np.random.Generator,
) -> Question:
    """`copies` trials of each object. judged: classes of the objects that are judged, which decide prior and rarity."""
    sides, count = views.latents.shape[1], network.devices.count
    seen = np.array(cameras(count, sides))
    number = int(judged.max()) + 1
    rows = np.tile(np.arange(len(views.labels)), copies)
    values, prior = views.labels[rows], np.bincount(judged) / len(judged)
    if secret == "rare":
        few = rare_classes(judged)
        if not 0 < len(few) < number:
            raise ValueError(f"no {_RARE:.0%} of {len(judged)} objects are of rare classes: leave this secret out")
        rare = np.isin(views.labels, few)
        p = np.where(rare, 0.5 / max(rare.sum(), 1), 0.5 / max((~rare).sum(), 1))
        rows = rng.choice(len(rare), size=len(rows), p=p / p.sum())
        values, prior = rare[rows].astype(np.int64), np.array([0.5, 0.5])
    latents = views.latents[rows][:, seen]
    if secret == "side":
        values, prior = rng.integers(sides, size=len(rows)), np.full(sides, 1 / sides)
        latents[:, device] = views.latents[rows, values]
        return Question(secret, "view", latents, values, prior, candidates=views.latents[rows], others_known=count > 1)
    if secret == "share":
        others = [k for k in range(count) if k != device]
        weight = np.array(network.devices.column("weight"))[others, None]
        z = clipped(latents, network.devices.column("clip_norm"))[:, others]
        return Question(secret, "view", latents, values, prior, known=(weight * z).sum(1), others_known=True)
    return Question(secret, "object", latents, values, prior)
