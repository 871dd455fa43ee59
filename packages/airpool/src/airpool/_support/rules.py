"""Checks of a network's fields: what a number, a word or a value per device may be. Errors name field and value."""

import math
from collections.abc import Callable, Iterable, Sequence
from enum import EnumType
from functools import cache
from numbers import Integral
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from airpool._support.errors import AirpoolError


class NetworkError(AirpoolError, ValueError):
    """A value that a network cannot have; the message names the field, the value and what is allowed.

    >>> from airpool import Devices
    >>> Devices(count=0)
    Traceback (most recent call last):
    airpool._support.rules.NetworkError: devices.count=0 must be a whole number >= 1
    """


PerDevice = tuple[float, ...]
_LARGEST_INT = 10**300  # well within the range of a float


class Rule(NamedTuple):
    """A check of a number: the text of its error, the test, and the magnitudes allowed for values other than 0."""

    allowed: str
    ok: Callable[[float], bool]
    least: float = 0.0
    most: float = math.inf


POSITIVE = Rule("must be > 0 and finite", lambda x: 0 < x < math.inf)
NOT_NEGATIVE = Rule("must be >= 0 and finite", lambda x: 0 <= x < math.inf)
PROBABILITY = Rule("must be between 0 and 1", lambda x: 0 <= x <= 1)
BETWEEN = Rule("must be > 0 and < 1", lambda x: 0 < x < 1)
FINITE = Rule("must be finite", math.isfinite)
# Features may be arbitrarily small; divisors may not. Noise has a wider range, for the factors that calibration tries.
SIZE, LENGTH = (rule._replace(most=1e30) for rule in (NOT_NEGATIVE, POSITIVE))
SCALE, ERROR = (rule._replace(least=1e-30, most=1e30) for rule in (POSITIVE, NOT_NEGATIVE))
STD = NOT_NEGATIVE._replace(least=1e-50, most=1e50)
DECIBEL, SCORE = FINITE._replace(most=300.0), FINITE._replace(most=1e30)
MANY = range(1, 10**7 + 1)


def _number(where: str, value: Any, rule: Rule) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NetworkError(f"{where}={value!r} must be a number")
    if isinstance(value, int) and abs(value) > _LARGEST_INT:
        raise NetworkError(f"{where} has more than 300 digits, must be at most {min(rule.most, 1e300):g}")
    if math.isnan(value) or not rule.ok(float(value)):
        raise NetworkError(f"{where}={value} {rule.allowed}")
    if abs(value) > rule.most:
        below = f"from {-rule.most:g} to" if rule.ok(-1.0) else "at most"
        raise NetworkError(f"{where}={value} is too large: it must be {below} {rule.most:g}")
    if 0 < abs(value) < rule.least:
        raise NetworkError(f"{where}={value} is too small: it must be {'0 or ' * rule.ok(0.0)}at least {rule.least:g}")
    return float(value)


def _per_device(name: str, value: Any, count: int, rule: Rule) -> PerDevice:
    """One value for each device from a number, which stands for all, or from a sequence."""
    if getattr(value, "ndim", None) == 0:  # a number as NumPy or torch hold it
        value = value.item()
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (_number(name, value, rule),) * count
    values: list[Any] = [v.item() if hasattr(v, "item") else v for v in value]
    if len(values) != count:
        raise NetworkError(f"{name} has {len(values)} values for {count} devices; give one number or {count}")
    return tuple(_number(f"{name} of device {k}", v, rule) for k, v in enumerate(values))


def whole(where: str, value: Any, *, least: int = 1, most: int, allowed: str = "") -> int:
    value = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value  # of NumPy, too
    if isinstance(value, int) and abs(value) > _LARGEST_INT:
        raise NetworkError(f"{where} has more than 300 digits, must be at most {most}")
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (allowed and value > most):
        raise NetworkError(f"{where}={value!r} {allowed or f'must be a whole number >= {least}'}")
    if value > most:
        raise NetworkError(f"{where}={value} is too large: it must be at most {most}")
    return value


def checked(where: str, value: Any, rule: Any, count: int | None = None) -> Any:
    """The checked value: a number (with `count`, one per device), a whole number within a range, a bool, or a word."""
    if isinstance(rule, Rule):
        return _number(where, value, rule) if count is None else _per_device(where, value, count, rule)
    if isinstance(rule, range):
        return whole(where, value, least=rule[0], most=rule[-1])
    if rule is bool:
        if not isinstance(value, bool):
            raise NetworkError(f"{where}={value!r} must be true or false")
    elif value not in tuple(rule):
        raise NetworkError(f"{where}={value!r} must be one of {', '.join(rule)}")
    return rule(value) if isinstance(rule, EnumType) else value


@cache
def rules_of(kind: type) -> dict[str, Any]:
    """The rules of a class's fields: what they are annotated with, or the words of a Literal or an enum."""
    hints = get_type_hints(kind, include_extras=True)
    annotated = {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}
    words = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
    words |= {name: hint for name, hint in hints.items() if isinstance(hint, EnumType)}
    return annotated | words | {name: bool for name, hint in hints.items() if hint is bool}


def check(obj: Any, where: str = "", *, but: Sequence[str] = (), count: int | None = None) -> None:
    """Checks the fields that have a rule and stores numbers as floats; with a count, one per device."""
    for name, rule in rules_of(type(obj)).items():
        if name not in but:
            object.__setattr__(obj, name, checked(f"{where}{name}", getattr(obj, name), rule, count))


def number_or_word(text: str) -> float | str:
    """A setting in a text such as "nakagami:m=2"."""
    try:
        return float(text)
    except ValueError:
        return text.strip()
