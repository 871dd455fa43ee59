"""Removal refutes Theorem 1 by attack, and cover noise with zero-out does not; energy tells who took part."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2
from studies.energy_detection import CHANCE, measured
from studies.paper_refuted import (
    CLAIMS,
    CLIP,
    DEVICES,
    attacked,
    claim,
    likelihood_ratio,
    network,
    noise_for,
    received,
    table,
)
from studies.tables import RESULTS, rows

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("epsilon", CLAIMS)
def test_theorem_1_claims_this_much_at_this_noise(epsilon):
    assert claim(noise_for(epsilon)).epsilon[0] == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("cover", [False, True])
def test_the_score_is_the_likelihood_ratio_of_what_is_received(cover):
    # E_Q[L; L < c] = P(L < c) for the true ratio L alone.
    std, dimension, runs, rng = noise_for(3.98), 24, 4000, np.random.default_rng(0)
    features = np.zeros((DEVICES, dimension))
    features[0] = CLIP / dimension**0.5
    score = likelihood_ratio(std, cover=cover, dimension=dimension)
    with_it = network(std, cover=cover, dimension=dimension)
    without = network(std, count=DEVICES - (not cover), cover=cover, dimension=dimension)
    here = score(received(with_it, features, runs, rng))
    there = score(received(without, 0 * features[: without.devices.count], runs, rng))
    for cut in (-0.1, 0.1, 0.5):
        weighed = np.where(there < cut, np.exp(np.minimum(there, cut)), 0.0)
        error = np.hypot(weighed.std(), 0.5) / runs**0.5
        assert weighed.mean() == pytest.approx(np.mean(here < cut), abs=4.5 * error)


def test_removal_refutes_a_claim_of_1_and_cover_noise_does_not():
    open_air = attacked(seed=0, claimed=1.0, protection="none", runs=3000)
    assert open_air["likelihood"] > 1.0
    assert open_air["energy"] > 1.0
    covered = attacked(seed=0, claimed=1.0, protection="cover", runs=1000)
    assert max(covered["likelihood"], covered["energy"]) < covered["exact"] < 1.0


def test_the_study_refutes_every_claim_and_the_docs_print_it():
    for row in rows(RESULTS / "paper-refuted.json"):
        shown = max(row["energy"], row["likelihood"])
        assert shown > row["claimed"] if row["protection"] == "none" else shown < row["exact"] < row["claimed"]
        assert shown < row["exact"]
    page = (DOCS / "theory" / "guarantee.md").read_text("utf-8").splitlines()
    assert [line for line in table() if line not in page] == []


def test_energy_tells_one_device_of_twelve_as_two_chi_squares_differ():
    r, runs, std = 300, 1500, noise_for(2.0)
    # 11σ²χ² and 12σ²χ², each moved by features of length (wC)² a device: their densities cross once.
    grid = np.linspace(5, 20, 20_001) * r * std**2
    signal = (CLIP / DEVICES) ** 2
    below = [chi2.cdf((grid - m * signal) / (m * std**2), r) for m in (11, 12)]
    best = 0.5 + np.max(below[0] - below[1]) / 2
    found = measured(seed=0, question="device, others known", dimension=r, cover=False, runs=runs)
    assert found["accuracy"] == pytest.approx(best, abs=4.5 * 0.5 / runs**0.5)
    covered = measured(seed=0, question="device, others known", dimension=r, cover=True, runs=runs)
    assert covered["accuracy"] == pytest.approx(0.5, abs=0.02 + 4.5 * 0.5 / runs**0.5)


def test_more_dimensions_tell_more_and_cover_noise_hides_it():
    for question in CHANCE:
        seen, hidden = (rows(RESULTS / "energy-detection.json", question=question, cover=c) for c in (False, True))
        assert seen[-1]["accuracy"] > seen[0]["accuracy"] + 0.1
        at_most = np.array([row["accuracy"] for row in hidden])
        assert np.all(at_most < CHANCE[question] + 0.06)
