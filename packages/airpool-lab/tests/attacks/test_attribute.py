"""Attacks on attributes: no position's bound is exceeded, and without noise the secrets are found."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from airpool import Adversary, Claim, Network
from airpool.cli import app
from airpool_lab.attacks.attack import AttackSetting
from airpool_lab.attacks.attribute import Views, attacked, question, rare_classes, secrets_of
from airpool_lab.attacks.positions import POSITIONS

SIDES, R, CLASSES = 4, 6, 3
NETWORK = Network.uniform(num_devices=SIDES, noise_std=0.12, dimension=R, adversary=Adversary(2))
CLAIM = Claim(inferences=2)
SILENT = replace(NETWORK, devices=replace(NETWORK.devices, noise_std=0.0))
RESULTS = Path(__file__).parents[4] / "packages/airpool-lab/studies/results"


def views(count, seed):
    """Objects of classes that differ in size, seen on four sides: a direction of the class, and one of the side."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.choice(CLASSES, size=count, p=[0.5, 0.35, 0.15]))
    z = np.eye(R)[labels][:, None] + 0.7 * np.eye(R)[2 + np.arange(SIDES)] + 0.1 * rng.standard_normal((count, 4, R))
    return Views(z / np.linalg.norm(z, axis=-1, keepdims=True), labels)


LEARN, JUDGE = views(150, 0), views(200, 1)
ASKED = [(name, secret) for name, place in POSITIONS.items() for secret in secrets_of(place)]


@pytest.mark.parametrize(("name", "secret"), [("link", "side"), ("sum", "class")])
def test_no_attack_exceeds_the_bound_of_its_position(name, secret):
    setting = AttackSetting(NETWORK, POSITIONS[name], device=1, trials=1000, claim=CLAIM)
    result: Any = attacked(setting, secret, LEARN, JUDGE)
    assert result.trials == 1000
    assert not result.exceeds
    assert result.success > result.prior - 4.5 * (0.25 / 1000) ** 0.5


@pytest.mark.check
@pytest.mark.parametrize(("name", "secret"), ASKED)
def test_no_attack_exceeds_the_bound_of_any_position(name, secret):
    setting = AttackSetting(NETWORK, POSITIONS[name], device=1, trials=4000, claim=CLAIM)
    result: Any = attacked(setting, secret, LEARN, JUDGE)
    assert not result.exceeds


@pytest.mark.parametrize(
    ("name", "secret"), [("link", "side"), *(pytest.param(*each, marks=pytest.mark.check) for each in ASKED[1:6])]
)
def test_without_noise_the_secret_is_found(name, secret):
    result: Any = attacked(AttackSetting(SILENT, POSITIONS[name], trials=200, claim=CLAIM), secret, LEARN, JUDGE)
    assert result.success > 0.95
    assert result.bound == 1


def test_an_attacker_that_knows_the_object_knows_the_clip_too():
    """Views of unlike length, cut to a tenth of it: without noise a side is still told by its direction."""
    long = Views(JUDGE.latents * np.linspace(1, 3, SIDES)[:, None], JUDGE.labels)
    cut = replace(SILENT, devices=replace(SILENT.devices, clip_norm=0.1))
    assert attacked(AttackSetting(cut, trials=200), "side", LEARN, long).success == 1


def test_noise_does_not_drown_the_views_that_are_known():
    loud = replace(NETWORK, devices=replace(NETWORK.devices, noise_std=30.0))
    result: Any = attacked(AttackSetting(loud, POSITIONS["sum"], trials=400), "share", LEARN, JUDGE)
    assert result.prior > 0.9  # three of four views tell the class
    assert result.success > 0.9
    assert not result.exceeds


def test_half_the_noise_helps_every_attack():
    half = replace(NETWORK, devices=replace(NETWORK.devices, noise_std=0.06))
    full: Any
    more: Any
    full, more = (attacked(AttackSetting(net, trials=2000), "side", LEARN, JUDGE).success for net in (NETWORK, half))
    assert more > full + 0.05


@pytest.mark.check
def test_the_side_is_guessed_by_strangers_too():
    setting = AttackSetting(SILENT, trials=400, options={"knows": "nothing"})
    result: Any = attacked(setting, "side", LEARN, JUDGE)
    assert result.success > 0.9  # every side has a direction of its own here
    assert result.numbers["attacker"] != "knowing the object"


def test_the_other_views_say_nothing_about_the_side():
    asked = question("side", JUDGE, NETWORK, device=1, copies=20, judged=JUDGE.labels, rng=np.random.default_rng(0))
    assert asked.prior.tolist() == [1 / SIDES] * SIDES
    share = np.bincount(asked.values, minlength=SIDES) / len(asked.values)
    assert np.abs(share - 1 / SIDES).max() < 4.5 * (0.1875 / len(asked.values)) ** 0.5
    own, others = asked.latents[:, 1], np.delete(asked.latents, 1, axis=1)
    objects = np.tile(np.arange(len(JUDGE.labels)), 20)
    assert np.array_equal(own, JUDGE.latents[objects, asked.values])
    assert np.array_equal(others, np.delete(JUDGE.latents, 1, axis=1)[objects])


def test_rare_classes_hold_a_quarter_of_the_objects_at_most():
    labels = np.repeat([0, 1, 2, 3], [60, 25, 10, 5])
    assert sorted(rare_classes(labels).tolist()) == [2, 3]


def test_rare_or_not_is_asked_with_equal_odds():
    asked = question("rare", JUDGE, NETWORK, device=0, copies=20, judged=JUDGE.labels, rng=np.random.default_rng(0))
    assert abs(asked.values.mean() - 0.5) < 4.5 * (0.25 / len(asked.values)) ** 0.5


@pytest.mark.check
def test_the_class_of_a_sum_is_a_secret_of_the_object():
    of_sum = attacked(AttackSetting(NETWORK, POSITIONS["sum"], trials=200), "class", LEARN, JUDGE)
    of_link = attacked(AttackSetting(NETWORK, POSITIONS["link"], trials=200), "class", LEARN, JUDGE)
    assert (of_sum.protected, of_link.protected) == (False, True)
    assert 0 <= of_sum.numbers["without this device's share"] <= 1
    assert of_sum.prior == np.bincount(JUDGE.labels).max() / len(JUDGE.labels)


@pytest.mark.check
def test_the_command_attacks_the_shipped_latents(tmp_path):
    words = ["attack", "attribute", "--epsilon", "1", "--trials", "2468", "--option", "secret=side", "--json"]
    out = CliRunner().invoke(app, words, catch_exceptions=False)
    assert out.exit_code == 0, out.output
    (found,) = json.loads(out.stdout)
    assert found["prior"] == pytest.approx(1 / 12)
    assert found["success"] < found["bound"] == pytest.approx(0.3246, abs=1e-3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--option", "secret=colour"], "secret='colour' must be all or one of side, class, rare at position 'link'"),
        (["--option", "secret=class", "--position", "colluding"], "must be all or one of side, share"),
        (["--option", "knows=all"], "knows='all' must be object or nothing"),
        (["--option", "model=none"], "no pretrained model 'none'"),
        (["--option", "codec=none"], "codec 'none' must be one of"),
        (["--devices", "12", "--dimension", "7"], "has dimension 7, the attacked codec needs 40"),
    ],
)
def test_bad_input_is_named(words, message):
    out = CliRunner().invoke(app, ["attack", "attribute", *words])
    assert out.exit_code == 1
    assert message in str(out.exception)


@pytest.mark.parametrize("name", ["attack-attributes", "attack-wearables"])
def test_no_result_of_a_study_exceeds_its_bound(name):
    columns = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["columns"]
    assert not any(columns["exceeds"])
    assert len(columns["success"]) > 40


def test_who_wore_the_sensors_is_found_three_times_as_often_as_by_chance_from_one_unit_without_noise():
    columns = json.loads((RESULTS / "attack-wearables.json").read_text("utf-8"))["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (one,) = [
        r for r in rows if (r["codec"], r["position"]) == ("features", "link") and r["epsilon"] in ("inf", np.inf)
    ]
    assert one["success"] - 3 * one["standard_error"] > 3 / 8
