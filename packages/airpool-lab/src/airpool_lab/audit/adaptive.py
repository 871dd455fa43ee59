"""The audit of inferences of several slots: games against an adversary that adapts (docs/howto/slots.md).

After each slot the adversary stops or asks on; it chooses who drops out, when a second inference on the same view
begins and, where slots are Gaussian, μ_i of the next one. The claim is the cap of N slots for each inference; with
chosen μ_i it is the budget Σμ_i² ≤ B², B² = N μ². Lower bounds on ε and, where the claim is a Gaussian curve, on μ: at
δ = 1e-5 as many runs show half of ε and nine tenths of μ.

A strategy maps a `Situation` of n runs to a `Move` of each. What the rules do not allow is not done: beyond the budget
no slot is sent, whatever is asked for.

Each slot runs the code that transmits (`audit.path`); what it was sent with depends on all slots before it. The
evidence is the log-likelihood ratio of all that was seen (`audit.release`):

    drawn anew in each slot           Σ_i ln P(y_i)/Q(y_i), each given the move that it was sent with
    drawn once, participation seen    the same; what the draw itself tells counts once
    drawn once, coin hidden           ln Σ_τ π(τ) Π_i P(y_i | τ) − ln Σ_τ π′(τ) Π_i Q(y_i | τ), inference by inference
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats, Integers
from airpool._support.progress import Progress, silent
from airpool.account.guarantee import guarantee
from airpool.account.received import aggregate
from airpool.account.views import in_one_use
from airpool.evaluation.audit.adversary import aligned_link, observed, released, worst_worlds
from airpool.evaluation.audit.bound import AuditReport, audit
from airpool.evaluation.audit.path import Overheard, World, path
from airpool.evaluation.audit.release import Observed, Release, log_likelihood
from airpool.network import Claim, Network, NetworkError
from airpool.network.network import with_its_coins
from airpool.protocol.simulation import Drawn

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Situation:
    """State of n runs: arrays (n,), and what the adversary knows beforehand.

    evidence: log-likelihood ratio of all slots seen so far. left: budget, in slots. inference: slots of the open one.
    heard: whether the device was on the air in the slot before; True where that is hidden. barrier: about one standard
    deviation of the evidence at the end. dropouts: how many devices may be kept away. cap: slots of an inference at
    most. slot: number of slots before.
    """

    evidence: Floats
    left: Floats
    inference: Integers
    heard: Bools
    barrier: float
    dropouts: int
    cap: int
    slot: int

    @property
    def undecided(self) -> Bools:
        return np.abs(self.evidence) < self.barrier


@dataclass(frozen=True, eq=False)
class Move:
    """The next slot of n runs, arrays (n,).

    ask: or stop for good. dropped: how many of the noisiest other devices are kept away. charge: its μ², in units of an
    ordinary slot's; the noise is that much quieter. anew: a second inference on the same view is opened for it.
    turned: the view is the opposite one, as in a stream whose features change.
    """

    ask: Bools
    dropped: Integers
    charge: Floats
    anew: Bools
    turned: Bools


def _move(
    now: Situation,
    ask: Bools | bool = True,
    *,
    dropped: Integers | None = None,
    charge: Floats | float = 1.0,
    anew: Bools | bool = False,
    turned: Bools | bool = False,
) -> Move:
    """Asks for an ordinary slot with as many dropouts as may be, except where chosen otherwise."""
    fields: Any = (ask, now.dropouts if dropped is None else dropped, charge, anew, turned)
    return Move(*(np.broadcast_to(np.asarray(each), now.evidence.shape) for each in fields))


Strategy = Callable[[Situation], Move]


def never_stops(now: Situation) -> Move:
    """Goes to the cap."""
    return _move(now)


def stops_when_decided(now: Situation) -> Move:
    """Stops at the first crossing of a barrier on either side, as Wald's test does."""
    return _move(now, now.undecided)


def stops_when_guilty(now: Situation) -> Move:
    """Stops as soon as the feature looks present."""
    return _move(now, now.evidence < now.barrier)


def stops_when_innocent(now: Situation) -> Move:
    """Stops as soon as the feature looks absent."""
    return _move(now, now.evidence > -now.barrier)


def asks_again_when_undecided(now: Situation) -> Move:
    """Goes to the cap of an inference, and opens a second one on the same view only where it is undecided."""
    return _move(now, now.undecided | (now.inference < now.cap))


def asks_again_when_silent(now: Situation) -> Move:
    """Opens the next inference where the device is not on the air: one draw for all slots makes the rest worthless."""
    return _move(now, anew=~now.heard)


def drops_out_when_undecided(now: Situation) -> Move:
    """Keeps the noisiest devices away while the evidence is near the threshold, and lets them back afterwards."""
    return _move(now, dropped=np.where(now.undecided, now.dropouts, 0))


def changes_dropouts(now: Situation) -> Move:
    """Keeps devices away where the evidence rises above 0, and none where it falls below."""
    return _move(now, dropped=np.where(now.evidence >= 0, now.dropouts, 0))


def large_steps_when_undecided(now: Situation) -> Move:
    """Loud slots while undecided, quiet ones afterwards, until the budget Σμ² is spent."""
    wanted = np.where(now.undecided, 2.0, 0.25)
    return _move(now, charge=np.where(wanted <= now.left, wanted, 0.25))


def small_steps_when_undecided(now: Situation) -> Move:
    """Quiet slots while undecided; all that is left at once when the feature looks present."""
    wanted = np.where(now.evidence > now.barrier, 2.0, 0.5)
    return _move(now, charge=np.where(wanted <= now.left, wanted, 0.25))


def turns_the_view(now: Situation) -> Move:
    """The opposite view in every other slot, as a stream may show it."""
    return _move(now, turned=now.slot % 2 == 1)


def turns_when_guilty(now: Situation) -> Move:
    """The opposite view where the feature looks present."""
    return _move(now, turned=now.evidence > 0)


# Those that fit every network; where a view may be asked about again; where devices may drop out; where features change
# from slot to slot; where slots are Gaussian, each with a μ of its own.
STOPPING: tuple[Strategy, ...] = (never_stops, stops_when_decided, stops_when_guilty, stops_when_innocent)
ASKING_AGAIN: tuple[Strategy, ...] = (asks_again_when_undecided, asks_again_when_silent)
DROPPING: tuple[Strategy, ...] = (drops_out_when_undecided, changes_dropouts)
TURNING: tuple[Strategy, ...] = (turns_the_view, turns_when_guilty)
CHARGING: tuple[Strategy, ...] = (large_steps_when_undecided, small_steps_when_undecided)


class Transmit(Protocol):
    """One slot of some runs, through the code that transmits. slot: its number, from 0."""

    def __call__(
        self, network: Network, world: World, runs: int, rng: np.random.Generator, *, drawn: Drawn | None, slot: int
    ) -> Overheard: ...


def transmission(network: Network) -> Transmit:
    """Slots over the link of this network, whoever drops out; without the receiver's noise, which no claim counts."""
    link = aligned_link(network)

    @cache
    def of(sender: Network) -> Callable[..., Overheard]:
        return path(replace(with_its_coins(sender), channel=replace(sender.channel, noise_std=0.0)), link=link)

    def transmit(
        network: Network, world: World, runs: int, rng: np.random.Generator, *, drawn: Drawn | None, slot: int
    ) -> Overheard:
        return of(network)(world, runs, rng, drawn=drawn)

    return transmit


@dataclass(frozen=True, eq=False)
class SlotGame:
    """Rules of a game: a network of one slot, its inferences of several, one device, and two worlds.

    Worlds are (K, 1): only the coordinate in which they differ is sent, as one of the network's, over its link. The
    noise of all others is independent of it, and measured by the audit of one slot.
    others: devices that may drop out, the noisiest first. known: those that collude. claim: its inferences are on the
    same view.
    """

    network: Network
    claim: Claim
    slots: int
    redrawn: bool
    device: int
    others: tuple[int, ...]
    known: tuple[int, ...]
    worlds: tuple[World, World]

    @property
    def hidden(self) -> bool:
        """Whether the adversary does not see who takes part."""
        return self.network.cover_noise and not self.network.scheme.needs_ranking_server

    def sender(self, dropped: int, charge: float) -> Network:
        """The network as it sends a slot. A device that drops out sends nothing: its feature is 0, so is its noise."""
        std = np.array(self.network.devices.column("noise_std")) / np.sqrt(charge)
        std[list(self.others[:dropped])] = 0.0
        return replace(self.network, dimension=1, devices=replace(self.network.devices, noise_std=tuple(std.tolist())))

    def barrier(self) -> float:
        """Standard deviation of the evidence after all slots, if everybody transmits and as many drop out as may."""
        d, left = self.network.devices, np.setdiff1d(np.arange(self.network.devices.count), self.known)
        std = np.array(self.sender(self.network.dropouts, 1.0).devices.column("noise_std"))[left]
        shift = d.column("weight")[self.device] * d.column("clip_norm")[self.device]
        shift *= self.claim.neighbours.sensitivity
        return float(shift * np.sqrt(self.slots * self.claim.inferences / max(float(np.sum(std**2)), 1e-300)))


def mechanism(
    rules: SlotGame, strategy: Strategy, transmit: Transmit, on_slots: Callable[[int], None] = lambda _: None
) -> Callable[[World, int, np.random.Generator], Floats]:
    """The evidence with which n runs end, (n,): a mechanism for audit.bound. on_slots: told of the slots sent."""
    barrier, budget, dropouts = rules.barrier(), float(rules.slots * rules.claim.inferences), rules.network.dropouts
    kept, laws, log_coin = not rules.redrawn, _laws(rules), _log_coin(rules)

    def run(world: World, runs: int, rng: np.random.Generator) -> Floats:
        evidence, settled, left, heard = np.zeros(runs), np.zeros(runs), np.full(runs, budget), np.ones(runs, bool)
        inference, opened = np.zeros(runs, np.int64), np.ones(runs, np.int64)
        given = np.zeros((runs, 2, 2))  # of the open inference, where its coin is hidden: by world and coin
        shape = (runs, 1, rules.network.devices.count)
        draw = Drawn(np.zeros(shape), None, np.zeros(shape, bool), np.zeros(shape))
        active, slot = np.arange(runs), 0
        while len(active):
            now = Situation(
                evidence=evidence[active],
                left=left[active],
                inference=inference[active],
                heard=heard[active],
                barrier=barrier,
                dropouts=dropouts,
                cap=rules.slots,
                slot=slot,
            )
            move = strategy(now)
            anew = (inference[active] == rules.slots) | (move.anew & (inference[active] > 0))
            goes = move.ask & (move.charge <= left[active])
            if kept:  # each inference has its own cap, and what is left of one is no use to the next
                goes &= opened[active] + anew <= rules.claim.inferences
            active, fresh = active[goes], active[goes & anew]
            settled[fresh], given[fresh], inference[fresh] = evidence[fresh], 0.0, 0
            opened[fresh] += 1
            kinds = np.stack([move.dropped[goes], move.charge[goes], move.turned[goes], inference[active] == 0], axis=1)
            for kind in np.unique(kinds, axis=0):
                (dropped, charge), (turned, first) = kind[:2].tolist(), kind[2:].astype(bool).tolist()
                rows, sign = active[np.all(kinds == kind, axis=1)], -1 if turned else 1
                sender, shown = rules.sender(int(dropped), charge), replace(world, features=sign * world.features)
                old = None if first or not kept else draw.of(rows)
                got = transmit(sender, shown, len(rows), rng, drawn=old, slot=slot)
                if kept and first:
                    _keep(draw, rows, got.drawn)
                parts = laws(sender, sign, first or not kept)(observed(rules.network, got, rules.known))
                if kept and rules.hidden:
                    given[rows] += parts
                    here, there = np.logaddexp.reduce(given[rows] + log_coin, axis=-1).T
                    evidence[rows] = settled[rows] + here - there
                else:
                    evidence[rows] += parts
                heard[rows] = rules.hidden | got.on_the_air[:, rules.device]
            inference[active] += 1
            left[active] -= move.charge[goes]
            on_slots(len(active))
            slot += 1
        return evidence

    return run


def _laws(rules: SlotGame) -> Callable[[Network, int, bool], Callable[[Observed], Floats]]:
    """Evidence in a slot, (n,), or log-likelihoods by world and coin, (n, 2, 2)."""
    plain = [released(rules.network, world.scores, known=rules.known) for world in rules.worlds]

    @cache
    def of(sender: Network, sign: int, first: bool) -> Callable[[Observed], Floats]:
        std = np.array(sender.devices.column("noise_std"))
        here, there = (replace(law, noise_std=std) for law in plain)
        features, neighbour = (sign * world.features for world in rules.worlds)

        def by_coin(seen: Observed) -> Floats:
            pairs = (here, features), (there, neighbour)
            each = [[log_likelihood(seen, _tossed(law, rules.device, c), z) for c in (0.0, 1.0)] for law, z in pairs]
            return np.moveaxis(np.array(each), -1, 0)

        def ratio(seen: Observed) -> Floats:
            # A later slot of the same draw tells nothing more about who takes part: the same law on both sides.
            return log_likelihood(seen, here, features) - log_likelihood(seen, there if first else here, neighbour)

        return by_coin if rules.hidden and not rules.redrawn else ratio

    return of


def _tossed(law: Release, device: int, coin: float) -> Release:
    p = law.participation.copy()
    p[device] = coin
    return replace(law, participation=p)


def _log_coin(rules: SlotGame) -> Floats:
    """ln of the probability that the device is silent, and that it takes part, by world, (2, 2)."""
    laws = (released(rules.network, world.scores, known=rules.known) for world in rules.worlds)
    p = np.array([law.participation[rules.device] for law in laws])
    with np.errstate(divide="ignore"):
        return np.log(np.stack([1 - p, p], axis=-1))


def _keep(draw: Drawn, rows: np.ndarray, got: Drawn) -> None:
    """Keeps the draw of these runs for the slots that follow."""
    new = got.of(np.arange(len(rows)))
    draw.gain[rows], draw.takes_part[rows] = new.gain, new.takes_part
    if new.noisy_scores is not None and draw.noisy_scores is not None:
        draw.noisy_scores[rows] = new.noisy_scores


CONFIDENCE = 0.9999
# Features are sent longer than the clip norm allows, so that a missing clip shows.
_LONGER = 10.0
_IN_MEMORY = 2**19  # signals at a time


@dataclass(frozen=True)
class AdaptiveGame:
    """A strategy, what it showed, and how many slots it used on average, of a budget of `slots`.

    Slots with a μ_i of their own may be more than that: what they spend is Σμ_i².
    """

    strategy: str
    report: AuditReport
    mean_slots: float
    slots: int

    def __str__(self) -> str:
        return f"{self.strategy}, {self.mean_slots:.1f} slots of a budget of {self.slots}: {self.report}"

    def to_json(self) -> dict[str, Any]:
        own = {"strategy": self.strategy, "mean_slots": self.mean_slots, "slots": self.slots}
        return own | self.report.to_json()


def strategies(network: Network, claim: Claim) -> tuple[Strategy, ...]:
    """The strategies that a network leaves to an adversary."""
    again = ASKING_AGAIN if claim.inferences > 1 else ()
    dropping = DROPPING if network.dropouts else ()
    # One draw for all slots is claimed for one view alone.
    turning = TURNING if network.slots.redrawn else ()
    return STOPPING + again + dropping + turning + (() if claimed_mu(network, claim, 0) is None else CHARGING)


def claimed_mu(network: Network, claim: Claim, device: int) -> float | None:
    """B = √(N T) μ of T inferences of N slots on the same view; None where μ of a slot is random."""
    one = network.one_slot
    leak = in_one_use(one, claim, aggregate(one, claim))
    if leak.gaussian is None:
        return None
    mu = float(leak.worst(leak.gaussian)[leak.of_device[device]])
    return float(np.sqrt(network.slots.count * claim.inferences)) * mu


def seated(network: Network, claim: Claim, device: int) -> SlotGame:
    """The game over the slots of inferences of this network, against one device.

    Of the other devices those with the most noise collude, and the next may drop out.
    """
    if not claim.neighbours.keeps_noise:
        raise NetworkError(f"neighbours={claim.neighbours!r}: slots are audited for zero-out and replace")
    one = network.one_slot
    order = np.argsort(network.devices.column("noise_std"), kind="stable")[::-1].tolist()
    others = tuple(k for k in order if k != device)
    here, there = worst_worlds(one, claim, device)

    def along(world: World) -> World:
        return replace(world, features=_LONGER * world.features[:, :1])

    return SlotGame(
        network=one,
        claim=claim,
        slots=network.slots.count,
        redrawn=network.slots.redrawn,
        device=device,
        others=others[network.colluders :],
        known=tuple(sorted(others[: network.colluders])),
        worlds=(along(here), along(there)),
    )


def played(
    network: Network,
    claim: Claim,
    device: int,
    strategy: Strategy,
    *,
    runs: int,
    seed: int,
    confidence: float = CONFIDENCE,
    transmit: Transmit | None = None,
) -> AdaptiveGame:
    """One strategy against one device, `runs` inferences a side (T of them on the same view: claim.inferences).

    confidence: of both bounds together. transmit: the path that is played, by default the network's.

    >>> from airpool.network import Claim, Slots
    >>> net = Network.uniform(num_devices=3, noise_std=0.6, dimension=1, slots=Slots(4))
    >>> found = played(net, Claim(), 0, stops_when_decided, runs=1000, seed=0)
    >>> found.report.violated, found.mean_slots < 4
    (False, True)
    """
    rules, mu = seated(network, claim, device), claimed_mu(network, claim, device)
    if mu is None and strategy in CHARGING:
        raise ValueError(f"strategy {strategy.__name__} needs Gaussian slots: here μ of a slot is random")
    sent: list[int] = []
    report = audit(
        mechanism(rules, strategy, transmit or transmission(rules.network), sent.append),
        *rules.worlds,
        runs=runs,
        rng=np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(device, 3))),
        delta=claim.delta,
        confidence=confidence if mu is None else (1 + confidence) / 2,
        score=lambda evidence: evidence,
        claimed_epsilon=float(guarantee(network, claim).epsilon[device]),
        claimed_mu=mu,
        batch=max(1, _IN_MEMORY // network.devices.count),
    )
    name = strategy.__name__.replace("_", " ")
    return AdaptiveGame(name, report, sum(sent) / (2 * runs), rules.slots * claim.inferences)


@dataclass(frozen=True)
class CapAudit:
    """Games over the slots of an inference; all bounds hold together with the stated confidence.

    games: none where `reason` says why slots are not audited.
    """

    device: int
    inferences: int
    games: tuple[AdaptiveGame, ...]
    confidence: float
    reason: str = ""

    @property
    def violated(self) -> bool:
        return any(each.report.violated for each in self.games)

    def lines(self) -> list[str]:
        """Lines of text: the games, and how many refute the cap."""
        if self.reason:
            return [f"Slots: not audited: {self.reason}"]
        refuted = sum(each.report.violated for each in self.games)
        many = f"{self.inferences} inferences" if self.inferences > 1 else "one inference"
        whole = f"the cap of {many}: {f'{refuted} VIOLATED it' if refuted else 'not refuted'}"
        return [
            *(f"Device {self.device}, {each}" for each in self.games),
            f"{len(self.games)} strategies over slots, together with {self.confidence:g} confidence, against {whole}",
        ]

    def to_json(self) -> dict[str, Any]:
        names = ("device", "inferences", "confidence", "reason", "violated")
        return {name: getattr(self, name) for name in names} | {"games": [each.to_json() for each in self.games]}


def capped(
    network: Network,
    claim: Claim,
    device: int,
    *,
    runs: int,
    seed: int,
    confidence: float = CONFIDENCE,
    progress: Progress = silent,
) -> CapAudit:
    """Every strategy that the network allows against one device: the audit of the cap.

    Of inferences on the same view one is played, or two where the claim counts several.
    """
    claim = replace(claim, inferences=min(claim.inferences, 2))
    try:
        aligned_link(network.one_slot)
    except ValueError as why:
        return CapAudit(device, claim.inferences, (), confidence, reason=str(why))
    chosen = strategies(network, claim)
    with progress("auditing slots", len(chosen)) as advance:
        found: list[AdaptiveGame] = []
        for number, strategy in enumerate(chosen):
            each = 1 - (1 - confidence) / len(chosen)
            found.append(played(network, claim, device, strategy, runs=runs, seed=seed + number, confidence=each))
            advance(1)
    return CapAudit(device, claim.inferences, tuple(found), confidence)
