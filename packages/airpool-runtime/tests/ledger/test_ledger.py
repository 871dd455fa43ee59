"""The ledger: charged once, before anything is sent, and never beyond its budget."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from airpool import Claim, Network, guarantee
from airpool_runtime.ledger.backup import content, copy, faults
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.refused import SpendingError


def for_inferences(network, number, *, live=True):
    return Budget(float(guarantee(network, Claim(inferences=number, live=live)).epsilon[3]))


def status(call, *arguments, **more):
    with pytest.raises(SpendingError) as caught:
        call(*arguments, **more)
    assert "\n" not in str(caught.value)
    return caught.value.status


@pytest.mark.parametrize("participation", [1.0, 0.9])
def test_a_budget_for_fifty_inferences_refuses_the_fifty_first(device, participation):
    network = Network.uniform(num_devices=4, noise_std=0.5, participation=participation)
    one, budget = mechanism(network, device=3), for_inferences(network, 50)
    with device.open(budget) as ledger:
        for i in range(50):
            assert ledger.charge(f"inference {i}", one).new
        assert status(ledger.charge, "one more", one) == "over budget"
        assert ledger.epsilon(1e-5) <= budget.epsilon
    for _ in range(2):
        with device.open(budget) as ledger:
            assert status(ledger.charge, "one more", one) == "over budget"
            assert not ledger.charge("inference 49", one).new
    assert len(content(device.path).rows) == 50


def test_an_inference_is_charged_once_and_says_so(device, one, network):
    with device.open() as ledger:
        first = ledger.charge("a", one)
        again = ledger.charge("a", one)
        assert (first.new, again.new) == (True, False)
        assert first.row == again.row
        assert status(ledger.charge, "a", mechanism(network, device=2)) == "clash"
        assert status(ledger.charge, "a", one, scene="another") == "clash"
        assert ledger.charge("b", one).row.seq == 2


def test_a_restored_copy_is_noticed_before_anything_is_sent(device, one, network):
    budget, old = for_inferences(network, 50), device.folder / "old.db"
    with device.open(budget) as ledger:
        for i in range(10):
            ledger.charge(f"{i}", one)
        copy(device.path, old)
        for i in range(10, 50):
            ledger.charge(f"{i}", one)
    shutil.copy(device.path, device.folder / "new.db")
    shutil.copy(old, device.path)
    assert status(device.open, budget) == "restored"
    shutil.copy(device.folder / "new.db", device.path)
    with device.open(budget) as ledger:
        assert status(ledger.charge, "50", one) == "over budget"


def test_a_copy_that_is_restored_under_a_running_device_is_noticed(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
        copy(device.path, device.folder / "old.db")
        ledger.charge("b", one)
        os.replace(device.folder / "old.db", device.path)
        assert status(ledger.charge, "c", one) == "restored"
    Path(f"{device.path}-wal").unlink(missing_ok=True)  # with it, SQLite would bring the newer row back
    assert status(device.open) == "restored"


def test_two_copies_that_are_open_at_once_do_not_both_charge(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
    twin = device.folder / "twin.db"
    twin.write_bytes(device.path.read_bytes())
    with device.open() as ledger, Ledger(twin, device.key) as other:
        assert ledger.charge("b", one).row.seq == 2
        assert status(other.charge, "c", one) == "restored"
        assert ledger.charge("d", one).row.seq == 3


def test_a_link_to_a_ledger_is_that_ledger(device, one):
    with device.open() as ledger:
        link = device.folder / "link.db"
        link.symlink_to(device.path)
        with Ledger(link, device.key) as other:
            for seq in range(1, 5):
                assert (ledger, other)[seq % 2].charge(f"{seq}", one).row.seq == seq


def test_a_ledger_and_head_that_are_restored_together_under_a_running_device_are_noticed(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
    old, old_head = device.path.read_bytes(), device.head.read_bytes()
    with device.open() as ledger:
        ledger.charge("b", one)
        ledger._store._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        device.path.write_bytes(old)
        device.head.write_bytes(old_head)
        assert status(ledger.charge, "c", one) == "restored"
        assert status(ledger.charge, "c", one) == "restored"


def test_a_head_that_is_deleted_under_a_running_device_is_not_begun_anew(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
        device.head.unlink()
        assert status(ledger.charge, "b", one) == "missing"


def test_a_deleted_ledger_is_not_begun_anew(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
        device.path.unlink()
        assert status(ledger.charge, "b", one) == "missing"
        assert status(ledger.charge, "b", one) == "missing"
    assert status(device.open) == "missing"
    assert not device.path.exists()


def test_a_ledger_whose_head_is_gone_is_refused(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
    device.head.unlink()
    assert status(device.open) == "missing"
    device.head.write_bytes(b"rubbish")
    assert status(device.open) == "corrupt"


def test_a_ledger_of_another_key_or_of_another_head_is_refused(device, one, tmp_path_factory):
    other = type(device)(tmp_path_factory.mktemp("other"))
    for each in (device, other):
        with each.open() as ledger:
            ledger.charge("a", one)
    shutil.copy(other.path, device.path)
    assert status(device.open) == "clash"
    shutil.copy(other.key, device.key)
    assert status(device.open) == "restored"


def test_a_kill_between_row_and_head_loses_nothing(device, one, monkeypatch):
    with device.open() as ledger:
        ledger.charge("a", one)
        with monkeypatch.context() as patch:

            def fail(*_):
                raise OSError(28, "No space left on device")

            patch.setattr("airpool_runtime.ledger.head.write", fail)
            assert status(ledger.charge, "b", one) == "disk full"
        assert not ledger.charge("b", one).new
        assert ledger.charge("c", one).row.seq == 3
    with device.open() as ledger:
        assert ledger.tip.seq == 3


def test_the_newest_row_of_the_fleet_is_believed_only_if_the_device_signed_it(device, one):
    with device.open() as ledger:
        row = ledger.charge("a", one).row
    device.open(seen=row).close()
    forged = row._replace(seq=9, inference="x")
    device.open(seen=forged._replace(hash=forged.true_hash)).close()  # a lie silences nobody
    for path in (device.path, device.head):  # all is gone: a fresh start, but for the fleet
        path.unlink()
    assert status(device.open, seen=row) == "restored"


def test_a_false_row_of_the_fleet_does_not_stop_a_device(device, one):
    with device.open() as ledger:
        row = ledger.charge("a", one).row
    for false in (row._replace(signature=5), row._replace(inference=["b"]), row._replace(seq={}, signature=None)):
        with device.open(seen=false._replace(hash=false.true_hash)) as ledger:
            assert ledger.tip.seq == 1


def test_threads_share_a_ledger(device, one, network):
    budget, new, refusals = for_inferences(network, 20), [], []
    with device.open(budget) as ledger:

        def charge(name):
            for i in range(15):
                try:
                    new.append(ledger.charge(f"{name} {i}", one).row.seq)
                except SpendingError as refused:
                    refusals.append(refused.status)

        threads = [threading.Thread(target=charge, args=(name,)) for name in "abc"]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert sorted(new) == list(range(1, 21))
    assert refusals == ["over budget"] * 25


TWO = """
import sys
from airpool import Network
from airpool_runtime.ledger.ledger import *
from airpool_runtime.ledger.mechanism import mechanism
path, key, epsilon, name = sys.argv[1:]
one = mechanism(Network.uniform(num_devices=4, noise_std=0.5), device=3)
print("ready", flush=True)
sys.stdin.readline()
charged = 0
with Ledger(path, key, budgets=[Budget(float(epsilon))]) as ledger:
    for i in range(40):
        try:
            charged += ledger.charge(f"{name} {i}", one).new
        except SpendingError as refused:
            assert refused.status == "over budget", refused
print(charged)
"""


def test_two_processes_do_not_overspend(device, network):
    epsilon = for_inferences(network, 50).epsilon
    device.open().close()
    both = [
        subprocess.Popen(
            [sys.executable, "-c", TWO, device.path, device.key, repr(epsilon), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    try:
        for process in both:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        found = [process.communicate("go\n", timeout=120)[0] for process in reversed(both)]
    finally:
        for process in both:
            process.kill()
            process.wait()
    assert sum(map(int, found)) == 50
    assert list(faults(content(device.path), head=device.head)) == []


def test_a_name_that_is_no_name_is_an_error(device, one):
    with device.open() as ledger:
        for name in ("", "x" * 201, 7):
            with pytest.raises(ValueError, match="inference must be a text"):
                ledger.charge(name, one)


def test_what_cannot_be_accounted_for_is_refused(device):
    """Composition needs δ ≥ 1e-10; a network that must not go on the air has no live guarantee at all."""
    coin = mechanism(Network.uniform(num_devices=4, participation=0.9), device=3)
    silent = mechanism(Network.uniform(num_devices=4, noise_std=0.0), device=3)
    with device.open(Budget(1e3, delta=1e-12)) as ledger:
        assert status(ledger.charge, "a", coin) == "failed"
        assert status(ledger.charge, "a", silent) == "failed"
    assert content(device.path).rows == ()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed on Linux alone")
def test_a_ledger_that_is_refused_is_not_left_open(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
    device.head.unlink()
    with pytest.raises(SpendingError) as caught:  # whose traceback still holds the ledger
        device.open()
    assert caught.value.status == "missing"
    held = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    assert not [each for each in held if each.startswith(str(device.path))]


def test_the_ledger_and_its_head_are_private(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
        for path in (device.path, device.head, Path(f"{device.path}-wal")):
            assert path.stat().st_mode & 0o077 == 0
    assert isinstance(ledger, Ledger)
