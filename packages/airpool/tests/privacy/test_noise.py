"""Live noise: its law, its grid, what it costs, and that nobody can seed it."""

import inspect
import os
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from math import gcd, hypot, inf, isqrt, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.special import ndtr
from scipy.stats import chisquare

from airpool.privacy import gaussian
from airpool.privacy.discrete_gaussian import SPREAD
from airpool.privacy.noise import delta_cost, grid_of, live_noise, noise_from, smallest_delta, to_grid
from airpool.protocol.device import clipped

# Live draws differ in every run: a test may fail by chance once in a thousand million runs.
CHANCE = 1e-9
STDS = st.floats(min_value=1e-12, max_value=1e12)


def on_grid(z, step, clip):
    """What a live device makes of a feature: clipped, then on the grid."""
    z = np.asarray(z, dtype=np.float64)
    return to_grid(clipped(z[..., None, :], [clip])[..., 0, :], step, clip)


# --- the law ---


def test_live_noise_passes_a_chi_square_far_into_its_tails():
    std, draws, block = 0.05, 20_000_000, 2**20
    grid = grid_of(std)
    steps = grid.sampled_std / grid.step
    # Bins of σ/16 up to 4.5σ, then two of σ/4, then what lies beyond 5σ: 5.7 draws expected on each side.
    width, bins = round(steps / 16), 80
    counts = np.zeros(2 * bins + 2, dtype=np.int64)
    for start in range(0, draws, block):
        drawn = live_noise(std, min(block, draws - start)) / grid.step
        counts += np.bincount(np.clip(drawn // width + bins + 1, 0, 2 * bins + 1).astype(int), minlength=counts.size)
    # Halfway between integers the sum of the pmf is Φ up to a relative 1e-11.
    edges = np.concatenate([[-np.inf], width * np.arange(-bins, bins + 1.0) - 0.5, [np.inf]]) / steps
    expected = draws * np.where(edges[1:] > 0, ndtr(-edges[:-1]) - ndtr(-edges[1:]), np.diff(ndtr(edges)))
    pooled = [np.add.reduceat(x, [0, 1, 5, *range(9, 154), 157, 161]) for x in (counts, expected)]
    assert 5 < pooled[1].min() < 6
    assert chisquare(pooled[0], pooled[1]).pvalue > CHANCE


def test_the_low_bits_of_live_noise_are_uniform():
    grid = grid_of(1.0)
    low = (live_noise(1.0, 2_000_000) / grid.step).astype(np.int64) % 256
    assert chisquare(np.bincount(low, minlength=256)).pvalue > CHANCE


def test_live_noise_has_the_standard_deviation_it_was_asked_for():
    for std in (1e-6, 0.05, 0.3162, 1.0, 77.7):
        values = live_noise(std, 500_000)
        assert abs(values.std() / std - 1) < 3e-4 + 6.2 / np.sqrt(2 * values.size)
        assert abs(values.mean()) < 6.2 * std / np.sqrt(values.size)


def test_two_calls_are_independent():
    x, y = live_noise(1.0, 1_000_000), live_noise(1.0, 1_000_000)
    assert np.mean(x == y) < 1e-4
    assert abs(np.corrcoef(x, y)[0, 1]) < 6.2e-3
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 6.2e-3


# --- live and simulated ---


def test_live_noise_has_no_way_to_be_given_a_seed():
    assert list(inspect.signature(live_noise).parameters) == ["noise_std", "size"]


def test_live_noise_ignores_numpys_global_seed():
    drawn = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        drawn.append(live_noise(1.0, 64))
    assert not np.any(drawn[0] == drawn[1])


def test_live_noise_reads_the_operating_systems_entropy_and_nothing_else(monkeypatch: pytest.MonkeyPatch):
    read = []
    monkeypatch.setattr(os, "urandom", lambda n: read.append(n) or bytes(n))
    live_noise(1.0, 64)
    assert sum(read) >= 64 * 16


def test_forked_processes_draw_different_noise():
    # In a process of its own: forking the test runner, which has threads, is a warning in later Pythons.
    script = (
        "import os; from airpool.privacy.noise import live_noise; live_noise(1.0, 4)\n"
        "child = os.fork()\n"
        "os.write(1, (live_noise(1.0, 16).tobytes().hex() + '\\n').encode())\n"
        "child and os.wait()"
    )
    lines = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout.split()
    assert len(lines) == 2
    first, second = (np.frombuffer(bytes.fromhex(line)) for line in lines)
    assert not np.any(first == second)


def test_noise_from_a_seeded_generator_is_reproducible():
    first, second = (noise_from(np.random.default_rng(7).bytes, 0.3, (3, 5)) for _ in range(2))
    assert np.array_equal(first, second)
    assert first.shape == live_noise(0.3, (3, 5)).shape == (3, 5)


@pytest.mark.parametrize("bad", [0.0, -1.0, nan, inf, 1e-300, 1e300])
def test_a_standard_deviation_that_cannot_be_kept_is_refused(bad: float):
    message = f"noise_std={bad:g} must be > 0 and finite".replace("+", r"\+")
    with pytest.raises(ValueError, match=message):
        live_noise(bad, 3)
    with pytest.raises(ValueError, match=message):
        noise_from(np.random.default_rng(0).bytes, bad, 3)


# --- the grid ---


@settings(deadline=None)
@given(STDS)
def test_the_grid_has_at_least_the_noise_that_the_proof_needs(std: float):
    grid = grid_of(std)
    a, b = grid.coefficients
    sigma, step = Fraction(std), Fraction(grid.step)
    assert gcd(a, b) == 1
    assert 2**19 <= sigma / step < 2**20
    assert SPREAD**2 * (a * a + b * b) >= (sigma / step) ** 2 + 9
    assert SPREAD / hypot(a, b) > 3.9
    assert grid.sampled_std < std * (1 + 3e-4)


def test_sums_of_two_coprime_squares_lie_densely_enough_for_every_standard_deviation():
    # Every a² + b² that any σ can ask for lies in [2^16, 2^18 + 1]: the next one up is never 6 parts in 10,000 away.
    side = range(1, isqrt(2**18) + 3)
    sums = sorted({a * a + b * b for a in side for b in range(a + 1) if gcd(a, b) == 1})
    inside = [n for n in sums if 2**16 - 300 < n < 2**18 + 300]
    assert inside[0] <= 2**16
    assert max((b - a) / a for a, b in pairwise(inside)) < 5.99e-4


@settings(deadline=None)
@given(STDS, st.integers(min_value=1, max_value=50), st.floats(min_value=1e-3, max_value=1e3))
def test_feature_and_noise_add_up_without_rounding(std: float, dimension: int, relative_clip: float):
    clip = relative_clip * std
    noise, step = noise_from(np.random.default_rng(dimension).bytes, std, dimension), grid_of(std).step
    u = on_grid(np.random.default_rng(1).normal(scale=clip, size=dimension), step, clip)
    released = u + noise
    for x, y, total in zip(u, noise, released, strict=True):
        assert Fraction(x) + Fraction(y) == Fraction(total)
        assert (Fraction(total) / Fraction(step)).denominator == 1


def test_the_sum_of_many_devices_is_exact_in_any_order():
    rng = np.random.default_rng(3)
    stds = [0.004, 0.05, 0.05, 0.7, 3.0]
    released = [on_grid(rng.normal(size=64), grid_of(std).step, 1.0) + noise_from(rng.bytes, std, 64) for std in stds]
    exact = [float(sum(map(Fraction, column))) for column in zip(*released, strict=True)]
    assert np.array_equal(np.sum(released, axis=0), exact)
    assert np.array_equal(np.sum(released[::-1], axis=0), exact)


@settings(deadline=None)
@given(
    arrays(np.float64, array_shapes(max_dims=2, max_side=40), elements=st.floats(allow_nan=True, allow_infinity=True)),
    st.floats(min_value=1e-6, max_value=1e6),
    st.integers(min_value=-30, max_value=4),
)
def test_the_grid_never_exceeds_the_clip_norm(z: np.ndarray, clip: float, exponent: int):
    step = 2.0**exponent
    for before, after in zip(np.atleast_2d(z), np.atleast_2d(on_grid(z, step, clip)), strict=True):
        assert sum(Fraction(x) ** 2 for x in after.tolist()) <= Fraction(clip) ** 2
        assert all((Fraction(x) / Fraction(step)).denominator == 1 for x in after.tolist())
        assert not np.signbit(after[after == 0]).any()
        if not np.isfinite(before).all():
            assert not after.any()


@settings(max_examples=20, deadline=None)
@given(st.integers(min_value=0, max_value=2**32 - 1), st.sampled_from([1, 64, 784, 25_088]))
def test_a_vector_that_has_the_clip_norm_stays_within_it_and_close_to_it(seed: int, dimension: int):
    z = np.random.default_rng(seed).normal(size=dimension)
    z *= 3.7 / np.linalg.norm(z)
    step = 2.0**-30
    u = on_grid(z, step, 3.7)
    assert sum(Fraction(x) ** 2 for x in u.tolist()) <= Fraction(3.7) ** 2
    assert np.abs(u - z).max() < 2 * step
    assert np.abs(on_grid(1e300 * z, step, 3.7) - z).max() < 2 * step


def test_a_feature_that_is_not_finite_becomes_zero_and_raises_nothing():
    z = [[1.0, nan], [inf, 1.0], [0.25, 0.5], [5e-324, 0.0], [1.7e308, 1.7e308]]
    assert np.array_equal(on_grid(z, 0.25, 1.0), [[0, 0], [0, 0], [0.25, 0.5], [0, 0], [0.5, 0.5]])


@pytest.mark.parametrize("step", [0.0, -0.5, 0.3, nan, inf, 2.0**-60])
def test_a_step_that_is_no_power_of_two_or_too_fine_for_float64_is_refused(step: float):
    with pytest.raises(ValueError, match="must be a power of two"):
        to_grid([1.0], step, 1.0)


# --- the theorem, where the grid is coarse enough to see it at work ---


def pmf(std: float, spacing: int = 1, half: int = 600) -> np.ndarray:
    j = np.arange(-half, half + 1)
    p = np.where(j % spacing == 0, np.exp(-(j**2) / (2 * std**2)), 0.0)
    return p / p.sum()


def hockey_stick(noise: np.ndarray, shift: int, epsilon: np.ndarray) -> np.ndarray:
    p, q = np.pad(noise, (shift, 0)), np.pad(noise, (0, shift))
    return np.maximum(p - np.exp(epsilon[:, None]) * q, 0).sum(axis=1)


EPSILON = np.linspace(0, 6, 61)
# Three devices with σ² = 16, 27 and 40 in steps of the finest grid; the third one's step is twice as long.
THREE = np.convolve(np.convolve(pmf(5.0), pmf(6.0)), pmf(76**0.5, spacing=2))


@pytest.mark.parametrize("shift", [1, 2, 7, 20])
def test_a_sum_on_the_grid_leaks_no_more_than_continuous_noise(shift: int):
    leaked = hockey_stick(THREE, shift, EPSILON)
    assert np.all(leaked <= gaussian.delta(EPSILON, shift / np.sqrt(16 + 27 + 40)) + 1e-15)


def test_without_the_extra_variance_a_grid_would_leak_more_than_continuous_noise():
    leaked = hockey_stick(THREE, 3, EPSILON)
    assert np.any(leaked > gaussian.delta(EPSILON, 3 / np.sqrt(25 + 36 + 76)) * 1.001)


def test_a_sum_of_discrete_gaussians_is_discrete_gaussian_on_the_finest_grid():
    expected = pmf(np.sqrt(25 + 36 + 76), half=1800)
    assert np.abs(THREE - expected).sum() < 1e-13


def test_a_coarse_step_beside_little_noise_is_seen():
    total = np.convolve(pmf(1.0), pmf(40.0, spacing=4))
    assert np.abs(total - pmf(np.sqrt(1 + 1600), half=1200)).sum() > 1e-3


@pytest.mark.parametrize(("receiver_std", "close"), [(3.0, True), (0.1, False)])
def test_gains_that_do_not_align_are_hidden_by_a_little_receiver_noise(receiver_std: float, close: bool):
    # Two devices at s = 6 and 8 steps with gains 1 and 0.73: λ = s²σ_m²/(σ_m² + ‖G‖²) decides, as in step 6.
    gains, stds = (1.0, 0.73), (6.0, 8.0)
    y = np.linspace(-12, 12, 97)
    j = np.arange(-80, 81)
    first, second = pmf(stds[0], half=80), pmf(stds[1], half=80)
    at = y[:, None, None] - gains[0] * j[:, None] - gains[1] * j
    kernel = np.exp(-(at**2) / (2 * receiver_std**2)) / (receiver_std * np.sqrt(2 * np.pi))
    density = np.einsum("yab,a,b->y", kernel, first, second)
    received = sum((g * s) ** 2 for g, s in zip(gains, stds, strict=True))
    variance = received + receiver_std**2
    gaussian_density = np.exp(-(y**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    lam = min(stds) ** 2 * receiver_std**2 / (receiver_std**2 + received)
    bound = (1 + 2.01 * np.exp(-2 * np.pi**2 * lam)) ** 2 - 1
    relative = np.abs(density / gaussian_density - 1).max()
    assert relative <= 3 * bound + 1e-12
    assert (relative < 1e-12) == close


# --- what it costs ---


@settings(deadline=None)
@given(
    st.integers(min_value=1, max_value=1000),
    st.integers(min_value=1, max_value=25_088),
    st.floats(min_value=0, max_value=40),
)
def test_what_the_grid_costs_is_far_below_any_delta_in_use(num_devices: int, dimension: int, epsilon: float):
    std = np.full(num_devices, 0.05)
    cost = delta_cost(std, dimension=dimension, epsilon=epsilon)
    assert 0 < cost <= (1 + np.exp(epsilon)) * num_devices * dimension * 2.0**-186 * (1 + 1e-12)
    assert delta_cost(std, dimension=dimension, epsilon=epsilon, inferences=1000) < 2e-6 * 1e-9


def test_the_grid_takes_at_most_a_millionth_part_of_a_supported_delta():
    std, kind = np.full(12, 0.05), {"dimension": 784, "epsilon": 4.0}
    assert 0 < delta_cost(std, **kind) <= 1e-6 * smallest_delta(std, **kind)
    assert smallest_delta(std, dimension=784, epsilon=120.0) > 1e-5


@pytest.mark.parametrize("epsilon", [800.0, inf])
def test_at_an_absurd_epsilon_the_cost_is_everything(epsilon: float):
    assert delta_cost(0.05, dimension=64, epsilon=epsilon) == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise_std": 0.0}, "noise_std=0 must be > 0"),
        ({"noise_std": [1.0, nan]}, r"noise_std\[1\]=nan must be > 0"),
        ({"noise_std": [1e-3, 1e3]}, "noise_std from 0.001 to 1000 must lie within a factor of 1e5"),
        ({"dimension": 0}, "dimension=0 must be >= 1"),
        ({"inferences": 0}, "inferences=0 must be >= 1"),
        ({"epsilon": nan}, "epsilon=nan must be a number"),
    ],
)
def test_a_cost_that_the_theorem_does_not_cover_is_refused(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        delta_cost(**({"noise_std": 0.05, "dimension": 64, "epsilon": 1.0} | arguments))
