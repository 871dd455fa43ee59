"""The best of the candidates by simulation on validation latents: many at a glance, few for long."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from airpool.account.guarantee import PrivacyReport
from airpool.account.report import number
from airpool.arrays import Floats
from airpool.evaluate import Evaluation, evaluate
from airpool.network import Coin, Devices, Network
from airpool.plan.candidates import PAPER, Candidate, candidates, network

if TYPE_CHECKING:
    from airpool.models.pretrained import Pretrained

# Simulated inferences of every validation object at each stage, and how many candidates go on to the next.
TRIALS, KEPT = (1, 6, 20), (6, 3)
# Where only a comparison is needed; and between which ε the smallest is looked for.
_QUICK = (1, 4)
_LEAST, _GREATEST = 2.0**-6, 2.0**5


@dataclass(frozen=True, eq=False)
class Option:
    """A candidate as a network, and what it is expected to be worth on objects like those of the validation split."""

    candidate: Candidate
    network: Network
    evaluation: Evaluation

    @property
    def accuracy(self) -> float:
        return self.evaluation.accuracy_mean

    @property
    def interval(self) -> tuple[float, float]:
        """Of the accuracy on as many other objects, 95 %: which objects are seen varies here and there, hence √2."""
        (low, high), mean = self.evaluation.accuracy_ci, self.accuracy
        return max(0.0, mean - 2**0.5 * (mean - low)), min(1.0, mean + 2**0.5 * (high - mean))

    def row(self) -> dict[str, Any]:
        report = self.evaluation.report
        low, high = self.interval
        return {
            "candidate": self.candidate.words,
            **{k: v for k, v in asdict(self.candidate).items() if k != "scheme"},
            "scheme": self.network.scheme.name,
            **self.evaluation.row(),
            "accuracy_low": low,
            "accuracy_high": high,
            "epsilon": number(report.worst),
            "epsilon_local": number(float(np.max(report.epsilon_local))),
            "epsilon_object": number(report.epsilon_object),
        }


@dataclass(frozen=True, eq=False)
class Plan:
    """The best option, the runners-up in falling order, the paper's network at the same ε, and what cannot be built.

    Options that left the search early were seen by fewer trials than those that stayed.
    cameras: which shipped cameras were left out or repeated to fit the devices; None for none.
    """

    best: Option
    others: tuple[Option, ...]
    paper: Option | None
    impossible: tuple[tuple[Candidate, str], ...]
    seed: int
    cameras: str | None = None

    def record(self) -> dict[str, Any]:
        return {
            "best": self.best.row(),
            "others": [each.row() for each in self.others],
            "paper": None if self.paper is None else self.paper.row(),
            "impossible": [{"candidate": each.words, "why": why} for each, why in self.impossible],
            "seed": self.seed,
            "cameras": self.cameras,
        }


def plan(
    given: Network,
    *,
    model: "Pretrained",
    epsilon: float | Sequence[float] | Floats,
    seed: int = 0,
    choice: Sequence[Candidate] | None = None,
    trials: Sequence[int] = TRIALS,
    on_candidate: Callable[[Candidate], None] = lambda _: None,
) -> Plan:
    """The most accurate network for these devices, this channel and this ε, as far as the candidates go.

    given: as in `candidates.network`. epsilon: for all devices, or one each. The last stage uses fresh noise, so that
    luck in the earlier ones does not count; which objects the validation split happens to hold is in the interval.
    Edge cases: no candidate can be built → an error with the reason of the first.
    """
    count = given.devices.count
    targets = np.broadcast_to(np.asarray(epsilon, dtype=np.float64), (count,)).copy()
    if not np.all((targets > 0) & np.isfinite(targets)):
        raise ValueError(f"epsilon={epsilon} must be > 0 and finite")
    cameras = model.held_out("validation").fitted(count).note
    unlike = bool(np.any(targets != targets[0]))
    wanted = candidates(count, model.codecs, unlike=unlike) if choice is None else tuple(choice)
    networks: list[tuple[Candidate, Network]] = []
    impossible: list[tuple[Candidate, str]] = []
    for each in wanted:
        try:
            networks.append((each, built(each, given, targets, model)))
        except ValueError as error:
            impossible.append((each, str(error)))
        on_candidate(each)
    if not networks:
        raise ValueError(f"no candidate can be built: {impossible[0][1]}")

    going: list[tuple[Candidate, Network, PrivacyReport | None]] = [(each, net, None) for each, net in networks]
    options: list[Option] = []
    left: list[Option] = []
    for stage, runs in enumerate(trials):
        options = [
            simulated(each, net, model, trials=runs, seed=seed + 1000 * stage, report=report)
            for each, net, report in going
        ]
        options.sort(key=lambda option: -option.accuracy)
        if stage < len(trials) - 1:
            kept = KEPT[min(stage, len(KEPT) - 1)]
            left, options = [*options[kept:], *left], options[:kept]
            going = [(each.candidate, each.network, each.evaluation.report) for each in options]
    paper = None
    if PAPER.codec in model.codecs:
        try:
            reference = built(PAPER, given, targets, model)
            paper = simulated(PAPER, reference, model, trials=trials[-1], seed=seed)
        except ValueError:
            paper = None
    return Plan(options[0], (*options[1:], *left), paper, tuple(impossible), seed, cameras)


def simulated(
    candidate: Candidate,
    net: Network,
    model: "Pretrained",
    *,
    trials: int,
    seed: int,
    split: Any = "validation",
    report: PrivacyReport | None = None,
) -> Option:
    """The candidate's accuracy on the shipped latents, as its devices would see the objects.

    report: the network's, if it is known already.
    """
    seen = model.held_out(split, codec=candidate.codec).fitted(net.devices.count)
    result = evaluate(
        net,
        seen.latents,
        seen.labels,
        server=model.codec(candidate.codec).server,
        trials=trials,
        seed=seed,
        posteriors=None if isinstance(net.scheme, Coin) else seen.posteriors,
        participation=model.participation(net),
        report=report,
    )
    return Option(candidate, net, result)


def built(candidate: Candidate, given: Network, targets: Floats, model: "Pretrained") -> Network:
    """The candidate's network, weights and clip norms by the validation objects."""
    latents = np.zeros((0, 0, 0))
    if candidate.handle != "noise":
        known = model.held_out("validation", codec=candidate.codec).fitted(given.devices.count)
        latents = known.latents.double().numpy()
    dimension = model.codec(candidate.codec).shape.dimension
    return network(candidate, given, epsilon=targets, dimension=dimension, calibration=latents)


def smallest_epsilon(
    given: Network,
    *,
    model: "Pretrained",
    accuracy: float,
    seed: int = 0,
    on_epsilon: Callable[[float], None] = lambda _: None,
) -> tuple[float, Plan]:
    """The smallest common ε at which a network reaches this accuracy on average, and its plan; to 2 % of ε.

    Edge cases: no ε does → an error that names the best accuracy that there is.
    """
    _check_accuracy(accuracy)
    high = _GREATEST
    on_epsilon(high)
    best = plan(given, model=model, epsilon=high, seed=seed, trials=_QUICK).best
    if best.accuracy < accuracy:
        raise ValueError(f"accuracy={accuracy:g} is beyond reach: the best at ε = {high:g} is {best.accuracy:.3f}")
    chosen, low = best.candidate, high
    # Down by halves as long as it goes, with a quick look at each; then between the last two with the best candidate.
    while high > _LEAST:
        low = high / 2
        on_epsilon(low)
        best = plan(given, model=model, epsilon=low, seed=seed, trials=_QUICK).best
        if best.accuracy < accuracy:
            break
        chosen, high = best.candidate, low
    while high / low > 1.02:
        middle = float(np.sqrt(low * high))
        on_epsilon(middle)
        net = built(chosen, given, np.full(given.devices.count, middle), model)
        enough = simulated(chosen, net, model, trials=10, seed=seed).accuracy >= accuracy
        low, high = (low, middle) if enough else (middle, high)
    return high, plan(given, model=model, epsilon=high, seed=seed)


def fewest_devices(
    given: Network,
    *,
    model: "Pretrained",
    epsilon: float,
    accuracy: float,
    seed: int = 0,
    on_count: Callable[[int], None] = lambda _: None,
) -> tuple[int, Plan]:
    """The smallest number of devices, up to those given, that reach this accuracy at this ε, and their plan.

    All devices are alike: those given must have one power and one target. Accuracy grows with their number, so that
    halving finds the least.
    Edge cases: not even all of them do → an error that names what they reach.
    """
    _check_accuracy(accuracy)
    powers = given.devices.column("power_dbm")
    if len(set(powers)) != 1:
        raise ValueError("power_dbm differs from device to device: which of them would be left out? Give one for all")

    def of(count: int) -> Network:
        return replace(
            given,
            devices=Devices(count=count, power_dbm=powers[0]),
            colluders=min(given.colluders, count - 1),
            dropouts=min(given.dropouts, count - 1),
        )

    low, high = 0, given.devices.count
    on_count(high)
    best = plan(of(high), model=model, epsilon=epsilon, seed=seed, trials=_QUICK)
    if best.best.accuracy < accuracy:
        raise ValueError(
            f"accuracy={accuracy:g} is beyond {high} devices at ε = {epsilon:g}: they reach {best.best.accuracy:.3f}"
        )
    while high - low > 1:
        middle = (low + high) // 2
        on_count(middle)
        tried = plan(of(middle), model=model, epsilon=epsilon, seed=seed, trials=_QUICK)
        low, high = (low, middle) if tried.best.accuracy >= accuracy else (middle, high)
    return high, plan(of(high), model=model, epsilon=epsilon, seed=seed)


def _check_accuracy(accuracy: float) -> None:
    if not 0 < accuracy < 1:
        raise ValueError(f"accuracy={accuracy:g} must be > 0 and < 1")
