"""Bounds on a server's slope: against slopes that are measured, all patterns of units, and convolutions by torch."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from airpool_lab.theory.prediction import lipschitz_constants, spectral_constants
from airpool_lab.theory.server import LayeredServer, scores
from tests.random_servers import random_server, servers

ROUNDING = 1 + 1e-9


def all_constants(server):
    sharp = [lipschitz_constants(server)] if len(server.layers) <= 2 else []
    return [spectral_constants(server), *sharp]


def differences(table):
    """s_l − s_j (..., C, C)."""
    return table[..., :, None] - table[..., None, :]


@given(server=servers(), seed=st.integers(0, 2**32 - 1), reach=st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
def test_no_two_points_differ_by_more_than_the_constants_allow(server, seed, reach):
    rng = np.random.default_rng(seed)
    x = 2 * rng.standard_normal((100, server.dimension))
    step = reach * rng.standard_normal(x.shape)
    change = np.abs(differences(scores(server, x + step)) - differences(scores(server, x)))
    slope = np.max(change / np.linalg.norm(step, axis=1)[:, None, None], axis=0)
    for constants in all_constants(server):
        assert np.all(slope <= constants * ROUNDING + 1e-9)


@given(server=servers(), seed=st.integers(0, 2**32 - 1))
def test_no_slope_exceeds_the_constants(server, seed):
    x = torch.from_numpy(2 * np.random.default_rng(seed).standard_normal((40, server.dimension))).requires_grad_()
    h = x
    for A, b in server.layers[:-1]:
        h = torch.relu(h @ torch.from_numpy(A).T + torch.from_numpy(b))
    A, b = server.layers[-1]
    out = h @ torch.from_numpy(A).T + torch.from_numpy(b)
    for i, j in itertools.combinations(range(server.num_classes), 2):
        slope = torch.autograd.grad((out[:, i] - out[:, j]).sum(), x, retain_graph=True)[0].norm(dim=1).max().item()
        for constants in all_constants(server):
            assert slope <= constants[i, j] * ROUNDING + 1e-12


@settings(max_examples=30)
@given(server=servers(layers=(2,), hidden=(1, 8), classes=(2, 3)))
def test_the_semidefinite_bound_lies_between_the_steepest_pattern_and_root_half_pi_times_it(server):
    A, last = server.matrices
    patterns = np.array(list(itertools.product([0.0, 1.0], repeat=len(A))))
    constants = lipschitz_constants(server)
    for i, j in itertools.combinations(range(server.num_classes), 2):
        steepest = np.max(np.linalg.norm((patterns * (last[i] - last[j])) @ A, axis=1))
        # Six rounds end within 2 % of the relaxation's optimum.
        assert steepest <= constants[i, j] * ROUNDING + 1e-12
        assert constants[i, j] <= 1.02 * np.sqrt(np.pi / 2) * steepest + 1e-9


@given(server=servers(layers=(2,), hidden=(1, 40)))
def test_the_semidefinite_constants_are_never_above_the_spectral_ones(server):
    sharp, plain = lipschitz_constants(server), spectral_constants(server)
    assert np.all(sharp <= plain)
    assert np.array_equal(sharp, sharp.T)
    assert np.all(np.diag(sharp) == 0)


def test_the_semidefinite_constants_are_sharper_on_a_wide_server():
    server = random_server(np.random.default_rng(0), 8, 200, 4)
    others = ~np.eye(4, dtype=bool)
    assert np.mean(lipschitz_constants(server)[others] / spectral_constants(server)[others]) < 0.75


@given(server=servers(layers=(1,)))
def test_of_a_linear_server_the_constants_are_exact(server):
    (A,) = server.matrices
    for i, j in itertools.product(range(server.num_classes), repeat=2):
        exact = np.sqrt(sum((A[i, k] - A[j, k]) ** 2 for k in range(A.shape[1])))
        for constants in all_constants(server):
            assert constants[i, j] == pytest.approx(exact, abs=1e-15)


def test_units_of_any_size_do_no_harm():
    """Rows whose squares vanish once divided by zero."""
    first = np.array([[1.0, 0.0], [1e-200, 0.0], [0.0, 1e-300], [0.0, 0.0]])
    server = LayeredServer(((first, np.zeros(4)), (np.array([[1.0, 1, 1, 1], [0, 0, 0, 0]]), np.zeros(2))))
    assert lipschitz_constants(server)[0, 1] == pytest.approx(1.0)
    nothing = LayeredServer(((first, np.zeros(4)), (np.zeros((2, 4)), np.zeros(2))))
    assert np.all(lipschitz_constants(nothing) == 0)


@given(size=st.floats(1e-6, 1e6))
def test_constants_scale_with_the_server(size):
    (A, b), last = random_server(np.random.default_rng(1), 3, 5, 3).layers
    plain, scaled = LayeredServer(((A, b), last)), LayeredServer(((size * A, b), last))
    assert lipschitz_constants(scaled) == pytest.approx(size * lipschitz_constants(plain), rel=1e-9)


def test_deeper_servers_have_spectral_constants_alone():
    server = random_server(np.random.default_rng(0), 2, 3, 3, 2)
    with pytest.raises(ValueError, match="the server has 3 layers, at most 2 for this bound; use spectral_constants"):
        lipschitz_constants(server)
    norms = [float(np.linalg.norm(A, 2)) for A in server.matrices[:-1]]
    between = np.linalg.norm(server.matrices[-1][:, None] - server.matrices[-1][None], axis=-1)
    assert spectral_constants(server) == pytest.approx(between * np.prod(norms))
