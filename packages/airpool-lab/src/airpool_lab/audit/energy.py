"""The attack on the paper's claim about removal: how much energy arrives (docs/theory/guarantee.md §5.1).

The paper's neighbours are a device that is there and one that is not; a device that is away takes its noise with it.
The adversary sees the sum alone, not who takes part, and adds up its squares: it needs no likelihood and no model.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from airpool._support.arrays import Floats
from airpool.account.calibration import calibrate_claim
from airpool.evaluation.audit.adversary import mechanism
from airpool.evaluation.audit.bound import AuditReport, audit
from airpool.network import Channel, Devices, Network

_BATCH = 2**21  # numbers of all devices in memory


def claimed_by_the_paper(epsilon: float) -> Network:
    """The paper's network on an ideal channel, with the noise at which its Theorem 1 (quadratic slack) claims ε."""
    return calibrate_claim(replace(Network.paper(), channel=Channel()), epsilon=epsilon)


def removed(
    network: Network,
    *,
    claimed_epsilon: float,
    delta: float,
    runs: int,
    seed: int,
    confidence: float = 0.95,
    on_batch: Callable[[int], None] | None = None,
) -> AuditReport:
    """The game between the network and what is left of it without device 0, `runs` runs a side, by received energy.

    Holds for: Scheme 1, equal devices, known channels. delta: that of the claim.
    """
    d = network.devices
    if d.count < 2 or any(len(set(d.column(name))) > 1 for name in ("weight", "clip_norm", "noise_std")):
        raise ValueError("removal is played here between equal devices, two or more")
    features = np.zeros((d.count, network.dimension))
    features[0] = d.column("clip_norm")[0] / network.dimension**0.5
    names = ("weight", "clip_norm", "noise_std", "participation", "power_dbm", "path_loss_db")
    fewer = Devices(d.count - 1, **{name: d.column(name)[1:] for name in names})
    played = {True: (mechanism(network), features), False: (mechanism(replace(network, devices=fewer)), features[1:])}

    def energy(present: bool, n: int, rng: np.random.Generator) -> Floats:
        run, given = played[present]
        return np.sum(run(given, n, rng).total ** 2, axis=1)

    return audit(
        energy,
        True,
        False,
        runs=runs,
        rng=np.random.default_rng(seed),
        delta=delta,
        confidence=confidence,
        score=lambda seen: seen,
        claimed_epsilon=claimed_epsilon,
        batch=max(1, _BATCH // features.size),
        on_batch=on_batch,
    )
