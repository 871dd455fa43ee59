"""Several inferences in one commit: all or nothing, with what `charge` promises; and a probe that really writes."""

import pytest

from airpool import Channel, Network
from airpool_runtime.ledger.backup import content, faults
from airpool_runtime.ledger.budget import Booking, Budget
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.refused import SpendingError


def bookings(names, one, **more):
    return [Booking(name, one, **more) for name in names]


def refused(ledger, wanted):
    with pytest.raises(SpendingError) as caught:
        ledger.charge_all(wanted)
    return caught.value.status


def test_a_batch_is_the_same_rows_as_one_by_one(device, one):
    with device.open() as ledger:
        assert [each.new for each in ledger.charge_all(bookings("abc", one))] == [True] * 3
        assert [each.new for each in ledger.charge_all(bookings("cdda", one))] == [False, True, False, False]
        assert ledger.charge_all([]) == []
        assert ledger.tip.seq == 4
        assert not ledger.charge("d", one).new
    found = content(device.path)
    assert [row.inference for row in found.rows] == list("abcd")
    assert list(faults(found, head=device.head)) == []
    with device.open() as again:
        assert again.tip.seq == 4


def test_a_budget_covers_the_whole_batch_or_nothing_of_it(device, one):
    with device.open() as plain:
        plain.charge_all(bookings("abc", one))
        three = plain.epsilon(1e-5)
    with device.open(Budget(three * 1.2)) as ledger:
        assert refused(ledger, bookings("de", one)) == "over budget"
        assert ledger.tip.seq == 3
        assert not ledger.charge("a", one).new
    with device.open(Budget(three)) as ledger:
        assert refused(ledger, bookings("cd", one)) == "over budget"
        assert [each.new for each in ledger.charge_all(bookings("abc", one))] == [False] * 3


def test_scenes_of_a_batch_have_budgets_of_their_own(device, one):
    with device.open() as plain:
        plain.charge_all([*bookings("ab", one, scene="x"), *bookings("cd", one, scene="y")])
        two = plain.epsilon(1e-5, scene="x")
    with device.open(Budget(two * 1.001, scene=True)) as ledger:
        assert len(ledger.charge_all([*bookings("ef", one, scene="u"), *bookings("gh", one, scene="v")])) == 4
        assert refused(ledger, [*bookings("i", one, scene="w"), *bookings("j", one, scene="v")]) == "over budget"
        assert ledger.charge("i", one, scene="w").new


def test_epochs_of_a_batch_count_once(device):
    net = Network.uniform(num_devices=4, noise_std=0.5, channel=Channel(fading="rayleigh", redrawn=False))
    still = mechanism(net, device=3)
    with device.open() as plain:
        for name in "abc":
            plain.charge(name, still, epoch="one")
        same = plain.epsilon(1e-5)
    with type(device)(_other(device)).open(Budget(same)) as ledger:
        assert refused(ledger, bookings("abc", still)) == "over budget"
        assert len(ledger.charge_all(bookings("abc", still, epoch="one"))) == 3
        assert ledger.epsilon(1e-5) == same


def _other(device):
    folder = device.folder / "other"
    folder.mkdir()
    return folder


def test_a_clash_in_a_batch_charges_nothing(device, one, network):
    other = mechanism(network, device=2)
    with device.open() as ledger:
        ledger.charge("a", one)
        assert refused(ledger, [*bookings("b", one), *bookings("a", other)]) == "clash"
        assert refused(ledger, [*bookings("b", one), *bookings("b", one, scene="x")]) == "clash"
        with pytest.raises(ValueError, match="at most 200"):
            ledger.charge_all([*bookings("b", one), Booking("", one)])
        assert ledger.tip.seq == 1


def test_a_batch_that_cannot_be_written_is_charged_not_at_all(device, one, monkeypatch):
    from airpool_runtime.ledger import chain

    with device.open() as ledger:
        ledger.charge("a", one)
        good, made = chain.signed, []

        def bad(*args, **what):
            made.append(good(*args, **what))
            return made[0] if len(made) == 2 else made[-1]  # a second row with the name of the first

        monkeypatch.setattr(chain, "signed", bad)
        assert refused(ledger, bookings("bc", one)) == "failed"
        monkeypatch.setattr(chain, "signed", good)
        assert ledger.tip.seq == 1
        assert [each.new for each in ledger.charge_all(bookings("bc", one))] == [True, True]
    assert list(faults(content(device.path), head=device.head)) == []


def test_a_kill_between_a_batch_and_the_head_loses_nothing(device, one, monkeypatch):
    with device.open() as ledger:
        ledger.charge_all(bookings("ab", one))
        with monkeypatch.context() as patch:
            patch.setattr("airpool_runtime.ledger.head.write", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
            assert refused(ledger, bookings("cd", one)) == "disk full"
    with device.open() as again:
        assert [each.new for each in again.charge_all(bookings("cde", one))] == [False, False, True]
    assert list(faults(content(device.path), head=device.head)) == []


def test_batches_never_write_over_the_newest_head(device, one):
    """Whatever half of the head is damaged, the other one is the newest or the one before it."""
    with device.open() as ledger:
        for pair in ("ab", "cd", "ef"):
            ledger.charge_all(bookings(pair, one))
    content_ = device.head.read_bytes()
    assert b'"count": 6' in content_
    assert b'"count": 4' in content_


def test_a_probe_writes_and_charges_nothing(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
        before = ledger._store.stamps()
        ledger.probe()
        assert ledger._store.stamps() != before
        assert ledger.tip.seq == 1
        assert ledger.charge("b", one).new
    assert {path.name for path in device.folder.iterdir()} == {"ledger.db", "ledger.db.lock", "keys"}
    assert list(faults(content(device.path), head=device.head)) == []


def test_a_probe_finds_a_restored_ledger(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
        device.head.unlink()
        with pytest.raises(SpendingError) as caught:
            ledger.probe()
        assert caught.value.status == "missing"
