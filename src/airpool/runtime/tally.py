"""Results of a run of `airpool up`: counts, accuracy where the truth is known, times."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from airpool.runtime import wire_pb2 as wire


@dataclass
class RunTally:
    """Results of the inferences so far. distinct: those with a higher number than the one before.

    labels: the true ones, by number; or live: the true name at a moment. judged: inferences whose truth is known: not
    those in which one object took the place of another. Of the times, the last 100,000 are kept. slots: used by the
    inferences that were announced. trouble: what is wrong with sources, in words.
    """

    labels: Sequence[int] | None
    live: Callable[[float], str] | None = None
    judged: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    right: int = 0
    distinct: int = 0
    slots: int = 0
    announced: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=100_000))
    last: wire.Result | None = None
    truth: str = ""
    trouble: list[str] = field(default_factory=list)

    def add(self, result: wire.Result, began: float = 0.0) -> None:
        """Counts a result. began: when it was asked for, in seconds since 1970."""
        self.statuses[result.status] += 1
        self.seconds.append(result.seconds)
        self.slots, self.announced = self.slots + result.slots, self.announced + (result.slots > 0)
        self.distinct += self.last is None or result.number > self.last.number
        self.last = result
        if self.labels is not None:
            self.judged += 1
            self.right += result.status == "answered" and result.label == self.labels[result.number % len(self.labels)]
        elif self.live is not None:
            self.truth = now if (now := self.live(time.time())) == self.live(began) else ""
            self.judged += bool(self.truth)
            self.right += result.status == "answered" and result.name == self.truth

    @property
    def count(self) -> int:
        return sum(self.statuses.values())

    def record(self, took: float) -> dict[str, Any]:
        times = np.array(self.seconds) * 1e3
        told = self.last
        return {
            "inferences": self.count,
            "distinct": self.distinct,
            "statuses": dict(self.statuses),
            "accuracy": self.right / self.judged if self.judged else None,
            "per_second": self.count / took if took else None,
            "p50_ms": float(np.percentile(times, 50)) if len(times) else None,
            "p99_ms": float(np.percentile(times, 99)) if len(times) else None,
            "devices": told.devices if told else 0,
            "slots": {"mean": self.slots / max(self.announced, 1), "cap": told.cap} if told else None,
            "epsilon": {name: _number(getattr(told.guarantee, name)) for name in ("device", "local", "object")}
            if told
            else None,
            "delta": told.guarantee.delta if told else None,
            "simulated": bool(told and told.simulated),
            "note": told.note if told else "",
            "last": self._last_label(),
            "trouble": self.trouble,
        }

    def _last_label(self) -> str:
        """The newest label, and whether it is right, where that is known."""
        if self.last is None or self.last.status != "answered":
            return ""
        if not self.truth:
            return self.last.name
        return f"{self.last.name} " + ("✓" if self.last.name == self.truth else f"✗ ({self.truth})")


def _number(value: float) -> float | str:
    return "inf" if np.isinf(value) else value
