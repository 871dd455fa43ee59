"""One device in one inference: a state machine that takes each step once, in order, and ends at the first error.

    advertise   a fresh mask key and seed
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
from airpool.runtime.secure.messages import Advert, Kind, RefusedError, kind_of
from airpool.runtime.secure.ring import Residues

_SEED, _MASK = b"airpool own mask 1", b"airpool pairwise mask 1"


class Client:
    """A device's part. `values` is called once, when the masked values are sent: residues of length r."""

    def __init__(self, session: Session, terms: Terms, values: Callable[[], Residues]) -> None:
        self._session, self._terms, self._values = session, terms, values
        self._key, self._seed = shamir.random_element(), shamir.random_element()
        private = keys.mask_key(self._key)
        self.advert = Advert(
            session.channel,
            session.certificate,
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

    def _share(self, message: bytes) -> bytes:
        inference, adverts = messages.announced(message)
        me, group = self._session.device, Group(inference, self._terms, adverts)
        if adverts.get(me) != self.advert:
            raise RefusedError("the announcement does not have this device as it advertised itself")
        both = {
            peer: keys.derived(
                self._session.secret(peer, advert.channel, advert.certificate),
                salt=group.transcript,
                label=b"shares",
                size=64,
            )
            for peer, advert in adverts.items()
            if peer != me
        }
        self._state |= {"group": group, "both ways": both}
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
        return messages.pack(Kind.SHARES, inference, *sent, *hashes)

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
        for device, sealed in zip(others, messages.cut(rest, messages.CIPHERTEXT, len(others)), strict=True):
            try:
                both = self._cipher(device, me).decrypt(bytes(12), sealed, None)
            except InvalidTag:
                raise RefusedError(f"the shares of device {device} are not what it sent to this one here") from None
            held[device] = both[: shamir.SIZE], both[shamir.SIZE :]
        ring, size = self._terms.ring, self._terms.dimension
        pairs = {
            device: masks.stream(pair_key(group, self._state["private"], me, device), ring, size) for device in others
        }
        own = masks.stream(own_key(group, self._seed), ring, size)
        self._state |= {"sharing": sharing, "held": held}
        sent = masks.masked(self._values(), own, me, pairs, ring)
        self._steps = {Kind.SURVIVORS: self._sign, Kind.SIGNED: self._reveal}
        return messages.pack(Kind.MASKED, group.inference, ring.to_bytes(sent), self._signature(sharing))

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
        shares = [held[device][device in alive] for device in self._state["sharing"]]
        self.close()
        return messages.pack(Kind.REVEALED, group.inference, *shares)

    def _cipher(self, sender: int, receiver: int) -> ChaCha20Poly1305:
        """The cipher for the one message from a device to another in this inference: its key is used once."""
        both = self._state["both ways"][receiver if sender == self._session.device else sender]
        return ChaCha20Poly1305(both[:32] if sender < receiver else both[32:])


def own_key(group: Group, seed: int) -> bytes:
    """The key of β, from the seed."""
    return keys.derived(seed.to_bytes(shamir.SIZE, "big"), salt=group.transcript, label=_SEED)


def pair_key(group: Group, private: Any, device: int, other: int) -> bytes:
    """The key of the mask that two devices share, from the mask key of one and the other's advert."""
    label = b"%b %d %d" % (_MASK, *sorted((device, other)))
    return keys.agreed(private, group.adverts[other].mask_key, salt=group.transcript, label=label)


def seed_hash(seed: int) -> bytes:
    return hashlib.sha256(b"airpool seed 1" + seed.to_bytes(shamir.SIZE, "big")).digest()


def share_hash(share: bytes) -> bytes:
    """Hash by which the server recognises a false share."""
    return hashlib.sha256(b"airpool share 1" + share).digest()[: messages.HASH]
