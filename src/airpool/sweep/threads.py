"""One thread to a point, on every backend.

Sums over several threads round differently: the same seed would give another table with another number of processors.
Processes side by side use them better, besides.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# What OpenMP (torch's too), OpenBLAS, MKL and Accelerate read when they are loaded.
_NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
ONE_THREAD: dict[str, str] = dict.fromkeys(_NAMES, "1")


@contextmanager
def one_thread() -> Iterator[None]:
    """NumPy, SciPy and torch keep to one thread in this process; what was loaded before gets its threads back."""
    from threadpoolctl import threadpool_limits

    environment = {name: os.environ.get(name) for name in ONE_THREAD}
    threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else os.cpu_count() or 1
    os.environ.update(ONE_THREAD)
    try:
        with threadpool_limits(1):
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(1)
            yield
    finally:
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if "torch" in sys.modules:  # loaded before, or by a point
            sys.modules["torch"].set_num_threads(threads)
