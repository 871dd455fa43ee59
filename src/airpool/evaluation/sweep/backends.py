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
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import islice
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from airpool._support import files, plugins
from airpool._support.extras import load
from airpool._support.version import cores
from airpool.evaluation.sweep.code import HOME, local_modules, named, version_of

Row = dict[str, Any]
Rows = Generator[Row, None, None]
# What OpenMP (torch's too), OpenBLAS, MKL and Accelerate read when they are loaded.
_THREADS: dict[str, str] = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
# Set for workers: a script that starts a sweep when it is merely imported must not start another one there.
MARK = "AIRPOOL_SWEEP_WORKER"
_WORKER = _THREADS | {MARK: "1"}


def plain(name: str, value: Any) -> Any:
    """A parameter or a result as JSON returns it, so that its type does not depend on the backend."""
    try:
        if _is_cell(found := files.plain(value)):
            return found
    except (AttributeError, TypeError):
        pass
    raise ValueError(f"{name}={value!r} must be a number, text, true, false or none, or a list of those")


def _is_cell(value: Any) -> bool:
    return all(map(_is_cell, value)) if isinstance(value, list) else not isinstance(value, dict)


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
        return _failed(job, _message(error) + where, time.perf_counter() - start)


def _failed(job: Row, error: str, seconds: float = 0.0) -> Row:
    return job | {"results": None, "error": error, "seconds": seconds}


def _message(error: BaseException, width: int = 10**6) -> str:
    return textwrap.shorten(f"{type(error).__name__}: {error}", width, placeholder=" ...")


def measure_by_name(job: Row, name: str, version: str) -> Row:
    """The same in another process, if the code there has this version."""
    return measure(job, lambda: _function(name, version))


@cache
def _function(name: str, version: str) -> Callable[..., Any]:
    if (here := version_of(name)) != version:
        said = f"{name} is version {here} in a worker, but the sweep's is {version}"
        raise RuntimeError(f"{said}; its code or airpool was changed during the sweep: start it again")
    return named(name)


def serial(jobs: Sequence[Row], function: Callable[..., Any]) -> Rows:
    """Runs the jobs on one thread, as in a worker: sums over several threads round differently."""
    with suppress(ImportError):
        import_module("torch")  # only what is loaded can be limited
    with threadpool_limits(1):
        for job in jobs:
            yield measure(job, lambda: function)


def pool(jobs: Sequence[Row], name: str, version: str, workers: int | None) -> Rows:
    """A process per worker, which has one job at a time: if it dies, that job is lost and no other."""
    workers = workers or cores()
    processes: dict[Any, subprocess.Popen[bytes]] = {}  # by our end of the pipe to it
    left, busy = iter(jobs), dict[Any, Row]()
    lifeline, ours = os.pipe()  # workers end when our end is closed, by us or by our own death

    def start() -> Connection:
        """A fresh process that imports what this one would. It prints to stderr, and Ctrl-C is not for it."""
        pipe, theirs = Pipe()
        with theirs:
            own = [str(path) for path in plugins.loaded_files()]
            call = f"from {__name__} import serve; serve({theirs.fileno()}, {lifeline}, {name!r}, {version!r}, {own})"
            processes[pipe] = subprocess.Popen(
                [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path}; {call}"],
                env=os.environ | _WORKER,
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=[theirs.fileno(), lifeline],
                start_new_session=True,
            )
        return pipe

    try:
        while True:
            for job in islice(left, workers - len(busy)):
                pipe = next((pipe for pipe in processes if pipe not in busy), None) or start()
                busy[pipe] = job
                with suppress(OSError):  # a process that is gone is found below
                    pipe.send(job)
            if not busy:
                return
            ready: list[Any] = wait(list(busy))
            for pipe in ready:
                job = busy.pop(pipe)
                try:
                    row = pipe.recv()
                except (EOFError, OSError):
                    row = _failed(job, _end(processes.pop(pipe).wait()))
                yield row
    finally:
        os.close(ours)
        os.close(lifeline)
        for process in processes.values():
            process.wait()


def serve(fd: int, lifeline: int, name: str, version: str, plugin_files: Sequence[str] = ()) -> None:
    """A worker's life. It ends with its lifeline, in the middle of a point too."""
    threading.Thread(target=lambda: os._exit(len(os.read(lifeline, 1))), daemon=True).start()
    pipe = Connection(fd)
    for path in plugin_files:
        plugins.load_file(path)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(measure_by_name(pipe.recv(), name, version))


def _end(status: int) -> str:
    if status >= 0:
        return f"its process ended, with status {status}"
    hint = ", perhaps for lack of memory" if status == -signal.SIGKILL else ""
    return f"its process was killed by {signal.Signals(-status).name}{hint}"


def ray(jobs: Sequence[Row], name: str, version: str, workers: int | None, address: str | None) -> Rows:
    """One task a point, on one CPU. A lost process or node is tried again twice, what the function raises is final.

    A connection that the caller has made is used and left as it is; airpool and the function must be importable there.
    """
    # Ray sends no reports, does as its next release will instead of warning, and keeps to 127.0.0.1 if it is local.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address is None:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = load("ray", "backend='ray'")
    if mine := not ray.is_initialized():
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **_cluster(name, workers, address))
        except Exception as error:
            raise ConnectionError(f"no Ray cluster can be used at {address}: {_message(error, 240)}") from error
    kept = {each: os.environ[each] for each in os.environ.keys() & {"ONEDNN_MAX_CPU_ISA"}}  # a processor's remedy
    task = ray.remote(num_cpus=1, max_retries=2, runtime_env={"env_vars": _WORKER | kept})(measure_by_name)
    at_a_time = workers or 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
    left, busy = iter(jobs), dict[Any, Row]()
    try:
        while True:
            busy |= {task.remote(job, name, version): job for job in islice(left, at_a_time - len(busy))}
            if not busy:
                return
            (done,), _ = ray.wait(list(busy))
            job = busy.pop(done)
            try:
                row = ray.get(done)
            except ray.exceptions.RayError as error:
                row = _failed(job, _message(error, 240))
            yield row
    finally:
        for reference in busy:
            ray.cancel(reference, force=True)
        if mine:
            ray.shutdown()


def _cluster(function: str, workers: int | None, address: str | None) -> dict[str, Any]:
    """Options with which Ray is started: on this machine, or for the cluster at an address, which is sent the code."""
    if address is None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        small = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": 128 * 2**20}
        return {"address": "local", "runtime_env": {"env_vars": {"PYTHONPATH": path}}, **small}
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():  # Ray itself would wait for many minutes
        socket.create_connection((host, int(port)), timeout=10).close()
    modules = [str(place) for place in (HOME, *local_modules(function))]
    return {"address": address, "runtime_env": {"py_modules": modules}}
