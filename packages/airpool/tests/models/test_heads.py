"""Local classifiers and the honesty of their probabilities."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from airpool.models.heads import expected_calibration_error, fit_temperature, pooled_classifier


def drawn(count: int, *, temperature: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits and labels for which softmax(logits / temperature) is the true law of the label."""
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(count, 6, generator=rng)
    labels = torch.multinomial((logits / temperature).softmax(1), 1, generator=rng)[:, 0]
    return logits, labels


def loss(logits: Tensor, labels: Tensor, temperature: float) -> float:
    return float(functional.cross_entropy(logits.double() / temperature, labels))


@pytest.mark.parametrize("hidden", [None, 32])
def test_a_local_classifier_sees_the_average_of_the_map_alone(hidden):
    torch.manual_seed(0)
    head = pooled_classifier(40, hidden=hidden).eval()
    maps = torch.rand(3, 512, 7, 7)
    shuffled = maps.flatten(2)[:, :, torch.randperm(49)].reshape(3, 512, 7, 7)
    assert head(maps).shape == (3, 40)
    assert torch.allclose(head(maps), head(shuffled), atol=1e-5)
    assert torch.allclose(head(maps), head(maps.mean((2, 3), keepdim=True)), atol=1e-5)


def test_a_hidden_layer_makes_it_two_linear_layers():
    assert list(pooled_classifier(4).state_dict()) == ["0.weight", "0.bias"]
    assert list(pooled_classifier(4, hidden=8).state_dict()) == ["0.weight", "0.bias", "3.weight", "3.bias"]


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_the_true_temperature_is_found_within_its_sampling_error(temperature):
    logits, labels = drawn(20_000, temperature=temperature)
    # Fisher information of β = 1/T: the variance of the logit of the label, so T has standard error T² / √(N I).
    p = (logits / temperature).softmax(1)
    information = float(((p * logits**2).sum(1) - (p * logits).sum(1) ** 2).mean())
    error = temperature**2 / math.sqrt(20_000 * information)
    assert fit_temperature(logits, labels) == pytest.approx(temperature, abs=4 * error)


@given(st.integers(0, 999), st.floats(0.2, 5))
def test_no_other_temperature_is_better(seed, factor):
    logits, labels = drawn(50, temperature=1.5, seed=seed)
    best = fit_temperature(logits, labels)
    assert loss(logits, labels, best) <= loss(logits, labels, best * factor) + 1e-12


@given(st.floats(0.05, 20))
def test_scaling_the_logits_scales_the_temperature(scale):
    logits, labels = drawn(200, temperature=1.5)
    scaled = logits.double() * scale
    assert fit_temperature(scaled, labels) == pytest.approx(scale * fit_temperature(logits, labels), rel=1e-6)


def test_temperature_runs_to_its_ends_where_no_best_one_exists():
    logits = torch.eye(4)
    assert fit_temperature(logits, torch.arange(4)) == pytest.approx(1e-3)
    assert fit_temperature(logits, torch.tensor([1, 2, 3, 0])) == pytest.approx(1e3)


def test_a_fitted_temperature_mends_overconfidence():
    logits, labels = drawn(20_000, temperature=3.0)
    before = expected_calibration_error(logits.softmax(1), labels)
    after = expected_calibration_error((logits / fit_temperature(logits, labels)).softmax(1), labels)
    assert before > 0.2
    # 15 bins, each off by its own sampling error: Σ √(n_b)/(2N) ≤ √15 / (2√N) on average.
    assert after < 2 * math.sqrt(15) / (2 * math.sqrt(20_000))


def test_calibration_error_is_the_plain_sum_over_bins():
    rng = torch.Generator().manual_seed(5)
    probs = torch.randn(300, 4, generator=rng).softmax(1)
    labels = torch.randint(0, 4, (300,), generator=rng)
    expected = 0.0
    for b in range(15):
        rows = [i for i in range(300) if b / 15 < float(probs[i].max()) <= (b + 1) / 15]
        if rows:
            accuracy = sum(int(probs[i].argmax()) == int(labels[i]) for i in rows) / len(rows)
            confidence = sum(float(probs[i].max()) for i in rows) / len(rows)
            expected += len(rows) / 300 * abs(accuracy - confidence)
    assert expected_calibration_error(probs, labels) == pytest.approx(expected, abs=1e-9)


def test_certainty_that_is_always_wrong_has_error_one():
    assert expected_calibration_error(torch.eye(3), torch.tensor([1, 2, 0])) == 1.0
    assert expected_calibration_error(torch.eye(3), torch.arange(3)) == 0.0


@pytest.mark.parametrize("bins", [1, 7, 15])
def test_a_chance_of_one_half_right_half_the_time_is_honest(bins):
    assert expected_calibration_error(torch.full((4, 2), 0.5), torch.tensor([0, 1, 0, 1]), bins=bins) == 0.0


@pytest.mark.parametrize("function", [fit_temperature, expected_calibration_error])
@pytest.mark.parametrize(("rows", "labels"), [(3, 2), (0, 0)])
def test_labels_that_do_not_match_are_refused(function, rows, labels):
    with pytest.raises(ValueError, match="N ≥ 1"):
        function(torch.ones(rows, 2), torch.zeros(labels, dtype=torch.int64))


def test_no_bins_are_refused():
    with pytest.raises(ValueError, match="bins=0"):
        expected_calibration_error(torch.ones(1, 1), torch.zeros(1, dtype=torch.int64), bins=0)
