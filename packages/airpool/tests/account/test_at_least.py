"""Lower ends of ε over streams: below the promise, close to it, and printed where they are not."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from airpool.account.at_least import at_least
from airpool.account.guarantee import guarantee
from airpool.account.received import aggregate
from airpool.account.report import PrivacyReport, table
from airpool.account.views import Question
from airpool.network import Channel, Claim, Devices, Network, Ranking, Threshold
from airpool.privacy import compose, gaussian, leakage
from airpool.privacy.sums import law_of

pytestmark = pytest.mark.usefixtures("few_draws")
TWELVE = Network.uniform(num_devices=12, noise_std=0.09)
DECIDED = Network.uniform(num_devices=12, noise_std=0.3, scheme=Threshold(score_noise_std=1.0, threshold=2.0))


def ends(network: Network, inferences: int) -> tuple[float, float]:
    report = guarantee(network, Claim(inferences=inferences))
    assert report.epsilon_at_least is not None
    assert np.all(report.epsilon_at_least <= report.epsilon)
    return float(report.epsilon_at_least.max()), report.worst


def test_without_anything_random_both_ends_meet():
    lower, upper = ends(TWELVE, 50)
    exact = float(gaussian.epsilon(np.sqrt(50 * 12) / 12 / (12 * 0.09), 1e-5))
    assert upper == pytest.approx(exact, rel=1e-9)
    assert 0.998 * exact < lower <= exact


@pytest.mark.parametrize("inferences", [2, 30, 1000])
@pytest.mark.parametrize("channel", [Channel(), Channel(fading="rayleigh", outage=0.1), Channel(antennas=2)])
def test_streams_of_scheme_1_are_known_to_a_per_cent(channel, inferences):
    devices = replace(TWELVE.devices, participation=0.8)
    lower, upper = ends(replace(TWELVE, devices=devices, channel=channel), inferences)
    assert 0.985 * upper < lower


@pytest.mark.parametrize(("inferences", "before"), [(100, 61.47), (1000, 371.10)])
def test_long_streams_of_scheme_2_1_are_known_to_a_few_per_cent(inferences, before):
    """The envelope of all scores' curves was up to 41 % above a lower end."""
    lower, upper = ends(DECIDED, inferences)
    assert lower < upper < min(1.08 * lower, before)


def test_no_sequence_of_scores_costs_more_than_promised():
    low, high = map(np.asarray, DECIDED.scheme.score_range())  # pyright: ignore[reportAttributeAccessIssue]
    decision = leakage.Decision(low, high, np.asarray(1.0), 2.0)
    leak = leakage.by_threshold(aggregate(DECIDED), decision).coarse(512)
    rare, often, alike = (loss for each in leak.chosen() for loss in compose.stream(each).once)
    promised = guarantee(DECIDED, Claim(inferences=64)).worst
    for numbers in ((64, 0, 0), (0, 64, 0), (0, 0, 64), (32, 32, 0), (40, 8, 16), (56, 0, 8)):
        parts = [loss.times(n) for loss, n in zip((rare, often, alike), numbers, strict=True) if n]
        total = parts[0]
        for part in parts[1:]:
            total = total.plus(part)
        assert total.epsilon(1e-5) <= promised * (1 + 1e-9)


@pytest.mark.parametrize("inferences", [16, 400])
def test_moments_of_one_law_are_above_its_composition_and_not_far(inferences):
    decision = leakage.Decision(np.zeros(1), np.ones(1), np.asarray(3.0), 0.5)
    _, alike = leakage.by_threshold(aggregate(DECIDED), decision).coarse(512).chosen()
    loss = compose.stream(alike).once[0]
    exact, found = loss.times(inferences).epsilon(1e-5), compose.LossMoments([loss]).epsilon(inferences, 1e-5)
    assert exact <= found < 1.2 * exact


def test_sums_are_rounded_down_and_not_far():
    value, mass = np.array([0.1, 0.7, 1.0]), np.array([0.2, 0.3, 0.4])  # and 0 with probability .1
    rng = np.random.default_rng(1)
    drawn = rng.choice(np.append(value, 0.0), p=np.append(mass, 0.1), size=(100_000, 40)).sum(axis=1)
    law = law_of(value, mass).times(40)
    assert law.mass.sum() == pytest.approx(1.0, abs=1e-12)
    assert 40 * (mass @ value) - 0.1 < law.mass @ law.values <= 40 * (mass @ value)
    for x in np.quantile(drawn, [0.01, 0.5, 0.99]):
        share = law.mass[law.values > x].sum()
        assert np.mean(drawn > x + 0.15) - 0.005 < share < np.mean(drawn > x) + 0.005


def printed(report: PrivacyReport) -> str:
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(table(report))
    return console.export_text()


def test_both_ends_are_printed_where_they_are_five_per_cent_apart():
    often = guarantee(DECIDED, Claim(inferences=100))
    assert "The worst device's ε lies between 53.8" in printed(often)
    assert "lies between" not in printed(guarantee(DECIDED, Claim(inferences=10)))
    found = often.to_json()
    assert found["epsilon_at_least"][0] < found["epsilon"][0]


@pytest.mark.parametrize(
    ("changes", "neighbours"),
    [
        ({"cover_noise": True}, "zero-out"),
        ({}, "remove"),
        ({"channel": Channel(power_rule="backoff", fading="rayleigh")}, "zero-out"),
        ({"channel": Channel(fading="rayleigh", redrawn=False)}, "zero-out"),
    ],
)
def test_where_no_lower_end_is_known_there_is_none(changes, neighbours):
    network = replace(TWELVE, devices=replace(TWELVE.devices, participation=0.8), **changes)
    claim = Claim(neighbours=neighbours, inferences=10)
    assert at_least(Question(network, claim).situation, None) is None


RARELY = Ranking(num_selected=1, score_noise_std=100.0)
OFTEN_WEAK = Channel(fading="rayleigh", outage=0.5)


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        # Selected once in twelve: 1/12·δ_G at own noise, and next to nothing by the scores.
        ({"scheme": RARELY}, float(gaussian.epsilon(1 / 12 / 0.09, 12e-5)) + 0.1),
        # (1−p)N(0, V) + pN(Δ, V) against N(0, V − a), one coordinate: integrated; convexity says 1.57.
        ({"neighbours": "remove", "cover_noise": True, "dimension": 1, "devices": 0.3}, 1.0454),
        # The device is heard half of the time.
        ({"scheme": DECIDED.scheme, "channel": OFTEN_WEAK}, None),
        ({"scheme": DECIDED.scheme, "cover_noise": True}, None),
        ({"channel": Channel(power_rule="backoff", fading="rayleigh")}, None),
    ],
)
def test_a_bound_on_one_inference_is_no_lower_end(changes, truth):
    changes = dict(changes)
    if "devices" in changes:
        changes["devices"] = replace(TWELVE.devices, participation=changes["devices"])
    claim = Claim(neighbours=changes.pop("neighbours", "zero-out"))
    report = guarantee(replace(TWELVE, **changes), claim)
    assert truth is None or report.worst > 1.05 * truth
    assert report.epsilon_at_least is None


def test_a_slack_beyond_delta_is_no_lower_end():
    # Errors of one in a million: the truth is that of known channels to five digits, 1.79.
    network = replace(TWELVE, channel=Channel(csi_error_std=1e-6))
    truth = float(gaussian.epsilon(1 / np.sqrt(12) / 12 / 0.09, 1e-12)) * 1.001
    report = guarantee(network, Claim(delta=1e-12))
    assert report.epsilon_lower is not None
    assert np.all(report.epsilon_lower <= truth)
    assert report.worst >= truth


def test_a_delta_below_the_slack_of_a_grid_costs_no_more_than_own_noise():
    rng = np.random.default_rng(0)
    columns = {"weight": (0.001, 0.02), "noise_std": (0.05, 0.1), "participation": (0.1, 0.9)}
    devices = Devices(count=60, **{name: tuple(rng.uniform(*ends, 60)) for name, ends in columns.items()})
    network = Network(devices=devices)
    report = guarantee(network, Claim(delta=1e-14))
    assert np.all(report.epsilon <= report.epsilon_local)
    assert report.epsilon_lower is not None
    assert np.all(report.epsilon_lower <= 1.2 * guarantee(network, Claim(delta=1e-12)).epsilon)


def test_an_epsilon_out_of_reach_is_not_proven_to_be_infinite():
    # An energy detector over 10⁷ coordinates: ε is about 20,000, more than is resolved.
    report = guarantee(replace(TWELVE, dimension=10**7), Claim(neighbours="remove"))
    assert np.isinf(report.worst)
    assert report.epsilon_at_least is not None
    assert np.all(np.isfinite(report.epsilon_at_least))


@pytest.mark.parametrize("channel", [Channel(fading="rayleigh"), Channel(csi_error_std=0.05, power_rule="backoff")])
def test_streams_of_scores_over_a_channel_that_varies_have_no_lower_end(channel):
    assert guarantee(replace(DECIDED, channel=channel), Claim(inferences=3)).epsilon_at_least is None
