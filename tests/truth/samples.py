"""What every received sample tells of a device: real covariances, built from the samples that devices transmit.

OFDM is written out as sums of exponentials; of airpool's waveform only the numbers of a draw are read (taps, offsets,
estimates). Real and imaginary parts are kept apart, so noise that is not circular counts as what it is.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Floats = NDArray[np.float64]


def transmitted(link: Any, device: int, run: int) -> tuple[Floats, Floats]:
    """Real maps to all received samples, I above Q: from 2c real coordinates of c symbols, and from the guards."""
    frame, paths, c = link.frame, link.paths, link.estimate.shape[-1]
    n, length = frame.subcarriers, frame.length(c)
    taps = paths.taps[run, device]
    total = length + len(taps) - 1 + 2 * link.margin
    columns = []
    for s in range(c):
        body, bin_ = divmod(s, frame.active)
        time = np.arange(-frame.prefix, n)
        wave = np.zeros(length, dtype=np.complex128)
        start = frame.guard + body * (n + frame.prefix)
        wave[start : start + n + frame.prefix] = np.exp(2j * np.pi * frame.bins[bin_] * time / n) / np.sqrt(n)
        columns.append(wave / link.estimate[run, device, s])
    own = []
    for g in range(2 * frame.guard):
        wave = np.zeros(length, dtype=np.complex128)
        wave[g if g < frame.guard else length - 2 * frame.guard + g] = frame.guard_std
        own.append(wave)
    late = int(paths.timing[run, device])
    assert late == paths.timing[run, device], "whole samples only"

    def received(wave: NDArray[np.complex128]) -> NDArray[np.complex128]:
        out = np.zeros(total, dtype=np.complex128)
        spread = np.convolve(wave, taps)
        out[link.margin + late : link.margin + late + len(spread)] += spread[: total - link.margin - late]
        time = np.arange(total) - link.margin - frame.guard - frame.prefix
        out *= np.exp(2j * np.pi * paths.carrier[run, device] * time / n)
        return out if paths.phase is None else out * np.exp(1j * paths.phase[run, device][:total])

    def real(waves: list[NDArray[np.complex128]]) -> Floats:
        """Columns in the order Re, Im of each."""
        if not waves:
            return np.zeros((2 * total, 0))
        both = [x for wave in map(received, waves) for x in (wave, 1j * wave)]
        return np.array([np.concatenate([x.real, x.imag]) for x in both]).T

    return real(columns), real(own)


def leverages(network: Any, link: Any, *, noisy: int, run: int = 0, receiver: float = 1e-11) -> Floats:
    """Largest squared distance that a feature of length 1 of each device is told from 0 by.

    noisy: real coordinates that carry noise, the dimension or one more where the last symbol is filled up.
    receiver: its noise, as a share of the power in the loudest direction.
    """
    std = np.array(network.devices.column("noise_std"))
    maps = [transmitted(link, k, run) for k in range(network.devices.count)]
    total = np.zeros((len(maps[0][0]),) * 2)
    for s, (a, g) in zip(std, maps, strict=True):
        total += s**2 * (a[:, :noisy] @ a[:, :noisy].T + g @ g.T)
    values, vectors = eigh(total)
    whitened = vectors / np.sqrt(np.maximum(values, 0.0) + receiver * values[-1])
    r = network.dimension
    return np.array([float(np.linalg.norm(whitened.T @ a[:, :r], 2)) ** 2 for a, _ in maps])
