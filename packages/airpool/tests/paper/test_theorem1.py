"""The paper's Theorem 1 and its lemma, as printed: the values they claim, and that they are not bounds."""

from math import exp, log, sqrt

import numpy as np
import pytest

from airpool.account.theorem1 import claim, slack
from airpool.privacy.device import Aggregate, delta, epsilon
from airpool.schemes.threshold import participation
from airpool_lab.paper.formulas import theorem3

PAPER = {"weight": [1 / 12] * 12, "clip_norm": 100, "noise_std": sqrt(0.1), "participation": 0.9, "delta": 1e-5}


@pytest.mark.parametrize(
    ("tail", "expected", "t"),
    [
        ("statement", np.inf, 1.349006361),
        ("appendix", 108.6302224, 0.9421372731),
        ("quadratic", 59.39744156, 0.6196210387),
        ("bernstein", 300.8016158, 1.061997796),
    ],
)
def test_the_papers_defaults_have_the_reference_values_in_all_four_forms(tail, expected, t):
    found = claim(**PAPER, tail=tail)
    assert found.slack == pytest.approx(t, rel=1e-9)
    assert found.epsilon == pytest.approx(np.full(12, expected), rel=1e-9)
    assert found.tail == tail


def test_an_undefined_claim_is_infinite_and_says_why():
    found = claim(**PAPER, tail="statement")
    assert found.reason == "undefined: the mean noise 1.080 is below the slack t = 1.349"
    assert claim(**PAPER).reason is None


def test_without_noise_the_claim_is_undefined():
    found = claim(**{**PAPER, "noise_std": 0.0})
    assert (found.epsilon == np.inf).all()
    assert found.reason is not None


def test_the_claim_is_the_printed_formula():
    p, std, weight, clip_norm = np.array([0.9, 0.5, 1.0]), np.array([0.8, 1.1, 0.9]), np.full(3, 0.3), 1.5
    found = claim(weight=2.0 * weight, clip_norm=clip_norm, noise_std=std, participation=p, delta=1e-2, delta_prime=0.3)
    L, M, V = log(2 / 0.3), 1.1**2, sum(q * (1 - q) * s**4 for q, s in zip(p, std, strict=True))
    t = L / 2 * (M / 3 + sqrt(M**2 / 9 + 4 * V / L))
    mean = sum(q * s**2 for q, s in zip(p, std, strict=True))
    assert mean > t
    for k in range(3):
        c = 2.0 * 0.3 * 1.5 * sqrt(2 * log(1.25 / 1e-2))
        assert found.epsilon[k] == pytest.approx(log(1 + p[k] / 0.7 * (exp(c / sqrt(mean - t)) - 1)), rel=1e-12)
        assert found.delta[k] == pytest.approx(0.3 + p[k] * 1e-2 / 0.7, rel=1e-12)


def test_delta_prime_is_delta_where_it_is_not_given():
    assert claim(**PAPER).delta == pytest.approx(np.full(12, 1e-5 + 0.9 * 1e-5 / (1 - 1e-5)), rel=1e-12)


def test_a_claim_of_thousands_does_not_overflow():
    found = claim(**{**PAPER, "clip_norm": 1e6})
    assert np.isfinite(found.epsilon).all()
    assert found.epsilon[0] == pytest.approx(59.4974 * 1e4, rel=1e-3)


def test_a_device_that_never_takes_part_is_claimed_to_leak_nothing():
    found = claim(**{**PAPER, "participation": [0.0] + [0.9] * 11})
    assert found.epsilon[0] == 0
    assert found.epsilon[1] > 0


def test_an_unknown_tail_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="tail='heavy' must be one of quadratic, appendix, statement, bernstein"):
        slack(np.ones(2), np.ones(2), 1e-5, "heavy")  # pyright: ignore[reportArgumentType]


def test_at_the_papers_defaults_the_claim_is_below_the_truth():
    net = Aggregate(np.full(12, 100 / 12), np.full(12, 0.1), np.full(12, 0.9))
    claimed = claim(**PAPER)
    assert epsilon(net, 1e-5).upper[0] > claimed.epsilon[0] + 20
    assert delta(net, claimed.epsilon[0])[0] > 80 * claimed.delta[0]


def test_where_the_papers_figures_lie_the_claim_is_loose():
    std = 3.0
    net = Aggregate(np.full(12, 100 / 12), np.full(12, std**2), np.full(12, 0.9))
    claimed = float(claim(**{**PAPER, "noise_std": std}).epsilon[0])
    assert claimed < 10
    assert epsilon(net, 1e-5).upper[0] < claimed


# The lemma and Table 1


@pytest.mark.parametrize(("score", "threshold", "expected"), [(0.758, 0.5, 0.2641), (0.740, 0.3, 0.1134)])
def test_table_1_is_reproduced_by_the_formula_behind_it(score, threshold, expected):
    p = participation(score, threshold=threshold, score_noise_std=sqrt(0.1))
    assert theorem3.score_epsilon(p) == pytest.approx(expected, abs=1e-3)


def test_scheme_2_2_has_the_full_epsilon_of_the_scores():
    assert theorem3.score_epsilon(1.0) == pytest.approx(0.9)
