"""Views: what each adversary sees of a network over all its inferences, as a leak (docs/theory/leaks.md).

    at_server      the server, who receives the sum of all signals
    beside         somebody next to a device, who receives its own signal
    of_object      the server, about what all devices see at once
    elsewhere      an eavesdropper's antennas

A view is a function of the `Situation` of a `Question`; ε, odds and the ledger's totals are functions of its leak.
"""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import comb
from typing import Any, Protocol

import numpy as np

from airpool._support.arrays import Floats
from airpool.account.eavesdropper import at_the_eavesdropper, why_local
from airpool.account.received import aggregate
from airpool.network import Claim, Network, Ranking, Threshold, scored
from airpool.privacy import leakage
from airpool.privacy.aggregate import Aggregate, ratio
from airpool.privacy.device import by_coin, by_coin_of_those_heard
from airpool.privacy.device import of_object as by_all
from airpool.privacy.leak import (
    Draws,
    Least,
    Mixed,
    OverTime,
    PerDevice,
    Times,
    Unbounded,
    Worst,
    gaussians,
    near,
)

# Why nothing is proven.
SCORES = "the scores of all devices may change at once, and no finite bound is known"
GONE = "next to a device that is removed nothing is received"
ONE_DRAW = "over one draw of the channel scores and removal are not accounted for"
MANY_KINDS = "over one draw of the channel participation below 1 is accounted for up to 64 kinds of devices"


@dataclass(frozen=True, eq=False)
class Situation:
    """A network, what is claimed of it, what the server receives in one use, and how often it is used.

    guess: the leak is one that bounds guesses (account/odds.py).
    many: these uses are some of many, of which the leaks of all are to be told (`privacy.together`).
    """

    network: Network
    claim: Claim
    here: Aggregate
    uses: int
    guess: bool = False
    many: bool = False
    kept: dict[Any, Any] = field(default_factory=dict[Any, Any], repr=False)

    def over(self, uses: int) -> "Situation":
        """The same for another number of uses; leaks of one use are shared."""
        return replace(self, uses=uses)

    @property
    def once(self) -> PerDevice:
        """The leak of one use at the server."""
        return self._leak("once", self.here)

    @property
    def alone(self) -> PerDevice:
        """The leak of one use where no other device's noise counts, but silence does."""
        return self._leak("alone", self.without_others)

    @property
    def own(self) -> PerDevice:
        """The leak of a device's own signal, given that it always takes part; with what its score shows.

        Holds for: zero-out and replace. Next to a device that is removed nothing is received.
        """
        if not self.network.scheme.independent:
            return self.alone
        if "own" not in self.kept:
            here = self.here
            self.kept["own"] = gaussians(ratio(here.distance(self.claim.neighbours), np.sqrt(here.variance)))
        return self.kept["own"]

    @property
    def given_who_is_heard(self) -> tuple[Floats, tuple[PerDevice, ...]] | None:
        """Leaks of one use given how many others are in outage, and how likely each is; None for too many kinds."""
        if "heard" not in self.kept:
            self.kept["heard"] = by_coin_of_those_heard(self.here, self.claim.neighbours)
        return self.kept["heard"]

    @property
    def without_others(self) -> Aggregate:
        return replace(self.here, alone=True, extra=0.0)

    @property
    def static(self) -> bool:
        """Whether something of the channel stays the same over the uses."""
        return not self.single and stays(self.network, self.here)

    @property
    def single(self) -> bool:
        """Whether there is a single use."""
        return self.uses == 1 and not self.many

    def missed(self, there: Aggregate) -> Floats:
        """The probability that what is seen of each device does not follow the law, over all uses."""
        return np.minimum(self.uses * there.misses, 1.0)

    def _leak(self, name: str, there: Aggregate) -> PerDevice:
        guess = not self.network.scheme.independent and self.guess
        key = name, guess, guess and self.uses > 1
        if key not in self.kept:
            self.kept[key] = in_one_use(self.network, self.claim, there, guess=guess, often=self.uses > 1)
        return self.kept[key]


class Carrier(Protocol):
    """What carries the signals in the place of a network's own channel, such as a waveform."""

    @property
    def exact(self) -> bool:
        """Whether a lower end of ε is known."""
        ...

    def accounted(self, network: Network) -> Network:
        """The network whose ε holds for this one."""
        ...

    def assumptions(self, network: Network, lines: tuple[str, ...]) -> tuple[str, ...]:
        """The sentences of a report, from those of the accounted network."""
        ...


@dataclass(frozen=True)
class Question:
    """The network that transmits, and what is claimed of it; a report is its answer."""

    network: Network
    claim: Claim = field(default_factory=Claim)
    carrier: Carrier | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the situation, which is found again where it is needed."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def about(self, network: Network | None = None, **changes: Any) -> "Question":
        """The question with these changes of its claim, or about another network."""
        return replace(self, network=network or self.network, claim=replace(self.claim, **changes))

    @property
    def accounted(self) -> Network:
        """The network that ε is computed from."""
        return self.network if self.carrier is None else self.carrier.accounted(self.network)

    @cached_property
    def situation(self) -> Situation:
        """What is received in one use, for the views."""
        network, claim = self.accounted, self.claim
        return Situation(network, claim, aggregate(network, claim), network.uses(claim))


def at_server(situation: Situation) -> OverTime:
    """A device's feature in the sum.

    An adversary next to a device sees more than the server, so the own leak is a bound as well: the smaller one where
    failures add up, or where the grid of a stream costs more than the others' noise gains.
    """
    here, network, claim, once = situation.here, situation.network, situation.claim, situation.once
    missed, shown = situation.missed(here), over_time(situation, once)
    if situation.single and here.strength is None and once.exact and not np.any(missed):
        return shown
    alone: list[PerDevice] = []
    if claim.neighbours.keeps_noise:
        alone.append(situation.own)
    # Over a channel that stays `shown` counts silence. What a law leaves open may be more than δ.
    if network.scheme.independent and not situation.static:
        beyond = situation.single and once.slack >= claim.delta
        alone += [situation.alone] if here.strength is not None or beyond else []
    apart = situation.missed(situation.without_others)
    return Least((near(missed, shown), *(near(apart, Times(situation.uses, each)) for each in alone)))


def over_time(situation: Situation, once: PerDevice) -> OverTime:
    """All uses together: the losses of fresh draws add up; over a draw that stays μ² does, or, with coins, the losses
    given the draw.
    """
    if not situation.static:
        return once if situation.single else Times(situation.uses, once)
    network = situation.network
    if certain(network, situation.claim, situation.here):
        return Draws(situation.uses, most_draws(network, situation.uses, 1), once)
    if not network.scheme.independent or not situation.claim.neighbours.keeps_noise:
        return Unbounded(network.devices.count, ONE_DRAW)
    if not (found := situation.given_who_is_heard):
        return Unbounded(network.devices.count, MANY_KINDS)
    mass, leaks = found
    return Mixed(mass, tuple(Times(situation.uses, each) for each in leaks))


def beside(situation: Situation) -> OverTime:
    """A device's own signal; removal is always detected there."""
    if not situation.claim.neighbours.keeps_noise:
        return Unbounded(situation.network.devices.count, GONE)
    return near(situation.missed(situation.without_others), Times(situation.uses, situation.own))


def of_object(situation: Situation) -> OverTime:
    """All features at once; scores may all change as well, and no finite bound is claimed."""
    network, here = situation.network, situation.here
    if not network.scheme.independent:
        return Unbounded(1, SCORES)
    there = situation.without_others if situation.static else here  # a bound for every draw of the channel
    missed = np.minimum(situation.uses * np.minimum(np.sum(here.failure, keepdims=True), 1.0), 1.0)
    return near(missed, Times(situation.uses, by_all(there, situation.claim.neighbours)))


def elsewhere(situation: Situation) -> OverTime | None:
    """A device's feature at the antennas of `network.adversary`; None where there are none.

        δ_T(ε) = E_a[δ_G(ε; √T·μ(a))],   μ² = (w C)²·a_k^H (Σ_j τ_jσ_j² a_j a_j^H)⁺ a_k

    if a is the same in all T inferences; T draws of a are composed. Neither bounds the other: rare outages of those who
    protect a device are no part of one draw, and some of a hundred. So the worst of the two.
    With `knows_answer` a_j has more components: what the server receives of device j in the same draw.
    Holds for: channels e_j ~ CN(0, c·I), independent, with one c for all devices; all channels stay as they are over
    the inferences, or all are new in each.
    Never above what somebody next to a device sees, which is all that is claimed for the cases of `why_local`.
    """
    network, claim = situation.network, situation.claim
    if not network.adversary.antennas:
        return None
    local = beside(situation)
    if why_local(network, claim) is not None:
        return local
    there = at_the_eavesdropper(network, claim, situation.here)
    once, missed, uses = by_coin(there, claim.neighbours), situation.missed(there), situation.uses
    if uses == 1:
        return Least((near(missed, once), local))
    either = Draws(uses, most_draws(network, uses, 1), once), Times(uses, once)
    return Least((near(missed, Worst(either)), local))


def stays(network: Network, here: Aggregate) -> bool:
    """Whether something random of the channel stays the same over a stream of inferences."""
    return not network.channel.redrawn and here.varies


def most_draws(network: Network, inferences: int, epochs: int) -> int:
    """Largest number of different surroundings of the inferences, over the draws of the channel.

    Devices that drop out need not be the same every time: each set of them has a law of its own.
    """
    others = network.devices.count - 1 - min(network.colluders, network.devices.count - 1)
    sets = 1 if network.channel.rules.separate else comb(others, min(network.dropouts, others))
    return min(inferences, epochs * sets)


# By the name of their ε in a report.
VIEWS = {
    "epsilon": at_server,
    "epsilon_local": beside,
    "epsilon_object": of_object,
    "epsilon_eavesdropper": elsewhere,
}


def certain(network: Network, claim: Claim, here: Aggregate) -> bool:
    """Whether all devices always take part, so that given the channel an inference is one Gaussian against another."""
    coins = network.scheme.independent and bool(np.all(here.participation == 1))
    return coins and claim.neighbours.keeps_noise


def in_one_use(
    network: Network, claim: Claim, here: Aggregate, *, guess: bool = False, often: bool = False
) -> PerDevice:
    """The leak of each device in one use of the network, by its scheme.

    guess: against a device whose feature is zeroed and whose score is public, which bounds guesses. often: over a
    stream, where the same public score serves all uses.
    """
    if network.scheme.independent:
        return by_coin(here, claim.neighbours)
    scheme = scored(network.scheme)
    if isinstance(scheme, Threshold):
        chosen = _decision(scheme)
        plain = leakage.by_threshold(here, chosen, claim.neighbours)
        return leakage.by_public_score(here, chosen, plain) if guess and often else plain
    assert isinstance(scheme, Ranking)  # there are no others
    low, high = map(np.asarray, scheme.score_range())
    return leakage.by_ranking(
        here,
        # A public score lies in the middle of the range, which no view decides.
        score_range=(high - low) / (2 if guess else 1),
        score_noise_std=np.asarray(scheme.score_noise_std),
        num_selected=scheme.num_selected,
        neighbours=claim.neighbours,
    )


def _decision(scheme: Threshold) -> leakage.Decision:
    low, high = map(np.asarray, scheme.score_range())
    return leakage.Decision(low, high, np.asarray(scheme.score_noise_std), scheme.threshold)
