"""Margins: exact where that is possible, from below never above from above, and never below the paper's lemma."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from airpool_lab.paper.formulas.theorem2 import accuracy_bound, frobenius_margin
from airpool_lab.theory.prediction import lipschitz_constants, margin, spectral_constants
from airpool_lab.theory.server import LayeredServer, bounded_scores, gaps, scores
from studies.attack import attack
from tests.random_servers import random_server, servers

SEEDS = st.integers(0, 2**32 - 1)


def points(server, seed, count=20):
    """Points, and the labels that the server gives them."""
    x = 2 * np.random.default_rng(seed).standard_normal((count, server.dimension))
    return x, np.argmax(scores(server, x), axis=1)


def sharp(server):
    return lipschitz_constants(server) if len(server.layers) <= 2 else None


def wrong(server, x, labels):
    """A tie counts as lost."""
    return np.min(gaps(scores(server, x), labels), axis=-1) <= 0


# Exact answers


@given(server=servers(layers=(1,)), seed=SEEDS)
def test_the_margin_of_a_linear_server_is_the_distance_to_the_nearest_border(server, seed):
    x, own = points(server, seed)
    (A, b) = server.layers[0]
    for point, label, found in zip(x, own, margin(server, x, own), strict=True):
        nearest = np.inf
        for j in range(server.num_classes):
            away = A[label] - A[j]
            if j == label or not np.any(away):
                continue
            border = point - away * (away @ point + b[label] - b[j]) / (away @ away)
            assert away @ border + b[label] - b[j] == pytest.approx(0.0, abs=1e-9)
            nearest = min(nearest, np.linalg.norm(border - point))
        assert found == pytest.approx(nearest, rel=1e-9, abs=1e-12)


@given(server=servers(layers=(1,)), seed=SEEDS)
def test_the_attack_on_a_linear_server_finds_the_border(server, seed):
    x, own = points(server, seed)
    exact = margin(server, x, own)
    assume(np.all(exact > 1e-6))
    found = attack(server, x, own)
    assert np.array_equal(np.isinf(found), np.isinf(exact))
    reached = np.isfinite(exact)
    assert found[reached] == pytest.approx(exact[reached], rel=3e-6)


def nearest_change(server, x, label):
    """Of a server with one hidden layer on a line: the exact distance to the nearest point where the label is lost.

    Between the points where a unit turns on or off every gap is a straight line.
    """
    (A, b), _ = server.layers
    turns = -b[A[:, 0] != 0] / A[A[:, 0] != 0, 0]
    knots = np.unique(np.concatenate((turns, [x], [turns.min(initial=x) - 1e4, turns.max(initial=x) + 1e4])))
    away = gaps(scores(server, knots[:, None]), np.full(len(knots), label))
    nearest = np.inf
    for left, right, low, high in zip(knots, knots[1:], away, away[1:], strict=False):
        for j in np.flatnonzero(np.isfinite(low)):
            if low[j] <= 0:
                nearest = min(nearest, abs(left - x))
            if high[j] <= 0:
                nearest = min(nearest, abs(right - x))
            if low[j] * high[j] < 0:
                nearest = min(nearest, abs(left + (right - left) * low[j] / (low[j] - high[j]) - x))
    return nearest


@settings(max_examples=60)
@given(server=servers(layers=(2,), dimension=(1, 1)), seed=SEEDS)
def test_on_a_line_the_true_margin_lies_between_the_two_bounds(server, seed):
    x, own = points(server, seed, count=8)
    low, high = margin(server, x, own, constants=sharp(server)), attack(server, x, own)
    for point, label, below, above in zip(x[:, 0], own, low, high, strict=True):
        true = nearest_change(server, point, label)
        assert below <= true * (1 + 1e-9) + 1e-12
        assert true <= above * (1 + 1e-6) + 1e-9


@settings(max_examples=60)
@given(server=servers(dimension=(1, 1)), seed=SEEDS)
def test_what_the_attack_returns_is_the_distance_of_a_point_that_is_misnamed(server, seed):
    x, own = points(server, seed)
    reach = attack(server, x, own)
    found = np.isfinite(reach)
    x, own, reach = x[found], own[found], reach[found][:, None]
    # On a line there are two points at that distance; a hair further for the rounding of x ± reach.
    tried = [x + side * reach * (1 + hair) for side in (-1, 1) for hair in (0.0, 1e-12, 1e-9)]
    assert np.all(np.any([wrong(server, each, own) for each in tried], axis=0))


@given(seed=SEEDS, size=st.integers(-150, 150), ulps=st.integers(0, 3), dimension=st.integers(1, 30))
def test_the_margin_of_a_linear_server_is_never_above_the_exact_one(seed, size, ulps, dimension):
    """In rational numbers, also for rows that are a last bit apart."""
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((4, dimension)) * 10.0**size, np.array([0.0, 1.0, 0.0, 0.0]) * 10.0**size
    A[3] = A[0] + ulps * np.spacing(A[0])
    x, own = rng.standard_normal((8, dimension)), rng.integers(0, 4, 8)
    for point, label, found in zip(x.tolist(), own, margin(LayeredServer(((A, b),)), x, own), strict=True):
        for j in set(range(4)) - {label}:
            apart = [Fraction(p) - Fraction(q) for p, q in zip(A[label].tolist(), A[j].tolist(), strict=True)]
            gap = sum((d * Fraction(v) for d, v in zip(apart, point, strict=True)), Fraction(b[label]) - Fraction(b[j]))
            if found > 0:
                square = sum(d * d for d in apart)
                assert gap > 0
                assert math.isinf(found) <= (square == 0)
                assert math.isinf(found) or Fraction(found) ** 2 * square <= gap**2 * (1 + Fraction(1, 10**12))


# Laws


@given(server=servers(), seed=SEEDS)
def test_the_lower_bound_never_exceeds_the_attack(server, seed):
    x, own = points(server, seed)
    assert np.all(margin(server, x, own, constants=sharp(server)) <= attack(server, x, own) * (1 + 1e-9) + 1e-12)


@given(server=servers(), seed=SEEDS, size=st.sampled_from([0.1, 1.0, 10.0]))
def test_the_papers_lemma_is_never_above_the_spectral_margin(server, seed, size):
    *first, (A, b) = server.layers
    server = LayeredServer((*first, (size * A, size * b)))
    x, own = points(server, seed)
    printed = frobenius_margin(scores(server, x), own, matrices=server.matrices)
    spectral = margin(server, x, own)
    right = spectral > 0
    assert np.all(printed[right] <= spectral[right] * (1 + 1e-9))
    assert np.all(spectral <= margin(server, x, own, constants=sharp(server)) * (1 + 1e-9))


@given(server=servers(), seed=SEEDS)
def test_points_within_the_margin_keep_their_label(server, seed):
    x, own = points(server, seed)
    away = np.clip(margin(server, x, own, constants=sharp(server)), 0, 1e6)
    step = np.random.default_rng(seed).standard_normal((50, *x.shape))
    step *= (1 - 1e-9) * away[:, None] / np.linalg.norm(step, axis=-1, keepdims=True)
    kept = np.argmax(scores(server, x + step), axis=-1) == own
    assert np.all(kept[:, away > 0])


@given(server=servers(), seed=SEEDS)
def test_where_the_server_errs_nothing_is_left(server, seed):
    x, own = points(server, seed)
    other = (own + 1) % server.num_classes
    assert np.all(margin(server, x, other) <= 0)
    assert np.all(attack(server, x, other) == 0)


def test_the_attack_comes_close_on_a_small_network():
    """The two bounds together pin the margin down to a factor that is worth having."""
    server = random_server(np.random.default_rng(0), 4, 16, 3)
    x, own = points(server, 1, count=200)
    low, high = margin(server, x, own, constants=sharp(server)), attack(server, x, own)
    found = np.isfinite(high)
    assert found.mean() > 0.8
    assert np.median(low[found] / high[found]) > 0.25


# Edges


def test_classes_with_one_row_are_settled_by_their_bias_and_a_tie_is_lost():
    rows = np.array([[1.0, 0.0], [1.0, 0.0]])
    settled = LayeredServer(((rows, np.array([1.0, 0.0])),))
    assert margin(settled, [[0.3, 0.2]] * 2, [0, 1]).tolist() == [np.inf, -np.inf]
    assert attack(settled, [[0.3, 0.2]] * 2, [0, 1]).tolist() == [np.inf, 0.0]
    torn = LayeredServer(((rows, np.zeros(2)),))
    assert margin(torn, [[0.3, 0.2]], [0]).tolist() == [-np.inf]
    assert attack(torn, [[0.3, 0.2]], [0]).tolist() == [0.0]


def twins(seed=0):
    """Eighteen classes, the first and the last with one row, and points that are theirs."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((18, 38))
    A[17] = A[0]
    return A, 5 * A[[17]] / np.linalg.norm(A[17]) + rng.standard_normal((7, 38))


@pytest.mark.parametrize("seed", range(5))
def test_a_gap_that_rounding_made_is_not_won(seed):
    """A matrix product need not round two equal rows alike: a gap of 1e-15, and no slope."""
    A, x = twins(seed)
    for bias in (np.zeros(18), np.random.default_rng(seed).standard_normal(17)[np.arange(18) % 17]):
        linear_one = LayeredServer(((A, bias),))
        hidden = LayeredServer(((np.concatenate((np.eye(38), -np.eye(38))), np.zeros(76)), (np.hstack((A, -A)), bias)))
        deep = LayeredServer((*hidden.layers[:1], (np.eye(76), np.zeros(76)), *hidden.layers[1:]))
        for server in (linear_one, hidden, deep):
            for label in (0, 17):
                assert np.all(margin(server, x, [label] * 7) == -np.inf)
        assert np.all(margin(hidden, x, [17] * 7, constants=lipschitz_constants(hidden)) == -np.inf)


def test_a_gap_that_rounding_made_is_no_margin_of_the_lemma_either():
    A, x = twins()
    deaf = LayeredServer(((np.zeros((38, 38)), np.abs(x[0])), (A, np.zeros(18))))
    computed, error = bounded_scores(deaf, x)
    for label in (0, 17):
        assert np.all(frobenius_margin(computed, [label] * 7, matrices=deaf.matrices, error=error) <= 0)


@pytest.mark.parametrize("size", [1e-170, 1e-300, 1e-320])
def test_rows_that_differ_by_next_to_nothing_are_not_one_row(size):
    """Their squares vanish, their difference does not."""
    server = LayeredServer(((np.array([[size], [-size]]), np.zeros(2)),))
    assert margin(server, [[3.0]], [0])[0] <= 3.0
    below = LayeredServer(((np.full((1, 1), size), np.zeros(1)), (np.array([[size], [-size]]), np.array([1.0, 0.0]))))
    assert np.all(spectral_constants(below)[~np.eye(2, dtype=bool)] > 0)
    assert np.all(lipschitz_constants(below)[~np.eye(2, dtype=bool)] > 0)


def test_points_that_may_be_off_have_a_margin_less_by_that():
    server = LayeredServer(((np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros(2)),))
    found = margin(server, [[0.5, 9.0]] * 2, [0, 0], x_error=[[0.1, 7.0], [0.6, 0.0]])
    assert found == pytest.approx([0.4, -0.1])


def test_scores_that_overflow_have_no_margin():
    huge = LayeredServer(
        ((np.array([[1e200], [-1e200]]), np.zeros(2)), (np.array([[1e200, 0.0], [0.0, 1e200]]), np.zeros(2)))
    )
    assert np.all(~(margin(huge, [[1.0], [1e150]], [0, 1]) > 0))


def test_a_server_that_hears_nothing_has_no_border():
    deaf = LayeredServer(((np.zeros((3, 2)), np.ones(3)), (np.ones((2, 3)), np.array([1e9, 0.0]))))
    assert margin(deaf, [[1.0, 2.0]], [0]).tolist() == [np.inf]
    assert attack(deaf, [[1.0, 2.0]], [0]).tolist() == [np.inf]


def test_a_server_with_one_class_cannot_err():
    only = LayeredServer(((np.ones((1, 2)), np.zeros(1)),))
    assert margin(only, [[1.0, 2.0]], [0]).tolist() == attack(only, [[1.0, 2.0]], [0]).tolist() == [np.inf]


def test_no_points_have_no_margins():
    server = random_server(np.random.default_rng(0), 2, 3, 2)
    assert margin(server, np.zeros((0, 2)), []).shape == attack(server, np.zeros((0, 2)), []).shape == (0,)


@pytest.mark.parametrize("bound", [margin, attack])
@pytest.mark.parametrize(
    ("x", "labels", "message"),
    [
        ([1.0, 2.0], [0], r"x has shape \(2,\), must be \(n, 2\)"),
        ([[1.0, 2.0, 3.0]], [0], r"x has shape \(1, 3\), must be \(..., 2\)"),
        ([[1.0, np.inf]], [0], "must be finite"),
        ([[1.0, 2.0]], [3], "labels run from 3 to 3, must be from 0 to 2"),
        ([[1.0, 2.0]], [-1], "labels run from -1 to -1"),
        ([[1.0, 2.0]], [0, 1], r"labels has shape \(2,\), must be \(1,\)"),
    ],
)
def test_bad_points_and_labels_are_refused(bound, x, labels, message):
    with pytest.raises(ValueError, match=message):
        bound(random_server(np.random.default_rng(0), 2, 3), x, labels)


def test_an_attack_needs_a_competitor():
    deep = random_server(np.random.default_rng(0), 2, 3, 2)
    with pytest.raises(ValueError, match="competitors=0 must be ≥ 1"):
        attack(deep, [[1.0, 2.0]], [0], competitors=0)


# The paper's own


def test_the_lemma_is_as_printed():
    rng = np.random.default_rng(0)
    table, own = rng.standard_normal((10, 4)), rng.integers(0, 4, 10)
    matrices = [rng.standard_normal((3, 2)), rng.standard_normal((4, 3))]
    product = 1.0
    for A in matrices:
        product *= np.sqrt(sum(value**2 for value in A.flat))
    for s, label, found in zip(table, own, frobenius_margin(table, own, matrices=matrices), strict=True):
        p = np.exp(s) / np.sum(np.exp(s))
        closest = min(p[label] - p[j] for j in range(4) if j != label)
        assert found == pytest.approx(np.sqrt(2) * closest / product)


def test_the_lemma_of_a_server_that_never_changes_its_answer():
    found = frobenius_margin([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 0, 0], matrices=[np.zeros((2, 2))])
    assert found.tolist() == [np.inf, -np.inf, 0.0]


def test_theorem_2_is_as_printed():
    assert accuracy_bound(ideal=0.8, mse=0.5, margin=2.0) == pytest.approx(0.8 * (1 - 0.5 / 4))
    assert accuracy_bound(ideal=0.8, mse=4.1, margin=2.0) == 0.0
    assert accuracy_bound(ideal=0.8, mse=1.0, margin=0.0) == accuracy_bound(ideal=0.8, mse=1.0, margin=-1.0) == 0.0
    assert accuracy_bound(ideal=0.8, mse=1.0, margin=1e-200) == 0.0
    assert accuracy_bound(ideal=0.8, mse=1.0, margin=float("inf")) == 0.8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ideal": 1.1}, "ideal=1.1 must be from 0 to 1"),
        ({"mse": -1.0}, "mse=-1.0"),
        ({"mse": float("nan")}, "mse=nan"),
    ],
)
def test_theorem_2_refuses_what_is_no_accuracy_or_error(change, message):
    with pytest.raises(ValueError, match=message):
        accuracy_bound(**{"ideal": 0.9, "mse": 0.1, "margin": 1.0, **change})


def test_spectral_constants_are_what_margin_uses_if_none_are_given():
    server = random_server(np.random.default_rng(3), 3, 4, 2)
    x, own = points(server, 0)
    assert np.array_equal(margin(server, x, own), margin(server, x, own, constants=spectral_constants(server)))
