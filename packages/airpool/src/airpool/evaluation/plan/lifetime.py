"""A plan for a total budget: the cap, number of slots and threshold by which it lasts longest, or is used best.

    promised   the budget ε of each device; the cap ε of one inference; the inferences that fit if all go to the cap
    a figure   accuracy and mean number of slots on validation objects, and how many inferences that would make

Networks are built as candidates are (p = 1, the model's default codec). Thresholds are chosen on traces of validation
objects, decoded by servers that were not fitted to them; accuracy and mean are then measured with fresh noise.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from airpool._support import notebook
from airpool._support.brief import Brief
from airpool._support.files import jsonable
from airpool._support.progress import automatic
from airpool._support.rounding import full, shown
from airpool._support.threads import single_thread
from airpool.account.lifetime import Lifetime, lifetime, stream_epsilon
from airpool.evaluation.inferences import Traces, largest_sure, traces
from airpool.evaluation.objects import held_out
from airpool.evaluation.plan.candidates import Candidate, built
from airpool.evaluation.plan.search import Option, check_accuracy, simulated
from airpool.models.model import Model
from airpool.network import Claim, Network

COUNTS = (1, 4, 16, 64)
CAPS = (1.0, 1.5, 2.0, 3.0, 4.0)
# The budget lasts this number of times longer on average than if every inference went to the cap.
STRETCHES = (2, 4, 8)
# Of the slots that a plan may use, this share is used on validation objects.
SHARE = 0.95
# Ways this close to the best are equally good, and the fewest channel uses decide: inferences as a share, accuracy.
_CLOSE, _EQUAL = 0.1, 0.005
_TRACED, _TRIALS = 2, 5
# The least ε of a single slot that is tried.
_LEAST = 1e-3


@dataclass(frozen=True)
class Wanted:
    """budget: total ε of each device. inferences: that it lasts for on average. accuracy: to reach. One or both.

    cap: of one inference, where it is given. slots: of one inference, at most.
    """

    budget: float
    inferences: int | None = None
    accuracy: float | None = None
    cap: float | None = None
    slots: int = COUNTS[-1]

    def __post_init__(self) -> None:
        if self.inferences is None and self.accuracy is None:
            raise ValueError("a budget is planned for a number of inferences, an accuracy, or both: give one")
        if self.accuracy is not None:
            check_accuracy(self.accuracy)
        for name, value in (("budget", self.budget), ("cap", self.cap)):
            if value is not None and not 0 < value < np.inf:
                raise ValueError(f"{name} ε={value:g} must be > 0 and finite")
        if self.cap is not None and self.cap > self.budget:
            raise ValueError(f"cap ε={full(self.cap)} must be at most the budget, {full(self.budget)}")


@dataclass(frozen=True, eq=False, repr=False)
class Way(Brief):
    """A network with its slots and threshold, measured on validation objects; and how long the budget lasts with it."""

    option: Option
    life: Lifetime

    @property
    def network(self) -> Network:
        return self.option.network

    @property
    def mean_slots(self) -> float:
        used = self.option.evaluation.slots
        return 1.0 if used is None else used.mean

    @property
    def on_average(self) -> float:
        return self.life.on_average or 0.0

    def row(self) -> dict[str, Any]:
        run, slots = self.option.evaluation, self.network.slots
        low, high = self.option.interval
        return {
            "cap_epsilon": run.report.worst,
            "slots": slots.count,
            "sure": None if slots.count == 1 else slots.sure,
            "accuracy": run.accuracy_mean,
            "accuracy_low": low,
            "accuracy_high": high,
            "mean_slots": self.mean_slots,
            "mean_channel_uses": run.channel_uses * self.mean_slots,
            "mean_energy": run.energy,
            "mean_bytes": run.bytes_per_device,
            "most_channel_uses": run.channel_uses * slots.count,
            "budget_slots": self.life.slots,
            "inferences_at_least": self.life.at_least,
            "inferences_on_average": self.on_average,
        }


@dataclass(frozen=True, eq=False, repr=False)
class LifePlan(Brief):
    """The best way to spend a budget, and the others in falling order of what was wanted."""

    wanted: Wanted
    best: Way
    others: tuple[Way, ...]
    seed: int

    def _repr_html_(self) -> str:
        title, *lines = life_in_words(self)
        return notebook.shown(title, notebook.sentences(lines), notebook.rows_of(*ways(self)))

    def record(self) -> dict[str, Any]:
        """As plain data. Promised are cap_epsilon, the budget and inferences_at_least; means are figures."""
        return jsonable(
            {
                "budget_epsilon": self.wanted.budget,
                "inferences": self.wanted.inferences,
                "accuracy": self.wanted.accuracy,
                "best": self.best.row(),
                "others": [each.row() for each in self.others],
                "promised": ["budget_epsilon", "cap_epsilon", "inferences_at_least"],
                "seed": self.seed,
                "live": self.best.option.evaluation.report.claim.live,
            }
        )


@single_thread()
@automatic("planning a life")
def life_plan(
    given: Network,
    claim: Claim = Claim(),
    *,
    model: Model,
    wanted: Wanted,
    seed: int = 0,
    on_way: Callable[[], None] = lambda: None,
) -> LifePlan:
    """The cap, number of slots and threshold for a total budget ε of each device.

    For a number of inferences: the most accurate way whose mean lets the budget last that long. For an accuracy: the
    one that reaches it and lets the budget last longest. For both: of those that do both, the most accurate. Among
    equally good ones the fewest channel uses decide, and with them latency and energy.
    given: devices, power, channel, as in `candidates.built`. claim: its inferences and stays do not count. If it is
    live, cap and budget are those of devices that run, as their ledgers count.
    Edge case: no way does → an error that names what there is.
    """
    search, found = _Search(given, replace(claim, inferences=1, per_event=None), model, wanted, seed), list[Way]()
    for way in search.by_number() if wanted.inferences else search.by_accuracy():
        found += [] if way is None else [way]
        on_way()

    def worth(way: Way) -> float:
        return way.option.accuracy if wanted.inferences else way.on_average

    good = [
        way
        for way in found
        if way.option.accuracy >= (wanted.accuracy or 0.0) and way.on_average >= (wanted.inferences or 1)
    ]
    if not good:
        raise ValueError(search.too_little(found))
    top = max(map(worth, good))
    least = top - _EQUAL if wanted.inferences else (1 - _CLOSE) * top
    best = min((way for way in good if worth(way) >= least), key=lambda way: way.mean_slots)
    others = sorted((way for way in found if way is not best), key=worth, reverse=True)
    return LifePlan(wanted, best, tuple(others), seed)


def tried(wanted: Wanted) -> int:
    """Number of ways that `life_plan` weighs."""
    several = sum(1 for count in COUNTS if 1 < count <= wanted.slots)
    return 1 + several * (1 if wanted.cap else len(STRETCHES if wanted.inferences else CAPS))


@dataclass(frozen=True, eq=False)
class _Search:
    """Ways for these devices, one at a time; None for one that does not reach the accuracy, or the budget does not."""

    given: Network
    claim: Claim
    model: Model
    wanted: Wanted
    seed: int

    @property
    def counts(self) -> list[int]:
        """Numbers of slots, beyond one."""
        return [count for count in COUNTS if 1 < count <= self.wanted.slots]

    def by_number(self) -> Iterator[Way | None]:
        """Ways whose mean lets the budget last for the inferences wanted."""
        budget, cap, number = self.wanted.budget, self.wanted.cap, self.wanted.inferences or 1
        once = self.network(1, budget, inferences=number)
        yield self.way(self.network(1, cap) if cap and stream_epsilon(once, self.claim, 1) > cap else once)
        for count in self.counts:
            for stretch in (1,) if cap else STRETCHES:
                net = self.network(count, cap or budget, inferences=1 if cap else max(1, ceil(number / stretch)))
                most = SHARE * (lifetime(net, self.claim, epsilon=budget).slots - count) / max(number - 1, 1)
                yield self.way(net, lambda got, most=most: _largest(got, most))

    def by_accuracy(self) -> Iterator[Way | None]:
        """Ways that reach the accuracy wanted; the first is the cheapest single slot."""
        budget, cap, accuracy = self.wanted.budget, self.wanted.cap, self.wanted.accuracy or 0.0
        yield self.cheapest_slot(cap or budget, accuracy)
        for each in (cap,) if cap else CAPS:
            for count in self.counts:
                fits = each <= budget
                yield self.way(self.network(count, each), lambda got: got.smallest_sure(accuracy)) if fits else None

    def cheapest_slot(self, most: float, accuracy: float) -> Way | None:
        """The single slot of least ε, to 2 %, that reaches this accuracy."""

        def reaches(epsilon: float) -> bool:
            return self.measured(self.network(1, epsilon)).accuracy >= accuracy

        if not reaches(most):
            return None
        low, high = most / 2, most
        while low > _LEAST and reaches(low):
            low, high = low / 2, low
        while high / low > 1.02:
            middle = (low * high) ** 0.5
            low, high = (low, middle) if reaches(middle) else (middle, high)
        return self.way(self.network(1, high))

    def network(self, count: int, epsilon: float, *, inferences: int = 1) -> Network:
        """The network whose inferences have this ε together."""
        bare = replace(self.given, slots=replace(self.given.slots, count=count))
        together, targets = replace(self.claim, inferences=inferences), np.full(bare.devices.count, epsilon)
        net = built(Candidate(self.model.codecs[0]), bare, together, targets, self.model)
        return replace(net, devices=replace(net.devices, epsilon=None))

    def measured(self, net: Network) -> Option:
        candidate, seed = Candidate(self.model.codecs[0]), self.seed + 1000
        return simulated(candidate, net, self.claim, self.model, trials=_TRIALS, seed=seed)

    def way(self, net: Network, threshold: Callable[[Traces], float | None] = lambda _: None) -> Way | None:
        """With the threshold that traces of validation objects give."""
        if net.slots.count > 1:
            unseen = self.model.vote_fitted_to == "validation"
            objects = held_out(self.model, net, codec=self.model.codecs[0], split="validation", unseen=unseen)
            sure = threshold(traces(objects, net, trials=_TRACED, seed=self.seed))
            if sure is None:
                return None
            net = replace(net, slots=replace(net.slots, sure=sure))
        option = self.measured(net)
        used = option.evaluation.slots
        mean = 1.0 if used is None else used.mean
        life = lifetime(net, self.claim, epsilon=self.wanted.budget, mean_slots=mean)
        return Way(option, life) if life.at_least else None

    def too_little(self, found: list[Way]) -> str:
        """The reason why no way will do, and what there is instead."""
        budget, accuracy, number = self.wanted.budget, self.wanted.accuracy, self.wanted.inferences
        if accuracy is not None:
            alone = [way for way in self.by_accuracy() if way is not None] if number else found
            if number and alone:
                best = max(alone, key=lambda way: way.on_average)
                slots = ceil(number * best.mean_slots) + best.network.slots.count
                needed = stream_epsilon(best.network, self.claim, slots)
                return (
                    f"a budget of ε = {full(budget)} lasts for {best.on_average:,.0f} inferences on average at "
                    f"accuracy {accuracy:g}, not for {number:,}: these would spend ε = {ceil(needed):,}"
                )
            return f"accuracy={accuracy:g} is beyond a budget of ε = {full(budget)}"
        return f"a budget of ε = {full(budget)} does not last for {number:,} inferences: give a larger one"


def _largest(got: Traces, most: float) -> float | None:
    with suppress(ValueError):  # not even the first slot is within the mean
        return largest_sure(got.probability, most)
    return None


def life_in_words(found: LifePlan) -> tuple[str, str, str]:
    """Three sentences: the way to take, the promise, and figures that nobody is promised."""
    best = found.best
    row, slots, run = best.row(), best.network.slots, best.option.evaluation
    several, cap, radio = slots.count > 1, shown(row["cap_epsilon"]), row["mean_bytes"] is None
    how = f"up to {slots.count} slots, until sure = {slots.sure:.4f}" if several else "one slot"
    low, high = best.option.interval
    cost = (
        f"{row['mean_channel_uses']:,.0f} channel uses and {row['mean_energy']:,.4g} mW·uses"
        if radio
        else "{:,} bytes sent and {:,} received by each device".format(*row["mean_bytes"])
    )
    return (
        f"Take {how}, cap ε = {cap}.",
        f"Promised: ε ≤ {cap} for an inference and ε ≤ {full(found.wanted.budget)} in all, {row['budget_slots']:,} "
        f"slots and at least {row['inferences_at_least']:,} inferences"
        + (", if every one goes to the cap." if several else "."),
        f"Figures, promised to nobody: accuracy {row['accuracy']:.3f}, {low:.3f} to {high:.3f} on as many other "
        f"objects (95 %, validation, {run.objects} objects, {run.trials} runs); on average {row['mean_slots']:.2f} "
        f"slots, {cost} an inference, and {row['inferences_on_average']:,.0f} inferences.",
    )


def ways(found: LifePlan) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and a row for each way, the best first."""
    radio = found.best.row()["mean_bytes"] is None
    header = ("cap ε promised", "slots at\u00a0most", "sure", "accuracy", "slots mean")
    header += ("uses mean", "energy mean") if radio else ("bytes out", "bytes in")
    header += ("lasts at\u00a0least", "lasts on\u00a0average")

    def cells(each: dict[str, Any]) -> tuple[str, ...]:
        sure = "" if each["sure"] is None else f"{each['sure']:.4f}"
        costs = (f"{each['mean_channel_uses']:.0f}", f"{each['mean_energy']:.3g}")
        costs = costs if radio else tuple(f"{number:,}" for number in each["mean_bytes"])
        lasts = (f"{each['inferences_at_least']:,}", f"{each['inferences_on_average']:,.0f}")
        first = (shown(each["cap_epsilon"]), str(each["slots"]), sure, f"{each['accuracy']:.3f}")
        return (*first, f"{each['mean_slots']:.2f}", *costs, *lasts)

    return header, [cells(each.row()) for each in (found.best, *found.others)]
