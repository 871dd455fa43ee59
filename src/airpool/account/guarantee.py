"""From a network to its privacy report: combines the channel (who is received, how strongly) with the privacy core.

`guarantee` gives the report (what each ε means: report.py; what it assumes: assumptions.py). Its steps: `aggregate`,
what the adversary receives; `games.game`, the curve δ(ε) of the scheme; `epsilon_after`, one or many inferences.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats
from airpool._support.progress import automatic
from airpool._support.threads import single_thread
from airpool.account.assumptions import assumptions
from airpool.account.at_least import at_least, bounded
from airpool.account.eavesdropper import eavesdropped
from airpool.account.games import game
from airpool.account.guesses import Odds
from airpool.account.odds import reported
from airpool.account.reasons import reasons
from airpool.account.received import aggregate, require_supported
from airpool.account.report import PrivacyReport
from airpool.account.stream import averages, in_common, in_rare_draws, spent_in_common, varies
from airpool.network import Neighbours, Network, require_network, scheme_rules
from airpool.paper.formulas import theorem1
from airpool.privacy import compose, device, gaussian
from airpool.privacy.aggregate import Aggregate, ratio
from airpool.privacy.game import Game, solve
from airpool.privacy.object import object_game

# Up to this many devices a report also says what colluders and dropouts would cost.
_ABSENT_UP_TO = 64
# Removal and scores: e^ε beyond this is out of floating point's reach, and ε reported as inf may be finite.
_RESOLVED = 700.0


def guarantee(
    network: Network,
    *,
    delta: float | None = None,
    neighbours: Neighbours | str | None = None,
    inferences: int | None = None,
    colluding: Sequence[int] = (),
    credit_channel_noise: bool = False,
    live: bool = False,
    per_event: int | None = None,
) -> PrivacyReport:
    """The exact (ε, δ) of every device, beside the paper's claim. What is not given is taken from the network.

    colluding: devices known to collude, by index, on top of the network's number of colluders (whichever they are).
    credit_channel_noise: count the receiver's noise too; an eavesdropper may have a better receiver, so the default
        does not.
    live: account for the noise that devices really draw (`privacy.noise`), with the δ that its grid costs; inf where
        that exceeds δ (beyond an ε of about 100). An error where noise_std is 0 or too heterogeneous for the theorem
        there, or where the sampler does not support δ at any ε.
    per_event: also ε of everything about one stay of this many inferences in a row (`report.event`).

    >>> net = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, participation=0.9)
    >>> float(guarantee(net).epsilon[0].round(4))
    2.0639
    """
    require_network(network)
    given = {"delta": delta, "neighbours": neighbours, "inferences": inferences}
    network = replace(network, **{name: value for name, value in given.items() if value is not None})
    with single_thread(), automatic("computing ε"):
        how: Any = {"colluding": tuple(colluding), "credit_channel_noise": credit_channel_noise, "live": live}
        question = _Question(network, how)
        received, played = question.received, question.played
        local_after = cache(_local_after(network, received))
        if network.uses == 1 and not np.any(received.misses):
            lower, upper = solve(played(), network.delta)
            if not _sure(received, upper):
                lower, upper = (np.minimum(end, _alone_after(network, received)(1)) for end in (lower, upper))
                lower = None if not network.neighbours.keeps_noise and received.strength is not None else lower
        else:
            lower, upper = None, epsilon_after(network, received, local_after, played)(network.uses)
        local = local_after(network.uses)
        if live:
            require_supported(network)
        whole = _object_epsilon(network, received)
        elsewhere = eavesdropped(network, received, local, live=live)
        infinite = {"epsilon": upper, "epsilon_local": local, "epsilon_object": whole}
        event = None if per_event is None else guarantee(network, inferences=per_event, **how).as_event
        return PrivacyReport(
            network=network,
            epsilon=upper,
            epsilon_lower=lower,
            epsilon_local=local,
            epsilon_object=whole,
            epsilon_eavesdropper=elsewhere,
            static=question.static,
            selected=partial(question.selected, upper),
            least=partial(question.least, lower),
            absent=partial(question.absent, float(np.max(upper))),
            guesses=question.guesses,
            paper=paper_claim(network),
            assumptions=assumptions(network, received, live=live),
            live=live,
            reasons=reasons(network, received, live=live, **infinite, epsilon_eavesdropper=elsewhere),
            event=event,
            again=question.again,
            colluding=tuple(colluding),
        )


@dataclass(frozen=True, eq=False)
class _Question:
    """What was asked of `guarantee`, and what a report computes on first use.

    Pickled without what was computed before, which is computed again where it is needed.
    """

    network: Network
    how: Mapping[str, Any]

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def received(self) -> Aggregate:
        return aggregate(self.network, **self.how)

    @cached_property
    def _game(self) -> Game:
        return game(self.network, self.received)

    def played(self) -> Game:
        return self._game

    def static(self) -> Floats | None:
        return _if_static(self.network, self.received)

    def selected(self, averaged: Floats) -> tuple[Floats, int | None] | None:
        return _if_selected(self.network, self.received, averaged)

    def least(self, lower: Floats | None) -> Floats | None:
        return _at_least(self.network, self.received, lower)

    def absent(self, worst: float) -> tuple[float, ...]:
        return _if_absent(self.network, self.received, worst)

    def guesses(self) -> tuple[Odds, ...]:
        return reported(self.network, self._received_by, self.played, live=self.how["live"])

    def _received_by(self, other: Network) -> Aggregate:
        return self.received if self.network.neighbours.keeps_noise else aggregate(other, **self.how)

    def again(self, **changes: Any) -> PrivacyReport:
        return guarantee(replace(self.network, **changes), **self.how)


def realised_epsilon(network: Network, alignment: ArrayLike) -> Floats:
    """ε of each device given the realised alignments (..., K), 0 where silent.

    The maximum over the given inferences, conditional on who was received. The report's ε averages over that draw: it
    is smaller where few were received, and larger where all were. Colluders, dropouts and access as in the report.
    Holds for: one inference of Scheme 1, zero-out or replace, alignments that do not depend on the noise.
    """
    g = np.atleast_2d(np.asarray(alignment, dtype=np.float64))
    count, rule = network.devices.count, network.channel.power_rule
    if g.shape[-1] != count:
        raise ValueError(f"alignment has shape {g.shape}, must end with the {count} devices")
    if network.inferences * network.slots.count > 1:
        slots = f"inferences={network.inferences}, slots.count={network.slots.count}"
        raise ValueError(f"{slots} must be 1: realised_epsilon is that of one slot")
    if not network.neighbours.keeps_noise or scheme_rules(network.scheme).scored:
        raise ValueError(
            f"neighbours={network.neighbours!r} and scheme {network.scheme.name}: realised_epsilon needs zero-out or "
            "replace, and Scheme 1"
        )
    if rule == "paper":
        raise ValueError(f"channel.power_rule={rule!r} lets the alignment depend on the noise, so it cannot be given")
    # Alignments are what one antenna receives. Under errors others may receive more, and the server's other antennas
    # receive other sums of the same signals: own noise alone counts.
    received, channel = aggregate(network), network.channel
    received = received if channel.known and channel.antennas == 1 else replace(received, alone=True)
    worst = np.zeros(count)
    for once in np.unique(np.abs(g).reshape(-1, count), axis=0):
        there = replace(received, shift=once * received.shift, variance=once**2 * received.variance)
        worst = np.maximum(worst, ratio(there.distance(network.neighbours), np.sqrt(there.fixed_variance())))
    return gaussian.epsilon(worst, network.delta)


def epsilon(network: Network, received: Aggregate) -> Floats:
    """The proven ε of each device, without the rest of the report."""
    with single_thread():
        return epsilon_after(network, received)(network.uses)


def epsilon_after(
    network: Network,
    received: Aggregate,
    local_after: Callable[[int], Floats] | None = None,
    played: Callable[[], Game] | None = None,
) -> Callable[[int], Floats]:
    """The proven ε of each device as a function of the number of inferences; what was computed is kept.

    The network's own number says whether one is accounted for, or a stream of them on a coarser grid.
    local_after, played: the local ε and the game, where they are known already.
    """
    common = network.uses > 1 and in_common(network, received)

    @cache
    def composed() -> Callable[[int], Floats]:
        once = game(network, received) if played is None else played()
        return compose.spent(once, network.delta, missed=received.misses)

    in_one_draw = spent_in_common(network, received) if common else None

    def spent(inferences: int) -> Floats:
        # One inference is over one draw anyway: its own game knows of coins, scores and removal.
        return composed()(inferences) if in_one_draw is None or inferences == 1 else in_one_draw(inferences)

    # Not every number of inferences needs it. Silence that is common to a stream is not counted on.
    near = common or received.strength is None or scheme_rules(network.scheme).scored

    @cache
    def local() -> Callable[[int], Floats]:
        if near and local_after is not None:
            return local_after
        return (_local_after if near else _alone_after)(network, received)

    def after(inferences: int) -> Floats:
        found = spent(inferences)
        if inferences == 1 and not np.any(received.misses) and _sure(received, found):
            return found
        # An adversary next to a device sees more than the server, so the local ε is a bound as well: the smaller one
        # where many failures add up, or where the grid of a stream costs more than the others' noise gains.
        return np.minimum(found, local()(inferences))

    return after


def _sure(received: Aggregate, found: Floats) -> bool:
    """Whether the ε of one inference is surely below the local one: not if it counts with a slack larger than δ."""
    return received.strength is None and bool(np.all(np.isfinite(found)))


def score_epsilon(network: Network) -> Floats:
    """ε that the score (2.2) or the decision made of it (2.1) costs each device if the features cost nothing.

    The smallest ε that noise on the features can reach.

    >>> from airpool import Network, Threshold
    >>> net = Network.uniform(num_devices=12, scheme=Threshold(score_noise_std=0.5, threshold=0.5))
    >>> float(score_epsilon(net)[0].round(4))
    1.6683
    """
    nothing = np.zeros(network.devices.count)
    if not scheme_rules(network.scheme).scored:
        return nothing
    return epsilon(network, Aggregate(shift=nothing, variance=nothing, participation=nothing))


def _local_after(network: Network, received: Aggregate) -> Callable[[int], Floats]:
    """The local ε (own noise only) by number of inferences; it includes what score and decision leak."""
    alone = replace(received, alone=True, extra=0.0)
    if scheme_rules(network.scheme).scored:
        return _alone_after(network, received)

    def after(inferences: int) -> Floats:
        def at(delta: float) -> Floats:
            return device.local_epsilon(received, delta, neighbours=network.neighbours, inferences=inferences)

        return compose.nearby(at, network.delta, np.minimum(inferences * alone.misses, 1.0))

    return after


def _alone_after(network: Network, received: Aggregate) -> Callable[[int], Floats]:
    """ε where no other device's noise counts, but silence does."""
    alone = replace(received, alone=True, extra=0.0)
    return compose.spent(game(network, alone), network.delta, missed=alone.misses)


def _object_epsilon(network: Network, received: Aggregate) -> float:
    if scheme_rules(network.scheme).scored:
        # All scores may change as well: no finite bound is claimed.
        return float("inf")
    if network.uses > 1 and in_common(network, received):
        received = replace(received, alone=True, extra=0.0)  # a bound for every draw of the channel
    played, missed = object_game(received, network.neighbours), min(float(np.sum(received.failure)), 1.0)
    return float(compose.epsilon(played, network.delta, network.uses, missed=missed)[0])


def _if_absent(network: Network, received: Aggregate, worst: float) -> tuple[float, ...]:
    """The worst device's ε if 0, 1 or 2 others collude or drop out; the first alone where the network says how many."""
    count, known = received.num_devices, received.absent or received.colluding or received.alone
    if count > _ABSENT_UP_TO or known or network.inferences * network.slots.count > 1:
        return (worst,)
    more = (epsilon(network, replace(received, absent=absent)) for absent in range(1, min(3, count)))
    return (worst, *(float(np.max(each)) for each in more))


def _if_static(network: Network, received: Aggregate) -> Floats | None:
    """ε of each device if one draw of the channel stays for all inferences; None where that is no other question."""
    if network.uses == 1 or not network.channel.redrawn or not varies(received):
        return None
    return epsilon(replace(network, channel=replace(network.channel, redrawn=False)), received)


def _if_selected(network: Network, received: Aggregate, averaged: Floats) -> tuple[Floats, int | None] | None:
    """ε of each device if the server picks the draws of the channel, and the outages among others that it waits for.

    None where no draw enters ε. Never below ε itself, since the server need not pick. Outages: None where gains vary as
    well.
    """
    if not averages(network, received):
        return None
    given, mu = in_rare_draws(network, received)
    if mu is None:
        outages = None if network.channel.power_rule == "paper" else given.absent - received.absent
        return np.maximum(averaged, epsilon(network, given)), outages
    missed = np.minimum(network.uses * given.misses, 1.0)
    mu = mu * np.sqrt(network.uses)
    found = compose.nearby(lambda delta: gaussian.epsilon(mu, delta), network.delta, missed)
    return np.maximum(averaged, np.minimum(found, _local_after(network, given)(network.uses))), None


def _at_least(network: Network, received: Aggregate, lower: Floats | None) -> Floats | None:
    """A lower end of ε, for one inference or a stream; None where none is known."""
    if network.uses == 1:
        resolved = np.inf if not scheme_rules(network.scheme).scored and network.neighbours.keeps_noise else _RESOLVED
        return None if lower is None or bounded(network, received) else np.minimum(lower, resolved)
    return at_least(network, received)


def paper_claim(network: Network, tail: theorem1.Tail = "quadratic") -> theorem1.Claim:
    """The claim of the paper's Theorem 1 on this network, for one inference. tail: a form of its slack."""
    d, gamma = network.devices, network.channel.gamma
    factor = 1.0 if gamma == "auto" else gamma
    return theorem1.claim(
        weight=[factor * weight for weight in d.column("weight")],
        clip_norm=d.column("clip_norm"),
        noise_std=d.column("noise_std"),
        participation=d.column("participation"),
        delta=network.delta,
        tail=tail,
    )
