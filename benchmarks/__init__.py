"""What has to be fast, measured: `python -m benchmarks`. One module per topic, each with `rows()`."""

import os
from dataclasses import dataclass

# Some virtual machines advertise AMX and trap on it. Read when torch and OpenVINO are loaded.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


@dataclass(frozen=True)
class Row:
    """One measurement. `limit` is the largest value that was asked for, where somebody asked.

    No value: it could not be measured here, and the note says why.
    """

    topic: str
    what: str
    value: float | None
    unit: str
    note: str = ""
    limit: float | None = None

    @property
    def missed(self) -> bool:
        return self.limit is not None and self.value is not None and self.value > self.limit
