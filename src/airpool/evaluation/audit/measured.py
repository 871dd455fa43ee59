"""One claim beside what was measured: its exact limits at the error that its test may make."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.rounding import down, full, up
from airpool.evaluation.audit.limits import (
    chance_correlation,
    chance_distance,
    distance_from_normal,
    least_mean,
    std_limits,
)
from airpool.privacy.evidence import clopper_pearson


@dataclass(frozen=True)
class Evidence:
    """One claim: what is claimed, what was measured, and the limits that hold with the confidence of the test.

    device: None where the claim is about the sum. affects: what would be false if the claim were. world:
    what devices held.
    """

    claim: str
    device: int | None
    quantity: str
    claimed: float
    measured: float
    low: float
    high: float
    affects: str
    world: str = "no feature"

    @property
    def contradicted(self) -> bool:
        return self.claimed < self.low or self.claimed > self.high

    def to_json(self) -> dict[str, Any]:
        plain = {name: str(x) if isinstance(x, float) and np.isinf(x) else x for name, x in asdict(self).items()}
        return plain | {"contradicted": self.contradicted}

    def __str__(self) -> str:
        whose = "the sum" if self.device is None else f"device {self.device}"
        beyond = f"at least {down(self.low)}" if self.claimed < self.low else f"at most {up(self.high)}"
        verdict = f"{beyond}: CONTRADICTED ({self.affects})" if self.contradicted else "not contradicted"
        found = f"{self.quantity} {self.measured:.4g}, claimed {full(self.claimed)}"
        return f"{whose}, {self.claim} ({self.world}): {found}; {verdict}"


# The error that a test may make → its outcome.
Test = Callable[[float], Evidence]


def least_noise(claim: str, k: int | None, energy: float, count: int, std: float, affects: str) -> Test:
    measured = float(np.sqrt(energy / max(count, 1)))
    return lambda error: Evidence(
        claim,
        k,
        "standard deviation",
        float(std),
        measured,
        0.0,
        std_limits(float(energy), count, error=error)[1],
        affects,
    )


def law(k: int, units: Floats) -> Test:
    away = distance_from_normal(units)

    def test(error: float) -> Evidence:
        low = max(0.0, away - chance_distance(len(units), error=error))
        return Evidence("law of own noise", k, "distance from N(0, σ²)", 0.0, away, low, 1.0, "every ε")

    return test


def independent(name: str, k: int, product: float, left: float, right: float, *, count: int) -> Test:
    correlation = float(product / np.sqrt(left * right)) if left > 0 and right > 0 else 0.0

    def test(error: float) -> Evidence:
        most = chance_correlation(count, error=error)
        low, high = correlation - most, correlation + most
        return Evidence(f"own noise, {name}", k, "correlation", 0.0, correlation, low, high, "every ε")

    return test


def most_mean(claim: str, quantity: str, k: int, values: Floats, most: float, affects: str) -> Test:
    mean = float(np.mean(values)) if len(values) else 0.0
    return lambda error: Evidence(
        claim, k, quantity, float(most), mean, least_mean(values, error=error), np.inf, affects
    )


def rate(claim: str, k: int | None, happened: Any, probability: float, *, claimed_from: int | None = None) -> Test:
    """claimed_from: draws that the claim itself was found by; its own limits then widen those of what was measured."""
    count, trials = int(np.sum(happened)), len(happened)

    def test(error: float) -> Evidence:
        share = error / 2 if claimed_from is None else error / 4
        low, high = (float(x) for x in clopper_pearson(count, trials, error=share)) if trials else (0.0, 1.0)
        if claimed_from is not None:
            seen = round(probability * claimed_from)
            least, most = (float(x) for x in clopper_pearson(seen, claimed_from, error=share))
            low, high = low - (most - probability), high + (probability - least)
        return Evidence(claim, k, "frequency", probability, count / max(trials, 1), low, high, "every ε")

    return test


def receiver(claimed: float, energy: float, count: int, rounding: float) -> Test:
    measured = float(np.sqrt(energy / max(count, 1)))

    def test(error: float) -> Evidence:
        low, high = std_limits(energy, count, error=error / 2)
        low, high = (max(0.0, low - rounding), high + rounding) if claimed else (max(0.0, measured - rounding), np.inf)
        what = "accuracy; every ε, if it is more"
        return Evidence(
            "what it holds beside all signals (receiver noise)",
            None,
            "standard deviation",
            claimed,
            measured,
            low,
            high,
            what,
        )

    return test
