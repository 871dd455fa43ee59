"""Random sequences of charges, and their ε by an oracle that shares no code with the product.

The oracle adds up privacy losses by their characteristic functions, from formulas written down here, and inverts the
sum by one Fourier transform: no grid of losses of one inference, no bounds, no rounding to a safe side. Every network
is small enough that all that is random about it can be listed.
"""

from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from scipy.special import ndtr

from airpool import Channel, Network, Ranking, Threshold
from airpool.network import Devices

DELTA = 1e-5
# Frequencies and losses of the inversion: sums of losses lie well inside, and die out long before the last frequency.
SIZE, REACH = 2**15, 200.0
FREQUENCY = 2 * np.pi * np.fft.fftfreq(SIZE, d=2 * REACH / SIZE)
LOSS = (np.arange(SIZE) - SIZE // 2) * (2 * REACH / SIZE)


@dataclass(frozen=True)
class Kind:
    """A network of which device 0 keeps a ledger. outage: of everybody, where the channel stands still."""

    name: str
    network: Network
    outage: float = 0.0


def kinds() -> list[Kind]:
    weight, noise = (0.05, 0.2, 0.15), (0.5, 1.5, 3.0)

    def net(participation: float | tuple[float, ...] = 1.0, **more: Any) -> Network:
        devices = Devices(count=3, weight=weight, noise_std=noise, participation=participation)
        return Network(devices=devices, **{"dimension": 3, **more})

    still = Channel(fading="rayleigh", outage=0.05, redrawn=False)
    return [
        Kind("certain", net()),
        Kind("like it", net()),
        Kind("long", net(dimension=6)),
        Kind("coin", net(participation=(0.4, 0.7, 0.9))),
        Kind("threshold", net(scheme=Threshold(score_noise_std=20.0, threshold=0.3))),
        Kind("ranking", net(scheme=Ranking(score_noise_std=30.0, num_selected=2))),
        Kind("still", net(channel=still), 0.05),
        Kind("still, like it", net(channel=still), 0.05),
        Kind("still, with a coin", net(participation=(0.4, 0.7, 0.9), channel=still), 0.05),
    ]


@dataclass
class Sequence:
    """Charges as the ledger books them (kind, epoch), and what really happened: inferences by draw of the channel."""

    booked: list[tuple[Kind, str]] = field(default_factory=list)
    drawn: dict[tuple[str, int], int] = field(default_factory=dict)


def sequence(rng: np.random.Generator, allowed: list[Kind], number: int, *, restarts: float) -> Sequence:
    """An air that restarts now and then, and a device that is sometimes not told of its epoch."""
    found, air = Sequence(), 0
    for _ in range(number):
        air += bool(rng.random() < restarts)
        kind = allowed[rng.integers(len(allowed))]
        found.booked.append((kind, f"air {air}" if rng.random() < 0.9 else ""))
        key = (kind.name, air)
        found.drawn[key] = found.drawn.get(key, 0) + 1
    return found


def true_epsilon(found: Sequence, kinds_by_name: dict[str, Kind], neighbours: str) -> float:
    """ε at DELTA of what really happened, the larger of both directions."""
    best = 0.0
    for forward in (True, False):
        transform = np.ones(SIZE, dtype=complex)
        together: dict[str, int] = {}
        for (name, _), inferences in found.drawn.items():
            if kinds_by_name[name].outage:
                transform *= _of_draw(kinds_by_name[name], neighbours, inferences)
            else:
                together[name] = together.get(name, 0) + inferences
        for name, inferences in together.items():
            transform *= _power(_of_one(kinds_by_name[name].network, neighbours, forward=forward), inferences)
        mass = np.fft.fftshift(np.fft.ifft(transform).real)
        assert abs(mass.sum() - 1) < 1e-9
        assert mass.min() > -1e-12
        low, high = 0.0, REACH
        for _ in range(60):
            middle = (low + high) / 2
            delta = float(mass @ -np.expm1(np.minimum(middle - LOSS, 0.0)))
            low, high = (middle, high) if delta > DELTA else (low, middle)
        best = max(best, low)
    return best


def _gaussian(mu2: float) -> np.ndarray:
    """E e^(−itL) of the loss N(μ²/2, μ²)."""
    return np.exp(-1j * FREQUENCY * mu2 / 2 - FREQUENCY**2 * mu2 / 2)


def _columns(network: Network) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    d = network.devices
    return np.array(d.weight) * d.column("clip_norm"), np.array(d.noise_std) ** 2, np.array(d.participation)


def _subsets(chance: np.ndarray):
    """Who of the others is received, and how likely that is."""
    for there in product((0, 1), repeat=len(chance)):
        yield np.array(there), float(np.prod(np.where(there, chance, 1 - chance)))


def _of_one(network: Network, neighbours: str, *, forward: bool) -> np.ndarray:
    """One inference over a channel without fading."""
    shift, variance, chance = _columns(network)
    size, own = shift[0] * (2 if neighbours == "replace" else 1), variance[0]
    if isinstance(network.scheme, Ranking):  # the scores alone, which everybody may see
        return _gaussian((1.0 / network.scheme.score_noise_std) ** 2)
    if isinstance(network.scheme, Threshold):
        # With the feature the score is highest (1 bit), without it 0; the others' scores are all highest.
        at = [float(ndtr((network.scheme.threshold - score) / network.scheme.score_noise_std)) for score in (1.0, 0.0)]
        here, there = at if forward else at[::-1]
        sent = sum(q * _gaussian(size**2 / (own + s @ variance[1:])) for s, q in _subsets(np.full(2, at[0])))
        moved = np.exp(-1j * FREQUENCY * np.log(here / there))
        return here * moved * sent + (1 - here) * np.exp(-1j * FREQUENCY * np.log((1 - here) / (1 - there)))
    if neighbours == "remove":
        assert np.all(chance == 1)
        return _removal(size, own, float(np.sum(variance[1:])), network.dimension, forward=forward)
    sent = sum(q * _gaussian(size**2 / (own + s @ variance[1:])) for s, q in _subsets(chance[1:]))
    return chance[0] * sent + (1 - chance[0])


def _removal(shift: float, own: float, rest: float, dimension: int, *, forward: bool) -> np.ndarray:
    """N(Δ, a) against N(0, b) in so many coordinates: in each the loss is quadratic in a normal z."""
    a, b = rest + own, rest
    out = np.ones(SIZE, dtype=complex)
    for j in range(dimension):
        centre = shift if j == 0 else 0.0
        # The loss at y: (ln(b/a) + y²/b − (y − c)²/a)/2, under y = c + √a·z, or its opposite under y = √b·z.
        sign, mean, std = (1.0, centre, np.sqrt(a)) if forward else (-1.0, 0.0, np.sqrt(b))
        square = sign * std**2 * (1 / b - 1 / a) / 2
        linear = sign * std * (mean / b - (mean - centre) / a)
        level = sign * (np.log(b / a) + mean**2 / b - (mean - centre) ** 2 / a) / 2
        spread = 1 + 2j * FREQUENCY * square
        out *= np.exp(-1j * FREQUENCY * level - (FREQUENCY * linear) ** 2 / (2 * spread)) / np.sqrt(spread)
    return out


@cache
def _given(kind: Kind, neighbours: str) -> list[tuple[float, np.ndarray]]:
    """Every outcome of the channel in which device 0 is on the air: how likely it is, and one inference given it."""
    shift, variance, chance = _columns(kind.network)
    size, own, on_air = shift[0] * (2 if neighbours == "replace" else 1), variance[0], 1 - kind.outage
    found = []
    for here, likely in _subsets(np.full(2, on_air)):
        sent = sum(q * _gaussian(size**2 / (own + (here * s) @ variance[1:])) for s, q in _subsets(chance[1:]))
        found.append((on_air * likely, chance[0] * sent + (1 - chance[0])))
    return found


def _of_draw(kind: Kind, neighbours: str, inferences: int) -> np.ndarray:
    """All inferences over one draw of the channel, which silences each device with the probability of an outage."""
    return (
        np.sum([likely * _power(once, inferences) for likely, once in _given(kind, neighbours)], axis=0) + kind.outage
    )


def _power(base: np.ndarray, times: int) -> np.ndarray:
    """By squaring, which is much faster than `**`."""
    out = np.ones_like(base, dtype=complex)
    while times:
        out, base, times = out * base if times % 2 else out, base * base, times // 2
    return out
