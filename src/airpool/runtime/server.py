"""The server: announces inferences, estimates, decodes, classifies, reports. It does not know which medium it uses.

Of the devices it holds the sum of one slot at a time, and nothing else.
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from airpool._support.arrays import Floats
from airpool.account.guarantee import guarantee
from airpool.account.report import PrivacyReport, number
from airpool.models import stored
from airpool.models.codecs import codec as codecs
from airpool.models.layers import in_float64, softmax
from airpool.network import Network
from airpool.protocol import server as stations
from airpool.protocol.live import live_report
from airpool.radio.link import level, link_of
from airpool.runtime import logs, seeded, terms
from airpool.runtime.medium import DisconnectedError, ServerPort, Sum, UnreachedError, Withheld, medium_of

Status = Literal["answered", "no answer", "below quorum", "withheld", "failed"]
KEPT = 1000  # results that can be asked for again
DEADLINE_SECONDS = 20.0
_IN_FLIGHT = 16  # inferences at the medium: those of a turn, and the next


@dataclass(frozen=True, eq=False)
class ServerCodec:
    """The server's side of a codec at one level of signal and noise, and the names of the classes.

    decode: estimates ẑ (r,) to logits (L,), in float64. dimension: r. name: in messages.
    """

    decode: Callable[[Floats], Floats]
    classes: tuple[str, ...]
    dimension: int
    name: str = "own"

    def __post_init__(self) -> None:
        found = np.shape(self.decode(np.zeros(self.dimension)))
        if found != (len(self.classes),):
            raise ValueError(
                f"codec {self.name!r}: its server gives logits of shape {found}, must be ({len(self.classes)},)"
            )


@dataclass(frozen=True)
class Guarantee:
    """Largest ε and largest local ε of a device (no other trusted), and ε of the object; at δ, for one inference."""

    device: float
    local: float
    object: float
    delta: float
    neighbours: str

    @classmethod
    def of(cls, report: PrivacyReport) -> "Guarantee":
        local, net = float(np.max(report.epsilon_local)), report.network
        return cls(report.worst, local, report.epsilon_object, net.delta, net.neighbours)


@dataclass(frozen=True)
class InferenceResult:
    """Result of one inference.

    label: of the class, −1 if no device transmitted; None without an answer. devices: in the slot to its end.
    spent: whether it counts against the devices' budgets. note: says so where the noise was seeded.
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

    @property
    def note(self) -> str:
        return seeded.NOTE if self.simulated else ""

    def to_json(self) -> dict[str, Any]:
        promised = self.guarantee
        return {
            "id": self.id,
            "number": self.number,
            "status": self.status,
            "label": self.label,
            "name": self.name,
            "probabilities": list(self.probabilities),
            "devices": self.devices,
            "spent": self.spent,
            "seconds": self.seconds,
            "reason": self.reason,
            "simulated": self.simulated,
            "note": self.note,
            "guarantee": {
                "device": number(promised.device),
                "local": number(promised.local),
                "object": number(promised.object),
                "delta": promised.delta,
                "neighbours": promised.neighbours,
            },
        }


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
        self._simulated, self._deadline = simulated, deadline
        self._asked, self._gamma = terms.stated(network), link_of(network).gamma
        self._numbered, self._turn = 0, asyncio.Semaphore(_IN_FLIGHT)
        self._waiting, self._stopping = set[asyncio.Timeout](), False
        self.observers: list[Callable[[InferenceResult], None]] = []
        self._results: OrderedDict[str, InferenceResult] = OrderedDict()

    def result(self, id: str) -> InferenceResult | None:
        """One of the last results."""
        return self._results.get(id)

    async def infer(self, id: str | None = None) -> InferenceResult:
        """One inference; returns within the deadline, with an answer or the reason why there is none."""
        id, this, began = id or new_id(), self._numbered, time.perf_counter()
        self._numbered += 1
        announced = False
        try:
            async with asyncio.timeout(self._deadline) as limit:
                async with self._own_turn(limit):
                    announced = True  # or about to be: it counts as spent
                    got = await self.port.run_slot(id, this, self._asked)
        except TimeoutError:
            what = "no sum" if announced else "others were before it: no turn"
            why = f"{what} within {self._deadline:g} s"
            if self._stopping and not announced:
                why = "the server is stopping"
            found = self._without(id, this, "failed", why, spent=announced)
        except DisconnectedError as why:
            found = self._without(id, this, "failed", str(why), spent=not isinstance(why, UnreachedError))
        else:
            found = self._answered(id, this, got)
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

    def _answered(self, id: str, this: int, got: Sum | Withheld) -> InferenceResult:
        if isinstance(got, Withheld):
            status = "failed" if got.rejected else "withheld" if got.spent else "below quorum"
            return self._without(id, this, status, got.reason, spent=got.spent)
        if got.simulated != self._simulated:
            how = ("live", "simulated")
            why = f"a {how[got.simulated]} air answered a {how[not got.simulated]} server"
            return self._without(id, this, "failed", why, spent=True)
        net, fewest = self.network, self.network.devices.count - self.network.dropouts
        if not fewest <= got.devices <= net.devices.count:
            why = (
                f"a sum of {got.devices} devices, must be of {fewest} to {net.devices.count}: the air has another file"
            )
            return self._without(id, this, "failed", why, spent=True)
        if got.y.shape != (net.dimension,):
            why = f"a sum of {got.y.size} numbers, must be {net.dimension}: the air has another network file"
            return self._without(id, this, "failed", why, spent=True)
        with np.errstate(all="ignore"):
            logits = self.codec.decode(stations.estimate(got.y, self._gamma))
        if not np.all(np.isfinite(logits)):
            return self._without(id, this, "failed", "a sum that is too large or no number", spent=True)
        label = int(stations.labels(logits, np.array(got.carrier)))
        answered = label != stations.NO_ANSWER
        return InferenceResult(
            id,
            this,
            "answered" if answered else "no answer",
            0.0,
            True,
            self.guarantee,
            self._simulated,
            label,
            self.codec.classes[label] if answered else None,
            tuple(softmax(logits).tolist()) if answered else (),
            tuple(logits.tolist()),
            got.devices,
            "" if answered else "no device transmitted",
        )

    def _without(self, id: str, this: int, status: Status, reason: str, *, spent: bool) -> InferenceResult:
        return InferenceResult(id, this, status, 0.0, spent, self.guarantee, self._simulated, reason=reason)

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
    at = level(network, participation=held.participation(network, codec=codec))
    return ServerCodec(codecs.decoder(chosen, at), tuple(names) or held.classes, chosen.dimension, codec or chosen.kind)
