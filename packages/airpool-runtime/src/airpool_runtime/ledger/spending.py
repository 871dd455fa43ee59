"""The ε of a device after any mixture of inferences: of the leaks that its rows name, and how often each.

`total` is for one relation of neighbours. All inferences of one mechanism over one draw of the channel: what
`airpool epsilon --inferences T` says.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from airpool.account.assumptions import GRID
from airpool.account.guarantee import guarantee
from airpool.network import Claim, Neighbours, NetworkError
from airpool.privacy import stored, together
from airpool.privacy.epsilon import epsilon
from airpool_runtime.ledger.mechanism import Mechanism


class Use(NamedTuple):
    """Inferences of one mechanism, and the most draws of a channel that stands still in between."""

    inferences: int
    epochs: int


Counts = Mapping[Mechanism, Use | int]


def why_infinite(counts: Counts, delta: float, neighbours: Neighbours | str) -> str:
    """The reason why a total is infinite: that of a mechanism that is by itself, else that of live noise's grid.

    A mechanism whose network cannot be read here, as its plug-in is gone, has none to tell.
    """
    for one in counts:
        if math.isfinite(total({one: 1}, delta, neighbours)):
            continue
        try:
            report = guarantee(one.network, Claim(delta, Neighbours(neighbours), live=one.live))
        except NetworkError as error:
            return f"not known here: {error}"
        return report.reasons["epsilon"]
    return GRID


def total(counts: Counts, delta: float, neighbours: Neighbours | str = Neighbours.ZERO_OUT) -> float:
    """ε at δ of what was used of each mechanism.

    neighbours: the relation that every mechanism is accounted for under. A bare number of inferences: over one draw of
    the channel, as `airpool epsilon --inferences` has it.
    Edge cases: nothing spent → 0. A ValueError where a scheme does not support the relation.
    """
    found: dict[str, tuple[together.Use, int, int]] = {}
    for one, number in counts.items():
        use = number if isinstance(number, Use) else Use(number, 1)
        if use.inferences:  # mechanisms that leak the same are one
            leak, name = _named(one, Neighbours(neighbours))
            before = found.get(name, (leak, 0, 0))
            found[name] = leak, before[1] + use.inferences, before[2] + use.epochs
    return float(epsilon(together.Together(tuple(found.values())), delta)[0])


@lru_cache(maxsize=256)
def _named(one: Mechanism, neighbours: Neighbours) -> tuple[together.Use, str]:
    """What one inference leaks, and a name that it shares with all that leak the same."""
    leak = one.under(neighbours)
    return leak, stored.digest({"": leak})
