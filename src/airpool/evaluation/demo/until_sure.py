"""Our network in one slot, and in up to sixteen quiet ones until the server is sure, at the same cap.

Promised are the cap of an inference and the inferences that a budget allows at least; means are figures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airpool.account.lifetime import Lifetime, lifetime
from airpool.evaluation.demo.comparison import network
from airpool.evaluation.evaluate import Evaluation, evaluate
from airpool.network import Slots

if TYPE_CHECKING:
    from airpool.models.pretrained import Pretrained

CAP, BUDGET = 2.0, 8.0
ASKED = (Slots(1), Slots(16, sure=0.99))


@dataclass(frozen=True, eq=False)
class Spending:
    """One way of asking on the test set, and how long a budget lasts with it."""

    slots: Slots
    evaluation: Evaluation
    life: Lifetime

    def row(self) -> dict[str, Any]:
        """Plain numbers. mean_epsilon: of as many slots as an inference uses on average, promised to none."""
        run = self.evaluation
        return {
            "cap_epsilon": run.report.worst,
            "slots": self.slots.count,
            "sure": None if self.slots.count == 1 else self.slots.sure,
            "accuracy_mean": run.accuracy_mean,
            "accuracy_std": run.accuracy_std,
            "mean_slots": self.life.mean,
            "mean_epsilon": run.report.worst if run.slots is None else run.slots.mean_epsilon,
            "budget_epsilon": self.life.epsilon,
            "inferences_at_least": self.life.at_least,
            "inferences_on_average": self.life.on_average,
        }


def trials_of(trials: int) -> int:
    """Transmissions of every object: a fifth of the comparison's, each of several slots; at least two."""
    return max(2, trials // 5)


def inferences(model: "Pretrained", *, trials: int) -> int:
    """The number of inferences that `until_sure` makes."""
    return len(ASKED) * trials_of(trials) * len(model.held_out("test"))


def until_sure(
    model: "Pretrained", *, trials: int, seed: int = 0, on_inferences: Callable[[int], None] = lambda _: None
) -> tuple[Spending, ...]:
    """Each way of asking, at the same cap, with our network's channel."""

    def spent(slots: Slots) -> Spending:
        net = network("ours", CAP, dimension=model.codec().dimension, slots=slots)
        run = evaluate(model, net, trials=trials_of(trials), seed=seed, on_inferences=on_inferences)
        mean = 1.0 if run.slots is None else run.slots.mean
        return Spending(slots, run, lifetime(net, epsilon=BUDGET, mean_slots=mean))

    return tuple(spent(slots) for slots in ASKED)
