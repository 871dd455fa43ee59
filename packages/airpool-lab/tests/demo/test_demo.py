"""The demo: what it finds, what it prints, and the page that shows it."""

import csv
import io
import json
import math
import sys
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import airpool
from airpool import cli
from airpool._support.rounding import spread
from airpool.account.guarantee import guarantee
from airpool.account.report import shown
from airpool.models.pretrained import Pretrained
from airpool.models.vision.views import views
from airpool.network import Network
from airpool.network import file as network_file
from airpool.protocol.inference import Simulation
from airpool.radio.link import level
from airpool_lab.cli import demo as demo_command
from airpool_lab.demo import comparison, one_object, story, tables
from airpool_lab.paper.formulas.theorem2 import TABLE_2
from tests.figure_laws import watched
from tests.html_reader import Reader

TRIALS = 3


class Few(Pretrained):
    """The shipped model with every sixteenth of its objects."""

    def encoded_objects(self, split, codec):
        objects = super().encoded_objects(split, codec)
        some = {name: getattr(objects, name)[::16] for name in ("latents", "labels", "posteriors")}
        return replace(objects, **some)


@pytest.fixture(scope="module")
def model():
    whole = airpool.load("modelnet40")
    return Few(whole.name, whole.folder, whole.manifest)


@pytest.fixture(scope="module")
def found(model):
    """As the command finds it, on fewer objects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airpool.models.pretrained.load", lambda _: model)
        return demo_command._found("chair", epsilon=2.0, trials=TRIALS, seed=0)


@pytest.fixture(scope="module")
def told(found, tmp_path_factory):
    """The command's JSON, its page and its folder."""
    folder = tmp_path_factory.mktemp("demo")
    return run(found, "--json", "--out", folder), Reader((folder / "demo.html").read_text("utf-8")), folder


def run(found, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_command, "_found", lambda *_, **__: found)
        done = CliRunner().invoke(cli.app, ["demo", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout, parse_constant=pytest.fail) if "--json" in arguments else done.stdout


# What it finds


def test_our_budget_is_kept_and_the_papers_claim_is_met(found):
    for point in found.ours.points:
        assert point.row()["epsilon_device"] <= point.epsilon
        assert point.row()["epsilon_device"] == pytest.approx(point.epsilon, rel=1e-6)
    for point in found.paper.points:
        assert point.row()["epsilon_claimed"] == pytest.approx(point.epsilon, rel=1e-9)


def test_the_networks_are_those_that_were_announced(found):
    for point in found.paper.points:
        net = point.network
        assert (net.dimension, net.devices.count, net.channel.fading, net.channel.noise_std) == (784, 12, "none", 0.0)
        assert (net.devices.participation[0], net.devices.clip_norm[0]) == (0.9, 1.0)
    for point in (*found.ours.points, *found.compact.points):
        net = point.network
        assert (net.dimension, net.channel.fading, net.channel.k_factor_db) == (40, "rician", 4.8)
        assert (net.channel.noise_std, net.channel.power_rule) == (pytest.approx(math.sqrt(0.1)), "truncate")
        assert (net.devices.participation[0], net.devices.power_dbm[0]) == (1.0, 30.0)


def test_every_epsilon_is_that_of_the_guarantee(found):
    for curve in found.curves:
        point = curve.points[2]
        report = guarantee(point.network)
        device, local, objects, remove = (
            point.row()[f"epsilon_{name}"] for name in ("device", "local", "object", "remove")
        )
        assert (device, local, objects) == (report.worst, report.epsilon_local.max(), report.epsilon_object)
        assert remove == report.again(neighbours="remove").worst
        assert device <= local <= objects


def test_accuracy_rises_with_the_budget_up_to_what_the_codec_can(found):
    for curve in found.curves:
        means = [point.evaluation.accuracy_mean for point in curve.points]
        quiet = curve.without_noise
        # 155 objects, three times: two standard deviations of an accuracy near 0.9 are 0.03.
        slack = 0.03
        assert means[0] + slack < means[1] < means[-1] + slack
        assert means[-1] == pytest.approx(quiet.accuracy_mean, abs=slack)
        assert quiet.report.worst == math.inf


def test_the_paper_is_quoted_as_it_is_printed(found):
    told = {point.epsilon: point.printed for point in found.paper.points}
    assert told == {1.0: None, 2.0: None, **TABLE_2["1"]}
    assert TABLE_2["1"].get(3.9811) == (0.5051, 0.0044)
    assert TABLE_2["1"].get(5.0) is None


def test_the_paper_defaults_are_checked_as_before(told):
    data = told[0]["paper_defaults"]
    assert data["truths"]["zero-out"] == pytest.approx(80.12256366, rel=1e-8)
    assert data["claims"]["quadratic"]["epsilon"] == pytest.approx(59.39744156, rel=1e-8)
    assert data["claims"]["quadratic"]["true_delta"] == pytest.approx(0.00162220209, rel=1e-7)
    assert data["claims"]["statement"]["epsilon"] == "inf"


def test_the_object_is_sent_as_infer_sends_it(found, model):
    sent = found.sent
    rng = torch.Generator().manual_seed(0)
    seen = views([(sent.shape.vertices, sent.shape.faces)])
    out = airpool.infer(model, seen, network=sent.network, rng=rng, simulation=Simulation(path="fast"))
    assert torch.equal(out.received.estimate[0, 0], sent.estimate)
    assert model.classes[int(out.label)] == sent.label
    assert out.report.worst <= 2.0


def test_what_is_heard_is_the_sum_and_noise_of_the_size_that_was_announced(found):
    off = (found.sent.estimate - found.sent.ideal).numpy()
    std = level(found.sent.network).noise_std
    # A χ² of 40 degrees of freedom, and a missing device or two.
    assert 0.5 * std < np.sqrt(np.mean(off**2)) < 1.6 * std


def test_frequencies_are_of_all_repeats(found):
    assert float(found.sent.frequency.sum()) == pytest.approx(1.0, abs=0.01)
    assert float(found.sent.probability.sum()) == pytest.approx(1.0, abs=1e-5)
    names = [name for name, _, _ in found.sent.top()]
    assert len(set(names)) == 5


def test_shapes_are_found_by_kind_and_by_variant():
    assert one_object.find("chair").name == "chair_0"
    assert one_object.find("chair_2").variant == 2
    with pytest.raises(ValueError, match=r"no object 'nosuch': there are airplane, .*chair.*such as airplane_0"):
        one_object.find("nosuch")


def test_a_device_that_does_not_take_part_is_said_to_be_silent(model, found):
    net = Network.uniform(num_devices=12, dimension=40, participation=0.0)
    dark = torch.zeros(1, 12, 2, 224, 224)
    out = airpool.infer(model, dark, network=net, rng=torch.Generator().manual_seed(0))
    sent = replace(found.sent, network=net, out=out)
    assert sent.label is None
    assert sent.record()["label"] is None
    assert sent.answer == "no answer, WRONG: the true class is chair."
    assert {row[3] for row in tables.devices(sent).rows} == {"silent: did not take part"}


def test_the_default_object_is_named_right(found):
    assert (found.sent.is_right, found.sent.label, found.sent.answer) == (True, "chair", "chair, right.")
    assert found.sent.record()["right"] is True
    assert [row[3] for row in tables.labels(found.sent).rows] == ["answer: right", "", "", "", ""]


@pytest.mark.parametrize("truth", ["tent", "airplane"])  # among the five likeliest classes, and not
def test_a_wrong_answer_is_marked_as_wrong_everywhere(found, tmp_path, truth):
    sent = replace(found.sent, shape=replace(found.sent.shape, label=truth))
    assert sent.record()["right"] is False
    marks = {row[0]: row[3] for row in tables.labels(sent).rows}
    assert (marks["chair"], marks[truth]) == ("answer: WRONG", "true class")
    wrong = replace(found, sent=sent)
    told = f"chair, WRONG: the true class is {truth}."
    assert f"label: {told}" in " ".join(run(wrong, "--out", tmp_path).split())
    page = Reader((tmp_path / "demo.html").read_text("utf-8"))
    assert f"The server's answer: {told}" in page.texts
    assert "answer wrong" in page.attributes("class")


# What it shows


def test_the_files_are_there(told):
    data, _, folder = told
    names = {path.name for path in folder.iterdir()}
    for name in ("accuracy", "object-received", "paper-claim"):
        assert {f"{name}.png", f"{name}.svg", f"{name}.csv"} <= names
    assert {"demo.html", "object-views.png", "object-views.svg"} <= names
    assert data["files"]["page"] == str(folder / "demo.html")


def test_the_csv_holds_what_the_json_holds(told):
    data, _, folder = told
    lines = (folder / "accuracy.csv").read_text("utf-8").splitlines()
    assert lines[0].startswith("# airpool")
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[1:]))))
    assert len(rows) == len(data["accuracy"]) == 18
    for row, wanted in zip(rows, data["accuracy"], strict=True):
        assert row == {name: "" if value is None else str(value) for name, value in wanted.items()}


def test_the_numbers_on_the_page_are_those_of_the_json(told):
    data, page, _ = told
    for k, (name, codec) in enumerate((("paper", "q16"), ("ours", "vote"))):
        header, *rows = page.tables[k]
        points = [row for row in data["accuracy"] if row["codec"] == codec]
        columns = {"ε remove": "epsilon_remove", "ε local": "epsilon_local", "ε object": "epsilon_object"}
        columns |= {"ε claimed": "epsilon_claimed"} if name == "ours" else {"ε device": "epsilon_device"}
        for row, point in zip(rows, points, strict=True):
            cells = dict(zip(header, row, strict=True))
            for title, column in columns.items():
                assert cells[title] == shown(float(point[column]))
            assert cells["accuracy ± std"].startswith(f"{point['accuracy_mean']:.4f}")
            assert cells["95 % interval"] == f"{point['accuracy_low']:.3f} – {point['accuracy_high']:.3f}"
            assert cells["paper printed"].startswith(
                "" if point["paper_accuracy"] is None else f"{point['paper_accuracy']:.4f}"
            )


def test_every_trained_codec_stands_beside_the_vote_of_its_trunk_on_the_same_noise(told):
    data, page, _ = told
    assert all((row["vote_accuracy"] is None) == (row["codec"] == "vote") for row in data["accuracy"])
    trained = [row for row in data["accuracy"] if row["codec"] != "vote"]
    assert [(row["network"], row["codec"]) for row in trained] == 6 * [("paper", "q16")] + 6 * [("ours", "compact")]
    header, *rows = page.tables[2]
    assert header == ["network", "codec", "ε", "accuracy", "the vote's", "difference ± error"]
    for row, point in zip(rows, trained, strict=True):
        assert point["against_vote"] == pytest.approx(point["accuracy_mean"] - point["vote_accuracy"], abs=1e-12)
        difference = f"{point['against_vote']:+.4f} ± {spread(point['against_vote_error'])}"
        numbers = (f"{point['accuracy_mean']:.4f}", f"{point['vote_accuracy']:.4f}", difference)
        assert (row[0], row[1], *row[3:]) == (point["network"], point["codec"], *numbers)
    assert any(text.startswith("The vote is our codec, and the baseline") for text in page.texts)


def test_the_vote_that_compact_meets_is_the_one_on_our_curve(found):
    """Same trunk, network, dimension and seed: the same noise, so the same answers."""
    for vote, compact in zip(found.ours.points, found.compact.points, strict=True):
        assert compact.evaluation.vote_accuracy == vote.evaluation.accuracy_mean


def test_a_model_without_a_vote_shows_none(model, monkeypatch):
    monkeypatch.setattr(model, "vote", lambda *_, **__: None, raising=False)
    curves = comparison.comparison(model, trials=1, epsilons=(10.0,))
    assert tables.voted(*curves) is None


def test_what_is_promised_of_slots_stands_beside_what_was_spent(told):
    data, page, _ = told
    once, often = data["until_sure"]
    assert (once["slots"], often["slots"]) == (1, 16)
    for row in (once, often):
        assert row["cap_epsilon"] <= 2.0
        assert row["inferences_at_least"] <= row["inferences_on_average"]
    assert often["mean_epsilon"] < often["cap_epsilon"]
    assert often["inferences_on_average"] > 1.5 * once["inferences_on_average"]
    header, *rows = next(table for table in page.tables if table[0][0] == "slots")
    assert [name for name in header if "mean" in name and "figure" not in name] == []
    assert [cells[1] for cells in rows] == [shown(row["cap_epsilon"]) for row in (once, often)]
    assert any("promised to no inference" in text for text in page.texts)


def test_the_page_shows_who_was_silent_and_what_was_heard(told):
    data, page, folder = told
    cameras = next(table for table in page.tables if table[0][0] == "camera")
    for row, device in zip(cameras[1:], data["object"]["devices"], strict=True):
        assert (row[3] == "yes") == device["on_the_air"]
        assert row[4] == shown(device["epsilon"])
    labels = next(table for table in page.tables if table[0][0] == "class")
    assert [row[:2] for row in labels[1:]] == [
        [each["label"], f"{each['probability']:.4f}"] for each in data["object"]["top"]
    ]
    lines = (folder / "object-received.csv").read_text("utf-8").splitlines()[2:]
    assert [float(line.split(",")[2]) for line in lines] == data["object"]["received"]
    assert sum(tag == "img" for tag, _ in page.tags) == 12


def test_the_page_is_whole_and_says_where_it_comes_from(told):
    data, page, _ = told
    addresses = page.attributes("src", "href", "xlink:href")
    assert all(address.startswith(("data:", "#")) for address in addresses)
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    text = "".join(page.texts)
    assert "the paper's objects, but not its pictures. Ours are renders of the CAD models" in text
    assert f"airpool {data['version']}, seed 0, {TRIALS} trials" in text
    again = f"airpool demo --object chair_0 --epsilon 2 --trials {TRIALS} --seed 0"
    assert data["command"] == again
    assert (
        f"Measured {data['measured']} by airpool {data['version']} on {data['machine']}; measured again by {again}."
        in text
    )
    assert "gives no privacy" in text


def test_the_same_findings_give_the_same_page_whose_figures_can_be_printed(found, told, tmp_path, monkeypatch):
    with watched(monkeypatch) as drawn:
        story.write(found, tmp_path)
    assert [laws for laws in drawn.values() if laws] == []
    for name in ("demo.html", "accuracy.svg", "object-received.csv"):
        assert (tmp_path / name).read_bytes() == (told[2] / name).read_bytes()


def test_a_person_is_told_the_same_numbers(found, tmp_path):
    text = run(found, "--out", tmp_path)
    shown_tables = [tables.compared(found.paper), tables.compared(found.ours), tables.voted(*found.curves)]
    for row in (row for table in shown_tables if table for row in table.rows):
        words = [word for cell in row for word in cell.split()]  # a narrow terminal wraps cells
        assert all(word in text for word in words)
    assert "false: the true δ is 85 times larger" in text
    assert f"label: {found.sent.label}" in text
    assert str(tmp_path / "demo.html") in text


def test_a_view_is_drawn_on_white():
    view = torch.zeros(2, 8, 8)
    view[:, 2:6, 2:6] = 0.5
    view[:, 2:6, 6] = 0.25  # the outline: half covered
    drawn = story._on_white(view)
    assert drawn[3] == pytest.approx([1, 1, 0.45, 0.45, 0.45, 0.45, 0.725, 1])
    assert story.picture(view).startswith(b"\x89PNG")


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--object", "nosuch"], "no object 'nosuch': there are airplane"),
        (["--trials", "0"], "--trials 0 must be >= 1"),
        (["--epsilon", "-1"], "--epsilon -1 must be > 0 and finite"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.setattr(sys, "argv", ["airpool", "demo", "--out", str(tmp_path), *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_the_progress_adds_up(model):
    told = []
    comparison.comparison(model, trials=1, epsilons=(10.0,), on_inferences=told.append)
    assert sum(told) == comparison.inferences(model, trials=1, epsilons=(10.0,))


def test_the_statement_of_its_network_lies_beside_the_page(found, told):
    record, _, folder = told
    assert {record["files"][name] for name in ("network", "statement")} == {
        str(folder / name) for name in ("network.toml", "statement.html")
    }
    net = network_file.read(folder / "network.toml")
    assert net == story._at(found.ours, 2.0).network
    page = "".join(Reader((folder / "statement.html").read_text("utf-8")).texts)
    assert sha256((folder / "network.toml").read_bytes()).hexdigest() in page
    assert shown(guarantee(net).worst) in page
