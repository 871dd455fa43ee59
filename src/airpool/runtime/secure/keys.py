"""Keys of a device: its identity for good, a channel key for a session, a mask key and a seed for one inference.

identity     Ed25519. Its public half is in the roster that every device has from whoever runs the fleet, not from the
             server: a server that issues identities could invent devices.
channel key  X25519, made when the device starts and signed by its identity. Two of them agree on a secret, under which
             shares travel. It is never shared out, so it need not be fresh for every inference.
mask key     X25519, fresh for every inference. It is shared out, and reconstructed if its device vanishes.

Channel and mask keys are two keys on purpose. With one for both, whoever reconstructs the key of a device that was
named dead could also read the shares of its seed, and open what it had sent.
"""

from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from airpool.runtime.secure.messages import RefusedError
from airpool.runtime.secure.shamir import SIZE

_CHANNEL = b"airpool secure channel 1"


def public_bytes(identity: Ed25519PrivateKey) -> bytes:
    """An identity as it stands in a roster: 32 bytes."""
    return identity.public_key().public_bytes_raw()


def mask_key(element: int) -> X25519PrivateKey:
    """The private key that a field element is."""
    return X25519PrivateKey.from_private_bytes(element.to_bytes(SIZE, "little"))


def agreed(private: X25519PrivateKey, public: bytes, *, salt: bytes, label: bytes) -> bytes:
    """A key of 32 bytes that two devices agree on: X25519, then HKDF."""
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise RefusedError("a public key of small order or of a wrong size") from None
    return derived(shared, salt=salt, label=label)


def derived(secret: bytes, *, salt: bytes, label: bytes, size: int = 32) -> bytes:
    return HKDF(hashes.SHA256(), size, salt, label).derive(secret)


class Session:
    """A device's keys while it runs: who it is, who the others are, and what it has agreed on with each."""

    def __init__(self, device: int, identity: Ed25519PrivateKey, roster: Sequence[bytes]) -> None:
        if not 0 <= device < len(roster) or public_bytes(identity) != roster[device]:
            raise ValueError(f"the roster of {len(roster)} identities does not have this one as device {device}")
        if len(set(roster)) < len(roster):
            raise ValueError("two devices of the roster have the same identity")
        self.device, self._roster = device, [Ed25519PublicKey.from_public_bytes(public) for public in roster]
        self._identity, self._channel = identity, X25519PrivateKey.generate()
        self.channel = self._channel.public_key().public_bytes_raw()
        self.certificate = self.sign(_certified(device, self.channel))
        self._agreed: dict[int, tuple[bytes, bytes]] = {}

    def sign(self, message: bytes) -> bytes:
        return self._identity.sign(message)

    def signed(self, peer: int, signature: bytes, message: bytes) -> bool:
        """Whether a peer has signed the message."""
        try:
            self._roster[peer].verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def secret(self, peer: int, channel: bytes, certificate: bytes) -> bytes:
        """Secret shared by this device and a peer; the certificate is checked once for every channel key."""
        known = self._agreed.get(peer)
        if known is not None and known[0] == channel:
            return known[1]
        if not self.signed(peer, certificate, _certified(peer, channel)):
            raise RefusedError(f"the channel key of device {peer} is not signed by its identity")
        low, high = sorted((self.device, peer))
        found = agreed(self._channel, channel, salt=_CHANNEL, label=b"%d %d" % (low, high))
        self._agreed[peer] = channel, found
        return found


def _certified(device: int, channel: bytes) -> bytes:
    return b"%b %d " % (_CHANNEL, device) + channel
