"""An infinite ε in JSON, and in text with its reason."""

from collections.abc import Iterable, Mapping

import numpy as np


def number(value: float) -> float | str:
    """JSON has no infinity: it becomes the string "inf"."""
    return "inf" if np.isinf(value) else float(value)


def numbers(values: Iterable[float]) -> list[float | str]:
    return [number(value) for value in values]


def because(reasons: Mapping[str, str], name: str) -> str:
    """The reason of an infinite ε in brackets; nothing of a finite one."""
    return f" ({reasons[name]})" if name in reasons else ""
