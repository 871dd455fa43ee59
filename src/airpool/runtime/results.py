"""Results of a server: the codec that decodes, the guarantee, what came of an inference."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from airpool._support.arrays import Floats
from airpool.account.report import PrivacyReport, number
from airpool.runtime import seeded

Status = Literal["answered", "no answer", "below quorum", "withheld", "failed"]


@dataclass(frozen=True, eq=False)
class ServerCodec:
    """The server's side of a codec at one level of signal and noise, and the names of the classes.

    decode: estimates ẑ (r,) to logits (L,), in float64. dimension: r. name: in messages. by_slots: the same for the
    mean over n slots, whose noise is √n times smaller; None: decode serves for all.
    """

    decode: Callable[[Floats], Floats]
    classes: tuple[str, ...]
    dimension: int
    name: str = "own"
    by_slots: Callable[[int], Callable[[Floats], Floats]] | None = None

    def __post_init__(self) -> None:
        found = np.shape(self.decode(np.zeros(self.dimension)))
        if found != (len(self.classes),):
            raise ValueError(
                f"codec {self.name!r}: its server gives logits of shape {found}, must be ({len(self.classes)},)"
            )

    def decoder(self, slots: int) -> Callable[[Floats], Floats]:
        """Decodes the mean over so many slots."""
        return self.decode if slots == 1 or self.by_slots is None else self.by_slots(slots)


@dataclass(frozen=True)
class Guarantee:
    """Largest ε and largest local ε of a device (no other trusted), and ε of the object; at δ, for one inference.

    It is that of all slots of an inference, however few are used.
    """

    device: float
    local: float
    object: float
    delta: float
    neighbours: str

    @classmethod
    def of(cls, report: PrivacyReport) -> "Guarantee":
        local, net = float(np.max(report.epsilon_local)), report.network
        return cls(report.worst, local, report.epsilon_object, net.delta, net.neighbours)


@dataclass(frozen=True)
class InferenceResult:
    """Result of one inference.

    label: of the class, −1 if no device transmitted, or the server is not sure and abstains; None without an answer.
    devices: the fewest in any slot to its end. spent: whether it counts against the devices' budgets. slots: number
    used, of at most cap. sure: whether the server's rule is met. probability: of the likeliest class, by its posterior.
    note: says so where the noise was seeded.
    """

    id: str
    number: int
    status: Status
    seconds: float
    spent: bool
    guarantee: Guarantee
    simulated: bool = False
    label: int | None = None
    name: str | None = None
    probabilities: tuple[float, ...] = ()
    logits: tuple[float, ...] = ()
    devices: int = 0
    reason: str = ""
    slots: int = 0
    cap: int = 1
    sure: bool = False
    probability: float = 0.0

    @property
    def note(self) -> str:
        return seeded.NOTE if self.simulated else ""

    def to_json(self) -> dict[str, Any]:
        promised = self.guarantee
        return {
            "id": self.id,
            "number": self.number,
            "status": self.status,
            "label": self.label,
            "name": self.name,
            "probability": self.probability,
            "probabilities": list(self.probabilities),
            "slots": self.slots,
            "cap": self.cap,
            "sure": self.sure,
            "devices": self.devices,
            "spent": self.spent,
            "seconds": self.seconds,
            "reason": self.reason,
            "simulated": self.simulated,
            "note": self.note,
            "guarantee": {
                "device": number(promised.device),
                "local": number(promised.local),
                "object": number(promised.object),
                "delta": promised.delta,
                "neighbours": promised.neighbours,
            },
        }
