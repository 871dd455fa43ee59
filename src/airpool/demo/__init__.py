"""What `airpool demo` shows: the main job on what is shipped, one object sent, and the paper's own claim checked.

comparison, one_object and claim compute; tables, pictures and story tell it. Each part is plain data.
"""

from dataclasses import dataclass
from typing import Any

from airpool.demo import comparison
from airpool.demo.claim import Claim
from airpool.demo.comparison import Curve
from airpool.demo.one_object import Sent
from airpool.version import __version__

__all__ = ["Claim", "Curve", "Demo", "Sent"]


@dataclass(frozen=True, eq=False)
class Demo:
    """Everything that the demo found."""

    paper: Curve
    ours: Curve
    sent: Sent
    claim: Claim
    seed: int

    @property
    def trials(self) -> int:
        return self.ours.points[0].evaluation.trials

    def record(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "accuracy": comparison.record((self.paper, self.ours)),
            "object": self.sent.record(),
            "paper_defaults": self.claim.record(),
            "trials": self.trials,
            "seed": self.seed,
            "version": __version__,
        }
