"""A plain function over a grid of parameters, into a tidy table.

    >>> def area(width, height):
    ...     return {"area": width * height}
    >>> table = run(area, grid(width=[1, 2], height=[3, 4]))
    >>> table.columns["area"]
    [3, 4, 6, 8]

The function takes the parameters by name and returns a number, or a mapping of names to numbers (or texts, or lists of
either). If it has a parameter `rng` it is given a generator, if it has one called `seed`, the seed of that generator. A
point's seed follows from the sweep's seed and the point's own parameters, and every point runs on one thread: the table
is the same whichever backend runs it, and in whichever order.

With a cache, what is finished stays finished: a sweep that was killed goes on, and one that grew measures what is new.
A change of the code (see code.py) starts afresh. A point that fails is reported, the rest goes on, and it is tried
again next time.
"""

import inspect
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from . import cache as disk
from .code import name_of, version_of
from .points import Point, canonical, checked, grid, seed_of
from .table import Effort, Failure, Table
from .worker import MARK, Job, Outcome

__all__ = ["Backend", "Effort", "Failure", "Point", "Table", "grid", "run"]

Backend = Literal["serial", "pool", "ray"]
# A bar for so many steps: a context that gives the function which moves it on.
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


@contextmanager
def _quietly(what: str, total: int) -> Iterator[Callable[[int], None]]:
    yield lambda _: None


def run(
    function: Callable[..., Any],
    points: Iterable[Mapping[str, Any]],
    *,
    seed: int = 0,
    cache: Path | None = None,
    backend: Backend = "serial",
    workers: int | None = None,
    address: str | None = None,
    progress: Progress = _quietly,
    command: str = "",
) -> Table:
    """The table of a function over points; what the cache has is not measured again.

    function: any for "serial" without a cache; otherwise one that can be imported by its name.
    workers: processes of a pool, CPUs of a local Ray, or points at a time on a Ray cluster. All there are by default.
    address: of a Ray cluster; without one, Ray runs on this machine for as long as the sweep does.
    progress: told how many points are left to measure, then each as it is done.
    """
    _check(backend, seed, workers, address)
    points = checked(points)
    _check_parameters(function, points)
    name = _name(function, needed=cache is not None or backend != "serial")
    version = version_of(name or None)
    jobs = [_job(name, version, point, seed) for point in points]
    path = disk.file_of(Path(cache), name, version) if cache else None
    found = {key: record for key, record in disk.read(path).items() if not record["error"]} if path else {}
    todo = [job for job in jobs if job.key not in found]
    outcomes = {job.key: Outcome(job.key, found[job.key]["results"]) for job in jobs if job.key in found}
    effort = Effort(0.0, 0.0, 0.0, measured=len(todo), cached=len(jobs) - len(todo), workers=0)
    if todo:
        with disk.appending(path) if path else nullcontext(_forget) as keep, progress("sweeping", len(todo)) as advance:
            start = time.perf_counter()
            with _backend(backend, function, todo, name, version, workers, address) as running:
                ready = time.perf_counter()
                by_key = {job.key: job for job in todo}
                for outcome in running.outcomes:
                    keep(_record(by_key[outcome.key], outcome))
                    outcomes[outcome.key] = outcome
                    advance(1)
                done = time.perf_counter()
        work = sum(outcomes[job.key].seconds for job in todo)
        effort = replace(effort, startup=ready - start, seconds=done - ready, work=work, workers=running.workers)
    label = name or getattr(function, "__qualname__", repr(function))
    return _table(jobs, outcomes, function=label, seed=seed, version=version, effort=effort, command=command)


def _name(function: Callable[..., Any], *, needed: bool) -> str:
    try:
        return name_of(function)
    except ValueError:
        if needed:
            raise
        return ""


def _forget(_: disk.Record) -> None:
    pass


def _check(backend: str, seed: int, workers: int | None, address: str | None) -> None:
    if backend not in get_args(Backend):
        raise ValueError(f"backend={backend!r} must be one of {', '.join(get_args(Backend))}")
    if backend != "serial" and MARK in os.environ:
        raise ValueError(
            "a sweep is started within another one's worker: use backend='serial' there, and guard the script that "
            "starts it with if __name__ == '__main__'"
        )
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed={seed!r} must be a whole number >= 0")
    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers} must be at least 1")
    if backend == "serial" and workers not in (None, 1):
        raise ValueError(f"workers={workers} needs backend='pool' or 'ray'")
    if address is not None and backend != "ray":
        raise ValueError(f"address={address!r} needs backend='ray'")


def _check_parameters(function: Callable[..., Any], points: Sequence[Point]) -> None:
    """A misspelt name is an error now, and not a failure of every point."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    passed = {name: None for name in ("rng", "seed") if name in signature.parameters}
    for point in points:
        try:
            signature.bind(**(passed | point))
        except TypeError as error:
            known = ", ".join(name for name in signature.parameters if name != "rng")
            name = getattr(function, "__name__", "the function")
            raise ValueError(f"{name}: {error}; its parameters are {known or 'none'}") from None


def _job(name: str, version: str, point: Point, seed: int) -> Job:
    own = seed_of(point, seed)
    return Job(disk.key_of(name, version, canonical(point), own), point, own)


def _backend(
    backend: Backend,
    function: Callable[..., Any],
    jobs: Sequence[Job],
    name: str,
    version: str,
    workers: int | None,
    address: str | None,
) -> AbstractContextManager[Any]:
    # Loaded here: workers import this package too, and start none of their own.
    from . import backends, cluster

    if backend == "serial":
        return backends.serial(jobs, function)
    if backend == "pool":
        return backends.pool(jobs, name, workers=workers)
    return cluster.cluster(jobs, name, version, workers=workers, address=address)


def _record(job: Job, outcome: Outcome) -> disk.Record:
    return {
        "key": job.key,
        "parameters": job.parameters,
        "seed": job.seed,
        "results": outcome.results,
        "error": outcome.error,
        "seconds": outcome.seconds,
    }


def _table(jobs: Sequence[Job], outcomes: Mapping[str, Outcome], **about: Any) -> Table:
    made = [(job, results) for job in jobs if (results := outcomes[job.key].results) is not None]
    parameters = tuple(dict.fromkeys(name for job in jobs for name in job.parameters))
    returned = dict.fromkeys(name for _, results in made for name in results)
    columns = {name: [job.parameters.get(name) for job, _ in made] for name in parameters}
    columns["seed"] = [job.seed for job, _ in made]
    columns |= {name: [results.get(name) for _, results in made] for name in returned}
    failures = tuple(
        Failure(job.parameters, outcomes[job.key].error or "") for job in jobs if outcomes[job.key].results is None
    )
    return Table(columns, parameters, failures, **about)
