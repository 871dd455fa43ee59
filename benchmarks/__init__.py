"""What has to be fast, timed: `python -m benchmarks`. One module per topic, each with `rows()`; growth has curves."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

# Some virtual machines advertise AMX and trap on it. Read when torch is loaded.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


@dataclass(frozen=True)
class Row:
    """One measurement. `limit` is the target: the largest value that was asked for, where somebody asked.

    No value: it could not be measured here, and the note says why. rival: the same quantity of the simplest thing that
    could do the job, in the same run; `beside` says what that is.
    """

    topic: str
    what: str
    value: float | None
    unit: str
    note: str = ""
    limit: float | None = None
    rival: float | None = None
    beside: str = ""

    @property
    def missed(self) -> bool:
        return self.limit is not None and self.value is not None and self.value > self.limit

    @property
    def ratio(self) -> float | None:
        """How many times the rival's value it is."""
        return None if self.value is None or not self.rival else self.value / self.rival


@dataclass(frozen=True)
class Curve:
    """How a cost grows: lines of y over x by name; None where a line was not measured, since it took too long."""

    name: str
    title: str
    x_axis: str
    y_axis: str
    x: tuple[float, ...]
    lines: Mapping[str, tuple[float | None, ...]]
    note: str = ""
