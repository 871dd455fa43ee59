"""A slot of a secure sum: it carries the messages of one round between devices and the server's state machine.

It stands where a slot of the air stands, and is trusted with nothing: it has what a server has that may lie.
"""

import asyncio
from collections.abc import Callable, Iterable

import numpy as np

from airpool._support.arrays import Floats
from airpool.network import Network
from airpool.runtime.medium import RejectedError
from airpool.runtime.secure.group import inference_of, terms_of
from airpool.runtime.secure.messages import Advert, RefusedError
from airpool.runtime.secure.server import SumServer

STEPS = 4


class SecureSlot:
    """One round of the devices with these adverts. say: hands a device a message; empty: the round is over for it."""

    def __init__(
        self, id: str, adverts: dict[int, bytes], network: Network, quorum: int, say: Callable[[int, bytes], None]
    ) -> None:
        self.id, self.carrier, self.dropped = id, True, ""
        self.known: Floats = np.ones(network.devices.count)
        self._ring, self._say = terms_of(network, quorum=quorum).ring, say
        self._gone: set[int] = set()
        self._late: set[int] = set()
        self._step = asyncio.Event()
        self._round = SumServer(terms_of(network, quorum=quorum), inference_of(id), adverts)

    @staticmethod
    def check(advert: bytes, others: Iterable[bytes]) -> None:
        """Raises RejectedError for what is no advert, or has the mask key of another device that is ready."""
        try:
            own = Advert.from_bytes(advert).mask_key
        except RefusedError as why:
            raise RejectedError(str(why)) from None
        if any(Advert.from_bytes(other).mask_key == own for other in others):
            raise RejectedError("an advert with another device's mask key")

    def group(self, device: int) -> bytes:
        """The first message of the round."""
        return self._round.messages()[device]

    @property
    def awaited(self) -> set[int]:
        """Devices that have yet to answer; once the round is over, those that were too late."""
        return self._late if self._round.outcome is not None else self._round.waiting - self._gone

    @property
    def num_arrived(self) -> int:
        return 0 if self._round.outcome is None else len(self._round.outcome.survivors)

    def put(self, device: int, samples: Floats, scale: float) -> None:
        raise RejectedError("this network takes a secure sum, not a signal")

    def answer(self, device: int, content: bytes) -> None:
        try:
            self._round.receive(device, content)
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
        """The round, step by step; each waits for its share of the time, and goes on without those who are late.

        If it is cancelled, the round is over for all: no device waits for a message that will not come.
        """
        try:
            await self._steps(seconds)
        except asyncio.CancelledError:
            for device in self._round.messages():
                self._say(device, b"")
            raise

    async def _steps(self, seconds: float) -> None:
        while self._round.outcome is None:
            try:
                await asyncio.wait_for(self._step.wait(), seconds / STEPS)
            except TimeoutError:
                self._late |= self.awaited
                self._gone |= self._late
            self._step.clear()
            there, without = set(self._round.messages()), self._round.waiting
            self._round.advance()
            if (outcome := self._round.outcome) is not None:
                self.dropped = outcome.dropped
            for device in there if self.dropped else without:
                self._say(device, b"")
            for device, message in self._round.messages().items():
                self._say(device, message)
            self._check()

    def received(self) -> Floats:
        """The sum of the survivors' values."""
        assert self._round.outcome is not None
        assert self._round.outcome.total is not None
        return self._ring.decode(self._round.outcome.total)
