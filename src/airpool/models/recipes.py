"""Recipes, which are frozen dataclasses: the limits of their fields, and fields set by name."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

# What is allowed, in words and as a test, and the fields that it holds for: every field of every recipe.
_GROUPS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("≥ 1", lambda x: x >= 1, "epochs objects views pictures trials"),
    ("≥ 0", lambda x: x >= 0, "weight_decay hidden extra_views object_loss view_loss pose_loss consistency"),
    ("≥ 0", lambda x: x >= 0, "gradient_norm turn_deg scale stretch shift seed"),
    ("≥ 0 and < 1", lambda x: 0 <= x < 1, "warm_up label_smoothing dropout drop_path average light"),
    ("from 0 to 1", lambda x: 0 <= x <= 1, "erased balance"),
    ("between 0 and 1", lambda x: 0 < x < 1, "learning_rate head_rate"),
    ("a smallest and a largest side, from 0 to 1", lambda x: 0 <= x[0] <= x[1] <= 1, "erase"),
    ("True or False", lambda x: isinstance(x, bool), "mirror"),
)
_LIMITS = {name: (allowed, ok) for allowed, ok, names in _GROUPS for name in names.split()}


def check(recipe: Any, *, zero: Sequence[str] = ()) -> None:
    """Raises an error that names a field of a recipe (a dataclass) that is out of range. zero: which may be 0, too.

    A field without a limit is a KeyError: no recipe can have one that is not checked.
    """
    for each in fields(recipe):
        value, (allowed, ok) = getattr(recipe, each.name), _LIMITS[each.name]
        if not ok(value) and not (each.name in zero and value == 0):
            raise ValueError(f"{each.name}={value} must be {allowed}")


def settled(values: Mapping[str, Any], *defaults: Any, fixed: Sequence[str] = ()) -> list[Any]:
    """The dataclasses, each with those of its fields changed that are named in `values`; `fixed` cannot be.

    >>> from airpool.network import Channel
    >>> settled({"outage": 0.1}, Channel())[0].outage
    0.1
    """
    own = [{f.name for f in fields(each)} - set(fixed) for each in defaults]
    if unknown := sorted(values.keys() - set().union(*own)):
        hint = "has its own option or follows from the data" if unknown[0] in fixed else "is not a field"
        raise ValueError(f"{unknown[0]} {hint}; what can be set: {', '.join(sorted(set().union(*own)))}")
    return [
        replace(each, **{name: _checked(name, values[name], getattr(each, name)) for name in names & values.keys()})
        for each, names in zip(defaults, own, strict=True)
    ]


def _checked(name: str, value: Any, default: Any) -> Any:
    """The value, if it is of the default's type; an integer is accepted as a number, a list as a tuple."""
    kind, given = type(default), type(value)
    if kind is float and given in (int, float) and math.isfinite(value):
        return float(value)
    if kind is tuple and given is list and len(value) == len(default):
        return tuple(map(float, value))
    if kind is given and kind is not float:
        return value
    wanted = {bool: "true or false", int: "an integer", float: "a number", tuple: "a list, such as [0.1, 0.5]"}
    raise ValueError(f"{name}={value!r} must be {wanted.get(kind, 'text')}")
