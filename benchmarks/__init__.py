"""What has to be fast, measured: `python -m benchmarks`. One module per topic, each with `rows()`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measurement. `limit` is the largest value that was asked for, where somebody asked."""

    topic: str
    what: str
    value: float
    unit: str
    note: str = ""
    limit: float | None = None

    @property
    def missed(self) -> bool:
        return self.limit is not None and self.value > self.limit
