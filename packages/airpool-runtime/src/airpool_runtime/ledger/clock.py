"""Monotonic ledger time, independent of the wall clock: time in use, never more than has passed.

Budgets for a window of time count by it. The computer's date may jump either way: it is written down, and can only make
windows longer: a ledger that is moved to a machine that has long been running does not gain all the time of that one.
Time that a machine was switched off does not count, so a window can only become longer. Where the system does not name
its starts, time counts from when a process has first seen the ledger: processes that take turns count no time twice.
A time namespace (`unshare --time`) shifts the counter: its offset is taken off, so that no window ends early.
"""

import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_OFFSETS, _OWN_TIME = Path("/proc/self/timens_offsets"), Path("/proc/self/ns")
# Where the system does not name its start, that of this process stands for it.
_OF_PROCESS = "process-"
_PROCESS, _STARTED = f"{_OF_PROCESS}{secrets.token_hex(8)}", time.monotonic_ns()


class Moment(NamedTuple):
    """boot: names a start of the machine. since_boot, elapsed: milliseconds. date: of the computer, for the reader."""

    boot: str
    since_boot: int
    elapsed: int
    date: int


def now(last: Moment | None, seen: Mapping[str, Moment] = MappingProxyType({})) -> Moment:
    """This moment; `elapsed` goes on from that of the last row, by what the machine's own counter says has passed.

    seen: an earlier moment of each start that has used this ledger, by its name. A start of the machine that is not
    among them came after the last row, so all its time has passed since, unless it is another machine's: then at most
    what has passed by the date. A process need not have begun after the last row.
    """
    boot, since_boot = _counter()
    date = time.time_ns() // 1_000_000
    if last is None:
        return Moment(boot, since_boot, 0, date)
    before = last if boot == last.boot else seen.get(boot)
    if before is not None:
        elapsed = before.elapsed + max(0, since_boot - before.since_boot)
    else:
        elapsed = last.elapsed + (0 if boot.startswith(_OF_PROCESS) else max(0, min(since_boot, date - last.date)))
    return Moment(boot, since_boot, max(elapsed, last.elapsed), date)


def _counter() -> tuple[str, int]:
    """Boot id of the machine and milliseconds since boot, sleep included; neither can be set."""
    offset = _offset_ns()
    if hasattr(time, "CLOCK_BOOTTIME") and _BOOT_ID.exists() and offset is not None:
        since = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - offset
        return _BOOT_ID.read_text("ascii").strip(), since // 1_000_000
    return _PROCESS, (time.monotonic_ns() - _STARTED) // 1_000_000


def _offset_ns() -> int | None:
    """Offset of this process's time namespace, which its owner chooses, to the time since boot; None where unknown."""
    if not _OFFSETS.exists():  # a system without time namespaces
        return 0
    try:
        if len({os.readlink(_OWN_TIME / name) for name in ("time", "time_for_children")}) > 1:
            return None  # the offsets are those of its children
        found = (line.split() for line in _OFFSETS.read_text("ascii").splitlines())
        return next(int(s) * 1_000_000_000 + int(ns) for clock, s, ns in found if clock in ("boottime", "7"))
    except (OSError, ValueError, StopIteration):
        return None
