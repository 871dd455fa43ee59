"""One device in one inference: a state machine that takes each step once, in order, and ends at the first error.

    advertise   for each of N slots a fresh mask key and seed
    accept      the announced group: adverts, certificates and keys, before anything is charged
    share       t-of-n shares of all of them, encrypted for every other device
    then, slot by slot:
    mask        the values, masked, with a signature on the list of all who are in the slot
    sign        if some of them vanished: one shorter list of survivors
    reveal      with t signatures on the list: for each device a share of its key or of its seed, never both

Shares of a slot are given out once, for one of the two lists. So at most one sum of it can be opened
(howto/secure-sum.md). Slots come in order, each once; what was opened of one is of no use in another. Keys, seeds and
shares are of this inference alone. A new inference takes a new Client.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from airpool.protocol import traffic
from airpool.protocol.ring import Residues
from airpool_runtime.secure import keys, masks, messages, shamir
from airpool_runtime.secure.group import Group, SlotContext, Terms
from airpool_runtime.secure.keys import Session
from airpool_runtime.secure.masks import own_key, pair_key, seed_hash, share_hash
from airpool_runtime.secure.messages import Advert, ComplaintError, Kind, RefusedError, kind_of

_NONE = bytes(shamir.SIZE), bytes(shamir.SIZE)  # in place of shares that could not be read

Shares = tuple[bytes, bytes]  # of key and seed


@dataclass(eq=False)
class _Secrets:
    """Of one slot: mask key and seed, and the shares that the devices have dealt to this one, by dealer."""

    key: int = field(default_factory=shamir.random_element, repr=False)
    seed: int = field(default_factory=shamir.random_element, repr=False)
    private: X25519PrivateKey = field(init=False, repr=False)
    held: dict[int, Shares] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.private = keys.mask_key(self.key)


class Client:
    """A device's part. `values` is called once a slot, when the masked values are sent: residues of length r."""

    def __init__(self, session: Session, terms: Terms, values: Callable[[], Residues]) -> None:
        self._session, self._terms, self._values = session, terms, values
        self._secrets = {number: _Secrets() for number in range(terms.slots)}  # of slots that are not over
        made = self._secrets.values()
        self.advert = Advert(
            session.channel,
            session.certificate(terms.digest),
            tuple(each.private.public_key().public_bytes_raw() for each in made),
            tuple(seed_hash(each.seed) for each in made),
        )
        self._steps: dict[int, Callable[[bytes], bytes]] = {Kind.ANNOUNCEMENT: self._share}
        self._state: dict[str, Any] = {}
        self._next, self._closed = 0, False

    def answer(self, message: bytes) -> bytes:
        """The answer to the server's next message. After an error there is none any more."""
        with self._until_an_error():
            return self._expected(message)(message)

    @property
    def over(self) -> bool:
        """Whether the inference has ended for this device: after the last answer of the last slot, or an error."""
        return self._closed

    @property
    def slot_over(self) -> bool:
        """Whether this device is in no slot: the inference is over, or waits for its next slot."""
        return self._closed or Kind.NEXT in self._steps

    def close(self) -> None:
        """Ends the inference for this device, and forgets its secrets, those of slots that were not held included."""
        self._closed, self._secrets = True, {}
        self._state.clear()

    def accept(self, message: bytes) -> tuple[bytes, int]:
        """Checks the announcement of the inference, or of its next slot. Returns inference and number of the slot.

        Depends on no value of this device. Raises ComplaintError where adverts of others do not hold, RefusedError for
        anything else; the inference is over then.
        """
        with self._until_an_error():
            self._expected(message)
            if kind_of(message) == Kind.NEXT:
                self._entered(message)
            else:
                self._join(message)
            return self._state["group"].inference, self._next

    @contextmanager
    def _until_an_error(self) -> Iterator[None]:
        if self._closed:
            raise RefusedError("this inference is over for this device")
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _expected(self, message: bytes) -> Callable[[bytes], bytes]:
        if (step := self._steps.get(kind_of(message))) is None:
            raise RefusedError(f"a message other than {' or '.join(Kind(kind).name for kind in self._steps)}")
        return step

    def _join(self, message: bytes) -> None:
        """Checks the group of the inference."""
        inference, adverts = messages.announced(message, self._terms.slots)
        me, group, terms = self._session.device, Group(inference, self._terms, adverts), self._terms.digest
        if adverts.get(me) != self.advert:
            raise RefusedError("the announcement does not have this device as it advertised itself")
        channels, faults = dict[int, bytes](), dict[int, str]()
        for peer, advert in adverts.items():
            if peer == me:
                continue
            try:
                channels[peer] = self._session.secret(peer, advert, terms)
                keys.require_sound(advert.mask_keys)
            except RefusedError as why:
                faults[peer] = str(why)
        if faults:
            accused = messages.subset(list(faults), group.devices)
            why = "; ".join(f"device {peer}: {each}" for peer, each in faults.items())
            raise ComplaintError(why, messages.pack(Kind.COMPLAINT, inference, accused))
        self._state = {"announced": message, "group": group, "channels": channels}

    def _share(self, message: bytes) -> bytes:
        if self._state.get("announced") != message:
            self._join(message)
        me, group = self._session.device, self._state["group"]
        self._state["both ways"] = {
            peer: keys.derived(secret, salt=group.transcript, label=b"shares", size=64)
            for peer, secret in self._state["channels"].items()
        }
        points = [device + 1 for device in group.devices]
        dealt: dict[int, list[bytes]] = {device: [] for device in group.devices}  # by slot: of key, of seed
        for made in self._secrets.values():
            for secret in (made.key, made.seed):
                each = shamir.shares(shamir.polynomial(secret, self._terms.survivors), points)
                for device, share in zip(group.devices, each, strict=True):
                    dealt[device].append(share.to_bytes(shamir.SIZE, "big"))
        sent = [
            self._cipher(me, device).encrypt(bytes(12), b"".join(some), None)
            for device, some in dealt.items()
            if device != me
        ]
        self._hold(me, dealt[me])
        self._steps = {Kind.SHARED: self._mask_first}
        hashes = (share_hash(share) for some in dealt.values() for share in some)
        return messages.pack(Kind.SHARES, group.inference, *sent, *hashes)

    def _hold(self, dealer: int, dealt: list[bytes]) -> None:
        for number, made in self._secrets.items():
            made.held[dealer] = dealt[2 * number], dealt[2 * number + 1]

    def _mask_first(self, message: bytes) -> bytes:
        """Opens the shares of all slots, and takes part in the first one."""
        group, me = self._state["group"], self._session.device
        slot = group.slot(0)
        sharing, rest = messages.chosen(messages.unpack(Kind.SHARED, slot.id, message), group.devices)
        self._require_enough(sharing, "devices shared")
        others = [device for device in sharing if device != me]
        size = traffic.ciphertext_size(self._terms.slots)
        each = messages.cut(rest, size + 2 * self._terms.slots * traffic.HASH, len(others))
        for device, dealt in zip(others, each, strict=True):
            if (shares := self._opened(device, dealt[:size], dealt[size:])) is not None:
                self._hold(device, shares)
        self._require_known(slot, sharing)
        return self._mask(slot, sharing)

    def _opened(self, device: int, sealed: bytes, hashes: bytes) -> list[bytes] | None:
        """The shares that a device has dealt to this one; None if they cannot be read, or have other hashes."""
        try:
            shares = self._cipher(device, self._session.device).decrypt(bytes(12), sealed, None)
        except InvalidTag:
            return None
        each = messages.cut(shares, shamir.SIZE)
        return each if b"".join(map(share_hash, each)) == hashes else None

    def _mask_next(self, message: bytes) -> bytes:
        return self._mask(*self._entered(message))

    def _entered(self, message: bytes) -> tuple[SlotContext, list[int]]:
        """The next slot, and who is in it: devices that survived the last one."""
        slot = self._state["group"].slot(self._next)
        sharing, rest = messages.chosen(messages.unpack(Kind.NEXT, slot.id, message), self._state["survivors"])
        if rest:
            raise RefusedError("a list of the devices of a slot that is too long")
        self._require_enough(sharing, "devices are in this slot")
        self._require_known(slot, sharing)
        return slot, sharing

    def _require_enough(self, some: list[int], what: str) -> None:
        if self._session.device not in some or len(some) < self._terms.survivors:
            raise RefusedError(f"{len(some)} {what}, must be {self._terms.survivors} or more, this device among them")

    def _require_known(self, slot: SlotContext, sharing: list[int]) -> None:
        """Raises RefusedError unless t of these devices have the same announcement: this one can read their shares."""
        unread = [device for device in sharing if device not in self._secrets[slot.number].held]
        if len(sharing) - len(unread) < self._terms.survivors:
            raise RefusedError(
                f"the shares of {len(unread)} devices are not what they sent to this one here: it is in "
                f"another group than they, and {self._terms.survivors} must be in one"
            )

    def _mask(self, slot: SlotContext, sharing: list[int]) -> bytes:
        me, secrets, ring = self._session.device, self._secrets[slot.number], self._terms.ring
        others, adverts = [device for device in sharing if device != me], self._state["group"].adverts
        pairs = {}
        for device in others:
            agreed = keys.agreed(secrets.private, adverts[device].mask_keys[slot.number])
            pairs[device] = masks.stream(pair_key(slot, agreed, me, device), ring, self._terms.dimension)
        own = masks.stream(own_key(slot, secrets.seed), ring, self._terms.dimension)
        self._state |= {"slot": slot, "sharing": sharing}
        sent = masks.masked(self._values(), own, me, pairs, ring)
        self._steps = {Kind.SURVIVORS: self._sign, Kind.SIGNED: self._reveal}
        unread = messages.subset([device for device in others if device not in secrets.held], sharing)
        return messages.pack(Kind.MASKED, slot.id, ring.to_bytes(sent), unread, self._signature(sharing))

    def _sign(self, message: bytes) -> bytes:
        slot = self._state["slot"]
        survivors, rest = messages.chosen(messages.unpack(Kind.SURVIVORS, slot.id, message), self._state["sharing"])
        if rest:
            raise RefusedError("a list of survivors that is too long")
        self._require_enough(survivors, "survivors")
        self._steps = {Kind.SIGNED: self._reveal}
        return messages.pack(Kind.SIGNATURE, slot.id, self._signature(survivors))

    def _signature(self, survivors: list[int]) -> bytes:
        """Signature on a list of survivors; from now on this device opens that list alone."""
        statement = self._state["slot"].statement(self._state["sharing"], survivors)
        self._state |= {"survivors": survivors, "statement": statement}
        return self._session.sign(statement)

    def _reveal(self, message: bytes) -> bytes:
        slot, survivors, statement = (self._state[name] for name in ("slot", "survivors", "statement"))
        signers, rest = messages.chosen(messages.unpack(Kind.SIGNED, slot.id, message), survivors)
        given = zip(signers, messages.cut(rest, traffic.SIGNATURE, len(signers)), strict=True)
        signed = 1  # its own
        for device, signature in given:
            if signed < self._terms.survivors and device != self._session.device:
                signed += self._session.signed(device, signature, statement)
        if signed < self._terms.survivors:
            raise RefusedError(
                f"{signed} signatures on this list of survivors, must be {self._terms.survivors} or more"
            )
        alive, held = set(survivors), self._secrets[slot.number].held
        shares = [held.get(device, _NONE)[device in alive] for device in self._state["sharing"]]
        self._leave(slot.number)
        return messages.pack(Kind.REVEALED, slot.id, *shares)

    def _leave(self, number: int) -> None:
        """Forgets the secrets of a slot, and waits for the next one, if there may be one."""
        del self._secrets[number]
        self._next = number + 1
        if self._next == self._terms.slots:
            self.close()
        else:
            self._steps = {Kind.NEXT: self._mask_next}

    def _cipher(self, sender: int, receiver: int) -> ChaCha20Poly1305:
        """The cipher for the one message from a device to another in this inference: its key is used once."""
        both = self._state["both ways"][receiver if sender == self._session.device else sender]
        return ChaCha20Poly1305(both[:32] if sender < receiver else both[32:])
