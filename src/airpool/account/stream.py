"""A stream of inferences over one draw of the channel, or a new one for each (spec §9)."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from airpool.arrays import Floats
from airpool.network import Coin, Network
from airpool.privacy import compose, device
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.game import solve

# Cells of a noise law where a whole curve is composed; rounded to the safe side, it costs about 0.05 % of ε.
COMPOSED_CELLS = 512


def varies(received: Aggregate) -> bool:
    """Whether what is received depends on a draw of the channel."""
    return received.strength is not None or bool(np.any(received.presence < 1))


def in_common(network: Network, received: Aggregate) -> bool:
    """Whether something random of the channel stays the same over a stream of inferences."""
    return not network.channel.redrawn and varies(received)


def spent_in_common(network: Network, received: Aggregate) -> Callable[[int], Floats]:
    """ε by number of inferences over one draw of the channel: δ_T(ε) = E[δ_G(ε; √T·μ)] (spec §9, streams).

    Holds for: Scheme 1, zero-out and replace, with everybody taking part if there is more than one inference; elsewhere
    inf, and the local ε takes over.
    """
    certain = isinstance(network.scheme, Coin) and bool(np.all(received.participation == 1))

    def after(inferences: int) -> Floats:
        if (inferences > 1 and not certain) or network.neighbours == "remove":
            return np.full(received.num_devices, np.inf)
        together = replace(received, shift=received.shift * np.sqrt(inferences))
        played, missed = device.game(together, network.neighbours), np.minimum(inferences * received.misses, 1.0)
        return compose.nearby(lambda delta: solve(played, delta).upper, network.delta, missed)

    return after


def spent_anew(network: Network, received: Aggregate) -> Callable[[int], Floats]:
    """ε by number of inferences over as many independent draws of the channel: their losses are composed.

    Holds for: Scheme 1.
    """
    played = device.game(received, network.neighbours, cells=COMPOSED_CELLS)
    return compose.spent(played, network.delta, missed=received.misses)
