"""Points of a sweep: plain parameters, grids of them, and the seed of each."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

Point = dict[str, Any]
Row = dict[str, Any]


def grid(**axes: Any) -> list[Point]:
    """Every combination of the values given for each name; the last name varies fastest.

    A value that is no list, tuple, range or array stands for itself. Any list of dictionaries is a grid too.

    >>> grid(devices=[4, 12], noise_std=0.05)
    [{'devices': 4, 'noise_std': 0.05}, {'devices': 12, 'noise_std': 0.05}]
    """
    for name, axis in axes.items():
        several = isinstance(axis, list | tuple | range) or getattr(axis, "shape", ())
        axes[name] = plain(name, list(axis) if several else [axis])
        if not axes[name]:
            raise ValueError(f"{name} has no values: a grid without points")
    return [dict(zip(axes, combination, strict=True)) for combination in product(*axes.values())]


def plain(name: str, value: Any, *, refused: tuple[str, ...] = ()) -> Any:
    """The value as JSON returns it, so that types do not depend on the backend. No mappings; refused: "NaN" too."""

    def read(found: Any) -> float:
        if isinstance(found, dict) or found in refused:
            raise TypeError
        return float(found)

    try:
        text = json.dumps(value, default=lambda array: array.tolist())
        return json.loads(text, parse_constant=read, object_hook=read)
    except (AttributeError, TypeError):
        raise ValueError(f"{name}={value!r} must be a number, text, true, false or none, or a list of those") from None


def checked(points: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The points as plain data, each once. NaN is refused: it does not equal itself."""
    found = [{name: plain(name, value, refused=("NaN",)) for name, value in point.items()} for point in points]
    if any("rng" in point for point in found):
        raise ValueError("'rng' cannot be a parameter: the sweep passes it in")
    return list({canonical(point): point for point in found}.values())


def canonical(value: Any) -> str:
    """One text per point, whatever the order of its parameters. 1 and 1.0 differ: a function may tell them apart."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def seed_of(point: Point, seed: int) -> int:
    """Per-point seed, from the sweep's seed and the parameters alone; 1 and 1.0 share it. 53 bits, exact in JSON.

    >>> seed_of({"a": 1, "b": 2}, 0) == seed_of({"b": 2.0, "a": 1}, 0) != seed_of({"a": 1, "b": 2}, 1)
    True
    """
    import numpy as np

    def number(text: str) -> float:
        return int(value) if (value := float(text)).is_integer() else value

    text = canonical(json.loads(canonical(point), parse_float=number))
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), "<u4")
    return int(np.random.SeedSequence([seed, *words.tolist()]).generate_state(1, np.uint64)[0] >> np.uint64(11))
