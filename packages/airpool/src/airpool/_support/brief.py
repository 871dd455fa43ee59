"""Short forms of objects that hold arrays: a repr of at most ten lines, and a table in a notebook."""

import textwrap
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_LINES, _WIDTH = 10, 100
_ITEMS = 6  # of a sequence that are shown; of others as many as half of it
_NESTED = 400  # characters of a field


class Brief:
    """A dataclass (repr=False) whose repr gives the shape of arrays, and the beginning of what is long.

    A long sequence of one value is written as a product, so that the repr of plain data is still an expression.
    """

    def __repr__(self) -> str:
        text = f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in _parts(self).items())})"
        lines = textwrap.wrap(text, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        return "\n".join(lines if len(lines) <= _LINES else [*lines[: _LINES - 1], "    ...)"])

    def _repr_html_(self) -> str:
        from airpool._support.notebook import facts, shown

        return shown(type(self).__name__, facts(_parts(self).items()))


def brief(value: Any) -> str:
    """A value in at most about 400 characters.

    >>> import numpy as np
    >>> brief(np.zeros((60, 3))), brief((0.5,) * 12), brief(tuple(range(40))), brief({"a": np.zeros(9), "b": 2})
    ('<float64 (60, 3)>', '(0.5,) * 12', '(0, 1, 2, ... 40 in all)', "{'a': <float64 (9,)>, 'b': 2}")
    """
    if hasattr(value, "shape") and hasattr(value, "dtype") and getattr(value, "ndim", 0):
        return f"<{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}>"
    if hasattr(value, "state_dict"):  # a torch module
        return f"<{type(value).__name__}>"
    if is_dataclass(value) and not isinstance(value, type):
        text = repr(value)
        if isinstance(value, Brief) or len(text) > _NESTED:
            text = f"{type(value).__name__}({', '.join(f'{k}={v}' for k, v in _parts(value).items())})"
        return text if len(text) <= _NESTED else f"{type(value).__name__}(...)"
    if isinstance(value, Mapping):
        return _joined("{", [f"{k!r}: {brief(v)}" for k, v in value.items()], "}")
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        left, right = "()" if type(value) is tuple else "[]"
        if len(value) > 2 and all(type(each) in (int, float, str, bool) and each == value[0] for each in value):
            return f"{left}{value[0]!r}{',' * (left == '(')}{right} * {len(value)}"
        return _joined(left, [brief(each) for each in value], ("," if len(value) == 1 and left == "(" else "") + right)
    text = repr(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 4]} ..."


def _parts(value: Any) -> dict[str, str]:
    return {each.name: brief(getattr(value, each.name)) for each in fields(value) if each.repr}


def _joined(left: str, items: list[str], right: str) -> str:
    shown = items if len(items) <= _ITEMS else [*items[: _ITEMS // 2], f"... {len(items)} in all"]
    text = left + ", ".join(shown) + right
    return text if len(text) <= _NESTED else f"{left}... {len(items)} in all{right}"
