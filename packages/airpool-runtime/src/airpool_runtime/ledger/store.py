"""The file of a ledger: SQLite with a write-ahead log, every commit synced to the disk, the schema versioned.

Nothing here decides anything: it stores rows and reads them back. Errors are SQLite's own.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from airpool.runtime.ledger.chain import Origin, Row
from airpool.runtime.ledger.head import sync_folder
from airpool.runtime.ledger.refused import SpendingError

# Each takes the schema one version further.
MIGRATIONS = (
    """
    CREATE TABLE origin (ledger TEXT NOT NULL, device TEXT NOT NULL, key TEXT NOT NULL);
    CREATE TABLE mechanism (digest TEXT PRIMARY KEY, text TEXT NOT NULL);
    CREATE TABLE charge (
        seq INTEGER PRIMARY KEY,
        inference TEXT NOT NULL UNIQUE,
        mechanism TEXT NOT NULL,
        scene TEXT NOT NULL,
        boot TEXT NOT NULL,
        since_boot INTEGER NOT NULL,
        elapsed INTEGER NOT NULL,
        date INTEGER NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL,
        signature TEXT NOT NULL
    );
    """,
    # Nothing is ever changed or taken away, not even by mistake.
    """
    CREATE TRIGGER no_change BEFORE UPDATE ON charge BEGIN SELECT RAISE(ABORT, 'rows are never changed'); END;
    CREATE TRIGGER no_delete BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'rows are never deleted'); END;
    """,
    "ALTER TABLE charge ADD COLUMN epoch TEXT NOT NULL DEFAULT '';",
    # The budgets of the last start, for whoever reads the file: the device itself goes by its own options.
    "CREATE TABLE budgets (text TEXT NOT NULL, signature TEXT NOT NULL);",
)
VERSION = len(MIGRATIONS)
_COLUMNS = ", ".join(Row._fields)
_EPOCHS_SINCE, _BUDGETS_SINCE = 3, 4
_ROOM = 32 * 1024  # bytes: more than the pages that a batch of rows changes
KINDS = tuple(int if field in ("seq", "since_boot", "elapsed", "date") else str for field in Row._fields)


class Stamp(NamedTuple):
    """Stamp of a file, which changes when the file is written: inode, size, times of change."""

    inode: int
    size: int
    modified: int
    changed: int


class Store:
    """An open ledger file. `origin` is written if the file is new; a file of an older version is migrated."""

    def __init__(self, path: Path, origin: Origin | None = None, *, readonly: bool = False) -> None:
        self.path = path
        fresh = origin is not None and not path.exists()
        if fresh:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        mode = "ro" if readonly else "rw"
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        self._base = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5, check_same_thread=False)
        try:
            if not readonly:
                self._base.execute("PRAGMA journal_mode = WAL")
                self._base.execute("PRAGMA synchronous = FULL")
                self._migrate(origin)
            version = self.version = self._require_version()
            # A reader does not migrate what it reads.
            self._read_columns = _COLUMNS if version >= _EPOCHS_SINCE else _COLUMNS.replace("epoch", "'' AS epoch")
            if not readonly:
                sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def _require_version(self) -> int:
        version = self._base.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise SpendingError(
                "failed", f"{self.path} has schema version {version}, this airpool knows {VERSION}: update it"
            )
        if version < 1:
            raise SpendingError("corrupt", f"{self.path} is not a ledger")
        return version

    def _migrate(self, origin: Origin | None) -> None:
        """Brings the schema up to date, in one transaction; a kill in between leaves the old version."""
        with self._transaction():
            version = self._base.execute("PRAGMA user_version").fetchone()[0]
            empty = self._base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
            if version == 0 and not (empty and origin is not None):
                raise SpendingError("corrupt", f"{self.path} is not a ledger")
            for step in MIGRATIONS[version:]:
                for statement in _statements(step):
                    self._base.execute(statement)
            if version == 0 and origin is not None:
                values = (origin.ledger, origin.device, origin.key)
                self._base.execute("INSERT INTO origin VALUES (?, ?, ?)", values)
            if version < VERSION:
                self._base.execute(f"PRAGMA user_version = {VERSION}")

    def origin(self) -> Origin:
        found = self._base.execute("SELECT ledger, device, key FROM origin").fetchall()
        if len(found) != 1:
            raise SpendingError("corrupt", f"{self.path} has {len(found)} origins, must have one")
        return Origin(*self._typed(found[0], (str, str, str), "the origin"))

    def mechanisms(self) -> dict[str, str]:
        """Texts by digest."""
        found = self._base.execute("SELECT digest, text FROM mechanism").fetchall()
        return dict(self._typed(each, (str, str), "a mechanism") for each in found)

    def rows(self, after: int = 0) -> Iterator[Row]:
        """All rows after a number, in order."""
        found = self._base.execute(f"SELECT {self._read_columns} FROM charge WHERE seq > ? ORDER BY seq", (after,))
        return (Row._make(self._typed(each, KINDS, f"row {each[0]}")) for each in found)

    def find(self, inference: str) -> Row | None:
        found = self._base.execute(
            f"SELECT {self._read_columns} FROM charge WHERE inference = ?", (inference,)
        ).fetchone()
        return None if found is None else Row._make(found)

    def budgets(self) -> tuple[str, str] | None:
        """Budgets of the last start and their signature; None where none were written down."""
        if self.version < _BUDGETS_SINCE:
            return None
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
        version = self._base.execute("PRAGMA user_version").fetchone()[0]
        added = [each[1] for each in _schema(self._base) if each not in _schema_of(version)]
        found = str(self._base.execute("PRAGMA integrity_check(1)").fetchone()[0]).splitlines()[0]
        damage = [] if found == "ok" else [f"the file is damaged: {found}"]
        return [f"{name!r} was not made by airpool: it could take rows away" for name in added] + damage

    def sound(self) -> None:
        """Raises SpendingError if the file is damaged, or holds something that airpool did not make."""
        for wrong in self.strange():
            raise SpendingError("corrupt", f"{self.path}: {wrong}")

    def append(self, rows: Sequence[Row], mechanisms: Mapping[str, str]) -> None:
        """Adds rows, all or none; they are on the disk when this returns. mechanisms: their texts by digest."""
        with self._transaction():
            for row in rows:
                values, text = row.listed, mechanisms[row.mechanism]
                columns, marks = ", ".join(Row._fields[: len(values)]), ", ".join("?" * len(values))
                self._base.execute("INSERT OR IGNORE INTO mechanism VALUES (?, ?)", (row.mechanism, text))
                self._base.execute(f"INSERT INTO charge ({columns}) VALUES ({marks})", values)

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
        copied = sqlite3.connect(target)
        try:
            self._base.backup(copied)
            copied.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        finally:
            copied.close()
        file = os.open(target, os.O_RDONLY)
        os.fsync(file)
        os.close(file)

    def close(self) -> None:
        self._base.close()


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, for a transaction: `executescript` would commit."""
    found = ""
    for line in script.splitlines():
        found += line + "\n"
        if sqlite3.complete_statement(found):
            yield found
            found = ""


def _schema(base: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return base.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()


@cache
def _schema_of(version: int) -> list[tuple[Any, ...]]:
    """Schema after the migrations up to a version."""
    base = sqlite3.connect(":memory:")
    try:
        base.executescript("".join(MIGRATIONS[:version]))
        return _schema(base)
    finally:
        base.close()


def _stamp(path: Path) -> Stamp:
    status = os.stat(path)
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
