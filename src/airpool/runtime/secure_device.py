"""A device's port under secure access: the same four calls, with a round of the secure sum behind `transmit`.

The device does not know: it is ready, is announced to, charges, and transmits. Its values are encrypted into the sum
here, by its own keys and its own terms, and leave this process masked.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from airpool._support.arrays import Floats
from airpool.network import Network
from airpool.runtime import logs
from airpool.runtime.medium import Announcement, DevicePort
from airpool.runtime.secure import identities as bare
from airpool.runtime.secure.client import Client
from airpool.runtime.secure.group import inference_of, terms_of
from airpool.runtime.secure.keys import Session
from airpool.runtime.secure.messages import RefusedError, announced
from airpool.runtime.secure.ring import Residues


class Line(DevicePort, Protocol):
    """A port that also carries the messages of a round."""

    async def ready(self, advert: bytes = b"") -> None: ...

    async def answer(self, id: str, content: bytes) -> None: ...

    async def message(self) -> bytes:
        """The next message of the round; empty where it is over."""
        ...


class SecureDevice:
    """quorum: the fewest devices that must be ready, as the device itself has it; None: all."""

    def __init__(self, line: Line, session: Session, network: Network, *, quorum: int | None = None) -> None:
        self._line, self._session, self._terms = line, session, terms_of(network, quorum=quorum)
        self._client: Client | None = None
        self._values: Residues | None = None
        self._group = b""

    async def ready(self) -> None:
        self._session.renew()
        self._client = Client(self._session, self._terms, self._taken)
        await self._line.ready(self._client.advert.to_bytes())

    async def announcement(self) -> Announcement:
        told = await self._line.announcement()
        self._group = told.group
        return told

    async def transmit(self, id: str, samples: Floats, scale: float) -> None:
        """Takes part in the round to its end. scale is 1: there is no power to judge."""
        assert self._client is not None
        self._values, message = self._terms.ring.encode(samples), self._group
        try:
            if announced(message)[0] != inference_of(id):
                raise RefusedError("the round is of another inference than the one announced")
            while message:
                await self._line.answer(id, self._client.answer(message))
                if self._client.over:
                    break
                message = await self._line.message()
        except RefusedError as why:
            logs.event("refused", id=id, device=self._session.device, reason=str(why))
            await self._line.withdraw(id)
        finally:
            self._client.close()

    async def withdraw(self, id: str) -> None:
        await self._line.withdraw(id)

    def close(self) -> None:
        self._line.close()  # pyright: ignore[reportAttributeAccessIssue]

    def _taken(self) -> Residues:
        assert self._values is not None
        values, self._values = self._values, None
        return values


def secured_by(
    network: Network,
    devices: Sequence[int],
    *,
    identities: Path | None = None,
    keys: Path | None = None,
    quorum: int | None = None,
) -> Callable[[Line, int], SecureDevice]:
    """Makes the port of each of these devices out of its line.

    identities: folder with a roster and bare keys (runtime/secure/identities.py). keys: of certified ones (roster.py).
    """
    if identities is not None:
        sessions = {device: bare.session(identities, device) for device in devices}
    elif keys is not None:
        from airpool.runtime import roster

        sessions = {device: roster.session(keys, device, network.devices.count) for device in devices}
    else:
        raise ValueError("channel.access='secure' needs --keys FOLDER (`airpool keys`) or --identities FOLDER")
    return lambda line, device: SecureDevice(line, sessions[device], network, quorum=quorum)
