"""Scheme 1, coins: each device transmits with its own probability, whatever its feature is.

    τ_k = 1 with probability p_k = devices.participation

The draw is protocol.device.taking_part. The leakage is privacy.device.game.
"""

from airpool.network import Coin, Network
from airpool.network.scheme import SchemeRules


def _expected(network: Network) -> tuple[float, ...]:
    return network.devices.column("participation")


RULES = SchemeRules(settings=Coin, expected=_expected, words=lambda scheme: "Scheme 1")
