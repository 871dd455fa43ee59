"""One point measured, in this process or in a worker's.

A job is {"key", "parameters", "seed"}; its row has "results", "error" and "seconds" as well.
"""

import inspect
import os
import platform
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from airpool.sweep.cache import Row
from airpool.sweep.code import named, stamp_of, version_of
from airpool.sweep.points import plain

# What OpenMP (torch's too), OpenBLAS, MKL and Accelerate read when they are loaded.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
# Set for workers: a script that starts a sweep when it is merely imported must not start another one there.
MARK = "AIRPOOL_SWEEP_WORKER"
ENVIRONMENT = dict.fromkeys((*THREADS, MARK), "1")


def measure(job: Row, function: Callable[..., Any]) -> Row:
    """Calls the function with the parameters, and with a generator `rng` or the `seed` if it has such a parameter."""
    given, start = dict(job["parameters"]), time.perf_counter()
    try:
        wanted = inspect.signature(function).parameters.keys() - given.keys()
        if "rng" in wanted:
            import numpy as np

            given["rng"] = np.random.default_rng(job["seed"])
        if "seed" in wanted:
            given["seed"] = job["seed"]
        start = time.perf_counter()
        returned = function(**given)
        seconds = time.perf_counter() - start
        return job | {"results": _cells(returned, job["parameters"]), "error": None, "seconds": seconds}
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        message = " ".join(f"{type(error).__name__}: {error}".split()) + where
        return failed(job, message, time.perf_counter() - start)


def measure_by_name(job: Row, name: str, expected: str, identity: Callable[[str], str] = version_of) -> Row:
    """The same in another process, if the code there has the expected version, or stamp."""
    try:
        return measure(job, _function(name, expected, identity))
    except Exception as error:
        return failed(job, f"{type(error).__name__}: {error}")


@cache
def _function(name: str, expected: str, identity: Callable[[str], str]) -> Callable[..., Any]:
    if (here := identity(name)) != expected:
        raise RuntimeError(
            f"{name} is version {here} on {platform.node()}, but the sweep's is {expected}; "
            "its code or airpool was changed during the sweep: start it again"
        )
    return named(name)


def failed(job: Row, error: str, seconds: float = 0.0) -> Row:
    return job | {"results": None, "error": error, "seconds": seconds}


def _cells(returned: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A function's answer as cells of a row: a mapping's entries, or one column "value"."""
    cells = dict(returned) if isinstance(returned, Mapping) else {"value": returned}
    for name in cells:
        if name in parameters or name == "seed":
            raise ValueError(f"{name!r} is returned, but is a column already")
    return {name: plain(name, value) for name, value in cells.items()}


def serve(fd: int, name: str, stamp: str) -> None:
    """The life of a worker. It ends with the process that asks, in the middle of a point too."""
    pipe, jobs = Connection(fd), SimpleQueue[Row]()

    def listen() -> None:
        with suppress(EOFError, OSError):
            while True:
                jobs.put(pipe.recv())
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        pipe.send(measure_by_name(jobs.get(), name, stamp, stamp_of))
