"""Neighbours: the relation between two inputs that ε makes hard to tell apart."""

from enum import StrEnum
from typing import NoReturn


class Neighbours(StrEnum):
    """The three relations (theory/guarantee.md §1). A member is a string: it reads, prints and compares as its value.

    ZERO_OUT: a feature is zeroed. REPLACE: it becomes any other. REMOVE: the device goes, and its noise with it.

    >>> Neighbours("replace").sensitivity, Neighbours.REMOVE == "remove", [Neighbours.ZERO_OUT]
    (2, True, ['zero-out'])
    >>> Neighbours.REMOVE.keeps_noise, Neighbours.REMOVE.words
    (False, 'the device is removed, and its noise with it.')
    """

    ZERO_OUT = "zero-out"
    REPLACE = "replace"
    REMOVE = "remove"

    __repr__ = str.__repr__

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"neighbours={value!r} must be one of {', '.join(cls)}")

    @property
    def sensitivity(self) -> int:
        """The distance of the two features, in clip norms."""
        return 2 if self is Neighbours.REPLACE else 1

    @property
    def keeps_noise(self) -> bool:
        """Whether the device takes part and adds its noise in both cases, so that they differ by a shift alone."""
        return self is not Neighbours.REMOVE

    @property
    def words(self) -> str:
        """A sentence for reports."""
        return _WORDS[self]


_WORDS = {
    Neighbours.ZERO_OUT: "the device's feature is replaced by zero; it still takes part and adds noise.",
    Neighbours.REPLACE: "the device's feature is replaced by any other one.",
    Neighbours.REMOVE: "the device is removed, and its noise with it.",
}
