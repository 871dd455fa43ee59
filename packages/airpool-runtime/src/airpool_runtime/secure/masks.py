"""Masks: their keys, keystreams as residues, and what a device adds to its values (docs/howto/secure-sum.md).

    y_k = v_k + β_k + Σ_{j>k} M_kj − Σ_{j<k} M_kj        modulo 2^B

M_kj = M_jk comes from the key that two devices agree on, β_k from a seed of device k. In the sum over all devices the
M cancel. β_k stays: a device whose values arrive late, after its key was given out, is still covered by it.
"""

import hashlib
from collections.abc import Mapping

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from airpool.protocol import traffic
from airpool.protocol.ring import Residues, Ring
from airpool_runtime.secure import keys, shamir
from airpool_runtime.secure.group import SlotContext

_SEED, _MASK = b"airpool own mask 1", b"airpool pairwise mask 1"


def own_key(slot: SlotContext, seed: int) -> bytes:
    """The key of β, from the seed."""
    return keys.derived(seed.to_bytes(shamir.SIZE, "big"), salt=slot.salt, label=_SEED)


def pair_key(slot: SlotContext, secret: bytes, device: int, other: int) -> bytes:
    """The key of the mask that two devices share, from what their mask keys agree on."""
    label = b"%b %d %d" % (_MASK, *sorted((device, other)))
    return keys.derived(secret, salt=slot.salt, label=label)


def seed_hash(seed: int) -> bytes:
    return hashlib.sha256(b"airpool seed 1" + seed.to_bytes(shamir.SIZE, "big")).digest()


def share_hash(share: bytes) -> bytes:
    """Hash by which the server recognises a false share."""
    return hashlib.sha256(b"airpool share 1" + share).digest()[: traffic.HASH]


def stream(key: bytes, ring: Ring, dimension: int) -> Residues:
    """ChaCha20's keystream of a key that is used for nothing else, as residues."""
    size = dimension * ring.wire.itemsize
    return ring.from_bytes(Cipher(ChaCha20(key, bytes(16)), None).encryptor().update(bytes(size)))


def pairwise(device: int, masks: Mapping[int, Residues]) -> Residues:
    """Σ_{j>k} M_kj − Σ_{j<k} M_kj of device k, modulo 2^64; `masks` has M_kj by j.

    >>> int(pairwise(1, {0: np.uint64(5), 2: np.uint64(7)}))
    2
    """
    total = np.uint64(0)
    with np.errstate(over="ignore"):
        for other, mask in masks.items():
            total = total + mask if other > device else total - mask
    return total  # pyright: ignore[reportReturnType]


def masked(values: Residues, own: Residues, device: int, masks: Mapping[int, Residues], ring: Ring) -> Residues:
    """y_k: what device k sends."""
    with np.errstate(over="ignore"):
        return ring.reduced(values + own + pairwise(device, masks))


def unmasked(
    total: Residues, own: Mapping[int, Residues], lost: Mapping[int, Mapping[int, Residues]], ring: Ring
) -> Residues:
    """The survivors' sum of values from the sum of what they sent.

    own: β of every survivor. lost: of every device that vanished, its M with the survivors.
    """
    with np.errstate(over="ignore"):
        for mask in own.values():
            total = total - mask
        for device, masks in lost.items():
            total = total + pairwise(device, masks)
    return ring.reduced(total)
