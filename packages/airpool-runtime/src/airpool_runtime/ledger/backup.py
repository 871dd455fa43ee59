"""Copies, exports and checks of a ledger, without the device's key: a reader never writes to the file it reads."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from airpool.runtime.ledger import chain, limits
from airpool.runtime.ledger import head as heads
from airpool.runtime.ledger.budget import Budget, Tally
from airpool.runtime.ledger.chain import Origin, Row
from airpool.runtime.ledger.mechanism import Mechanism, parse
from airpool.runtime.ledger.refused import SpendingError, because
from airpool.runtime.ledger.spending import Use
from airpool.runtime.ledger.store import KINDS, Store

FORMAT = "airpool ledger export 1"


@dataclass(frozen=True)
class Content:
    """All that a ledger says: who, which mechanisms (texts by digest), and every row.

    strange: what is wrong with its file, whatever the rows say. limits: texts of the budgets of the last start, and
    their signature; None where they were not written down, as in an export.
    """

    origin: Origin
    texts: Mapping[str, str]
    rows: tuple[Row, ...]
    strange: tuple[str, ...] = ()
    limits: tuple[str, str] | None = None

    @property
    def budgets(self) -> tuple[Budget, ...] | None:
        """The budgets of the device's last start; None where they are not known. Raises SpendingError if unreadable."""
        return None if self.limits is None else limits.parsed(self.limits[0])

    @property
    def counts(self) -> dict[Mechanism, Use]:
        """The use of each mechanism."""
        found = Tally(Budget(1.0))
        for row in self.rows:
            found.add(row)
        return {parse(self.texts[digest]): use for digest, use in found.used("", 0).items()}


def content(path: str | Path, *, after: int = 0) -> Content:
    """Content of a ledger's file after a row, unchecked (see `faults`). Raises SpendingError if it cannot be read."""
    path = Path(path)
    try:
        if not path.is_file():
            raise SpendingError("missing", f"{path}: no such file")
        store = Store(path, readonly=True)
        try:
            strange = () if after else tuple(store.strange())
            found = store.mechanisms(), tuple(store.rows(after)), strange
            return Content(store.origin(), *found, store.budgets())
        finally:
            store.close()
    except (sqlite3.Error, OSError) as error:
        raise because(error, str(path)) from None


def faults(found: Content, *, head: Path | None = None, key: str | None = None) -> Iterator[str]:
    """Faults of a ledger, in words; none if all is well. key: the device's public key, hexadecimal.

    Without the head a cut-off end is not seen, and without the key a ledger that was written anew by another one.
    """
    if key is not None and found.origin.key != key:
        yield "the ledger belongs to another key"
    yield from found.strange
    if found.limits is not None and not limits.signature_holds(found.origin, *found.limits):
        yield "the budgets that are written down were changed"
    kept = None
    if head is not None:
        try:
            kept = heads.read(head)
        except SpendingError as error:
            yield str(error)
        if kept is None:
            yield f"{head} is missing or damaged: a cut-off end cannot be ruled out"
        elif kept.ledger != found.origin.hash:
            yield f"{head} belongs to another ledger"
            kept = None
    for digest, text in found.texts.items():
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            yield f"mechanism {digest[:12]} was changed"
    for digest in {row.mechanism for row in found.rows} - found.texts.keys():
        yield f"mechanism {digest[:12]} is missing"
    yield from chain.faults(found.origin, found.rows, head=kept and kept.tip)


def copy(path: str | Path, target: str | Path) -> None:
    """A consistent copy in a new file, also while a device is charging; restored, it is noticed as an old copy."""
    try:
        store = Store(Path(path), readonly=True)
        try:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            store.copy(Path(target))
        finally:
            store.close()
    except FileExistsError:
        raise ValueError(f"{target} exists already: a backup is a new file") from None
    except (sqlite3.Error, OSError) as error:
        raise because(error, str(path)) from None


def exported(found: Content) -> Iterator[str]:
    """A ledger as lines of JSON: the origin, the mechanisms, the rows."""
    yield json.dumps({"format": FORMAT, **asdict(found.origin)})
    for digest, text in found.texts.items():
        yield json.dumps({"digest": digest, "text": text})
    for row in found.rows:
        yield json.dumps(dict(zip(Row._fields, row.listed, strict=False)))


def imported(lines: Iterable[str]) -> Content:
    """Content of an export, unchecked (see `faults`). Raises ValueError if `exported` did not write it."""
    origin, texts, rows = None, {}, []
    for number, line in enumerate(lines, start=1):
        try:
            data: dict[str, Any] = json.loads(line)
            if number == 1:
                if data.pop("format") != FORMAT:
                    raise ValueError("another format")
                origin = Origin(**data)
                if not all(isinstance(value, str) for value in data.values()):
                    raise ValueError("a value of another type")
            elif "digest" in data:
                texts[str(data["digest"])] = str(data["text"])
            else:
                rows.append(_row(data))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"line {number} is not of {FORMAT!r}: {error}") from None
    if origin is None:
        raise ValueError(f"an empty file is not of {FORMAT!r}")
    return Content(origin, texts, tuple(rows))


def rebuilt(found: Content, path: str | Path) -> None:
    """A ledger's file from an export that is whole; the device goes on with it if it reaches up to its head."""
    for wrong in faults(found):
        raise ValueError(f"the export must be whole: {wrong}")
    if Path(path).exists():
        raise ValueError(f"{path} exists already: a ledger is rebuilt in a new file")
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        store = Store(Path(path), found.origin)
        try:
            store.append(found.rows, found.texts)
        finally:
            store.close()
    except (sqlite3.Error, OSError) as error:
        raise because(error, str(path)) from None


def _row(data: dict[str, Any]) -> Row:
    row = Row(**data)
    if any(type(value) is not kind for value, kind in zip(row, KINDS, strict=True)):
        raise ValueError("a value of another type")
    return row
