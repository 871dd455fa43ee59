"""Values as integers modulo 2^B on one public grid, so that a sum of them is exact (docs/howto/secure-sum.md).

The grid is the live noise's own (privacy/noise.py): multiples of h_k, a power of two, for device k. All of them are
multiples of the finest h. B is 32, or 64 where the sum needs it: chosen from public numbers alone, so that wrap-around
has probability below 1e-12. Wrap-around is post-processing: it costs accuracy, never ε.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool._support.arrays import Floats
from airpool.network import Network, NetworkError
from airpool.privacy.noise import grid_of

Residues = NDArray[np.uint64]

MOST_WRAPS = 1e-12
_WORDS = (32, 64)


@dataclass(frozen=True)
class Ring:
    """Integers modulo 2^bits, each worth `step`. bits: 1 to 64; on the wire a residue takes 4 or 8 bytes."""

    step: float
    bits: int

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 64 or not 0 < self.step < math.inf:
            raise ValueError(f"bits={self.bits} must be from 1 to 64, step={self.step} must be > 0 and finite")

    @property
    def wire(self) -> np.dtype[np.unsignedinteger]:
        return np.dtype("<u4" if self.bits <= 32 else "<u8")

    def reduced(self, integers: Residues) -> Residues:
        """The residues modulo 2^bits of integers modulo 2^64."""
        return integers & np.uint64(2**self.bits - 1)

    def total(self, each: Iterable[Residues]) -> Residues:
        """The sum of residues, coordinate by coordinate."""
        return self.reduced(np.asarray(np.sum(list(each), axis=0, dtype=np.uint64)))

    @np.errstate(all="ignore")
    def encode(self, values: ArrayLike) -> Residues:
        """Values to residues. Multiples of `step`, as live devices send them, without rounding; others to the nearest.

        Never raises on values: an exception would leak them.
        """
        return self.reduced(np.rint(np.asarray(values, dtype=np.float64) / self.step).astype(np.int64).view(np.uint64))

    def integers(self, residues: Residues) -> NDArray[np.int64]:
        """The integers from −2^(bits−1) to 2^(bits−1) − 1 that residues stand for."""
        shift = np.uint64(64 - self.bits)
        return (residues << shift).view(np.int64) >> np.int64(shift)

    def decode(self, residues: Residues) -> Floats:
        """Residues to values; exact up to 2^53 steps.

        >>> ring = Ring(0.25, 32)
        >>> ring.decode(ring.reduced(ring.encode([1.5, -2.0]) + ring.encode([0.25, 1.0])))
        array([ 1.75, -1.  ])
        """
        return self.integers(residues).astype(np.float64) * self.step

    def to_bytes(self, residues: Residues) -> bytes:
        return residues.astype(self.wire).tobytes()

    def from_bytes(self, data: bytes) -> Residues:
        """The residues of a message; bits beyond the modulus are cut off, so that anything is a residue."""
        return self.reduced(np.frombuffer(data, dtype=self.wire).astype(np.uint64))


def ring_of(network: Network) -> Ring:
    """The ring of a network: the finest grid of its devices, and the smallest word in which the sum does not wrap.

    >>> ring_of(Network.uniform(num_devices=12, noise_std=0.05, dimension=40))
    Ring(step=5.960464477539063e-08, bits=32)
    """
    step = min(grid_of(std).step for std in _spreads(network))
    for bits in _WORDS:
        if wrap_probability(network, Ring(step, bits)) < MOST_WRAPS:
            return Ring(step, bits)
    raise NetworkError(
        f"the sum does not fit 64 bits on a grid of {step:.3g}: noise_std and weight·clip_norm must lie closer together"
    )


def wrap_probability(network: Network, ring: Ring) -> float:
    """A bound on the probability that any coordinate of the sum wraps around, over the noise.

        Pr ≤ 2r·exp(−x²/2Σσ̂²),   x = 2^(B−1)h − Σ w C

    Holds for: discrete Gaussians of deviation σ̂, which are sub-Gaussian with that parameter (Canonne et al. 2020).
    """
    d = network.devices
    spare = ring.step * (2.0 ** (ring.bits - 1) - 1) - sum(np.multiply(d.column("weight"), d.column("clip_norm")))
    variance = sum(grid_of(std).sampled_std ** 2 for std in d.column("noise_std") if std > 0)
    if spare <= 0:
        return 1.0
    return min(1.0, 2 * network.coordinates * math.exp(-(spare**2) / (2 * variance))) if variance else 0.0


def _spreads(network: Network) -> list[float]:
    """The deviations that make the grid; without any noise, the sizes of the features."""
    d = network.devices
    noise = [std for std in d.column("noise_std") if std > 0]
    sizes = [w * c for w, c in zip(d.column("weight"), d.column("clip_norm"), strict=True) if w > 0]
    return noise or sizes or [1.0]
