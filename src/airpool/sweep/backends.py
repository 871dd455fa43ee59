"""Jobs in, rows out as they are done: in this process, in processes of its own, or on Ray (extra `ray`)."""

import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from airpool.sweep.cache import Row
from airpool.sweep.code import HOME, local_modules, stamp_of
from airpool.sweep.worker import ENVIRONMENT, THREADS, failed, measure, measure_by_name

# How many jobs at a time, and their rows.
Running = tuple[int, Iterator[Row]]
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


@contextmanager
def serial(jobs: Sequence[Row], function: Callable[..., Any]) -> Iterator[Running]:
    """On one thread, as in a worker: sums over several round differently. What was loaded gets its threads back."""
    from threadpoolctl import threadpool_limits

    before = {name: os.environ.get(name) for name in THREADS}
    threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else os.cpu_count() or 1
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        with threadpool_limits(1):
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(1)
            yield 1, (measure(job, function) for job in jobs)
    finally:
        for name, value in before.items():
            del os.environ[name]
            os.environ.update({} if value is None else {name: value})
        if "torch" in sys.modules:  # loaded before, or by a point
            sys.modules["torch"].set_num_threads(threads)


@contextmanager
def pool(jobs: Sequence[Row], name: str, *, workers: int | None) -> Iterator[Running]:
    """A process per worker, which has one job at a time: if it dies, that job is lost and no other."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(workers or processors, len(jobs))
    idle: list[tuple[subprocess.Popen[bytes], Connection]] = []
    busy: dict[Any, tuple[subprocess.Popen[bytes], Row]] = {}

    todo, stamp = iter(jobs), stamp_of(name)

    def fill() -> None:
        while len(busy) < workers and (job := next(todo, None)) is not None:
            process, pipe = idle.pop() if idle else _started(name, stamp)
            busy[pipe] = process, job
            with suppress(OSError):  # it is dead, as its answer will show
                pipe.send(job)

    def rows() -> Iterator[Row]:
        fill()
        while busy:
            ready: list[Any] = wait(list(busy))
            for pipe in ready:
                process, job = busy[pipe]
                try:
                    row = pipe.recv()
                    idle.append((process, pipe))
                except (EOFError, OSError):
                    row = failed(job, _ending(process.wait()))
                del busy[pipe]
                fill()  # before whoever reads the row takes time
                yield row

    try:
        yield workers, rows()
    finally:
        for process, _ in (*idle, *busy.values()):
            process.kill()
            process.wait()


def _started(name: str, stamp: str) -> "tuple[subprocess.Popen[bytes], Connection]":
    """A fresh process, since the caller may have threads, that finds what this one finds. It prints to stderr."""
    ours, theirs = Pipe()
    with theirs:
        call = f"from airpool.sweep.worker import serve; serve({theirs.fileno()}, {name!r}, {stamp!r})"
        process = subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path}; {call}"],
            env=os.environ | ENVIRONMENT,
            stdout=2,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C is for the process that asks
        )
    return process, ours


def _ending(status: int) -> str:
    if status >= 0:
        return f"its process ended, with status {status}"
    hint = ", perhaps for lack of memory" if status == -signal.SIGKILL else ""
    return f"its process was killed by {signal.Signals(-status).name}{hint}"


@contextmanager
def ray(jobs: Sequence[Row], name: str, version: str, *, workers: int | None, address: str | None) -> Iterator[Running]:
    """One task a point, on one CPU. A lost process or node is tried again twice, what the function raises is final.

    A connection that the caller has made is used and left as it is; airpool and the function must be importable there.
    """
    ray = _loaded(local=address is None)
    mine = not ray.is_initialized()
    if mine and address is not None:
        _connect(ray, name, address)
    elif mine:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            object_store_memory=128 * 2**20,  # rows are small
            runtime_env={"env_vars": {"PYTHONPATH": path}},
            **_QUIET,
        )
    cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
    environment = ENVIRONMENT | {each: os.environ[each] for each in ("ONEDNN_MAX_CPU_ISA",) if each in os.environ}
    task = ray.remote(num_cpus=1, max_retries=2, runtime_env={"env_vars": environment})(measure_by_name)
    waiting: dict[Any, Row] = {}

    def rows() -> Iterator[Row]:
        todo = iter(jobs)
        for _ in jobs:
            while len(waiting) < (workers or 2 * cpus) and (job := next(todo, None)) is not None:
                waiting[task.remote(job, name, version)] = job
            (ready, *_), _ = ray.wait(list(waiting))
            job = waiting.pop(ready)
            try:
                row = ray.get(ready)
            except ray.exceptions.RayError as error:
                row = failed(job, _in_short(error))
            yield row

    try:
        yield min(workers or cpus, len(jobs)), rows()
    finally:
        for reference in waiting:
            ray.cancel(reference)
        if mine:
            ray.shutdown()


def _loaded(*, local: bool) -> Any:
    # Ray sends no reports, does as its next release will instead of warning, and keeps to 127.0.0.1 if it is local.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if local:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError("backend='ray' needs Ray: pip install 'airpool[ray]'") from None
    return ray


def _connect(ray: Any, function: str, address: str) -> None:
    """Sends airpool and the function's files along."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    modules = [str(place) for place in (HOME, *local_modules(function))]
    try:
        if colon and port.isdigit():  # Ray itself would wait for many minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, runtime_env={"py_modules": modules}, **_QUIET)
    except Exception as error:
        raise ConnectionError(f"no Ray cluster can be used at {address}: {_in_short(error)}") from error


def _in_short(error: Exception) -> str:
    """Ray's own errors; some go on for pages."""
    return textwrap.shorten(f"{type(error).__name__}: {error}", 240, placeholder=" ...")
