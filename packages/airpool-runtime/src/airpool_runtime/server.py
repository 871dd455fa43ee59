"""The server: announces inferences, estimates, decodes, classifies, reports. It does not know which medium it uses.

Of the devices it holds the sum of one slot at a time, and the mean over the slots of an inference; nothing else. The
step that adds a slot up is the simulator's (`protocol.slots.Asking`).
"""

import asyncio
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from airpool._support.arrays import Array, Floats
from airpool.account.guarantee import guarantee
from airpool.account.report import PrivacyReport, number
from airpool.models import stored
from airpool.models.codecs import codec as codecs
from airpool.models.layers import in_float64, softmax
from airpool.network import Claim, Network
from airpool.protocol import server as stations
from airpool.protocol.live import live_report
from airpool.protocol.slots import Asked, Asking, SlotEstimate
from airpool.radio.link import level, link_of
from airpool_runtime import logs, seeded, terms
from airpool_runtime.medium import ServerPort, medium_of
from airpool_runtime.messages import Course, DisconnectedError, Sum, UnreachedError, Withheld
from airpool_runtime.under_way import AskedSlot

Status = Literal["answered", "no answer", "below quorum", "withheld", "failed"]


@dataclass(frozen=True, eq=False)
class ServerCodec:
    """The server's side of a codec at one level of signal and noise, and the names of the classes.

    decode: estimates ẑ (r,) to logits (L,), in float64. dimension: r. name: in messages. by_slots: the same for the
    mean over n slots, whose noise is √n times smaller; None: decode serves for all.
    """

    decode: Callable[[Floats], Floats]
    classes: tuple[str, ...]
    dimension: int
    name: str = "own"
    by_slots: Callable[[int], Callable[[Floats], Floats]] | None = None

    def __post_init__(self) -> None:
        found = np.shape(self.decode(np.zeros(self.dimension)))
        if found != (len(self.classes),):
            raise ValueError(
                f"codec {self.name!r}: its server gives logits of shape {found}, must be ({len(self.classes)},)"
            )

    def decoder(self, slots: int) -> Callable[[Floats], Floats]:
        """Decodes the mean over so many slots."""
        return self.decode if slots == 1 or self.by_slots is None else self.by_slots(slots)


@dataclass(frozen=True)
class Guarantee:
    """Largest ε and largest local ε of a device (no other trusted), and ε of the object; at δ, for the server's claim.

    It is that of all slots of an inference, however few are used.
    """

    device: float
    local: float
    object: float
    delta: float
    neighbours: str

    @classmethod
    def of(cls, report: PrivacyReport) -> "Guarantee":
        local, claim = float(np.max(report.epsilon_local)), report.claim
        return cls(report.worst, local, report.epsilon_object, claim.delta, claim.neighbours)

    def to_json(self) -> dict[str, Any]:
        numbers = {name: number(getattr(self, name)) for name in ("device", "local", "object")}
        return {**numbers, "delta": self.delta, "neighbours": str(self.neighbours)}


@dataclass(frozen=True)
class InferenceResult:
    """Result of one inference.

    label: of the class, −1 if no device transmitted, or the server is not sure and abstains; None without an answer.
    devices: the fewest in any slot to its end. spent: whether it counts against the devices' budgets. slots: number
    used, of at most cap. sure: whether the server's rule is met. probability: of the likeliest class, by its posterior.
    note: says so where the noise was seeded.
    """

    id: str
    number: int
    status: Status
    seconds: float
    spent: bool
    guarantee: Guarantee
    simulated: bool = False
    label: int | None = None
    name: str | None = None
    probabilities: tuple[float, ...] = ()
    logits: tuple[float, ...] = ()
    devices: int = 0
    reason: str = ""
    slots: int = 0
    cap: int = 1
    sure: bool = False
    probability: float = 0.0

    @property
    def note(self) -> str:
        return seeded.NOTE if self.simulated else ""

    def to_json(self) -> dict[str, Any]:
        told = {**asdict(self), "note": self.note, "guarantee": self.guarantee.to_json()}
        del told["logits"]
        return told


_ONE = np.zeros(1, dtype=np.int64)


class OneInference:
    """slots: number that were announced, or may have been. over: no further slot is asked for."""

    def __init__(self, network: Network, codec: ServerCodec, gamma: float) -> None:
        self._network, self._codec, self._gamma = network, codec, gamma
        self._nothing = np.zeros((1, network.dimension))
        self._asking = Asking(network.slots, self._decoded, self._nothing)
        self.slots, self.over = 0, False
        self._devices, self._withheld, self._stopped = list[int](), "", ""
        self._failed: tuple[Status, str] | None = None

    def take(self, got: Sum | Withheld, *, simulated: bool) -> None:
        if isinstance(got, Withheld) and not got.spent:
            self.slots -= 1
            self.stop("failed" if got.rejected else "below quorum", got.reason)
            return
        if isinstance(got, Withheld):
            self._withheld = got.reason
            self._add(self._nothing, heard=False)
        elif why := self._objection(got, simulated):
            self._fail(why)
            return
        else:
            self._devices.append(got.devices)
            self._add(stations.estimate(got.y, self._gamma)[None], heard=got.carrier)
        self.over |= self._asking.pending.shape[0] == 0

    def stop(self, status: Status, reason: str) -> None:
        """Ends the inference before the server is sure; the reason is given with an answer too."""
        self.over, self._stopped = True, reason
        if not self._devices:
            self._failed = ("withheld", f"{self._withheld}; {reason}") if self._withheld else (status, reason)

    def result(self, blank: InferenceResult) -> InferenceResult:
        """A blank result, filled in once the inference is over."""
        told = replace(blank, slots=self.slots, cap=self._network.slots.count, spent=self.slots > 0)
        if self._failed is not None:
            return replace(told, status=self._failed[0], reason=self._failed[1])
        if not self._devices:
            return replace(told, status="withheld", reason=self._withheld)
        asked = self._asking.asked
        label, logits = int(asked.labels(abstain=self._network.slots.abstain)[0]), tuple(asked.logits[0].tolist())
        told = replace(told, label=label, logits=logits, devices=min(self._devices))
        told = replace(told, sure=bool(asked.sure[0]), probability=float(asked.probability[0]))
        if label == stations.NO_ANSWER:
            return replace(told, status="no answer", reason=self._without(asked))
        name, all_of_them = self._codec.classes[label], tuple(softmax(asked.logits[0]).tolist())
        why = self._stopped and f"not sure: {self._stopped}"
        return replace(told, status="answered", name=name, probabilities=all_of_them, reason=why)

    def _fail(self, reason: str) -> None:
        self.over = True
        self._failed = ("failed", reason)

    def _without(self, asked: Asked) -> str:
        if not asked.any_signal[0]:
            return "no device transmitted"
        return f"not sure: {self._stopped}" if self._stopped else "not sure"

    def _add(self, estimate: Floats, *, heard: bool) -> None:
        with np.errstate(all="ignore"):
            self._asking.take(_ONE, SlotEstimate(estimate, np.array([heard]), np.zeros(1)))
            logits = self._asking.asked.logits
        if not np.all(np.isfinite(logits)):
            self._fail("a sum that is too large or no number")

    def _decoded(self, mean: Array, slots: int, which: Array) -> Array:
        return self._codec.decoder(slots)(mean[0])[None]

    def _objection(self, got: Sum, simulated: bool) -> str | None:
        """The reason why a sum cannot be one of this network; None where it can."""
        if got.simulated != simulated:
            how = ("live", "simulated")
            return f"a {how[got.simulated]} air answered a {how[not got.simulated]} server"
        net, fewest, most = self._network, self._network.survivors, self._network.devices.count
        if not fewest <= got.devices <= most:
            return f"a sum of {got.devices} devices, must be of {fewest} to {most}: the air has another file"
        if got.y.shape != (net.dimension,):
            return f"a sum of {got.y.size} numbers, must be {net.dimension}: the air has another network file"
        return None


KEPT = 1000  # results that can be asked for again
DEADLINE_SECONDS = 20.0
_IN_FLIGHT = 16  # inferences at the medium: those of a turn, and the next
_DECODERS = 256  # kept: one for each number of slots


def new_id() -> str:
    return secrets.token_hex(16)


class SlotCourse(NamedTuple):
    """The course of a slot as its server has it. marks: seconds since the server asked, by name, in their order.

    asked, answered: by the server's clock. Those in between are the hub's, moved by half of what the way there and
    back took: no clocks need to agree.
    """

    id: str
    number: int
    slot: int
    marks: dict[str, float]

    @classmethod
    def of(cls, found: Course, id: str, number: int, slot: int, *, waited: float, answered: float) -> "SlotCourse":
        """waited: for the hub. answered: since the server asked."""
        way = max(0.0, (waited - found.summed) / 2)
        between = {name: round(way + seconds, 6) for name, seconds in found._asdict().items() if seconds}
        return cls(id, number, slot, {"asked": 0.0, **between, "answered": round(answered, 6)})


class Server:
    """One network and one codec over a port.

    claim: that the stated guarantee is of, with live noise unless it is simulated. deadline: of an inference, in
    seconds, whatever the medium does.
    """

    def __init__(
        self,
        network: Network,
        codec: ServerCodec,
        port: ServerPort,
        *,
        claim: Claim = Claim(),
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
        self.guarantee = Guarantee.of(guarantee(network, claim) if simulated else live_report(network, claim))
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
        return self._results.get(id)

    async def infer(self, id: str | None = None) -> InferenceResult:
        """One inference; returns within the deadline, with an answer or the reason why there is none."""
        id, this, began = id or new_id(), self._numbered, time.perf_counter()
        self._numbered += 1
        inference = OneInference(self.network, self.codec, self._gamma)
        blank = InferenceResult(id, this, "failed", 0.0, False, self.guarantee, self.simulated)
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
        self._results[id] = found
        while len(self._results) > KEPT:
            self._results.popitem(last=False)
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
            found = await self.port.run_slot(id, this, self._asked, of)
            if isinstance(found, Sum) or found.spent or found.rejected or self._ends == before:
                break
        waited = time.perf_counter() - asked
        inference.take(found, simulated=self.simulated)
        if found.course is not None:
            answered = time.perf_counter() - asked
            course = SlotCourse.of(found.course, id, this, of.slot, waited=waited, answered=answered)
            for observe in self.slot_observers:
                observe(course)


def codec_of(model: str, network: Network, *, codec: str | None = None) -> ServerCodec:
    """The server's side of a model's codec at the network's public level."""
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

    return ServerCodec(by_slots(1), held.classes, chosen.dimension, codec or chosen.kind, by_slots)
