"""The medium in one process: ports that call the air directly."""

import asyncio

from airpool._support.arrays import Floats
from airpool.runtime.air import Air
from airpool.runtime.medium import Announcement, RejectedError, Sum, Withheld


class LoopbackDevice:
    """A device's port. A rejected signal is counted as missing by the air; the device need not know."""

    def __init__(self, air: Air, device: int) -> None:
        self._air, self._device = air, device
        self._told: asyncio.Queue[Announcement | bytes] = asyncio.Queue()
        air.connect(device, self._told.put_nowait, simulated=air.seed is not None)

    async def ready(self, advert: bytes = b"") -> None:
        self._air.ready(self._device, advert)

    async def announcement(self) -> Announcement:
        while not isinstance(told := await self._told.get(), Announcement):
            continue
        return told

    async def answer(self, id: str, content: bytes) -> None:
        try:
            self._air.answer(self._device, id, content)
        except RejectedError:
            self._told.put_nowait(b"")

    async def message(self) -> bytes:
        told = await self._told.get()
        return told if isinstance(told, bytes) else b""

    async def transmit(self, id: str, samples: Floats, scale: float) -> None:
        try:
            self._air.transmit(self._device, id, samples, scale)
        except RejectedError:
            return

    async def withdraw(self, id: str) -> None:
        self._air.withdraw(self._device, id)

    def close(self) -> None:
        self._air.disconnect(self._device)


class LoopbackServer:
    """The server's port."""

    def __init__(self, air: Air) -> None:
        self._air = air

    async def ready(self) -> int:
        return self._air.num_ready

    async def hold(self, id: str, number: int, asked: str) -> Sum | Withheld:
        return await self._air.hold(id, number, asked)
