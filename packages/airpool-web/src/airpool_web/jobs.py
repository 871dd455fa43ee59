"""Long computations, one at a time, in a process of their own: the page stays quick, and a job can be ended.

A job is a function of a module: it takes `tell`, to which it gives its parts (plain dictionaries) as they come, and
what was asked. Whoever asked and hangs up ends it.
"""

import asyncio
import multiprocessing
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from anyio import to_thread

from airpool_web.asked import MISTAKES, AskedError

Tell = Callable[[dict[str, Any]], None]
Job = Callable[..., None]
MOST_WAITING = 4
_END_SECONDS = 2.0
_CLOSED = "the page is being closed"


class Jobs:
    """The process that computes, started on first use and again after a job was ended."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._turn, self._waiting, self._closed = asyncio.Lock(), 0, False

    async def run(self, job: Job, *given: Any) -> AsyncGenerator[dict[str, Any]]:
        """The parts of a job, as they come. Says {"part": "waiting"} while another one runs."""
        waits = self._turn.locked()
        if waits and self._waiting >= MOST_WAITING:
            raise AskedError(f"{MOST_WAITING} computations are waiting already: try again soon", status=429)
        self._waiting += 1
        try:
            if waits:
                yield {"part": "waiting"}
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        ended = False
        try:
            pipe = self._started()
            await to_thread.run_sync(pipe.send, (job, given))  # blocks until the process reads what is long
            while True:
                await _readable(pipe)
                kind, content = pipe.recv()
                if kind == "part":
                    yield content
                    continue
                ended = True
                if kind == "refused":
                    raise AskedError(*content[:1], field=content[1])
                if kind == "failed":
                    raise RuntimeError(content)
                return
        except (EOFError, OSError):
            if self._closed:
                raise AskedError(_CLOSED, status=503) from None
            raise RuntimeError("the computation has ended before its result") from None
        finally:
            if not ended:
                self._end()
            self._turn.release()

    def _started(self) -> Connection:
        if self._closed:
            raise AskedError(_CLOSED, status=503)
        if self._process is None or not self._process.is_alive() or self._pipe is None:
            self._end()
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_work, args=(theirs,), daemon=True, name="airpool-page-jobs")
            with _shielded():
                self._process.start()
            theirs.close()
        return self._pipe

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join(_END_SECONDS)
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def close(self) -> None:
        """Ends the process, whatever it does; no other one is started."""
        self._closed = True
        if self._turn.locked() and self._process is not None:
            self._process.kill()  # whoever reads its parts sees their end, and closes the pipe
        else:
            self._end()


@contextmanager
def _shielded() -> Iterator[None]:
    """Starts a process that never sees Ctrl-C, which is for the one that has started it."""
    resource_tracker.ensure_running()  # its start, within that of the first process, would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def _readable(pipe: Connection) -> None:
    loop, found = asyncio.get_running_loop(), asyncio.Event()
    if pipe.poll():
        return
    loop.add_reader(pipe.fileno(), found.set)
    try:
        await found.wait()
    finally:
        loop.remove_reader(pipe.fileno())


def _work(pipe: Connection) -> None:
    """Runs job after job until the pipe is closed."""
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            job, given = pipe.recv()
            pipe.send(_outcome(job, lambda part: pipe.send(("part", part)), given))


def _outcome(job: Job, tell: Tell, given: tuple[Any, ...]) -> tuple[str, Any]:
    """Runs a job; the last message about it."""
    try:
        job(tell, *given)
    except (BrokenPipeError, ConnectionResetError):
        raise  # the page is gone
    except MISTAKES as error:
        return "refused", (str(error), getattr(error, "field", None))
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"
    return "done", None
