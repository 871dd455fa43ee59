"""Budgets of a device's last start, written into its ledger for whoever reads the file; signed by the device.

The device goes by its own options. A reader learns from here which limits the spending has to be held against.
"""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool.runtime.ledger.budget import Budget
from airpool.runtime.ledger.chain import Origin
from airpool.runtime.ledger.refused import SpendingError
from airpool.runtime.ledger.store import Store

_CONTEXT = b"airpool ledger budgets 1\n"


def keep(store: Store, key: Ed25519PrivateKey, budgets: Sequence[Budget]) -> object:
    """The stamps of the store after budgets were written down, which hold whether or not the disk takes them."""
    text = f"[{', '.join(each.text for each in budgets)}]"
    with suppress(sqlite3.Error, OSError):
        if (kept := store.budgets()) is None or kept[0] != text:
            store.keep_budgets(text, key.sign(_said(store.origin(), text)).hex())
    return store.stamps()


def parsed(text: str) -> tuple[Budget, ...]:
    """The budgets of a text. Raises SpendingError if it is none of `keep`."""
    try:
        return tuple(Budget(**each) for each in json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise SpendingError("corrupt", f"the budgets that are written down are not readable: {error}") from None


def signature_holds(origin: Origin, text: str, signature: str) -> bool:
    try:
        origin.public_key.verify(bytes.fromhex(signature), _said(origin, text))
    except (InvalidSignature, ValueError):
        return False
    return True


def _said(origin: Origin, text: str) -> bytes:
    return _CONTEXT + bytes.fromhex(origin.hash) + text.encode()
