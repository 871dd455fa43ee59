"""A device's port under secure access: the same calls, with a round of the secure sum behind them.

The device does not know: it is ready, is announced to, charges, and transmits. Its values are encrypted into the sum
here, by its own keys and its own terms, and leave this process masked.
"""

from collections.abc import Callable, Sequence

from airpool.network import Network
from airpool.runtime import logs
from airpool.runtime.charge import NotSentError
from airpool.runtime.medium import Announcement, Line, PortOptions, RoundMessage, SlotSignal, Turn, WithdrawalReason
from airpool.runtime.secure import identities as bare
from airpool.runtime.secure.client import Client
from airpool.runtime.secure.group import inference_of, terms_of
from airpool.runtime.secure.keys import Roster, Session
from airpool.runtime.secure.messages import ComplaintError, RefusedError
from airpool.runtime.secure.ring import Residues


class SecureDevice:
    """quorum: the fewest devices that must be ready, as the device itself has it; None: all."""

    def __init__(self, line: Line, session: Session, network: Network, *, quorum: int | None = None) -> None:
        self._line, self._session, self._terms = line, session, terms_of(network, quorum=quorum)
        self._client: Client | None = None
        self._values: Residues | None = None
        self._group: bytes | None = None

    async def ready(self, inferences: int = 1, left: int | None = None) -> None:
        """One round, whatever the number: an advert is good for one, with keys and seeds of its own."""
        self._session.renew()
        self._client = Client(self._session, self._terms, self._taken)
        await self._line.advertise(self._client.advert.to_bytes(), left)

    async def announcements(self) -> Turn:
        return await self._line.announcements()

    async def accept(self, announced: Announcement) -> None:
        """Reads the first message of the round, and checks its id, its group and the others' adverts."""
        assert self._client is not None
        try:
            self._group = await self._line.message(announced.id)
            self._session.renew()
            if self._group is None or self._client.accept(self._group) != (inference_of(announced.id), 0):
                raise RefusedError("the round is of another inference than the one announced")
        except RefusedError as why:
            self._close()
            if isinstance(why, ComplaintError):
                await self._line.answer(RoundMessage(announced.id, why.complaint))
            raise NotSentError(str(why), WithdrawalReason.ROUND) from None

    async def transmit(self, signals: Sequence[SlotSignal]) -> None:
        """Takes part in the round to its end. scale is 1: there is no power to judge."""
        (signal,) = signals
        assert self._client is not None
        self._values, message = self._terms.ring.encode(signal.samples), self._group
        try:
            while message is not None:
                await self._line.answer(RoundMessage(signal.id, self._client.answer(message)))
                if self._client.over:
                    break
                message = await self._line.message(signal.id)
        except RefusedError as why:
            logs.event("refused", id=signal.id, device=self._session.device, reason=str(why))
            await self._line.withdraw(signal.id, WithdrawalReason.ROUND)
        finally:
            self._close()

    async def withdraw(self, id: str, reason: WithdrawalReason) -> None:
        self._close()
        await self._line.withdraw(id, reason)

    def close(self) -> None:
        self._line.close()

    def _close(self) -> None:
        """Forgets the secrets of this round."""
        if self._client is not None:
            self._client.close()

    def _taken(self) -> Residues:
        assert self._values is not None
        values, self._values = self._values, None
        return values


def secured_by(network: Network, devices: Sequence[int], options: PortOptions) -> Callable[[Line, int], SecureDevice]:
    """Makes the port of each of these devices out of its line.

    identities: folder with a roster and bare keys (runtime/secure/identities.py). keys: of certified ones (roster.py).
    """
    if options.identities is not None:
        sessions = {device: bare.session(options.identities, device) for device in devices}
    elif options.keys is not None:
        from airpool.runtime import roster

        sessions = {device: roster.session(options.keys, device, network.devices.count) for device in devices}
    else:
        raise ValueError("channel.access='secure' needs --keys FOLDER (`airpool keys`) or --identities FOLDER")
    return lambda line, device: SecureDevice(line, sessions[device], network, quorum=options.quorum)


def roster_of(network: Network, options: PortOptions) -> Callable[[], Roster] | None:
    """The public identities for a hub; None where its folder has none, which is logged."""
    if options.identities is not None:
        known = bare.roster(options.identities)
        return lambda: known
    if options.keys is not None:
        from airpool.runtime import roster
        from airpool.runtime.keys.secret import KeyFileError

        try:
            return roster.watched(options.keys, network.devices.count)
        except KeyFileError as why:
            logs.event("roster", reason=f"devices alone check certificates: {why}")
    return None
