"""The measurements of an audit: sound on honest networks of every kind, and each planted fault is named."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from airpool.evaluation.audit.claims import (
    chance_correlation,
    chance_distance,
    distance_from_normal,
    enough,
    least_mean,
    measure,
    rate,
    std_limits,
)
from airpool.evaluation.audit.path import path
from airpool.network import Network
from airpool.radio.link import link_of
from studies.audit_faults import FAULTS, NETWORK, noticed

from .honest import honest

# --- limits ---


def test_limits_of_a_standard_deviation_are_those_of_chi_square():
    low, high = std_limits(7.0, 20, error=0.01)
    assert (low, high) == pytest.approx((np.sqrt(7 / stats.chi2.isf(0.01, 20)), np.sqrt(7 / stats.chi2.ppf(0.01, 20))))
    assert std_limits(0.0, 0, error=0.01) == (0.0, np.inf)
    assert std_limits(0.0, 5, error=0.01) == (0.0, 0.0)


def test_limits_of_a_mean_and_a_correlation_are_those_of_student():
    values = np.random.default_rng(0).normal(3.0, 2.0, 12)
    low = stats.ttest_1samp(values, 0.0).confidence_interval(0.98).low
    assert least_mean(values, error=0.01) == pytest.approx(low)
    # The correlation of Gaussians with means removed has one degree of freedom less than that without.
    r = chance_correlation(30, error=0.01)
    assert 2 * stats.t.sf(r * np.sqrt(29 / (1 - r**2)), 29) == pytest.approx(0.01)


def test_the_distance_from_a_gaussian_is_kolmogorovs_and_its_limit_never_below_the_exact_one():
    values = np.random.default_rng(1).standard_normal(500)
    assert distance_from_normal(values) == pytest.approx(stats.kstest(values, "norm").statistic)
    for n in (3, 30, 3_000):
        for error in (1e-6, 1e-3, 0.2):
            assert chance_distance(n, error=error) >= min(1.0, stats.kstwo.isf(error, n))


# --- sound ---


def false_alarms(number: int, *, runs: int, confidence: float) -> int:
    found = 0
    for seed in range(number):
        outcomes = measure(honest(seed)[0], runs=runs, rng=np.random.default_rng(seed), confidence=confidence)
        found += any(outcome.contradicted for outcome in outcomes)
    return found


def test_a_few_honest_networks_are_not_contradicted():
    # With an error of 1 in 2 rather than 1 in 20: a limit that is too tight shows.
    assert false_alarms(16, runs=40, confidence=0.5) <= stats.binom.isf(1e-3, 16, 0.5)


@pytest.mark.check
@pytest.mark.parametrize("confidence", [0.95, 0.5])
def test_over_200_honest_networks_false_alarms_stay_within_the_stated_rate(confidence):
    assert false_alarms(200, runs=40, confidence=confidence) <= stats.binom.isf(1e-3, 200, 1 - confidence)


def test_more_noise_than_claimed_is_no_fault_of_own_noise():
    louder = replace(NETWORK, devices=replace(NETWORK.devices, noise_std=0.3))
    played = path(louder, link=link_of(NETWORK))
    found = measure(NETWORK, runs=100, rng=np.random.default_rng(0), played=played)
    assert not [each for each in found if each.contradicted and each.claim == "own noise"]


# --- sharp ---

# The claim that is contradicted, in the order of FAULTS; all devices, or those named.
NAMED = [
    ("own noise", {0}),
    ("own noise", {0}),
    ("own noise", set(range(6))),
    ("own noise", {5}),
    ("own noise", {3, 4, 5}),
    ("clip", set(range(6))),
    ("clip", set(range(6))),
    ("law of own noise", set(range(6))),
    ("own noise", set(range(6))),
    ("own noise, independent of the next coordinate", set(range(6))),
    ("own noise, independent of other devices", {0, 1}),
    ("own noise, independent of other devices", set(range(6))),
    ("own noise, independent of the next call", set(range(6))),
    ("participation", set(range(6))),
    ("participation", set(range(6))),
    ("participation when device 3 takes part", {2}),
    ("how often power suffices", set(range(6))),
    ("what it holds beside all signals (receiver noise)", {None}),
    ("what it holds beside all signals (receiver noise)", {None}),
    ("how often power suffices", set(range(6))),
    ("score noise", set(range(6))),
    ("bound of the score", set(range(6))),
]


@pytest.mark.parametrize(
    ("fault", "named"), list(zip(FAULTS, NAMED, strict=True)), ids=[fault.what for fault in FAULTS]
)
def test_a_planted_fault_is_named(fault, named):
    with fault.plant():
        found = measure(fault.network, runs=1_000, rng=np.random.default_rng(0), confidence=0.999)
    claim, devices = named
    assert {each.device for each in found if each.contradicted and each.claim == claim} == devices


@pytest.mark.parametrize("fading", ["none", "rician", "rayleigh", "nakagami:m=2", "log-normal:std_db=4"])
@pytest.mark.parametrize("cover_noise", [False, True])
def test_an_outage_other_than_claimed_shows_under_every_law(fading, cover_noise):
    net = replace(NETWORK, channel=replace(NETWORK.channel, fading=fading), cover_noise=cover_noise)
    rates = [claim for claim in measured(net) if claim.claim == "how often power suffices"]
    assert len(rates) == 12  # of six devices, in two worlds
    assert not any(each.contradicted for each in measured(net))
    if fading == "none":
        return
    worse = path(replace(net, channel=replace(net.channel, outage=0.2)))
    found = measured(net, worse)
    named = {each.device for each in found if each.contradicted and each.claim == "how often power suffices"}
    assert named == set(range(6))


def measured(net, played=None):
    return measure(net, runs=1_000, rng=np.random.default_rng(0), confidence=0.999, played=played)


def test_a_claim_from_a_sample_has_limits_of_its_own():
    """Of the laws of Sionna: a threshold with an outage of 1 % in 16,384 draws, and many more runs than that."""
    rng, draws, runs, error = np.random.default_rng(0), 2**14, 10**6, 0.1
    sharp = wide = 0
    for _ in range(100):
        outage = rng.beta(0.01 * draws, 0.99 * draws)  # what is below the hundredth quantile of the draws
        arrived = np.arange(runs) >= rng.binomial(runs, outage)
        sharp += rate("power", 0, arrived, 0.99)(error).contradicted
        wide += rate("power", 0, arrived, 0.99, claimed_from=draws)(error).contradicted
    assert sharp > 50
    assert wide <= stats.binom.isf(1e-3, 100, error)
    assert rate("power", 0, np.arange(runs) >= 0.02 * runs, 0.99, claimed_from=draws)(1e-6).contradicted


@pytest.mark.parametrize("what", ["own σ halved, one device", "three of five others without noise"])
def test_what_the_game_missed_shows_in_eight_runs(what):
    (fault,) = (each for each in FAULTS if each.what == what)
    with fault.plant():
        assert all(noticed(fault.network, 8, seed) for seed in range(20))


def test_missing_noise_shows_beneath_a_louder_receiver():
    loud = replace(NETWORK, channel=replace(NETWORK.channel, noise_std=100.0))
    (fault,) = (each for each in FAULTS if each.what == "own σ halved, one device")
    with fault.plant():
        assert noticed(loud, 16, 0)


# --- what is said ---


def test_an_outcome_says_which_claim_and_by_how_much():
    with FAULTS[0].plant():
        found = measure(NETWORK, runs=500, rng=np.random.default_rng(0))
    own, across = (each for each in found if each.contradicted and each.claim == "own noise")  # in both worlds
    assert own.high < 0.08
    assert across.high < 0.08
    assert (own.world, across.world) == ("no feature", "long feature")
    assert str(own).startswith("device 0, own noise (no feature): standard deviation 0.07")
    assert "claimed 0.15; at most 0.07" in str(own)
    assert "CONTRADICTED (local ε, and ε in the sum)" in str(own)
    assert json.loads(json.dumps(own.to_json()))["contradicted"] is True
    fine = next(each for each in found if each.device == 1)
    assert str(fine).endswith("claimed 0.15; not contradicted")


def test_runs_are_as_many_as_tell_something_and_no_more_than_that():
    small, large = Network.uniform(num_devices=2, dimension=1), Network.uniform(num_devices=1_000, dimension=784)
    assert (enough(small, 100), enough(small, 10**6), enough(large, 10**6)) == (100, 10**6, 200)
    with pytest.raises(ValueError, match="runs=3 must be at least 4"):
        measure(small, runs=3, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="confidence=1 must be"):
        measure(small, runs=8, rng=np.random.default_rng(0), confidence=1)


def test_the_table_of_the_docs_holds_what_was_measured():
    root = Path(__file__).parents[4] / "docs"
    made = (root / "figures" / "audit-faults.csv").read_text("utf-8").splitlines()[1:]
    text = (root / "theory" / "guarantee.md").read_text("utf-8").replace(",", "")
    rows = list(csv.reader(made))[1:]
    assert [row[0] for row in rows] == [fault.what for fault in FAULTS]
    for row in rows:
        assert f"| {' | '.join(row)} |".replace(",", "") in text
