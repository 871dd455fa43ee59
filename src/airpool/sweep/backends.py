"""Jobs in, outcomes out as they are done: in this process, or in processes of its own. Ray is in cluster.py."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from .code import stamp_of
from .threads import ONE_THREAD, one_thread
from .worker import MARK, Job, Outcome, measure


@dataclass(frozen=True)
class Running:
    """A backend at work: how many points at a time, and what came of each, as they are done."""

    workers: int
    outcomes: Iterator[Outcome]


@contextmanager
def serial(jobs: Sequence[Job], function: Callable[..., Any]) -> Iterator[Running]:
    with one_thread():
        yield Running(1, (measure(job, function) for job in jobs))


@contextmanager
def pool(jobs: Sequence[Job], name: str, *, workers: int | None) -> Iterator[Running]:
    """As many processes as workers, or as processors, each with a thread here that feeds it.

    Fresh ones, not forks: the caller may have threads, such as torch's. Not multiprocessing's either: a point that
    kills its process is known and lost alone, and nothing of the calling program is imported again.
    """
    workers = min(workers or _processors(), len(jobs))
    todo: SimpleQueue[Job | None] = SimpleQueue()
    done: SimpleQueue[Outcome] = SimpleQueue()
    for job in (*jobs, *[None] * workers):
        todo.put(job)
    stop, running = threading.Event(), {}
    start = partial(_start, name, stamp_of(name))
    feeders = [threading.Thread(target=_feed, args=(start, todo, done, stop, running)) for _ in range(workers)]
    for feeder in feeders:
        feeder.start()
    try:
        yield Running(workers, (done.get() for _ in jobs))
    except BaseException:
        stop.set()
        _drain(todo)
        for process in list(running.values()):
            process.kill()
        raise
    finally:
        for _ in feeders:
            todo.put(None)
        for feeder in feeders:
            feeder.join()


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _feed(
    start: Callable[[], "subprocess.Popen[bytes]"],
    todo: SimpleQueue[Job | None],
    done: SimpleQueue[Outcome],
    stop: threading.Event,
    running: dict[int, "subprocess.Popen[bytes]"],
) -> None:
    """Keeps one process busy, and starts another when it dies."""
    process = None
    while (job := todo.get()) is not None:
        if process is None:
            process = running[threading.get_ident()] = start()
            if stop.is_set():
                process.kill()
        answer = _ask(process, job)
        if answer:
            done.put(Outcome(**json.loads(answer)))
        else:
            done.put(Outcome(job.key, None, _end(process)))
            process = None
    if process is not None:
        _end(process)


def _start(name: str, stamp: str) -> "subprocess.Popen[bytes]":
    """A worker that finds what this process finds."""
    code = f"import sys; sys.path[:] = {sys.path}; from airpool.sweep.worker import main; main({name!r}, {stamp!r})"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ONE_THREAD, MARK: "1"},
        start_new_session=True,  # Ctrl-C is for the process that asks
    )


def _ask(process: "subprocess.Popen[bytes]", job: Job) -> bytes:
    """The worker's answer; empty if it died."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
        process.stdin.flush()
    except OSError:
        return b""
    return process.stdout.readline()


def _end(process: "subprocess.Popen[bytes]") -> str:
    """Lets a worker go, and says how it ended."""
    try:
        process.__exit__(None, None, None)  # closes its pipes and waits
    except OSError:  # a pipe that nobody reads any more
        process.wait()
    status = process.returncode
    if status >= 0:
        return f"its process ended, with status {status}"
    hint = ", perhaps for lack of memory" if status == -signal.SIGKILL else ""
    return f"its process was killed by {signal.Signals(-status).name}{hint}"


def _drain(queue: SimpleQueue[Any]) -> None:
    try:
        while True:
            queue.get_nowait()
    except Empty:
        pass
