"""Propagation of a device's samples to the server: amplifier, multipath, timing and carrier offsets.

Everything but the amplifier is linear. Offsets are in samples (early < 0), carrier offsets in subcarrier spacings.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats
from airpool.radio.waveform.frame import Frame, Symbols


@dataclass(frozen=True, eq=False)
class Paths:
    """The ways of K devices to the server, all with a leading axis K, or (..., K).

    taps: multipath, (..., K, T), at delays 0, 1, ... samples. timing: how late a device transmits. carrier: its offset.
    phase: random walk of its oscillator, (..., K, samples), in radians; None without phase noise.
    """

    taps: Symbols
    timing: Floats
    carrier: Floats
    phase: Floats | None = None

    @classmethod
    def ideal(cls, num_devices: int) -> Self:
        """One tap of 1, on time and on frequency."""
        return cls(np.ones((num_devices, 1), dtype=np.complex128), np.zeros(num_devices), np.zeros(num_devices))

    def changed(self, **changes: NDArray[np.generic]) -> Self:
        return replace(self, **changes)


def multipath(shape: tuple[int, ...], *, num_taps: int, decay: float, rng: np.random.Generator) -> Symbols:
    """Rayleigh taps (*shape, num_taps) of unit power in all, each weaker than the one before by a factor `decay`."""
    power = decay ** np.arange(num_taps)
    normals = rng.standard_normal((2, *shape, num_taps))
    return (normals[0] + 1j * normals[1]) * np.sqrt(power / power.sum() / 2)


def response(taps: Symbols, frame: Frame) -> Symbols:
    """The channel at every active subcarrier, (..., K, active)."""
    return np.fft.fft(taps, frame.subcarriers, axis=-1)[..., frame.bins]


def wander(shape: tuple[int, ...], *, std: float, rng: np.random.Generator) -> Floats:
    """Phase noise: a random walk of `std` radians a sample along the last axis."""
    return np.cumsum(std * rng.standard_normal(shape), axis=-1)


def phasors(step: Floats, first: int, count: int) -> Symbols:
    """exp(j·step·i) for i = first, first + 1, ..., (..., count): products of a few exponentials, which are slow.

    >>> bool(np.allclose(phasors(np.array([0.3]), -5, 40), np.exp(0.3j * np.arange(-5, 35)), rtol=0, atol=1e-14))
    True
    """
    block = 16
    coarse = np.exp(1j * step[..., None] * (first + block * np.arange(-(-count // block))))
    fine = np.exp(1j * step[..., None] * np.arange(block))
    return (coarse[..., :, None] * fine[..., None, :]).reshape(*step.shape, -1)[..., :count]


def propagated(samples: Symbols, paths: Paths, frame: Frame, *, margin: int) -> Symbols:
    """Received samples of each device, (..., K, margin + samples + taps − 1 + margin).

    A frame on time begins at `margin`. Whole numbers of samples of timing are exact; fractions are band-limited
    interpolation.
    """
    length = samples.shape[-1]
    total = length + paths.taps.shape[-1] - 1 + 2 * margin
    size = 1 << int(np.ceil(np.log2(total)))
    # Frequencies in the order of the transform: 0, 1, ..., −2, −1.
    delay = np.fft.ifftshift(phasors(-2 * np.pi / size * (margin + paths.timing), -size // 2, size), axes=-1)
    spectrum = np.fft.fft(samples, size, axis=-1) * np.fft.fft(paths.taps, size, axis=-1) * delay
    out = np.fft.ifft(spectrum, axis=-1)[..., :total]
    if np.any(paths.carrier):
        start = -margin - frame.guard - frame.prefix
        out = out * phasors(2 * np.pi / frame.subcarriers * paths.carrier, start, total)
    return out if paths.phase is None else out * np.exp(1j * paths.phase[..., :total])


def amplified(samples: Symbols, limit: float | Floats) -> tuple[Symbols, NDArray[np.bool_]]:
    """Samples as an amplifier with this largest amplitude sends them, and whether it clipped any, (...)."""
    size = np.abs(samples)
    bound = np.broadcast_to(np.asarray(limit, dtype=np.float64)[..., None], size.shape)
    over = size > bound
    return np.where(over, samples * bound / np.where(over, size, 1.0), samples), np.asarray(over.any(axis=-1))
