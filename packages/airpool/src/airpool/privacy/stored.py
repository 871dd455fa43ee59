"""Leaks as text and back: JSON of their nodes, which later versions read to the same numbers, bit by bit.

A text is a list of nodes, each a kind and its parameters, then the nodes that are meant, by name. A node refers to
those before it by number, so what several leaks share is written once. Of one leak there is one text: keys are sorted,
a float is the shortest that reads back to it, long arrays are base64 of little-endian float64. Infinities are "inf" and
"-inf"; NaN is no parameter. What is read may come from anybody: it is refused unless every parameter is of the kind and
shape that its node has.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from airpool.privacy import leak
from airpool.privacy.floor import Floor
from airpool.privacy.law import Law
from airpool.privacy.together import Use

_NODES = (Use, Floor, Law, leak.Seen, leak.Decided, *get_args(leak.OverTime))
# Floats that a list has at most; more are packed.
_LISTED = 32
# Whole numbers, at most.
_MOST = 2**62
# Nodes of an expression, each counted wherever it is referred to, at most.
_LARGEST = 2**16


def digest(leaks: Mapping[str, Any]) -> str:
    """SHA-256 of the text, hexadecimal: equal where leaks are."""
    return hashlib.sha256(canonical(written(leaks)).encode()).hexdigest()


def canonical(body: Any) -> str:
    """JSON with sorted keys, without spaces; numbers read back to the same value."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def written(leaks: Mapping[str, Any]) -> dict[str, Any]:
    """Leaks by name, as JSON."""
    known: dict[str, int] = {}

    def value(given: Any) -> Any:
        if is_dataclass(given):
            return {"node": node(given)}
        if isinstance(given, tuple):
            return {"several": [value(each) for each in given]}  # pyright: ignore[reportUnknownVariableType]
        if isinstance(given, np.ndarray):
            return _array(given)
        if given is not None and type(given) not in (bool, int, float, str):
            raise ValueError(f"{type(given).__name__} is not a parameter that can be stored")
        return given

    def node(given: Any) -> int:
        kind = type(given).__name__
        if _kinds().get(kind) is not type(given):
            raise ValueError(f"{kind} is not a leak that can be stored")
        found = {each.name: value(getattr(given, each.name)) for each in fields(given)}
        return known.setdefault(canonical([kind, found]), len(known))

    named = {name: node(leaks[name]) for name in sorted(leaks)}
    return {"leaks": named, "nodes": [json.loads(each) for each in known]}


def read(body: Any) -> dict[str, Any]:
    """The leaks of `written`. A ValueError where it is none of that, or has a node that is not known here."""
    found, sizes = list[Any](), list[int]()
    try:
        for kind, parameters in body["nodes"]:
            if kind not in _kinds():
                raise ValueError(f"leak {kind!r} is not known: update airpool, or load the plug-in that it is of")
            sizes.append(1 + sum(_size(each, sizes) for each in parameters.values()))
            if sizes[-1] > _LARGEST:
                raise ValueError("not a text of leaks: an expression that is too large")
            found.append(_made(_kinds()[kind], {name: _read(each, found) for name, each in parameters.items()}))
        named = {name: _at(number, found) for name, number in body["leaks"].items()}
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"not a text of leaks: {error!r}") from None
    if canonical(written(named)) != canonical(body):
        raise ValueError("not a text of leaks in its canonical form")
    return named


def _kinds() -> dict[str, type]:
    """Nodes by name. Signals are all that are loaded, plug-ins' too."""
    signals, left = dict[str, type](), [leak.Signal]
    while left:
        for each in left.pop().__subclasses__():
            signals.setdefault(each.__name__, each)
            left.append(each)
    return signals | {each.__name__: each for each in _NODES}


def _array(given: Any) -> Any:
    if given.dtype not in (np.float64, np.int64) or not given.size or np.any(np.isnan(given)):
        raise ValueError("not an array that can be stored: float64 or int64, not empty, without NaN")
    if given.dtype == np.float64 and given.size > _LISTED:
        packed = b64encode(np.ascontiguousarray(given, "<f8").tobytes()).decode()
        return {"float64": packed, "shape": list(given.shape)}
    listed = [each if np.isfinite(each) else str(each) for each in given.ravel().tolist()]
    for size in reversed(given.shape[1:]):
        listed = [listed[i : i + size] for i in range(0, len(listed), size)]
    return listed


def _read(given: Any, found: list[Any]) -> Any:
    match given:
        case {"node": number}:
            return _at(number, found)
        case {"float64": packed, "shape": shape}:
            return np.frombuffer(b64decode(packed, validate=True), "<f8").astype(np.float64).reshape(shape)
        case {"several": several}:
            return tuple(_read(each, found) for each in several)
        case [*_]:
            return np.array(_numbers(given))
        case _:
            return given


def _size(given: Any, sizes: list[int]) -> int:
    """How many nodes a parameter refers to, directly or not."""
    match given:
        case {"node": number}:
            return _at(number, sizes)
        case {"several": several}:
            return sum(_size(each, sizes) for each in several)
        case _:
            return 0


def _numbers(given: Any) -> Any:
    return [_numbers(x) if isinstance(x, list) else float(x) if x in ("inf", "-inf") else x for x in given]


def _at(number: Any, found: list[Any]) -> Any:
    if type(number) is not int or not 0 <= number < len(found):
        raise ValueError(f"node {number!r} is not one of those before it")
    return found[number]


_hints = cache(get_type_hints)


def _made(kind: Any, parameters: dict[str, Any]) -> Any:
    """A node, of parameters that are what its fields say."""
    hints = _hints(kind)
    for name, hint in hints.items():
        if not _is(parameters[name], hint):
            raise ValueError(f"{kind.__name__}: {name} is not what it must be")
    made = kind(**parameters)
    if not _SOUND.get(kind, lambda _: True)(made):
        raise ValueError(f"{kind.__name__}: parameters that do not go together")
    return made


def _is(given: Any, hint: Any) -> bool:
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_is(given, each) for each in inner)
    if kind is tuple:
        each = inner[0]
        return isinstance(given, tuple) and all(_is(one, each) for one in given)  # pyright: ignore
    if kind is np.ndarray:
        kinds = (get_args(inner[1])[0].__name__,) if inner else ("float64", "int64")  # a plug-in's may say no more
        return type(given) is np.ndarray and str(given.dtype) in kinds  # pyright: ignore
    return type(given) is kind if kind in (bool, int, float, str, NoneType) else isinstance(given, kind)


def _law(x: Law) -> bool:
    return x.variance.ndim == 2 and x.variance.shape == x.mass.shape and _all(x.variance >= 0) and _all(x.mass >= 0)


def _floor(x: Floor) -> bool:
    listed = x.row.ndim == 1 and x.device.shape == x.row.shape and _all(x.device == 0)
    whole = x.slack >= 0 and _all(x.low.mass.sum(axis=1) + x.slack >= 1 - 1e-9)
    return x.high is x.low and listed and whole and _all((x.row >= 0) & (x.row < len(x.low.variance)))


def _decided(x: leak.Decided) -> bool:
    shape = (2, len(x.leak.exposed))
    chosen = x.choice is None or x.choice.shape == shape[1:]
    chosen &= isinstance(x.leak.leak, leak.Gaussian)
    return x.on.shape == x.off.shape == shape and chosen and _all(x.on <= 0) and _all(x.off <= 0)


def _per_device(x: leak.PerDevice) -> bool:
    one = x.kind.ndim == 1 and _all(x.kind == 0) and x.of_device.tolist() == [0]
    return one and 0 < (x.among or 0) <= _MOST and 0 < (x.cells or 0) <= _MOST and _cases(x.leak) <= {x.kind.shape}


def _draws(x: leak.Draws) -> bool:
    known = isinstance(x.leak.leak, leak.Gaussian | leak.Seen) and isinstance(x.leak.signal, leak.Gaussian)
    return known and min(x.number, x.draws) > 0 and max(x.number, x.draws) <= _MOST


def _mixed(x: leak.Mixed) -> bool:
    one = x.mass.shape == (len(x.leaks), 1) and _all((x.mass >= 0) & (x.mass <= 1 + 1e-6))  # rounded up
    return one and len({each.number for each in x.leaks}) == 1


def _chance(p: Any) -> bool:
    return _all((p >= 0) & (p <= 1))


def _all(given: Any) -> bool:
    return bool(np.all(given))


# Whether arrays have one value for each case, indices are in range, and nothing is negative that cannot be.
_SOUND: dict[type, Callable[[Any], bool]] = {
    Law: _law,
    Floor: _floor,
    leak.Gaussian: lambda x: _all(x.shift >= 0) and _all(x.own >= 0),
    leak.Removed: lambda x: _all(x.shift >= 0) and _all(x.own >= 0) and 0 < x.dimension <= _MOST,
    leak.Hidden: lambda x: _chance(x.probability),
    leak.HiddenBoth: lambda x: _chance(x.probability),
    leak.Either: lambda x: _chance(x.probability),
    leak.Seen: lambda x: _chance(x.exposed),
    leak.Decided: _decided,
    leak.PerDevice: _per_device,
    leak.Times: lambda x: 0 < x.number <= _MOST,
    leak.Least: lambda x: bool(x.leaks),
    leak.Worst: lambda x: bool(x.leaks),
    leak.Near: lambda x: x.failure.shape == (1,) and _chance(x.failure),
    leak.Draws: _draws,
    leak.Mixed: _mixed,
    Use: lambda x: len(x.missed) == 2 and _chance(np.array(x.missed)) and 0 <= x.surroundings <= _MOST,
    leak.Unbounded: lambda x: x.count == 1,
}


def _cases(given: Any) -> set[tuple[int, ...]]:
    """The shapes of the arrays of a leak that have one value for each case."""
    if isinstance(given, np.ndarray):
        return {np.shape(given)}  # pyright: ignore
    if isinstance(given, leak.Decided):
        return {given.on.shape[1:]} | _cases(given.leak)
    if isinstance(given, Floor):
        return {given.row.shape}
    each = (getattr(given, each.name) for each in fields(given)) if is_dataclass(given) else ()
    return set[tuple[int, ...]]().union(*map(_cases, each))
