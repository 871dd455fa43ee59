"""The main job: the paper's network and ours on the whole test set, at the same five budgets.

paper   codec q16 (r = 784), p = 0.9, ideal channel; the noise that its Theorem 1 claims ε for
ours    codec compact (r = 40), p = 1, Rician fading and receiver noise; the least noise whose exact ε is ε
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airpool.account.calibration import calibrate, calibrate_claim
from airpool.account.guarantee import guarantee
from airpool.account.report import number
from airpool.evaluate import Evaluation, evaluate
from airpool.network import Channel, Network
from airpool.paper.accuracy import Printed, printed

if TYPE_CHECKING:
    from airpool.models.pretrained import Pretrained

Name = Literal["paper", "ours"]
CODECS: dict[Name, str] = {"paper": "q16", "ours": "compact"}
EPSILONS = (1.0, 2.0, 3.9811, 6.3096, 10.0)  # the last three are the paper's own
RECEIVER_STD = math.sqrt(0.1)


@dataclass(frozen=True, eq=False)
class Point:
    """One network at one budget. `removal`: its worst device's exact ε by the paper's own kind of neighbours."""

    epsilon: float
    network: Network
    evaluation: Evaluation
    removal: float
    printed: Printed | None

    @property
    def claimed(self) -> float:
        return float(max(self.evaluation.report.paper.epsilon))

    @property
    def device(self) -> float:
        return self.evaluation.report.worst

    @property
    def local(self) -> float:
        return float(max(self.evaluation.report.epsilon_local))

    @property
    def object(self) -> float:
        return self.evaluation.report.epsilon_object


@dataclass(frozen=True, eq=False)
class Curve:
    """A kind of network at every budget, and what its codec reaches when nothing is private."""

    name: Name
    points: tuple[Point, ...]
    without_noise: Evaluation

    @property
    def codec(self) -> str:
        return CODECS[self.name]

    def rows(self) -> list[dict[str, Any]]:
        """One row of plain numbers for each budget, and one, of ε = inf, without noise."""
        head = {"network": self.name, "codec": self.codec}
        rows = [
            head
            | {"epsilon": point.epsilon}
            | point.evaluation.row()
            | {
                "epsilon_claimed": point.claimed,
                "epsilon_device": point.device,
                "epsilon_remove": point.removal,
                "epsilon_local": point.local,
                "epsilon_object": point.object,
                "noise_std": point.network.devices.column("noise_std")[0],
                "paper_accuracy": None if point.printed is None else point.printed.mean,
                "paper_accuracy_std": None if point.printed is None else point.printed.std,
            }
            for point in self.points
        ]
        quiet = dict.fromkeys(rows[0]) | head | {name: math.inf for name in rows[0] if name.startswith("epsilon")}
        return [*rows, quiet | self.without_noise.row() | {"noise_std": 0.0}]


def record(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """All rows, for JSON."""
    return [
        {name: number(value) if isinstance(value, float) else value for name, value in row.items()}
        for curve in curves
        for row in curve.rows()
    ]


def network(name: Name, epsilon: float, *, dimension: int) -> Network:
    """The network of one curve at one budget.

    >>> ours = network("ours", 2.0, dimension=40)
    >>> ours.channel.fading, round(ours.devices.noise_std[0], 5)
    ('rician', 0.04828)
    """
    if name == "paper":
        plain = Network.uniform(num_devices=12, dimension=dimension, participation=0.9)
        return calibrate_claim(plain, epsilon=epsilon)
    air = Channel(fading="rician", noise_std=RECEIVER_STD)
    return calibrate(Network.uniform(num_devices=12, dimension=dimension, channel=air), epsilon=epsilon)


def inferences(model: "Pretrained", *, trials: int, epsilons: Sequence[float] = EPSILONS) -> int:
    """How many inferences `comparison` makes."""
    return len(CODECS) * (len(epsilons) * trials + 1) * len(model.held_out("test"))


def comparison(
    model: "Pretrained",
    *,
    trials: int,
    seed: int = 0,
    epsilons: Sequence[float] = EPSILONS,
    on_inferences: Callable[[int], None] = lambda _: None,
) -> tuple[Curve, Curve]:
    """The paper's network and ours on the shipped test set: every object sent `trials` times at every budget."""

    def curve(name: Name) -> Curve:
        codec, objects = model.codec(CODECS[name]), model.held_out("test", codec=CODECS[name])

        def evaluated(net: Network, **rest: Any) -> Evaluation:
            return evaluate(
                net,
                objects.latents,
                objects.labels,
                server=codec.server,
                seed=seed,
                on_inferences=on_inferences,
                **rest,
            )

        nets = [network(name, epsilon, dimension=codec.shape.dimension) for epsilon in epsilons]
        points = tuple(
            Point(
                epsilon,
                net,
                evaluated(net, trials=trials),
                guarantee(net, neighbours="remove").worst,
                printed("1", epsilon),
            )
            for epsilon, net in zip(epsilons, nets, strict=True)
        )
        return Curve(name, points, evaluated(nets[-1], trials=1, baseline="centralised"))

    return curve("paper"), curve("ours")
