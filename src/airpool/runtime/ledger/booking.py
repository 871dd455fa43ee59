"""An inference to charge, and the row that it became."""

from dataclasses import dataclass

from airpool.runtime.ledger.chain import Row
from airpool.runtime.ledger.mechanism import Mechanism

LONGEST = 200


@dataclass(frozen=True)
class Booking:
    """One inference: its name, its mechanism, the scene that it shows, and the epoch of the channel."""

    inference: str
    mechanism: Mechanism
    scene: str = ""
    epoch: str = ""

    def check(self) -> None:
        for name in ("inference", "scene", "epoch"):
            value = getattr(self, name)
            if not isinstance(value, str) or len(value) > LONGEST or (name == "inference" and not value):
                raise ValueError(f"{name} must be a text of at most {LONGEST} characters")

    @property
    def what(self) -> tuple[str, str]:
        """Mechanism and scene, which an inference keeps however often it is charged."""
        return self.mechanism.digest, self.scene


@dataclass(frozen=True)
class Charged:
    """A row. new: false where this inference was charged before, so it may have been sent: do not transmit again."""

    row: Row
    new: bool
