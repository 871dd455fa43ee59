"""Budgets of events and of days beside the total, and spending against each of them."""

import json
import random
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from tests.ledger.test_budget import Clock, epsilon_of, over

from airpool import Network
from airpool.network import Neighbours, Slots
from airpool.privacy import gaussian
from airpool_runtime.charge import Charge, not_covered, require_all_covered
from airpool_runtime.ledger import backup as spending
from airpool_runtime.ledger.backup import content, faults, left, spending_lines
from airpool_runtime.ledger.budget import Allowance, Booking, Budget, Tally, most_covered
from airpool_runtime.ledger.chain import Row
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.spending import Use, total
from airpool_runtime.messages import WithdrawalReason


@pytest.fixture
def hand(monkeypatch):
    return Clock(monkeypatch)


def against(device, **how):
    found = left(content(device.path), **how)
    assert found is not None
    return found


def row(number, digest, epoch="", elapsed=0):
    return Row(number, str(number), digest, "", epoch, "", 0, elapsed, 0, "", "", "")


def test_an_event_budget_covers_any_stretch_of_its_length_and_no_longer_one(device, one, network):
    event = Budget(epsilon_of(network, 3), event=3)
    with device.open(event) as ledger:
        for i in range(10):  # ten in all, never more than three in a row
            assert ledger.charge(str(i), one).new
        assert ledger.prepare(one, most=8) == 8
    with device.open(Budget(epsilon_of(network, 3), event=4)) as ledger:
        assert "any 4 in a row" in over(ledger, "10", one)


def test_a_louder_mechanism_waits_until_the_event_before_it_has_passed(device):
    """Of any three in a row, two may be loud."""
    quiet, loud = (mechanism(Network.uniform(num_devices=4, noise_std=std), device=3) for std in (5.0, 0.5))
    event = Budget(total({loud: 2, quiet: 1}, 1e-5), event=3)
    with device.open(event) as ledger:
        ledger.charge("a", loud)
        ledger.charge("b", loud)
        assert over(ledger, "c", loud)
        ledger.charge("c", quiet)
        ledger.charge("d", loud)  # b, c, d
        ledger.charge("e", loud)  # c, d, e
        assert over(ledger, "f", loud)
        assert ledger.prepare(quiet, most=5) == 5


@pytest.mark.parametrize("seed", range(5))
def test_the_tally_of_an_event_agrees_with_counting_every_stretch(seed):
    rng = random.Random(seed)
    length, keys = rng.randint(1, 6), [("m", ""), ("m", "x"), ("n", "x"), ("n", "y")]
    drawn = [rng.choice(keys) for _ in range(40)]
    tally, before = Tally(Budget(1.0, event=length)), 25

    def counted(stretch):
        found = {}
        for digest in {key[0] for key in stretch}:
            own = [epoch for d, epoch in stretch if d == digest]
            found[digest] = Use(len(own), own.count("") + len(set(own) - {""}))
        return found

    for number, key in enumerate(drawn[:before], start=1):
        tally.add(row(number, *key))
        assert tally.used("", 0) == counted(drawn[max(0, number - length) : number])
    ends = list(tally.ended_by("", 0, drawn[before:]))
    assert ends == [counted(drawn[max(0, k - length) : k]) for k in range(before + 1, len(drawn) + 1)]
    assert tally.used("", 0) == counted(drawn[before - length : before])  # asking has changed nothing


@pytest.mark.parametrize("jump", [-1e9, 1e9])
def test_event_day_and_total_are_kept_together_whatever_the_date_says(device, one, network, hand, jump):
    few, day, whole = (epsilon_of(network, number) for number in (2, 4, 5))
    with device.open(Budget(whole), Budget(day, window_s=86400), Budget(few, window_s=300)) as ledger:
        ledger.charge("0", one)
        ledger.charge("1", one)
        hand.date += jump
        assert "any 300 s" in over(ledger, "2", one)
        hand.seconds += 301
        ledger.charge("2", one)
        ledger.charge("3", one)
        hand.seconds += 301
        assert "any 24 h" in over(ledger, "4", one)
        hand.seconds += 86400
        ledger.charge("4", one)
        hand.seconds += 86401
        assert "all inferences" in over(ledger, "5", one)


def test_further_inferences_are_as_many_as_the_ledger_then_takes(device, one, network):
    with device.open(Budget(epsilon_of(network, 9)), Budget(epsilon_of(network, 5), window_s=3600)) as ledger:
        for i in range(3):
            ledger.charge(str(i), one)
        whole, hour = against(device)
        assert (whole.inferences, hour.inferences) == (6, 2)
        assert whole.spent == pytest.approx(epsilon_of(network, 3))
        ledger.charge("3", one)
        ledger.charge("4", one)
        assert over(ledger, "5", one)
        assert [each.inferences for each in against(device)] == [4, 0]
        assert spending_lines(against(device))[1].endswith("nothing left now")


def test_the_number_of_further_inferences_is_that_of_the_closed_form():
    """Gaussians: ε of n is that of √n μ."""
    net = Network.uniform(num_devices=12, noise_std=0.5)
    one = mechanism(net, device=3, live=False)
    mu = 1 / 12 / (0.5 * np.sqrt(12))
    tally, allowance = Tally(Budget(8.0)), Allowance(8.0, 1e-5)
    for k in range(7):
        tally.add(row(k + 1, one.digest))
    found = most_covered(tally, allowance, Booking("", one), {one.digest: one}, 0, most=2**20)
    spent = gaussian.epsilon(mu * np.sqrt(np.array([found + 7, found + 8])), 1e-5)
    assert spent[0] <= 8.0 < spent[1]


def test_spending_is_printed_rounded_up_against_every_budget(device, one, network):
    with device.open(Budget(20.0), Budget(9.0, event=2)) as ledger:
        ledger.charge("a/1", one)
        ledger.charge("a/2", one)
    found = against(device, each=2)
    assert float(found[0].words.split()[0]) >= found[0].spent > float(found[0].words.split()[0]) - 0.01
    assert found[0].more is not None
    assert found[0].inferences == found[0].more // 2
    assert found[0].words.endswith(f"of 20 for all inferences, about {found[0].inferences} more inferences")
    assert "which any further one keeps to" in found[1].words
    assert "more slots" in against(device)[0].words  # how many make an inference is not known
    assert json.dumps([each.to_json() for each in found])


def test_no_budget_and_unknown_budgets_are_told_apart(device, one):
    with device.open() as ledger:
        ledger.charge("a", one)
    assert spending_lines(against(device)) == [spending.NO_BUDGET]
    with closing(sqlite3.connect(device.path)) as base, base:
        base.execute("DELETE FROM budgets")
    assert spending_lines(left(content(device.path))) == [spending.UNKNOWN]
    assert list(faults(content(device.path))) == []


def test_budgets_that_were_changed_in_the_file_are_found(device, one):
    with device.open(Budget(8.0, scene=True), Budget(2.0, neighbours=Neighbours.REPLACE)) as ledger:
        ledger.charge("a", one)
    assert content(device.path).budgets == (Budget(8.0, scene=True), Budget(2.0, neighbours=Neighbours.REPLACE))
    with closing(sqlite3.connect(device.path)) as base, base:
        base.execute("UPDATE budgets SET text = replace(text, '8.0', '80.0')")
    assert list(faults(content(device.path))) == ["the budgets that are written down were changed"]
    with device.open(Budget(8.0)) as ledger:  # which limits hold is not up to the file
        assert ledger.budgets == (Budget(8.0),)
    assert list(faults(content(device.path))) == []


def test_an_event_must_not_be_mixed_with_a_window_or_a_scene():
    with pytest.raises(ValueError, match="only one of them"):
        Budget(1.0, event=3, window_s=3.0)
    with pytest.raises(ValueError, match="only one of them"):
        Budget(1.0, event=3, scene=True)
    with pytest.raises(ValueError, match="event=0 must be >= 1"):
        Budget(1.0, event=0)


def test_a_ledger_that_cannot_be_read_is_not_called_a_spent_budget():
    class Broken(Charge):
        def __init__(self, why):
            self.why = why

        def charge_all(self, inferences): ...

        def refusal(self, *, probe=False):
            return self.why

    assert not_covered(Broken("missing: ledger.db: no such file")).reason == WithdrawalReason.DISK
    assert not_covered(Broken("over budget: spent")).reason == WithdrawalReason.BUDGET
    assert not_covered(Broken(None)).reason == WithdrawalReason.BUDGET


def test_a_device_whose_event_cannot_fit_does_not_start():
    net = Network.uniform(num_devices=4, noise_std=0.5, slots=Slots(4))
    limit = epsilon_of(net, 60)
    require_all_covered([Budget(limit, event=240)], net, 3)
    with pytest.raises(ValueError, match=r"an event of 60 inferences costs device 3 ε = .* --per-event 60"):
        require_all_covered([Budget(0.9 * limit, event=240)], net, 3)


def test_a_budget_must_cover_all_slots_of_one_inference():
    net = Network.uniform(num_devices=4, noise_std=0.5, slots=Slots(4))
    limit = epsilon_of(net, 1)
    require_all_covered([Budget(limit), Budget(limit, window_s=60.0)], net, 3)
    for short in (Budget(0.99 * limit), Budget(0.99 * limit, window_s=60.0), Budget(0.99 * limit, scene=True)):
        with pytest.raises(ValueError, match=r"one inference of up to 4 slots costs device 3 ε = .* more than its"):
            require_all_covered([Budget(limit), short], net, 3)
