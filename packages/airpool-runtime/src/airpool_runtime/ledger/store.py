"""The file of a ledger: SQLite with a write-ahead log, every commit synced to the disk, one schema.

Nothing here decides anything: it stores rows and reads them back. Errors are SQLite's own.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from airpool_runtime.ledger.chain import Origin, Row
from airpool_runtime.ledger.head import sync_folder
from airpool_runtime.ledger.refused import SpendingError

VERSION = 6
_TABLES = ("origin", "mechanism", "charge", "budgets")
# Nothing is ever changed or taken away, not even by mistake. Budgets: those of the last start, for whoever reads the
# file; the device itself goes by its own options.
_SCHEMA = (
    "CREATE TABLE origin (ledger TEXT NOT NULL, device TEXT NOT NULL, key TEXT NOT NULL)",
    "CREATE TABLE mechanism (digest TEXT PRIMARY KEY, text TEXT NOT NULL)",
    """
    CREATE TABLE charge (
        seq INTEGER PRIMARY KEY,
        inference TEXT NOT NULL UNIQUE,
        mechanism TEXT NOT NULL,
        scene TEXT NOT NULL,
        epoch TEXT NOT NULL,
        boot TEXT NOT NULL,
        since_boot INTEGER NOT NULL,
        elapsed INTEGER NOT NULL,
        date INTEGER NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL,
        signature TEXT NOT NULL
    )
    """,
    "CREATE TRIGGER no_change BEFORE UPDATE ON charge BEGIN SELECT RAISE(ABORT, 'rows are never changed'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'rows are never deleted'); END",
    "CREATE TABLE budgets (text TEXT NOT NULL, signature TEXT NOT NULL)",
)
_COLUMNS = ", ".join(Row._fields)
_ROOM = 32 * 1024  # bytes: more than the pages that a batch of rows changes
KINDS = tuple(int if field in ("seq", "since_boot", "elapsed", "date") else str for field in Row._fields)


class Stamp(NamedTuple):
    """Stamp of a file, which changes when the file is written: inode, size, times of change."""

    inode: int
    size: int
    modified: int
    changed: int


class Store:
    """An open ledger file. `origin` is written if the file is new; one of another version is refused and left as it is.

    New: it is not there, or empty, as a process that was killed while it made the file leaves it.
    """

    def __init__(self, path: Path, origin: Origin | None = None, *, readonly: bool = False) -> None:
        self.path = path
        if origin is not None and not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        mode = "ro" if readonly else "rw"
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        self._base = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5, check_same_thread=False)
        try:
            new = self._require_ledger(or_empty=origin is not None)
            if not readonly:
                self._base.execute("PRAGMA journal_mode = WAL")
                self._base.execute("PRAGMA synchronous = FULL")
                if new and origin is not None:
                    self._begin(origin)
                sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def _require_ledger(self, *, or_empty: bool) -> bool:
        """Raises SpendingError unless the file is a ledger of this version, or empty; whether it is. Writes nothing."""
        version = self._base.execute("PRAGMA user_version").fetchone()[0]
        held = _schema(self._base)
        if version == 0 and not held and or_empty:
            return True
        if version == 0:
            raise SpendingError("corrupt", f"{self.path} is not a ledger: its user_version is 0, must be {VERSION}")
        if version != VERSION:
            why = f"{self.path} has schema version {version}, this airpool supports version {VERSION} alone"
            raise SpendingError("failed", why)
        tables = {name for kind, name, *_ in held if kind == "table"}
        if missing := [name for name in _TABLES if name not in tables]:
            raise SpendingError("corrupt", f"{self.path} is not a ledger: it has no table {missing[0]!r}")
        return False

    def _begin(self, origin: Origin) -> None:
        """Makes the tables in one transaction; a kill in between leaves an empty file."""
        with self._transaction():
            if not self._require_ledger(or_empty=True):  # another process was faster
                return
            for statement in _SCHEMA:
                self._base.execute(statement)
            self._base.execute("INSERT INTO origin VALUES (?, ?, ?)", (origin.ledger, origin.device, origin.key))
            self._base.execute(f"PRAGMA user_version = {VERSION}")

    def origin(self) -> Origin:
        found = self._base.execute("SELECT ledger, device, key FROM origin").fetchall()
        if len(found) != 1:
            raise SpendingError("corrupt", f"{self.path} has {len(found)} origins, must have one")
        return Origin(*self._typed(found[0], (str, str, str), "the origin"))

    def mechanisms(self, after: int = 0) -> dict[str, str]:
        """Texts by digest, of mechanisms that no row up to a number has."""
        before = "SELECT 1 FROM charge WHERE mechanism = digest AND seq <= ?"
        found = self._base.execute(
            f"SELECT digest, text FROM mechanism WHERE NOT EXISTS ({before})", (after,)
        ).fetchall()
        return dict(self._typed(each, (str, str), "a mechanism") for each in found)

    def rows(self, after: int = 0) -> Iterator[Row]:
        """All rows after a number, in order."""
        found = self._base.execute(f"SELECT {_COLUMNS} FROM charge WHERE seq > ? ORDER BY seq", (after,))
        return (Row._make(self._typed(each, KINDS, f"row {each[0]}")) for each in found)

    def find(self, inference: str) -> Row | None:
        found = self._base.execute(f"SELECT {_COLUMNS} FROM charge WHERE inference = ?", (inference,)).fetchone()
        return None if found is None else Row._make(found)

    def budgets(self) -> tuple[str, str] | None:
        """Budgets of the last start and their signature; None where none were written down."""
        found = self._base.execute("SELECT text, signature FROM budgets").fetchall()
        text, signature = self._typed(found[0], (str, str), "the budgets") if len(found) == 1 else ("", "")
        return (text, signature) if text else None

    def keep_budgets(self, text: str, signature: str) -> None:
        with self._transaction():
            self._base.execute("DELETE FROM budgets")
            self._base.execute("INSERT INTO budgets VALUES (?, ?)", (text, signature))

    def _typed(self, values: tuple[Any, ...], kinds: tuple[type, ...], what: str) -> tuple[Any, ...]:
        """SQLite stores any kind of value in any column; only those that airpool writes are read."""
        if any(type(value) is not kind for value, kind in zip(values, kinds, strict=True)):
            raise SpendingError("corrupt", f"{self.path}: {what} was changed: it holds a value of another kind")
        return values

    def strange(self) -> list[str]:
        """Faults of the file itself, in words: damage, and what airpool did not make, such as a trigger."""
        added = [each[1] for each in _schema(self._base) if each not in _own_schema()]
        found = str(self._base.execute("PRAGMA integrity_check(1)").fetchone()[0]).splitlines()[0]
        damage = [] if found == "ok" else [f"the file is damaged: {found}"]
        without = "SELECT digest FROM mechanism WHERE NOT EXISTS (SELECT 1 FROM charge WHERE charge.mechanism = digest)"
        damage += [f"mechanism {str(digest)[:12]!r} has no row" for (digest,) in self._base.execute(without)]
        return [f"{name!r} was not made by airpool: it could take rows away" for name in added] + damage

    def sound(self) -> None:
        """Raises SpendingError if the file is damaged, or holds something that airpool did not make."""
        for wrong in self.strange():
            raise SpendingError("corrupt", f"{self.path}: {wrong}")

    def append(self, rows: Sequence[Row], mechanisms: Mapping[str, str]) -> None:
        """Adds rows, all or none; they are on the disk when this returns. mechanisms: their texts by digest."""
        marks = ", ".join("?" * len(Row._fields))
        with self._transaction():
            for row in rows:
                text = mechanisms[row.mechanism]
                self._base.execute("INSERT OR IGNORE INTO mechanism VALUES (?, ?)", (row.mechanism, text))
                self._base.execute(f"INSERT INTO charge ({_COLUMNS}) VALUES ({marks})", row)

    def probe(self) -> None:
        """Writes what is there already; an error where the disk takes no more, or not as much as rows may need."""
        with self._transaction():
            self._base.execute(f"PRAGMA user_version = {VERSION}")  # an UPDATE that changes nothing writes nothing
        with TemporaryFile(dir=self.path.parent) as room:
            room.write(bytes(_ROOM))
            room.flush()
            os.fsync(room.fileno())

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._base.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._base.execute("ROLLBACK")
            raise

    def stamps(self) -> tuple[Stamp, Stamp | None]:
        """Stamps of the file and of its log, which exists during a write. Raises OSError if the file is gone."""
        try:
            log = _stamp(Path(f"{self.path}-wal"))
        except FileNotFoundError:
            log = None
        return _stamp(self.path), log

    def copy(self, target: Path) -> None:
        """A consistent copy of all that is committed, in a new file."""
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(target)) as copied:
            self._base.backup(copied)
            copied.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        file = os.open(target, os.O_RDONLY)
        os.fsync(file)
        os.close(file)

    def close(self) -> None:
        self._base.close()


def _schema(base: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return base.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()


@cache
def _own_schema() -> list[tuple[Any, ...]]:
    """What a ledger's file holds."""
    with closing(sqlite3.connect(":memory:")) as base:
        for statement in _SCHEMA:
            base.execute(statement)
        return _schema(base)


def _stamp(path: Path) -> Stamp:
    status = os.stat(path)
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
