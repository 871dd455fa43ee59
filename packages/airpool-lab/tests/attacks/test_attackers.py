"""Attackers against answers that are known: Gaussians, and the posterior by brute force."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from airpool_lab.attacks import attackers

HALF = np.array([0.5, 0.5])


def two_gaussians(n, rng, apart=2.0, d=5):
    values = rng.integers(2, size=n)
    x = rng.standard_normal((n, d))
    x[:, 1] += apart * values
    return x, values


@pytest.mark.parametrize("name", ["a linear classifier", "a small network", "the likelihood"])
def test_every_attacker_comes_close_to_the_best_test_of_two_gaussians(name):
    rng = np.random.default_rng(0)
    gallery = np.zeros((2, 5)), np.array([0, 1])
    gallery[0][1, 1] = 2.0
    attacker = attackers.all_of(*two_gaussians(8000, rng), HALF, seed=0, gallery=gallery, only=name)[name]
    x, values = two_gaussians(20_000, rng)
    rate = np.mean(attacker(x, np.ones(len(x))).argmax(1) == values)
    error = (0.84 * 0.16 / 20_000) ** 0.5
    assert norm.cdf(1) - 0.015 - 4 * error < rate < norm.cdf(1) + 4 * error


def test_the_likelihood_is_the_posterior_of_the_gallery():
    rng = np.random.default_rng(1)
    gallery, values, prior = rng.standard_normal((30, 4)), rng.integers(3, size=30), np.array([0.2, 0.5, 0.3])
    seen, std = rng.standard_normal((6, 4)), rng.uniform(0.3, 2.0, 6)
    logs = -np.sum((seen[:, None] - gallery) ** 2, axis=-1) / (2 * std[:, None] ** 2)
    logs += np.log(prior[values] / np.bincount(values)[values])
    wanted = np.stack([logsumexp(logs[:, values == c], axis=1) for c in range(3)], axis=1)
    wanted -= logsumexp(wanted, axis=1, keepdims=True)
    assert np.allclose(attackers.likelihood(gallery, values, prior)(seen, std), wanted, atol=1e-9)


def test_without_noise_the_likelihood_is_the_nearest_neighbour():
    rng = np.random.default_rng(2)
    gallery, values = rng.standard_normal((50, 3)), rng.integers(4, size=50)
    scores = attackers.likelihood(gallery, values, np.full(4, 0.25))(gallery, np.zeros(50))
    assert np.array_equal(scores.argmax(1), values)


def test_a_secret_that_the_gallery_lacks_is_never_guessed():
    scores = attackers.likelihood(np.eye(2), np.array([0, 2]), np.full(3, 1 / 3))(np.zeros((1, 2)), np.ones(1))
    assert np.isneginf(scores[0, 1])


def test_attackers_expect_the_prior_that_they_are_given():
    rng = np.random.default_rng(3)
    x, values = two_gaussians(8000, rng, apart=0.0)
    for name, attacker in attackers.all_of(x, values, np.array([0.9, 0.1]), seed=0).items():
        assert np.mean(attacker(x, np.ones(len(x))).argmax(1) == 0) > 0.99, name


def test_the_nearest_candidate_is_the_most_likely():
    candidates = np.array([[[1.0, 0.0], [0.0, 3.0]]])
    assert attackers.nearest(np.array([[1.0, 1.0]]), candidates).tolist() == [0]
    assert attackers.nearest(np.array([[0.0, 2.0]]), candidates).tolist() == [1]
