"""A channel that stands still, drawn again now and then: what a ledger books of that, and what it costs."""

from contextlib import closing
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from airpool import Channel, Claim, Network, guarantee
from airpool.network import Devices
from airpool.radio.link import link_of
from airpool_runtime.charge import Booked
from airpool_runtime.charge import NotSentError as NotSent
from airpool_runtime.ledger.backup import content, exported, faults, imported
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.ledger.fleet import Fleet
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.refused import SpendingError
from airpool_runtime.ledger.spending import Use, total

# Device 0 is hidden by the noise of device 1, which a draw of the channel silences with probability 8e-6.
Q = 8e-6
STILL = Network(
    devices=Devices(count=2, weight=(0.5, 0.01), noise_std=(0.1, 40.0)),
    channel=Channel(fading="rayleigh", outage=Q, redrawn=False),
)
ONE = mechanism(STILL, device=0, live=False)
HIDDEN, BARE = 0.25 / (0.01 + 1600), 0.25 / 0.01  # μ² of one inference


def delta_of(epsilon, mu2):
    mu = np.sqrt(mu2)
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


def true_epsilon(*blocks):
    """ε at 1e-5 of so many inferences in each of two draws or one, by listing what they silence."""

    def delta(epsilon):
        outcomes = [(1.0, 0.0)]
        for number in blocks:
            given = [(Q, 0.0), ((1 - Q) * Q, number * BARE), ((1 - Q) ** 2, number * HIDDEN)]
            outcomes = [(p * q, a + b) for p, a in outcomes for q, b in given]
        return sum(p * delta_of(epsilon, mu2) for p, mu2 in outcomes if mu2)

    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) > 1e-5 else (low, middle)
    return low


@pytest.mark.parametrize(("number", "one_draw", "restarted"), [(2, 0.059, 9.9), (10, 0.1405, 57.9)], ids=["two", "ten"])
def test_a_restart_counts(number, one_draw, restarted):
    """One draw: what it was. A restart half way: more than the truth, and less than own noise alone."""
    assert true_epsilon(number) == pytest.approx(one_draw, rel=2e-3)
    assert true_epsilon(number // 2, number // 2) == pytest.approx(restarted, rel=2e-3)
    assert total({ONE: Use(number, 1)}, 1e-5) == pytest.approx(one_draw, rel=2e-3)
    assert total({ONE: number}, 1e-5) == total({ONE: Use(number, 1)}, 1e-5)
    spent = total({ONE: Use(number, 2)}, 1e-5)
    local = float(guarantee(STILL, Claim(inferences=number)).epsilon_local[0])
    assert true_epsilon(number // 2, number // 2) <= spent <= 0.5 * local


def test_a_report_over_a_channel_that_stands_still_says_that_it_is_one_draw():
    said = "One draw of the channel for all 10 inferences"
    assert any(said in line for line in guarantee(STILL, Claim(inferences=10)).assumptions)
    redrawn = replace(STILL, channel=replace(STILL.channel, redrawn=True))
    assert not any(said in line for line in guarantee(redrawn, Claim(inferences=10)).assumptions)


@pytest.mark.parametrize("blocks", [(1, 1), (3, 4), (1, 9), (6, 4), (2, 3, 5), (1, 1, 1, 1)])
def test_any_partition_is_covered(blocks):
    assert total({ONE: Use(sum(blocks), len(blocks))}, 1e-5) >= true_epsilon(*blocks)


@pytest.mark.parametrize(
    "channel",
    [
        Channel(fading="rayleigh", outage=0.05, redrawn=False),
        Channel(csi_error_std=0.3, redrawn=False),
        Channel(fading="rayleigh", power_rule="backoff", outage=0.05, redrawn=False),
    ],
    ids=["outage", "errors", "backoff"],
)
def test_more_epochs_never_cost_less_and_own_noise_is_the_most(channel):
    net = Network.uniform(num_devices=6, noise_std=0.3, channel=channel)
    one = mechanism(net, device=2, live=False)
    by_epochs = [total({one: Use(40, epochs)}, 1e-5) for epochs in (1, 2, 5, 40)]
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(by_epochs))
    assert by_epochs[0] == pytest.approx(guarantee(net, Claim(inferences=40)).epsilon[2], rel=1e-9)
    assert by_epochs[-1] <= guarantee(net, Claim(inferences=40)).epsilon_local[2] * (1 + 1e-9)
    longer = [total({one: Use(number, 3)}, 1e-5) for number in (3, 10, 40, 100)]
    assert longer == sorted(longer)


@pytest.mark.parametrize("channel", [Channel(fading="rayleigh"), Channel(redrawn=False), Channel(csi_error_std=0.1)])
@pytest.mark.parametrize("participation", [1.0, 0.8])
def test_epochs_change_nothing_where_nothing_random_stands_still(channel, participation):
    one = mechanism(
        Network.uniform(num_devices=5, noise_std=0.3, participation=participation, channel=channel), device=2
    )
    assert total({one: Use(30, 30)}, 1e-5) == total({one: Use(30, 1)}, 1e-5) == total({one: 30}, 1e-5)


def test_devices_that_drop_out_in_turn_are_other_surroundings():
    """Given the channel, noise that is missing differs from one inference to the next: not one draw for all."""
    channel = Channel(fading="rayleigh", outage=1e-3, redrawn=False)
    net = Network(devices=Devices(count=3, weight=0.3, noise_std=(0.1, 1.0, 1.0)), channel=channel, dropouts=1)
    once = [total({mechanism(each, device=0, live=False): Use(2, 1)}, 1e-3) for each in (net, replace(net, dropouts=0))]
    reported = float(guarantee(net, Claim(1e-3, inferences=2)).epsilon[0])
    assert once[0] == pytest.approx(reported)
    assert reported > once[1]


def test_mixtures_of_channels_that_stand_still_and_others():
    others = Network.uniform(num_devices=2, noise_std=0.5, participation=0.7)
    coin = mechanism(others, device=0, live=False)
    quiet = mechanism(replace(STILL, dimension=32), device=0, live=False)
    spent = [
        total(counts, 1e-5)
        for counts in (
            {coin: 20},
            {coin: 20, ONE: Use(10, 1)},
            {coin: 20, ONE: Use(10, 2)},
            {coin: 20, ONE: Use(10, 2), quiet: Use(5, 3)},
        )
    ]
    assert spent == sorted(spent)
    assert spent[1] < 1.2 * (spent[0] + total({ONE: Use(10, 1)}, 1e-5))
    assert total({ONE: Use(5, 2), quiet: Use(5, 2)}, 1e-5) >= true_epsilon(5, 5)


def test_a_budget_lets_one_draw_pass_and_refuses_a_second(device):
    live = mechanism(STILL, device=0)
    with device.open(Budget(1.0)) as ledger:
        for i in range(3):
            ledger.charge(f"a{i}", live, epoch="monday")
        charge = Booked(ledger, live)
        assert charge.refusal() is None
        with pytest.raises(NotSent, match="over budget"):
            charge.charge_all([("b0", "tuesday")])
        assert "over budget" in (charge.refusal() or "")  # not ready, as long as the air is the new one
        with pytest.raises(SpendingError, match="is spent"):
            ledger.charge("b1", live)
        assert ledger.charge("a3", live, epoch="monday").new
        with pytest.raises(ValueError, match="epoch must be a text"):
            ledger.charge("c", live, epoch="x" * 201)
    assert content(device.path).counts == {live: Use(4, 1)}


def test_a_window_forgets_epochs_with_their_rows(device, monkeypatch):
    from airpool_runtime.ledger import clock

    seconds = [0]
    monkeypatch.setattr(clock, "_counter", lambda: ("boot", 1000 * seconds[0]))
    live = mechanism(STILL, device=0)
    with device.open(Budget(1.0, window_s=60)) as ledger:
        for second, name, epoch in (
            (0, "a", "monday"),
            (30, "b", "monday"),
            (65, "c", "monday"),
            (130, "d", "tuesday"),
        ):
            seconds[0] = second
            assert ledger.charge(name, live, epoch=epoch).new
        seconds[0] = 140
        with pytest.raises(SpendingError, match="is spent"):
            ledger.charge("e", live, epoch="monday")
        assert ledger.charge("e", live, epoch="tuesday").new


def test_the_fleet_counts_epochs_as_the_ledger_does(device, tmp_path):
    live = mechanism(STILL, device=0)
    with device.open() as ledger:
        for i, epoch in enumerate(["a", "a", "b", "", "", "a"]):
            ledger.charge(str(i), live, epoch=epoch)
        spent = ledger.epsilon(1e-5)
        assert spent == total({live: Use(6, 4)}, 1e-5) > total({live: Use(6, 1)}, 1e-5)
    told = content(device.path)
    assert told.counts == {live: Use(6, 4)}
    with closing(Fleet(f"sqlite:///{tmp_path}/fleet.db")) as view:
        for part in (told.rows[:4], told.rows):
            view.take(replace(told, rows=part))
        assert view.accounts(1e-5)[0].epsilon == spent
        assert view.newest(told.origin.key) == told.rows[-1]
    again = imported(exported(told))
    assert again.rows == told.rows
    assert list(faults(again)) == []
    changed = replace(told, rows=(*told.rows[:2], told.rows[2]._replace(epoch="a"), *told.rows[3:]))
    assert any("row 3 was changed" in wrong for wrong in faults(changed))


def truly(blocks, delta, networks):
    """ε at δ of `blocks`: inferences of each network in each draw, which all of them share; by listing all outcomes.

    A gain that is too weak for one network may be strong enough for another.
    """
    outage = np.array([link_of(each).outage for each in networks])
    weight, noise = (np.array([each.devices.column(name) for each in networks]) for name in ("weight", "noise_std"))
    each_gain = []
    for of_device in outage.T:
        edges = np.unique([0.0, *of_device, 1.0])
        each_gain.append([(b - a, of_device <= a) for a, b in pairwise(edges)])
    chance, squares = [], []
    for gains in product(*each_gain):
        heard = np.array([there for _, there in gains]).T
        variance = (noise[:, 1:] ** 2 * heard[:, 1:]).sum(axis=1) + noise[:, 0] ** 2
        chance.append(float(np.prod([p for p, _ in gains])))
        squares.append(heard[:, 0] * weight[:, 0] ** 2 / variance)
    mass, mu2 = np.ones(1), np.zeros(1)
    for numbers in blocks:
        mass, mu2 = np.outer(mass, chance).ravel(), np.add.outer(mu2, np.array(squares) @ numbers).ravel()
    mass, mu2 = mass[mu2 > 0], mu2[mu2 > 0]
    low, high = 0.0, 1e5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mass @ delta_of(middle, mu2) > delta else (low, middle)
    return low


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.check) for seed in range(2, 40))])
def test_random_laws_partitions_and_networks_that_share_their_draws(seed):
    rng = np.random.default_rng(seed)
    count, chance, delta = int(rng.integers(2, 4)), float(10 ** rng.uniform(-6, -0.5)), float(10 ** rng.uniform(-7, -1))
    channel = Channel(fading="rayleigh", outage=chance, redrawn=False)

    def network():
        weight, noise = (tuple(10 ** rng.uniform(-1.5, high, count)) for high in (0.0, 1.5))
        return Network(devices=Devices(count=count, weight=weight, noise_std=noise), channel=channel)

    networks = [network() for _ in range(int(rng.integers(1, 3)))]
    blocks = rng.integers(1, 6, (int(rng.integers(1, 4)), len(networks)))
    counts = {
        mechanism(each, device=0, live=False): Use(int(number), len(blocks))
        for each, number in zip(networks, blocks.sum(axis=0), strict=True)
    }
    assert total(counts, delta) >= truly(blocks, delta, networks) * (1 - 1e-9)


def test_other_devices_may_drop_out_in_every_inference():
    """Devices 1 and 2 in turn: the noise of both must be received, and a draw silences one of them with 2Q > δ."""
    net = Network(
        devices=Devices(count=3, weight=(0.5, 0.01, 0.01), noise_std=(0.1, 40.0, 40.0)),
        channel=Channel(fading="rayleigh", outage=Q, redrawn=False),
        dropouts=1,
    )

    def delta(epsilon):
        outcomes = [((1 - Q) ** 2, 2 * HIDDEN), (2 * Q * (1 - Q), HIDDEN + BARE), (Q**2, 2 * BARE)]
        return sum((1 - Q) * p * delta_of(epsilon, mu2) for p, mu2 in outcomes)

    assert delta(guarantee(net, Claim(inferences=2)).epsilon[0]) <= 1e-5
    assert delta(guarantee(net).epsilon[0] * 2) > 1e-5
