"""The paper's network and ours on the whole test set, at the same five budgets.

paper   codec q16 (r = 784), p = 0.9, ideal channel; σ scaled so that Theorem 1 claims ε
ours    the vote (r = 40), p = 1, Rician fading and receiver noise; the smallest σ whose exact ε is at most ε

Every trained codec stands beside the vote of its own trunk, in the same network and on the same noise: q16 in the
paper's network, compact in ours.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from airpool.account.calibration import calibrate, calibrate_claim
from airpool.account.guarantee import guarantee
from airpool.evaluation.evaluate import Evaluation, evaluate
from airpool.evaluation.objects import held_out
from airpool.network import Channel, Network, Slots
from airpool.paper.formulas.accuracy import TABLE_2, Printed

if TYPE_CHECKING:
    from airpool.models.pretrained import Pretrained

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
        return calibrate_claim(Network.uniform(num_devices=12, dimension=dimension, participation=0.9), epsilon=epsilon)
    channel = Channel(fading="rician", noise_std=RECEIVER_STD)
    return calibrate(
        Network.uniform(num_devices=12, dimension=dimension, channel=channel, slots=slots), epsilon=epsilon
    )


def inferences(model: "Pretrained", *, trials: int, epsilons: Sequence[float] = EPSILONS) -> int:
    """The number of inferences that `comparison` makes."""
    return len(CODECS) * (len(epsilons) * trials + 1) * len(model.held_out("test"))


def comparison(
    model: "Pretrained",
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
                guarantee(net, neighbours="remove").worst,
                TABLE_2["1"].get(epsilon),
            )
            for epsilon, net in zip(epsilons, nets, strict=True)
        )
        quiet = evaluated(nets[-1], trials=1, instead="centralised")
        return Curve(where, name, points, quiet)

    return curve("q16"), curve("vote"), curve("compact")
