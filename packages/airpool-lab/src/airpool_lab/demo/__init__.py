"""Content of `airpool demo`: two networks on the test set, slots until sure, one object transmitted, and the paper's
claim checked.

comparison, one_object and claim compute plain data; tables and story present it.
"""

from dataclasses import dataclass, field
from typing import Any

from airpool._support.version import __version__, machine, today
from airpool.account.report import number
from airpool_lab.demo.claim import CheckedClaim
from airpool_lab.demo.comparison import Curve, Spending
from airpool_lab.demo.one_object import Sent


@dataclass(frozen=True, eq=False)
class Demo:
    """All results of the demo."""

    paper: Curve
    ours: Curve
    compact: Curve
    asked: tuple[Spending, ...]
    sent: Sent
    claim: CheckedClaim
    seed: int
    version: str = __version__
    measured: str = field(default_factory=today)
    machine: str = field(default_factory=machine)

    @property
    def command(self) -> str:
        """The command that measures all of it again."""
        sent = f"--object {self.sent.shape.name} --epsilon {self.sent.epsilon:g}"
        return f"airpool demo {sent} --trials {self.trials} --seed {self.seed}"

    @property
    def curves(self) -> tuple[Curve, ...]:
        return self.paper, self.ours, self.compact

    @property
    def trials(self) -> int:
        return self.ours.points[0].evaluation.trials

    def record(self) -> dict[str, Any]:
        """The demo as plain data, for JSON."""
        rows = [row for curve in self.curves for row in curve.rows()]
        return {
            "accuracy": [{k: number(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows],
            "until_sure": [each.row() for each in self.asked],
            "object": self.sent.record(),
            "paper_defaults": self.claim.record(),
            **{name: getattr(self, name) for name in ("trials", "seed", "version", "measured", "machine", "command")},
        }
