"""The paper's network and ours on the whole test set, at the same five budgets.

paper   codec q16 (r = 784), p = 0.9, ideal channel; σ scaled so that Theorem 1 claims ε
ours    the vote (r = 40), p = 1, Rician fading and receiver noise; the smallest σ whose exact ε is at most ε

Every trained codec stands beside the vote of its own trunk, in the same network and on the same noise: q16 in the
paper's network, compact in ours. Ours is also asked in up to sixteen quiet slots until the server is sure, at the same
cap: promised are the cap of an inference and the inferences that a budget allows at least; means are figures.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from airpool.account import theorem1
from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee
from airpool.account.lifetime import Lifetime, lifetime
from airpool.evaluation.evaluate import Evaluation, evaluate
from airpool.evaluation.objects import held_out
from airpool.models.pretrained import Pretrained
from airpool.network import Channel, Claim, Neighbours, Network, Slots
from airpool_lab.paper.formulas.theorem2 import TABLE_2, Printed

Name = Literal["paper", "ours"]
CODECS: dict[str, Name] = {"q16": "paper", "vote": "ours", "compact": "ours"}  # and the network of each
EPSILONS = (1.0, 2.0, 3.9811, 6.3096, 10.0)  # the last three are the paper's own
RECEIVER_STD = math.sqrt(0.1)
ONE_SLOT = Slots()
_VOTE = ("vote_accuracy", "against_vote", "against_vote_error")  # columns; None for the vote itself


@dataclass(frozen=True, eq=False)
class Point:
    """One network at one budget. remove: its exact ε for the paper's neighbours; printed: the paper's accuracy."""

    epsilon: float
    network: Network
    evaluation: Evaluation
    remove: float
    printed: Printed | None

    def row(self) -> dict[str, Any]:
        """The row as plain numbers; every ε is that of the worst device."""
        report = self.evaluation.report
        return {
            "epsilon": self.epsilon,
            **self.evaluation.row(),
            "epsilon_claimed": float(max(report.paper.epsilon)),
            "epsilon_device": report.worst,
            "epsilon_remove": self.remove,
            "epsilon_local": float(max(report.epsilon_local)),
            "epsilon_object": report.epsilon_object,
            "noise_std": self.network.devices.column("noise_std")[0],
            "paper_accuracy": self.printed and self.printed.mean,
            "paper_accuracy_std": self.printed and self.printed.std,
        }


@dataclass(frozen=True, eq=False)
class Curve:
    """One network with one codec at every budget, and the accuracy of the codec without noise."""

    name: Name
    codec: str
    points: tuple[Point, ...]
    without_noise: Evaluation

    def rows(self) -> list[dict[str, Any]]:
        """One row of plain numbers per budget, and one without noise, at ε = inf; all rows have the same columns."""
        head = {"network": self.name, "codec": self.codec, **dict.fromkeys(_VOTE)}
        rows = [head | point.row() for point in self.points]
        infinite = {name: math.inf for name in rows[0] if name.startswith("epsilon")}
        return [*rows, dict.fromkeys(rows[0]) | head | infinite | self.without_noise.row() | {"noise_std": 0.0}]


def network(name: Name, epsilon: float, *, dimension: int, slots: Slots = ONE_SLOT) -> Network:
    """One of the two networks at one budget; ours may have several slots.

    >>> ours = network("ours", 2.0, dimension=40)
    >>> ours.channel.fading, round(ours.devices.noise_std[0], 5)
    ('rician', 0.04828)
    """
    if name == "paper":
        plain = Network.uniform(num_devices=12, dimension=dimension, participation=0.9)
        return theorem1.calibrate(plain, epsilon=epsilon)
    channel = Channel(fading="rician", noise_std=RECEIVER_STD)
    return calibrate(
        Network.uniform(num_devices=12, dimension=dimension, channel=channel, slots=slots), epsilon=epsilon
    )


def inferences(model: Pretrained, *, trials: int, epsilons: Sequence[float] = EPSILONS) -> int:
    """The number of inferences that `comparison` makes."""
    return len(CODECS) * (len(epsilons) * trials + 1) * len(model.held_out("test"))


def comparison(
    model: Pretrained,
    *,
    trials: int,
    seed: int = 0,
    epsilons: Sequence[float] = EPSILONS,
    on_inferences: Callable[[int], None] = lambda _: None,
) -> tuple[Curve, Curve, Curve]:
    """q16, the vote and compact on the shipped test set; every object is transmitted `trials` times per budget."""

    def curve(name: str) -> Curve:
        where = CODECS[name]
        nets = [network(where, epsilon, dimension=model.codec(name).dimension) for epsilon in epsilons]
        objects = held_out(model, nets[0], codec=name, against_vote=True)
        evaluated = partial(evaluate, objects, seed=seed, on_inferences=on_inferences)
        points = tuple(
            Point(
                epsilon,
                net,
                evaluated(net, trials=trials),
                guarantee(net, Claim(neighbours=Neighbours.REMOVE)).worst,
                TABLE_2["1"].get(epsilon),
            )
            for epsilon, net in zip(epsilons, nets, strict=True)
        )
        quiet = evaluated(nets[-1], trials=1, instead="centralised")
        return Curve(where, name, points, quiet)

    return curve("q16"), curve("vote"), curve("compact")


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


def asked_inferences(model: Pretrained, *, trials: int) -> int:
    """The number of inferences that `until_sure` makes."""
    return len(ASKED) * trials_of(trials) * len(model.held_out("test"))


def until_sure(
    model: Pretrained, *, trials: int, seed: int = 0, on_inferences: Callable[[int], None] = lambda _: None
) -> tuple[Spending, ...]:
    """Each way of asking, at the same cap, with our network's channel."""

    def spent(slots: Slots) -> Spending:
        net = network("ours", CAP, dimension=model.codec().dimension, slots=slots)
        run = evaluate(model, net, trials=trials_of(trials), seed=seed, on_inferences=on_inferences)
        mean = 1.0 if run.slots is None else run.slots.mean
        return Spending(slots, run, lifetime(net, epsilon=BUDGET, mean_slots=mean))

    return tuple(spent(slots) for slots in ASKED)
