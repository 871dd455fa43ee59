"""Numbers of a guarantee as text: an upper bound is rounded up, a lower bound down, and what was given stays whole.

What lies within 10⁻¹² of a round number, relative to it, is that number: 1 − 0.99 is printed as 0.01.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

_NOISE = 1e-12  # relative: of floating-point arithmetic, not of a bound


def shown(value: float, digits: int = 3) -> str:
    """ε as text, rounded up: the printed number is a valid bound too.

    >>> shown(2.0631), shown(float("inf")), shown(0.00012), shown(1e-13), shown(1 - 0.99, 2)
    ('2.064', 'inf', '0.001', '0.001', '0.01')
    """
    return _fixed(value, digits, lambda scaled: math.ceil(scaled - _noise(scaled)))


def shown_below(value: float, digits: int = 3) -> str:
    """A lower bound as text, rounded down: never above it.

    >>> shown_below(1.9999), shown_below(2.0), shown_below(0.29, 2), shown_below(math.inf)
    ('1.999', '2.000', '0.29', 'inf')
    """
    return _fixed(value, digits, lambda scaled: math.floor(scaled + _noise(scaled)))


def up(value: float, digits: int = 4) -> str:
    """A bound to some digits, never below it.

    >>> up(0.12345), down(0.12345), down(-0.12345), up(1.2301e-7, 2), up(1 - 0.99, 2), down(0.99999 - 0.98999, 2)
    ('0.1235', '0.1234', '-0.1235', '1.3e-07', '0.01', '0.01')
    """
    return _digits(value, digits, ROUND_CEILING)


def down(value: float, digits: int = 4) -> str:
    """A bound to some digits, never above it."""
    return _digits(value, digits, ROUND_FLOOR)


def full(value: float) -> str:
    """A number that somebody gave, such as δ or a budget, with all of its digits.

    >>> full(1e-5), full(20.0), full(1.23456789e-5), full(1234567.0)
    ('1e-05', '20', '1.23456789e-05', '1234567')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value)).removesuffix(".0")


def spread(value: float) -> str:
    """A standard deviation or error to two digits, so that a small one is not printed as 0.

    >>> spread(0.00312), spread(0.0123), spread(0.00004), spread(1.25)
    ('0.0031', '0.012', '0.000040', '1.2')
    """
    digits = 1 - math.floor(math.log10(value)) if value > 0 and math.isfinite(value) else 1
    return f"{value:.{max(digits, 0)}f}"


def _noise(scaled: float) -> float:
    """The most that a number in units of its last digit shown may be off, and still be the round one."""
    return min(_NOISE * abs(scaled), 1e-9)


def _fixed(value: float, digits: int, towards: Callable[[float], int]) -> str:
    if math.isinf(value):
        return str(float(value))
    scale = 10**digits
    return f"{towards(value * scale) / scale + 0.0:.{digits}f}"  # 0 is never −0


def _digits(value: float, digits: int, rounding: str) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    # The number towards which it is rounded, unless it is noise away from one on the other side.
    value += _NOISE * abs(value) * (-1 if rounding == ROUND_CEILING else 1)
    exponent = math.floor(math.log10(abs(value))) - digits + 1
    found = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(exponent), rounding)
    return f"{float(found):.{digits}g}"


def number(value: float) -> float | str:
    """JSON has no infinity: it becomes the string "inf"."""
    return "inf" if math.isinf(value) else float(value)


def numbers(values: Iterable[float]) -> list[float | str]:
    return [number(value) for value in values]


def because(reasons: Mapping[str, str], name: str) -> str:
    """The reason of an infinite ε in brackets; nothing of a finite one."""
    return f" ({reasons[name]})" if name in reasons else ""
