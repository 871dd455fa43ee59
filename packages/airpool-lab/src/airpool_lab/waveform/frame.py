"""OFDM with a cyclic prefix, and noise guards around it.

A frame of one device: guard, then for every OFDM symbol its prefix and its body, then guard. Transforms are unitary. In
the guards a device transmits fresh noise of its own, so that it is never received alone where it is early or late.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats

Symbols = NDArray[np.complex128]


@dataclass(frozen=True)
class Frame:
    """subcarriers: N of a body. active: those that carry symbols. prefix, guard: their lengths in samples.

    guard_db: power of the guards' noise above that of the noise in a body, per sample.
    """

    subcarriers: int = 64
    active: int = 20
    prefix: int = 16
    guard: int = 0
    guard_db: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.active < self.subcarriers:
            raise ValueError(f"active={self.active} must be from 1 to {self.subcarriers - 1}: DC carries nothing")
        if not 0 <= self.prefix <= self.subcarriers:
            raise ValueError(f"prefix={self.prefix} must be from 0 to {self.subcarriers}")
        if self.guard < 0:
            raise ValueError(f"guard={self.guard} must be >= 0")
        if not abs(self.guard_db) <= 300:
            raise ValueError(f"guard_db={self.guard_db} must be from -300 to 300")

    @property
    def bins(self) -> NDArray[np.int64]:
        """Frequencies of the active subcarriers, around DC, which is left out."""
        above = (self.active + 1) // 2
        return np.concatenate([np.arange(1, above + 1), np.arange(above - self.active, 0)])

    def bodies(self, symbols: int) -> int:
        """Number of OFDM symbols that carry `symbols` symbols."""
        return -(-symbols // self.active)

    def length(self, symbols: int) -> int:
        """Samples of a frame."""
        return self.bodies(symbols) * (self.subcarriers + self.prefix) + 2 * self.guard

    @property
    def guard_std(self) -> float:
        """Noise of a guard's sample, where a symbol's is 1."""
        return float(np.sqrt(self.active / self.subcarriers) * 10 ** (self.guard_db / 20))

    def energy(self, symbols: int) -> float:
        """Energy of the noise in a whole frame over that in its symbols: what prefix and guards cost."""
        used = self.bodies(symbols) * self.active
        bodies = self.bodies(symbols) * (1 + self.prefix / self.subcarriers)
        return float((bodies * self.active + 2 * self.guard * self.guard_std**2) / used)


def modulate(symbols: Symbols, frame: Frame) -> Symbols:
    """Samples (..., length) of symbols (..., c); silent in the guards.

    >>> f = Frame(guard=2)
    >>> bool(np.allclose(demodulate(modulate(np.arange(25.0) + 0j, f), f, 25), np.arange(25)))
    True
    """
    c, bodies = symbols.shape[-1], frame.bodies(symbols.shape[-1])
    grid = np.zeros((*symbols.shape[:-1], bodies * frame.active), dtype=np.complex128)
    grid[..., :c] = symbols
    spectrum = np.zeros((*symbols.shape[:-1], bodies, frame.subcarriers), dtype=np.complex128)
    spectrum[..., frame.bins] = grid.reshape(*symbols.shape[:-1], bodies, frame.active)
    body = np.fft.ifft(spectrum, norm="ortho", axis=-1)
    samples = np.concatenate([body[..., frame.subcarriers - frame.prefix :], body], axis=-1)
    samples = samples.reshape(*symbols.shape[:-1], -1)
    return np.pad(samples, [(0, 0)] * (samples.ndim - 1) + [(frame.guard, frame.guard)])


def demodulate(samples: Symbols, frame: Frame, symbols: int) -> Symbols:
    """The symbols (..., c) in a frame that begins with its first sample; prefix and guards are left out."""
    bodies = frame.bodies(symbols)
    inside = samples[..., frame.guard : frame.length(symbols) - frame.guard]
    body = inside.reshape(*samples.shape[:-1], bodies, frame.subcarriers + frame.prefix)[..., frame.prefix :]
    spectrum = np.fft.fft(body, norm="ortho", axis=-1)[..., frame.bins]
    return spectrum.reshape(*samples.shape[:-1], -1)[..., :symbols]


def guards(noise: Symbols, frame: Frame, symbols: int) -> Symbols:
    """Standard complex noise (..., 2·guard) in its place in a frame, as loud as it is where a symbol's noise is 1."""
    out = np.zeros((*noise.shape[:-1], frame.length(symbols)), dtype=np.complex128)
    out[..., : frame.guard] = noise[..., : frame.guard]
    out[..., out.shape[-1] - frame.guard :] = noise[..., frame.guard :]
    return frame.guard_std * out


def per_symbol(values: Floats | Symbols, frame: Frame, symbols: int) -> Symbols:
    """Values of every active subcarrier, (..., active), as those of every symbol, (..., c)."""
    return np.asarray(values, dtype=np.complex128)[..., np.arange(symbols) % frame.active]
