"""Repeated requests: one key, one inference, so that a client that retries does not spend any budget again."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from airpool._support.errors import AirpoolError
from airpool_runtime.server import InferenceResult, Server, new_id

KEPT, KEPT_SECONDS, LONGEST_KEY = 10_000, 3600.0, 255
MOST_WAITING = 100  # inferences, over HTTP and over gRPC each


class BusyError(AirpoolError):
    """Too many inferences are waiting."""


class ReusedKeyError(AirpoolError, ValueError):
    """A key that came before with another request."""


class StartedInference(NamedTuple):
    id: str
    task: asyncio.Task[InferenceResult]


@dataclass(frozen=True)
class _Entry:
    request: bytes
    until: float
    started: StartedInference


class Inferences:
    """Inferences that clients of a server ask for, of which 100 may wait. waiting: by id.

    Each is a task of its own: it goes on when the client hangs up, for the devices have paid. It is kept by the key of
    its request for an hour, at most 10,000: the oldest is forgotten first. A result that spent nothing is forgotten at
    once: its repetition is a new attempt. A restart forgets all.
    """

    def __init__(self, server: Server, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._server, self._clock = server, clock
        self.waiting = dict[str, asyncio.Task[InferenceResult]]()
        self._entries = OrderedDict[tuple[str, str], _Entry]()

    def started(self, caller: str, key: str | None, request: bytes) -> StartedInference:
        """The inference of this key, running or done, or a new one. key: None is never repeated.

        caller: keys of different callers are different. request: the same key with another one is a ReusedKeyError.
        """
        if key is None:
            return self._start()
        if not 1 <= len(key) <= LONGEST_KEY or not key.isascii() or not key.isprintable():
            raise ValueError(f"an idempotency key must have 1 to {LONGEST_KEY} printable ASCII characters")
        self._forget_old()
        at = (caller, key)
        if (known := self._entries.get(at)) is not None:
            if known.request != request:
                raise ReusedKeyError("this idempotency key came before with another request: take a new one")
            return known.started
        made = self._start()
        entry = self._entries[at] = _Entry(request, self._clock() + KEPT_SECONDS, made)
        made.task.add_done_callback(lambda task: self._done(at, entry, task))
        return made

    def _start(self) -> StartedInference:
        if len(self.waiting) >= MOST_WAITING:
            raise BusyError(f"{MOST_WAITING} inferences are waiting")
        id = new_id()
        task = self.waiting[id] = asyncio.create_task(self._server.infer(id))
        task.add_done_callback(lambda _: self.waiting.pop(id, None))
        return StartedInference(id, task)

    def _done(self, at: tuple[str, str], entry: _Entry, task: asyncio.Task[InferenceResult]) -> None:
        unspent = not task.cancelled() and task.exception() is None and not task.result().spent
        if unspent and self._entries.get(at) is entry:
            del self._entries[at]

    def _forget_old(self) -> None:
        now = self._clock()
        while self._entries:
            oldest = next(iter(self._entries.values()))
            if oldest.until > now and len(self._entries) < KEPT:
                return
            self._entries.popitem(last=False)
