"""What the paper's default network leaks: what Theorem 1 claims, and the exact values."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np

from airpool.account.guarantee import aggregate, epsilon, guarantee, paper_claim
from airpool.account.report import number
from airpool.network import Channel, Neighbours, Network
from airpool.paper.theorem1 import Tail
from airpool.privacy import device

NEIGHBOURS: tuple[Neighbours, ...] = get_args(Neighbours)
COVERED = "zero-out, cover noise"
NUM_STDS = 25


@dataclass(frozen=True)
class Row:
    """Theorem 1 with one form of its slack. true_delta: exact, zero-out, at the claimed ε; None if ε is infinite."""

    epsilon: float
    delta: float
    true_delta: float | None
    reason: str | None


@dataclass(frozen=True)
class Claim:
    """The claim by form of its slack, the exact ε by what changes, and both against σ (column "noise_std")."""

    network: Network
    claims: dict[Tail, Row]
    truths: dict[str, float]
    curves: dict[str, list[float]]

    def record(self) -> dict[str, Any]:
        return {
            "claims": {tail: asdict(row) | {"epsilon": number(row.epsilon)} for tail, row in self.claims.items()},
            "truths": {name: number(value) for name, value in self.truths.items()},
        }


def claim(*, on_points: Callable[[int], None] = lambda _: None) -> Claim:
    """The check of the paper's defaults; `on_points` is called after each of the NUM_STDS points of the curves."""
    network = Network.paper()
    claims = {tail: _row(network, tail) for tail in get_args(Tail)}
    return Claim(network, claims, _truths(network), _curves(network, on_points))


def _row(network: Network, tail: Tail) -> Row:
    claimed = paper_claim(network, tail)
    claimed_epsilon = float(claimed.epsilon[0])
    true_delta = None if np.isinf(claimed_epsilon) else float(device.delta(aggregate(network), claimed_epsilon)[0])
    return Row(claimed_epsilon, float(claimed.delta[0]), true_delta, claimed.reason)


def _truths(network: Network) -> dict[str, float]:
    covered = replace(network, cover_noise=True)
    truths = {name: guarantee(network, neighbours=name).worst for name in NEIGHBOURS}
    truths |= {f"{name}, cover noise": guarantee(covered, neighbours=name).worst for name in NEIGHBOURS}
    report = guarantee(network)
    return truths | {"local": float(report.epsilon_local[0]), "object": report.epsilon_object}


def _curves(network: Network, on_points: Callable[[int], None]) -> dict[str, list[float]]:
    """ε against σ, claimed and exact, without a power limit: γ would follow the noise and hide the formula."""
    network = replace(network, channel=Channel())
    stds = np.geomspace(0.1, 30.0, NUM_STDS)
    tails: tuple[Tail, ...] = ("quadratic", "bernstein")
    names = [*(f"theorem 1 ({tail})" for tail in tails), *NEIGHBOURS, COVERED]
    curves: dict[str, list[float]] = {"noise_std": stds.tolist()} | {name: [] for name in names}
    for std in stds:
        at = replace(network, devices=replace(network.devices, noise_std=float(std)))
        exact = {name: replace(at, neighbours=name) for name in NEIGHBOURS} | {COVERED: replace(at, cover_noise=True)}
        for name, variant in exact.items():
            curves[name].append(float(np.max(epsilon(variant, aggregate(variant)))))
        for tail in tails:
            curves[f"theorem 1 ({tail})"].append(float(paper_claim(at, tail).epsilon[0]))
        on_points(1)
    return curves
