"""A claim: the question about a network that an ε answers. Nothing of it is part of the network."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NoReturn

from airpool._support.rules import BETWEEN, MANY, NetworkError, check, whole


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

MOST_INFERENCES = 10**12


@dataclass(frozen=True)
class Claim:
    """What is asked of a network. Every function that answers it takes the same claim.

    delta: δ. neighbours: what ε is about. inferences: T, over which ε is composed. colluding: devices known to collude,
    by index, on top of the network's number of colluders (whichever they are).
    credit_channel_noise: count the receiver's noise too; an eavesdropper may have a better receiver, so the default
        does not.
    live: account for the noise that devices really draw (`privacy.noise`), with the δ that its grid costs; inf where
        that exceeds δ (beyond an ε of about 100). An error where noise_std is 0 or too heterogeneous for the theorem
        there, or where the sampler does not support δ at any ε.
    per_event: a stay of this many inferences in a row, of which ε is reported too; a target is one for the stay.
    knows_answer: an eavesdropper may learn the answer, which the server makes from what it receives, so the server's
        antennas count among its own; else reports state the assumption.

    >>> Claim(neighbours="replace", inferences=100, colluding=[3])
    Claim(delta=1e-05, neighbours='replace', inferences=100, colluding=(3,), credit_channel_noise=False, live=False, \
per_event=None, knows_answer=True)
    """

    delta: Annotated[float, BETWEEN._replace(least=1e-300)] = 1e-5
    neighbours: Neighbours = Neighbours.ZERO_OUT
    inferences: Annotated[int, range(1, MOST_INFERENCES + 1)] = 1
    colluding: tuple[int, ...] = ()
    credit_channel_noise: bool = False
    live: bool = False
    per_event: int | None = None
    knows_answer: bool = True

    if TYPE_CHECKING:  # what is taken, where a field is narrower

        def __init__(
            self,
            delta: float = 1e-5,
            neighbours: Neighbours | str = Neighbours.ZERO_OUT,
            inferences: int = 1,
            colluding: Iterable[int] = (),
            credit_channel_noise: bool = False,
            live: bool = False,
            per_event: int | None = None,
            knows_answer: bool = True,
        ) -> None: ...

    def __post_init__(self) -> None:
        check(self)
        if self.per_event is not None:
            object.__setattr__(self, "per_event", whole("per_event", self.per_event, most=MOST_INFERENCES))
        if isinstance(self.colluding, str) or not isinstance(self.colluding, Iterable):
            raise NetworkError(f"colluding={self.colluding!r} must be a list of devices")
        who = tuple(whole(f"colluding[{i}]", k, least=0, most=MANY[-1]) for i, k in enumerate(self.colluding))
        object.__setattr__(self, "colluding", who)

    @property
    def of_target(self) -> "Claim":
        """The claim that a target is about: of a stay it is that of its inferences.

        >>> Claim(inferences=100, per_event=30).of_target == Claim(inferences=30)
        True
        """
        return self if self.per_event is None else replace(self, inferences=self.per_event, per_event=None)


def require_claim(value: object) -> None:
    """Raises a TypeError unless `value` is a Claim."""
    if not isinstance(value, Claim):
        raise TypeError(f"claim is of type {type(value).__name__}, must be a Claim, as in guarantee(network, Claim())")
