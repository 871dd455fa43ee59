"""The server as matrices: against loops and torch, and the linear one against its formula and its rivals."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from airpool_lab.theory.server import LayeredServer, bounded_scores, class_labels, gaps, linear_server, scores
from tests.random_servers import random_server, servers


def test_scores_are_those_of_plain_loops():
    rng = np.random.default_rng(0)
    server = random_server(rng, 3, 4, 5, 2)
    for x in rng.standard_normal((20, 3)):
        h = x
        for number, (A, b) in enumerate(server.layers):
            h = [sum(A[i, j] * h[j] for j in range(len(h))) + b[i] for i in range(len(b))]
            if number < len(server.layers) - 1:
                h = [max(value, 0.0) for value in h]
        assert scores(server, x) == pytest.approx(h, abs=1e-12)


@given(server=servers())
def test_scores_are_those_of_torch(server):
    modules = []
    for A, b in server.layers:
        linear = torch.nn.Linear(A.shape[1], A.shape[0], dtype=torch.float64)
        linear.load_state_dict({"weight": torch.from_numpy(A), "bias": torch.from_numpy(b)})
        modules += [linear, torch.nn.ReLU()]
    x = np.random.default_rng(1).standard_normal((2, 7, server.dimension))
    with torch.no_grad():
        expected = torch.nn.Sequential(*modules[:-1])(torch.from_numpy(x)).numpy()
    assert scores(server, x) == pytest.approx(expected, abs=1e-12)
    assert (server.dimension, server.num_classes) == (server.matrices[0].shape[1], server.matrices[-1].shape[0])


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((), "layers is empty"),
        (((np.eye(2), np.zeros(3)),), r"layer 1 has shapes \(2, 2\) and \(3,\), must be \(out, in\) and \(out,\)"),
        (((np.zeros(2), np.zeros(2)),), r"layer 1 has shapes \(2,\)"),
        (((np.eye(2), np.zeros(2)), (np.eye(3), np.zeros(3))), r"layer 2 .* must be \(out, 2\) and \(out,\)"),
        (((np.full((1, 1), np.nan), np.zeros(1)),), r"matrix 1\[0, 0\]=nan must be finite"),
        (((np.eye(1), np.full(1, np.inf)),), r"bias 1\[0\]=inf must be finite"),
    ],
)
def test_layers_that_do_not_fit_are_refused(layers, message):
    with pytest.raises(ValueError, match=message):
        LayeredServer(layers)


def test_points_of_another_dimension_are_refused():
    with pytest.raises(ValueError, match=r"x has shape \(5, 3\), must be \(..., 2\)"):
        scores(LayeredServer(((np.eye(2), np.zeros(2)),)), np.zeros((5, 3)))


def test_gaps_compare_the_own_class_with_every_other():
    table = np.random.default_rng(2).standard_normal((6, 4))
    own = [0, 1, 2, 3, 0, 1]
    found = gaps(table.copy(), own)
    for i, label in enumerate(own):
        for j in range(4):
            assert found[i, j] == (np.inf if j == label else table[i, label] - table[i, j])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], r"labels has shape \(2,\), must be \(3,\)"),
        ([0, 1, 3], "labels run from 0 to 3, must be from 0 to 2"),
        ([-1, 1, 2], "labels run from -1 to 2"),
        ([0.0, 1.0, 2.0], "labels has type float64, must be whole numbers"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        class_labels(labels, count=3, num_classes=3)


# The linear server


def gaussian_classes(rng, count, *, classes=4, dimension=3):
    """Examples of classes with one covariance and unequal shares, and what they were drawn from."""
    shares = np.arange(1, classes + 1) / np.sum(np.arange(1, classes + 1))
    means = 1.5 * np.random.default_rng(7).standard_normal((classes, dimension))
    mix = np.random.default_rng(8).standard_normal((dimension, dimension)) / dimension**0.5
    y = rng.choice(classes, size=count, p=shares)
    return means[y] + rng.standard_normal((count, dimension)) @ mix.T, y


def test_the_linear_server_is_its_formula():
    x, y = gaussian_classes(np.random.default_rng(0), 200)
    server = linear_server(x, y, noise_std=0.3, num_classes=4)
    within = np.zeros((3, 3))
    for point, label in zip(x, y, strict=True):
        away = point - x[y == label].mean(axis=0)
        within += np.outer(away, away) / len(x)
    inverse = np.linalg.inv(within + 0.09 * np.eye(3))
    (A, b) = server.layers[0]
    for c in range(4):
        mean = x[y == c].mean(axis=0)
        assert A[c] == pytest.approx(inverse @ mean)
        assert b[c] == pytest.approx(-0.5 * mean @ inverse @ mean + np.log(np.mean(y == c)))


def test_no_linear_server_does_better_on_gaussian_classes():
    rng = np.random.default_rng(3)
    noise = 0.5
    clean, y = gaussian_classes(rng, 20_000)
    best = linear_server(clean, y, noise_std=noise, num_classes=4)
    seen, own = gaussian_classes(rng, 40_000)
    seen = seen + noise * rng.standard_normal(seen.shape)
    right = np.argmax(scores(best, seen), axis=1) == own
    (A, b) = best.layers[0]
    no_priors = b - np.log(np.bincount(y, minlength=4) / len(y))
    rivals = [
        linear_server(clean, y, noise_std=1e-3, num_classes=4),  # does not expect the noise
        linear_server(clean, y, noise_std=50.0, num_classes=4),  # expects nothing but noise
        LayeredServer(((A, no_priors),)),
        *(
            LayeredServer(((A + s * rng.standard_normal(A.shape), b + s * rng.standard_normal(4)),))
            for s in (0.1, 0.3, 1, 3)
        ),
        *(random_server(rng, 3, 4) for _ in range(20)),
    ]
    for rival in rivals:
        ahead = right.astype(float) - (np.argmax(scores(rival, seen), axis=1) == own)
        assert ahead.mean() >= -4 * ahead.std() / len(ahead) ** 0.5 - 1 / len(ahead)
    worse = np.argmax(scores(rivals[1], seen), axis=1) == own
    assert right.mean() > worse.mean() + 0.05


@pytest.mark.parametrize("noise_std", [1e-6, 1e-3, 0.1, 10.0])
def test_a_class_without_examples_is_never_named(noise_std):
    """A fixed low score is not enough: with little noise all others fall below it between the classes."""
    server = linear_server([[1.0], [1.0], [-1.0], [-1.0]], [0, 0, 3, 3], noise_std=noise_std, num_classes=4)
    named = np.argmax(scores(server, np.linspace(-100, 100, 4001)[:, None]), axis=1)
    assert set(named) == {0, 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latents": [1.0, 2.0]}, r"latents has shape \(2,\), must be \(n, r\), n ≥ 1"),
        ({"latents": np.zeros((0, 1)), "labels": []}, r"latents has shape \(0, 1\)"),
        ({"latents": [[1.0], [np.nan]]}, "must be finite"),
        ({"labels": [0]}, r"labels has shape \(1,\), must be \(2,\)"),
        ({"labels": [0, 2]}, "labels run from 0 to 2, must be from 0 to 1"),
        ({"noise_std": 0.0}, "noise_std=0.0 must be > 0"),
        ({"noise_std": float("inf")}, "noise_std=inf must be > 0 and finite"),
        ({"noise_std": float("nan")}, "noise_std=nan must be > 0"),
    ],
)
def test_a_linear_server_cannot_be_made_of_that(change, message):
    good = {"latents": [[1.0], [-1.0]], "labels": [0, 1], "noise_std": 0.1}
    given_all = {**good, **change}
    with pytest.raises(ValueError, match=message):
        linear_server(given_all["latents"], given_all["labels"], noise_std=given_all["noise_std"], num_classes=2)


# Rounding


def exactly(server, x):
    """Scores of one point in rational numbers."""
    h = [Fraction(v) for v in x.tolist()]
    for layer, (A, b) in enumerate(server.layers, start=1):
        rows = zip(A.tolist(), b.tolist(), strict=True)
        h = [sum((Fraction(a) * v for a, v in zip(row, h, strict=True)), Fraction(c)) for row, c in rows]
        h = [max(v, Fraction(0)) for v in h] if layer < len(server.layers) else h
    return h


@given(servers(dimension=(1, 40), hidden=(1, 20)), st.integers(0, 2**32 - 1), st.integers(-300, 200))
def test_scores_are_within_their_error_of_the_exact_ones(server, seed, exponent):
    """Also where products underflow, or one layer is huge and the next small."""
    rng = np.random.default_rng(seed)
    spread = 10.0 ** rng.integers(-40, 40, len(server.layers))
    server = LayeredServer(tuple((A * size, b) for (A, b), size in zip(server.layers, spread, strict=True)))
    x = rng.standard_normal((3, server.dimension)) * 10.0**exponent
    found, error = bounded_scores(server, x)
    assert found.tolist() == scores(server, x).tolist()
    for point, computed, most in zip(x, found.tolist(), error.tolist(), strict=True):
        for value, bound, exact in zip(computed, most, exactly(server, point), strict=True):
            assert not math.isfinite(bound) or abs(Fraction(value) - exact) <= Fraction(bound)


@given(servers(dimension=(1, 40), hidden=(1, 20)), st.integers(0, 2**32 - 1))
def test_the_error_covers_points_that_are_off_and_is_small_otherwise(server, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, server.dimension))
    off = 1e-3 * rng.random(x.shape)
    found, error = bounded_scores(server, x, x_error=off)
    assert np.all(np.abs(scores(server, x + off * rng.uniform(-1, 1, x.shape)) - found) <= error)
    assert np.all(bounded_scores(server, x)[1] <= 1e-12 * (1 + np.max(np.abs(found)) + 40**1.5))


@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_gaps_less_their_error_are_never_above_the_exact_ones(dimension, seed):
    rng = np.random.default_rng(seed)
    server = random_server(rng, dimension, 3)
    server = LayeredServer(((np.concatenate((server.matrices[0], server.matrices[0][:1])), rng.standard_normal(4)),))
    x, own = rng.standard_normal((4, dimension)), [0, 1, 2, 3]
    found, error = bounded_scores(server, x)
    low, high = gaps(found, own, error), gaps(found, own, -error)
    for i, label in enumerate(own):
        s = exactly(server, x[i])
        for j in set(range(4)) - {label}:
            assert Fraction(low[i, j]) <= s[label] - s[j] <= Fraction(high[i, j])


def test_scores_that_overflow_have_no_error_that_is_finite():
    server = LayeredServer(
        ((np.full((2, 2), 1e200), np.zeros(2)), (np.array([[1e200, 0.0], [0.0, -1e200]]), np.zeros(2)))
    )
    _, error = bounded_scores(server, [[1.0, 1.0]])
    assert not np.any(np.isfinite(error))
