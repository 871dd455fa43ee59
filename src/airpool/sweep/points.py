"""Points of a sweep: plain parameters, grids of them, and the seed that each point has of itself."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

Point = dict[str, Any]

# Passed in by the sweep: a point cannot have them.
RESERVED = ("rng",)


def grid(**axes: Any) -> list[Point]:
    """Every combination of the values given for each name; the last name varies fastest.

    A value that is no list, tuple, range or array stands for itself. Grids are lists: `grid(...) + grid(...)`, or any
    list of dictionaries, is as good.

    >>> grid(devices=[4, 12], noise_std=0.05)
    [{'devices': 4, 'noise_std': 0.05}, {'devices': 12, 'noise_std': 0.05}]
    """
    values = [_values(name, axis) for name, axis in axes.items()]
    return [dict(zip(axes, combination, strict=True)) for combination in product(*values)]


def _values(name: str, axis: Any) -> list[Any]:
    if not isinstance(axis, list | tuple | range) and not getattr(axis, "shape", ()):
        return [plain(axis)]
    found = plain(list(axis) if isinstance(axis, range) else axis)
    if not found:
        raise ValueError(f"{name} has no values: a grid without points")
    return found


def plain(value: Any) -> Any:
    """The value as JSON would give it back, on whichever backend it was made: numbers of NumPy and torch are Python's.

    >>> import numpy as np
    >>> plain({"accuracy": np.float32(0.5), "found": (np.int64(3), True), "least": -np.inf})
    {'accuracy': 0.5, 'found': [3, True], 'least': -inf}
    """
    return json.loads(json.dumps(value, default=_of_array))


def _of_array(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} is no number, text, true, false or none, nor a list of those")


def is_cell(value: Any) -> bool:
    """Whether a plain value fits into a table: a scalar, or lists of scalars."""
    return all(map(is_cell, value)) if isinstance(value, list) else not isinstance(value, dict)


def checked(points: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The points as plain data, each once: what is named twice has one row."""
    found: dict[str, Point] = {}
    for given in points:
        point = {}
        for name, value in given.items():
            if name in RESERVED:
                raise ValueError(f"{name!r} cannot be a parameter: the sweep passes it in")
            try:
                point[name] = plain(value)
            except TypeError as error:
                raise ValueError(f"{name}: {error}") from None
            if not is_cell(point[name]) or _has_nan(point[name]):
                raise ValueError(f"{name}={value!r} must be a number, text, true, false or none, or a list of those")
        found.setdefault(canonical(point), point)
    return list(found.values())


def _has_nan(value: Any) -> bool:
    # A point with NaN in it would never be found again: it does not equal itself.
    return any(map(_has_nan, value)) if isinstance(value, list) else isinstance(value, float) and math.isnan(value)


def canonical(point: Point) -> str:
    """One text for a point, whatever the order of its parameters. A function may tell 1 and 1.0 apart: they are two."""
    return json.dumps(point, sort_keys=True, separators=(",", ":"))


def seed_of(point: Point, seed: int) -> int:
    """The point's own seed, from the sweep's seed and its parameters alone: not from its order, nor from the worker.

    The numbers 1 and 1.0 have the same one, as they are written either way. 53 bits, which every reader of JSON keeps.

    >>> seed_of({"a": 1, "b": 2}, 0) == seed_of({"b": 2.0, "a": 1}, 0) != seed_of({"a": 1, "b": 2}, 1)
    True
    """
    import numpy as np

    words = np.frombuffer(hashlib.sha256(canonical(_as_numbers(point)).encode()).digest(), "<u4")
    return int(np.random.SeedSequence([seed, *words.tolist()]).generate_state(1, np.uint64)[0] >> np.uint64(11))


def _as_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_as_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
