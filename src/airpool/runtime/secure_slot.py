"""A slot of a secure sum: it carries the messages of one round between devices and the server's state machine.

It stands where a slot of the radio stands, and is trusted with nothing: it has what a server has that may lie.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from airpool._support.arrays import Floats
from airpool.runtime.medium import HubSetup, Round
from airpool.runtime.messages import RejectedError, RoundMessage, RoundOver, SlotSignal
from airpool.runtime.secure.group import inference_of, terms_of
from airpool.runtime.secure.keys import Roster
from airpool.runtime.secure.messages import Advert, RefusedError
from airpool.runtime.secure.server import SumServer, require_advert
from airpool.runtime.under_way import MOST_KEPT, parts

STEPS = 4


class SecureHub:
    """The hub of secure sums, one slot at a time: an advert is good for one inference.

    roster: the newest public identities; None: unknown, so that devices alone check each other's certificates.
    """

    def __init__(self, setup: HubSetup, roster: Callable[[], Roster] | None = None) -> None:
        self.inferences, self.epoch, self.secure = 1, "", True
        self._terms, self._say, self._roster = terms_of(setup.network, quorum=setup.quorum), setup.say, roster
        self._slots, self._going = setup.network.slots, dict[str, SumServer]()

    def admit(self, device: int, advert: bytes | None, others: Sequence[bytes]) -> None:
        """Raises RejectedError for an advert that would stop the round: judged by what is public, before any charge."""
        try:
            own = set(require_advert(advert or b"", device, self._terms, self._known()).mask_keys)
        except RefusedError as why:
            raise RejectedError(str(why)) from None
        if any(own & set(Advert.from_bytes(other, self._terms.slots).mask_keys) for other in others):
            raise RejectedError("an advert with another device's mask key")

    def among(self, ids: Sequence[str], ready: Sequence[int]) -> list[int]:
        """Those of the ready devices that a slot is announced to: all, or those that are still in its inference."""
        for inference, slot in (parts(id, self._slots) for id in ids):
            if slot > 1:
                server = self._going.get(inference)
                staying = server.staying() if server is not None and server.slot + 2 == slot else set()
                ready = [k for k in ready if k in staying]
        return list(ready)

    def opened(self, id: str, number: int, adverts: Mapping[int, bytes]) -> Round:
        inference, slot = parts(id, self._slots)
        if slot == 1:
            self._going.pop(inference, None)
            self._going[inference] = SumServer(self._terms, inference_of(inference), adverts, self._known())
            while len(self._going) > MOST_KEPT:
                self.end(next(iter(self._going)))
        else:
            self._going[inference].go_on(adverts)
        return SecureSlot(id, self._going[inference], self._say)

    def end(self, inference: str) -> None:
        """Forgets an inference: it has no further slot."""
        self._going.pop(inference, None)

    def _known(self) -> Roster | None:
        return None if self._roster is None else self._roster()


class SecureSlot:
    """One round. say: hands a device a message."""

    def __init__(self, id: str, server: SumServer, say: Callable[[int, RoundMessage | RoundOver], None]) -> None:
        self.id, self.carrier, self.dropped = id, True, ""
        self.blamed: Mapping[int, str] = {}
        self.doubted: Mapping[int, str] = {}
        self._round, self._say = server, say
        self._gone: set[int] = set()
        self._late: set[int] = set()
        self._step = asyncio.Event()
        self._open = set(server.messages())  # devices that wait for a message

    def gain(self, device: int) -> float:
        """1: there is no radio."""
        return 1.0

    def start(self) -> None:
        self._send()

    @property
    def awaited(self) -> set[int]:
        """Devices that have yet to answer; once the round is over, those that were too late."""
        return self._late if self._round.outcome is not None else self._round.waiting - self._gone

    @property
    def arrived(self) -> set[int]:
        return set() if self._round.outcome is None else set(self._round.outcome.survivors)

    def take(self, device: int, sent: SlotSignal | RoundMessage) -> None:
        if isinstance(sent, SlotSignal):
            raise RejectedError("this network takes a secure sum, not a signal")
        try:
            self._round.receive(device, sent.content)
        except RefusedError as why:
            self.lose(device)
            raise RejectedError(str(why)) from None
        self._check()

    def lose(self, device: int) -> None:
        """Stops waiting for this device."""
        self._gone.add(device)
        self._check()

    def _check(self) -> None:
        if not self.awaited:
            self._step.set()

    async def ended(self, seconds: float) -> None:
        """The round, step by step; each waits for its share of the time, and goes on without those who are late."""
        while self._round.outcome is None:
            try:
                await asyncio.wait_for(self._step.wait(), seconds / STEPS)
            except TimeoutError:
                self._late |= self.awaited
                self._gone |= self._late
            self._step.clear()
            without = self._round.waiting
            self._round.advance()
            if (outcome := self._round.outcome) is not None:
                self.dropped, self.blamed, self.doubted = outcome.dropped, outcome.blamed, outcome.doubted
            self._end(without)
            self._send()
            self._check()

    def close(self) -> None:
        """Ends the round for all: no device waits for a message that will not come."""
        self._end(set(self._open) if self._round.outcome is None or self.dropped else set())

    def _send(self) -> None:
        for device, message in self._round.messages().items():
            self._say(device, RoundMessage(self.id, message))

    def _end(self, devices: set[int]) -> None:
        for device in devices & self._open:
            self._open.discard(device)
            self._say(device, RoundOver(self.id))

    def received(self) -> Floats:
        """The sum of the survivors' values."""
        assert self._round.outcome is not None
        assert self._round.outcome.total is not None
        return self._round.ring.decode(self._round.outcome.total)
