"""Class and group of every object, as whole numbers, from the user's columns. An object without one is an error."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor


def classes(labels: ArrayLike, count: int) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The classes, in order, and the class (N,) of every object, from labels (N,), whole numbers or text."""
    given = _column("labels", labels, count, "class")
    if given.dtype.kind == "f":
        if np.any(given != np.round(given)):
            raise ValueError("labels are fractions, must be whole numbers or text: the class of every object")
        given = given.astype(np.int64)
    elif given.dtype.kind not in "iuUb":
        raise ValueError(f"labels are {given.dtype}, must be whole numbers or text: the class of every object")
    names, index = np.unique(given, return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"labels hold one class, {names[0]}: there is nothing to tell apart")
    return tuple(map(str, names.tolist())), index.astype(np.int64)


def groups(given: ArrayLike | None, count: int) -> NDArray[np.int64]:
    """The group (N,) of every object; left out, one for each."""
    if given is None:
        return np.arange(count)
    return np.unique(_column("groups", given, count, "group"), return_inverse=True)[1]


def _column(name: str, values: Any, count: int, what: str) -> NDArray[Any]:
    """Values (N,) of one type, bytes as text. Missing are None, what is not finite, and text without a letter."""
    given = np.asanyarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    if given.shape != (count,):
        raise ValueError(f"{name} has shape {given.shape}, must be ({count},), one for each object of features")
    # Of a list of text NumPy makes text, of a NaN in it, too.
    rows = list(values) if given.dtype.kind == "U" and isinstance(values, list | tuple) else given.tolist()
    for row, each in enumerate(rows):
        if each is None or each in ("", b"") or (isinstance(each, float) and not math.isfinite(each)):
            raise ValueError(f"{name}[{row}] is {each!r}: every object needs a {what}")
    if given.dtype.kind == "S":
        return np.char.decode(given, "utf-8", "replace")
    return np.array(rows) if given.dtype.kind == "O" else np.asarray(given)
