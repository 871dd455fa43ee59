"""Edges of the ledger: damaged files, values of another type, databases that are away."""

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from airpool import Network
from airpool_runtime.ledger import chain, head
from airpool_runtime.ledger.backup import content, exported, faults, imported, left, rebuilt
from airpool_runtime.ledger.budget import Booking, Budget, read_budgets
from airpool_runtime.ledger.fleet import Fleet
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.refused import SpendingError
from airpool_runtime.ledger.spending import total, why_infinite


def test_an_export_with_a_value_of_another_type_is_refused(told):
    first, *rest = exported(told)
    origin = json.loads(first) | {"device": 3}
    with pytest.raises(ValueError, match=r"line 1 is not of .*another type"):
        imported([json.dumps(origin), *rest])
    *before, last = [first, *rest]
    row = json.loads(last) | {"seq": "6"}
    with pytest.raises(ValueError, match="another type"):
        imported([*before, json.dumps(row)])


def test_a_ledger_is_rebuilt_in_a_new_file_from_a_whole_export(told, device, tmp_path):
    with pytest.raises(ValueError, match="the export must be whole: row 2 is missing"):
        rebuilt(replace(told, rows=(told.rows[0], *told.rows[2:])), tmp_path / "new.db")
    with pytest.raises(ValueError, match="exists already"):
        rebuilt(told, device.path)
    (tmp_path / "file").write_text("")
    with pytest.raises(SpendingError):
        rebuilt(told, tmp_path / "file" / "new.db")


def test_rows_out_of_order_and_charged_twice_are_found(told):
    again = told.rows[1]._replace(seq=7)
    said = list(chain.faults(told.origin, [*told.rows, again, told.rows[2]]))
    assert any("charges inference" in each for each in said)
    assert any("row 3 comes after row 7" in each for each in said)


def test_a_head_that_cannot_be_read_is_a_fault(told, device):
    device.head.write_text("damaged")
    first, second, *_ = faults(told, head=device.head)
    assert "is damaged" in first
    assert "missing or damaged" in second


def test_a_head_with_a_checksum_that_anyone_can_compute_is_no_head(told, device):
    for body in ("[]", "{}", '{"ledger": "a", "count": "many", "hash": "b"}'):
        device.head.write_text(f"{head._checksum(body)} {body}\n")
        with pytest.raises(SpendingError, match="is damaged"):
            head.read(device.head)


def test_a_head_of_another_owner_is_read_all_the_same(told, device, monkeypatch):
    before, opened = head.read(device.head), os.open

    def without_noatime(path, flags, *rest):
        if flags & os.O_NOATIME:
            raise PermissionError
        return opened(path, flags, *rest)

    monkeypatch.setattr(os, "open", without_noatime)
    assert head.read(device.head) == before


def test_a_head_that_is_not_written_whole_is_an_error(told, device, monkeypatch):
    known = head.read(device.head)
    assert known is not None
    monkeypatch.setattr(os, "pwrite", lambda *_: 3)
    with pytest.raises(OSError, match="not written whole"):
        head.write(device.head, known)


def test_an_empty_ledger_has_all_of_its_budget_left(device, one):
    with device.open(Budget(epsilon=2.0)):
        pass
    (found,) = left(content(device.path)) or []
    assert (found.spent, found.more) == (0.0, None)
    assert found.words.endswith("of 2 for all inferences")


def test_budgets_that_are_not_readable_are_corrupt():
    for text in ("{", '[{"epsilon": "much"}]', '[{"no": 1}]'):
        with pytest.raises(SpendingError, match="not readable"):
            read_budgets(text)


def test_a_budget_says_what_it_covers_and_assumes():
    assert Budget(epsilon=1.0).covers_all
    event = Budget(epsilon=1.0, event=5)
    assert not event.covers_all
    assert "within 5 rows" in event.assumes


def test_without_any_noise_a_total_is_infinite_and_says_why(one):
    silent = mechanism(Network.uniform(num_devices=4, noise_std=0.0), device=3, live=False)
    coins = mechanism(Network.uniform(num_devices=4, noise_std=0.5, participation=0.5), device=3, live=False)
    assert total({silent: 1, coins: 2}, 1e-5) == float("inf")
    assert "noise" in why_infinite({one: 1, silent: 1}, 1e-5, "zero-out")
    assert why_infinite({one: 10**6}, 1e-5, "zero-out")


def test_an_inference_that_must_be_new_is_refused_the_second_time(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
        with pytest.raises(SpendingError, match="charged before"):
            ledger.charge_all([Booking("a", one, "", "")], only_new=True)


@pytest.mark.parametrize(
    ("statement", "said"),
    [("PRAGMA user_version = 0", "is not a ledger"), ("DELETE FROM origin", "has 0 origins, must have one")],
)
def test_a_file_that_is_no_ledger_is_corrupt(told, device, statement, said):
    with closing(sqlite3.connect(device.path, isolation_level=None)) as base:
        for (trigger,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            base.execute(f"DROP TRIGGER {trigger}")
        base.execute(statement)
    with pytest.raises(SpendingError, match=said):
        content(device.path)


def test_a_fleet_view_knows_its_ledgers_and_whether_its_database_answers(told, tmp_path):
    view = Fleet(f"sqlite:///{tmp_path}/fleet.db")
    assert view.answers()
    view.take(told)
    assert view.ledger_of("device-3").rows == told.rows
    with pytest.raises(ValueError, match="must be one of the view's; keys that go by it: none"):
        view.ledger_of("device-9")
    view.close()
    assert not view.answers()


def test_a_fleet_view_in_a_file_that_is_no_database_is_refused_and_closed(tmp_path):
    (tmp_path / "fleet.db").write_bytes(b"no database at all, whatever its name" * 40)
    with pytest.raises(ValueError, match="file is not a database"):
        Fleet(f"sqlite:///{tmp_path}/fleet.db")
