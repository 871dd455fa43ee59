"""One device in one inference: a state machine that takes each step once, in order, and ends at the first error.

    advertise   a fresh mask key and seed
    accept      the announced group: adverts, certificates and keys, before anything is charged
    share       t-of-n shares of both, encrypted for every other device
    mask        the values, masked, with a signature on the list of all who shared
    sign        if some of them vanished: one shorter list of survivors
    reveal      with t signatures on the list: for each device a share of its key or of its seed, never both

Shares are given out once, for one of the two lists. So at most one sum can be opened (docs/secure-sum.md). Keys, seed
and shares are of this inference alone. A new inference takes a new Client.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from airpool.runtime.secure import keys, masks, messages, shamir
from airpool.runtime.secure.group import Group, Terms
from airpool.runtime.secure.keys import Session
from airpool.runtime.secure.messages import Advert, ComplaintError, Kind, RefusedError, kind_of
from airpool.runtime.secure.ring import Residues

_SEED, _MASK = b"airpool own mask 1", b"airpool pairwise mask 1"
_NONE = bytes(shamir.SIZE), bytes(shamir.SIZE)  # in place of shares that could not be read


class Client:
    """A device's part. `values` is called once, when the masked values are sent: residues of length r."""

    def __init__(self, session: Session, terms: Terms, values: Callable[[], Residues]) -> None:
        self._session, self._terms, self._values = session, terms, values
        self._key, self._seed = shamir.random_element(), shamir.random_element()
        private = keys.mask_key(self._key)
        self.advert = Advert(
            session.channel,
            session.certificate(terms.digest),
            private.public_key().public_bytes_raw(),
            seed_hash(self._seed),
        )
        self._steps: dict[int, Callable[[bytes], bytes]] = {Kind.ANNOUNCEMENT: self._share}
        self._state: dict[str, Any] = {"private": private}
        self._closed = False

    def answer(self, message: bytes) -> bytes:
        """The answer to the server's next message. After an error there is none any more."""
        if self._closed:
            raise RefusedError("this inference is over for this device")
        try:
            step = self._steps.get(kind_of(message))
            if step is None:
                raise RefusedError(f"a message other than {' or '.join(Kind(kind).name for kind in self._steps)}")
            return step(message)
        except BaseException:
            self.close()
            raise

    @property
    def over(self) -> bool:
        """Whether the inference has ended for this device: after the last answer, or an error."""
        return self._closed

    def close(self) -> None:
        """Ends the inference for this device, and forgets its secrets."""
        self._closed, self._key, self._seed = True, 0, 0
        self._state.clear()

    def accept(self, message: bytes) -> bytes:
        """Checks the announcement: its group, and each advert's certificate and keys. Returns the inference.

        Depends on no value of this device. Raises ComplaintError where adverts of others do not hold, RefusedError for
        anything else; the inference is over then.
        """
        try:
            return self._accepted(message)
        except BaseException:
            self.close()
            raise

    def _accepted(self, message: bytes) -> bytes:
        inference, adverts = messages.announced(message)
        me, group, terms = self._session.device, Group(inference, self._terms, adverts), self._terms.digest
        if adverts.get(me) != self.advert:
            raise RefusedError("the announcement does not have this device as it advertised itself")
        channels, pairs, faults = dict[int, bytes](), dict[int, bytes](), dict[int, str]()
        for peer, advert in adverts.items():
            if peer == me:
                continue
            try:
                channels[peer] = self._session.secret(peer, advert, terms)
                pairs[peer] = keys.agreed(self._state["private"], advert.mask_key)
            except RefusedError as why:
                faults[peer] = str(why)
        if faults:
            accused = messages.subset(list(faults), group.devices)
            why = "; ".join(f"device {peer}: {each}" for peer, each in faults.items())
            raise ComplaintError(why, messages.pack(Kind.COMPLAINT, inference, accused))
        self._state |= {"announced": message, "group": group, "channels": channels, "pairs": pairs}
        return inference

    def _share(self, message: bytes) -> bytes:
        if self._state.get("announced") != message:
            self._accepted(message)
        me, group = self._session.device, self._state["group"]
        self._state["both ways"] = {
            peer: keys.derived(secret, salt=group.transcript, label=b"shares", size=64)
            for peer, secret in self._state["channels"].items()
        }
        points = [device + 1 for device in group.devices]
        dealt = [
            [
                share.to_bytes(shamir.SIZE, "big")
                for share in shamir.shares(shamir.polynomial(s, self._terms.survivors), points)
            ]
            for s in (self._key, self._seed)
        ]
        own: tuple[bytes, bytes] = (b"", b"")
        sent, hashes = [], []
        for device, key_share, seed_share in zip(group.devices, *dealt, strict=True):
            hashes += [share_hash(key_share), share_hash(seed_share)]
            if device == me:
                own = key_share, seed_share
            else:
                sent.append(self._cipher(me, device).encrypt(bytes(12), key_share + seed_share, None))
        self._state["own"] = own
        self._steps = {Kind.SHARED: self._mask}
        return messages.pack(Kind.SHARES, group.inference, *sent, *hashes)

    def _mask(self, message: bytes) -> bytes:
        group, me = self._state["group"], self._session.device
        body = messages.unpack(Kind.SHARED, group.inference, message)
        sharing, rest = messages.chosen(body, group.devices)
        if me not in sharing or len(sharing) < self._terms.survivors:
            raise RefusedError(
                f"{len(sharing)} devices shared, must be {self._terms.survivors} or more, this one among them"
            )
        others = [device for device in sharing if device != me]
        held = {me: self._state["own"]}
        size = messages.CIPHERTEXT + 2 * messages.HASH
        for device, dealt in zip(others, messages.cut(rest, size, len(others)), strict=True):
            if (pair := self._opened(device, dealt)) is not None:
                held[device] = pair
        if len(held) < self._terms.survivors:
            raise RefusedError(
                f"the shares of {len(sharing) - len(held)} devices are not what they sent to this one here: it is in "
                f"another group than they, and {self._terms.survivors} must be in one"
            )
        ring, size = self._terms.ring, self._terms.dimension
        pairs = {
            device: masks.stream(pair_key(group, self._state["pairs"][device], me, device), ring, size)
            for device in others
        }
        own = masks.stream(own_key(group, self._seed), ring, size)
        self._state |= {"sharing": sharing, "held": held}
        sent = masks.masked(self._values(), own, me, pairs, ring)
        self._steps = {Kind.SURVIVORS: self._sign, Kind.SIGNED: self._reveal}
        unread = messages.subset([device for device in others if device not in held], sharing)
        return messages.pack(Kind.MASKED, group.inference, ring.to_bytes(sent), unread, self._signature(sharing))

    def _opened(self, device: int, dealt: bytes) -> tuple[bytes, bytes] | None:
        """The shares that a device has dealt to this one; None if they cannot be read, or have other hashes."""
        sealed, hashes = dealt[: messages.CIPHERTEXT], dealt[messages.CIPHERTEXT :]
        try:
            both = self._cipher(device, self._session.device).decrypt(bytes(12), sealed, None)
        except InvalidTag:
            return None
        pair = both[: shamir.SIZE], both[shamir.SIZE :]
        return pair if share_hash(pair[0]) + share_hash(pair[1]) == hashes else None

    def _sign(self, message: bytes) -> bytes:
        group, sharing = self._state["group"], self._state["sharing"]
        body = messages.unpack(Kind.SURVIVORS, group.inference, message)
        survivors, rest = messages.chosen(body, sharing)
        if rest or self._session.device not in survivors or len(survivors) < self._terms.survivors:
            raise RefusedError(
                f"{len(survivors)} survivors, must be {self._terms.survivors} or more, this device among them"
            )
        self._steps = {Kind.SIGNED: self._reveal}
        return messages.pack(Kind.SIGNATURE, group.inference, self._signature(survivors))

    def _signature(self, survivors: list[int]) -> bytes:
        """Signature on a list of survivors; from now on this device opens that list alone."""
        statement = self._state["group"].statement(self._state["sharing"], survivors)
        self._state |= {"survivors": survivors, "statement": statement}
        return self._session.sign(statement)

    def _reveal(self, message: bytes) -> bytes:
        group, survivors, statement = (self._state[name] for name in ("group", "survivors", "statement"))
        body = messages.unpack(Kind.SIGNED, group.inference, message)
        signers, rest = messages.chosen(body, survivors)
        given = zip(signers, messages.cut(rest, messages.SIGNATURE, len(signers)), strict=True)
        signed = 1  # its own
        for device, signature in given:
            if signed < self._terms.survivors and device != self._session.device:
                signed += self._session.signed(device, signature, statement)
        if signed < self._terms.survivors:
            raise RefusedError(
                f"{signed} signatures on this list of survivors, must be {self._terms.survivors} or more"
            )
        alive, held = set(survivors), self._state["held"]
        shares = [held.get(device, _NONE)[device in alive] for device in self._state["sharing"]]
        self.close()
        return messages.pack(Kind.REVEALED, group.inference, *shares)

    def _cipher(self, sender: int, receiver: int) -> ChaCha20Poly1305:
        """The cipher for the one message from a device to another in this inference: its key is used once."""
        both = self._state["both ways"][receiver if sender == self._session.device else sender]
        return ChaCha20Poly1305(both[:32] if sender < receiver else both[32:])


def own_key(group: Group, seed: int) -> bytes:
    """The key of β, from the seed."""
    return keys.derived(seed.to_bytes(shamir.SIZE, "big"), salt=group.transcript, label=_SEED)


def pair_key(group: Group, secret: bytes, device: int, other: int) -> bytes:
    """The key of the mask that two devices share, from what their mask keys agree on."""
    label = b"%b %d %d" % (_MASK, *sorted((device, other)))
    return keys.derived(secret, salt=group.transcript, label=label)


def seed_hash(seed: int) -> bytes:
    return hashlib.sha256(b"airpool seed 1" + seed.to_bytes(shamir.SIZE, "big")).digest()


def share_hash(share: bytes) -> bytes:
    """Hash by which the server recognises a false share."""
    return hashlib.sha256(b"airpool share 1" + share).digest()[: messages.HASH]
