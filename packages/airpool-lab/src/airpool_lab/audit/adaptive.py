"""Slots of one view as an adversary that adapts sees them, and how likely they were: the game behind audit.adaptive.

Each slot runs the code that transmits (`audit.path`); what it was sent with depends on all slots before it, by a
strategy (`audit.moves`). The evidence is the log-likelihood ratio of all that was seen (`audit.release`):

    drawn anew in each slot           Σ_i ln P(y_i)/Q(y_i), each given the move that it was sent with
    drawn once, participation seen    the same; what the draw itself tells counts once
    drawn once, coin hidden           ln Σ_τ π(τ) Π_i P(y_i | τ) − ln Σ_τ π′(τ) Π_i Q(y_i | τ), inference by inference
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np

from airpool._support.arrays import Floats
from airpool.evaluation.audit.adversary import aligned_link, observed, released
from airpool.evaluation.audit.moves import Situation, Strategy
from airpool.evaluation.audit.path import Overheard, World, path
from airpool.evaluation.audit.release import Observed, Release, log_likelihood
from airpool.network import Network, scheme_rules
from airpool.network.network import with_its_coins
from airpool.protocol.simulation import Drawn


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
    others: devices that may drop out, the noisiest first. known: those that collude. inferences: on the same view.
    """

    network: Network
    slots: int
    inferences: int
    redrawn: bool
    device: int
    others: tuple[int, ...]
    known: tuple[int, ...]
    worlds: tuple[World, World]

    @property
    def hidden(self) -> bool:
        """Whether the adversary does not see who takes part."""
        return self.network.cover_noise and not scheme_rules(self.network.scheme).ranked

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
        shift *= self.network.neighbours.sensitivity
        return float(shift * np.sqrt(self.slots * self.inferences / max(float(np.sum(std**2)), 1e-300)))


def mechanism(
    rules: SlotGame, strategy: Strategy, transmit: Transmit, on_slots: Callable[[int], None] = lambda _: None
) -> Callable[[World, int, np.random.Generator], Floats]:
    """The evidence with which n runs end, (n,): a mechanism for audit.bound. on_slots: told of the slots sent."""
    barrier, budget, dropouts = rules.barrier(), float(rules.slots * rules.inferences), rules.network.dropouts
    kept, laws, log_coin = not rules.redrawn, _laws(rules), _log_coin(rules)

    def run(world: World, runs: int, rng: np.random.Generator) -> Floats:
        evidence, settled, left, heard = np.zeros(runs), np.zeros(runs), np.full(runs, budget), np.ones(runs, bool)
        inference, opened = np.zeros(runs, np.int64), np.ones(runs, np.int64)
        given = np.zeros((runs, 2, 2))  # of the open inference, where its coin is hidden: by world and coin
        draw = _no_draw(rules, runs)
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
                goes &= opened[active] + anew <= rules.inferences
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


def _no_draw(rules: SlotGame, runs: int) -> Drawn:
    shape = (runs, 1, rules.network.devices.count)
    return Drawn(np.zeros(shape), None, np.zeros(shape, bool), np.zeros(shape))


def _keep(draw: Drawn, rows: np.ndarray, got: Drawn) -> None:
    """Keeps the draw of these runs for the slots that follow."""
    new = got.of(np.arange(len(rows)))
    draw.gain[rows], draw.takes_part[rows] = new.gain, new.takes_part
    if new.noisy_scores is not None and draw.noisy_scores is not None:
        draw.noisy_scores[rows] = new.noisy_scores
