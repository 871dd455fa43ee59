"""Rows that are tied to each other by hashes and signed by the device, and what is wrong with a list of them."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from airpool_runtime.ledger.clock import Moment

_CONTEXT = b"airpool ledger 1\n"


@dataclass(frozen=True)
class Origin:
    """Start of a ledger: a number that no other ledger has, the device's name and its public key (hex)."""

    ledger: str
    device: str
    key: str

    @property
    def hash(self) -> str:
        return _hashed("origin", *astuple(self))

    @property
    def public_key(self) -> Ed25519PublicKey:
        try:
            return Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key))
        except ValueError:
            raise ValueError("the key that the ledger names is none: its origin was changed") from None


class Row(NamedTuple):
    """One inference that was charged. Hashes and the signature are hexadecimal; times are those of `clock.Moment`.

    epoch: names the draw of the channel, as long as it stands still; "": unknown, so it counts as a draw of its own.
    """

    seq: int
    inference: str
    mechanism: str
    scene: str
    epoch: str
    boot: str
    since_boot: int
    elapsed: int
    date: int
    previous: str
    hash: str
    signature: str

    @property
    def moment(self) -> Moment:
        return Moment(self.boot, self.since_boot, self.elapsed, self.date)

    @property
    def true_hash(self) -> str:
        return _hashed("row", *self[:-2])


class Tip(NamedTuple):
    """The newest row of a ledger: its number, which is how many there are, and its hash."""

    seq: int
    hash: str


def signed(
    key: Ed25519PrivateKey, tip: Tip, moment: Moment, *, inference: str, mechanism: str, scene: str, epoch: str = ""
) -> Row:
    """The row that comes after the tip."""
    unsigned = Row(tip.seq + 1, inference, mechanism, scene, epoch, *moment, tip.hash, "", "")
    found = unsigned.true_hash
    return unsigned._replace(hash=found, signature=key.sign(_CONTEXT + bytes.fromhex(found)).hex())


def signature_holds(row: Row, key: Ed25519PublicKey) -> bool:
    """Whether this key has signed a row, and the signature is spelled as `signed` spells it."""
    try:
        signature = bytes.fromhex(row.signature)
        key.verify(signature, _CONTEXT + bytes.fromhex(row.hash))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return signature.hex() == row.signature


def faults(origin: Origin, rows: Iterable[Row], *, head: Tip | None = None, signatures: bool = True) -> Iterator[str]:
    """Faults of a ledger, in words: a row changed, missing, added, out of order or cut off.

    signatures: check all of them, not the last alone. A hash ties all rows before it, so the last one suffices to
    know that nothing is wrong; all of them say where.
    """
    key, before, last, hash_at_head = origin.public_key, Tip(0, origin.hash), None, None
    hash_at_head = origin.hash if head is not None and head.seq == 0 else None
    known: set[str] = set()
    elapsed = 0
    for row in rows:
        if row.seq > before.seq + 1:
            missing = (
                f"row {before.seq + 1} is"
                if row.seq == before.seq + 2
                else f"rows {before.seq + 1} to {row.seq - 1} are"
            )
            yield f"{missing} missing"
        elif row.seq <= before.seq:
            yield f"row {row.seq} comes after row {before.seq}"
        elif row.previous != before.hash:
            yield f"row {row.seq} does not follow row {before.seq}: rows were put out of order, exchanged or added"
        if row.hash != row.true_hash:
            yield f"row {row.seq} was changed: its hash is not that of what it says"
        elif signatures and not signature_holds(row, key):
            yield f"row {row.seq} is not signed by the device"
        if row.inference in known:
            yield f"row {row.seq} charges inference {row.inference!r} again"
        if row.elapsed < elapsed:
            yield f"row {row.seq} is older than the row before it"
        known.add(row.inference) if signatures else None
        before, last, elapsed = Tip(row.seq, row.hash), row, row.elapsed
        if head is not None and head.seq == row.seq:
            hash_at_head = row.hash
    if last is not None and not signatures and not signature_holds(last, key):
        yield f"row {last.seq} is not signed by the device"
    if head is not None and head.seq > before.seq:
        yield f"cut off: the ledger ends with row {before.seq}, but {head.seq} rows were written"
    elif head is not None and hash_at_head != head.hash:
        yield f"row {head.seq} is not the one that was written"


def _hashed(kind: str, *values: str | int) -> str:
    return hashlib.sha256(json.dumps([kind, *values], separators=(",", ":")).encode()).hexdigest()
