"""Slots over a life: the budget's number of slots is the largest that fits; a mean is a figure."""

import json
from math import ceil, sqrt

import pytest
from typer.testing import CliRunner

from airpool import Channel, Claim, Network, calibrate, guarantee
from airpool.account.lifetime import lifetime, mean_epsilon, one_slot_mu, stream_epsilon
from airpool.cli import app
from airpool.network import Ranking, Slots, Threshold
from airpool.privacy import gaussian
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.spending import total

CLAIM, LIVE = Claim(), Claim(live=True)


def network(slots=16, epsilon=2.0, **more):
    return calibrate(Network.uniform(num_devices=12, dimension=40, slots=Slots(slots), **more), epsilon=epsilon)


@pytest.mark.parametrize("more", [{}, {"channel": Channel(fading="rician")}, {"participation": 0.9}])
def test_one_slot_more_would_exceed_the_budget(more):
    net = network(**more)
    life = lifetime(net, epsilon=8.0)
    assert stream_epsilon(net, CLAIM, life.slots) <= 8.0 < stream_epsilon(net, CLAIM, life.slots + 1)
    assert life.at_least == life.slots // 16


@pytest.mark.parametrize("scheme", [Threshold(score_noise_std=2.0), Ranking(score_noise_std=10.0, num_selected=4)])
@pytest.mark.parametrize("live", [False, True])
def test_a_single_slot_of_a_steady_channel_costs_what_the_report_says(scheme, live):
    """Scores too: an ε of .41 was counted for 2.1, that of coins, where the report said 1.25."""
    channel = Channel(fading="rayleigh", noise_std=0.5, redrawn=False)
    net = Network.uniform(num_devices=7, noise_std=0.5, channel=channel, scheme=scheme)
    claim = Claim(live=live)
    once = guarantee(net, claim).worst
    assert stream_epsilon(net, claim, 1) >= once * (1 - 1e-12)
    assert total({mechanism(net, device=0, live=live): 1}, delta=claim.delta) == pytest.approx(once, rel=1e-9)
    assert lifetime(net, claim, epsilon=0.95 * once).slots == 0
    assert lifetime(net, claim, epsilon=1.05 * once).slots == 1


def test_the_number_of_slots_is_that_of_squared_distances():
    """Σμ² adds up: an independent answer from the Gaussian curve alone."""
    net = network()
    mu = one_slot_mu(net)
    assert mu is not None
    total = 1 / float(gaussian.noise_multiplier(8.0, CLAIM.delta))
    assert lifetime(net, epsilon=8.0).slots == int(total**2 / mu**2)


def test_the_worst_case_is_what_the_report_promises():
    net = network()
    life = lifetime(net, epsilon=8.0)
    promised = calibrate(net, epsilon=8.0, adjust="inferences").inferences
    assert life.at_least == promised
    assert guarantee(net).worst <= 2.0


def test_a_mean_at_the_cap_lasts_as_long_as_the_worst_case_and_less_lasts_longer():
    net = network()
    at_cap, half = (lifetime(net, epsilon=8.0, mean_slots=mean) for mean in (16.0, 8.0))
    assert at_cap.on_average is not None
    assert at_cap.at_least <= at_cap.on_average < at_cap.at_least + 1
    assert half.on_average == pytest.approx(1 + (half.slots - 16) / 8)
    assert lifetime(net, epsilon=8.0).on_average is None
    too_small = lifetime(net, epsilon=1.0, mean_slots=2.0)
    assert (too_small.at_least, too_small.on_average) == (0, 0.0)


def test_the_figure_of_a_mean_is_the_gaussian_of_its_slots():
    net = network()
    mu = one_slot_mu(net)
    assert mu is not None
    wanted = float(gaussian.epsilon(mu * sqrt(ceil(7.4)), CLAIM.delta))
    assert mean_epsilon(net, CLAIM, 7.4) == pytest.approx(wanted, rel=1e-6)
    assert mean_epsilon(net, CLAIM, 16.0) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"epsilon": 0.0}, "must be > 0 and finite"),
    ({"epsilon": 8.0, "mean_slots": 17.0}, "mean_slots=17 must be from 1 to 16"),
    ({"epsilon": 8.0, "mean_slots": float("nan")}, "mean_slots=nan must be from 1 to 16"),
])  # fmt: skip
def test_a_budget_that_is_none_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        lifetime(network(), **arguments)
    once = Network.uniform(num_devices=12, participation=0.5, slots=Slots(4, redrawn=False))
    assert mean_epsilon(once, CLAIM, 1.5) == pytest.approx(guarantee(once).worst)  # the first slot pays for all
    with pytest.raises(ValueError, match=r"slots\.redrawn=false"):
        lifetime(once, epsilon=8.0)


def test_a_budget_counts_slots_with_the_noise_that_runs():
    net = network(channel=Channel(fading="rician", power_rule="backoff"))
    simulated, running = (lifetime(net, claim, epsilon=8.0) for claim in (CLAIM, LIVE))
    assert 0 < running.slots < simulated.slots / 5
    assert stream_epsilon(net, LIVE, running.slots) <= 8.0 < stream_epsilon(net, LIVE, running.slots + 1)
    # What a device's ledger covers, and no more.
    ledger = mechanism(net, device=0)
    assert total({ledger: running.slots}, LIVE.delta, LIVE.neighbours) <= 8.0
    assert total({ledger: running.slots + 1}, LIVE.delta, LIVE.neighbours) > 8.0
    asked = ["epsilon", *NETWORK, "--fading", "rician", "--power-rule", "backoff", "--budget-epsilon", "8", "--json"]
    slots = [
        json.loads(CliRunner().invoke(app, [*asked, *more]).stdout)["budget"]["slots"] for more in ([], ["--live"])
    ]
    assert 0 < slots[1] < slots[0] / 5


NETWORK = ["--devices", "12", "--dimension", "40", "--noise-std", "0.1919", "--slots", "16"]


def test_the_command_prints_cap_and_figure_side_by_side():
    asked = ["epsilon", *NETWORK, "--mean-slots", "7.4", "--budget-epsilon", "8"]
    text = CliRunner().invoke(app, asked)
    assert text.exit_code == 0, text.output
    assert "ε is the cap: all 16 slots" in text.output.replace("\n", " ").replace("  ", " ")
    assert "Figure, no promise: an inference of 7.4 slots on average" in text.output
    assert "Promise: a budget of ε = 8 is 176 slots" in text.output
    data = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert data["mean"]["promised"] is False
    assert data["mean"]["epsilon"] < data["epsilon"][0]
    assert data["budget"]["inferences_at_least"] == 11


def test_the_command_refuses_more_slots_than_there_are(refused):
    assert "--mean-slots 17 must be from 1 to 16" in refused("epsilon", *NETWORK, "--mean-slots", "17")


def test_a_budget_lasts_as_long_where_named_devices_collude_as_the_claim_says():
    asked = ["epsilon", *NETWORK, "--budget-epsilon", "8", "--colluders", "#3,#5", "--json"]
    slots = json.loads(CliRunner().invoke(app, asked).stdout)["budget"]["slots"]
    net, claim = (
        Network.uniform(num_devices=12, dimension=40, noise_std=0.1919, slots=Slots(16)),
        Claim(colluding=(3, 5)),
    )
    assert stream_epsilon(net, claim, slots) <= 8.0 < stream_epsilon(net, claim, slots + 1)
    assert slots < lifetime(net, epsilon=8.0).slots
