"""Sources of randomness: the one thing in which a simulated and a live device differ.

`Seeded` draws in bulk from generators and gives no privacy. `live.OperatingSystem` cannot be seeded: it takes no
generator, by type.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from airpool._support import draws
from airpool._support.arrays import Array, like
from airpool.account.report import PrivacyReport
from airpool.network import Network


class Randomness(Protocol):
    """Coins and noise of K devices. The devices' axis is the last of coins, and the last but one of values and noise.

    on_grid: noise is a discrete Gaussian, and values are rounded before it is added.
    """

    @property
    def on_grid(self) -> bool: ...

    def report(self, network: Network) -> PrivacyReport | None:
        """The guarantee that this noise gives; None: none. Raises an error where the network must not transmit."""
        ...

    def coins(self, probability: Array, shape: tuple[int, ...], *, dtype: Any) -> Array:
        """Independent draws of bool, (n, t, K), true with this probability, which broadcasts to the shape."""
        ...

    def rounded(self, values: Array, std: Sequence[float], limit: Sequence[float]) -> Array:
        """Values (..., K, r) to which noise of these standard deviations may be added. limit: their largest norms."""
        ...

    def noise(self, std: Sequence[float], shape: tuple[int, ...], *, dtype: Any) -> Array:
        """Independent noise (..., K, r) of standard deviation std[k]."""
        ...


@dataclass(frozen=True)
class Seeded:
    """Generators of a simulation: one for each device, or a single one for all. Gives no privacy."""

    own: Sequence[draws.Generator]
    on_grid = False

    def report(self, network: Network) -> None:
        return None

    def coins(self, probability: Array, shape: tuple[int, ...], *, dtype: Any) -> Array:
        uniform, p = draws.by_device(draws.uniform, self.own, shape, dtype=dtype), np.ravel(probability)
        return uniform < (float(p[0]) if np.all(p == p[0]) else like(probability, uniform))

    def rounded(self, values: Array, std: Sequence[float], limit: Sequence[float]) -> Array:
        return values

    def noise(self, std: Sequence[float], shape: tuple[int, ...], *, dtype: Any) -> Array:
        normals = draws.by_device(draws.standard_normal, self.own, shape, axis=-2, dtype=dtype)
        return like(std, normals)[:, None] * normals
