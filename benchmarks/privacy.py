"""How long an exact ε takes, beside dp-accounting on the same question, and how the cost grows."""

import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from math import log
from multiprocessing import get_context
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from airpool import Claim, Devices, Network, calibrate, guarantee
from airpool._support.arrays import Floats
from airpool.evaluation.audit.adversary import mechanism
from airpool.evaluation.audit.bound import audit
from airpool.evaluation.audit.claims import enough, measure
from airpool.evaluation.audit.path import path
from airpool.evaluation.audit.release import log_likelihood_ratio, release, worst_pair
from airpool.privacy import compose, device
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.epsilon import epsilon
from airpool.privacy.leak import Times
from airpool.radio.link import link_of

from . import Row
from .noise import seconds

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import DensePLDPmf

T = TypeVar("T")

_DELTA = 1e-5
# dp-accounting's grid: the coarsest round one on which its ε is within 1e-3 of the truth.
_PEER_GRID = 0.03


def like(num_devices: int, *, dimension: int = 64) -> Aggregate:
    """Devices of one kind; noise that gives ε of about 2 whatever their number."""
    std = 0.05 * (12 / num_devices) ** 1.5
    each = np.ones(num_devices)
    return Aggregate(each / num_devices, std**2 * each, 0.9 * each, dimension=dimension)


def heterogeneous(num_devices: int, *, kinds: int | None = None, rarely: bool = False) -> Aggregate:
    """Devices that all differ in weight, noise and participation, or of so many kinds; ε from about 1 to 3.

    `rarely`: participation from 0.01 to 0.1, with noise to match, instead of 0.6 to 0.95.
    """
    t = np.linspace(0, 1, kinds or num_devices)[np.arange(num_devices) % (kinds or num_devices)]
    scale = 12 / num_devices
    std, p = (3.5, 0.01 + 0.09 * t) if rarely else (1.0, 0.6 + 0.35 * t)
    return Aggregate((0.06 + 0.05 * t) * scale, ((0.04 + 0.03 * t) * std * scale**1.5) ** 2, p)


def rows() -> list[Row]:
    return [*_exact(), *_growth(), *_streams()]


def _exact() -> list[Row]:
    twelve, wide = heterogeneous(12), like(12, dimension=784)
    network = Network.uniform(num_devices=12, participation=0.9)
    mixed_network = network_of(twelve)
    ours, plain, reported, removal, calibrated, searched = seconds(
        lambda: device.epsilon(twelve, _DELTA),
        lambda: plain_mixture(twelve),
        lambda: guarantee(mixed_network),
        lambda: device.epsilon(wide, _DELTA, neighbours="remove"),
        lambda: calibrate(network, Claim(delta=_DELTA), epsilon=2.0),
        lambda: brentq(lambda std: plain_mixture(_uniform(std), each=1)[0] - 2.0, 0.02, 0.2, xtol=1e-9),
        repeat=5,
    )
    truth = float(device.epsilon(twelve, _DELTA).upper[0])
    mixed, mixed_epsilon = timed(lambda: peer_mixture(twelve, 0))
    closed, closed_epsilon = timed(lambda: peer_closed_form(twelve, 0))

    def row(what: str, value: float, note: str, rival: float | None = None, beside: str = "") -> Row:
        return Row("exact ε", what, value, "s", note, rival=rival, beside=beside)

    scipy, device_0 = "fifteen lines of SciPy", "- beside dp-accounting's of device 0 alone"
    both = f"device 0: ε = {truth:.6f}; theirs {plain_mixture(twelve)[0]:.6f}"
    mixing = f"theirs {mixed_epsilon:.6f}, {mixed_epsilon / truth - 1:+.0e}; grid {_PEER_GRID:g}"
    closing = f"theirs {closed_epsilon:.6f}, {closed_epsilon / truth - 1:+.0e}"
    return [
        row("12 heterogeneous devices, all of them", ours, both, plain, scipy),
        row(device_0, ours, mixing, mixed, "dp-accounting, 2,048 PLDs mixed"),
        row(device_0, ours, closing, closed, "dp-accounting, 2,048 closed δ mixed"),
        Row("exact ε", "- the whole report of that network", reported, "s", "", 0.15, plain, f"{scipy}: ε alone"),
        row("removal, 12 like devices, r = 784", removal, "nothing else computes it"),
        row("calibrate 12 devices to ε = 2", calibrated, "", searched, "Brent's method on the SciPy lines"),
    ]


def network_of(aggregate: Aggregate) -> Network:
    """A network without fading whose devices have these shifts, standard deviations and participations."""
    columns = aggregate.shift, np.sqrt(aggregate.variance), aggregate.participation
    weight, noise_std, participation = (tuple(x.tolist()) for x in columns)
    return Network(
        Devices(count=aggregate.num_devices, weight=weight, noise_std=noise_std, participation=participation)
    )


def _uniform(noise_std: float) -> Aggregate:
    """Twelve like devices that take part with probability 0.9."""
    each = np.ones(12)
    return Aggregate(each / 12, noise_std**2 * each, 0.9 * each)


def plain_mixture(aggregate: Aggregate, each: int | None = None) -> Floats:
    """The ε of all devices, or of the first `each`, as one would write it in SciPy: a mixture over patterns."""

    def one(of: int) -> float:
        mass, variance = aggregate.participation[[of]], aggregate.variance[[of]]
        for i in set(range(aggregate.num_devices)) - {of}:
            p = aggregate.participation[i]
            mass = np.concatenate((mass * (1 - p), mass * p))
            variance = np.concatenate((variance, variance + aggregate.variance[i]))
        mu = aggregate.shift[of] / np.sqrt(variance)

        def excess(epsilon: float) -> float:
            delta = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
            return float(mass @ delta) - _DELTA

        return float(brentq(excess, 0.0, 50.0))

    return np.array([one(k) for k in range(each or aggregate.num_devices)])


def peer_mixture(aggregate: Aggregate, of: int) -> float:
    """dp-accounting's ε of one device: it sees who takes part, so its loss is a mixture of Gaussian ones.

    A Gaussian PLD by connect-the-dots for each of the others' patterns, weighted by its probability, and no loss at all
    where the device is silent. (Its mixture-Gaussian mechanism does not apply: there the pattern is hidden and the
    noise is fixed.)
    """
    return float(peer_losses(aggregate, of).get_epsilon_for_delta(_DELTA))


def peer_losses(aggregate: Aggregate, of: int) -> "DensePLDPmf":
    """dp-accounting's law of the privacy loss of one device."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    speaks = float(aggregate.participation[of])
    parts = []
    for mass, std in zip(*_patterns(aggregate, of), strict=True):
        each = pld.from_gaussian_mechanism(
            std, sensitivity=float(aggregate.shift[of]), value_discretization_interval=_PEER_GRID
        )
        pmf = each._pmf_remove.to_dense_pmf()  # a Gaussian's two directions are one
        parts.append((speaks * mass, pmf._lower_loss, pmf._probs, pmf._infinity_mass))
    lowest = min(low for _, low, *_ in parts)
    probs = np.zeros(max(low + len(each) for _, low, each, _ in parts) - lowest)
    for mass, low, each, _ in parts:
        probs[low - lowest : low - lowest + len(each)] += mass * each
    probs[-lowest] += 1 - speaks
    infinite = sum(mass * each for mass, *_, each in parts)
    return pld_pmf.DensePLDPmf(_PEER_GRID, lowest, probs, infinite, True)


def peer_closed_form(aggregate: Aggregate, of: int) -> float:
    """The same from dp-accounting's closed form of a Gaussian's δ, averaged over the patterns and solved for ε."""
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    mass, std = _patterns(aggregate, of)
    losses = [GaussianPrivacyLoss(s, sensitivity=float(aggregate.shift[of])) for s in std]

    def excess(epsilon: float) -> float:
        deltas = [float(np.asarray(loss.get_delta_for_epsilon(epsilon))) for loss in losses]
        return log(aggregate.participation[of] * float(mass @ np.array(deltas))) - log(_DELTA)

    return float(brentq(excess, 0.0, 8.0, xtol=1e-9))


def _patterns(aggregate: Aggregate, of: int) -> tuple[Floats, Floats]:
    """Probability and total noise of every pattern of who else takes part."""
    others = np.arange(aggregate.num_devices) != of
    speaking = np.array(list(product((False, True), repeat=aggregate.num_devices - 1)))
    p = aggregate.participation[others]
    mass = np.where(speaking, p, 1 - p).prod(axis=1)
    return mass, np.sqrt(speaking @ aggregate.variance[others] + aggregate.variance[of])


def _growth() -> list[Row]:
    def exact(what: str, aggregate: Aggregate, limit: float | None = None) -> Row:
        device.epsilon(aggregate, _DELTA)  # imports and caches are not what is measured
        (took,) = seconds(lambda: device.epsilon(aggregate, _DELTA), repeat=3)
        gap = _gap(device.epsilon(aggregate, _DELTA))
        note = f"gap {gap * 100:.1g} %" if gap else "exact"
        return Row("growth with K", what, took, "s", note, limit)

    out = [exact(f"{n:,} like devices", like(n)) for n in (12, 1_000, 100_000)]
    out += [exact(f"{n} heterogeneous devices, exact law", heterogeneous(n)) for n in (4, 8, 12, 16)]
    for n, rarely in ((100, False), (1_000, False), (10_000, False), (10_000, True)):
        took, gap, memory = _in_fresh_process(n, rarely)
        asked = n == 10_000
        kind = "p from 0.01 to 0.1" if rarely else "p from 0.6 to 0.95"
        out.append(
            Row(
                "growth with K",
                f"{n:,} heterogeneous devices, grid",
                took,
                "s",
                f"once; {kind}",
                20.0 if asked else None,
            )
        )
        out.append(Row("growth with K", "- gap between upper and lower", gap * 100, "%", "", 1.0 if asked else None))
        out.append(Row("growth with K", "- peak memory", memory, "GB", "whole process", 2.0 if asked else None))
    out.append(exact("1,000,000 devices in ten kinds", heterogeneous(1_000_000, kinds=10), limit=1.0))
    return out


def _gap(found: device.Bounds) -> float:
    return float(np.max(found.upper / found.lower)) - 1


def _in_fresh_process(num_devices: int, rarely: bool) -> tuple[float, float, float]:
    # Peak memory is a process's for life: every size needs its own.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_on_grid, num_devices, rarely).result()


def _on_grid(num_devices: int, rarely: bool) -> tuple[float, float, float]:
    aggregate = heterogeneous(num_devices, rarely=rarely)
    took, found = timed(lambda: device.epsilon(aggregate, _DELTA))
    return took, _gap(found), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _streams() -> list[Row]:
    leak = device.by_coin(like(12), "zero-out")
    first, composed = seconds(
        lambda: compose.stream(leak).repeated(1).epsilon(_DELTA),
        lambda: compose.stream(leak).repeated(1_000).epsilon(_DELTA),  # afresh: a stream remembers its squares
        repeat=5,
    )
    total = compose.stream(leak).repeated(1_000).epsilon(_DELTA)
    theirs, peer = timed(lambda: peer_losses(like(12), 0).self_compose(1_000).get_epsilon_for_delta(_DELTA))
    mixed = device.by_coin(heterogeneous(12), "zero-out")
    (every,) = seconds(lambda: epsilon(Times(1_000, mixed), _DELTA), repeat=1)
    return [
        Row("streams", "first inference, as a curve", first, "s", "12 like devices"),
        Row(
            "streams",
            "1,000 inferences, that curve included",
            composed,
            "s",
            f"ε = {total:.3f}; theirs {peer:.3f}, grid {_PEER_GRID:g}",
            0.5,
            theirs,
            "dp-accounting, 2,048 PLDs mixed, composed",
        ),
        Row("streams", "1,000 inferences, 12 heterogeneous devices, every ε", every, "s", "once; 12 curves included"),
    ]


def audit_rows() -> list[Row]:
    """The game on the full path, likelihood scores included; and what the measurements beside it take and see."""
    runs, dimension = 20_000, 64
    sender = release(12, clip_norm=1.0, noise_std=0.05, participation=0.9)
    network = Network.uniform(num_devices=12, noise_std=0.05, participation=0.9, dimension=dimension)
    features, neighbour = worst_pair(sender, 0, dimension=dimension)
    score = log_likelihood_ratio(sender, features, neighbour)
    play = partial(audit, mechanism(network), features, neighbour, runs=runs, delta=_DELTA, score=score)
    (took,) = seconds(lambda: play(rng=np.random.default_rng(0)), repeat=3)
    found = play(rng=np.random.default_rng(0))
    note = f"{runs:,} a side: ε ≥ {found.epsilon_lower:.2f}, ceiling {found.ceiling:.2f}"
    (bare,) = seconds(lambda: [plain_runs(runs, dimension) for _ in range(2)], repeat=3)
    every, half = enough(network, 100_000), Devices(12, noise_std=(0.025, *[0.05] * 11), participation=0.9)
    measured, outcomes = timed(lambda: measure(network, runs=every, rng=np.random.default_rng(0)))
    played = path(replace(network, devices=half), link=link_of(network))

    def seen(runs: int, seed: int) -> bool:
        outcomes = measure(network, runs=runs, rng=np.random.default_rng(seed), confidence=0.999, played=played)
        return any(outcome.contradicted for outcome in outcomes)

    fewest = next(runs for runs in range(4, 1_000) if all(seen(runs, seed) for seed in range(20)))
    return [
        Row(
            "audit",
            f"2 × {runs:,} runs, 12 devices, r = {dimension}, their scores and bound",
            took,
            "s",
            note,
            rival=bare,
            beside="the sums alone, drawn by NumPy",
        ),
        Row("audit", f"all claims measured, 2 × {every:,} runs", measured, "s", f"once; {len(outcomes)} measurements"),
        Row("audit", "- that show one device's σ halved", fewest, "runs", "20 of 20 audits, error 0.001", limit=20.0),
    ]


def plain_runs(runs: int, dimension: int) -> Floats:
    """Noisy sums of twelve devices that send nothing but noise, as one would draw them in NumPy."""
    rng = np.random.default_rng(0)
    speaks = rng.random((runs, 12)) < 0.9
    return np.einsum("nk,nkr->nr", speaks, rng.normal(0, 0.05, (runs, 12, dimension)))


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """One run: for calls of seconds, where a median would only cost time."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result
