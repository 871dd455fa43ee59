"""Splits of objects by group, so that no subject, object or session is on both sides."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Names = NDArray[np.str_]

PARTS = ("train", "validation", "test")

_OF_FIVE = ("test", "validation", "train", "train", "train")
_FEWEST = 4  # groups: two to train on
_FOLDS = 3


def split(labels: NDArray[np.int64], groups: NDArray[np.int64], given: ArrayLike | None, *, seed: int) -> Names:
    """Train, validation or test, (N,): as given, or a fifth of the groups for each of the last two.

    given: if it names no validation objects, a fifth of its training groups becomes that.
    """
    if given is None:
        return dealt(labels, groups, _OF_FIVE, seed=seed)
    out = np.asarray(given).astype(str)
    if out.shape != labels.shape:
        raise ValueError(f"split has shape {out.shape}, must be {labels.shape}")
    for other in sorted(set(out.tolist()) - set(PARTS)):
        raise ValueError(f"split has {other!r}, must be {', '.join(PARTS)}")
    if not np.any(out == "train"):
        raise ValueError("split has no train objects: there is nothing to learn from")
    out = out.astype(f"<U{len('validation')}")
    if not np.any(out == "validation"):
        rest = out == "train"
        out[rest] = dealt(labels[rest], groups[rest], ("validation", *["train"] * 4), seed=seed)
    first, index = np.unique(groups, return_index=True, return_inverse=True)[1:]
    for row in np.flatnonzero(out != out[first[index]]).tolist():
        rows = " and ".join(f"row {each} ({out[each]})" for each in (int(first[index[row]]), row))
        raise ValueError(
            f"a group leaks: {rows} are of the same one, so accuracy would be too good; keep each group in one part"
        )
    return out


def folds(labels: NDArray[np.int64], groups: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """Fold (N,) of each object, whole groups in one; of a single group, by object."""
    if len(np.unique(groups)) < 2:
        groups = np.arange(len(groups))
    count = min(_FOLDS, len(np.unique(groups)))
    return dealt(labels, groups, [str(each) for each in range(count)], seed=seed + 1).astype(np.int64)


def dealt(labels: NDArray[np.int64], groups: NDArray[np.int64], to: Sequence[str], *, seed: int) -> Names:
    """Groups dealt out in turn, those of one class after each other, so that every part has some of each."""
    names, index = np.unique(groups, return_inverse=True)
    if len(names) < min(_FEWEST, len(to)):
        raise ValueError(f"{len(names)} groups to split, must be {_FEWEST} or more: two to train on, two to judge")
    # Of a group, the most frequent class; random order within a class.
    table = np.zeros((len(names), int(labels.max()) + 1))
    np.add.at(table, (index, labels), 1)
    order = np.lexsort((np.random.default_rng(seed).permutation(len(names)), table.argmax(1)))
    part = np.empty(len(names), dtype=np.array(to).dtype)
    part[order] = [to[place % len(to)] for place in range(len(names))]
    return part[index]
