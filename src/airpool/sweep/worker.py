"""One point measured, in whichever process; and a process that measures whatever it is sent.

A worker of the pool reads jobs and writes outcomes as lines of JSON. It loads what the function needs and nothing else,
so that it is ready in a tenth of a second.
"""

import inspect
import json
import os
import platform
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from .code import named, stamp_of, version_of
from .points import Point, is_cell, plain

# Set for workers: a script that starts a sweep when it is merely imported must not start another one there.
MARK = "AIRPOOL_SWEEP_WORKER"


@dataclass(frozen=True)
class Job:
    """A point to measure."""

    key: str
    parameters: Point
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What came of a job: results, or the text of an error."""

    key: str
    results: dict[str, Any] | None
    error: str | None = None
    seconds: float = 0.0


def measure(job: Job, function: Callable[..., Any]) -> Outcome:
    """Calls the function; whatever it raises becomes the outcome's error."""
    start = time.perf_counter()
    try:
        given = arguments(function, job.parameters, job.seed)
        start = time.perf_counter()
        results = function(**given)
        seconds = time.perf_counter() - start
        return Outcome(job.key, _cells(results, job.parameters), None, seconds)
    except (Exception, SystemExit) as error:
        return Outcome(job.key, None, described(error), time.perf_counter() - start)


def measure_by_name(job: Job, name: str, *, version: str = "", stamp: str = "") -> Outcome:
    """The same in another process, if its code is the sweep's: of this version, or untouched since this stamp."""
    try:
        function = _function(name, version, stamp)
    except Exception as error:
        return Outcome(job.key, None, described(error))
    return measure(job, function)


@cache
def _function(name: str, version: str, stamp: str) -> Callable[..., Any]:
    if version and (here := version_of(name)) != version:
        raise RuntimeError(f"{name} is version {here} on {platform.node()}, but the sweep's is {version}")
    if stamp and stamp_of(name) != stamp:
        raise RuntimeError(f"the code of {name}, or airpool, was changed during the sweep: start it again")
    return named(name)


def arguments(function: Callable[..., Any], parameters: Point, seed: int) -> dict[str, Any]:
    """The parameters, and what the function asks for by name: a generator `rng`, or the `seed` itself.

    A seed among the parameters is the function's, and no other is passed.
    """
    wanted = _names(function) - parameters.keys()
    given = dict(parameters)
    if "rng" in wanted:
        import numpy as np

        given["rng"] = np.random.default_rng(seed)
    if "seed" in wanted:
        given["seed"] = seed
    return given


def _names(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some built-in functions have none
        return set()


def _cells(results: Any, parameters: Point) -> dict[str, Any]:
    """A function's answer as cells of a row: a mapping's entries, or one column "value"."""
    found = plain(dict(results) if isinstance(results, Mapping) else {"value": results})
    for name, value in found.items():
        if name in parameters or name == "seed":
            raise ValueError(f"{name!r} is returned, but is a column already")
        if not is_cell(value):
            raise TypeError(f"{name}={value!r} is returned; a cell is a number, text, true, false or none, or a list")
    return found


def described(error: BaseException) -> str:
    """The error in one line, and where it was raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return " ".join(f"{type(error).__name__}: {error}".split()) + where


def main(name: str, stamp: str) -> None:
    """The worker's whole life."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a function prints must not come between the answers
    jobs: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    while True:
        outcome = measure_by_name(Job(**json.loads(jobs.get())), name, stamp=stamp)
        answers.write(json.dumps(asdict(outcome)) + "\n")
        answers.flush()


def _listen(jobs: SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        jobs.put(line)
    os._exit(0)  # whoever asked wants no more, or was killed: in the middle of a point, too
