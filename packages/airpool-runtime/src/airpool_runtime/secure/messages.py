"""Messages: bytes in, bytes out. Each begins with its kind and an id, and has exactly one length that is right.

    server → device                                       device → server
    ANNOUNCEMENT  who is ready, with their adverts        SHARES     one ciphertext for every other device, and hashes
                                                       or COMPLAINT  whose adverts do not hold; no part in the inference
    SHARED        who shared, ciphertexts and hashes      MASKED     the masked values, a signature on this list,
 or NEXT          who is in the next slot                            and whose shares cannot be read
    SURVIVORS     who survived, if not all of them        SIGNATURE  on this list
    SIGNED        the signatures                          REVEALED   a share for every device: of key or of seed

An advert comes before: it is what a device says when it declares itself ready. Adverts and shares are for all slots of
an inference at once. SHARED begins the first slot, NEXT each further one. The id is that of the inference until then,
and that of the slot from there on.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Self

from airpool._support.errors import AirpoolError
from airpool.protocol.traffic import KEY, advert_size

_HEAD = struct.Struct(">B16s")
_CERTIFIED = struct.Struct("32s64s")


class RefusedError(AirpoolError):
    """A device or the server does not go on: what it was sent is not what the protocol allows."""


class ComplaintError(RefusedError):
    """A device does not take part because of other devices' adverts. complaint: what it answers to the server."""

    def __init__(self, why: str, complaint: bytes) -> None:
        super().__init__(why)
        self.complaint = complaint


class Kind(IntEnum):
    ANNOUNCEMENT = 1
    SHARES = 2
    SHARED = 3
    MASKED = 4
    SURVIVORS = 5
    SIGNATURE = 6
    SIGNED = 7
    REVEALED = 8
    COMPLAINT = 9
    NEXT = 10


class Advert(NamedTuple):
    """Advert of a device: its channel key, signed by its identity; for each slot a mask key and the hash of a seed."""

    channel: bytes
    certificate: bytes
    mask_keys: tuple[bytes, ...]
    seed_hashes: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        pairs = zip(self.mask_keys, self.seed_hashes, strict=True)
        return _CERTIFIED.pack(self.channel, self.certificate) + b"".join(part for pair in pairs for part in pair)

    @classmethod
    def from_bytes(cls, data: bytes, slots: int) -> Self:
        if len(data) != advert_size(slots):
            raise RefusedError(f"an advert of {len(data)} bytes, must be {advert_size(slots)}")
        (channel, certificate), parts = _CERTIFIED.unpack_from(data), cut(data[_CERTIFIED.size :], KEY)
        return cls(channel, certificate, tuple(parts[::2]), tuple(parts[1::2]))


def pack(kind: Kind, id: bytes, *parts: bytes) -> bytes:
    return b"".join((_HEAD.pack(kind, id), *parts))


def kind_of(data: bytes) -> int:
    """The kind of a message; 0 where there is none."""
    return data[0] if data else 0


def unpack(kind: Kind, id: bytes, data: bytes) -> bytes:
    """The body of a message of this kind and id; an error for any other."""
    if len(data) < _HEAD.size:
        raise RefusedError(f"a message of {len(data)} bytes")
    found, of = _HEAD.unpack_from(data)
    if found != kind:
        raise RefusedError(f"a message of kind {found}, must be {kind.name}")
    if of != id:
        raise RefusedError(f"a message of another inference or slot: {of.hex()}, must be {id.hex()}")
    return data[_HEAD.size :]


def announced(data: bytes, slots: int) -> tuple[bytes, dict[int, Advert]]:
    """The inference of an announcement, and the adverts of the ready by device."""
    if len(data) < _HEAD.size:
        raise RefusedError(f"an announcement of {len(data)} bytes")
    inference = _HEAD.unpack_from(data)[1]
    each = cut(unpack(Kind.ANNOUNCEMENT, inference, data), 2 + advert_size(slots))
    adverts = {int.from_bytes(one[:2], "big"): Advert.from_bytes(one[2:], slots) for one in each}
    if len(adverts) < len(each):
        raise RefusedError("an announcement names a device twice")
    return inference, adverts


def announcement(inference: bytes, adverts: dict[int, Advert]) -> bytes:
    each = (device.to_bytes(2, "big") + advert.to_bytes() for device, advert in adverts.items())
    return pack(Kind.ANNOUNCEMENT, inference, *each)


def cut(body: bytes, size: int, number: int | None = None) -> list[bytes]:
    """A body as pieces of one size; an error unless it is made of them, `number` where that is given."""
    if len(body) % size or (number is not None and len(body) != number * size):
        raise RefusedError(
            f"a body of {len(body)} bytes, must be {'a multiple' if number is None else number} of {size}"
        )
    return [body[start : start + size] for start in range(0, len(body), size)]


def subset(some: Sequence[int], of: Sequence[int]) -> bytes:
    """Bit mask of a subset of a list, one bit per member.

    >>> subset([2, 7], [0, 2, 4, 7]).hex()
    '0a'
    """
    chosen = set(some)
    bits = sum(1 << place for place, device in enumerate(of) if device in chosen)
    return bits.to_bytes((len(of) + 7) // 8, "big")


def chosen(body: bytes, of: Sequence[int]) -> tuple[list[int], bytes]:
    """The inverse of `subset`, and what follows it."""
    size = (len(of) + 7) // 8
    bits = int.from_bytes(body[:size], "big")
    if len(body) < size or bits >> len(of):
        raise RefusedError("a list that names devices beyond those it may name")
    return [device for place, device in enumerate(of) if bits >> place & 1], body[size:]
