"""Scheme 1, coins: each device transmits with its own probability, whatever its feature is.

    τ_k = 1 with probability p_k = devices.participation

The draw is protocol.device.taking_part. The leakage is privacy.device.by_coin.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, final

from airpool._support.rules import PerDevice
from airpool.schemes.scheme import Scheme


@final
@dataclass(frozen=True)
class Coin(Scheme):
    """Scheme 1: each device transmits with its own probability, `devices.participation`.

    >>> Coin().name
    '1'
    """

    name: ClassVar[str] = "1"
    sets_participation: ClassVar[bool] = False
    title: ClassVar[str] = "a coin"
    about: ClassVar[str] = "Each device transmits with its own probability."

    def participation(self, network: Any, /) -> PerDevice:
        return network.devices.column("participation")
