"""The fleet view: fed by signed rows, in SQLite and in a real PostgreSQL; never trusted over a device."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from airpool_runtime.ledger.backup import content, exported, imported, rebuilt
from airpool_runtime.ledger.fleet import Fleet, FleetReportError
from airpool_runtime.ledger.refused import SpendingError


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.check)])
def view(request, tmp_path):
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'fleet.db'}" if sqlite else request.getfixturevalue("postgres").url
    fleet = Fleet(url)
    yield fleet
    if request.param == "postgres":
        for table in ("ledger_charge", "ledger_epoch", "ledger_mechanism", "ledger_origin", "ledger_version"):
            fleet._base.execute(f"DROP TABLE {table}")
    fleet.close()


def test_rows_are_taken_once_and_in_parts(view, told, one):
    from airpool_runtime.ledger.spending import total

    assert view.take(type(told)(told.origin, told.texts, told.rows[:4])) == 4
    assert view.take(told) == 2
    assert view.take(told) == 0
    (account,) = view.accounts(1e-5)
    assert (account.device, account.inferences) == ("device-3", 6)
    assert account.epsilon == pytest.approx(total({one: 6}, 1e-5))
    assert view.newest(told.origin.key) == told.rows[-1]


def test_a_part_after_a_part(view, device, told, one):
    view.take(told)
    with device.open(seen=view.newest(told.origin.key)) as ledger:
        ledger.charge("another", one)
    assert view.take(content(device.path, after=6)) == 1


def test_what_the_device_did_not_sign_or_does_not_follow_is_rejected(view, told):
    def of(*rows):
        return type(told)(told.origin, told.texts, rows)

    forged = told.rows[0]._replace(mechanism=told.rows[0].mechanism, date=1)
    for wrong, said in (
        (of(told.rows[1]), "does not follow row 0"),
        (of(forged), "not signed"),
        (of(forged._replace(hash=forged.true_hash)), "not signed"),
        (type(told)(told.origin, {}, told.rows), "was not told"),
        (type(told)(replace(told.origin, device="device-4"), told.texts, told.rows), "does not follow"),
    ):
        with pytest.raises(FleetReportError, match=said):
            view.take(wrong)
    assert view.accounts(1e-5) == []
    assert view.take(of(*told.rows[:2])) == 2


def test_nobody_claims_a_key_without_a_row_that_it_has_signed(view, told):
    claim = replace(told, origin=replace(told.origin, device="device-0"), rows=())
    assert view.take(claim) == 0
    assert view.owner(told.origin.key) is None
    view.take(told)
    assert view.owner(told.origin.key) == "device-3"


def test_a_fork_is_rejected_and_a_fresh_start_is_noticed_by_the_device(view, device, told, one):
    """All of a device is restored, the head too: only the view has seen the newer rows."""
    import shutil as files

    kept = device.folder / "kept"
    files.copytree(device.folder, kept, ignore=files.ignore_patterns("kept"))
    with device.open() as ledger:
        ledger.charge("newer", one)
    view.take(content(device.path))
    files.copy(kept / "ledger.db", device.path)
    files.copy(kept / "keys" / "identity.head", device.head)
    with pytest.raises(SpendingError) as caught:
        device.open(seen=view.newest(told.origin.key))
    assert caught.value.status == "restored"
    with device.open() as ledger:  # without the view it cannot know
        ledger.charge("other", one)
    with pytest.raises(FleetReportError, match="a fork: row 7"):
        view.take(content(device.path))


def test_a_lost_ledger_is_rebuilt_from_the_view(view, device, told, one):
    view.take(told)
    device.path.unlink()
    lines = list(exported(view.ledger_of(told.origin.device)))
    rebuilt(imported(lines), device.path)
    with device.open() as ledger:
        assert ledger.tip.seq == 6
        assert not ledger.charge("3", one).new


def test_a_new_view_is_for_its_owner_alone(tmp_path, told):
    path = tmp_path / "fleet.db"
    before = os.umask(0o022)
    try:
        view = Fleet(f"sqlite:///{path}")
        view.take(told)
        view.close()
    finally:
        os.umask(before)
    assert [oct(each.stat().st_mode & 0o777) for each in tmp_path.glob("fleet.db*")] == ["0o600"]


@pytest.mark.parametrize("url", ["", "mysql://x", "sqlite://", "sqlite:///", "ledger.db"])
def test_another_url_is_an_error(url):
    with pytest.raises(ValueError, match="sqlite:///FILE or postgresql://"):
        Fleet(url)


@pytest.mark.parametrize("statement", ["UPDATE ledger_version SET version = 5", "DROP TABLE ledger_version"])
def test_a_view_of_another_version_is_refused_by_name_and_left_as_it_is(tmp_path, told, statement):
    file = tmp_path / "fleet.db"
    with closing(Fleet(f"sqlite:///{file}")) as view:
        view.take(told)
    with closing(sqlite3.connect(file, isolation_level=None)) as base:
        base.execute(statement)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"the fleet view .*fleet\.db: its version is (5|none), .* supports 6 alone"):
        Fleet(f"sqlite:///{file}")
    assert file.read_bytes() == before


def test_another_sqlite_file_is_not_taken_for_a_view(device, told):
    before = device.path.read_bytes()
    with pytest.raises(ValueError, match=r"ledger\.db is not a fleet view: it has a table 'budgets'"):
        Fleet(f"sqlite:///{device.path}")
    assert device.path.read_bytes() == before


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////nonexistent/folder/fleet.db",
        "postgresql://user:S3cret@127.0.0.1:1/base",
        "postgresql://user:S3cr%zzet@127.0.0.1:1/base",
    ],
)
def test_a_view_that_cannot_be_opened_is_an_error_of_one_line_without_the_password(url):
    if url.startswith("postgresql"):
        pytest.importorskip("psycopg")
    with pytest.raises(ValueError, match="the fleet view: ") as caught:
        Fleet(url)
    assert "S3cr" not in str(caught.value)
    assert "\n" not in str(caught.value)
