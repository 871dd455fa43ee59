"""Shamir's secret sharing: t of n shares give the secret, fewer than t say nothing about it.

The shares of a secret s are the values at x = 1, ..., n of a random polynomial of degree t − 1 whose value at 0 is s.
"""

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache

# 2^255 − 19: a field element has 32 bytes, and is an X25519 private key as it stands.
PRIME = 2**255 - 19
SIZE = 32


def random_element(prime: int = PRIME) -> int:
    return secrets.randbelow(prime)


def polynomial(secret: int, threshold: int, prime: int = PRIME) -> tuple[int, ...]:
    """Random coefficients, the secret first."""
    return (secret, *(random_element(prime) for _ in range(threshold - 1)))


def shares(coefficients: Sequence[int], points: Sequence[int], prime: int = PRIME) -> list[int]:
    """The polynomial's values at these points, none of which is 0.

    >>> shares((5, 2), (1, 2, 3), prime=7)
    [0, 2, 4]
    """
    if any(not 0 < x < prime for x in points):
        raise ValueError(f"points {tuple(points)} must be from 1 to {prime - 1}")
    found = []
    for x in points:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * x + coefficient) % prime
        found.append(value)
    return found


def secret(known: Mapping[int, int], prime: int = PRIME) -> int:
    """The secret from shares by point, as many as its threshold.

    >>> secret({1: 0, 3: 4}, prime=7)
    5
    """
    return sum(y * c for y, c in zip(known.values(), _at_zero(tuple(known), prime), strict=True)) % prime


@lru_cache(maxsize=64)
def _at_zero(points: tuple[int, ...], prime: int) -> tuple[int, ...]:
    """Lagrange's coefficients for the value at 0: ∏_{j≠i} x_j/(x_j − x_i)."""
    found = []
    for x in points:
        above, below = 1, 1
        for other in points:
            if other != x:
                above, below = above * other % prime, below * (other - x) % prime
        found.append(above * pow(below, -1, prime) % prime)
    return tuple(found)
