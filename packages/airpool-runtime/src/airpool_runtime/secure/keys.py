"""Keys of a device: its identity for good, a channel key for a session, a mask key and a seed for one slot.

identity     Ed25519. Its public half is in the roster that every device has from whoever runs the fleet, not from the
             server: a server that issues identities could invent devices.
channel key  X25519, made when the device starts and signed by its identity, together with the device's terms. Two of
             them agree on a secret, under which shares travel. It is never shared out, so it need not be fresh for
             every inference.
mask key     X25519, fresh for every slot of an inference. It is shared out, and reconstructed if its device vanishes.

Channel and mask keys are two keys on purpose. With one for both, whoever reconstructs the key of a device that was
named dead could also read the shares of its seed, and open what it had sent.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from airpool_runtime.secure.messages import Advert, RefusedError
from airpool_runtime.secure.shamir import SIZE

Roster = Sequence[bytes | None]  # public identities by device; None: of one that is revoked, and in no sum

_CHANNEL = b"airpool secure channel 2"
_FIELD = 2**255 - 19
# u of every point of order 1, 2, 4 and 8, on the curve and on its twist.
_EIGHTH = 325606250916557431795983626356110631294008115727848805560023387167927233504
_SMALL = {0, 1, _FIELD - 1, _EIGHTH, pow(_EIGHTH, -1, _FIELD)}


def public_bytes(identity: Ed25519PrivateKey) -> bytes:
    """An identity as it stands in a roster: 32 bytes."""
    return identity.public_key().public_bytes_raw()


def mask_key(element: int) -> X25519PrivateKey:
    """The private key that a field element is."""
    return X25519PrivateKey.from_private_bytes(element.to_bytes(SIZE, "little"))


def agreed(private: X25519PrivateKey, public: bytes) -> bytes:
    """The secret that two devices agree on, for `derived`: X25519."""
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise RefusedError("a public key of small order or of a wrong size") from None


def derived(secret: bytes, *, salt: bytes, label: bytes, size: int = 32) -> bytes:
    return HKDF(hashes.SHA256(), size, salt, label).derive(secret)


class Session:
    """A device's keys while it runs: who it is, who the others are, and what it has agreed on with each.

    roster: the public identities, or a function that returns the newest ones.
    """

    def __init__(self, device: int, identity: Ed25519PrivateKey, roster: Roster | Callable[[], Roster]) -> None:
        self._newest = roster if callable(roster) else lambda: roster
        self._roster = self._newest()
        if not 0 <= device < len(self._roster) or public_bytes(identity) != self._roster[device]:
            raise ValueError(f"the roster of {len(self._roster)} identities does not have this one as device {device}")
        known = [public for public in self._roster if public is not None]
        if len(set(known)) < len(known):
            raise ValueError("two devices of the roster have the same identity")
        self.device, self._identity, self._channel = device, identity, X25519PrivateKey.generate()
        self.channel = self._channel.public_key().public_bytes_raw()
        self._certificates: dict[bytes, bytes] = {}
        self._agreed: dict[int, tuple[tuple[bytes, bytes, bytes], bytes]] = {}

    def renew(self) -> None:
        """Takes the newest roster. What was agreed on with a device of another identity is forgotten."""
        if (newest := self._newest()) is not self._roster:
            self._agreed = {k: known for k, known in self._agreed.items() if newest[k] == self._roster[k]}
            self._roster = newest

    def sign(self, message: bytes) -> bytes:
        return self._identity.sign(message)

    def signed(self, peer: int, signature: bytes, message: bytes) -> bool:
        """Whether a peer has signed the message."""
        return verified(self._roster[peer], signature, message)

    def certificate(self, terms: bytes) -> bytes:
        """The signature on the channel key, for terms with this digest."""
        if terms not in self._certificates:
            self._certificates = {terms: self.sign(_certified(self.device, self.channel, terms))}
        return self._certificates[terms]

    def secret(self, peer: int, advert: Advert, terms: bytes) -> bytes:
        """Secret shared by this device and a peer; a certificate is checked once."""
        known, shown = self._agreed.get(peer), (advert.channel, advert.certificate, terms)
        if known is not None and known[0] == shown:
            return known[1]
        require_certified(self._roster[peer], peer, advert, terms)
        low, high = sorted((self.device, peer))
        secret = agreed(self._channel, advert.channel)
        found = derived(secret, salt=_CHANNEL, label=b"%d %d" % (low, high))
        self._agreed[peer] = shown, found
        return found


def require_certified(identity: bytes | None, device: int, advert: Advert, terms: bytes) -> None:
    """Raises RefusedError unless an advert's channel key is signed by the device's identity, for terms of this digest.

    identity: None where the device is in no sum.
    """
    if not _holds(identity, advert.certificate, _certified(device, advert.channel, terms)):
        raise RefusedError(f"the channel key of device {device} is not signed by its identity for these terms")


def verified(identity: bytes | None, signature: bytes, message: bytes) -> bool:
    """Whether a public identity has signed the message."""
    try:
        if identity is None:
            return False
        _public(identity).verify(signature, message)
    except InvalidSignature:
        return False
    return True


_holds = lru_cache(maxsize=4096)(verified)  # of certificates, which stay the same as long as a device runs


@lru_cache(maxsize=2048)
def _public(identity: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(identity)


def small_order(public: bytes) -> bool:
    """Whether an X25519 public key is a point of small order: every agreement with it is zero (RFC 7748, section 6)."""
    return int.from_bytes(public, "little") % 2**255 % _FIELD in _SMALL


def require_sound(public: Sequence[bytes]) -> None:
    """Raises RefusedError if a public key is of small order."""
    if any(map(small_order, public)):
        raise RefusedError("an advert with a key of small order")


def _certified(device: int, channel: bytes, terms: bytes) -> bytes:
    return b"%b %d " % (_CHANNEL, device) + channel + terms
