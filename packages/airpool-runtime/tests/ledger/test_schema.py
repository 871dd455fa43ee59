"""A ledger of another schema, and any other file, is refused by name and left as it is: never migrated, never new."""

import hashlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool_runtime.ledger import store
from airpool_runtime.ledger.backup import content, copy
from airpool_runtime.ledger.chain import Origin
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.refused import SpendingError

SCHEMA_5 = Path(__file__).with_name("schema-5.db")
KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"airpool golden identity").digest())


@pytest.fixture
def old(tmp_path):
    """A copy of a ledger of schema 5, with its head."""
    for suffix in (".db", ".head"):
        shutil.copy(SCHEMA_5.with_suffix(suffix), tmp_path / f"ledger{suffix}")
    (tmp_path / "ledger.head").chmod(0o600)
    return tmp_path / "ledger.db"


def opened(path):
    return Ledger(path, KEY, device="device-3")


def refused(path):
    """What a device says of a file, and whoever reads it, who leave it as it is."""
    files = [path, *(each for each in [path.with_suffix(".head")] if each.exists())]
    before, said = [each.read_bytes() for each in files], list[SpendingError]()
    for attempt in (opened, content, lambda at: copy(at, at.with_suffix(".copy"))):
        with pytest.raises(SpendingError) as caught:
            attempt(path)
        said.append(caught.value)
        assert [each.read_bytes() for each in files] == before
    assert not path.with_suffix(".copy").exists()
    assert len({(each.status, str(each)) for each in said}) == 1
    assert str(path) in str(said[0])
    return said[0].status, str(said[0])


@pytest.mark.parametrize("with_head", [True, False])
@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 7, 99, -1])
def test_a_ledger_of_another_schema_is_refused_by_name_and_left_as_it_is(old, version, with_head):
    if version != 5:
        with closing(sqlite3.connect(old)) as base:
            base.execute(f"PRAGMA user_version = {version}")
    if not with_head:
        old.with_suffix(".head").unlink()
    status, said = refused(old)
    assert status == "failed"
    assert said.endswith(f"has schema version {version}, this airpool supports version {store.VERSION} alone")


@pytest.mark.parametrize("version", [0, store.VERSION])
@pytest.mark.parametrize("statement", ["CREATE TABLE something (x)", "CREATE VIEW something AS SELECT 1"])
def test_another_sqlite_file_is_not_taken_for_a_ledger(tmp_path, version, statement):
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as base:
        base.execute(statement)
        base.execute(f"PRAGMA user_version = {version}")
    status, said = refused(path)
    assert status == "corrupt"
    assert "is not a ledger" in said


def test_a_ledger_whose_version_was_taken_away_is_not_begun_anew(old):
    with closing(sqlite3.connect(old)) as base:
        base.execute("PRAGMA user_version = 0")
    old.with_suffix(".head").unlink()
    assert refused(old) == ("corrupt", f"{old} is not a ledger: its user_version is 0, must be {store.VERSION}")


def test_an_empty_file_is_a_ledger_to_begin(tmp_path):
    """As a process leaves it that is killed before the tables are made, with and without the file's first page."""
    for name in ("none.db", "page.db"):
        (tmp_path / name).touch()
    with closing(sqlite3.connect(tmp_path / "page.db")) as base:
        base.execute("PRAGMA journal_mode = WAL")
    assert (tmp_path / "page.db").stat().st_size > 0
    for name in ("none.db", "page.db"):
        with pytest.raises(SpendingError, match="is not a ledger"):
            content(tmp_path / name)
        with opened(tmp_path / name) as ledger:
            assert ledger.tip.seq == 0


def test_a_ledger_that_another_process_begins_first_is_kept(tmp_path, monkeypatch):
    required, seen, origin = store.Store._require_ledger, [], Origin("one", "device-3", "00" * 32)

    def slow(self, *, or_empty):
        """At the first look the other process has not begun; at the second it is done."""
        seen.append(self)
        if len(seen) == 1:
            store.Store(tmp_path / "ledger.db", origin).close()
            return True
        return required(self, or_empty=or_empty)

    monkeypatch.setattr(store.Store, "_require_ledger", slow)
    store.Store(tmp_path / "ledger.db", origin).close()
    assert len(content(tmp_path / "ledger.db").counts) == 0
