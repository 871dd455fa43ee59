"""The hub between devices and server: turns of slots, for whoever is connected and ready. The same for every medium.

It is called the air where it stands in for the radio. In a turn it announces up to eight inferences together, takes the
devices' answers, and hands the server one sum for each. What is added up and rejected: radio_medium.py,
secure_medium.py.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from airpool._support.version import __version__
from airpool.network import Network
from airpool_runtime import logs, seeded, terms
from airpool_runtime.medium import MEDIA, HubSetup, PortOptions, Round, medium_of
from airpool_runtime.messages import (
    LONGEST_ID,
    AirStatus,
    Announcement,
    Balance,
    Course,
    Deliver,
    RejectedError,
    RoundMessage,
    RoundOver,
    SlotSignal,
    StatedTerms,
    Sum,
    WithdrawalReason,
    Withheld,
)
from airpool_runtime.standing import Connection, Standing
from airpool_runtime.under_way import FIRST_SLOT, AskedSlot, UnderWay, slot_name

PATIENCE_SECONDS = 1.0
_DEFAULT = PortOptions()
_MOST_WAITING, _LONGEST_WINDOW = 256, 3600.0
_HUNG_UP = "it hung up in a slot"


class Stopwatch:
    """Takes the times of one slot, from when it is made."""

    def __init__(self) -> None:
        self._zero, self._charge = time.perf_counter(), 0.0
        self._announced = self._last = 0.0

    @property
    def _now(self) -> float:
        return time.perf_counter() - self._zero

    def announced(self) -> None:
        self._announced = self._now

    def answered(self, charged: float = 0.0) -> None:
        """Notes an answer. charged: seconds that its device says; ignored where they cannot be true."""
        self._last = now = self._now
        if self._charge < charged <= now - self._announced:
            self._charge = charged

    def summed(self) -> Course:
        charged = self._announced + self._charge if self._charge else 0.0
        marks = (self._announced, charged, self._last, self._now)
        return Course(*(round(each, 6) for each in marks))


@dataclass(eq=False)
class Request:
    """A slot that the server has asked for. running: its round, once announced. watch: takes its times.

    left: who left its round, and how, where only the end decides whose fault that is.
    """

    id: str
    number: int
    inference: str
    slot: int
    done: "asyncio.Future[Sum | Withheld]"
    running: "asyncio.Task[None] | None" = None
    watch: Stopwatch = field(default_factory=Stopwatch)
    left: dict[int, str] = field(default_factory=dict)


def next_turn(
    waiting: Iterable[Request], ready: Mapping[int, Connection], most: int, under_way: UnderWay
) -> tuple[list[Request], list[int]]:
    """Requests of the next turn, at most `most`, and the devices that it is announced to.

    Later slots go before first ones. A first slot is announced to devices whose budgets cover all slots of its
    inference beside what is left of those under way.
    """
    later = [each for each in waiting if each.slot > 1]
    first = [each for each in waiting if each.slot == 1]
    if not later:
        ready = _covering(ready, under_way.needed())
    most = min([most, *(it.inferences for it in ready.values())])
    left = [it.left - under_way.reserved for it in ready.values() if it.left is not None]
    begin = min([len(first), *(number // under_way.cap for number in left)])
    return (later + first[: max(begin, 0)])[:most], sorted(ready)


def held_back(waiting: Iterable[Request], ready: Mapping[int, Connection], quorum: int, under_way: UnderWay) -> bool:
    """Whether first slots wait, and would have their quorum but for what is reserved for inferences under way."""
    if not under_way.reserved or any(each.slot > 1 for each in waiting):
        return False
    return len(_covering(ready, under_way.needed())) < quorum <= len(_covering(ready, under_way.cap))


def _covering(ready: Mapping[int, Connection], rows: int) -> dict[int, Connection]:
    """Devices whose budgets cover so many rows, or say nothing of them."""
    return {k: it for k, it in ready.items() if it.left is None or it.left >= rows}


def finish(requests: Iterable[Request], outcome: Sum | Withheld) -> None:
    for each in requests:
        if not each.done.done():
            each.done.set_result(outcome)


class Air:
    """Devices 0 to K − 1 of one network, one turn at a time.

    quorum: number that must be ready before a slot is held, from K − dropouts to K. dropouts: the network's own; more
    missing than these, and the sum is withheld. So the network's ε, which counts on K − dropouts devices, holds.
    slot_seconds: time in which a slot waits for its signals; None: the medium's own. patience: time in which it waits
    for devices to be ready. seed: of a simulated run. medium: a registered one; None: that of the network's access.
    options: the medium's own.
    """

    def __init__(
        self,
        network: Network,
        *,
        quorum: int | None = None,
        slot_seconds: float | None = None,
        patience: float = PATIENCE_SECONDS,
        seed: int | None = None,
        medium: str | None = None,
        options: PortOptions = _DEFAULT,
    ) -> None:
        rules = MEDIA.get(medium or medium_of(network))
        count, fewest = network.devices.count, network.devices.count - network.dropouts
        self.network, self.seed = network, seed
        self.quorum = count if quorum is None else quorum
        if not fewest <= self.quorum <= count:
            allowed = f"{count}, all devices" if fewest == count else f"from {fewest} to {count}"
            raise ValueError(
                f"quorum={quorum} must be {allowed}: the network's ε counts on {count} devices less its "
                f"dropouts={network.dropouts}"
            )
        if not 0 <= options.window <= _LONGEST_WINDOW:
            raise ValueError(f"frame_window={options.window:g} must be from 0 to {_LONGEST_WINDOW:g} seconds; 0: none")
        seeded.require(seed)
        slot_seconds = rules.slot_seconds(network) if slot_seconds is None else slot_seconds
        for what, seconds in (("slot_seconds", slot_seconds), ("patience", patience)):
            if not 0 < seconds <= 600:
                raise ValueError(f"{what}={seconds} must be > 0 and at most 600")
        self._slot_seconds, self._window = slot_seconds, options.window
        self._hub = rules.hub(HubSetup(network, self.quorum, seed, self._say, options))
        self._standing, self._digest = Standing(count, patience), terms.stated(network).digest
        self._under_way = UnderWay(network.slots)
        self._rounds: dict[str, Round] = {}
        self._announced: dict[str, Request] = {}  # by the id of their rounds
        self._waiting: list[Request] = []
        self._turns: asyncio.Task[None] | None = None
        self._change = asyncio.Event()

    # What devices do

    def connect(
        self, device: int, deliver: Deliver, *, simulated: bool, stated: StatedTerms, version: str = ""
    ) -> None:
        """Connects a device. stated: its terms, which must be those of this air."""
        if simulated != (self.seed is not None):
            how = ("live", "simulated")
            raise RejectedError(f"a {how[simulated]} device cannot take part over a {how[not simulated]} air")
        if not 0 <= device < self.network.devices.count:
            raise RejectedError(f"device {device} must be from 0 to {self.network.devices.count - 1}")
        if device in self._standing.connected:
            raise RejectedError(f"device {device} is connected already")
        if why := terms.difference(
            self.network, stated, they=f"device {device} is set to", own_side="this air is set to"
        ):
            if self._standing.refused(device, why):  # it tries again every second: said once
                logs.event("rejected", device=device, reason=why)
            raise RejectedError(why)
        self._standing.connect(device, deliver, version)
        logs.event("connected", device=device, connected=len(self._standing.connected))

    def disconnect(self, device: int) -> None:
        self._standing.connected.pop(device, None)
        for id, each in self._rounds.items():
            if device not in each.arrived:
                self._announced[id].left.setdefault(device, _HUNG_UP)
            each.lose(device)
        self._change.set()
        logs.event("disconnected", device=device, connected=len(self._standing.connected))

    def ready(self, device: int, inferences: int = 1, left: int | None = None, *, advert: bytes | None = None) -> None:
        """Marks a device as ready for one turn of at most this many, or for the secure round that it advertises.

        Raises RejectedError if its advert is missing or invalid.
        """
        if (it := self._standing.connected.get(device)) is not None:
            others = [each.advert for k, each in self._standing.connected.items() if k != device and each.inferences]
            try:
                if advert is not None or not it.advert:  # else its last one is good for the next inference still
                    self._hub.admit(device, advert, others)
            except RejectedError as why:
                it.inferences = 0
                if self._standing.noted(device, f"its advert was rejected: {why}"):
                    logs.event("rejected", device=device, reason=str(why))
                raise
            it.inferences = 1 if advert is not None else max(1, inferences)
            it.advert, it.stalled, it.left = advert or it.advert, False, left
        self._change.set()

    def told(self, device: int, balance: Balance) -> None:
        if (it := self._standing.connected.get(device)) is not None:
            it.balance = balance

    def take(self, device: int, sent: SlotSignal | RoundMessage) -> None:
        """Puts a signal, or an answer to a message of a round, into its slot; or raises RejectedError."""
        slot = self._rounds.get(sent.id)
        try:
            if slot is None:
                raise RejectedError("late, or of another slot")
            slot.take(device, sent)
            self._announced[sent.id].watch.answered(sent.charged if isinstance(sent, SlotSignal) else 0.0)
        except RejectedError as why:
            logs.event("rejected", device=device, reason=str(why))
            if slot is not None:
                self._standing.failed(device, f"its answer was rejected: {why}")
            raise

    def withdraw(self, device: int, id: str, reason: WithdrawalReason = WithdrawalReason.UNSPECIFIED) -> None:
        slot = self._rounds.get(id)
        if slot is not None and device in slot.awaited:
            logs.event("withdrawn", id=id, device=device, reason=reason.value)
            why = f"it withdrew ({reason.value})"
            if reason is WithdrawalReason.RANKING:
                self._announced[id].left[device] = why
            elif reason is not WithdrawalReason.ROUND:  # another device may have broken the round
                self._standing.failed(device, why)
            slot.lose(device)

    # What the server does

    async def status(self) -> AirStatus:
        count, connected = self.network.devices.count, self._standing.connected
        busy = set().union(*(each.awaited for each in self._rounds.values()))
        faults = self._standing.faults(busy)
        able = len(connected) - sum(1 for fault in faults if fault.device in connected)
        ready, versions = len(self._standing.ready()), {k: each.version for k, each in connected.items()}
        balances = {k: each.balance for k, each in connected.items() if each.balance is not None}
        return AirStatus(count, self.quorum, len(connected), able, ready, faults, __version__, versions, balances)

    @property
    def busy(self) -> bool:
        return bool(self._rounds or self._waiting)

    async def run_slot(self, id: str, number: int, asked: StatedTerms, of: AskedSlot = FIRST_SLOT) -> Sum | Withheld:
        """One slot: announced to all that are ready, if these are enough. If it is cancelled, the slot ends at once."""
        for over in of.ended:
            self._end(over)
        name = slot_name(id, of.slot, self.network.slots)
        if why := self._objection(id, name, asked, of.slot):
            logs.event("rejected", reason=why)
            return Withheld(f"rejected: {why}", spent=False, rejected=True)
        request = Request(name, number, id, of.slot, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self._change.set()
        if self._turns is None or self._turns.done():
            self._turns = asyncio.create_task(self._take_turns())
        try:
            return await request.done
        finally:
            if request in self._waiting:
                self._waiting.remove(request)
            if request.running is not None:
                request.running.cancel()
            if not request.done.done():
                self._end(id)  # the server has hung up

    def _end(self, inference: str) -> None:
        """Reserves nothing more for an inference; devices hear of it with their next turn."""
        self._under_way.end(inference)
        self._hub.end(inference)
        self._change.set()
        for it in self._standing.connected.values():
            it.ended.append(inference[:LONGEST_ID])

    def _objection(self, id: str, name: str, asked: StatedTerms, slot: int) -> str | None:
        """The reason why nothing is announced; None if there is none."""
        slots = self.network.slots
        if not 0 < len(id) <= LONGEST_ID:
            return f"the id of an inference must have 1 to {LONGEST_ID} characters"
        if not 1 <= slot <= slots.count:
            return f"slot {slot} of an inference of at most {slots.count}"
        if slot > 1 and not slots.redrawn and self._under_way.get(id) is None:
            return f"slot {slot} of an inference whose draw this air does not have"
        if name in self._rounds or any(each.id == name for each in self._waiting):
            return "an inference of this id is running"
        if len(self._waiting) >= _MOST_WAITING:
            return f"{_MOST_WAITING} inferences are waiting"
        return terms.difference(self.network, asked, they="the server asks for", own_side="this air is set to")

    async def _take_turns(self) -> None:
        while self._waiting:
            await self._gathered()
            self._standing.needed = self._under_way.needed()
            turn, there = next_turn(self._waiting, self._standing.ready(), self._hub.inferences, self._under_way)
            lost, few = self._waiting, f"below quorum: {len(there)} devices are ready, {self.quorum} are needed"
            if len(there) >= self.quorum:
                there = self._hub.among([each.id for each in turn], there)
                lost, few = turn, f"below quorum: {len(there)} devices are in this inference, {self.quorum} are needed"
            if len(there) < self.quorum:
                finish(lost, Withheld(few + self._standing.named(there), spent=False))
                self._waiting = [each for each in self._waiting if each not in lost]
                continue
            self._waiting = [each for each in self._waiting if each not in turn]
            try:
                await self._turn(turn, there)
            except Exception as error:
                logs.event("failed", reason=f"{type(error).__name__}: {error}")
                finish(turn, Withheld(f"withheld: the air failed: {type(error).__name__}", spent=True))

    async def _gathered(self) -> None:
        """Waits until all that are connected are ready again, and enough for a quorum beside what is reserved.

        Not longer than the patience.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._standing.patience
        while self._waiting and (left := until - loop.time()) > 0:
            ready = self._standing.ready()
            held = held_back(self._waiting, ready, self.quorum, self._under_way)
            if len(ready) >= self.quorum and self._standing.awaited() <= ready.keys() and not held:
                return
            self._change.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._change.wait(), left)
        self._standing.give_up()

    async def _turn(self, turn: list[Request], there: list[int]) -> None:
        """Announces inferences together, and runs their slots to the end of each."""
        lines = {k: self._standing.connected[k] for k in there}
        adverts = {k: line.advert for k, line in lines.items()}
        self._rounds = {each.id: self._hub.opened(each.id, each.number, adverts) for each in turn}
        self._announced = {each.id: each for each in turn}
        try:
            moment = time.time()
            for each in turn:
                self._under_way.note(each.inference, each.slot)
            for k, line in lines.items():
                line.inferences = 0
                if any(each.slot == 1 for each in turn):
                    line.advert = b""
                line.deliver(tuple(self._announcement(each, k, len(there), moment) for each in turn))
                line.ended.clear()
            for each in turn:
                each.watch.announced()
            running = [asyncio.create_task(self._run(each, self._rounds[each.id])) for each in turn]
            for each, task in zip(turn, running, strict=True):
                each.running = task
            await asyncio.wait(running)
            for task in running:
                if not task.cancelled():
                    task.result()
        finally:
            late = set().union(*(each.awaited for each in self._rounds.values()))
            for k in there:
                self._standing.answered(k, late=k in late)
            self._rounds, self._announced = {}, {}

    def _announcement(self, request: Request, device: int, devices: int, moment: float) -> Announcement:
        return Announcement(
            request.id,
            request.number,
            self._rounds[request.id].gain(device),
            self._digest,
            devices,
            epoch=self._hub.epoch,
            inference=request.inference,
            slot=request.slot,
            ended=tuple(self._standing.connected[device].ended),
            moment=moment,
            window=self._window,
        )

    async def _run(self, request: Request, slot: Round) -> None:
        began = time.perf_counter()
        try:
            slot.start()
            await slot.ended(self._slot_seconds)
        finally:
            slot.close()
        if not request.done.done():
            request.done.set_result(self._outcome(request, slot, time.perf_counter() - began))

    def _outcome(self, request: Request, slot: Round, seconds: float) -> Sum | Withheld:
        """The sum, unless more devices are missing than the network's ε allows for; and whom that counts against."""
        standing, count, arrived = self._standing, self.network.devices.count, slot.arrived
        missing = count - len(arrived)
        enough = not slot.dropped and missing <= self.network.dropouts
        for k in arrived:
            standing.served(k)
        for k, why in slot.doubted.items():
            standing.failed(k, why, at_once=True)
        for k, why in slot.blamed.items():
            standing.banned(k, why)
        for k in slot.awaited & standing.connected.keys():
            logs.event("slow", id=request.id, device=k)
            if not enough:
                standing.failed(k, "it did not answer in time")
        # Who hung up, if the sum was withheld; who was without a ranking, unless most were.
        without = sum(1 for why in request.left.values() if why != _HUNG_UP)
        for k, why in request.left.items():
            if (not enough) if why == _HUNG_UP else 2 * without <= count:
                standing.failed(k, why)
            elif why != _HUNG_UP:
                standing.noted(k, why)
        logs.event("slot", id=request.id, devices=len(arrived), missing=missing, seconds=round(seconds, 4))
        if not enough:
            few = f"{missing} of {count} devices are missing, {self.network.dropouts} may be"
            why = f"withheld: {slot.dropped or few}" + standing.named(arrived)
            return Withheld(why, spent=True, course=request.watch.summed())
        return Sum(slot.received(), len(arrived), slot.carrier, self.seed is not None, request.watch.summed())

    def _say(self, device: int, message: RoundMessage | RoundOver) -> None:
        if (line := self._standing.connected.get(device)) is not None:
            line.deliver(message)
