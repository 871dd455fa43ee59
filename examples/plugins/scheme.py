"""A scheme of your own: devices take part as often as their energy allows.

    airpool epsilon  --plugin examples/plugins/scheme.py --scheme energy-aware:budget_mw=500 --devices 12
    airpool evaluate --plugin examples/plugins/scheme.py --scheme energy-aware:budget_mw=500 --epsilon 2
    airpool up       --plugin examples/plugins/scheme.py --scheme energy-aware:budget_mw=500 --epsilon 2

A device that transmits at power P in a share p of all inferences spends p·P on average: p = min(1, budget/P). airpool
tosses the coins, in the simulator and on a live device, and accounts for them; a device far away, whose power is more
than the budget, is silent more often, and its ε is smaller.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import airpool

__version__ = "1.0"


@airpool.register("scheme", "energy-aware")
@dataclass(frozen=True)
class EnergyAware(airpool.Scheme):
    """budget_mw: mean transmit power that a device can afford, in mW."""

    budget_mw: float = 500.0
    name: ClassVar[str] = "energy-aware"

    def __post_init__(self) -> None:
        if not self.budget_mw > 0:
            raise ValueError(f"scheme.budget_mw={self.budget_mw} must be > 0")

    def participation(self, network: airpool.Network) -> np.ndarray:
        """(K,), from the devices' powers alone: public numbers, never features."""
        power_mw = 10 ** (np.array(network.devices.power_dbm) / 10)
        return np.minimum(1.0, self.budget_mw / power_mw)
