"""Fields of a dataclass from the command line (NAME=VALUE) or a TOML file, checked against the dataclass itself."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any


def given(path: Path | None, texts: Sequence[str] | None, **options: Any) -> dict[str, Any]:
    """Values by name: of the file, over them those of NAME=VALUE, over all the options that are not None."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values |= tomllib.loads(path.read_text("utf-8"))
        except ValueError as error:  # of TOML or of UTF-8
            raise ValueError(f"{path}: {error}") from None
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set {text!r} must be NAME=VALUE")
        values[name.strip()] = _value(value.strip())
    return values | {name: value for name, value in options.items() if value is not None}


def settled(values: Mapping[str, Any], *defaults: Any, fixed: Sequence[str] = ()) -> list[Any]:
    """The dataclasses, each with those of its fields that are named in `values` changed; `fixed` cannot be.

    >>> from airpool.network import Channel, Ranking
    >>> channel, scheme = settled({"k_factor_db": 3, "num_selected": 2}, Channel(), Ranking())
    >>> channel.k_factor_db, scheme.num_selected
    (3.0, 2)
    """
    own = [{f.name for f in fields(each)} - set(fixed) for each in defaults]
    if unknown := sorted(values.keys() - set().union(*own)):
        hint = "has its own option or follows from the data" if unknown[0] in fixed else "is not a field"
        raise ValueError(f"{unknown[0]} {hint}; what can be set: {', '.join(sorted(set().union(*own)))}")
    return [
        replace(each, **{name: _checked(name, values[name], getattr(each, name)) for name in names & values.keys()})
        for each, names in zip(defaults, own, strict=True)
    ]


def _value(text: str) -> Any:
    """As TOML reads it, or else the text itself, so that words need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _checked(name: str, value: Any, default: Any) -> Any:
    """The value, if it is of the default's kind; an integer will do for a number."""
    match default, value:
        case (bool(), bool()) | (str(), str()):
            return value
        case (bool(), _):
            wanted = "true or false"
        case (int(), int()) if not isinstance(value, bool):
            return value
        case (int(), _):
            wanted = "an integer"
        case (float(), int() | float()) if not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        case (float(), _):
            wanted = "a number"
        case (tuple(), list()):
            return tuple(value)
        case (tuple(), _):
            wanted = "a list, such as [1, 2]"
        case _:
            wanted = "text"
    raise ValueError(f"{name}={value!r} must be {wanted}")
