"""One relation of neighbours for all rows: what a budget, a ledger, a fleet view and the command line add up."""

import json
from contextlib import closing, suppress
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from airpool import Channel, Claim, Network, NetworkError, Threshold, guarantee
from airpool.cli import app
from airpool.network import Adversary, Devices, Neighbours
from airpool_runtime.ledger.backup import content
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.ledger.fleet import Fleet
from airpool_runtime.ledger.mechanism import mechanism, parse
from airpool_runtime.ledger.refused import SpendingError
from airpool_runtime.ledger.spending import total

# Ten inferences of each: 3.36 if each is accounted for under its own relation.
ZEROED = Network.uniform(num_devices=12, noise_std=0.1, dimension=784, channel=Channel(noise_std=0.1))
REMOVED = Network(
    devices=Devices(count=12, noise_std=0.03, participation=(0.05, *(1.0,) * 11)),
    dimension=1,
    channel=Channel(noise_std=0.1),
)
ONES = [mechanism(ZEROED, device=0), mechanism(REMOVED, device=0)]
TOTALS = {"zero-out": 5.9623, "replace": 14.9474, "remove": 39.926}


@pytest.mark.parametrize("neighbours", TOTALS)
def test_a_total_is_for_one_relation(neighbours):
    spent = total(dict.fromkeys(ONES, 10), 1e-5, neighbours)
    assert spent == pytest.approx(TOTALS[neighbours], rel=1e-4)
    claim = Claim(neighbours=Neighbours(neighbours), inferences=10, live=True)
    parts = [guarantee(net, claim).epsilon[0] for net in (ZEROED, REMOVED)]
    assert max(parts) <= spent <= sum(parts)


def test_a_budget_refuses_by_its_own_relation(device):
    """Before, all twenty passed a budget of 3.5."""
    with device.open(Budget(3.5)) as ledger:
        with suppress(SpendingError):
            for i in range(20):
                ledger.charge(str(i), ONES[i >= 10])
        assert 10 <= ledger.tip.seq < 20
        assert ledger.epsilon(1e-5) <= 3.5
        with pytest.raises(SpendingError, match="for zero-out neighbours, is spent") as caught:
            ledger.charge("over", ONES[1])
        assert caught.value.status == "over budget"
        by_relation = [ledger.epsilon(1e-5, neighbours=each) for each in TOTALS]
        assert by_relation == sorted(by_relation)


def test_a_budget_for_removal_refuses_the_first(device):
    with device.open(Budget(3.5, neighbours=Neighbours.REMOVE)) as ledger:
        with pytest.raises(SpendingError, match=r"for remove neighbours, is spent: with 1 inferences ε would be 9\.3"):
            ledger.charge("a", ONES[0])
        assert ledger.tip.seq == 0


def test_what_a_relation_cannot_account_for_is_not_sent(device):
    scored = mechanism(Network.uniform(num_devices=4, noise_std=0.5, scheme=Threshold(score_noise_std=5.0)), device=3)
    with device.open(Budget(100.0, neighbours=Neighbours.REMOVE)) as ledger:
        with pytest.raises(SpendingError, match="not accounted for with Schemes"):
            ledger.charge("a", scored)
        assert ledger.tip.seq == 0
    with pytest.raises(ValueError, match="neighbours=removed must be zero-out or replace or remove"):
        replace(Budget(1.0), **{"neighbours": "removed"})


def test_the_command_line_and_the_fleet_say_which_relation(device, tmp_path):
    with device.open() as ledger:
        for i in range(20):
            ledger.charge(str(i), ONES[i % 2])
    with closing(Fleet(f"sqlite:///{tmp_path}/fleet.db")) as view:
        view.take(content(device.path))
        accounts = {relation: view.accounts(1e-5, relation) for relation in TOTALS}
    for relation, epsilon in TOTALS.items():
        (account,) = accounts[relation]
        assert (account.epsilon, account.neighbours) == (pytest.approx(epsilon, rel=1e-4), relation)
        said = CliRunner().invoke(app, ["ledger", "show", str(device.path), "--neighbours", relation]).stdout
        up = next(float(word) for word in said.split("ε = ")[1].split() if word[0].isdigit())
        assert account.epsilon <= up <= account.epsilon + 1.01e-4  # rounded up
        assert f"for {relation} neighbours" in said
        fleet = ["ledger", "fleet", f"sqlite:///{tmp_path}/fleet.db", "--neighbours", relation]
        assert f"δ = 1e-05, {relation}" in CliRunner().invoke(app, fleet, env={"COLUMNS": "120"}).stdout
    said = json.loads(CliRunner().invoke(app, ["ledger", "show", str(device.path), "--json"]).stdout)
    assert (said["neighbours"], said["epsilon"]) == ("zero-out", pytest.approx(TOTALS["zero-out"], rel=1e-4))
    wrong = CliRunner().invoke(app, ["ledger", "show", str(device.path), "--neighbours", "all"])
    assert wrong.exit_code
    assert "--neighbours all must be" in str(wrong.exception) + wrong.output


def test_a_mechanism_keeps_the_coordinate_that_an_eavesdropper_makes_devices_add():
    net = Network.uniform(num_devices=12, noise_std=0.1, dimension=1)
    net = replace(net, adversary=Adversary(2), channel=Channel(noise_std=0.1))
    one = mechanism(net, device=0, live=False)
    assert total({one: 1}, 1e-5, "remove") == pytest.approx(1.6564, abs=1e-4)
    assert total({one: 1}, 1e-5, "remove") >= guarantee(net, Claim(neighbours=Neighbours.REMOVE)).epsilon[0]
    assert parse(one.text) == one
    with pytest.raises(NetworkError):
        _ = parse(one.text.replace('"antennas":2', '"antennas":-2')).network
