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


def machine() -> str:
    """The class of this machine: cores and architecture, no name."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{cores} CPU core{'' if cores == 1 else 's'} ({platform.machine() or 'unknown architecture'})"
