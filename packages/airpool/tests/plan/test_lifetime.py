"""The plan of a life: promises and figures side by side, and ways that keep both."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from airpool import Channel, Claim, Network, guarantee, load
from airpool.account.lifetime import lifetime, stream_epsilon
from airpool.cli import app
from airpool.evaluation.plan import Wanted, life_plan
from airpool.evaluation.plan import lifetime as plans
from airpool.network import file as network_file

TWELVE = Network.uniform(num_devices=12)


@pytest.fixture(scope="module")
def model():
    return load("modelnet40")


@pytest.fixture(scope="module", autouse=True)
def few():
    """Few ways and runs."""
    fewer = {"COUNTS": (1, 4, 16), "CAPS": (2.0,), "STRETCHES": (2,), "_TRACED": 1, "_TRIALS": 2}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in fewer.items():
            patch.setattr(plans, name, value)
        yield


@pytest.fixture(scope="module")
def found(model):
    return life_plan(TWELVE, model=model, wanted=Wanted(8.0, accuracy=0.9))


def test_every_way_keeps_cap_and_budget(found):
    for way in (found.best, *found.others):
        net = way.network
        assert guarantee(net).worst <= (2.0 if net.slots.count > 1 else 8.0)
        assert stream_epsilon(net, Claim(), way.life.at_least * net.slots.count) <= 8.0
        assert way.on_average >= way.life.at_least
        assert way.life == lifetime(net, epsilon=8.0, mean_slots=way.mean_slots)


def test_asking_until_sure_lasts_longer_at_equal_accuracy(found):
    once = next(way for way in (found.best, *found.others) if way.network.slots.count == 1)
    assert found.best.network.slots.count == 16
    assert found.best.on_average > 1.3 * once.on_average
    assert found.best.option.accuracy >= 0.9


def test_a_number_of_inferences_is_lasted_for_on_average(model):
    found = life_plan(TWELVE, model=model, wanted=Wanted(8.0, inferences=30))
    assert found.best.on_average >= 30
    once = next(way for way in found.others if way.network.slots.count == 1)
    assert once.life.at_least == 30
    assert found.best.option.accuracy > once.option.accuracy + 0.02


def test_cap_and_budget_are_kept_by_the_noise_that_runs(model):
    given, live = replace(TWELVE, channel=Channel(fading="rician", power_rule="backoff")), Claim(live=True)
    found = life_plan(given, live, model=model, wanted=Wanted(8.0, inferences=4, slots=4))
    for way in (found.best, *found.others):
        net = way.network
        assert guarantee(net, live).worst <= 8.0
        assert stream_epsilon(net, live, way.life.at_least * net.slots.count) <= 8.0
        assert way.row()["cap_epsilon"] == guarantee(net, live).worst
    assert found.record()["live"]


def test_a_cap_and_a_number_of_slots_are_kept(model):
    found = life_plan(TWELVE, model=model, wanted=Wanted(8.0, inferences=15, cap=1.5, slots=4))
    for way in (found.best, *found.others):
        assert guarantee(way.network).worst <= 1.5
        assert way.network.slots.count <= 4


@pytest.mark.parametrize(("wanted", "message"), [
    ({"budget": 8.0}, "give one"),
    ({"budget": -1.0, "inferences": 3}, "budget ε=-1 must be > 0"),
    ({"budget": 2.0, "inferences": 3, "cap": 4.0}, "must be at most the budget, 2"),
    ({"budget": 2.0, "accuracy": 1.5}, "must be > 0 and < 1"),
])  # fmt: skip
def test_a_wish_that_is_none_is_refused(wanted, message):
    with pytest.raises(ValueError, match=message):
        Wanted(**wanted)


def test_a_budget_that_is_too_small_says_what_there_is(model):
    with pytest.raises(ValueError, match=r"lasts for \d+ inferences on average at accuracy 0\.9, not for 1,000"):
        life_plan(TWELVE, model=model, wanted=Wanted(8.0, inferences=1000, accuracy=0.9))
    with pytest.raises(ValueError, match=r"accuracy=0\.99 is beyond"):
        life_plan(TWELVE, model=model, wanted=Wanted(8.0, accuracy=0.99))


def test_the_command_says_what_is_promised_and_what_is_not(tmp_path):
    out = tmp_path / "life.toml"
    asked = ["plan", "--budget-epsilon", "8", "--accuracy", "0.9", "--slots", "4"]
    text = CliRunner().invoke(app, [*asked, "--out", str(out)])
    assert text.exit_code == 0, text.output
    assert "Promised: ε ≤" in text.output
    assert "Figures, promised to nobody" in text.output
    assert guarantee(network_file.read(out)).worst <= 8.0
    data = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert data["promised"] == ["budget_epsilon", "cap_epsilon", "inferences_at_least"]
    assert data["best"]["inferences_at_least"] <= data["best"]["inferences_on_average"]
    assert network_file.read_claim(out) == Claim()


def test_the_command_refuses_what_the_plan_decides(refused):
    assert "the plan decides it" in refused("plan", "--budget-epsilon", "8", "--accuracy", "0.9", "--sure", "0.5")
    assert "give one --epsilon" in refused("plan", "--budget-epsilon", "8", "--accuracy", "0.9", "--epsilon", "1,2")
    assert "give one" in refused("plan", "--budget-epsilon", "8")
