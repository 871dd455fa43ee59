"""What the ledger costs: a charge on this disk, opening a ledger, composing what it holds."""

import os
import statistics
import tempfile
import time
from pathlib import Path

from airpool import Network
from airpool_runtime.keys import authority
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism

from . import Row

_CHARGES, _ROWS = 300, 10_000


def _charges(ledger: Ledger, first: int, number: int, **network: float) -> list[float]:
    """Seconds of each charge."""
    one, took = mechanism(Network.uniform(num_devices=12, noise_std=0.5, **network), device=3), []
    ledger.prepare(one)
    for i in range(first, first + number):
        begin = time.perf_counter()
        ledger.charge(f"inference {i}", one)
        took.append(time.perf_counter() - begin)
    return took


def _appended(file: Path) -> float:
    """Median seconds to append a line to a file and to synchronise it."""
    took = []
    with file.open("ab", buffering=0) as log:
        for i in range(_CHARGES):
            begin = time.perf_counter()
            log.write(f"inference {i}\n".encode())
            os.fsync(log.fileno())
            took.append(time.perf_counter() - begin)
    return statistics.median(took)


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # this disk, not one in memory
        keys = Path(folder) / "keys"
        authority.create(keys)
        key = authority.add(keys, "device-3") / "identity.key"
        path, budget = Path(folder) / "ledger.db", Budget(1e6)
        with Ledger(path, key, budgets=[budget]) as ledger:
            first = _charges(ledger, 0, _CHARGES)
            curve = _charges(ledger, _CHARGES, _CHARGES, participation=0.9)
            for i in range(_CHARGES * 2, _ROWS):
                ledger.charge(f"inference {i}", mechanism(Network.uniform(num_devices=12, noise_std=0.5), device=3))
            late = _charges(ledger, _ROWS, _CHARGES)
        several = [budget, Budget(1e6, event=300), Budget(1e6, window_s=300), Budget(1e6, window_s=86_400)]
        with Ledger(path, key, budgets=several) as ledger:
            sliding = _charges(ledger, _ROWS + _CHARGES, _CHARGES)
        plain = _appended(Path(folder) / "plain.log")
        begin = time.perf_counter()
        Ledger(path, key, budgets=[budget]).close()
        opened = time.perf_counter() - begin
    note = f"99 %: {1e3 * sorted(first)[int(0.99 * len(first))]:.1f} ms; row and head are on the disk"
    return [
        Row(
            "ledger",
            "a charge, p = 1, in the median",
            1e3 * statistics.median(first),
            "ms",
            note,
            5.0,
            1e3 * plain,
            "a line appended to a file and synchronised: no chain, head or budget",
        ),
        Row("ledger", "a charge, p = 0.9, in the median", 1e3 * statistics.median(curve), "ms", "", limit=5.0),
        Row("ledger", f"a charge after {_ROWS} rows", 1e3 * statistics.median(late), "ms", "does not grow", limit=5.0),
        Row("ledger", "the same with event and day budgets", 1e3 * statistics.median(sliding), "ms", "", limit=5.0),
        Row("ledger", f"opening and checking {_ROWS} rows", opened, "s", "hashes, the last signature, the head"),
    ]
