"""A device's port under secure access: the same calls, with a round of the secure sum behind them.

The device does not know: it is ready, is announced to, charges, and transmits. Its values are encrypted into the sum
here, by its own keys and its own terms, and leave this process masked.
"""

import asyncio
from collections.abc import Callable, Sequence

from airpool.network import Network
from airpool.runtime import logs
from airpool.runtime.charge import NotSentError
from airpool.runtime.medium import Line, PortOptions
from airpool.runtime.messages import Announcement, RoundMessage, SlotSignal, Turn, WithdrawalReason
from airpool.runtime.secure import identities as bare
from airpool.runtime.secure.client import Client
from airpool.runtime.secure.group import inference_of, terms_of
from airpool.runtime.secure.keys import Roster, Session
from airpool.runtime.secure.messages import ComplaintError, RefusedError
from airpool.runtime.secure.ring import Residues
from airpool.runtime.under_way import KEPT_SECONDS, MOST_KEPT


class SecureDevice:
    """quorum: the fewest devices that must be ready, as the device itself has it; None: all.

    Each inference under way has a client, which takes part in it slot by slot. That of the next one is advertised
    meanwhile, so that the hub can go on with any of them.
    """

    def __init__(self, line: Line, session: Session, network: Network, *, quorum: int | None = None) -> None:
        self._line, self._session, self._terms = line, session, terms_of(network, quorum=quorum)
        self._several = network.slots.count > 1
        self._fresh: Client | None = None
        self._going: dict[str, Client] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}  # of inferences that wait for their next slot
        self._values: Residues | None = None
        self._said: bytes | None = None

    async def ready(self, inferences: int = 1, left: int | None = None) -> None:
        """One slot, whatever the number. An advert is good for one inference, and is said once."""
        self._session.renew()
        if self._fresh is None:
            self._fresh = self._client()
            await self._line.advertise(self._fresh.advert.to_bytes(), left)
        else:
            await self._line.ready(1, left)

    def _client(self) -> Client:
        return Client(self._session, self._terms, self._taken)

    async def announcements(self) -> Turn:
        try:
            turn = await self._line.announcements()
        except BaseException:  # the hub is gone
            self._forget_all()
            raise
        if not turn:  # its advert was not accepted
            self._fresh = None
        return turn

    async def accept(self, announced: Announcement) -> None:
        """Reads the first message of the slot, and checks its id, its group and the others' adverts."""
        if self._said is not None:
            raise NotSentError("a second slot in one turn of a secure sum", WithdrawalReason.ROUND)
        for inference in announced.ended:
            self._forget(inference)
        inference = announced.inference or announced.id
        client = self._entered(inference, announced.slot)
        try:
            self._said = await self._line.message(announced.id)
            self._session.renew()
            if client is None or self._said is None:
                raise RefusedError("a slot that is over, or of an inference that this device is not in")
            if client.accept(self._said) != (inference_of(inference), announced.slot - 1):
                raise RefusedError("the round is of another inference or slot than the one announced")
        except RefusedError as why:
            self._said = None
            self._forget(inference)
            if isinstance(why, ComplaintError):
                await self._line.answer(RoundMessage(announced.id, why.complaint))
            raise NotSentError(str(why), WithdrawalReason.ROUND) from None

    def _entered(self, inference: str, slot: int) -> Client | None:
        """The client of an announced slot: in a first one, that of the last advert."""
        if slot == 1:
            self._forget(inference)
            if self._fresh is not None:
                self._going[inference], self._fresh = self._fresh, None
            while len(self._going) > MOST_KEPT:
                self._forget(next(iter(self._going)))
        if inference in self._ends:
            self._ends.pop(inference).cancel()
        return self._going.get(inference)

    async def transmit(self, signals: Sequence[SlotSignal]) -> None:
        """Takes part in the slot to its end. scale is 1: there is no power to judge."""
        (signal,) = signals
        inference = self._inference(signal.id)
        client, message = self._going.get(inference), self._said
        self._values = self._terms.ring.encode(signal.samples)
        try:
            while client is not None and message is not None:
                await self._line.answer(RoundMessage(signal.id, client.answer(message)))
                message = None if client.slot_over else await self._line.message(signal.id)
        except RefusedError as why:
            logs.event("refused", id=signal.id, device=self._session.device, reason=str(why))
            await self._line.withdraw(signal.id, WithdrawalReason.ROUND)
        finally:
            self._values = self._said = None
            if client is not None and client.slot_over and not client.over:
                later = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget, inference)
                self._ends[inference] = later
            else:
                self._forget(inference)

    async def withdraw(self, id: str, reason: WithdrawalReason) -> None:
        self._said = None
        self._forget(self._inference(id))
        await self._line.withdraw(id, reason)

    def close(self) -> None:
        self._forget_all()
        self._line.close()

    def _inference(self, id: str) -> str:
        """The inference of a slot."""
        return id.rpartition("/")[0] if self._several else id

    def _forget(self, inference: str) -> None:
        """Ends an inference for this device: its secrets are gone, those of slots that were not held too."""
        if inference in self._ends:
            self._ends.pop(inference).cancel()
        if inference in self._going:
            self._going.pop(inference).close()

    def _forget_all(self) -> None:
        for inference in list(self._going):
            self._forget(inference)
        if self._fresh is not None:
            self._fresh.close()
            self._fresh = None

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
