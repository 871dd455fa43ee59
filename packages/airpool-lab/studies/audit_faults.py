"""Faults planted in the transmission path, and the runs with which the audit sees each: a table of theory/guarantee.md.

python -m studies.audit_faults      measures it again, in minutes, and writes docs/figures/audit-faults.csv

Every fault is planted in the code that transmits while it is audited; the auditor knows the network as it claims to be.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from airpool import Channel, Claim, Network, Threshold
from airpool._support import draws
from airpool._support.figures import write_csv
from airpool._support.version import __version__
from airpool.account.guarantee import guarantee
from airpool.evaluation.audit import path
from airpool.evaluation.audit.adversary import audited
from airpool.evaluation.audit.claims import measure
from airpool.evaluation.audit.whole import MEASURED
from airpool.protocol import device, medium
from airpool.radio import power
from airpool.schemes.scores import Scored
from studies.tables import FIGURES

SEED, CONFIDENCE, REPETITIONS, GAMES = 0, 0.95, 100, 20
STD = 0.15
LADDER = [round(2 ** (half / 2)) for half in range(4, 28)]
GAME_LADDER = (1_000, 10_000, 100_000)
NETWORK = Network.uniform(
    num_devices=6,
    noise_std=STD,
    participation=0.9,
    dimension=16,
    channel=Channel(fading="rayleigh", outage=0.1, noise_std=0.1),
)
COVERED = replace(NETWORK, cover_noise=True)
SCORED = replace(NETWORK, scheme=Threshold(score_noise_std=1.0, threshold=0.5))
PARAMETERS = (
    "6 devices, weight 1/6, clip norm 1, noise 0.15, participation 0.9, r = 16, Rayleigh, outage 0.1, "
    "receiver noise 0.1, delta 1e-5"
)


@dataclass(frozen=True)
class Fault:
    """What goes wrong, in which network, and how it is planted."""

    what: str
    plant: Callable[[], Any]
    network: Network = NETWORK


def transmitting(change: Callable[[Network], Network]) -> Callable[[], Any]:
    """The devices work with other settings than they claim."""
    honest = path.receive

    def receive(latents: Any, network: Network, **rest: Any) -> Any:
        return honest(latents, change(network), **rest)

    return lambda: patch.object(path, "receive", receive)


def with_noise(**std: float) -> Callable[[Network], Network]:
    """Standard deviations of some devices: `_0=STD / 2`."""

    def change(network: Network) -> Network:
        values = list(network.devices.column("noise_std"))
        for k, value in std.items():
            values[int(k[1:])] = value
        return replace(network, devices=replace(network.devices, noise_std=tuple(values)))

    return change


def with_devices(**fields: Any) -> Callable[[Network], Network]:
    return lambda network: replace(network, devices=replace(network.devices, **fields))


def drawing(change: Callable[[Any], Any]) -> Callable[[], Any]:
    """The noise of all devices, (n, trials, K, r), is changed after it was drawn."""
    honest = draws.by_device

    def by_device(draw: Any, own: Any, shape: Any, *, axis: int = -1, dtype: Any) -> Any:
        drawn = honest(draw, own, shape, axis=axis, dtype=dtype)
        return change(drawn) if len(shape) == 4 else drawn

    return lambda: patch.object(draws, "by_device", by_device)


def _laplace(noise: Any) -> Any:
    return np.random.default_rng(int(abs(noise.flat[0]) * 1e12)).laplace(scale=0.5**0.5, size=noise.shape)


def _twins(noise: Any) -> Any:
    """The second coordinate of every symbol repeats the first."""
    return np.repeat(noise[..., 0::2], 2, axis=-1)


def _opposite(noise: Any) -> Any:
    """Device 1 takes the negative of device 0's noise."""
    noise[:, :, 1] = -noise[:, :, 0]
    return noise


@contextmanager
def _louder() -> Iterator[None]:
    """Device 0 sends with half as much again."""
    honest = medium.superpose

    def superpose(signals: Any, gain: Any, noise: Any) -> Any:
        factor = np.ones(signals.shape[-2])
        factor[0] = 1.5
        return honest(factor[:, None] * signals, gain, noise)

    with patch.object(medium, "superpose", superpose):
        yield


@contextmanager
def _one_coin() -> Iterator[None]:
    honest = device.taking_part

    def taking_part(*args: Any, **rest: Any) -> Any:
        coins, scores = honest(*args, **rest)
        return np.repeat(coins[..., :1], coins.shape[-1], axis=-1), scores

    with patch.object(device, "taking_part", taking_part):
        yield


@contextmanager
def _never_too_weak() -> Iterator[None]:
    with patch.object(power, "threshold", lambda sent, **_: np.zeros(sent.num_devices)):
        yield


def _one_seed(rng: Any, number: int) -> list[Any]:
    return [copy.deepcopy(child) for child in rng.spawn(1) * number]


def _half_of(bounded: Any, std: float, **rest: Any) -> Any:
    return _honest_noisy(bounded, std / 2, **rest)


_honest_noisy = device.noisy
FAULTS = [
    Fault("own σ halved, one device", transmitting(with_noise(_0=STD / 2))),
    Fault("own σ 10 % too small, one device", transmitting(with_noise(_0=0.9 * STD))),
    Fault("σ halved, all devices", transmitting(with_devices(noise_std=STD / 2))),
    Fault("one other device without noise", transmitting(with_noise(_5=0.0))),
    Fault("three of five others without noise", transmitting(with_noise(_3=0.0, _4=0.0, _5=0.0))),
    Fault("clip norm twice as large", transmitting(with_devices(clip_norm=2.0))),
    Fault("clip forgotten", lambda: patch.object(device, "clipped", lambda latents, _: latents)),
    Fault("Laplace noise of the same variance", drawing(_laplace)),
    Fault("noise cut off at 2σ", drawing(lambda noise: np.clip(noise, -2, 2))),
    Fault("both coordinates of a symbol with the same noise", drawing(_twins)),
    Fault("noise of two devices opposite", drawing(_opposite)),
    Fault("one seed for all devices", lambda: patch.object(draws, "spawn", _one_seed)),
    Fault(
        "the same seed in every call",
        lambda: patch.object(draws, "spawn", lambda _, number: np.random.default_rng(0).spawn(number)),
    ),
    Fault("participation always 1", transmitting(with_devices(participation=1.0))),
    Fault("participation 0.8 rather than 0.9", transmitting(with_devices(participation=0.8))),
    Fault("one coin for all devices", _one_coin),
    Fault("outage ignored: everybody is always heard", _never_too_weak),
    Fault("one device half as loud again as it says", _louder),
    Fault(
        "receiver noise missing", transmitting(lambda net: replace(net, channel=replace(net.channel, noise_std=0.0)))
    ),
    Fault("cover noise not sent", transmitting(lambda net: replace(net, cover_noise=False)), COVERED),
    Fault("Scheme 2.1: noise of the score halved", lambda: patch.object(device, "noisy", _half_of), SCORED),
    Fault(
        "Scheme 2.1: score not bounded",
        lambda: patch.object(Scored, "bounded", lambda scheme, bits, *_: bits),
        SCORED,
    ),
]


def noticed(network: Network, runs: int, seed: int) -> bool:
    """Whether the measurements see a fault, at the error that the whole audit leaves to them."""
    rng = np.random.default_rng(seed)
    found = measure(network, runs=runs, rng=rng, confidence=1 - MEASURED * (1 - CONFIDENCE))
    return any(each.contradicted for each in found)


def refuted(network: Network, runs: int, seed: int, *, alone: bool) -> bool:
    """Whether a game against device 0 sees it, which is all that the audit was before."""
    claim = Claim()
    report = guarantee(network, claim)
    claimed = float((report.epsilon_local if alone else report.epsilon)[0])
    game = audited(network, claim, 0, claimed_epsilon=claimed, runs=runs, seed=seed, confidence=CONFIDENCE, alone=alone)
    return game.violated


def fewest_that_show(seen: Callable[[int, int], bool], ladder: Any, repetitions: int) -> int | None:
    """The first number of runs with which 95 % of the audits see the fault; None if there is none."""
    for runs in ladder:
        missed = 0
        for seed in range(SEED, SEED + repetitions):
            missed += not seen(runs, seed)
            if missed > 0.05 * repetitions:
                break
        else:
            return runs
    return None


def main() -> None:
    columns: dict[str, list[Any]] = {"fault": [], "measured": [], "game on the sum": [], "game on own noise": []}
    for fault in FAULTS:

        def measured(runs: int, seed: int, net: Network = fault.network) -> bool:
            return noticed(net, runs, seed)

        def in_the_sum(runs: int, seed: int, net: Network = fault.network) -> bool:
            return refuted(net, runs, seed, alone=False)

        def alone(runs: int, seed: int, net: Network = fault.network) -> bool:
            return refuted(net, runs, seed, alone=True)

        with ExitStack() as stack:
            stack.enter_context(fault.plant())
            row = [
                fewest_that_show(measured, LADDER, REPETITIONS),
                fewest_that_show(in_the_sum, GAME_LADDER, GAMES),
                fewest_that_show(alone, GAME_LADDER, GAMES),
            ]
        shown = [row[0] or f"> {LADDER[-1]}", *(each or f"> {GAME_LADDER[-1]}" for each in row[1:])]
        for name, value in zip(columns, [fault.what, *shown], strict=True):
            columns[name].append(value)
        print(fault.what, *shown, sep=" | ", flush=True)
    about = (
        f"{PARAMETERS}; runs with which 95 % of audits see the fault: of each of two worlds, measured; a side of a game"
    )
    how = f"confidence {CONFIDENCE}, {REPETITIONS} audits from seed {SEED}, {GAMES} games; airpool {__version__}"
    write_csv(FIGURES / "audit-faults.csv", columns, comment=f"{about}; {how}; python -m studies.audit_faults")


if __name__ == "__main__":
    main()
