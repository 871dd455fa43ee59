"""Budgets for all inferences, for a scene and for a window of time; and a clock that nobody can set."""

import shutil
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airpool import Claim, Network, guarantee
from airpool_runtime.ledger import budget as budgets
from airpool_runtime.ledger import clock
from airpool_runtime.ledger.budget import Allowance, Budget
from airpool_runtime.ledger.clock import Moment
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.refused import SpendingError
from airpool_runtime.ledger.spending import Use, total


def epsilon_of(network, number):
    return float(guarantee(network, Claim(inferences=number, live=True)).epsilon[3])


def over(ledger, name, one, **more):
    with pytest.raises(SpendingError) as caught:
        ledger.charge(name, one, **more)
    assert caught.value.status == "over budget"
    return str(caught.value)


class Clock:
    """A machine's counter and date, set by hand."""

    def __init__(self, monkeypatch):
        self.boot, self.seconds, self.date = "boot 1", 1000.0, 1.7e9
        monkeypatch.setattr(clock, "_counter", lambda: (self.boot, int(self.seconds * 1000)))
        monkeypatch.setattr(time, "time_ns", lambda: int(self.date * 1e9))


@pytest.fixture
def hand(monkeypatch):
    return Clock(monkeypatch)


def test_a_scene_has_its_own_budget_and_the_whole_has_one_too(device, one, network):
    scene, whole = Budget(epsilon_of(network, 3), scene=True), Budget(epsilon_of(network, 5))
    with device.open(scene, whole) as ledger:
        for i in range(3):
            ledger.charge(f"a{i}", one, scene="a")
        assert "this scene" in over(ledger, "a3", one, scene="a")
        ledger.charge("b0", one, scene="b")
        ledger.charge("b1", one, scene="b")
        assert "all inferences" in over(ledger, "b2", one, scene="b")
        assert ledger.epsilon(1e-5, scene="a") == pytest.approx(scene.epsilon)
    with device.open(scene) as ledger:
        assert over(ledger, "a3", one, scene="a")
        assert ledger.charge("b2", one, scene="b").new


def test_a_window_opens_when_time_has_really_passed(device, one, network, hand):
    window = Budget(epsilon_of(network, 2), window_s=60)
    with device.open(window) as ledger:
        ledger.charge("0", one)
        hand.seconds += 30
        ledger.charge("1", one)
        assert "any 60 s" in over(ledger, "2", one)
        hand.seconds += 30
        assert over(ledger, "2", one)  # to the last millisecond
        hand.seconds += 1
        ledger.charge("2", one)
        assert over(ledger, "3", one)
    with device.open(window) as ledger:
        assert over(ledger, "3", one)
        hand.seconds += 61
        assert ledger.charge("3", one).new


@pytest.mark.parametrize("jump", [-1e9, -3600, 3600, 1e9])
def test_a_date_that_jumps_changes_nothing(device, one, network, hand, jump):
    window = Budget(epsilon_of(network, 2), window_s=60)
    with device.open(window) as ledger:
        ledger.charge("0", one)
        hand.date += jump
        ledger.charge("1", one)
        hand.date += jump
        assert over(ledger, "2", one)
    with device.open(window) as ledger:
        assert over(ledger, "2", one)
        hand.date, hand.seconds = 1.7e9, hand.seconds + 61
        assert ledger.charge("2", one).new


def test_time_that_the_machine_was_off_does_not_count(device, one, network, hand):
    window = Budget(epsilon_of(network, 1), window_s=60)
    with device.open(window) as ledger:
        ledger.charge("0", one)
    hand.boot, hand.seconds, hand.date = "boot 2", 20.0, hand.date + 86400
    with device.open(window) as ledger:
        assert over(ledger, "1", one)
        hand.seconds = 62.0
        assert ledger.charge("1", one).new


def test_a_ledger_that_moves_to_a_machine_that_has_run_for_a_month_has_not_waited_a_month(device, one, network, hand):
    window = Budget(epsilon_of(network, 1), window_s=86400)
    with device.open(window) as ledger:
        ledger.charge("0", one)
    hand.boot, hand.seconds, hand.date = "another machine", 30 * 86400.0, hand.date + 60
    with device.open(window) as ledger:
        assert over(ledger, "1", one)
        hand.date += 1e9
        assert over(ledger, "1", one)
        hand.seconds += 86400
        assert ledger.charge("1", one).new


@given(st.lists(st.tuples(st.booleans(), st.integers(-(10**6), 10**6)), max_size=20))
def test_elapsed_time_never_falls_and_never_exceeds_what_has_passed(steps):
    """A counter that goes on, goes back (a restored machine) or begins anew."""
    last, real, since = None, 0, 5000
    for restarted, change in steps:
        since = abs(change) if restarted else max(0, since + change)
        real += abs(change)
        boot = f"boot {real}" if restarted else (last.boot if last else "boot")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clock, "_counter", lambda boot=boot, since=since: (boot, since))
            moment = clock.now(last)
        assert (last.elapsed if last else 0) <= moment.elapsed <= real
        last = moment


def test_where_a_start_has_no_name_another_process_does_not_add_the_time_that_the_machine_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(clock, "_BOOT_ID", tmp_path / "none")
    monkeypatch.setattr(clock, "_STARTED", time.monotonic_ns())
    earlier = Moment("process-before", 10**9, 1000, 0)
    assert 1000 <= clock.now(earlier).elapsed < 1000 + 60_000


def test_processes_that_take_turns_count_no_time_twice(device, one, network, hand):
    """Where starts have no name: two processes, both up for an hour, that take turns every second."""
    window = Budget(epsilon_of(network, 2), window_s=60)
    uptimes = {"process-a": 3600.0, "process-b": 7200.0}

    def turn(ledger, boot, name, seconds):
        for each in uptimes:
            uptimes[each] += seconds
        hand.boot, hand.seconds = boot, uptimes[boot]
        return ledger.charge(name, one)

    hand.boot, hand.seconds = "process-a", uptimes["process-a"]
    with device.open(window) as a:
        turn(a, "process-a", "0", 0)
        hand.boot, hand.seconds = "process-b", uptimes["process-b"]
        with device.open(window) as b:
            turn(b, "process-b", "1", 1)
            for i in range(4):
                ledger, boot = ((a, "process-a"), (b, "process-b"))[i % 2]
                with pytest.raises(SpendingError, match="any 60 s"):
                    turn(ledger, boot, "2", 1)
            assert turn(a, "process-a", "2", 60).new
            assert turn(b, "process-b", "3", 1).new
            assert [row.elapsed for row in b._store.rows()] == [0, 1000, 65000, 66000]


def test_a_process_that_begins_counts_from_when_it_has_seen_the_ledger(device, one, network, hand):
    window = Budget(epsilon_of(network, 1), window_s=60)
    hand.boot = "process-a"
    with device.open(window) as ledger:
        ledger.charge("0", one)
    hand.boot, hand.seconds = "process-b", 5000.0
    with device.open(window) as ledger:
        assert over(ledger, "1", one)
        hand.seconds += 61
        assert ledger.charge("1", one).new


def test_the_real_counter_goes_on():
    first = clock.now(None)
    later = clock.now(first)
    assert later.boot == first.boot
    assert 0 <= later.elapsed < 10_000
    assert isinstance(first, Moment)


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0}, {"epsilon": float("nan")}, {"delta": 1.0}, {"window_s": 0}, {"scene": True, "window_s": 3}],
)
def test_a_budget_that_is_none_is_an_error(wrong):
    with pytest.raises(ValueError, match=r"budget"):
        Budget(**{"epsilon": 1.0, **wrong})


def test_every_budget_says_what_it_assumes():
    assert "one scene only" in Budget(1.0, scene=True).assumes
    assert "windows add up" in Budget(1.0, window_s=60).assumes
    assert "everything that this ledger has charged" in Budget(1.0).assumes


def test_an_allowance_decides_as_composition_does_and_composes_seldom(monkeypatch):
    network = Network.uniform(num_devices=4, noise_std=0.5)
    a, b = mechanism(network, device=3), mechanism(network, device=3, quorum=3)
    composed = []

    def counted(counts, *how):
        composed.append(counts)
        return total(counts, *how)

    monkeypatch.setattr(budgets, "total", counted)
    limit = total({a: 60, b: 30}, 1e-5)
    allowance, counts, refused = Allowance(limit, 1e-5), {a: Use(0, 1), b: Use(0, 1)}, 0
    for i in range(150):
        each = b if i % 3 == 2 else a
        more = {**counts, each: Use(counts[each].inferences + 1, 1)}
        if allowance.fits(more):
            counts = more
            assert total(counts, 1e-5) <= limit
        else:
            refused += 1
            assert total(more, 1e-5) > limit
    assert refused >= 50
    assert len(composed) < 60


def test_a_time_namespace_does_not_move_the_clock(tmp_path):
    """`unshare --time --boottime 86400` gives a device another day since boot: no window has passed by it."""
    program = "from airpool_runtime.ledger import clock; print(*clock._counter())"
    shifted = ["unshare", "--time", "--boottime", "86400", "--monotonic", "86400", "--fork", sys.executable, "-c"]
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    done = subprocess.run([*shifted, program], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no right to make a time namespace: {done.stderr.strip()[:100]}")
    boot, since = done.stdout.split()
    here = clock._counter()
    assert boot == here[0]
    assert abs(int(since) - here[1]) < 3_600_000


def test_a_clock_whose_offset_is_unknown_counts_from_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(clock, "_OFFSETS", tmp_path / "offsets")
    assert clock._offset_ns() == 0
    for text, offset in (
        ("monotonic 5 0\nboottime 86400 7\n", 86_400_000_000_007),
        ("boottime x 0\n", None),
        ("", None),
    ):
        (tmp_path / "offsets").write_text(text, "ascii")
        monkeypatch.setattr(clock, "_OWN_TIME", tmp_path)
        for name in ("time", "time_for_children"):
            (tmp_path / name).unlink(missing_ok=True)
            (tmp_path / name).symlink_to("time:[1]")
        assert clock._offset_ns() == offset
    (tmp_path / "time").unlink()
    (tmp_path / "time").symlink_to("time:[2]")
    assert clock._counter()[0].startswith("process-")
