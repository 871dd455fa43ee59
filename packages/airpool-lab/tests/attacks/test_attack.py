"""The registry of attacks, results, and the command."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import airpool
from airpool import Claim, Network
from airpool._support import plugins
from airpool._support.plugins import PluginError
from airpool.cli import app
from airpool.network import file as network_file
from airpool_lab.attacks.attack import ATTACKS, AttackSetting, attacked, options_of
from airpool_lab.attacks.positions import POSITIONS
from airpool_lab.attacks.result import HEADER, AttackResult

EXAMPLE = Path(__file__).parents[4] / "examples" / "plugins" / "attack.py"
NETWORK = Network.uniform(num_devices=3, noise_std=0.2, dimension=2)


def result(successes=60, trials=100, bound=0.7, of: Any = "view") -> Any:
    return AttackResult("own", POSITIONS["sum"], NETWORK, "side", of, trials, successes, 0.5, bound, seed=3)


def called(*words, code=0):
    out = CliRunner().invoke(app, ["attack", *words], catch_exceptions=True)
    assert out.exit_code == code, out.output
    return out


@pytest.fixture
def loaded():
    plugins.load_file(EXAMPLE)
    yield
    ATTACKS._added.pop("presence")
    del plugins._loaded[EXAMPLE.resolve()]


def test_a_result_knows_its_error():
    found = result()
    assert found.success == 0.6
    assert found.standard_error == pytest.approx((0.24 / 100) ** 0.5)
    low, high = found.interval
    assert low < 0.6 < high


@pytest.mark.parametrize(("trials", "beyond"), [(100, False), (10_000, True)])
def test_a_success_exceeds_its_bound_only_beyond_its_error(trials, beyond):
    assert result(successes=trials * 6 // 10, trials=trials, bound=0.55).exceeds is beyond


def test_a_result_carries_all_that_made_it():
    data = json.loads(json.dumps(result().to_json()))
    assert {"attack", "position", "network", "prior", "bound", "seed", "version", "success", "interval"} <= set(data)
    assert network_file.parse(data["network"]) == NETWORK
    assert network_file.parse_claim(data["network"]) == Claim()


def test_a_secret_of_the_object_is_marked():
    assert len(result().row()) == len(HEADER)
    assert result(of="object").row()[0] == "side (object)"
    assert result(of="object").to_json()["protected"] is False


def test_a_result_without_guesses_claims_no_bound():
    found = AttackResult("own", POSITIONS["sum"], NETWORK, "picture", "view", 5, None, None, None, seed=0)
    assert (found.success, found.interval, found.exceeds) == (None, None, False)
    assert found.row()[3] == ""


def test_more_successes_than_trials_are_an_error():
    with pytest.raises(ValueError, match="successes=101 must be from 0 to trials=100"):
        result(successes=101)


@pytest.mark.parametrize("place", ["link", "sum", "colluding"])
def test_an_attack_from_outside_the_package_runs_by_name(loaded, place):
    found: Any
    (found,) = attacked("presence", AttackSetting(NETWORK, POSITIONS[place], trials=4000))
    assert found.success > 0.5
    assert not found.exceeds


def test_a_plug_in_is_an_attack_of_the_command_line(loaded, tmp_path):
    words = ("presence", "--devices", "3", "--noise-std", "0.2", "--trials", "1000", "--out", str(tmp_path))
    assert "a feature, or none" in called(*words).stdout
    (found,) = json.loads((tmp_path / "results.json").read_text())
    assert found["attack"] == "presence"


def test_an_attack_that_lacks_something_is_refused():
    with pytest.raises(PluginError, match="lacks about, options, run"):
        airpool.register("attack", "own")(object)


@pytest.mark.parametrize("given", [[1], None, 1, "ab"])
def test_an_attack_must_give_results(loaded, monkeypatch, given):
    monkeypatch.setattr(ATTACKS.get("presence"), "run", staticmethod(lambda _: given))
    with pytest.raises(PluginError, match="must give a sequence of AttackResults"):
        attacked("presence", AttackSetting(NETWORK))


@pytest.mark.parametrize(
    ("text", "wanted"), [("false", False), ("No", False), ("0", False), ("true", True), (True, True)]
)
def test_a_switch_is_read_as_it_is_written(loaded, monkeypatch, text, wanted):
    monkeypatch.setattr(ATTACKS.get("presence"), "options", {"loud": not wanted})
    assert options_of("presence", {"loud": text}) == {"loud": wanted}
    with pytest.raises(ValueError, match="option loud='off' of attack 'presence' must be true or false"):
        options_of("presence", {"loud": "off"})


def test_the_command_prints_the_bound_beside_the_success():
    shown = called("antipodal", "--devices", "3", "--noise-std", "0.2", "--position", "sum", "--trials", "2000").stdout
    assert "the adversary hears the sum of all devices" in shown
    assert "83.3 %" in shown  # Φ(1/3 / (0.2·√3)) = 83.204 %, rounded up


def test_the_command_gives_json():
    words = ("antipodal", "--devices", "3", "--json", "--trials", "200", "--option", "length=1", "--epsilon", "2")
    (found,) = json.loads(called(*words).stdout)
    assert found["numbers"] == {"length": 1.0}
    assert found["trials"] == 200


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none", "--devices", "3"), "attack 'none' is not known; there is antipodal, attribute"),
        (("antipodal", "--devices", "3", "--position", "x"), "position 'x' must be one of link"),
        (("antipodal", "--devices", "3", "--position", "antennas"), "needs an eavesdropper"),
        (("antipodal", "--devices", "3", "--option", "length"), "--option 'length' must be NAME=VALUE"),
        (("antipodal", "--devices", "3", "--option", "size=1"), "has no option 'size'; it has length"),
        (("antipodal", "--devices", "3", "--option", "length=long"), "must be a float"),
        (("antipodal", "--devices", "3", "--option", "length=0"), "length=0 must be > 0 and finite"),
        (("antipodal", "--devices", "3", "--option", "length=nan"), "length=nan must be > 0 and finite"),
        (("antipodal", "--devices", "3", "--device", "3"), "device=3 must be from 0 to 2"),
        (("antipodal", "--devices", "3", "--trials", "0"), "trials=0 must be >= 1"),
        (("antipodal", "--devices", "3", "--position", "repeated", "--inferences", "1000000"), "at most 10,000 here"),
        (("antipodal",), "give --devices K or --network FILE"),
        (("antipodal", "--devices", "3", "--scheme", "2.1"), "chooses by scores"),
    ],
)
def test_bad_input_is_named(words, message):
    assert message in str(called(*words, code=1).exception)
