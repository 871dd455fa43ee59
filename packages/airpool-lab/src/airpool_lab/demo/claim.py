"""Leakage of the paper's default network: the claim of Theorem 1, and the exact values."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from airpool.account.guarantee import device_epsilon, guarantee
from airpool.account.received import aggregate
from airpool.account.report import number
from airpool.account.theorem1 import Tail, paper_claim
from airpool.network import Channel, Claim, Neighbours, Network
from airpool.privacy import device

COVERED = "zero-out, cover noise"
NUM_STDS = 25
# Neighbours, and whether there is cover noise, by name.
_CHANGES = {str(name): (name, False) for name in Neighbours}
_CHANGES |= {f"{name}, cover noise": (name, True) for name in Neighbours}
# Curves against σ: two forms of the claim, and exact values.
_TAILS: tuple[Tail, ...] = ("quadratic", "bernstein")
_EXACT = (*Neighbours, COVERED)


@dataclass(frozen=True)
class CheckedClaim:
    """The claim by form of its slack, the exact ε by what changes, and both against σ (column "noise_std").

    claims: "epsilon" and "delta" as claimed, "true_delta" (exact, zero-out, at the claimed ε; None if that is infinite)
    and "reason", why it is.
    """

    network: Network
    claims: dict[Tail, dict[str, Any]]
    truths: dict[str, float]
    curves: dict[str, list[float]]

    def record(self) -> dict[str, Any]:
        return {
            "claims": {tail: row | {"epsilon": number(row["epsilon"])} for tail, row in self.claims.items()},
            "truths": {name: number(value) for name, value in self.truths.items()},
        }


def claim(*, on_points: Callable[[int], None] = lambda _: None) -> CheckedClaim:
    """The check of the paper's defaults; `on_points` is called after each of the NUM_STDS points of the curves."""
    network = Network.paper()
    claims = {tail: _claimed(network, tail) for tail in get_args(Tail)}
    report = guarantee(network)
    truths = {name: _exact(network, name) for name in _CHANGES}
    truths |= {"local": float(report.epsilon_local[0]), "object": report.epsilon_object}
    # Without a power limit: γ would follow the noise and hide the formula.
    unlimited, curves = replace(network, channel=Channel()), {"noise_std": np.geomspace(0.1, 30.0, NUM_STDS).tolist()}
    curves |= {name: [] for name in (*(f"theorem 1 ({tail})" for tail in _TAILS), *_EXACT)}
    for std in curves["noise_std"]:
        at = replace(unlimited, devices=replace(network.devices, noise_std=std))
        for tail in _TAILS:
            curves[f"theorem 1 ({tail})"].append(float(paper_claim(at, tail=tail).epsilon[0]))
        for name in _EXACT:
            curves[name].append(_exact(at, name))
        on_points(1)
    return CheckedClaim(network, claims, truths, curves)


def _claimed(network: Network, tail: Tail) -> dict[str, Any]:
    claimed = paper_claim(network, tail=tail)
    at = float(claimed.epsilon[0])
    true_delta = None if np.isinf(at) else float(device.delta(aggregate(network), at)[0])
    return {"epsilon": at, "delta": float(claimed.delta[0]), "true_delta": true_delta, "reason": claimed.reason}


def _exact(network: Network, change: str) -> float:
    neighbours, cover_noise = _CHANGES[change]
    changed = replace(network, cover_noise=cover_noise)
    return float(np.max(device_epsilon(changed, Claim(neighbours=neighbours))))
