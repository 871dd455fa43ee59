"""Long computations, one at a time, in a process of their own: the page stays quick, and a job can be ended.

A job is a function of a module: it takes `tell`, to which it gives its parts (plain dictionaries) as they come, and
what was asked. Whoever asked and hangs up ends it.
"""

import asyncio
import multiprocessing
import signal
from collections.abc import AsyncIterator, Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from airpool.web.asked import AskedError

Tell = Callable[[dict[str, Any]], None]
Job = Callable[..., None]
MOST_WAITING = 4
_END_SECONDS = 2.0


class Jobs:
    """The process that computes, started on first use and again after a job was ended."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._turn, self._waiting = asyncio.Lock(), 0

    async def run(self, job: Job, *given: Any) -> AsyncIterator[dict[str, Any]]:
        """The parts of a job, as they come. Says {"part": "waiting"} while another one runs."""
        if self._turn.locked():
            if self._waiting >= MOST_WAITING:
                raise AskedError(f"{MOST_WAITING} computations are waiting already: try again soon", status=429)
            yield {"part": "waiting"}
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        ended = False
        try:
            pipe = self._started()
            pipe.send((job, given))
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
            raise RuntimeError("the computation has ended before its result") from None
        finally:
            if not ended:
                self._end()
            self._turn.release()

    def _started(self) -> Connection:
        if self._process is None or not self._process.is_alive() or self._pipe is None:
            self._end()
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_work, args=(theirs,), daemon=True, name="airpool-page-jobs")
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
        """Ends the process, whatever it does."""
        self._end()


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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that has started it
    while True:
        try:
            job, given = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            job(lambda part: pipe.send(("part", part)), *given)
            pipe.send(("done", None))
        except BrokenPipeError:
            return
        except (ValueError, TypeError, OverflowError) as error:
            pipe.send(("refused", (str(error), getattr(error, "field", None))))
        except Exception as error:
            pipe.send(("failed", f"{type(error).__name__}: {error}"))
