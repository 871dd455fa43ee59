"""Time that nobody can set: how long a ledger has been in use, never more than has passed.

Budgets for a window of time count by it. The computer's date may jump either way: it is written down, and nothing else.
Time that a machine was switched off does not count, so a window can only become longer.
"""

import secrets
import time
from pathlib import Path
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Where the system does not name its start, that of this process stands for it.
_PROCESS, _STARTED = f"process-{secrets.token_hex(8)}", time.monotonic_ns()


class Moment(NamedTuple):
    """boot: names a start of the machine. since_boot, elapsed: milliseconds. date: of the computer, for the reader."""

    boot: str
    since_boot: int
    elapsed: int
    date: int


def now(last: Moment | None) -> Moment:
    """This moment; `elapsed` goes on from that of the last row, by what the machine's own counter says has passed."""
    boot, since_boot = _counter()
    date = time.time_ns() // 1_000_000
    if last is None:
        return Moment(boot, since_boot, 0, date)
    passed = since_boot - last.since_boot if boot == last.boot else since_boot
    return Moment(boot, since_boot, last.elapsed + max(0, passed), date)


def _counter() -> tuple[str, int]:
    """What names this start of the machine, and milliseconds since then, sleep included; nobody can set it."""
    if hasattr(time, "CLOCK_BOOTTIME") and _BOOT_ID.exists():
        return _BOOT_ID.read_text("ascii").strip(), time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return _PROCESS, (time.monotonic_ns() - _STARTED) // 1_000_000
