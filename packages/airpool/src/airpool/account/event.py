"""ε of an event: everything about one stay in front of the cameras, over the inferences in a row that see it.

Frames of one stay are alike, so what protects one of them does not protect the stay. All features that a device sends
of it change together: the composition of a stream of that many inferences (theory/guarantee.md §6), and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from airpool._support.arrays import Floats
from airpool._support.rounding import because, number, numbers, shown

_UNITS = {"ms": Fraction(1, 1000), "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600), "d": Fraction(86400)}


@dataclass(frozen=True)
class Event:
    """A stay that at most `inferences` in a row see.

    epsilon: of each device, everything that its own stream shows of the stay. epsilon_local: with no other device
    trusted. epsilon_object: what all devices together show of it, where several of them see it.
    reasons: by name, of each ε that is infinite. slots: the most of an inference, all of which count.

    >>> from airpool import Claim, Network, guarantee
    >>> stay = guarantee(Network.uniform(num_devices=12, noise_std=0.3), Claim(per_event=30)).event
    >>> stay.length, len(stay.assumptions), sorted(stay.to_json())[:3]
    ('30 inferences in a row', 2, ['assumptions', 'epsilon', 'epsilon_local'])
    >>> print(stay.words)
    An event of 30 inferences in a row: ε = ... of one device's stream, ... local, ... of the object ...
    """

    inferences: int
    slots: int
    epsilon: Floats
    epsilon_local: Floats
    epsilon_object: float
    reasons: Mapping[str, str]

    @property
    def length(self) -> str:
        """Its inferences and slots, in words."""
        slots = f" of up to {self.slots} slots each" if self.slots > 1 else ""
        return f"{self.inferences} inference{'s' * (self.inferences > 1)} in a row{slots}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the three ε of the stay, beside those of the report."""
        return (
            f"An event is a stay that at most {self.length} see. A longer stay is not covered; two stays compose, as "
            "one of twice the length does.",
            "A device's ε of an event is about what that device saw. Somebody whom several devices see is protected by "
            "the object's.",
        )

    @property
    def words(self) -> str:
        """One sentence with the three ε of the worst device."""
        device, local = (shown(float(max(values))) for values in (self.epsilon, self.epsilon_local))
        why = {name: because(self.reasons, name) for name in ("epsilon", "epsilon_local", "epsilon_object")}
        return (
            f"An event of {self.length}: ε = {device}{why['epsilon']} of one device's stream, {local}"
            f"{why['epsilon_local']} local, {shown(self.epsilon_object)}{why['epsilon_object']} of the object (all "
            "devices see it)."
        )

    def to_json(self) -> dict[str, Any]:
        """As plain data; an infinite ε is the string "inf"."""
        return {
            "inferences": self.inferences,
            "slots": self.slots,
            "epsilon": numbers(self.epsilon),
            "epsilon_local": numbers(self.epsilon_local),
            "epsilon_object": number(self.epsilon_object),
            "reasons": dict(self.reasons),
            "assumptions": list(self.assumptions),
        }


def most_inferences(stay: str, every: str) -> int:
    """The most inferences that a stay can hold where at least `every` lies between two of them; both in words.

    One more than fit in between: a stay may begin and end with one.

    >>> most_inferences("5min", "1s"), most_inferences("90 s", "2min"), most_inferences("0.3s", "0.1s")
    (301, 1, 4)
    """
    return int(seconds(stay) // seconds(every)) + 1


def seconds(text: str) -> Fraction:
    """A length of time in seconds, exactly: a number with ms, s, min, h or d.

    >>> float(seconds("1.5 h")), float(seconds("200ms"))
    (5400.0, 0.2)
    """
    bare = text.strip()
    unit = next((each for each in sorted(_UNITS, key=len, reverse=True) if bare.endswith(each)), "")
    try:
        found = Fraction(bare.removesuffix(unit).strip()) * _UNITS[unit]
    except (ValueError, KeyError, ZeroDivisionError):
        found = Fraction(0)
    if not found > 0:
        raise ValueError(f"{text!r} must be a length of time, a number > 0 with {', '.join(_UNITS)}, such as 5min")
    return found
