"""One uplink, all devices at once: downlink pilot → estimate → pre-equalised frames → sum of samples → symbols.

By reciprocity a device receives its own uplink channel in the server's pilot. It divides every symbol by its estimate;
what is left of multipath, timing, carrier and estimate is ρ, a factor for each symbol, and what leaks between symbols.

On their way samples meet amplifier, multipath, timing and carrier offsets. Everything but the amplifier is linear.
Offsets are in samples (early < 0), carrier offsets in subcarrier spacings.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats
from airpool_lab.waveform.frame import Frame, Symbols, demodulate, guards, modulate, per_symbol


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


@dataclass(frozen=True)
class Impairments:
    """Impairments of a radio; none by default.

    num_taps, decay, direct: taps of the multipath, their decay, and the power share of a direct path.
    pilot_noise_std: √E|e|² of a device's estimate of one subcarrier. timing: largest offset, in samples, early or late.
    carrier_std: of the carrier offset, in subcarrier spacings. phase_std: of the phase noise, radians a sample.
    limit: largest amplitude of a sample that the amplifier sends.
    """

    num_taps: int = 1
    decay: float = 0.5
    direct: float = 1.0
    pilot_noise_std: float = 0.0
    timing: int = 0
    carrier_std: float = 0.0
    phase_std: float = 0.0
    limit: float = np.inf

    def __post_init__(self) -> None:
        for name, least in (("num_taps", 1), ("timing", 0)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name}={value} must be >= {least}")
        for name in ("pilot_noise_std", "carrier_std", "phase_std"):
            if not 0 <= (value := getattr(self, name)) < np.inf:
                raise ValueError(f"{name}={value} must be >= 0 and finite")
        for name in ("decay", "limit"):
            if not (value := getattr(self, name)) > 0:
                raise ValueError(f"{name}={value} must be > 0")
        if not 0 <= self.direct <= 1:
            raise ValueError(f"direct={self.direct} must be from 0 to 1")


@dataclass(frozen=True, eq=False)
class Uplink:
    """K devices in n inferences: their paths, and their estimates of every symbol's subcarrier, (n, K, c).

    margin: samples before and after the frame that are kept, so that no device's are lost.
    """

    frame: Frame
    paths: Paths
    estimate: Symbols
    margin: int
    limit: float = np.inf

    @property
    def symbols(self) -> int:
        return self.estimate.shape[-1]

    def sent(self, symbols: Symbols, guard_noise: Symbols | None = None) -> tuple[Symbols, NDArray[np.bool_]]:
        """Transmitted samples (..., K, length) of symbols (..., K, c); whether each amplifier clips, (..., K).

        guard_noise: (..., K, 2·guard), complex, in the unit of the symbols' noise.
        """
        sent = modulate(symbols / self.estimate, self.frame)
        if guard_noise is not None:
            sent = sent + guards(guard_noise, self.frame, self.symbols)
        if np.isinf(self.limit):
            return sent, np.zeros(sent.shape[:-1], dtype=np.bool_)
        return amplified(sent, self.limit)

    def arriving(self, sent: Symbols) -> Symbols:
        """Noiseless received samples of each device, (..., K, samples)."""
        return propagated(sent, self.paths, self.frame, margin=self.margin)

    def samples(self, symbols: Symbols, guard_noise: Symbols | None = None) -> Symbols:
        """Received samples for symbols (..., K, c): `sent`, then `arriving`."""
        return self.arriving(self.sent(symbols, guard_noise)[0])

    def received(self, samples: Symbols) -> Symbols:
        """The server's symbols (..., c) in samples (..., samples).

        Its window begins half a prefix early, so that a device may be as early as late; the known phase is taken out.
        """
        back, start = self.frame.prefix // 2, self.margin
        window = samples[..., start - back : start - back + self.frame.length(self.symbols)]
        turn = np.exp(2j * np.pi * self.frame.bins * back / self.frame.subcarriers)
        return demodulate(window, self.frame, self.symbols) * per_symbol(turn, self.frame, self.symbols)


def uplink(
    shape: tuple[int, int], symbols: int, frame: Frame, impairments: Impairments, rng: np.random.Generator
) -> Uplink:
    """A draw of all that is random, for (inferences, devices)."""
    i = impairments
    margin = i.timing + frame.prefix // 2
    taps = np.sqrt(1 - i.direct) * multipath(shape, num_taps=i.num_taps, decay=i.decay, rng=rng)
    taps[..., 0] += np.sqrt(i.direct)
    total = frame.length(symbols) + i.num_taps - 1 + 2 * margin
    paths = Paths(
        taps,
        rng.integers(-i.timing, i.timing + 1, shape).astype(np.float64),
        i.carrier_std * rng.standard_normal(shape),
        wander((*shape, total), std=i.phase_std, rng=rng) if i.phase_std else None,
    )
    known = response(taps, frame)
    normals = rng.standard_normal((2, *known.shape)) * (i.pilot_noise_std / np.sqrt(2))
    return Uplink(frame, paths, per_symbol(known + normals[0] + 1j * normals[1], frame, symbols), margin, i.limit)


@dataclass(frozen=True, eq=False)
class Measured:
    """Errors of a waveform, measured on symbols. ratio: ρ of every symbol, (n, K, c).

    csi_error_std, phase_error_std: of the symbol-level channel with the same spread of ρ, outputs and not guesses.
    residual: power that leaks between symbols, over that of the symbols.
    """

    ratio: Symbols
    residual: float

    @property
    def csi_error_std(self) -> float:
        return float(np.sqrt(2 * np.var(np.log(np.abs(self.ratio)))))

    @property
    def phase_error_std(self) -> float:
        return float(np.std(np.angle(self.ratio)))


def measured(link: Uplink, rng: np.random.Generator, *, patterns: int = 16) -> Measured:
    """ρ and leakage between symbols, measured on random QPSK symbols, one device at a time."""
    shape = link.estimate.shape
    ratio, power = np.zeros(shape, dtype=np.complex128), 0.0
    for _ in range(patterns):
        sent = np.exp(0.5j * np.pi * rng.integers(0, 4, shape))
        got = link.received(link.samples(sent))
        ratio += got / sent / patterns
        power += float(np.mean(np.abs(got) ** 2)) / patterns
    # The mean over patterns keeps a share 1/patterns of what leaks.
    leak = max(power - float(np.mean(np.abs(ratio) ** 2)), 0.0) * patterns / max(patterns - 1, 1)
    return Measured(ratio, leak)
