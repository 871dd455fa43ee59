"""The report for machines and for people, and the house style of figures."""

import csv
import json
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from airpool._support.figures import figure, write_csv
from airpool.account.guarantee import guarantee
from airpool.account.report import number, shown, shown_below, table
from airpool.network import Adversary, Channel, Claim, Devices, Network, Threshold

TWELVE = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, participation=0.9)


@pytest.mark.parametrize(
    ("network", "claim"),
    [
        (Network.uniform(num_devices=12, noise_std=0.1), Claim(live=True)),
        (
            Network.uniform(num_devices=4, noise_std=0.5, participation=0.9, adversary=Adversary(2)),
            Claim(inferences=10, live=True),
        ),
        (
            Network.uniform(num_devices=4, noise_std=0.5, channel=Channel(fading="rician", csi_error_std=0.1)),
            Claim(inferences=3),
        ),
        (Network.uniform(num_devices=4, noise_std=0.5, participation=0.5), Claim(neighbours="remove")),
        (Network.uniform(num_devices=4, noise_std=0.5, scheme=Threshold(), cover_noise=True), Claim(live=True)),
    ],
)
def test_a_report_that_was_stored_is_the_same_report(network, claim):
    made = guarantee(network, replace(claim, colluding=[0], per_event=2))
    for report in (made, made.over(2)):
        found = pickle.loads(pickle.dumps(report))
        assert found.to_json() == report.to_json()
        assert found.over(3).to_json() == report.over(3).to_json()
    again = pickle.loads(pickle.dumps(made))  # after all has been computed, too
    assert str(again.odds) == str(made.odds)


def printed(report, width=140):
    console = Console(width=width, record=True, file=None, force_terminal=False, quiet=False)
    with console.capture() as caught:
        console.print(table(report))
    return caught.get()


@given(st.floats(0, 1e6), st.integers(1, 6))
def test_a_printed_epsilon_is_never_below_the_true_one(value, digits):
    text = shown(value, digits)
    # Up to the last digits of a double: a number that is round already is not rounded up.
    assert float(text) >= value - 1e-9 * 10.0**-digits - 1e-15 * value
    assert float(text) <= value + 1.000001 * 10.0**-digits + 1e-15 * value


def test_printed_epsilons_are_rounded_up_and_infinity_is_a_word():
    assert [shown(x) for x in (2.0, 2.0001, 0.0, 1e-6, math.inf)] == ["2.000", "2.001", "0.000", "0.001", "inf"]


def test_infinity_is_a_string_in_json():
    assert number(math.inf) == "inf"
    assert number(np.float64(1.5)) == 1.5
    assert type(number(np.float64(1.5))) is float


def test_a_report_without_any_noise_is_valid_json():
    data = json.loads(json.dumps(guarantee(Network.uniform(num_devices=2, noise_std=0.0)).to_json(), allow_nan=False))
    assert data["epsilon"] == ["inf", "inf"]
    assert data["epsilon_local"] == ["inf", "inf"]
    assert data["epsilon_object"] == "inf"
    assert data["paper"]["epsilon"] == ["inf", "inf"]
    assert data["paper"]["reason"].startswith("undefined")


def test_json_has_what_is_promised():
    report = guarantee(TWELVE)
    data = report.to_json()
    assert data["epsilon"] == pytest.approx([2.063924225] * 12, rel=1e-8)
    assert data["epsilon_lower"] == data["epsilon"]
    assert data["epsilon_local"] == pytest.approx(report.epsilon_local.tolist())
    assert data["epsilon_object"] == report.epsilon_object
    assert data["epsilon_if_absent"] == list(report.epsilon_if_absent)
    assert (data["delta"], data["neighbours"], data["cover_noise"], data["inferences"]) == (1e-5, "zero-out", False, 1)
    assert (data["scheme"], data["colluders"], data["dropouts"]) == ("1", 0, 0)
    assert data["assumptions"] == list(report.assumptions)
    assert data["paper"]["epsilon"] == report.paper.epsilon.tolist()
    assert data["paper"]["delta"] == report.paper.delta.tolist()


def test_json_of_a_stream_has_no_lower_end():
    assert guarantee(TWELVE, Claim(inferences=2)).to_json()["epsilon_lower"] is None


def test_the_table_shows_the_promise_the_local_the_object_and_the_claim():
    text = printed(guarantee(TWELVE))
    assert "zero-out neighbours, δ = 1e-05" in text
    assert "0 to 11" in text
    assert "2.064" in text
    assert shown(guarantee(TWELVE).epsilon_local[0]) in text
    assert "The object (all views change at once)" in text
    assert "The paper's Theorem 1: at δ̃ = " in text
    assert "Holds if:" in text
    assert "by number of colluders or dropouts: 0: 2.064, 1: " in text


def test_both_ends_are_said_of_the_worst_devices_epsilon_and_of_no_other():
    """Right below it, before the ε of a stay."""
    decided = Network.uniform(num_devices=12, noise_std=0.3, scheme=Threshold(score_noise_std=1.0, threshold=2.0))
    report = guarantee(decided, Claim(inferences=100, per_event=5))
    assert report.epsilon_at_least is not None
    lines = [line.strip() for line in printed(report, width=200).splitlines()]
    (at,) = (i for i, line in enumerate(lines) if line.startswith("Worst device: ε = "))
    both = f"{shown_below(report.epsilon_at_least.max())} and {shown(report.worst)}"
    assert lines[at + 1] == f"The worst device's ε lies between {both}."


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        (Channel(fading="rayleigh", outage=0.1), "up to 5 others too weak each time"),
        (Channel(fading="rayleigh", outage=0.1, access="orthogonal"), "it is received each time"),
        (Channel(csi_error_std=0.1), "no draw rarer than 1 in 1,000"),
    ],
)
def test_the_table_says_what_a_server_reaches_that_chooses_its_moments(channel, words):
    report = guarantee(replace(TWELVE, channel=channel))
    assert report.epsilon_if_selected is not None
    worst = shown(report.epsilon_if_selected.max())
    text = " ".join(printed(report).split())
    assert f"If the server chooses its moments by the channel ({words}): ε = {worst}." in text


def test_like_devices_share_a_row_and_unlike_ones_do_not():
    text = printed(guarantee(Network(devices=Devices(count=4, noise_std=(0.1, 0.1, 0.2, 0.1)))))
    assert re.findall(r"^(\d(?: to \d)?)  ", text, re.MULTILINE) == ["0 to 1", "2", "3"]


def test_the_title_says_cover_noise_and_inferences():
    text = " ".join(printed(guarantee(replace(TWELVE, cover_noise=True), Claim(inferences=3))).split())
    assert "cover noise" in text
    assert "over 3 inferences" in text


def test_an_undefined_claim_is_called_that():
    text = printed(guarantee(replace(TWELVE, devices=replace(TWELVE.devices, participation=0.01))))
    assert "The paper's Theorem 1: undefined: the mean noise 0.000 is below the slack t = " in text


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_is_written(tmp_path, ending):
    path = tmp_path / "folder" / f"report.{ending}"
    guarantee(TWELVE).plot(str(path))
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert path.read_bytes().startswith(start)


def test_a_report_of_infinities_can_be_drawn(tmp_path):
    guarantee(Network.uniform(num_devices=2, noise_std=0.0)).plot(str(tmp_path / "inf.png"))
    assert (tmp_path / "inf.png").stat().st_size > 0


def test_the_same_report_gives_the_same_bytes(tmp_path):
    for name in ("a.svg", "b.svg"):
        guarantee(TWELVE).plot(str(tmp_path / name))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_picture_needs_a_known_ending(tmp_path):
    with pytest.raises(ValueError, match=r"report\.gif: a figure's name must end in \.png, \.svg or \.pdf"):
        guarantee(TWELVE).plot(str(tmp_path / "report.gif"))
    with pytest.raises(ValueError, match="must end in"), figure(tmp_path / "nothing"):
        pass


def test_one_drawing_can_be_written_in_several_forms(tmp_path):
    with figure(tmp_path / "a.svg", tmp_path / "a.png", width=2.0, height=1.0) as (_, axes):
        axes.plot([0, 1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg"]
    with pytest.raises(ValueError, match=r"a\.gif: a figure's name"), figure(tmp_path / "a.svg", tmp_path / "a.gif"):
        pass


def test_data_lies_beside_a_figure_as_csv(tmp_path):
    path = tmp_path / "deep" / "data.csv"
    write_csv(path, {"x": [1, 2], "y": [0.5, math.inf]}, comment="how it came about")
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# how it came about"
    assert list(csv.reader(lines[1:])) == [["x", "y"], ["1", "0.5"], ["2", "inf"]]
    with pytest.raises(ValueError, match="zip"):
        write_csv(path, {"x": [1, 2], "y": [1]})
