"""What public objects show in a notebook: HTML that parses, is safe, and says the numbers of the object."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

import airpool
from airpool import Channel, Devices, EncodedObjects, Network
from airpool._support import notebook
from airpool._support.rounding import shown, shown_below
from airpool._support.table import Table
from airpool.account.odds import percent
from airpool.models.sensors.fitting import FitRecipe
from airpool_lab.attacks.positions import POSITIONS
from airpool_lab.attacks.result import AttackResult
from airpool_lab.theory.prediction import predict
from airpool_lab.theory.server import linear_server
from tests.html_reader import Reader

SCRIPT = '<script>alert("&")</script>'
NET = Network(Devices(4, noise_std=(0.3, 0.3, 0.3, 0.45)), Channel(fading="rayleigh"), dimension=3)


def read(value) -> Reader:
    """What an object shows, read back; it parses, and neither runs nor fetches anything."""
    found = Reader(value._repr_html_())
    assert not {"script", "style", "link", "iframe", "img"} & {tag for tag, _ in found.tags}
    assert not found.attributes("onclick", "onload", "href", "src")
    return found


def text(found: Reader) -> str:
    return " ".join(found.texts)


@pytest.fixture(scope="module")
def objects():
    labels = np.arange(60) % 3
    latents = np.random.default_rng(0).normal(size=(60, 4, 3)) / 9 + np.eye(3)[labels][:, None] / 2
    return EncodedObjects(torch.from_numpy(latents), torch.from_numpy(labels), lambda level: lambda estimate: estimate)


@pytest.fixture(scope="module")
def model():
    labels = np.arange(60) % 3
    features = np.random.default_rng(0).normal(size=(60, 3, 4)) + labels[:, None, None]
    recipe = FitRecipe(head_steps=2, codec_steps=2, hidden=(0,), alike=True, trials=1)
    return airpool.fit(features, labels, epsilon=4.0, recipe=recipe), features


def test_a_report_shows_every_epsilon_rounded_up_and_all_that_it_assumes():
    report = airpool.guarantee(NET)
    found = read(report)
    rows = found.tables[0]
    assert [row[0] for row in rows] == ["device", "0 to 2", "3"]
    assert [row[5] for row in rows[1:]] == [shown(float(report.epsilon[0])), shown(float(report.epsilon[3]))]
    assert float(rows[1][5]) >= report.epsilon[0]
    assert all(each in text(found) for each in report.assumptions)
    assert f"ε = {shown(report.epsilon_object)}" in text(found)


def test_an_infinite_epsilon_is_drawn_and_has_its_reason():
    report = airpool.guarantee(Network(Devices(3, noise_std=0.0)))
    found = text(read(report))
    assert "inf" in found
    assert report.reasons["epsilon"] in found


def test_a_network_shows_devices_channel_and_scheme():
    devices, about = read(NET).tables
    assert devices[1][:5] == ["0 to 2", "0.25", "1", "0.3", "1"]
    assert devices[2][0] == "3"
    pairs = dict(about)
    assert pairs["channel"] == "superposed, fading rayleigh"
    assert pairs["scheme"] == "1"


def test_odds_are_rounded_up_and_stand_beside_the_prior():
    odds = airpool.odds(NET)
    found = read(odds)
    assert found.tables[0][1][1] == percent(float(odds.device[0]))
    assert all(percent(each) in text(found) for each in (odds.prior, odds.worst, odds.object))


def test_an_evaluation_shows_its_accuracy_its_interval_and_epsilon(objects):
    run = airpool.evaluate(objects, NET, trials=3)
    pairs = dict(read(run).tables[0])
    low, high = run.accuracy_ci
    assert pairs["accuracy"].startswith(f"{run.accuracy_mean:.4f} (95 % interval {low:.4f} to {high:.4f}")
    assert pairs["ε of the worst device"].startswith(shown(run.report.worst))


def test_a_design_shows_weights_targets_and_epsilon(objects):
    found = airpool.design(NET, objects.latents.double().numpy(), epsilon=4.0)
    rows = read(found).tables[0]
    assert rows[0] == ["device", "weight", "clip norm", "noise std", "target ε", "ε"]
    assert max(float(row[5]) for row in rows[1:]) == float(shown(float(np.max(found.epsilon))))


def test_an_audit_shows_each_game_beside_its_claim():
    found = airpool.audit(NET, runs=400)
    (row, alone), drawn = read(found).tables[0][1:], text(read(found))
    game = found.games[int(row[0])]
    assert game.claimed_epsilon is not None
    assert row[2:] == [shown(game.claimed_epsilon), shown_below(game.epsilon_lower), "not refuted"]
    assert alone[1] == "its own signal"
    assert all(line.strip() in drawn for line in found.lines())
    assert str(game) in text(read(game))


def test_an_attack_shows_its_success_beside_its_bound():
    result = AttackResult("guess", POSITIONS["sum"], NET, SCRIPT, "view", 200, 60, 0.2, 0.3501, 0, numbers={"a": 0.12})
    found = read(result)
    assert found.tables[0][1] == [SCRIPT, "sum", "20.0 %", "30.0 % ± 3.2", "35.1 %", ""]
    assert found.tables[1] == [["a", "0.12"]]
    assert read(replace(result, successes=None, bound=None, prior=None)).tables[0][1][3] == ""


def test_a_table_shows_rows_and_draws_a_curve_of_one_parameter():
    rows = [
        {"parameters": {"noise_std": s, "name": SCRIPT}, "seed": 1, "results": {"epsilon": 1.00001 / s}, "error": ""}
        for s in (0.1, 0.2, 0.4)
    ]
    table = Table.of(rows, function=SCRIPT, seed=0, version="1")
    found = read(table)
    assert found.tables[0][0] == ["noise_std", "name", "seed", "epsilon"]
    assert found.tables[0][1] == ["0.1", SCRIPT, "1", "10.001"]
    assert "epsilon over noise_std" in found.attributes("aria-label")
    long = Table.of(rows * 20, function="f", seed=0, version="1")
    assert "… 60 rows in all." in text(read(long))


def test_a_model_and_its_answers_show_themselves(model):
    fitted, features = model
    assert dict(read(fitted).tables[0])["classes"] == "3: 0, 1, 2"
    net = Network.uniform(num_devices=3, noise_std=0.3, dimension=fitted.codec().dimension)
    out = airpool.infer(fitted, features[:12], network=net, rng=np.random.default_rng(1))
    found = read(out)
    assert [row[1] for row in found.tables[0][1:]] == [str(each) for each in np.asarray(out.label).ravel()[:10]]
    assert f"ε = {shown(out.report.worst)}" in text(found)
    assert "<script>" not in replace(fitted, name=SCRIPT, labels=(SCRIPT, "b", "c"))._repr_html_()


def test_a_plan_shows_the_best_option_and_the_others(objects):
    from airpool.evaluation.plan.candidates import PAPER
    from airpool.evaluation.plan.search import Option, Plan

    option = Option(PAPER, NET, airpool.evaluate(objects, NET, trials=1))
    found = read(Plan(option, (option,), option, ((PAPER, SCRIPT),), 0, SCRIPT))
    rows = found.tables[0]
    assert rows[1][1] == f"{option.accuracy:.3f}"
    assert rows[2][0].startswith("the paper's network: ")
    assert rows[3][0].endswith(SCRIPT)
    assert f"ε = {shown(option.evaluation.report.worst)}" in text(found)
    assert read(option).tables == read(option.evaluation).tables


def test_names_of_plug_ins_are_text_and_never_markup():
    @airpool.register("scheme", SCRIPT)
    @dataclass(frozen=True)
    class Sly(airpool.Scheme):
        name: ClassVar[str] = SCRIPT

        def participation(self, network: Network) -> np.ndarray:
            return np.full(network.devices.count, 0.5)

    net = replace(NET, scheme=Sly())
    for each in (net, airpool.guarantee(net)):
        assert SCRIPT in text(read(each))
        assert "<script>" not in each._repr_html_()


def test_whatever_the_package_returns_shows_itself(model, objects):
    fitted, _ = model
    server = linear_server(np.eye(3), np.arange(3), noise_std=1.0, num_classes=3)
    found = [
        fitted,
        objects,
        predict(
            NET.__class__.uniform(num_devices=4, noise_std=0.3, dimension=3),
            objects.latents,
            objects.labels,
            server=lambda level: server,
        ),
        airpool.calibrate(NET, epsilon=4.0),
    ]
    for each in found:
        assert "<table" in each._repr_html_()
        read(each)


def test_drawings_stay_inside_and_follow_the_page():
    rows = [notebook.Dot("a", x, "t", (0.0, x), mark=math.inf) for x in (0.0, 1e-300, 3.0, math.inf)]
    for drawn in (notebook.dots(rows), notebook.dots(rows, ends=(0.0, 1.0))):
        found = Reader(drawn)
        assert all(0 <= float(x) <= 560 for x in found.attributes("cx", "x"))
        assert set(found.attributes("fill")) >= {"currentColor"}
    assert notebook.curve([1.0, 1.0], [2.0, 3.0], "x", "y") == ""
    assert "nan" not in notebook.curve([0.0, 1.0, math.nan], [2.0, 2.0, 1.0], "x", "y")


def test_showing_an_object_needs_no_plotting_library():
    import subprocess
    import sys

    code = (
        "import sys, airpool; from airpool import Network; n = Network.uniform(num_devices=3, noise_std=0.3)\n"
        "assert 'airpool._support.notebook' not in sys.modules\n"
        "airpool.guarantee(n)._repr_html_() + n._repr_html_() + airpool.odds(n)._repr_html_()\n"
        "assert not {'matplotlib', 'jinja2', 'rich', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


def test_a_view_of_very_many_devices_stays_small_and_says_so():
    net = Network(Devices(3000, noise_std=tuple(np.random.default_rng(0).uniform(0.1, 0.3, 3000).tolist())))
    report = airpool.guarantee(net)
    for each in (net, report, airpool.odds(net)):
        assert len(each._repr_html_()) < 60_000
        assert " rows in all." in text(read(each))
    assert f"Worst device: ε = {shown(report.worst)}" in text(read(report))
    rows = [{"parameters": {"x": float(i)}, "seed": 1, "results": None, "error": "no"} for i in range(3000)]
    rows += [{"parameters": {"x": float(i)}, "seed": 1, "results": {"y": 1.0 * i}, "error": ""} for i in range(3000)]
    table = Table.of(rows, function="f", seed=0, version="1")
    assert len(table._repr_html_()) < 120_000
    assert "… 3,001 in all." in text(read(table))
