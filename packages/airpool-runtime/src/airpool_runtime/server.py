"""The server: announces inferences, estimates, decodes, classifies, reports. It does not know which medium it uses.

Of the devices it holds the sum of one slot at a time, and the mean over the slots of an inference; nothing else.
"""

import asyncio
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache

from airpool._support.arrays import Floats
from airpool.account.guarantee import guarantee
from airpool.models import stored
from airpool.models.codecs import codec as codecs
from airpool.models.layers import in_float64
from airpool.network import Network
from airpool.protocol.live import live_report
from airpool.radio.link import level, link_of
from airpool.runtime import logs, terms
from airpool.runtime.asking import OneInference
from airpool.runtime.course import SlotCourse
from airpool.runtime.medium import ServerPort, medium_of
from airpool.runtime.messages import DisconnectedError, Sum, UnreachedError
from airpool.runtime.results import Guarantee, InferenceResult, ServerCodec
from airpool.runtime.under_way import FIRST_SLOT, AskedSlot

KEPT = 1000  # results that can be asked for again
DEADLINE_SECONDS = 20.0
_IN_FLIGHT = 16  # inferences at the medium: those of a turn, and the next
_DECODERS = 256  # kept: one for each number of slots


def new_id() -> str:
    return secrets.token_hex(16)


class Server:
    """One network and one codec over a port. deadline: of an inference, in seconds, whatever the medium does."""

    def __init__(
        self,
        network: Network,
        codec: ServerCodec,
        port: ServerPort,
        *,
        simulated: bool = False,
        deadline: float = DEADLINE_SECONDS,
    ) -> None:
        medium_of(network)  # refuses a network that cannot run as processes
        if not 0 < deadline <= 3600:
            raise ValueError(f"deadline={deadline} must be > 0 and at most 3600")
        if codec.dimension != network.dimension:
            raise ValueError(
                f"the network has dimension={network.dimension}, the codec {codec.name!r} needs "
                f"dimension={codec.dimension}"
            )
        self.network, self.codec, self.port = network, codec, port
        self.guarantee = Guarantee.of(guarantee(network) if simulated else live_report(network))
        self.simulated, self._deadline = simulated, deadline
        self._asked, self._gamma = terms.stated(network), link_of(network).gamma
        self._numbered, self._turn = 0, asyncio.Semaphore(_IN_FLIGHT)
        self._waiting, self._stopping = set[asyncio.Timeout](), False
        self._ended = deque[str](maxlen=_IN_FLIGHT)  # of which the medium has yet to hear
        self._ends = 0  # inferences that have ended before their last slot
        self.observers: list[Callable[[InferenceResult], None]] = []
        self.slot_observers: list[Callable[[SlotCourse], None]] = []
        self._results: OrderedDict[str, InferenceResult] = OrderedDict()

    def result(self, id: str) -> InferenceResult | None:
        """One of the last results."""
        return self._results.get(id)

    async def infer(self, id: str | None = None) -> InferenceResult:
        """One inference; returns within the deadline, with an answer or the reason why there is none."""
        id, this, began = id or new_id(), self._numbered, time.perf_counter()
        self._numbered += 1
        inference, blank = OneInference(self.network, self.codec, self._gamma), self._blank(id, this)
        try:
            async with asyncio.timeout(self._deadline) as limit:
                async with self._own_turn(limit):
                    while not inference.over:
                        await self._ask(inference, id, this)
        except TimeoutError:
            what = "no sum" if inference.slots else "others were before it: no turn"
            why = f"{what} within {self._deadline:g} s"
            if self._stopping and not inference.slots:
                why = "the server is stopping"
            inference.stop("failed", why)
        except DisconnectedError as why:
            inference.slots -= isinstance(why, UnreachedError)
            inference.stop("failed", str(why))
        if 0 < inference.slots < self.network.slots.count:
            self._ended.append(id)
            self._ends += 1
        found = inference.result(blank)
        found = replace(found, seconds=round(time.perf_counter() - began, 6))
        logs.event("inference", id=id, number=this, status=found.status, devices=found.devices, reason=found.reason)
        self._keep(found)
        for observe in self.observers:
            observe(found)
        return found

    def stop(self) -> None:
        """Answers those that wait for their turn, and all that come later: nothing of theirs was announced."""
        self._stopping = True
        for limit in self._waiting:
            limit.reschedule(0.0)

    @asynccontextmanager
    async def _own_turn(self, limit: asyncio.Timeout) -> AsyncIterator[None]:
        self._waiting.add(limit)
        try:
            if self._stopping:
                limit.reschedule(0.0)
                await asyncio.sleep(self._deadline)
            await self._turn.acquire()
        finally:
            self._waiting.discard(limit)
        try:
            yield
        finally:
            self._turn.release()

    async def _ask(self, inference: OneInference, id: str, this: int) -> None:
        """Asks for the next slot of an inference. It counts as spent as soon as it may have been announced.

        Where too few were ready, and another inference has ended meanwhile, it asks again: what was reserved for that
        one may do for this.
        """
        inference.slots += 1
        while True:
            before, asked = self._ends, time.perf_counter()
            of = AskedSlot(inference.slots, tuple(self._ended))
            self._ended.clear()
            found = await self.port.run_slot(id, this, self._asked, *([] if of == FIRST_SLOT else [of]))
            if isinstance(found, Sum) or found.spent or found.rejected or self._ends == before:
                break
        waited = time.perf_counter() - asked
        inference.take(found, simulated=self.simulated)
        if found.course is not None:
            took = {"waited": waited, "answered": time.perf_counter() - asked}
            course = SlotCourse.of(found.course, (id, this, of.slot), **took)
            for observe in self.slot_observers:
                observe(course)

    def _blank(self, id: str, this: int) -> InferenceResult:
        return InferenceResult(id, this, "failed", 0.0, False, self.guarantee, self.simulated)

    def _keep(self, found: InferenceResult) -> None:
        self._results[found.id] = found
        while len(self._results) > KEPT:
            self._results.popitem(last=False)


def codec_of(model: str, network: Network, *, codec: str | None = None, names: Sequence[str] = ()) -> ServerCodec:
    """The server's side of a model's codec at the network's public level. names: of the classes, if not the model's."""
    held = stored.found(model)
    chosen = codecs.moved(held.codec(codec), in_float64)
    if network.dimension != chosen.dimension:
        raise ValueError(
            f"the network has dimension={network.dimension}, the codec {codec or chosen.kind!r} needs "
            f"dimension={chosen.dimension}"
        )
    at = level(network.one_slot, participation=held.participation(network, codec=codec))

    @lru_cache(maxsize=_DECODERS)
    def by_slots(slots: int) -> Callable[[Floats], Floats]:
        return codecs.decoder(chosen, at.of_mean(slots))

    classes = tuple(names) or held.classes
    return ServerCodec(by_slots(1), classes, chosen.dimension, codec or chosen.kind, by_slots)
