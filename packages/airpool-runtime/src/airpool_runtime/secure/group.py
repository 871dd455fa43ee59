"""Terms of a device for a secure sum, and the devices of one inference, bound together by a hash.

Of K devices, d may be missing and c may collude with the server. The sum is opened for at least t = K − d survivors.
Two lists of survivors, each with t signatures, would need 2t ≤ K + c (the honest sign one list, colluders both): hence
2t > K + c.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from airpool.network import Network, Slots
from airpool.network import file as network_file
from airpool.protocol.ring import Ring, ring_of
from airpool.protocol.traffic import ID, require_limits
from airpool_runtime.secure.messages import Advert, RefusedError

_VERSION = b"airpool secure sum 3"


@dataclass(frozen=True)
class Terms:
    """Terms that a device accepts, from its own configuration, never the server's.

    survivors: t, the fewest devices whose sum is opened. quorum: the fewest that must be ready, from t to K.
    colluders: how many may work with the server. network: a hash of all that is public besides.
    slots: the most slots of one inference.
    """

    num_devices: int
    survivors: int
    quorum: int
    colluders: int
    dimension: int
    ring: Ring
    network: bytes = b""
    slots: int = 1

    def __post_init__(self) -> None:
        count, t = self.num_devices, self.survivors
        require_limits(count, t, self.colluders, self.slots)
        if not t <= self.quorum <= count:
            raise ValueError(f"quorum={self.quorum} must be from the {t} survivors to the {count} devices")

    @cached_property
    def digest(self) -> bytes:
        numbers = (self.num_devices, self.survivors, self.quorum, self.colluders, self.dimension, self.slots)
        return _hash(repr((*numbers, self.ring.step.hex(), self.ring.bits)).encode(), self.network)


@lru_cache(maxsize=64)
def terms_of(network: Network, *, quorum: int | None = None) -> Terms:
    """The terms of a network: t is the number of its devices less its dropouts. quorum: by default, all devices.

    When the server is sure is its own choice.
    """
    count, slots = network.devices.count, Slots(network.slots.count, redrawn=network.slots.redrawn)
    return Terms(
        num_devices=count,
        survivors=count - network.dropouts,
        quorum=count if quorum is None else quorum,
        colluders=network.colluders,
        dimension=network.dimension,
        ring=ring_of(network),
        network=_hash(network_file.dump(replace(network, slots=slots)).encode()),
        slots=network.slots.count,
    )


def inference_of(id: str) -> bytes:
    """The 16 bytes that stand for the id of an inference in every message."""
    return _hash(b"inference", id.encode())[:ID]


@dataclass(frozen=True)
class Group:
    """The devices of one inference with what each advertised, in ascending order.

    transcript: a hash of all that the devices must agree on. Every key of the inference depends on it, so that nothing
    of one inference, group or set of terms is of use in another. No mask key stands twice, of two devices or two slots.
    """

    inference: bytes
    terms: Terms
    adverts: dict[int, Advert]

    def __post_init__(self) -> None:
        devices, quorum, count = self.devices, self.terms.quorum, self.terms.num_devices
        if not quorum <= len(devices) <= count:
            raise RefusedError(f"{len(devices)} devices are ready, must be from {quorum} to {count}")
        if sorted(devices) != devices or devices[-1] >= count:
            raise RefusedError(f"the ready devices must ascend from 0 to {count - 1}")
        advertised = [key for advert in self.adverts.values() for key in advert.mask_keys]
        if len(set(advertised)) < len(advertised):
            raise RefusedError("the same mask key is advertised twice, by two devices or for two slots")

    @property
    def devices(self) -> list[int]:
        return list(self.adverts)

    @cached_property
    def transcript(self) -> bytes:
        each = (_short(device) + advert.to_bytes() for device, advert in self.adverts.items())
        return _hash(_VERSION, self.inference, self.terms.digest, *each)

    def slot(self, number: int) -> "SlotContext":
        return SlotContext(number, slot_id(self.inference, number), _hash(b"slot", self.transcript, _short(number)))


@dataclass(frozen=True)
class SlotContext:
    """One slot of an inference. id: in its messages. salt: of transcript and number, for its keys and statements.

    So nothing of one slot, no mask, message or signature, is of use in another.
    """

    number: int
    id: bytes
    salt: bytes

    def statement(self, sharing: list[int], survivors: list[int]) -> bytes:
        """The statement that a device signs: the slot, the devices that are in it, and those that survived."""
        lists = (b"".join(map(_short, some)) for some in (sharing, survivors))
        return _hash(b"survivors", self.salt, *lists)


def slot_id(inference: bytes, number: int) -> bytes:
    """The 16 bytes that stand for a slot of an inference in its messages."""
    return _hash(b"slot", inference, _short(number))[:ID]


def _short(number: int) -> bytes:
    return number.to_bytes(2, "big")


def _hash(*parts: bytes) -> bytes:
    """SHA-256 of parts, each with its length, so that no two lists of parts look alike."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.digest()
