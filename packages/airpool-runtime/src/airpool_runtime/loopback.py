"""The medium in one process: devices that call the hub directly; the hub itself is the server's port."""

import asyncio
from collections.abc import Sequence

from airpool.network import Network
from airpool_runtime import terms
from airpool_runtime.air import Air
from airpool_runtime.messages import (
    Announcement,
    Balance,
    RejectedError,
    RoundMessage,
    RoundOver,
    SlotSignal,
    Turn,
    WithdrawalReason,
)


class LoopbackDevice:
    """A device's line. A rejected signal is counted as missing by the hub; the device need not know.

    network: the device's own; None: the hub's.
    """

    def __init__(self, air: Air, device: int, network: Network | None = None) -> None:
        self._air, self._device = air, device
        self._received: asyncio.Queue[Turn | RoundMessage | RoundOver] = asyncio.Queue()
        stated = terms.stated(network or air.network)
        air.connect(device, self._received.put_nowait, simulated=air.seed is not None, stated=stated)

    async def ready(self, inferences: int = 1, left: int | None = None) -> None:
        self._air.ready(self._device, inferences, left)

    async def tell(self, balance: Balance) -> None:
        self._air.told(self._device, balance)

    async def advertise(self, advert: bytes, left: int | None = None) -> None:
        try:
            self._air.ready(self._device, 1, left, advert=advert)
        except RejectedError:
            self._received.put_nowait(())

    async def announcements(self) -> Turn:
        while not isinstance(found := await self._received.get(), tuple):
            continue
        return found

    async def accept(self, announced: Announcement) -> None:
        """Asks nothing more."""

    async def transmit(self, signals: Sequence[SlotSignal]) -> None:
        for each in signals:
            self._take(each)

    async def answer(self, message: RoundMessage) -> None:
        if not self._take(message):
            self._received.put_nowait(RoundOver(message.id))

    async def message(self, id: str) -> bytes | None:
        while isinstance(found := await self._received.get(), tuple) or found.id != id:
            continue
        return found.content if isinstance(found, RoundMessage) else None

    async def withdraw(self, id: str, reason: WithdrawalReason) -> None:
        self._air.withdraw(self._device, id, reason)

    def close(self) -> None:
        self._air.disconnect(self._device)

    def _take(self, sent: SlotSignal | RoundMessage) -> bool:
        try:
            self._air.take(self._device, sent)
        except RejectedError:
            return False
        return True
