"""The numbers on the page are the library's, and what is copied from it gives them again."""

import contextlib
import io
import json
import shlex

import numpy as np
import pytest
from tests.web.random_settings import answers_to, settings_at_random
from typer.testing import CliRunner

import airpool
from airpool import cli
from airpool.evaluation import mse
from airpool.evaluation.settings import KEYS, claim_of, network_of
from airpool.network import file as network_file
from airpool_web.knobs import KNOBS
from airpool_web.settings import FIRST, LAST, asked_network, grid, validated

SEVERAL = [
    {},
    {"way": "noise", "fading": "rician", "participation": "0.8", "model": "wearables", "neighbours": "replace"},
]
TWENTY = range(20)


def number(value):
    return float(value)  # "inf" among them


def of_library(settings, part):
    """Report, objects and evaluation of the same settings, by the library alone. part: the page's network."""
    given = {name: json.loads(text) if _plain(name, text) else text for name, text in settings.items()}
    known = airpool.load(given.get("model", "modelnet40"))
    codec = given.get("codec", known.codecs[0])
    own = {name: value for name, value in given.items() if name in KEYS and name not in part["greyed"]}
    if given.get("scheme") == "2.2" and "num_selected" not in own:
        own["num_selected"] = given.get("devices", known.num_devices) - 1
    network, claim = network_of(**(known.wanted(codec) | own)), claim_of(**own)
    if settings.get("way", "epsilon") == "epsilon":
        share = given.get("share", 0.1) if given.get("scheme") in ("2.1", "2.2") else None
        network = airpool.calibrate(network, claim, epsilon=given.get("epsilon", 2.0), share=share)
    objects = airpool.held_out(known, network, codec=codec, against_vote=True)
    return airpool.guarantee(network, claim), objects, airpool.evaluate(objects, network, claim, trials=5, seed=0)


def _plain(name, text):
    return KNOBS[name].kind != "choice" and text != "auto"


def compare(settings, found):
    """Every number of an answer with the library's."""
    assert "error" not in found, found["error"]
    report, objects, evaluated = of_library(settings, found["network"])
    leaked = found["leakage"]
    assert number(leaked["epsilon"]) == report.worst
    assert [number(each["epsilon"]) for each in leaked["devices"]] == report.epsilon.tolist()
    assert [number(each["epsilon_local"]) for each in leaked["devices"]] == report.epsilon_local.tolist()
    assert [number(each["epsilon_paper"]) for each in leaked["devices"]] == list(report.paper.epsilon)
    assert number(leaked["epsilon_object"]) == report.epsilon_object
    assert set(leaked["infinite"]) == set(report.reasons)
    for name, odds in zip(("even", "rare"), report.odds, strict=True):
        shown = leaked["odds"][name]
        assert (shown["prior"], shown["device"], shown["object"]) == (odds.prior, odds.worst, odds.object)
        assert shown["local"] == float(np.max(odds.local))
    accuracy, cost, error = found["accuracy"], found["cost"], found["mse"]
    assert (accuracy["mean"], accuracy["low"], accuracy["high"]) == (evaluated.accuracy_mean, *evaluated.accuracy_ci)
    assert (accuracy["vote"] or {}).get("mean") == evaluated.vote_accuracy
    assert (cost["energy"] or 0.0, cost["channel_uses"]) == (evaluated.energy, evaluated.channel_uses)
    assert error["total"] == pytest.approx(evaluated.mse, rel=0.05)
    if error["exact"]:
        rows = np.linspace(0, len(objects.labels) - 1, error["objects"]).round().astype(int)
        exact = mse.error(objects.latents[rows].double().numpy(), report.network).mean
        assert error["total"] == exact.total
        assert {each["name"]: each["value"] for each in error["parts"]} == {
            each["name"]: float(getattr(exact, each["name"])) for each in error["parts"]
        }
    assert network_file.parse(found["network"]["toml"]) == report.network
    assert network_file.parse_claim(found["network"]["toml"]) == report.claim
    assert 0 < accuracy["chance"] <= accuracy["no_noise"] <= 1


def run(line):
    """The JSON that a copied command prints."""
    words = shlex.split(line)
    assert words[0] == "airpool"
    result = CliRunner().invoke(cli.app, [*words[1:], "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def copied_commands_agree(found, *, theory=True):
    """theory: also the third command, which takes as long as all the rest."""
    evaluated, reported, *theory = map(run, found["network"]["command"][: 3 if theory else 2])
    leaked = found["leakage"]
    epsilons = [each["epsilon"] for each in leaked["devices"]]
    assert evaluated["epsilon"] == reported["epsilon"] == epsilons
    assert evaluated["epsilon_local"] == reported["epsilon_local"]
    assert evaluated["epsilon_object"] == reported["epsilon_object"] == leaked["epsilon_object"]
    assert evaluated["epsilon_paper"] == [each["epsilon_paper"] for each in leaked["devices"]]
    assert [max(odds["device"]) for odds in reported["odds"]] == [
        leaked["odds"][name]["device"] for name in ("even", "rare")
    ]
    assert evaluated["accuracy_mean"] == found["accuracy"]["mean"]
    assert evaluated["accuracy_ci"] == [found["accuracy"]["low"], found["accuracy"]["high"]]
    assert evaluated["energy"] == (found["cost"]["energy"] or 0.0)
    for each in theory:
        shown = {part["name"]: part["value"] for part in found["mse"]["parts"]} | {"total": found["mse"]["total"]}
        printed = {name: value for name, value in each["error"].items() if name in shown}
        assert printed == pytest.approx(shown, rel=1e-12, abs=1e-15)  # there latents are clipped once more


def copied_python_agrees(found):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found["network"]["python"], {"__name__": "copied"})
    first, odds, *rest = printed.getvalue().replace("np.float64", "").splitlines()
    leaked = found["leakage"]
    epsilon, local, whole, paper = (float(text.strip("()")) for text in first.split())
    assert [epsilon, local, whole] == [number(leaked[name]) for name in ("epsilon", "epsilon_local", "epsilon_object")]
    assert paper == number(leaked["paper"]["epsilon"])
    assert str(leaked["odds"]["even"]["device"]) in odds
    if found["mse"]["exact"]:
        assert float(rest[0].split()[0].strip("()")) == found["mse"]["total"]
    assert rest[-1].startswith(f"{found['accuracy']['mean']} ({found['accuracy']['low']}, ")


def test_the_numbers_on_the_page_are_the_librarys():
    for settings, found in zip(SEVERAL, answers_to(*SEVERAL), strict=True):
        compare(settings, found)


def test_copied_commands_and_python_give_the_numbers_of_the_page():
    (found,) = answers_to({"model": "wearables", "fading": "rician", "participation": "0.9", "cover_noise": "true"})
    copied_commands_agree(found)
    copied_python_agrees(found)


@pytest.mark.check
@pytest.mark.parametrize("seed", TWENTY)
def test_the_numbers_of_twenty_random_settings_are_the_librarys_and_copies_give_them(seed):
    settings = settings_at_random(np.random.default_rng(seed)) | {"power_rule": "backoff"}
    (found,) = answers_to(settings)
    compare(settings, found)
    copied_commands_agree(found, theory=seed % 5 == 0)
    copied_python_agrees(found)


@pytest.mark.check
def test_a_network_that_takes_its_time_is_answered_with_the_librarys_numbers():
    settings = {"way": "noise", "model": "wearables", "csi_error_std": "0.1", "fading": "nakagami:m=2"}
    (found,) = answers_to(settings)
    assert found["search"]["text"]
    assert "curve" not in found
    compare(settings, found)


def test_a_target_accuracy_is_reached_on_the_validation_objects_and_one_step_less_does_not():
    wanted = asked_network({"way": "accuracy", "accuracy": "0.6", "model": "wearables"})
    how = (wanted.bare, wanted.claim, None, wanted.model, "vote")
    steps = [step for step in range(FIRST, LAST + 1) if grid(step) == wanted.epsilon]
    assert validated(*how, wanted.epsilon) >= 0.6 > validated(*how, grid(steps[0] - 1))


def test_an_accuracy_out_of_reach_is_refused_with_the_best_that_is_reached():
    (found,) = answers_to({"way": "accuracy", "accuracy": "0.999", "model": "wearables"})
    assert found["error"]["field"] == "accuracy"
    assert "on the validation objects" in found["error"]["error"]


def test_a_power_rule_that_is_not_simulated_leaves_epsilon_and_says_so():
    (found,) = answers_to({"way": "noise", "power_rule": "paper"})
    assert number(found["leakage"]["epsilon"]) > 0
    assert found["accuracy"]["mean"] is None
    assert found["accuracy"]["note"].startswith("Not simulated: ")
    assert [run(line)["epsilon"][0] for line in found["network"]["command"]] == [found["leakage"]["epsilon"]]
    exec(found["network"]["python"], {"__name__": "copied"})


def test_the_curve_is_that_of_the_network_at_each_epsilon_whatever_its_noise():
    one, other = answers_to({"way": "noise", "noise_std": "0.2"}, {"epsilon": "3"})
    assert one["curve"]["ours"] == other["curve"]["ours"]
    at_three = one["curve"]["ours"][one["curve"]["epsilon"].index(3.0)]["mean"]
    (single,) = answers_to({"epsilon": "3", "way": "epsilon"})
    assert at_three == pytest.approx(single["accuracy"]["mean"], abs=0.02)  # one trial of five
    assert [point["epsilon"] for point in one["curve"]["paper"]] == [3.9811, 6.3096, 10.0]


def test_only_what_is_hidden_is_called_protected():
    settings = [{"epsilon": each} for each in ("2", "6", "15")] + [{"way": "noise", "noise_std": "0"}]
    found = [each["leakage"]["protects"] for each in answers_to(*({"model": "wearables", **each} for each in settings))]
    words = ("Protected is", "Weakly protected is", "Not protected is", "Nothing is promised")
    assert [text.startswith(word) for text, word in zip(found, words, strict=True)] == [True] * 4


def test_an_eavesdropper_elsewhere_stands_beside_what_is_protected():
    (found,) = answers_to({"model": "wearables", "antennas": "4"})
    leaked = found["leakage"]
    assert "(antennas: 4)" in leaked["protects"]
    assert number(leaked["epsilon_eavesdropper"]) > number(leaked["epsilon"])
