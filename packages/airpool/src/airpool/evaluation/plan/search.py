"""The best of the candidates by simulation on validation latents: many with few trials, few with many."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from airpool._support import figures, notebook
from airpool._support.arrays import Floats
from airpool._support.brief import Brief
from airpool._support.files import jsonable
from airpool._support.progress import automatic
from airpool._support.rounding import because, full, shown, shown_below
from airpool._support.threads import single_thread
from airpool.account.guarantee import PrivacyReport
from airpool.evaluation.evaluate import Evaluation, evaluate
from airpool.evaluation.objects import held_out
from airpool.evaluation.plan.candidates import DESIGNED, PAPER, Candidate, brought, built, candidates
from airpool.models.model import Model
from airpool.models.stored import HeldOut
from airpool.network import Claim, Devices, Network

# Simulated inferences of every validation object at each stage, and how many candidates go on to the next.
TRIALS, KEPT = (1, 6, 20), (6, 3)
RUNNERS_UP = ("runners-up", "accuracy", "runs", "energy")
_DRAWN = 6  # options in a drawing
# Where only a comparison is needed; and the range in which the smallest ε is searched.
_QUICK = (1, 4)
_LEAST, _GREATEST = 2.0**-6, 2.0**5


@dataclass(frozen=True, eq=False, repr=False)
class Option(Brief):
    """A candidate as a network, and its evaluation on the validation objects. Example: `Plan`."""

    candidate: Candidate
    network: Network
    evaluation: Evaluation

    @property
    def accuracy(self) -> float:
        """Mean accuracy on the validation objects."""
        return self.evaluation.accuracy_mean

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the accuracy on as many other objects: both samples of objects vary, hence √2.

        Holds for: objects drawn as the validation objects were, so of every class as often; a vote that did not see
        the objects it is measured on (`simulated`).
        """
        (low, high), mean = self.evaluation.accuracy_ci, self.accuracy
        return max(0.0, mean - 2**0.5 * (mean - low)), min(1.0, mean + 2**0.5 * (high - mean))

    def _repr_html_(self) -> str:
        return self.evaluation._repr_html_()

    def row(self) -> dict[str, Any]:
        """Settings and measurements, one per column."""
        report = self.evaluation.report
        return {
            "candidate": self.candidate.words,
            **{k: v for k, v in asdict(self.candidate).items() if k != "scheme"},
            "scheme": self.network.scheme.name,
            **self.evaluation.row(),
            **dict(zip(("accuracy_low", "accuracy_high"), self.interval, strict=True)),
            "epsilon": report.worst,
            "epsilon_local": float(np.max(report.epsilon_local)),
            "epsilon_object": report.epsilon_object,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Brief):
    """The best option, the others in falling order, the paper's network at the same ε, and what cannot be built.

    Options that left the search early have fewer trials than those that stayed.
    cameras: which shipped cameras were left out or repeated to fit the devices; None for none.
    impossible: candidates with the reason.

    >>> from airpool import load
    >>> vote = [Candidate("vote")]
    >>> found = plan(Network.uniform(num_devices=3), model=load("modelnet40"), epsilon=4, choice=vote, trials=[1])
    >>> best = found.best
    >>> best.interval[0] < best.accuracy < best.interval[1], best.row()["candidate"], found.record()["seed"]
    (True, 'vote, p = 1', 0)
    >>> found.claim == best.evaluation.report.claim
    True
    """

    best: Option
    others: tuple[Option, ...]
    paper: Option | None
    impossible: tuple[tuple[Candidate, str], ...]
    seed: int
    cameras: str | None = None

    @property
    def claim(self) -> Claim:
        """What the targets are about."""
        return self.best.evaluation.report.claim

    def _repr_html_(self) -> str:
        title, *lines = best_in_words(self)
        options = [self.best, *self.others][:_DRAWN] + ([self.paper] if self.paper else [])
        drawn = notebook.dots(
            [_dot(each, self) for each in options], ends=(0.0, 1.0), axis="accuracy on validation objects"
        )
        table = notebook.rows_of(RUNNERS_UP, runners_up(self))
        notes = [self.cameras] if self.cameras else []
        return notebook.shown(f"Plan: {title}", notebook.sentences(lines), drawn, table, notebook.sentences(notes))

    def record(self) -> dict[str, Any]:
        """The plan as plain data; an infinite ε is the string "inf"."""
        data = {
            "best": self.best.row(),
            "others": [each.row() for each in self.others],
            "paper": None if self.paper is None else self.paper.row(),
            "impossible": [{"candidate": each.words, "why": why} for each, why in self.impossible],
            "seed": self.seed,
            "cameras": self.cameras,
            "live": self.claim.live,
        }
        return jsonable(data)


@single_thread()
def plan(
    given: Network,
    claim: Claim = Claim(),
    *,
    model: Model,
    epsilon: float | Sequence[float] | Floats,
    seed: int = 0,
    choice: Sequence[Candidate] | None = None,
    trials: Sequence[int] = TRIALS,
    on_candidate: Callable[[Candidate], None] = lambda _: None,
) -> Plan:
    """The most accurate of the candidates for these devices, this channel and this ε.

    given: as in `candidates.built`; where its scheme is a plug-in's, that is tried too. epsilon: for all devices, or
    one each. choice: the candidates, all by default. The last stage draws fresh noise, so that the selection does not
    bias it; the interval includes the choice of the validation objects.
    model: of `load` or `fit`. trials: inferences of each object at each stage. on_candidate: told what is tried.
    Edge cases: no candidate can be built → an error with the reason of the first.

    >>> from airpool import load
    >>> few = [Candidate("vote"), Candidate("compact")]
    >>> found = plan(Network.uniform(num_devices=3), model=load("modelnet40"), epsilon=4, choice=few, trials=[1])
    >>> found.best.candidate.codec, found.best.network.dimension, found.best.evaluation.report.worst <= 4
    ('compact', 40, True)
    """
    count = given.devices.count
    targets = np.broadcast_to(np.asarray(epsilon, dtype=np.float64), (count,)).copy()
    if not np.all((targets > 0) & np.isfinite(targets)):
        raise ValueError(f"epsilon={epsilon} must be > 0 and finite")
    cameras = model.held_out("validation").fitted(count).note
    if choice is None:
        each_its_own, covered = bool(np.any(targets != targets[0])), given.channel.rules.cover_noise
        choice = candidates(count, model.deployable, heterogeneous=each_its_own, covered=covered)
        choice = (*choice, *brought(given, model.deployable))
    steps = len(choice) * (1 + trials[0]) + sum(n * runs for n, runs in zip(KEPT, trials[1:], strict=False))
    with automatic("planning", steps) as advance:
        going: list[tuple[Candidate, Network]] = []
        impossible: list[tuple[Candidate, str]] = []
        for each in choice:
            try:
                going.append((each, built(each, given, claim, targets, model)))
            except ValueError as error:
                impossible.append((each, str(error)))
            on_candidate(each)
            advance(1)
        if not going:
            raise ValueError(f"no candidate can be built: {impossible[0][1]}")

        ranked, reports = list[Option](), dict[Candidate, PrivacyReport]()
        kept = [*(KEPT[min(stage, len(KEPT) - 1)] for stage in range(len(trials) - 1)), 0]
        for stage, (runs, going_on) in enumerate(zip(trials, kept, strict=True)):
            fresh = seed + 1000 * stage
            options = list[Option]()
            for each, net in going:
                known = reports.get(each)
                options.append(simulated(each, net, claim, model, trials=runs, seed=fresh, report=known))
                advance(runs)
            options.sort(key=lambda option: -option.accuracy)
            ranked = [*options[going_on:], *ranked]
            going = [(each.candidate, each.network) for each in options[:going_on]]
            reports = {each.candidate: each.evaluation.report for each in options}
        paper = None
        with suppress(ValueError):  # no such codec, or no such network
            net = built(PAPER, given, claim, targets, model)
            paper = simulated(PAPER, net, claim, model, trials=trials[-1], seed=seed)
    return Plan(ranked[0], tuple(ranked[1:]), paper, tuple(impossible), seed, cameras)


def simulated(
    candidate: Candidate,
    net: Network,
    claim: Claim,
    model: Model,
    *,
    trials: int,
    seed: int,
    split: HeldOut = "validation",
    report: PrivacyReport | None = None,
) -> Option:
    """The candidate's accuracy on the shipped latents. report: the network's, if it is known already."""
    unseen = split == model.vote_fitted_to
    objects = held_out(model, net, codec=candidate.codec, split=split, unseen=unseen)
    return Option(candidate, net, evaluate(objects, net, claim, trials=trials, seed=seed, report=report))


@single_thread()
@automatic("finding the smallest ε")
def smallest_epsilon(
    given: Network, claim: Claim = Claim(), *, model: Model, accuracy: float, seed: int = 0
) -> tuple[float, Plan]:
    """The smallest common ε at which a network reaches this accuracy on average, and its plan; to 2 % of ε.

    Edge cases: no ε does → an error that names the best accuracy that there is.
    """
    check_accuracy(accuracy)
    low = high = _GREATEST
    best = plan(given, claim, model=model, epsilon=high, seed=seed, trials=_QUICK).best
    if best.accuracy < accuracy:
        raise ValueError(
            f"accuracy={accuracy:g} is beyond reach: the best at ε = {high:g} is {shown_below(best.accuracy)}"
        )
    chosen = best.candidate
    # Halve ε while a quick plan reaches the accuracy; then bisect between the last two with the best candidate.
    while high > _LEAST:
        low = high / 2
        best = plan(given, claim, model=model, epsilon=low, seed=seed, trials=_QUICK).best
        if best.accuracy < accuracy:
            break
        chosen, high = best.candidate, low
    while high / low > 1.02:
        middle = float(np.sqrt(low * high))
        net = built(chosen, given, claim, np.full(given.devices.count, middle), model)
        enough = simulated(chosen, net, claim, model, trials=10, seed=seed).accuracy >= accuracy
        low, high = (low, middle) if enough else (middle, high)
    return high, plan(given, claim, model=model, epsilon=high, seed=seed)


@single_thread()
@automatic("finding the fewest devices")
def fewest_devices(
    given: Network, claim: Claim = Claim(), *, model: Model, epsilon: float, accuracy: float, seed: int = 0
) -> tuple[int, Plan]:
    """The smallest number of devices, up to those given, that reach this accuracy at this ε, and their plan.

    The devices given must have one power, one path loss and one target. Accuracy grows with their number: bisection
    finds the least.
    Edge cases: not even all of them do → an error that names what they reach.
    """
    check_accuracy(accuracy)
    alike = dict[str, float]()
    for name in (each.name for each in fields(Devices) if each.name not in ("count", *DESIGNED)):
        values = set(given.devices.column(name))
        if len(values) != 1:
            raise ValueError(f"{name} differs between devices, so the fewest are not defined: give one value for all")
        alike[name] = values.pop()

    def best_of(count: int, trials: Sequence[int] = _QUICK) -> Plan:
        devices = Devices(count=count, **alike)
        colluders, dropouts = min(given.colluders, count - 1), min(given.dropouts, count - 1)
        fewer = replace(given, devices=devices, colluders=colluders, dropouts=dropouts)
        return plan(fewer, claim, model=model, epsilon=epsilon, seed=seed, trials=trials)

    most = given.devices.count
    if (reached := best_of(most).best.accuracy) < accuracy:
        raise ValueError(
            f"accuracy={accuracy:g} is beyond {most} devices at ε = {full(epsilon)}: they reach {shown_below(reached)}"
        )
    fewer = range(1, most)
    count = 1 + bisect_left(fewer, True, key=lambda count: best_of(count).best.accuracy >= accuracy)
    return count, best_of(count, TRIALS)


def check_accuracy(accuracy: float) -> None:
    """Raises a ValueError unless it is above 0 and below 1."""
    if not 0 < accuracy < 1:
        raise ValueError(f"accuracy={accuracy:g} must be > 0 and < 1")


def best_in_words(found: Plan) -> tuple[str, str, str, str]:
    """The best option, its accuracy, its ε, and what an inference costs."""
    best, report = found.best, found.best.evaluation.report
    why = [because(report.reasons, name) for name in ("epsilon", "epsilon_local", "epsilon_object")]
    net, run, claim = best.network, best.evaluation, found.claim
    low, high = best.interval
    return (
        best.candidate.words,
        f"accuracy {best.accuracy:.3f}, {low:.3f} to {high:.3f} on as many other objects (95 %, validation, "
        f"{run.objects} objects, {run.trials} runs)",
        f"ε = {shown(report.worst)}{why[0]} (local {shown(float(max(report.epsilon_local)))}{why[1]}, object "
        f"{shown(report.epsilon_object)}{why[2]}) at δ = {full(claim.delta)}, {claim.neighbours}, {claim.inferences} "
        f"inference(s), {net.devices.count} devices",
        f"{run.channel_uses} channel uses and {run.energy:.4g} mW·uses an inference"
        if run.bytes_per_device is None
        else "{:,} bytes sent and {:,} received by each device an inference".format(*run.bytes_per_device),
    )


def runners_up(found: Plan) -> list[tuple[str, ...]]:
    """Rows below `RUNNERS_UP`: the other options, the paper's network, and what cannot be built."""
    rows = [
        (
            ("the paper's network: " if option is found.paper else "") + option.candidate.words,
            f"{option.accuracy:.3f}",
            str(option.evaluation.trials),
            f"{option.evaluation.energy:.3g}",
        )
        for option in (*found.others, *([found.paper] if found.paper else []))
    ]
    return rows + [(f"{candidate.words}: {why}", "–", "", "") for candidate, why in found.impossible]


def _dot(option: Option, found: Plan) -> notebook.Dot:
    name = "the paper's network" if option is found.paper else option.candidate.words
    colour = figures.PAPER if option is found.paper else figures.OURS
    short = name if len(name) <= 30 else f"{name[:29]}…"
    return notebook.Dot(short, option.accuracy, f"{option.accuracy:.3f}", option.interval, colour=colour)


FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
_COLUMNS = ("candidate", "epsilon", "epsilon_local", "epsilon_object", "accuracy_mean", "accuracy_low", "accuracy_high")


@dataclass(frozen=True, eq=False)
class Frontier:
    """Options of the plan's candidate and of the paper's at rising targets; all on validation objects."""

    options: tuple[Option, ...]
    paper: tuple[Option, ...]

    def columns(self) -> dict[str, list[Any]]:
        kinds = ["plan"] * len(self.options) + ["paper"] * len(self.paper)
        rows = [option.row() for option in (*self.options, *self.paper)]
        return jsonable({"kind": kinds, **{key: [row[key] for row in rows] for key in _COLUMNS}})


def frontier(
    plan: Plan,
    *,
    model: Model,
    factors: Sequence[float] = FACTORS,
    trials: int = 5,
    on_point: Callable[[], None] = lambda: None,
) -> Frontier:
    """The plan's best candidate and the paper's network at `factors` times its targets.

    What cannot be built is left out. Devices and channel are those of the plan's network.
    """
    given = plan.best.network
    targets = np.array(given.devices.epsilon)

    def along(candidate: Candidate) -> tuple[Option, ...]:
        out: list[Option] = []
        for factor in factors:
            with suppress(ValueError):
                net = built(candidate, given, plan.claim, targets * factor, model)
                out.append(simulated(candidate, net, plan.claim, model, trials=trials, seed=plan.seed))
            on_point()
        return tuple(out)

    return Frontier(along(plan.best.candidate), along(PAPER))


def draw(found: Frontier, plan: Plan, path: Path) -> None:
    """Draws accuracy against device, local and object ε, and the paper's network at the same device ε."""
    from airpool._support.figures import BLUE, GREEN, GREY, ORANGE, RED, figure

    curves = {
        "epsilon": (BLUE, "device ε"),
        "epsilon_local": (ORANGE, "local ε"),
        "epsilon_object": (GREEN, "object ε"),
    }
    with figure(path, width=6.4, height=3.8) as (_, axes):
        for key, (colour, text) in curves.items():
            points = [(option.row()[key], option.accuracy) for option in found.options]
            axes.plot(*zip(*points, strict=True), color=colour, marker="o", ms=3, label=text)
        lows, highs = zip(*(option.interval for option in found.options), strict=True)
        worst = [option.evaluation.report.worst for option in found.options]
        axes.fill_between(worst, lows, highs, color=BLUE, alpha=0.15, lw=0, label="95 %, as many other objects")
        if found.paper:
            points = [(option.evaluation.report.worst, option.accuracy) for option in found.paper]
            axes.plot(*zip(*points, strict=True), "--", color=RED, label="the paper's network, device ε")
        best = plan.best
        axes.plot([best.evaluation.report.worst], [best.accuracy], "*", color=GREY, ms=11, label="this plan")
        axes.set(xscale="log", xlabel=f"ε at δ = {plan.claim.delta:g}", ylabel="accuracy (validation)")
        axes.set_title(best.candidate.words)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
