"""Bounds on a server's slope: against slopes that are measured, all patterns of units, and convolutions by torch."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_servers import random_server, servers
from torch.nn import functional

from airpool.theory.lipschitz import (
    convolution_norm,
    folded,
    lipschitz_constants,
    operator_norm,
    spectral_constants,
)
from airpool.theory.server import Server, scores

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
    server = Server(((first, np.zeros(4)), (np.array([[1.0, 1, 1, 1], [0, 0, 0, 0]]), np.zeros(2))))
    assert lipschitz_constants(server)[0, 1] == pytest.approx(1.0)
    nothing = Server(((first, np.zeros(4)), (np.zeros((2, 4)), np.zeros(2))))
    assert np.all(lipschitz_constants(nothing) == 0)


@given(size=st.floats(1e-6, 1e6))
def test_constants_scale_with_the_server(size):
    (A, b), last = random_server(np.random.default_rng(1), 3, 5, 3).layers
    plain, scaled = Server(((A, b), last)), Server(((size * A, b), last))
    assert lipschitz_constants(scaled) == pytest.approx(size * lipschitz_constants(plain), rel=1e-9)


def test_deeper_servers_have_spectral_constants_alone():
    server = random_server(np.random.default_rng(0), 2, 3, 3, 2)
    with pytest.raises(ValueError, match="the server has 3 layers, at most 2 for this bound; use spectral_constants"):
        lipschitz_constants(server)
    norms = [operator_norm(A) for A in server.matrices[:-1]]
    assert spectral_constants(server, norms=norms) == pytest.approx(spectral_constants(server))
    assert spectral_constants(server, norms=[2 * norms[0], norms[1]]) == pytest.approx(2 * spectral_constants(server))
    with pytest.raises(ValueError, match="norms has 3 values, must be 2: all layers but the last"):
        spectral_constants(server, norms=[1.0, 1.0, 1.0])


# Convolutions


def dense(kernel, *, side, padding, stride):
    """The convolution as a matrix, by what it makes of every image with one pixel."""
    pixels = torch.eye(kernel.shape[1] * side * side, dtype=torch.float64).reshape(-1, kernel.shape[1], side, side)
    return functional.conv2d(pixels, torch.from_numpy(kernel), padding=padding, stride=stride).flatten(1).numpy().T


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    channels=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    size=st.integers(1, 4),
    side=st.integers(4, 7),
    padding=st.integers(0, 4),
    stride=st.integers(1, 3),
)
def test_no_padding_or_stride_takes_a_convolution_above_its_norm(seed, channels, size, side, padding, stride):
    kernel = np.random.default_rng(seed).standard_normal((*channels, size, size))
    true = np.linalg.norm(dense(kernel, side=side, padding=padding, stride=stride), 2)
    assert true <= convolution_norm(kernel, side=side) * ROUNDING


def test_the_torus_is_as_wide_as_the_image_and_all_that_spills_over():
    """On a torus of the image's own side the frequency that this kernel answers to most is missing."""
    kernel = np.array([[[[1.0, -1.0], [-1.0, 1.0]]]])
    true = np.linalg.norm(dense(kernel, side=5, padding=1, stride=1), 2)
    assert np.abs(np.fft.fft2(kernel, s=(5, 5))).max() < true <= convolution_norm(kernel, side=5)


@pytest.mark.parametrize("seed", range(3))
def test_the_norm_of_a_convolution_comes_close_as_images_grow(seed):
    kernel = np.random.default_rng(seed).standard_normal((2, 2, 3, 3))
    loose = [
        convolution_norm(kernel, side=side) / np.linalg.norm(dense(kernel, side=side, padding=1, stride=1), 2) - 1
        for side in (4, 14)
    ]
    assert 0 <= loose[1] < min(0.05, loose[0])


def test_a_kernel_of_one_pixel_has_the_norm_of_its_matrix():
    kernel = np.random.default_rng(0).standard_normal((3, 4, 1, 1))
    assert convolution_norm(kernel, side=5) == pytest.approx(np.linalg.norm(kernel[:, :, 0, 0], 2))


@pytest.mark.parametrize(("shape", "side"), [((2, 3, 3), 5), ((1, 1, 3, 2), 5), ((1, 1, 3, 3), 0)])
def test_what_is_no_kernel_is_refused(shape, side):
    with pytest.raises(ValueError, match=r"must be \(out, in, k, k\)"):
        convolution_norm(np.zeros(shape), side=side)


# Batch norm


@pytest.mark.parametrize("kind", ["dense", "convolution"])
def test_a_folded_batch_norm_is_torchs_in_eval(kind):
    torch.manual_seed(0)
    if kind == "dense":
        layer, norm, x = torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3), torch.randn(8, 5)
    else:
        layer, norm, x = torch.nn.Conv2d(5, 3, 3), torch.nn.BatchNorm2d(3), torch.randn(8, 5, 6, 6)
    layer, norm, x = layer.double(), norm.double(), x.double()
    with torch.no_grad():
        assert layer.bias is not None
        norm.weight.copy_(torch.randn(3))
        norm.bias.copy_(torch.randn(3))
        for _ in range(5):
            norm(layer(x))  # gathers statistics
        norm.eval()
        expected = norm(layer(x))
        assert norm.running_mean is not None
        assert norm.running_var is not None
        matrix, bias = folded(
            layer.weight.numpy(),
            layer.bias.numpy(),
            mean=norm.running_mean.numpy(),
            variance=norm.running_var.numpy(),
            scale=norm.weight.numpy(),
            shift=norm.bias.numpy(),
            eps=norm.eps,
        )
        apply = functional.linear if kind == "dense" else functional.conv2d
        found = apply(x, torch.from_numpy(matrix), torch.from_numpy(bias))
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)
