"""Errors that travel through layers, against plain loops, torch and the product of norms; convolutions by torch."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from studies.depth import convolution_norm, folded, norm_bound, propagation, random_weights, relu_layers
from torch.nn import functional

SIGMAS = 4.5
ROUNDING = 1 + 1e-9


def test_errors_are_those_of_plain_loops():
    rng = np.random.default_rng(0)
    weights = random_weights(3, 7, inputs=4, rng=rng)
    clean, noisy = rng.standard_normal((5, 4)), rng.standard_normal((5, 3, 4))
    found = propagation(relu_layers(weights), clean, noisy)

    def through(x, depth):
        for W in weights[:depth]:
            x = [max(0.0, sum(W[i, j] * x[j] for j in range(len(x)))) for i in range(len(W))]
        return np.array(x)

    for depth, row in enumerate(found):
        h = [through(x, depth) for x in clean]
        away = [np.sum((through(noisy[n, t], depth) - h[n]) ** 2) for n in range(5) for t in range(3)]
        assert row.depth == depth
        assert row.error == pytest.approx(np.mean(away))
        assert row.signal == pytest.approx(np.mean([np.sum(x**2) for x in h]))
        assert row.spread == pytest.approx(np.mean([np.sum((x - np.mean(h, axis=0)) ** 2) for x in h]))
    assert found[2].to_signal == found[2].error / found[2].signal
    assert found[2].to_spread == found[2].error / found[2].spread


def test_torch_gives_what_numpy_gives():
    rng = np.random.default_rng(0)
    weights = random_weights(2, 7, inputs=4, rng=rng)
    clean, noisy = rng.standard_normal((5, 4)), rng.standard_normal((5, 3, 4))
    layers = [partial(lambda W, x: torch.relu(x @ W.T), torch.from_numpy(W)) for W in weights]
    there = propagation(layers, torch.from_numpy(clean), torch.from_numpy(noisy))
    here = propagation(relu_layers(weights), clean, noisy)
    assert [row.error for row in there] == pytest.approx([row.error for row in here])


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["gaussian", "orthogonal"]), depth=st.integers(1, 8))
def test_no_error_exceeds_the_product_of_norms(seed, kind, depth):
    rng = np.random.default_rng(seed)
    weights = random_weights(depth, 9, inputs=5, rng=rng, kind=kind)
    clean = rng.standard_normal((4, 5))
    noisy = clean[:, None] + 0.3 * rng.standard_normal((4, 2, 5))
    found = propagation(relu_layers(weights, [rng.standard_normal(9) for _ in weights]), clean, noisy)
    spectral, frobenius = (norm_bound(weights, found[0].error, norm=norm) for norm in ("spectral", "frobenius"))
    for row, bound, looser in zip(found, spectral, frobenius, strict=True):
        assert row.error <= bound * (1 + 1e-9) <= looser * (1 + 2e-9)


@pytest.mark.parametrize("kind", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("inputs", [5, 40])
def test_random_weights_double_a_vectors_length_per_row(kind, inputs):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(inputs)
    ratio = [
        np.sum((random_weights(1, 16, inputs=inputs, rng=rng, kind=kind)[0] @ x) ** 2) / np.sum(x**2)
        for _ in range(2000)
    ]
    assert abs(np.mean(ratio) - 2 * 16 / inputs) < SIGMAS * np.std(ratio) / math.sqrt(2000) + 1e-9


def test_wide_random_networks_bring_angles_together_as_the_arc_cosine_kernel_says():
    # Cho & Saul: with h = relu(Wx), cos → (√(1−c²) + c(π − arccos c))/π, and lengths stay.
    rng = np.random.default_rng(0)
    x, y = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    layers = relu_layers(random_weights(4, 1200, inputs=2, rng=rng))
    found = propagation(layers, x[None], y[None, None])
    cosine = 0.0
    for row in found[1:]:
        cosine = (math.sqrt(1 - cosine**2) + cosine * (math.pi - math.acos(cosine))) / math.pi
        # Lengths fluctuate by about √(5/width) a layer.
        assert row.to_signal == pytest.approx(2 - 2 * cosine, rel=3 * math.sqrt(5 * row.depth / 1200))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: propagation([], np.ones((2, 3)), np.ones((2, 3))), r"noisy has shape \(2, 3\), must be"),
        (lambda: propagation([], np.ones((2, 3)), np.ones((2, 1, 4))), r"noisy has shape \(2, 1, 4\), must be"),
        (lambda: random_weights(0, 3, inputs=2, rng=np.random.default_rng(0)), "depth=0 must be >= 1"),
        (lambda: random_weights(1, 3, inputs=2, rng=np.random.default_rng(0), kind="sparse"), "kind='sparse' must be"),  # pyright: ignore[reportArgumentType]
        (lambda: relu_layers([np.eye(2)], []), "biases has 0 entries for 1 weights"),
        (lambda: norm_bound([np.eye(2)], 1.0, norm="nuclear"), "norm='nuclear' must be spectral or frobenius"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_has_no_depth_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


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
