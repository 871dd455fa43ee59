"""ε of a stay of several inferences: against closed forms and brute force; its words; the reasons of an infinite ε."""

import json
from contextlib import contextmanager
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from scipy.stats import norm

from airpool import Channel, Claim, Network, Threshold, guarantee
from airpool._support import figures
from airpool.account import assumptions, report
from airpool.account.calibration import calibrate
from airpool.account.event import most_inferences, seconds
from airpool.network import Slots

TWELVE = Network.uniform(num_devices=12, noise_std=0.5)


def event_of(network, number, **how):
    found = guarantee(network, Claim(per_event=number, **how)).event
    assert found is not None
    return found


def gaussian_delta(epsilon, mu):
    """δ(ε) of two Gaussians μ apart, by the textbook."""
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("number", [1, 60, 301])
def test_an_event_of_gaussians_is_one_gaussian_of_the_root_of_its_length(number):
    event = event_of(TWELVE, number)
    one = 1 / 12 / 0.5  # feature over own noise
    for found, mu in (
        (event.epsilon[3], one / np.sqrt(12)),
        (event.epsilon_local[3], one),
        (event.epsilon_object, one * np.sqrt(12)),
    ):
        assert gaussian_delta(found, mu * np.sqrt(number)) == pytest.approx(1e-5, rel=1e-6)


def test_an_event_with_coins_agrees_with_brute_force():
    """Two inferences of three devices: δ(ε) over all pairs of outcomes of who takes part."""
    p, sigma = 0.6, 0.3
    net = Network.uniform(num_devices=3, noise_std=sigma, participation=p)
    found = float(event_of(net, 2).epsilon[0])
    one = [(1 - p, 0.0)]
    for others in range(3):
        chance = p * [1, 2, 1][others] * p**others * (1 - p) ** (2 - others)
        one.append((chance, 1 / 3 / (sigma * np.sqrt(others + 1))))
    pairs = [(a * b, np.hypot(x, y)) for a, x in one for b, y in one]
    exact = sum(chance * gaussian_delta(found, mu) for chance, mu in pairs if mu > 0)
    assert exact <= 1e-5
    assert exact == pytest.approx(1e-5, rel=2e-2)  # never below the truth, and by a grid's width above it


def test_all_slots_of_all_inferences_of_an_event_count():
    slots = replace(TWELVE, slots=Slots(4))
    once, four = event_of(TWELVE, 240), event_of(slots, 60)
    np.testing.assert_allclose(four.epsilon, once.epsilon, rtol=1e-9)
    assert "60 inferences in a row of up to 4 slots each" in four.words


def test_an_event_is_the_stream_of_its_length_under_the_same_adversary():
    net = Network.uniform(num_devices=5, noise_std=0.4, participation=0.8, dropouts=1)
    event = event_of(net, 7, colluding=(2,), live=True)
    stream = guarantee(net, Claim(inferences=7, colluding=(2,), live=True))
    np.testing.assert_array_equal(event.epsilon, stream.epsilon)
    np.testing.assert_array_equal(event.epsilon_local, stream.epsilon_local)
    assert event.epsilon_object == stream.epsilon_object == np.inf
    assert event.reasons["epsilon_object"] == assumptions.COLLUDER


def test_a_report_of_one_inference_keeps_its_own_numbers_beside_the_event():
    report = guarantee(TWELVE, Claim(per_event=60))
    assert report.event is not None
    assert report.worst == guarantee(TWELVE).worst < float(report.event.epsilon.max())
    assert report.event.words in unescape(report._repr_html_())
    assert guarantee(TWELVE).event is None
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert data["event"]["inferences"] == 60
    assert "two stays compose" in data["event"]["assumptions"][0]


def test_noise_that_is_calibrated_for_an_event_protects_it():
    stay = Claim(inferences=60)
    met = calibrate(TWELVE, stay, epsilon=2.0)
    assert guarantee(met, stay).as_event.epsilon.max() <= 2.0
    assert event_of(met, 60).epsilon.max() == pytest.approx(2.0, rel=1e-3)


def test_a_target_of_an_event_is_met_by_the_event_and_not_by_the_stream():
    claim = Claim(inferences=1000, per_event=60)
    met = calibrate(TWELVE, claim, epsilon=2.0)
    assert met == calibrate(TWELVE, Claim(inferences=60), epsilon=2.0)
    report = guarantee(met, claim)
    assert report.event is not None
    assert 1.999 < report.event.epsilon.max() <= 2.0 < report.worst
    with pytest.raises(ValueError, match="per_event=60 must be None: adjust='inferences' finds how many share ε"):
        calibrate(TWELVE, claim, epsilon=2.0, adjust="inferences")


def test_a_stay_holds_no_more_inferences_than_are_counted():
    rng = np.random.default_rng(33)
    for _ in range(50):
        stay, every = rng.uniform(0.1, 100), rng.uniform(0.1, 10)
        times = np.cumsum(every + rng.exponential(0.1 * every, 2000) * rng.integers(0, 2))
        start = rng.choice(times[:100])
        inside = np.count_nonzero((times >= start) & (times <= start + stay))
        assert inside <= most_inferences(f"{stay!r}s", f"{every!r}s")
    assert most_inferences("1h", "250ms") == 14401


@pytest.mark.parametrize("text", ["", "5", "min", "-1s", "0s", "5 weeks", "nan s", "1/0s", "inf s"])
def test_a_length_of_time_needs_a_number_and_a_unit(text):
    with pytest.raises(ValueError, match="must be a length of time"):
        seconds(text)


def test_every_infinite_epsilon_has_its_reason_and_no_finite_one_has():
    def of(claim=Claim(), *, number=4, noise=0.1, **more):
        report = guarantee(Network.uniform(num_devices=number, noise_std=noise, **more), claim)
        values = {name: getattr(report, name) for name in ("epsilon", "epsilon_local", "epsilon_object")}
        assert {name for name, value in values.items() if np.any(np.isinf(value))} == set(report.reasons)
        assert all(text in unescape(report._repr_html_()) for text in report.reasons.values())
        return dict(report.reasons)

    assert of() == {}
    assert of(noise=0.0)["epsilon"] == of(noise=0.0)["epsilon_object"] == assumptions.NO_NOISE
    assert of(noise=0.0)["epsilon_local"] == assumptions.NO_OWN_NOISE
    assert of(colluders=1) == {"epsilon_object": assumptions.COLLUDER}
    assert of(Claim(colluding=(1,))) == {"epsilon_object": assumptions.COLLUDER}
    assert of(scheme=Threshold(score_noise_std=1.0)) == {"epsilon_object": assumptions.SCORES}
    assert of(Claim(neighbours="remove")) == {"epsilon_local": assumptions.GONE, "epsilon_object": assumptions.REMOVED}
    assert of(Claim(neighbours="remove", live=True))["epsilon"] == assumptions.GRID_REMOVED
    assert of(Claim(neighbours="remove"), channel=Channel(access="secure"))["epsilon"] == assumptions.SENDERS_SEEN
    assert of(channel=Channel(power_rule="paper", fading="rayleigh"))["epsilon"] == assumptions.POWER_LIMIT
    assert of(Claim(live=True), noise=1e-4)["epsilon"] == assumptions.GRID


def test_a_device_without_noise_whose_others_may_be_silent_is_told_so():
    net = Network.uniform(num_devices=3, participation=0.5)
    net = replace(net, devices=replace(net.devices, noise_std=(0.0, 0.1, 0.1)))
    assert guarantee(net).reasons["epsilon"] == assumptions.OTHERS_SILENT


def test_every_finite_epsilon_lies_within_the_axis_of_the_picture():
    low, high = report._limits([np.array([0.0, 0.02, np.inf]), np.array([np.nan, 300.0])])
    assert 0 < low < 0.02
    assert 300 < high < np.inf


def test_the_picture_tells_undefined_from_infinite_and_has_the_object(tmp_path, monkeypatch):
    drawn, figure = {}, figures.figure

    @contextmanager
    def watched(*paths, **how):
        with figure(*paths, **how) as (whole, axes):
            yield whole, axes
            drawn["legend"] = " ".join(text.replace("\n", " ") for text in axes.get_legend_handles_labels()[1])

    monkeypatch.setattr(figures, "figure", watched)
    guarantee(Network.uniform(num_devices=2, noise_std=0.0)).plot(str(tmp_path / "a.png"))
    assert "Theorem 1: undefined" in drawn["legend"]
    assert "object: all views change; ▲ infinite: no noise" in drawn["legend"]
    guarantee(TWELVE).plot(str(tmp_path / "b.png"))
    assert "infinite" not in drawn["legend"]
    assert "object: all views change: ε = " in drawn["legend"]
