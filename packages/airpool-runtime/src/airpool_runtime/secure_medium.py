"""The secure sum as a medium: no radio, devices need identities (docs/howto/secure-sum.md).

The hub carries messages between devices and the server's state machine, and is trusted with nothing: it has what a
server has that may lie. A device does not know: it is ready, is announced to, charges, and transmits. Its values are
encrypted into the sum in its port, by its own keys and its own terms, and leave this process masked.

    KEYS/NAME/roster.pem    identity certificates of all devices, which are public

Devices and the hub read them again when they change: rotated, revoked and reissued devices need no restart.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from airpool._support.arrays import Floats
from airpool.network import Network
from airpool.protocol.ring import Residues
from airpool_runtime import logs, secured
from airpool_runtime.charge import NotSentError
from airpool_runtime.keys import credentials, secret
from airpool_runtime.keys.credentials import Reloaded, UntrustedError, WithdrawnError
from airpool_runtime.keys.secret import KeyFileError
from airpool_runtime.medium import DevicePort, Hub, HubSetup, Line, PortOptions, Round
from airpool_runtime.messages import (
    Announcement,
    RejectedError,
    RoundMessage,
    RoundOver,
    SlotSignal,
    Turn,
    WithdrawalReason,
)
from airpool_runtime.secure.client import Client
from airpool_runtime.secure.group import inference_of, terms_of
from airpool_runtime.secure.keys import Roster, Session
from airpool_runtime.secure.messages import Advert, ComplaintError, RefusedError
from airpool_runtime.secure.server import SumServer, require_advert
from airpool_runtime.under_way import KEPT_SECONDS, MOST_KEPT, parts

STEPS = 4


class SecureHub:
    """The hub of secure sums, one slot at a time: an advert is good for one inference.

    roster: the newest public identities; None: unknown, so that devices alone check each other's certificates.
    """

    def __init__(self, setup: HubSetup, roster: Callable[[], Roster] | None = None) -> None:
        self.inferences, self.epoch = 1, ""
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
        return 1.0

    def start(self) -> None:
        self._send()

    @property
    def awaited(self) -> set[int]:
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
        assert self._round.outcome is not None
        assert self._round.outcome.total is not None
        return self._round.ring.decode(self._round.outcome.total)


_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)


def session_of(folder: Path, device: int, num_devices: int) -> Session:
    """The session of a device. folder: its own, or the one that it lies in."""
    own = secured.home(folder, device).resolve()
    return Session(device, secret.identity(own / "identity.key"), watched_roster(own, num_devices))


def watched_roster(own: Path, num_devices: int) -> Reloaded[Roster]:
    own = own.resolve()
    paths = (own / "roster.pem", own / "revoked.crl")
    return Reloaded(lambda: read_roster(own, num_devices), paths, report=lambda why: logs.event("roster", reason=why))


def read_roster(own: Path, num_devices: int) -> Roster:
    """The certified identities of all devices; None for one whose certificate was revoked or has expired.

    Raises KeyFileError where one is missing, forged or of another name: a sum of K devices names them all.
    """
    _, trust = credentials.load(own)
    listed = own / "roster.pem"
    try:
        content = listed.read_bytes()
    except OSError as error:
        raise KeyFileError(f"{listed}: {error.strerror}; copy the authority's roster.pem there") from None
    found: dict[str, bytes | None] = {}
    for certificate in _CERTIFICATE.findall(content):
        try:
            of, public = trust.identity(certificate)
            found[of] = public.public_bytes_raw()
        except WithdrawnError as why:
            of = why.name
            found.setdefault(of, None)
        except UntrustedError as why:
            raise KeyFileError(f"{listed}: {why}") from None
    names = [f"device-{k}" for k in range(num_devices)]
    if missing := [name for name in names if name not in found]:
        name = missing[0]
        raise KeyFileError(f"{listed} has no {name}: `airpool keys device {name}`, then copy roster.pem")
    return tuple(found[name] for name in names)


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


class SecureMedium:
    """Rules of the secure sum."""

    def hub(self, setup: HubSetup) -> Hub:
        """Checks adverts by the public identities, where its folder of keys has them."""
        roster = None
        if setup.options.keys is not None:
            try:
                roster = watched_roster(setup.options.keys, setup.network.devices.count)
            except KeyFileError as why:
                logs.event("roster", reason=f"devices alone check certificates: {why}")
        return SecureHub(setup, roster)

    def slot_seconds(self, network: Network) -> float:
        """Grows with the number of devices, each of which has a message and a key for every other one."""
        return 5.0 + 0.25 * network.devices.count

    def ports(
        self, network: Network, devices: Sequence[int], options: PortOptions
    ) -> Callable[[Line, int], DevicePort]:
        if options.keys is None:
            raise ValueError("channel.access='secure' needs --keys FOLDER: `airpool keys` makes it")
        sessions = {device: session_of(options.keys, device, network.devices.count) for device in devices}
        return lambda line, device: SecureDevice(line, sessions[device], network, quorum=options.quorum)


SECURE = SecureMedium()
