"""The success of an attack beside its bound."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airpool._support.figures import GREY
from airpool._support.files import jsonable
from airpool._support.rounding import shown
from airpool._support.version import __version__
from airpool.evaluation.audit.bound import clopper_pearson
from airpool.network import Claim, Network
from airpool.network import file as network_file
from airpool_lab.attacks.positions import Position, Scope

CONFIDENCE = 0.999  # one-sided: chance takes an attack that attains its bound beyond it once in a thousand


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Guesses of one attack. A result without guesses (successes None) has `numbers` alone, and claims no bound.

    secret: in words; of: one view, or the object. prior: κ, the best guess without the signal. bound: B(κ) of the
    position. numbers: all else that was measured. picture: a figure of it.
    attack: its name. trials, successes: guesses, and those that were right. device: the one that was attacked.
    claim: the one that the bound is of.

    >>> from airpool_lab.attacks.positions import POSITIONS
    >>> net = Network.uniform(num_devices=3)
    >>> found = AttackResult("guess", POSITIONS["sum"], net, "a bit", "view", 1000, 540, prior=0.5, bound=0.6, seed=0)
    >>> found.success, round(found.standard_error, 4), found.exceeds, found.protected
    (0.54, 0.0158, False, True)
    >>> found.interval[0] < 0.54 < found.interval[1], found.row()[2:5], found.to_json()["trials"]
    (True, ('50.0 %', '54.0 % ± 1.6', '60.0 %'), 1000)
    """

    attack: str
    position: Position
    network: Network
    secret: str
    of: Scope
    trials: int
    successes: int | None
    prior: float | None
    bound: float | None
    seed: int
    device: int = 0
    numbers: Mapping[str, Any] = field(default_factory=dict)
    picture: Path | None = None
    claim: Claim = field(default_factory=Claim)
    version: str = __version__

    def __post_init__(self) -> None:
        if self.successes is not None and not 0 <= self.successes <= self.trials:
            raise ValueError(f"successes={self.successes} must be from 0 to trials={self.trials}")

    @property
    def success(self) -> float | None:
        """Share of right guesses."""
        return None if self.successes is None else self.successes / self.trials

    @property
    def standard_error(self) -> float | None:
        """Of the share of right guesses, binomial."""
        rate = self.success
        return None if rate is None else (rate * (1 - rate) / self.trials) ** 0.5

    @property
    def interval(self) -> tuple[float, float] | None:
        """Exact binomial limits of the success, each wrong with probability at most 0.001."""
        if self.successes is None:
            return None
        low, high = clopper_pearson(self.successes, self.trials, error=1 - CONFIDENCE)
        return float(low), float(high)

    @property
    def exceeds(self) -> bool:
        """Whether the success lies above the bound by more than its binomial error: something is wrong."""
        return self.interval is not None and self.bound is not None and self.interval[0] > self.bound

    @property
    def protected(self) -> bool:
        """Whether the ε of a device bounds it: false for what several views show, where several are heard."""
        return self.of == "view" or self.position.alone

    def to_json(self) -> dict[str, Any]:
        """A plain dict for `json.dumps`, with the whole network and the claim as their file has them."""
        shown = ("attack", "secret", "of", "device", "trials", "successes", "success", "standard_error", "interval")
        return jsonable(
            {name: getattr(self, name) for name in shown}
            | {"position": self.position.name, "prior": self.prior, "bound": self.bound, "exceeds": self.exceeds}
            | {"protected": self.protected, "numbers": dict(self.numbers), "seed": self.seed}
            | {"picture": None if self.picture is None else str(self.picture), "version": self.version}
            | {"network": network_file.dump(self.network, self.claim)}
        )

    def _repr_html_(self) -> str:
        from airpool._support import notebook

        drawn = []
        if self.success is not None and self.prior is not None:
            about = f"{_percent(self.success)} ± {100 * (self.standard_error or 0.0):.1f}"
            drawn = [notebook.Dot("this attack", self.success, about, self.interval, self.bound)]
            drawn.append(notebook.Dot("a guess without signals", self.prior, _percent(self.prior), colour=GREY))
        drawing = (
            notebook.dots(drawn, ends=(0.0, 1.0), axis="right guesses; the bar: the proven bound") if drawn else ""
        )
        numbers = notebook.facts(
            (name, f"{x:.4g}" if isinstance(x, float) else str(x)) for name, x in self.numbers.items()
        )
        title = f"Attack {self.attack} on device {self.device}: the adversary hears {self.position.hears}"
        return notebook.shown(title, notebook.rows_of(HEADER, [self.row()]), drawing, numbers if self.numbers else "")

    def row(self) -> tuple[str, ...]:
        """A line of a table, under HEADER. Secrets that are not protected are marked."""
        name = self.secret if self.protected else f"{self.secret} (object)"
        return (
            name,
            self.position.name,
            _percent(self.prior),
            f"{_percent(self.success)} ± {100 * (self.standard_error or 0.0):.1f}" if self.success is not None else "",
            "" if self.bound is None else f"{shown(100 * self.bound, 1)} %",
            "EXCEEDED" if self.exceeds else "",
        )


HEADER = ("secret", "position", "without", "attack", "bound", "")


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
