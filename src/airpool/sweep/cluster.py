"""Jobs on Ray (extra `ray`): on a cluster by its address, or on a local one that lives as long as the sweep."""

import logging
import os
import socket
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from .backends import Running
from .code import local_modules
from .threads import ONE_THREAD
from .worker import MARK, Job, Outcome, measure_by_name

_HOME = Path(__file__).resolve().parents[1]
# Times that a point is tried again when its process or node is lost; what the function raises is final.
_RETRIES = 2
_PATIENCE_S = 10


@contextmanager
def cluster(
    jobs: Sequence[Job], name: str, version: str, *, workers: int | None, address: str | None
) -> Iterator[Running]:
    """One task a point, on one CPU; no more of them at a time than keep the cluster busy.

    A cluster that was only connected to is left as it was, and so is a connection that the caller has made. On that one
    airpool and the function must be importable; otherwise both are sent along.
    """
    ray = _loaded(local=address is None)
    mine = not ray.is_initialized()
    if mine:
        _connect(ray, name, workers=workers, address=address)
    waiting: dict[Any, Job] = {}
    try:
        slots = min(workers or max(1, int(ray.cluster_resources().get("CPU", 1))), len(jobs))
        # The next point waits at hand, unless a cluster of others was to be asked for so many at a time.
        limit = slots if workers and not (mine and address is None) else 2 * slots
        task = ray.remote(num_cpus=1, max_retries=_RETRIES, runtime_env={"env_vars": _environment()})(measure_by_name)
        send = partial(task.remote, name=name, version=version)
        yield Running(slots, _outcomes(ray, send, jobs, waiting, limit))
    finally:
        if mine:
            ray.shutdown()
        else:
            for reference in waiting:
                ray.cancel(reference)


def _outcomes(
    ray: Any, send: Callable[[Job], Any], jobs: Sequence[Job], waiting: dict[Any, Job], limit: int
) -> Iterator[Outcome]:
    todo = iter(jobs)
    for _ in jobs:
        while len(waiting) < limit and (job := next(todo, None)) is not None:
            waiting[send(job)] = job
        (ready, *_), _ = ray.wait(list(waiting), num_returns=1)
        job = waiting.pop(ready)
        try:
            yield ray.get(ready)
        except ray.exceptions.RayError as error:
            yield Outcome(job.key, None, _in_short(error))


def _loaded(*, local: bool) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # The next release's behaviour, and no warning about it.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if local:
        # Without "clusters", which Ray has on Linux only, it keeps to 127.0.0.1. Read when it is loaded.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError("backend='ray' needs Ray: pip install 'airpool[ray]'") from None
    return ray


def _connect(ray: Any, function: str, *, workers: int | None, address: str | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            object_store_memory=128 * 2**20,  # outcomes are small
            runtime_env={"env_vars": {"PYTHONPATH": path}},
            **quiet,
        )
        return
    _check_reachable(address)
    modules = [str(place) for places in local_modules(function).values() for place in places]
    try:
        ray.init(address=address, runtime_env={"py_modules": [str(_HOME), *modules]}, **quiet)
    except Exception as error:
        raise ConnectionError(f"no Ray cluster can be used at {address}: {_in_short(error)}") from error


def _check_reachable(address: str) -> None:
    """Ray itself would wait for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):
        return  # "auto", and what only Ray can read
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"no Ray cluster can be used at {address}: {error}") from None


def _in_short(error: Exception) -> str:
    """Ray's own errors; some go on for pages."""
    return textwrap.shorten(f"{type(error).__name__}: {error}", 240, placeholder=" ...")


def _environment() -> dict[str, str]:
    given = {name: os.environ[name] for name in ("ONEDNN_MAX_CPU_ISA",) if name in os.environ}
    return {**ONE_THREAD, **given, MARK: "1"}
