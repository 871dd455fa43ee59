"""A privacy loss on the grid of another accountant: the multiples of an interval of its choice."""

import numpy as np

from airpool._support.arrays import positive
from airpool._support.rounding import up
from airpool.privacy.compose import Loss

# Multiples that a loss may lie on, at most.
_MOST = 2**20


def least_interval(loss: Loss) -> float:
    """The smallest interval whose multiples this loss may be put on."""
    return loss.step * (len(loss.mass) - 1) / _MOST


def on_multiples(loss: Loss, interval: float) -> tuple[dict[int, float], float, float]:
    """The mass of each multiple, the interval, and the mass of an infinite loss, as dp-accounting takes them.

    Mass between two multiples is shared so that the curve is right at every multiple and above the truth in between.
    """
    width = float(positive("interval", interval))
    if width < (least := least_interval(loss)):
        raise ValueError(f"interval={width:g} must be at least {up(least, 2)} for losses as large as these")
    at = loss.step * np.arange(loss.lowest, loss.lowest + len(loss.mass), dtype=np.float64) / width
    below = np.floor(at)
    above = np.expm1(-(at - below) * width) / np.expm1(-width)
    mass, first = np.zeros(int(below[-1] - below[0]) + 2), int(below[0])
    for where, share in ((below, 1 - above), (below + 1, above)):
        np.add.at(mass, where.astype(np.int64) - first, loss.mass * share * (1 + 1e-12))
    return dict(enumerate(mass.tolist(), start=first)), width, loss.infinite
