"""The discrete Gaussian on the integers, from random bits by one table lookup.

    Pr(X = j) = e^(−j²/2s²) / Σ_i e^(−i²/2s²)        written N_Z(0, s²); here s = SPREAD, always

Walker's alias table, in integers throughout: 256 random bits choose one of 2^16 columns and a height in it. A draw
reads 64 of them, and the other 192 only to settle a tie. It is within a total variation of 2^−188 (`TABLE_ERROR`) of
N_Z(0, s²); proof: docs/proofs/privacy.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Integers

Words = NDArray[np.uint64]
# n bytes from n: os.urandom, or the `bytes` method of a seeded generator.
Entropy = Callable[[int], bytes]

SPREAD = 2**11
TABLE_ERROR = 2.0**-188

_COLUMN_BITS = 16
_HIGH_BITS = 64 - _COLUMN_BITS
_LOW_BITS = 192
_COLUMNS = 2**_COLUMN_BITS
_HEIGHT = 2 ** (_HIGH_BITS + _LOW_BITS)
_ZERO = _COLUMNS // 2
# Table and scratch of one block stay in a core's cache.
_BLOCK = 2**15


@dataclass(frozen=True)
class SamplingTable:
    """An alias table: a height below high·2^192 + low keeps the column; column i stands for i − N/2."""

    high: Words
    low: tuple[int, ...]
    alias: Integers


@cache
def table() -> SamplingTable:
    """The table of N_Z(0, SPREAD²): public, the same everywhere, built on first use."""
    # Vose's construction, exact: a column with room to spare is topped up from one that overflows.
    left = _weights()
    threshold, alias = [_HEIGHT] * _COLUMNS, list(range(_COLUMNS))
    short = [i for i, weight in enumerate(left) if weight < _HEIGHT]
    long = [i for i, weight in enumerate(left) if weight > _HEIGHT]
    while short:
        i, donor = short.pop(), long[-1]
        threshold[i], alias[i] = left[i], donor
        left[donor] -= _HEIGHT - left[i]
        if left[donor] <= _HEIGHT:
            long.pop()
        if left[donor] < _HEIGHT:
            short.append(donor)
    high, other = np.array([t >> _LOW_BITS for t in threshold], dtype=np.uint64), np.array(alias, dtype=np.int64)
    # All live noise depends on this table.
    high.setflags(write=False)
    other.setflags(write=False)
    return SamplingTable(high=high, low=tuple(t % 2**_LOW_BITS for t in threshold), alias=other)


def _weights() -> list[int]:
    """W_j for j = −N/2 … N/2−1: how many of 2^256 outcomes the value j gets; in fixed point with 384 bits."""
    unit = 2**384
    with localcontext() as context:
        context.prec = 130
        ratio = int((Decimal(-1) / (2 * SPREAD**2)).exp() * unit)
    step = ratio * ratio // unit
    bell = [unit]
    for _ in range(1, _ZERO):
        bell.append(bell[-1] * ratio // unit)
        ratio = ratio * step // unit
    total = 2 * sum(bell) - unit
    half = [value * 2**256 // total for value in bell]
    half[0] += 2**256 - (2 * sum(half) - half[0])
    # −N/2 has no partner on the other side, so it gets nothing.
    return [0, *half[:0:-1], *half]


def integers(words: Words, more: Entropy) -> Integers:
    """One value of N_Z(0, SPREAD²) for each 64-bit word; `more` gives the bits that settle a tie.

    Holds for: uniform and independent words and bytes of `more` → independent values, each within TABLE_ERROR
    of N_Z(0, SPREAD²). A pure function of its bits; no branch depends on them but that of a tie.

    >>> integers(np.array([2**15, 2**15 + 3], dtype=np.uint64), lambda n: bytes(n))
    array([0, 3])
    """
    tab = table()
    column = (words & np.uint64(_COLUMNS - 1)).astype(np.intp)
    height = words >> np.uint64(_COLUMN_BITS)
    high = tab.high[column]
    keep = height < high
    for i in np.flatnonzero(height == high):
        keep.flat[i] = int.from_bytes(more(_LOW_BITS // 8), "little") < tab.low[column.flat[i]]
    return np.where(keep, column, tab.alias[column]) - _ZERO


def combination(first: int, second: int, size: int, entropy: Entropy) -> Integers:
    """`size` independent values of first·X + second·Y, where X, Y ~ N_Z(0, SPREAD²)."""
    out = np.empty(size, dtype=np.int64)
    for start in range(0, size, _BLOCK):
        part = out[start : start + _BLOCK]
        words = np.frombuffer(entropy(16 * part.size), dtype="<u8").astype(np.uint64, copy=False)
        x = integers(words, entropy)
        np.multiply(x[: part.size], first, out=part)
        part += second * x[part.size :]
    return out
