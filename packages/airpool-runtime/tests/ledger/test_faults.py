"""A disk that is full, a file that is read-only, damaged or gone: silence, never a transmission that is not charged."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airpool_runtime.ledger.backup import content, faults
from airpool_runtime.ledger.budget import Booking
from airpool_runtime.ledger.refused import SpendingError

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 200 kB of its own."""
    where = tmp_path / "disk"
    where.mkdir()
    mounted = AS_ROOT and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "airpool-test", where], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("no right to mount a small disk")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", where], check=False)


def charge_until_refused(ledger, one, most=5000):
    for i in range(most):
        try:
            ledger.charge(f"{i}", one)
        except SpendingError as refused:
            return i, refused.status
    return most, None


def refused(act):
    with pytest.raises(SpendingError) as caught:
        act()
    return caught.value.status


def test_a_full_disk_is_silence_and_goes_on_when_there_is_room(device, one, small_disk):
    device.path = small_disk / "ledger.db"
    with device.open() as ledger:
        (small_disk / "other").write_bytes(b"x" * 60_000)
        charged, status = charge_until_refused(ledger, one)
        assert status == "disk full"
        assert charged > 0
        assert refused(ledger.probe) == "disk full"
        assert refused(lambda: ledger.charge_all([Booking("x", one), Booking("y", one)])) == "disk full"
        assert not ledger.charge("0", one).new
        (small_disk / "other").unlink()
        ledger.probe()
        assert ledger.charge("another", one).new
    found = content(device.path)
    assert list(faults(found, head=device.head)) == []
    assert len(found.rows) == charged + 1


LIMITED = """
import resource, signal, sys
from airpool import Network
from airpool_runtime.ledger.ledger import *
from airpool_runtime.ledger.mechanism import mechanism
one = mechanism(Network.uniform(num_devices=4, noise_std=0.5), device=3)
ledger = Ledger(sys.argv[1], sys.argv[2])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
for i in range(1000):
    try:
        ledger.charge(f"{i}", one)
    except SpendingError as refused:
        print(i, refused.status)
        break
"""


def test_a_file_that_may_not_grow_is_silence(device, one):
    assert resource.RLIMIT_FSIZE, signal.SIGXFSZ
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, device.path, device.key], capture_output=True, text=True, check=True
    )
    charged, _, status = done.stdout.strip().partition(" ")
    assert status in ("disk full", "failed")
    assert 0 < int(charged) < 1000
    with device.open() as ledger:
        assert ledger.tip.seq == int(charged)


def test_a_read_only_file_is_silence(device, one, request):
    disk = request.getfixturevalue("small_disk") if AS_ROOT else device.folder
    device.path = disk / "ledger.db"
    ledger = device.open()
    ledger.charge("a", one)
    ledger.close()
    if AS_ROOT:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    else:
        device.path.chmod(0o400)
        device.path.parent.chmod(0o500)
    try:
        assert refused(ledger.probe) in ("read-only", "missing")
        with pytest.raises(SpendingError) as caught, device.open() as again:
            again.charge("b", one)
        assert caught.value.status in ("read-only", "missing")
    finally:
        ledger.close()
        device.path.parent.chmod(0o700) if not AS_ROOT else None


def test_a_head_that_cannot_be_written_is_silence(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
        shutil.move(device.head.parent, device.folder / "gone")
        refused(ledger.probe)
        with pytest.raises(SpendingError):
            ledger.charge("b", one)
        shutil.move(device.folder / "gone", device.head.parent)
        assert ledger.charge("b", one).new  # it was refused before the row was written
        assert ledger.charge("c", one).new


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
@pytest.mark.parametrize("part", ["", "-wal"], ids=["file", "log"])
def test_damage_is_silence_or_harmless(device, one, running, part, tmp_path_factory):
    """Bytes are overwritten at random places: the device stays silent, or all of its rows are still there."""
    rng, silent = random.Random(f"{running}{part}"), []
    with device.open() as ledger:
        for i in range(30):
            ledger.charge(f"{i}", one)
        if not part:
            ledger._store._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            ledger.charge("30", one)
        kept = {path: path.read_bytes() for path in (device.path, Path(f"{device.path}-wal"))}
        head = device.head.read_bytes()
        rows = ledger.tip.seq
    for _ in range(16):
        trial = type(device)(tmp_path_factory.mktemp("trial"))
        shutil.copy(device.key, trial.key)
        for path, old in kept.items():
            (trial.folder / path.name).write_bytes(old)
        trial.head.write_bytes(head)
        ledger = trial.open() if running else None
        damaged = Path(f"{trial.path}{part}")
        before = damaged.read_bytes()
        at = rng.randrange(len(before) - 64)
        with damaged.open("r+b") as file:
            file.seek(at)
            file.write(bytes(b ^ 0xFF for b in before[at : at + 64]))
        try:
            with ledger or trial.open() as ledger:
                new = ledger.charge("new", one)
                assert new.row.seq == rows + 1
            found = content(trial.path)
            assert list(faults(found, head=trial.head)) == []
            assert len(found.rows) == rows + 1
        except SpendingError as refused:
            silent.append(refused.status)
        finally:
            ledger.close() if ledger else None
    assert silent  # not always: much of a file is free, or is written in the log again
    assert set(silent) <= {"corrupt", "restored", "failed", "missing"}


def test_a_deleted_log_is_silence_or_harmless(device, one):
    """SQLite may still have the log open, and then nothing is lost."""
    with device.open() as ledger:
        ledger.charge("a", one)
        Path(f"{device.path}-wal").unlink()
        try:
            assert ledger.charge("b", one).row.seq == 2
        except SpendingError:
            return
    found = content(device.path)
    assert list(faults(found, head=device.head)) == []
    assert len(found.rows) == 2


def test_a_log_that_is_lost_while_nobody_runs_is_silence(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
        kept = device.path.read_bytes()
    device.path.write_bytes(kept)  # as it was before the log was written into it
    assert not Path(f"{device.path}-wal").exists()
    with pytest.raises(SpendingError) as caught:
        device.open()
    assert caught.value.status in ("restored", "corrupt")


def test_a_deleted_folder_is_silence(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
        shutil.rmtree(device.folder)
        with pytest.raises(SpendingError) as caught:
            ledger.charge("b", one)
        assert caught.value.status == "missing"


class Clock:
    """A clock that goes on as one sleeps."""

    def __init__(self):
        self.slept = 0.0

    def monotonic(self):
        return self.slept

    def sleep(self, seconds):
        self.slept += seconds


def test_a_lock_that_is_never_freed_is_silence_and_stops_other_devices_only_shortly(device, one, monkeypatch):
    import fcntl

    clock = Clock()
    with device.open() as ledger, Path(f"{device.path}.lock").open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        monkeypatch.setattr("airpool_runtime.ledger.ledger.time", clock)
        assert refused(lambda: ledger.charge("a", one)) == "busy"
        assert clock.slept < 0.3
        assert refused(ledger.probe) == "busy"
        assert refused(lambda: ledger.prepare(one)) == "busy"
        assert clock.slept < 0.9
        assert refused(device.open) == "busy"  # a start may take its time
        assert clock.slept > 5


def test_a_lock_is_waited_for_while_others_take_turns(device, one, monkeypatch):
    import fcntl

    clock = Clock()
    with device.open() as ledger, Path(f"{device.path}.lock").open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def sleep(seconds):
            Clock.sleep(clock, seconds)
            if clock.slept % 0.1 < 0.0015:
                os.utime(other.fileno(), ns=(0, int(clock.slept * 1e9)))  # another one had it
            if clock.slept > 2:
                fcntl.flock(other, fcntl.LOCK_UN)

        clock.sleep = sleep
        monkeypatch.setattr("airpool_runtime.ledger.ledger.time", clock)
        assert ledger.charge("a", one).new
        assert clock.slept > 2
