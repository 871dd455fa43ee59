"""Tampering with a ledger's rows is found: changed, missing, exchanged, cut off, written anew."""

import random
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from airpool_runtime.ledger import chain
from airpool_runtime.ledger.backup import FORMAT, content, copy, exported, faults, imported, rebuilt
from airpool_runtime.ledger.chain import Tip
from airpool_runtime.ledger.refused import SpendingError


@pytest.fixture
def charged(device, one):
    with device.open() as ledger:
        for i in range(8):
            ledger.charge(f"inference {i}", one)
    return device


def tampered(device, *statements):
    with closing(sqlite3.connect(device.path, isolation_level=None)) as base:
        for trigger in ("no_change", "no_delete"):
            base.execute(f"DROP TRIGGER {trigger}")
        for statement in statements:
            base.execute(statement)
    return list(faults(content(device.path), head=device.head))


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (["UPDATE charge SET mechanism = 'cheaper' WHERE seq = 4"], "row 4 was changed"),
        (["UPDATE charge SET date = date + 1 WHERE seq = 4"], "row 4 was changed"),
        (["UPDATE charge SET inference = 'other' WHERE seq = 8"], "row 8 was changed"),
        (
            ["UPDATE charge SET hash = iif(hash < 'b', 'b', 'a') || substr(hash, 2) WHERE seq = 4"],
            "row 4 was changed",
        ),
        (["UPDATE charge SET signature = substr(signature, 3) || '00' WHERE seq = 4"], "row 4 is not signed"),
        (["UPDATE charge SET signature = upper(signature) WHERE seq = 4"], "row 4 is not signed"),
        (["DELETE FROM charge WHERE seq = 4"], "row 4 is missing"),
        (["DELETE FROM charge WHERE seq IN (3, 4, 5)"], "rows 3 to 5 are missing"),
        (["DELETE FROM charge WHERE seq > 5"], "cut off: the ledger ends with row 5, but 8 rows were written"),
        (["DELETE FROM charge"], "cut off: the ledger ends with row 0"),
        (
            [
                "UPDATE charge SET seq = 99 WHERE seq = 4",
                "UPDATE charge SET seq = 4 WHERE seq = 5",
                "UPDATE charge SET seq = 5 WHERE seq = 99",
            ],
            "row 4 does not follow row 3",
        ),
        (
            ["DELETE FROM charge WHERE seq = 4", "UPDATE charge SET seq = seq - 1 WHERE seq > 4"],
            "row 4 does not follow",
        ),
        (["UPDATE origin SET device = 'another'"], "belongs to another ledger"),
        (["UPDATE mechanism SET text = replace(text, '0.5', '5.0')"], "was changed"),
        (["DELETE FROM mechanism"], "is missing"),
        (
            ["CREATE TRIGGER t AFTER INSERT ON charge BEGIN DELETE FROM charge WHERE seq = NEW.seq; END"],
            "'t' was not made by airpool",
        ),
    ],
)
def test_tampering_is_found_and_silences_the_device(charged, statements, said):
    found = tampered(charged, *statements)
    assert any(said in line for line in found), found
    if "signature" not in statements[0]:  # of all signatures only the last one decides whether a device goes on
        with pytest.raises(SpendingError):
            charged.open()


def test_every_byte_that_is_changed_is_found_or_changes_nothing(charged):
    whole, said = charged.path.read_bytes(), content(charged.path)
    chosen = random.Random(21)
    for number in range(300):
        damaged = bytearray(whole)
        damaged[chosen.randrange(len(whole))] ^= 1 << chosen.randrange(8)
        path = charged.folder / f"{number}.db"
        path.write_bytes(damaged)
        try:
            found = content(path)
            wrong = list(faults(found, head=charged.head))
        except (SpendingError, ValueError):
            continue
        assert wrong or found == said


@pytest.mark.parametrize("table", ["charge", "mechanism", "origin"])
@pytest.mark.parametrize("value", ["x'ff'", "x'00'", "1.5", "'x'", "NULL"])
def test_a_cell_of_another_kind_is_found_and_silences_the_device(charged, table, value):
    base = sqlite3.connect(charged.path)
    columns = [each[1] for each in base.execute(f"PRAGMA table_info({table})") if each[1] != "signature"]
    base.close()
    whole = charged.path.read_bytes()
    for column in columns:
        charged.path = charged.folder / f"{column}.db"
        charged.path.write_bytes(whole)
        try:
            wrong = tampered(charged, f"UPDATE {table} SET {column} = {value} WHERE rowid = 1")
        except (
            SpendingError,
            ValueError,
            sqlite3.IntegrityError,
        ) as error:  # what SQLite itself does not take is no damage
            wrong = error
        if not isinstance(wrong, sqlite3.IntegrityError):
            assert wrong, column
            with pytest.raises(SpendingError):
                charged.open()


def test_rows_that_are_hashed_anew_lack_the_signature(charged, device):
    """Somebody without the key makes one row cheaper and mends all hashes after it."""
    rows, before = list(content(charged.path).rows), None
    for i in range(3, 8):
        row = rows[i]._replace(mechanism="0" * 64) if i == 3 else rows[i]._replace(previous=before)
        rows[i] = row._replace(hash=row.true_hash)
        before = rows[i].hash
    found = list(chain.faults(content(charged.path).origin, rows))
    assert [line for line in found if "row 4" in line] == ["row 4 is not signed by the device"]
    assert list(chain.faults(content(charged.path).origin, rows, signatures=False))
    statements = [
        f"UPDATE charge SET mechanism='{r.mechanism}', previous='{r.previous}', hash='{r.hash}' WHERE seq={r.seq}"
        for r in rows[3:]
    ]
    assert tampered(charged, *statements)
    with pytest.raises(SpendingError):
        charged.open()


def test_a_whole_ledger_has_no_faults(charged):
    found = content(charged.path)
    assert list(faults(found, head=charged.head, key=found.origin.key)) == []
    assert list(faults(found, key="00" * 32)) == ["the ledger belongs to another key"]
    assert list(chain.faults(found.origin, found.rows, head=Tip(3, found.rows[2].hash))) == []
    assert list(chain.faults(found.origin, found.rows, head=Tip(3, "00"))) == ["row 3 is not the one that was written"]


def test_an_export_reads_back_and_a_ledger_is_rebuilt_from_it(charged, one):
    found = content(charged.path)
    read = imported(exported(found))
    assert read == replace(found, limits=None)  # budgets are the device's own
    new = charged.folder / "new.db"
    rebuilt(read, new)
    new.replace(charged.path)
    with charged.open() as ledger:
        assert ledger.charge("inference 8", one).row.seq == 9
    short = type(found)(found.origin, found.texts, found.rows[:3] + found.rows[4:])
    with pytest.raises(ValueError, match="the export must be whole: row 4 is missing"):
        rebuilt(short, charged.folder / "short.db")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": "x"}', "\x00", '{"format": "airpool ledger export 2"}', FORMAT]
)
def test_what_is_no_export_is_an_error(text):
    with pytest.raises(ValueError, match=FORMAT):
        imported([text] if text else [])


def test_a_backup_is_a_new_file_and_whole_while_the_device_charges(charged, one):
    with charged.open() as ledger:
        ledger.charge("a", one)
        copy(charged.path, charged.folder / "copy.db")
        ledger.charge("b", one)
    assert len(content(charged.folder / "copy.db").rows) == 9
    with pytest.raises(ValueError, match="exists already"):
        copy(charged.path, charged.folder / "copy.db")
