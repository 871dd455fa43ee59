"""View of the ledgers that devices report to a server, in SQLite or PostgreSQL. It is never the authority.

Devices send their signed rows. The view takes a row only if its device signed it and it follows the one before, so
no one else can add to an account. It can be behind, and it can be lost: what a device may spend is decided by its own
ledger alone. The one thing that a device takes from here is its own newest row (`newest`), which can only silence it,
and only if it signed that row itself.
"""

import json
import math
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from airpool._support.errors import AirpoolError
from airpool._support.extras import load
from airpool.network import Neighbours
from airpool_runtime.ledger import chain
from airpool_runtime.ledger.backup import Content
from airpool_runtime.ledger.chain import Origin, Row
from airpool_runtime.ledger.mechanism import parse
from airpool_runtime.ledger.spending import Use, total, why_infinite

VERSION = 6  # that of a row, as in a ledger's file
_TABLES = (
    "CREATE TABLE IF NOT EXISTS ledger_version (version BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ledger_origin (hash TEXT PRIMARY KEY, ledger TEXT NOT NULL, device TEXT NOT NULL, "
    "key TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ledger_mechanism (digest TEXT PRIMARY KEY, text TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ledger_charge (origin TEXT NOT NULL, seq BIGINT NOT NULL, mechanism TEXT NOT NULL, "
    "date BIGINT NOT NULL, hash TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (origin, seq))",
    "CREATE TABLE IF NOT EXISTS ledger_epoch (origin TEXT NOT NULL, mechanism TEXT NOT NULL, epoch TEXT NOT NULL, "
    "inferences BIGINT NOT NULL, PRIMARY KEY (origin, mechanism, epoch))",
)
_ONE_MORE = (
    "INSERT INTO ledger_epoch VALUES ({}, {}, {}, 1) ON CONFLICT (origin, mechanism, epoch) "
    "DO UPDATE SET inferences = ledger_epoch.inferences + 1"
)


class FleetReportError(AirpoolError, ValueError):
    """Rows that the view does not take. A fork (two different rows of one number) is a restored or forged ledger."""


# A connection whose other end is gone is noticed after this many seconds (milliseconds: the last), not after hours.
_PATIENCE = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


def base_errors() -> tuple[type[Exception], ...]:
    """Exceptions of a database that cannot be reached or written to, or does not take a value."""
    postgres = sys.modules.get("psycopg")
    return (sqlite3.Error, OSError, OverflowError, *(() if postgres is None else (postgres.Error,)))


def is_passing(error: Exception) -> bool:
    """Whether an error of a database is about its state, not about the values: it may succeed later."""
    names = {each.__name__ for each in type(error).__mro__}
    return bool(names & {"OperationalError", "InterfaceError", "OSError"})


def is_remote(url: str) -> bool:
    """Whether a view is in PostgreSQL, not in a file; a ValueError where the URL is of neither."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        return False
    if parts.scheme in ("postgresql", "postgres"):
        return True
    raise ValueError("the URL of a fleet view must be sqlite:///FILE or postgresql://USER@HOST/BASE")


class Account(NamedTuple):
    """One ledger as the view knows it. date: of the newest row, milliseconds. neighbours: what ε is for.

    reason: of an infinite ε.
    """

    device: str
    key: str
    inferences: int
    date: int
    epsilon: float
    neighbours: str
    reason: str | None


class Fleet:
    """The view at `sqlite:///FILE` or `postgresql://USER@HOST/BASE`; its tables are made on first use.

    A ValueError of one line, without the password, where it cannot be opened.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        try:
            self._open(url, parts)
        except base_errors() as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            why = why.replace(parts.password, "***") if parts.password else why
            raise ValueError(f"the fleet view: {why}") from None

    def _open(self, url: str, parts: SplitResult) -> None:
        if not is_remote(url):
            file = unquote(parts.path)[1:]
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would let others read it
            self._base: Any = sqlite3.connect(file, isolation_level=None, timeout=10, check_same_thread=False)
            self._mark, self._begin = "?", "BEGIN IMMEDIATE"
        else:  # pragma: no cover: PostgreSQL, in tests/ledger/test_fleet.py where it is installed (`make check`)
            given = dict(parse_qsl(parts.query))
            limits = {name: value for name, value in _PATIENCE.items() if name not in given}
            self._base = load("psycopg", "a fleet view in PostgreSQL").connect(url, autocommit=True, **limits)
            self._mark, self._begin = "%s", "BEGIN ISOLATION LEVEL SERIALIZABLE"
        try:
            with self._transaction():
                self._require_version(unquote(parts.path)[1:], in_file=not is_remote(url))
        except BaseException:
            self.close()
            raise

    def _require_version(self, name: str, *, in_file: bool) -> None:
        """Makes the tables; ValueError where they are of another version, or a file holds others: it stays as it is."""
        listed = self._rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name") if in_file else []
        if others := [table for (table,) in listed if not table.startswith(("ledger_", "sqlite_"))]:
            raise ValueError(f"{name} is not a fleet view: it has a table {others[0]!r}")
        for table in _TABLES:
            self._base.execute(table)
        found = [version for (version,) in self._rows("SELECT version FROM ledger_version")]
        if not found and not self._rows("SELECT 1 FROM ledger_origin LIMIT 1"):
            self._put("ledger_version", VERSION)
        elif found != [VERSION]:
            version = found[0] if found else "none"
            raise ValueError(f"the fleet view {name}: its version is {version}, this airpool supports {VERSION} alone")

    def answers(self) -> bool:
        """Whether the database can still be reached."""
        try:
            return self._rows("SELECT 1") == [(1,)]
        except base_errors():
            return False

    def take(self, told: Content, *, pause: Callable[[], None] = lambda: None) -> int:
        """Adds new rows of one device; returns their number. Whose they are is for the caller to check.

        pause: called between rows; whatever it raises undoes all.
        Raises FleetReportError where a row is not the device's, leaves a gap, or is not the one that was taken before.
        """
        origin = told.origin
        texts: dict[str, str] = {}
        for text in told.texts.values():
            pause()
            texts[parse(text).digest] = text
        with self._transaction():
            known = self._rows("SELECT device, key FROM ledger_origin WHERE hash = {}", origin.hash)
            newest = self._rows(
                "SELECT seq, hash FROM ledger_charge WHERE origin = {} ORDER BY seq DESC LIMIT 1", origin.hash
            )
            before, taken = newest[0] if newest else (0, origin.hash), 0
            for row in told.rows:
                pause()
                if row.seq <= before[0]:
                    self._require_same(origin, row)
                    continue
                _require_next(origin, row, before)
                if row.mechanism not in texts and not self._rows(
                    "SELECT 1 FROM ledger_mechanism WHERE digest = {}", row.mechanism
                ):
                    raise FleetReportError(f"the mechanism of row {row.seq} of {origin.device} was not told")
                self._put("ledger_charge", origin.hash, row.seq, row.mechanism, row.date, row.hash, json.dumps(row))
                if row.epoch:
                    self._base.execute(_ONE_MORE.replace("{}", self._mark), (origin.hash, row.mechanism, row.epoch))
                before, taken = (row.seq, row.hash), taken + 1
            if not taken:  # without a signed row anyone could claim a key
                return 0
            if not known:
                self._put("ledger_origin", origin.hash, origin.ledger, origin.device, origin.key)
            for digest, text in texts.items():
                self._put("ledger_mechanism", digest, text, ignore=True)
            return taken

    def newest(self, key: str) -> Row | None:
        """The newest row that the view has of a device's key (hexadecimal): what `Ledger(seen=...)` takes.

        A key has one ledger; a second one, begun after all was lost, would have other rows, so its device is refused.
        """
        found = self._rows(
            "SELECT c.body FROM ledger_charge c JOIN ledger_origin o ON c.origin = o.hash WHERE o.key = {} "
            "ORDER BY c.seq DESC LIMIT 1",
            key,
        )
        return Row(*json.loads(found[0][0])) if found else None

    def owner(self, key: str) -> str | None:
        """The name of the device that has a key; None where the view does not know it."""
        found = self._rows("SELECT device FROM ledger_origin WHERE key = {} LIMIT 1", key)
        return found[0][0] if found else None

    def ledger_of(self, device: str) -> Content:
        """All that the view has of a device, by its name or by the beginning of its key, for an export.

        Raises ValueError if no ledger, or more than one, goes by that: a replaced device has two keys under one name.
        """
        listed = self._rows("SELECT hash, key, ledger, device FROM ledger_origin ORDER BY key")
        found = [each for each in listed if each[3] == device or (device and each[1].startswith(device))]
        if len(found) != 1:
            keys = ", ".join(key[:12] for _, key, *_ in found) or "none"
            raise ValueError(f"device {device} must be one of the view's; keys that go by it: {keys}")
        ((origin, key, ledger, name),) = found
        bodies = self._rows("SELECT body FROM ledger_charge WHERE origin = {} ORDER BY seq", origin)
        rows = tuple(Row(*json.loads(body)) for (body,) in bodies)
        texts = dict(self._rows("SELECT digest, text FROM ledger_mechanism"))
        wanted = {row.mechanism for row in rows}
        return Content(Origin(ledger, name, key), {d: t for d, t in texts.items() if d in wanted}, rows)

    def accounts(self, delta: float, neighbours: Neighbours | str = Neighbours.ZERO_OUT) -> list[Account]:
        """Every ledger with what it has spent as far as reported, all for one relation of neighbours."""
        texts = dict(self._rows("SELECT digest, text FROM ledger_mechanism"))
        found: list[Account] = []
        for origin, device, key in self._rows("SELECT hash, device, key FROM ledger_origin ORDER BY device, hash"):
            counted = self._rows(
                "SELECT mechanism, count(*), max(date) FROM ledger_charge WHERE origin = {} GROUP BY mechanism", origin
            )
            named = self._rows(
                "SELECT mechanism, count(*), sum(inferences) FROM ledger_epoch WHERE origin = {} GROUP BY mechanism",
                origin,
            )
            # Rows without an epoch are one each.
            shared = {digest: int(inferences) - int(epochs) for digest, epochs, inferences in named}
            counts = {
                parse(texts[digest]): Use(int(number), int(number) - shared.get(digest, 0))
                for digest, number, _ in counted
            }
            newest = max((date for _, _, date in counted), default=0)
            inferences = sum(use.inferences for use in counts.values())
            try:
                spent = total(counts, delta, neighbours)
                why = why_infinite(counts, delta, neighbours) if math.isinf(spent) else None
            except (ValueError, ArithmeticError) as error:  # of one device, which the others' accounts outlive
                spent, why = math.inf, f"not known here: {error}"
            found.append(Account(device, key, inferences, newest, spent, neighbours, why))
        return found

    def close(self) -> None:
        self._base.close()

    def _require_same(self, origin: Origin, row: Row) -> None:
        found = self._rows("SELECT hash FROM ledger_charge WHERE origin = {} AND seq = {}", origin.hash, row.seq)
        if found != [(row.hash,)]:
            raise FleetReportError(f"a fork: row {row.seq} of {origin.device} is not the one that was taken before")

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._base.execute(statement.replace("{}", self._mark), values).fetchall()

    def _put(self, table: str, *values: object, ignore: bool = False) -> None:
        marks = ", ".join([self._mark] * len(values))
        end = " ON CONFLICT DO NOTHING" if ignore else ""
        self._base.execute(f"INSERT INTO {table} VALUES ({marks}){end}", values)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._base.execute(self._begin)
        try:
            yield
            self._base.execute("COMMIT")
        except BaseException:
            with suppress(*base_errors()):  # the connection may be lost
                self._base.execute("ROLLBACK")
            raise


def _require_next(origin: Origin, row: Row, before: tuple[int, str]) -> None:
    if row.seq != before[0] + 1 or row.previous != before[1]:
        raise FleetReportError(
            f"row {row.seq} of {origin.device} does not follow row {before[0]}: send the rows between"
        )
    if row.hash != row.true_hash or not chain.signature_holds(row, origin.public_key):
        raise FleetReportError(f"row {row.seq} of {origin.device} is not signed by its key")
