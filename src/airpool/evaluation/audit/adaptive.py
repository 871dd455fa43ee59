"""The audit of inferences of several slots: games against an adversary that adapts (docs/howto/slots.md).

After each slot the adversary stops or asks on; it chooses who drops out, when a second inference on the same view
begins and, where slots are Gaussian, μ_i of the next one (`audit.moves`, played by `audit.transcript`). The claim is
the cap of N slots for each inference; with chosen μ_i it is the budget Σμ_i² ≤ B², B² = N μ². Lower bounds on ε and,
where the claim is a Gaussian curve, on μ: at δ = 1e-5 as many runs show half of ε and nine tenths of μ.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from airpool._support.progress import Progress, silent
from airpool.account.games import game
from airpool.account.guarantee import guarantee
from airpool.account.received import aggregate
from airpool.evaluation.audit.adversary import aligned_link, worst_worlds
from airpool.evaluation.audit.bound import AuditReport, audit
from airpool.evaluation.audit.moves import ASKING_AGAIN, CHARGING, DROPPING, STOPPING, TURNING, Strategy
from airpool.evaluation.audit.path import World
from airpool.evaluation.audit.transcript import SlotGame, Transmit, mechanism, transmission
from airpool.network import Network, NetworkError

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


def strategies(network: Network) -> tuple[Strategy, ...]:
    """The strategies that a network leaves to an adversary."""
    again = ASKING_AGAIN if network.inferences > 1 else ()
    dropping = DROPPING if network.dropouts else ()
    # One draw for all slots is claimed for one view alone.
    turning = TURNING if network.slots.redrawn else ()
    return STOPPING + again + dropping + turning + (() if claimed_mu(network, 0) is None else CHARGING)


def claimed_mu(network: Network, device: int) -> float | None:
    """B = √(N T) μ of T inferences of N slots on the same view; None where μ of a slot is random."""
    one = replace(network.one_slot, inferences=2)
    played = game(one, aggregate(one))
    if played.gaussian is None:
        return None
    mu = float(played.worst(played.gaussian)[played.of_device[device]])
    return float(np.sqrt(network.slots.count * network.inferences)) * mu


def seated(network: Network, device: int) -> SlotGame:
    """The game over the slots of inferences of this network, against one device.

    Of the other devices those with the most noise collude, and the next may drop out.
    """
    if not network.neighbours.keeps_noise:
        raise NetworkError(f"neighbours={network.neighbours!r}: slots are audited for zero-out and replace")
    one = network.one_slot
    order = np.argsort(network.devices.column("noise_std"), kind="stable")[::-1].tolist()
    others = tuple(k for k in order if k != device)
    here, there = worst_worlds(one, device)

    def along(world: World) -> World:
        return replace(world, features=_LONGER * world.features[:, :1])

    return SlotGame(
        network=one,
        slots=network.slots.count,
        inferences=network.inferences,
        redrawn=network.slots.redrawn,
        device=device,
        others=others[network.colluders :],
        known=tuple(sorted(others[: network.colluders])),
        worlds=(along(here), along(there)),
    )


def played(
    network: Network,
    device: int,
    strategy: Strategy,
    *,
    runs: int,
    seed: int,
    confidence: float = CONFIDENCE,
    transmit: Transmit | None = None,
) -> AdaptiveGame:
    """One strategy against one device, `runs` inferences a side (T of them on the same view: network.inferences).

    confidence: of both bounds together. transmit: the path that is played, by default the network's.

    >>> from airpool.evaluation.audit.moves import stops_when_decided
    >>> from airpool.network import Slots
    >>> net = Network.uniform(num_devices=3, noise_std=0.6, dimension=1, slots=Slots(4))
    >>> found = played(net, 0, stops_when_decided, runs=1000, seed=0)
    >>> found.report.violated, found.mean_slots < 4
    (False, True)
    """
    rules, mu = seated(network, device), claimed_mu(network, device)
    if mu is None and strategy in CHARGING:
        raise ValueError(f"strategy {strategy.__name__} needs Gaussian slots: here μ of a slot is random")
    sent: list[int] = []
    report = audit(
        mechanism(rules, strategy, transmit or transmission(rules.network), sent.append),
        *rules.worlds,
        runs=runs,
        rng=np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(device, 3))),
        delta=network.delta,
        confidence=confidence if mu is None else (1 + confidence) / 2,
        score=lambda evidence: evidence,
        claimed_epsilon=float(guarantee(network).epsilon[device]),
        claimed_mu=mu,
        batch=max(1, _IN_MEMORY // network.devices.count),
    )
    name = strategy.__name__.replace("_", " ")
    return AdaptiveGame(name, report, sum(sent) / (2 * runs), rules.slots * rules.inferences)


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
    device: int,
    *,
    runs: int,
    seed: int,
    confidence: float = CONFIDENCE,
    progress: Progress = silent,
) -> CapAudit:
    """Every strategy that the network allows against one device: the audit of the cap.

    Of inferences on the same view one is played, or two where the network counts several.
    """
    network = replace(network, inferences=min(network.inferences, 2))
    try:
        aligned_link(network.one_slot)
    except ValueError as why:
        return CapAudit(device, network.inferences, (), confidence, reason=str(why))
    chosen = strategies(network)
    with progress("auditing slots", len(chosen)) as advance:
        found: list[AdaptiveGame] = []
        for number, strategy in enumerate(chosen):
            each = 1 - (1 - confidence) / len(chosen)
            found.append(played(network, device, strategy, runs=runs, seed=seed + number, confidence=each))
            advance(1)
    return CapAudit(device, network.inferences, tuple(found), confidence)
