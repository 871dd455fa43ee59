"""Strategies of an adversary that adapts: after each slot it stops, or chooses how the next one is sent.

A strategy maps a `Situation` of n runs to a `Move` of each. What the rules do not allow (`audit.adaptive`) is not done:
beyond the budget no slot is sent, whatever is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats, Integers

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Situation:
    """State of n runs: arrays (n,), and what the adversary knows beforehand.

    evidence: log-likelihood ratio of all slots seen so far. left: budget, in slots. inference: slots of the open one.
    heard: whether the device was on the air in the slot before; True where that is hidden. barrier: about one standard
    deviation of the evidence at the end. dropouts: how many devices may be kept away. cap: slots of an inference at
    most. slot: number of slots before.
    """

    evidence: Floats
    left: Floats
    inference: Integers
    heard: Bools
    barrier: float
    dropouts: int
    cap: int
    slot: int

    @property
    def undecided(self) -> Bools:
        return np.abs(self.evidence) < self.barrier


@dataclass(frozen=True, eq=False)
class Move:
    """The next slot of n runs, arrays (n,).

    ask: or stop for good. dropped: how many of the noisiest other devices are kept away. charge: its μ², in units of an
    ordinary slot's; the noise is that much quieter. anew: a second inference on the same view is opened for it.
    turned: the view is the opposite one, as in a stream whose features change.
    """

    ask: Bools
    dropped: Integers
    charge: Floats
    anew: Bools
    turned: Bools


def _move(
    now: Situation,
    ask: Bools | bool = True,
    *,
    dropped: Integers | None = None,
    charge: Floats | float = 1.0,
    anew: Bools | bool = False,
    turned: Bools | bool = False,
) -> Move:
    """Asks for an ordinary slot with as many dropouts as may be, except where chosen otherwise."""
    fields: Any = (ask, now.dropouts if dropped is None else dropped, charge, anew, turned)
    return Move(*(np.broadcast_to(np.asarray(each), now.evidence.shape) for each in fields))


Strategy = Callable[[Situation], Move]


def never_stops(now: Situation) -> Move:
    """Goes to the cap."""
    return _move(now)


def stops_when_decided(now: Situation) -> Move:
    """Stops at the first crossing of a barrier on either side, as Wald's test does."""
    return _move(now, now.undecided)


def stops_when_guilty(now: Situation) -> Move:
    """Stops as soon as the feature looks present."""
    return _move(now, now.evidence < now.barrier)


def stops_when_innocent(now: Situation) -> Move:
    """Stops as soon as the feature looks absent."""
    return _move(now, now.evidence > -now.barrier)


def asks_again_when_undecided(now: Situation) -> Move:
    """Goes to the cap of an inference, and opens a second one on the same view only where it is undecided."""
    return _move(now, now.undecided | (now.inference < now.cap))


def asks_again_when_silent(now: Situation) -> Move:
    """Opens the next inference where the device is not on the air: one draw for all slots makes the rest worthless."""
    return _move(now, anew=~now.heard)


def drops_out_when_undecided(now: Situation) -> Move:
    """Keeps the noisiest devices away while the evidence is near the threshold, and lets them back afterwards."""
    return _move(now, dropped=np.where(now.undecided, now.dropouts, 0))


def changes_dropouts(now: Situation) -> Move:
    """Keeps devices away where the evidence rises above 0, and none where it falls below."""
    return _move(now, dropped=np.where(now.evidence >= 0, now.dropouts, 0))


def large_steps_when_undecided(now: Situation) -> Move:
    """Loud slots while undecided, quiet ones afterwards, until the budget Σμ² is spent."""
    wanted = np.where(now.undecided, 2.0, 0.25)
    return _move(now, charge=np.where(wanted <= now.left, wanted, 0.25))


def small_steps_when_undecided(now: Situation) -> Move:
    """Quiet slots while undecided; all that is left at once when the feature looks present."""
    wanted = np.where(now.evidence > now.barrier, 2.0, 0.5)
    return _move(now, charge=np.where(wanted <= now.left, wanted, 0.25))


def turns_the_view(now: Situation) -> Move:
    """The opposite view in every other slot, as a stream may show it."""
    return _move(now, turned=now.slot % 2 == 1)


def turns_when_guilty(now: Situation) -> Move:
    """The opposite view where the feature looks present."""
    return _move(now, turned=now.evidence > 0)


# Those that fit every network; where a view may be asked about again; where devices may drop out; where features change
# from slot to slot; where slots are Gaussian, each with a μ of its own.
STOPPING: tuple[Strategy, ...] = (never_stops, stops_when_decided, stops_when_guilty, stops_when_innocent)
ASKING_AGAIN: tuple[Strategy, ...] = (asks_again_when_undecided, asks_again_when_silent)
DROPPING: tuple[Strategy, ...] = (drops_out_when_undecided, changes_dropouts)
TURNING: tuple[Strategy, ...] = (turns_the_view, turns_when_guilty)
CHARGING: tuple[Strategy, ...] = (large_steps_when_undecided, small_steps_when_undecided)
