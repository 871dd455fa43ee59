"""The version, as text, stated here alone; every result on disk carries it, with the day and the machine.

>>> import airpool
>>> airpool.__version__ == __version__
True
"""

import os
import platform
from datetime import UTC, datetime

__version__ = "0.1.0"


def today() -> str:
    """The day, as 2026-11-16 (UTC)."""
    return datetime.now(UTC).date().isoformat()


def cores() -> int:
    """The number of processors that this process may use; of the machine, where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """The class of this machine: cores and architecture, no name."""
    return f"{cores()} CPU core{'' if cores() == 1 else 's'} ({platform.machine() or 'unknown architecture'})"
