"""A plain function over a grid of parameters, into a tidy table.

    >>> def area(width, height):
    ...     return {"area": width * height}
    >>> table = run(area, grid(width=[1, 2], height=[3, 4]))
    >>> table.columns["area"]
    [3, 4, 6, 8]

The function takes the parameters by name and returns a number, or a mapping of names to numbers (or texts, or lists of
either). A parameter `rng` or `seed` is passed in. Every point runs on one thread: the same table on every backend.
With a cache, a sweep resumes after an interruption, even a kill, and a larger grid measures only what is new; changed
code (see code.py) starts afresh. A failed point is reported, the others go on, and the next run tries it again. Points
run in this process, in a pool or on Ray (backends.py).
"""

import hashlib
import inspect
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

from airpool._support import files
from airpool._support.progress import Progress, silent
from airpool._support.table import Effort, Failure, Table
from airpool._support.version import machine, today
from airpool.evaluation.sweep import backends
from airpool.evaluation.sweep.code import name_of, version_of

__all__ = ["Backend", "Effort", "Failure", "Table", "Workers", "grid", "run"]

Backend = Literal["serial", "pool", "ray"]


@dataclass(frozen=True)
class Workers:
    """A backend and its size.

    count: processes of a pool, CPUs of a local Ray, or points at a time on a Ray cluster; None: all there are.
    address: of a Ray cluster; without one, Ray runs on this machine for as long as the sweep does.
    """

    backend: Backend = "serial"
    count: int | None = None
    address: str | None = None


def grid(**axes: Any) -> list[dict[str, Any]]:
    """Every combination of the values given for each name; the last name varies fastest.

    A value that is no list, tuple, range or array stands for itself. Any list of dictionaries is a grid too.

    >>> grid(devices=[4, 12], noise_std=0.05)
    [{'devices': 4, 'noise_std': 0.05}, {'devices': 12, 'noise_std': 0.05}]
    """
    for name, axis in axes.items():
        several = isinstance(axis, list | tuple | range) or getattr(axis, "shape", ())
        axes[name] = backends.plain(name, list(axis) if several else [axis])
        if not axes[name]:
            raise ValueError(f"{name} has no values: a grid without points")
    return [dict(zip(axes, combination, strict=True)) for combination in product(*axes.values())]


def run(
    function: Callable[..., Any],
    points: Iterable[Mapping[str, Any]],
    *,
    seed: int = 0,
    cache: Path | None = None,
    backend: Backend | Workers = "serial",
    progress: Progress = silent,
    command: str = "",
) -> Table:
    """The table of a function over points; cached points are not measured again.

    function: any for "serial" without a cache; otherwise one that can be imported by its name.
    backend: by name with its defaults, or `Workers`.
    progress: given the number of points to measure, then advanced by each.
    """
    workers = backend if isinstance(backend, Workers) else Workers(backend)
    _check(workers, seed)
    jobs = _jobs(points, seed)
    _check_parameters(function, [job["parameters"] for job in jobs])
    try:
        name = name_of(function)
    except ValueError:
        if cache is not None or workers.backend != "serial":
            raise
        name = ""
    version = version_of(name)
    path = cache and Path(cache, f"{re.sub(r'[^A-Za-z0-9_.]', '-', name)}-{version.rpartition('+')[2]}.jsonl")
    rows = {row["key"]: row for row in files.records(path) if not row["error"]} if path else {}
    todo = [job for job in jobs if job["key"] not in rows]
    start = time.perf_counter()
    if todo:
        measured = {
            "serial": backends.serial(todo, function),
            "pool": backends.pool(todo, name, version, workers.count),
            "ray": backends.ray(todo, name, version, workers.count, workers.address),
        }[workers.backend]
        keeping = files.appending(path) if path else nullcontext(lambda _: None)
        shown = progress("sweeping", len(todo))
        with keeping as keep, shown as advance, closing(measured):
            for row in measured:
                keep(row)
                rows[row["key"]] = row
                advance(1)
    work = sum(rows[job["key"]]["seconds"] for job in todo)
    effort = Effort(time.perf_counter() - start, work, len(todo), len(jobs) - len(todo))
    label = name or getattr(function, "__qualname__", repr(function))
    found = [rows[job["key"]] for job in jobs]
    about: dict[str, Any] = {"measured": today(), "machine": machine()} if todo else {}
    return Table.of(found, function=label, seed=seed, version=version, effort=effort, command=command, **about)


def _jobs(points: Iterable[Mapping[str, Any]], seed: int) -> list[backends.Row]:
    """A job for each point, each point once."""
    jobs: dict[str, backends.Row] = {}
    for point in points:
        parameters = {name: backends.plain(name, value) for name, value in point.items()}
        if "rng" in parameters:
            raise ValueError("'rng' cannot be a parameter: the sweep passes it in")
        for name, value in parameters.items():
            if _has_nan(value):
                raise ValueError(f"{name}={value} must be a number")
        own = seed_of(parameters, seed)
        key = _canonical([parameters, own])
        jobs[key] = {"key": key, "parameters": parameters, "seed": own}
    return list(jobs.values())


def _has_nan(value: Any) -> bool:
    return any(map(_has_nan, value)) if isinstance(value, list) else isinstance(value, float) and math.isnan(value)


def _canonical(value: Any) -> str:
    """One text per point, whatever the order of its parameters. 1 and 1.0 differ: a function may tell them apart."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def seed_of(point: Mapping[str, Any], seed: int) -> int:
    """Per-point seed, from the sweep's seed and the parameters alone; 1 and 1.0 share it. 53 bits, exact in JSON."""
    import numpy as np

    def number(text: str) -> float:
        return int(value) if (value := float(text)).is_integer() else value

    text = _canonical(json.loads(_canonical(point), parse_float=number))
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), "<u4")
    return int(np.random.SeedSequence([seed, *words.tolist()]).generate_state(1, np.uint64)[0] >> np.uint64(11))


def _check(given: Workers, seed: int) -> None:
    backend, workers, address = given.backend, given.count, given.address
    guard = "use backend='serial' there, and guard the script that starts it with if __name__ == '__main__'"
    nested = backends.MARK in os.environ
    rules = {
        f"backend={backend!r} must be one of {', '.join(get_args(Backend))}": backend in get_args(Backend),
        f"a sweep is started within another one's worker: {guard}": backend == "serial" or not nested,
        f"seed={seed!r} must be a whole number >= 0": type(seed) is int and seed >= 0,
        f"workers={workers} must be at least 1": workers is None or workers >= 1,
        f"workers={workers} needs backend='pool' or 'ray'": backend != "serial" or workers in (None, 1),
        f"address={address!r} needs backend='ray'": backend == "ray" or address is None,
    }
    if broken := [rule for rule, holds in rules.items() if not holds]:
        raise ValueError(broken[0])


def _check_parameters(function: Callable[..., Any], points: Iterable[Mapping[str, Any]]) -> None:
    """A misspelt name is an error now, and not a failure of every point."""
    signature = inspect.signature(function)
    passed = {name: None for name in ("rng", "seed") if name in signature.parameters}
    for point in points:
        try:
            signature.bind(**(passed | dict(point)))
        except TypeError as error:
            known = ", ".join(name for name in signature.parameters if name != "rng")
            name = getattr(function, "__name__", "the function")
            raise ValueError(f"{name}: {error}; its parameters are {known or 'none'}") from None
