"""The attack on a network: `audited` plays a distinguishing game against one device.

It runs the code that transmits (`audit.path`), with fading and power. There are two adversaries, each against its own
claim: one that hears the sum, and one that also knows what all others have sent, so that own noise alone protects
(`known`). The score is the likelihood ratio of audit.release, an independent reference
without radio; audit.bound turns scores into a lower bound on ε. Where scores choose who transmits, a world is a feature
and a score of every device, and the observation includes who transmitted (Scheme 2.1) or all noisy scores (2.2).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from airpool._support.arrays import Floats
from airpool.evaluation.audit import directions
from airpool.evaluation.audit.bound import AuditReport, audit
from airpool.evaluation.audit.path import Overheard, World, path
from airpool.evaluation.audit.release import Observed, Release, log_likelihood_ratio, release, worst_pair
from airpool.network import Claim, Coin, Network, scored
from airpool.network.network import with_its_coins
from airpool.radio.link import Link, link_of

End = Literal["low", "high"]


def mechanism(
    network: Network, *, known: Sequence[int] = ()
) -> Callable[[Floats | World, int, np.random.Generator], Observed]:
    """`runs` inferences on the same features (K, r), as the adversary receives them: a mechanism for audit.bound.

    It sees the sum, and who is in it except under cover noise; in Scheme 2.2 also every noisy score, and with them who
    was selected. The receiver's noise is left out: the claimed ε does not count it either, since an eavesdropper may
    have a better receiver.

    known: devices of which the adversary also knows what they have sent.

    >>> from airpool.network import Network
    >>> net = Network.uniform(num_devices=3, noise_std=0.1, dimension=4, participation=0.5)
    >>> seen = mechanism(net)(np.zeros((3, 4)), 5, np.random.default_rng(0))
    >>> seen.total.shape, seen.participation.sum(axis=1)
    ((5, 4), array([1, 2, 1, 2, 2]))
    """
    link, others = aligned_link(network), sorted(set(known))
    play = path(replace(with_its_coins(network), channel=replace(network.channel, noise_std=0.0)), link=link)

    def run(features: Floats | World, runs: int, rng: np.random.Generator) -> Observed:
        got = play(features if isinstance(features, World) else World(features), runs, rng)
        return observed(network, got, others)

    return run


def observed(network: Network, got: Overheard, known: Sequence[int]) -> Observed:
    """The adversary's part of what an auditor hears."""
    others = list(known)
    sent = got.alignment[:, others, None] * got.signals[:, others] if others else None
    if network.scheme.needs_ranking_server:
        return Observed(got.estimate, got.on_the_air & got.taking_part, sent, got.noisy_scores)
    return Observed(got.estimate, None if network.cover_noise else got.on_the_air, sent)


def released(network: Network, scores: Floats | None = None, *, known: Sequence[int] = ()) -> Release:
    """The law of what is received, for the worst pair of worlds and the likelihood ratio between them.

    scores: bounded ones, (K,), for Scheme 2.1, where they decide how often each device takes part. In Scheme 2.2 who
    takes part follows from the noisy scores, and no probability enters.
    A device in outage is silent, so it takes part with p·(1 − outage). Under cover noise the law ignores who is on the
    air: with outage the score is slightly worse than optimal, and the bound is still valid.
    """
    link, d, scheme = aligned_link(network), network.devices, network.scheme
    if scheme.independent:
        p = np.array(d.column("participation"))
    elif scheme.needs_ranking_server:
        p = np.full(d.count, 0.5)  # the same in all worlds
    elif scores is not None:
        p = scored(scheme).participation_by_score(scores)
    else:
        raise ValueError(f"scheme {scheme.name} needs scores, (K,): how often devices take part depends on them")
    law = release(
        d.count,
        weight=d.column("weight"),
        clip_norm=d.column("clip_norm"),
        noise_std=d.column("noise_std"),
        participation=p * (1 - link.outage),
        cover_noise=network.cover_noise,
        colluders=known,
    )
    if scheme.needs_ranking_server:
        return replace(law, scores=scores, score_noise_std=scored(scheme).score_noise_std)
    return law


def worst_worlds(network: Network, claim: Claim, device: int, *, score: End = "high") -> tuple[World, World]:
    """A world and its neighbour, as far apart as clipping and the range of scores allow.

    Device k holds a feature at full norm and the score at one end of the range; its neighbour holds no feature (or the
    opposite one, for `replace`) and the score at the other end. All others hold no feature and the upper end: they
    transmit, or rank before k, as rarely as possible.
    score: the end with the feature. Both games are equally hard where who transmits is seen, by symmetry, and a
        two-sided audit plays both directions; a planted 1/p_k shows where the rarer end goes with the feature.
    """
    law = released(network, np.zeros(network.devices.count))
    features, neighbour = worst_pair(law, device, dimension=network.dimension, neighbours=claim.neighbours)
    if network.scheme.independent:
        return World(features), World(neighbour)
    if score not in ("low", "high"):
        raise ValueError(f"score={score!r} must be low or high, the end of the range that goes with the feature")
    low, high = scored(network.scheme).score_range()
    here, there = np.full(network.devices.count, high), np.full(network.devices.count, high)
    (there if score == "high" else here)[device] = low
    return World(features, here), World(neighbour, there)


def likelihood_ratio(
    network: Network, world: World, neighbour: World, *, known: Sequence[int] = ()
) -> Callable[[Observed], Floats]:
    """ln Pr[seen | world] − ln Pr[seen | neighbour]: the best score for the game between two worlds.

    Scheme 2.1: who transmitted counts, with the probability that each world gives it. Scheme 2.2: the noisy scores and,
    given whom they select, the sum; under cover noise all noise is in it.
    """
    here, there = (released(network, each.scores, known=known) for each in (world, neighbour))
    return log_likelihood_ratio(here, world.features, neighbour.features, neighbour_devices=there)


class Distinguisher(NamedTuple):
    """A world, its neighbour, the mechanism that plays one of them, and the best score between the two."""

    world: Any
    neighbour: Any
    played: Callable[[Any, int, np.random.Generator], Any]
    score: Callable[[Any], Floats]


def attack_on(
    network: Network, claim: Claim, device: int, *, score: End = "high", elsewhere: bool = False, alone: bool = False
) -> Distinguisher:
    """The attack of `audited` on one device, from the position that its arguments name."""
    others = [k for k in np.argsort(network.devices.column("noise_std"))[::-1].tolist() if k != device]
    if not alone:
        rest = [k for k in others if k not in claim.colluding]
        named = [k for k in others if k in claim.colluding]
        others = [] if elsewhere else named + rest[: network.colluders]
    if alone and network.scheme.independent:
        p = list(network.devices.column("participation"))
        p[device] = 1.0
        network = replace(network, scheme=Coin(), devices=replace(network.devices, participation=tuple(p)))
    if not network.channel.aligned or elsewhere:
        one, other = directions.worst_pair(network, claim, device)
        played = directions.mechanism(network, claim, elsewhere=elsewhere, known=others)
        return Distinguisher(one, other, played, directions.likelihood_ratio(network, one, other))
    world, neighbour = worst_worlds(network, claim, device, score=score)
    best = likelihood_ratio(network, world, neighbour, known=others)
    return Distinguisher(world, neighbour, mechanism(network, known=others), best)


def audited(
    network: Network,
    claim: Claim,
    device: int,
    *,
    claimed_epsilon: float,
    runs: int,
    seed: int,
    confidence: float = 0.95,
    score: End = "high",
    together: int = 1,
    elsewhere: bool = False,
    alone: bool = False,
    on_batch: Callable[[int], None] | None = None,
) -> AuditReport:
    """The game against one device on the real path, `runs` runs a side; the other arguments as of audit.bound.

    Others that collude tell the adversary what they have sent: those that the claim names, and of the rest as many as
    may, those with the most noise.

    elsewhere: played by the eavesdropper with `network.adversary.antennas` antennas, to which the server's are added
        where it may learn the answer (`directions`).

    alone: against an adversary that knows what all others have sent and that this device takes part (Scheme 1): the
        claim is then the local one, of own noise alone.
    together: number of such games that hold jointly with the stated confidence. Each is then played
        at 1 − (1 − confidence)/together: any of them errs with probability at most 1 − confidence (Bonferroni).
    """
    if not claim.neighbours.keeps_noise:
        seen = f"neighbours={claim.neighbours!r} is always seen where participation is visible"
        raise ValueError(f"{seen}; audit zero-out or replace")
    if together < 1:
        raise ValueError(f"together={together} must be >= 1")
    attack = attack_on(network, claim, device, score=score, elsewhere=elsewhere, alone=alone)
    key = (device, 1) if alone else () if together == 1 else (device,)
    stream = np.random.SeedSequence(seed, spawn_key=key)
    return audit(
        attack.played,
        attack.world,
        attack.neighbour,
        runs=runs,
        rng=np.random.default_rng(stream),
        delta=claim.delta,
        confidence=confidence if together == 1 else 1 - (1 - confidence) / together,
        score=attack.score,
        claimed_epsilon=claimed_epsilon,
        on_batch=on_batch,
    )


def aligned_link(network: Network) -> Link:
    """The network's link, if every signal arrives aligned or not at all; errors and antennas: audit.directions."""
    channel = network.channel
    if channel.rules.separate:
        raise ValueError(f"this version audits superposed and secure access, not access={channel.access!r}")
    if not channel.known:
        raise ValueError("csi_error_std and phase_error_std must be 0 here; errors are audited by audit.directions")
    if channel.antennas > 1:
        raise ValueError(f"channel.antennas={channel.antennas} must be 1 here; more are audited by audit.directions")
    link = link_of(network)
    if channel.power_rule != "truncate" and np.any(link.outage > 0):
        raise ValueError(
            f"this version audits power_rule={channel.power_rule!r} only where power never limits a device (here up to "
            f"{np.max(link.outage):.2g} of the time); truncate is audited everywhere"
        )
    return link
