"""What a sweep adds to its points: on a pool of processes, from the cache, and on Ray where it is installed."""

import logging
import os
import time
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from airpool._support import extras
from airpool_lab import sweep

from . import Row

POINTS, SECONDS, SMALL, WORKERS = 60, 0.1, 2_000, 2
MISSING = f"not installed: {extras.install('airpool-lab[ray]')}"


def busy(n: int, seconds: float) -> int:
    """Keeps a processor busy."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return n


def nothing(n: int) -> int:
    return n


def rows() -> list[Row]:
    return [*_pool(), *(_ray() if find_spec("ray") else [_row("Ray", None, "s", MISSING)])]


def _row(what: str, value: float | None, unit: str, note: str = "", limit: float | None = None) -> Row:
    return Row("sweep", what, value, unit, note, limit)


def _overhead(effort: sweep.Effort) -> float:
    """Seconds of a worker's time for each point measured, over and above the point itself."""
    return (effort.seconds * WORKERS - effort.work) / effort.measured


def _pool() -> list[Row]:
    points = sweep.grid(n=range(POINTS), seconds=SECONDS)
    start = time.perf_counter()
    effort = sweep.run(busy, points, backend=sweep.Workers("pool", WORKERS)).effort
    took = time.perf_counter() - start
    start = time.perf_counter()
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        list(pool.map(busy, range(POINTS), [SECONDS] * POINTS))
    plain = time.perf_counter() - start
    small = sweep.grid(n=range(SMALL))
    with TemporaryDirectory() as folder:
        here = Path(folder)
        each = _overhead(sweep.run(nothing, small, backend=sweep.Workers("pool", WORKERS), cache=here).effort)
        start = time.perf_counter()
        kept = sweep.run(nothing, small, cache=here).effort.cached
        read = time.perf_counter() - start
    ratio = took * WORKERS / effort.work
    return [
        Row(
            "sweep",
            f"{POINTS} points of {SECONDS:g} s, {WORKERS} workers",
            took,
            "s",
            "processes started and ended",
            rival=plain,
            beside="the map of ProcessPoolExecutor",
        ),
        _row("- relative to the points' own time / workers", ratio, "times", "in the same run", limit=1.3),
        _row("a point that does nothing, on the pool", each, "s", f"of a worker's time, {SMALL:,} of them, kept"),
        _row(f"{kept:,} points from the cache", read, "s"),
    ]


def _ray() -> list[Row]:
    """On a local cluster that is up already: starting it is measured by itself."""
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # keeps it to 127.0.0.1
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray  # pyright: ignore[reportMissingImports]

    start = time.perf_counter()
    ray.init(
        address="local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
    )
    try:
        begun = time.perf_counter() - start
        sweep.run(nothing, sweep.grid(n=range(50)), backend="ray")
        each = _overhead(sweep.run(nothing, sweep.grid(n=range(SMALL // 4)), backend="ray").effort)
        made = _overhead(sweep.run(busy, sweep.grid(n=range(POINTS), seconds=SECONDS), backend="ray").effort)
    finally:
        ray.shutdown()
    return [
        _row("Ray: a local cluster started", begun, "s", "once for a sweep; none for a cluster by its address"),
        _row("- a point that does nothing", each, "s", "of a worker's time"),
        _row(f"- {POINTS} points of {SECONDS:g} s: overhead of each", made, "s", "of a worker's time"),
    ]
