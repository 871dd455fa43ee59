"""Jobs in, rows out as they are done: in this process, in processes of its own, or on Ray (extra `ray`).

A job is {"key", "parameters", "seed"}; its row has "results", "error" and "seconds" as well.
"""

import inspect
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from airpool.sweep.code import HOME, local_modules, named, version_of
from airpool.sweep.points import Row, plain

# What OpenMP (torch's too), OpenBLAS, MKL and Accelerate read when they are loaded.
_THREADS: dict[str, str] = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
# Set for workers: a script that starts a sweep when it is merely imported must not start another one there.
MARK = "AIRPOOL_SWEEP_WORKER"
_WORKER = _THREADS | {MARK: "1"}
# How many jobs at a time, and their rows.
Running = tuple[int, Iterator[Row]]


def measure(job: Row, found: Callable[[], Callable[..., Any]]) -> Row:
    """The row of a job: calls the function found, with a generator `rng` or the `seed` if it takes one."""
    given, start = dict(job["parameters"]), time.perf_counter()
    try:
        function = found()
        wanted = inspect.signature(function).parameters.keys() - given.keys()
        if "rng" in wanted:
            import numpy as np

            given["rng"] = np.random.default_rng(job["seed"])
        if "seed" in wanted:
            given["seed"] = job["seed"]
        start = time.perf_counter()
        returned = function(**given)
        seconds = time.perf_counter() - start
        cells = dict(returned) if isinstance(returned, Mapping) else {"value": returned}
        if again := cells.keys() & {*job["parameters"], "seed"}:
            raise ValueError(f"{again.pop()!r} is returned, but is a column already")
        return job | {"results": {k: plain(k, cell) for k, cell in cells.items()}, "error": None, "seconds": seconds}
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        return _failed(job, _in_words(error) + where, time.perf_counter() - start)


def _failed(job: Row, error: str, seconds: float = 0.0) -> Row:
    return job | {"results": None, "error": error, "seconds": seconds}


def _in_words(error: BaseException, width: int = 10**6) -> str:
    return textwrap.shorten(f"{type(error).__name__}: {error}", width, placeholder=" ...")


def measure_by_name(job: Row, name: str, version: str) -> Row:
    """The same in another process, if the code there has this version."""
    return measure(job, lambda: _function(name, version))


@cache
def _function(name: str, version: str) -> Callable[..., Any]:
    if (here := version_of(name)) != version:
        changed = "its code or airpool was changed during the sweep: start it again"
        raise RuntimeError(f"{name} is version {here} in a worker, but the sweep's is {version}; {changed}")
    return named(name)


@contextmanager
def serial(jobs: Sequence[Row], function: Callable[..., Any]) -> Iterator[Running]:
    """On one thread, as in a worker: sums over several threads round differently."""
    from threadpoolctl import threadpool_limits

    before = {name: os.environ[name] for name in _THREADS if name in os.environ}
    threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else os.cpu_count() or 1
    os.environ.update(_THREADS)
    try:
        with threadpool_limits(1):
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(1)
            yield 1, (measure(job, lambda: function) for job in jobs)
    finally:
        for name in _THREADS:
            os.environ.pop(name)
        os.environ.update(before)
        if "torch" in sys.modules:  # loaded before, or by a point
            sys.modules["torch"].set_num_threads(threads)


@contextmanager
def _waited_for(
    measured: Callable[[Row], Row], jobs: Sequence[Row], at_a_time: int, stop: Callable[[], Any]
) -> Iterator[Iterator[Row]]:
    """The rows of a function that waits for a worker elsewhere. stop: ends the workers."""
    with ThreadPoolExecutor(at_a_time) as threads:
        try:
            yield (future.result() for future in as_completed([threads.submit(measured, job) for job in jobs]))
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            stop()


@contextmanager
def pool(jobs: Sequence[Row], name: str, version: str, *, workers: int | None) -> Iterator[Running]:
    """A process per worker, which has one job at a time: if it dies, that job is lost and no other."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(workers or processors, len(jobs))
    own, processes = threading.local(), list[subprocess.Popen[bytes]]()
    lifeline, ours = os.pipe()  # workers end when our end is closed, by us or by our own death

    def start() -> None:
        """A fresh process that imports what this one would. It prints to stderr, and Ctrl-C is not for it."""
        own.pipe, theirs = Pipe()
        with theirs:
            call = f"from airpool.sweep.backends import serve; serve({theirs.fileno()}, {name!r}, {version!r})"
            own.process = subprocess.Popen(
                [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path}; {call}"],
                env=os.environ | _WORKER,
                stdin=lifeline,
                stdout=2,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        processes.append(own.process)

    def measured(job: Row) -> Row:
        if not hasattr(own, "pipe"):
            start()
        try:
            own.pipe.send(job)
            return own.pipe.recv()
        except (EOFError, OSError):
            del own.pipe
        if (status := own.process.wait()) >= 0:
            return _failed(job, f"its process ended, with status {status}")
        hint = ", perhaps for lack of memory" if status == -signal.SIGKILL else ""
        return _failed(job, f"its process was killed by {signal.Signals(-status).name}{hint}")

    try:
        with _waited_for(measured, jobs, workers, lambda: os.close(ours)) as rows:
            yield workers, rows
    finally:
        os.close(lifeline)
        for process in processes:
            process.wait()


def serve(fd: int, name: str, version: str) -> None:
    """A worker's life. It ends with its lifeline, in the middle of a point too."""
    threading.Thread(target=lambda: os._exit(len(os.read(0, 1))), daemon=True).start()
    pipe = Connection(fd)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(measure_by_name(pipe.recv(), name, version))


@contextmanager
def ray(jobs: Sequence[Row], name: str, version: str, *, workers: int | None, address: str | None) -> Iterator[Running]:
    """One task a point, on one CPU. A lost process or node is tried again twice, what the function raises is final.

    A connection that the caller has made is used and left as it is; airpool and the function must be importable there.
    """
    ray, mine = _connected(name, workers, address)
    cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
    kept = {each: os.environ[each] for each in os.environ.keys() & {"ONEDNN_MAX_CPU_ISA"}}
    task = ray.remote(num_cpus=1, max_retries=2, runtime_env={"env_vars": _WORKER | kept})(measure_by_name)
    running: set[Any] = set()

    def measured(job: Row) -> Row:
        running.add(reference := task.remote(job, name, version))
        try:
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            return _failed(job, _in_words(error, 240))
        finally:
            running.discard(reference)

    def stop() -> None:
        for reference in list(running):
            ray.cancel(reference, force=True)

    try:
        with _waited_for(measured, jobs, workers or 2 * cpus, stop) as rows:
            yield min(workers or cpus, len(jobs)), rows
    finally:
        if mine:
            ray.shutdown()


def _connected(function: str, workers: int | None, address: str | None) -> tuple[Any, bool]:
    """Ray, and whether the connection is ours: to its own cluster on this machine, or to the one at an address."""
    # Ray sends no reports, does as its next release will instead of warning, and keeps to 127.0.0.1 if it is local.
    silent: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    for variable, value in (quiet if address else quiet | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}).items():
        os.environ.setdefault(variable, value)
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError("backend='ray' needs Ray: pip install 'airpool[ray]'") from None
    if ray.is_initialized():
        return ray, False
    if address is None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        small = {"include_dashboard": False, "object_store_memory": 128 * 2**20}
        ray.init("local", num_cpus=workers, runtime_env={"env_vars": {"PYTHONPATH": path}}, **small, **silent)
        return ray, True
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdigit():  # Ray itself would wait for many minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        modules = [str(place) for place in (HOME, *local_modules(function))]
        ray.init(address, runtime_env={"py_modules": modules}, **silent)
    except Exception as error:
        raise ConnectionError(f"no Ray cluster can be used at {address}: {_in_words(error, 240)}") from error
    return ray, True
