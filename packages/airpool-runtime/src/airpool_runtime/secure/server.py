"""The server in one inference: a state machine that collects answers, and goes on without those who gave none.

    server = SumServer(terms, inference, adverts)
    for device, message in server.messages().items(): ...        # to every device that is still there
    server.receive(device, answer)                               # as answers arrive, in any order
    server.advance()                                             # all have answered, or time is up
    ...                                                          # until there is server.outcome
    server.go_on(ready)                                          # the next slot, and the same again

It learns the sum of the survivors' values and nothing else of them. With fewer than t answers in any step the slot is
dropped, nothing of it is opened, and it is the last one. A wrong answer counts as none, and its sender is blamed.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airpool.protocol import traffic
from airpool.protocol.ring import Residues, Ring
from airpool_runtime.secure import keys, masks, messages, shamir
from airpool_runtime.secure.group import Group, Terms
from airpool_runtime.secure.keys import Roster
from airpool_runtime.secure.masks import own_key, pair_key, seed_hash, share_hash
from airpool_runtime.secure.messages import Advert, Kind, RefusedError


class Blame:
    """Faults of one round. size: n, the devices of its group. threshold: t."""

    def __init__(self, size: int, threshold: int) -> None:
        self._spare, self._seen, self._accusers = size - threshold, dict[int, str](), dict[int, set[int]]()

    def seen(self, device: int, why: str) -> None:
        """A fault that the server has seen; the first one of a device stays."""
        self._seen.setdefault(device, why)

    def complaint(self, accuser: int, accused: list[int]) -> None:
        for device in accused:
            self._accusers.setdefault(device, set()).add(accuser)

    def verdict(self) -> dict[int, str]:
        """Devices to leave out of the next rounds, with the reason.

        No n − t devices can bring this upon another. Where no device can be spared (n = t), one complaint stops the
        round, and both devices are left out.
        """
        found = dict(self._seen)
        for device, accusers in self._accusers.items():
            if len(accusers) <= self._spare:
                continue
            found.setdefault(device, f"{len(accusers)} devices cannot use what it sent")
            if len(accusers) == 1:
                (accuser,) = accusers
                found.setdefault(accuser, f"only it cannot use what device {device} sent")
        return dict(sorted(found.items()))


@dataclass(frozen=True, eq=False)
class Outcome:
    """Of one slot. total: the sum of the survivors' values, modulo 2^B; None where it was dropped, as `dropped` says.

    blamed: devices that did not follow the protocol, with the reason; they are to be left out of the next rounds.
    doubted: devices whose adverts hold by the server's roster and not by the others'; they may have an older one.
    """

    total: Residues | None
    survivors: tuple[int, ...] = ()
    dropped: str = ""
    blamed: Mapping[int, str] = field(default_factory=dict)
    doubted: Mapping[int, str] = field(default_factory=dict)


def require_advert(content: bytes, device: int, terms: Terms, roster: Roster | None) -> Advert:
    """The advert of a device that may be ready; raises RefusedError for one that would stop its round.

    roster: the public identities, as the devices have them; None: unknown here, so that the certificate is not checked.
    """
    advert = Advert.from_bytes(content, terms.slots)
    keys.require_sound([advert.channel, *advert.mask_keys])
    if roster is not None:
        keys.require_certified(roster[device], device, advert, terms.digest)
    return advert


class SumServer:
    """One inference of the devices that advertised. roster: to check signatures by, as of `require_advert`."""

    def __init__(
        self, terms: Terms, inference: bytes, adverts: Mapping[int, bytes], roster: Roster | None = None
    ) -> None:
        ready = {device: Advert.from_bytes(adverts[device], terms.slots) for device in sorted(adverts)}
        self._terms, self._group = terms, Group(inference, terms, ready)
        self._slot, self._staying = self._group.slot(0), set[int]()
        self._steps = {
            Kind.SHARES: (self._read_shares, self._shared),
            Kind.MASKED: (self._read_masked, self._survived),
            Kind.SIGNATURE: (lambda _, body: messages.cut(body, traffic.SIGNATURE, 1)[0], self._signed),
            Kind.REVEALED: (self._read_shares_given_out, self._open),
        }
        self._kind = Kind.SHARES
        self._answers: dict[int, Any] = {}
        self._hashes: dict[int, dict[int, bytes]] = {}  # of dealer and holder: of key, of seed, slot by slot
        self._masked: dict[int, Residues] = {}
        self._sharing: list[int] = []
        self._signatures: dict[int, bytes] = {}
        self._unread: dict[int, set[int]] = {}
        self._left: set[int] = set()
        self._roster, self._blame, self._doubt = roster, *(Blame(len(ready), terms.survivors) for _ in range(2))
        self.outcome: Outcome | None = None
        said = messages.announcement(inference, ready)
        self._messages = dict.fromkeys(ready, said)

    @property
    def ring(self) -> Ring:
        return self._terms.ring

    def messages(self) -> dict[int, bytes]:
        return dict(self._messages)

    @property
    def slot(self) -> int:
        return self._slot.number

    def staying(self) -> set[int]:
        """After a slot: the devices that can be in the next one, if there may be one."""
        ended = self.outcome is None or self.outcome.total is None or self.slot + 1 == self._terms.slots
        return set() if ended else set(self._staying)

    def go_on(self, ready: Collection[int]) -> None:
        """Begins the next slot, with those of `staying` that are ready; an error if these are fewer than t."""
        among = sorted(self.staying() & set(ready))
        if len(among) < self._terms.survivors:
            raise RefusedError(
                f"{len(among)} devices can be in slot {self.slot + 1}, must be {self._terms.survivors} or more"
            )
        survivors, self._slot = list(self._masked), self._group.slot(self.slot + 1)
        self.outcome, self._kind, self._sharing = None, Kind.MASKED, among
        self._masked, self._signatures, self._unread, self._left = {}, {}, {}, set()
        self._messages = dict.fromkeys(among, self._said(Kind.NEXT, messages.subset(among, survivors)))

    @property
    def waiting(self) -> set[int]:
        return self._messages.keys() - self._answers.keys() - self._left

    def receive(self, device: int, answer: bytes) -> None:
        """Takes a device's answer; an error where it is not what this step allows, or the second one."""
        if self.outcome is not None or device not in self.waiting:
            raise RefusedError(f"no answer is expected from device {device}")
        try:
            if self._kind == Kind.SHARES and messages.kind_of(answer) == Kind.COMPLAINT:
                self._hear_complaint(device, answer)
                return
            read, _ = self._steps[self._kind]
            id = self._group.inference if self._kind == Kind.SHARES else self._slot.id
            self._answers[device] = read(device, messages.unpack(self._kind, id, answer))
        except RefusedError as why:
            self._left.add(device)
            self._blame.seen(device, f"it sent {why}")
            raise

    def _hear_complaint(self, device: int, answer: bytes) -> None:
        body = messages.unpack(Kind.COMPLAINT, self._group.inference, answer)
        accused, rest = messages.chosen(body, self._group.devices)
        if rest or not accused or device in accused:
            raise RefusedError("a complaint that names no other device")
        self._left.add(device)
        (self._blame if self._roster is None else self._doubt).complaint(device, accused)

    def advance(self) -> None:
        """Goes on with those who have answered: to the next messages, or to the outcome."""
        if self.outcome is not None:
            return
        answers, self._answers = dict(sorted(self._answers.items())), {}
        _, go_on = self._steps[self._kind]
        if len(answers) < self._terms.survivors:
            if self._kind == Kind.REVEALED:
                self._check_signatures()
            least = self._terms.survivors
            self._finish(dropped=f"{len(answers)} devices sent {self._kind.name}, must be {least} or more")
            return
        go_on(answers)

    def _finish(self, total: Residues | None = None, *, dropped: str = "") -> None:
        survivors = () if total is None else tuple(self._masked)
        self.outcome = Outcome(total, survivors, dropped, self._blame.verdict(), self._doubt.verdict())
        self._messages = {}

    def _read_shares(self, device: int, body: bytes) -> tuple[dict[int, bytes], dict[int, bytes]]:
        devices = self._group.devices
        others, slots = [other for other in devices if other != device], self._terms.slots
        one = traffic.ciphertext_size(slots)
        sealed = messages.cut(body[: len(others) * one], one, len(others))
        hashes = messages.cut(body[len(others) * one :], 2 * slots * traffic.HASH, len(devices))
        return dict(zip(others, sealed, strict=True)), dict(zip(devices, hashes, strict=True))

    def _shared(self, answers: dict[int, Any]) -> None:
        self._kind, self._sharing = Kind.MASKED, list(answers)
        self._hashes = {device: hashes for device, (_, hashes) in answers.items()}
        who = messages.subset(self._sharing, self._group.devices)
        self._messages = {to: self._said(Kind.SHARED, who, *self._dealt(answers, to)) for to in answers}

    def _dealt(self, answers: dict[int, Any], to: int) -> Iterator[bytes]:
        """The ciphertext of every other device for this one, with the hashes of the shares in it."""
        for device, (sealed, hashes) in answers.items():
            if device != to:
                yield sealed[to] + hashes[to]

    def _read_masked(self, device: int, body: bytes) -> tuple[Residues, bytes, list[int]]:
        ring = self._terms.ring
        size = ring.wire.itemsize * self._terms.dimension
        unread, signature = messages.chosen(body[size:], self._sharing)
        if device in unread or len(signature) != traffic.SIGNATURE:
            raise RefusedError("masked values of a wrong length, or a complaint about itself")
        return ring.from_bytes(body[:size]), signature, unread

    def _survived(self, answers: dict[int, tuple[Residues, bytes, list[int]]]) -> None:
        self._masked = {device: residues for device, (residues, _, _) in answers.items()}
        for device, (_, _, unread) in answers.items():
            self._unread[device] = set(unread)
            self._blame.complaint(device, unread)
        if list(answers) == self._sharing:  # all have signed this list already
            self._signed({device: signature for device, (_, signature, _) in answers.items()})
            return
        self._kind = Kind.SIGNATURE
        said = self._said(Kind.SURVIVORS, messages.subset(list(answers), self._sharing))
        self._messages = dict.fromkeys(answers, said)

    def _signed(self, answers: dict[int, bytes]) -> None:
        self._kind, self._signatures = Kind.REVEALED, answers
        who = messages.subset(list(answers), list(self._masked))
        self._messages = dict.fromkeys(answers, self._said(Kind.SIGNED, who, *answers.values()))

    def _read_shares_given_out(self, device: int, body: bytes) -> dict[int, bytes]:
        return dict(zip(self._sharing, messages.cut(body, shamir.SIZE, len(self._sharing)), strict=True))

    def _open(self, answers: dict[int, dict[int, bytes]]) -> None:
        """Reconstructs the seeds of the survivors and the keys of the others, checks them, and takes the masks off."""
        own, lost = {}, {}
        shares = {device: self._shares_of(device, answers) for device in self._sharing}
        for device, good in shares.items():
            alive = device in self._masked
            if (found := self._secret(device, good, alive=alive)) is None:
                self._finish(dropped=f"the shares of device {device} do not give its {'seed' if alive else 'key'}")
                return
            if alive:
                own[device] = self._stream(own_key(self._slot, found))
            else:
                private = keys.mask_key(found)
                agreed = {k: keys.agreed(private, self._advertised(k)[0]) for k in self._masked}
                lost[device] = {k: self._stream(pair_key(self._slot, agreed[k], device, k)) for k in self._masked}
        ring = self._terms.ring
        self._staying = answers.keys() - self._blame.verdict().keys()
        self._finish(masks.unmasked(ring.total(self._masked.values()), own, lost, ring))

    def _shares_of(self, device: int, answers: dict[int, dict[int, bytes]]) -> dict[int, int]:
        """The shares of a device that were given out, by point. A holder has had their hashes, and is bound to them."""
        good, alive = {}, device in self._masked
        place = (2 * self.slot + alive) * traffic.HASH
        for holder, given in answers.items():
            if device in self._unread[holder]:
                continue
            if share_hash(given[device]) == self._hashes[device][holder][place : place + traffic.HASH]:
                good[holder + 1] = int.from_bytes(given[device], "big")
            else:
                self._blame.seen(holder, f"the share of device {device} that it gave out is not the one it had")
        return good

    def _secret(self, device: int, good: dict[int, int], *, alive: bool) -> int | None:
        """The seed or key of a device; None where there are too few shares, or where it is not the advertised one."""
        if len(good) < self._terms.survivors:
            return None
        found = shamir.secret(dict(list(good.items())[: self._terms.survivors]))
        if not self._fits(device, found, alive=alive):
            self._blame.seen(device, f"it has shared another {'seed' if alive else 'key'} than it advertised")
            return None
        return found

    def _check_signatures(self) -> None:
        """Blames the devices whose signatures on the list of survivors do not hold."""
        if self._roster is None:
            return
        statement = self._slot.statement(self._sharing, list(self._masked))
        for device, signature in self._signatures.items():
            if not keys.verified(self._roster[device], signature, statement):
                self._blame.seen(device, "its signature on the list of survivors does not hold")

    def _fits(self, device: int, secret: int, *, alive: bool) -> bool:
        """Whether a reconstructed secret is the one whose hash or public key was advertised."""
        key, seed = self._advertised(device)
        if alive:
            return seed_hash(secret) == seed
        return keys.mask_key(secret).public_key().public_bytes_raw() == key

    def _advertised(self, device: int) -> tuple[bytes, bytes]:
        """The mask key of a device for this slot, and the hash of its seed."""
        advert = self._group.adverts[device]
        return advert.mask_keys[self.slot], advert.seed_hashes[self.slot]

    def _stream(self, key: bytes) -> Residues:
        return masks.stream(key, self._terms.ring, self._terms.dimension)

    def _said(self, kind: Kind, *parts: bytes) -> bytes:
        return messages.pack(kind, self._slot.id, *parts)
