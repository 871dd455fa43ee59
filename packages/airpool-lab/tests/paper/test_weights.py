"""The paper's weights as printed: they minimise its own bound, and where that leads."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from airpool.account import theorem1
from airpool.evaluation.design.qp import solve
from airpool.evaluation.design.weights import quadratic
from airpool.evaluation.mse import error
from airpool.network import Network
from airpool_lab.paper.formulas.weights import bound, gauss_seidel, largest_weight

K, D = 4, 5
RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((3, 1, D)) + 0.5 * RNG.standard_normal((3, K, D)) * np.arange(1, K + 1)[None, :, None]
CODEC: dict[str, Any] = {"encoder": np.eye(D), "decoder": np.eye(D)}
UPPER = np.array([0.4, 0.4, 0.3, 0.2])


def value(w, p=0.9):
    return float(bound(FEATURES, **CODEC, weight=w, noise_std=0.0, participation=p).mean())


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("upper", [np.ones(K), UPPER])
def test_the_sweeps_end_at_the_minimum_of_the_papers_own_bound(upper, in_turn):
    found = gauss_seidel(FEATURES, **CODEC, participation=0.9, upper=upper, in_turn=in_turn)
    assert found.converged
    assert np.sum(found.weight) == pytest.approx(1, abs=1e-9)
    assert np.all((found.weight >= 0) & (found.weight <= upper))
    sums: Any = {"type": "eq", "fun": lambda w: np.sum(w) - 1}
    start = upper / np.sum(upper)
    other = minimize(value, start, bounds=[(0, u) for u in upper], constraints=sums, options={"ftol": 1e-14})
    assert value(found.weight) <= other.fun * (1 + 1e-9)
    assert found.weight == pytest.approx(other.x, abs=1e-4)


def test_the_least_error_is_elsewhere():
    found = gauss_seidel(FEATURES, **CODEC, participation=0.9, upper=1.0)
    net = Network.uniform(num_devices=K, clip_norm=100.0, noise_std=0.0, participation=0.9, dimension=D)
    best = solve(quadratic(FEATURES, net), np.ones(K)).weight

    def exact(w):
        devices = replace(net.devices, weight=tuple(w))
        return error(FEATURES, replace(net, devices=devices), target=FEATURES.mean(axis=1)).mean.total

    # Louder devices get all the weight, the quiet half none, where the mean of all asks for about the same of each.
    assert found.weight[:2].tolist() == [0.0, 0.0]
    assert np.all(best > 0.1)
    assert exact(best) <= exact(np.full(K, 1 / K)) < exact(found.weight)
    assert exact(found.weight) > 3 * exact(best)


def test_the_lemmas_own_sum_depends_on_how_devices_are_numbered():
    given: dict[str, Any] = {**CODEC, "participation": 0.9, "upper": 1.0}
    cases: Any = (("others", True), ("later", False))
    for pairs, same in cases:
        one = gauss_seidel(FEATURES, **given, pairs=pairs).weight
        turned = gauss_seidel(FEATURES[:, ::-1], **given, pairs=pairs).weight[::-1]
        assert bool(np.allclose(one, turned, atol=1e-8)) is same


def test_printed_sweeps_need_not_settle_where_real_gauss_seidel_does():
    # One coordinate, half of the devices seeing its negative: the cross terms outweigh the diagonal.
    f = np.where(np.arange(12) % 2, 1.0, -1.0) * (1 + 0.001 * np.arange(12))
    one: dict[str, Any] = {"encoder": [[1.0]], "decoder": [[1.0]], "participation": 1.0, "upper": 1.0}
    assert not gauss_seidel(f.reshape(1, 12, 1), **one).converged
    assert gauss_seidel(f.reshape(1, 12, 1), **one, in_turn=True).converged


def test_the_largest_weight_is_where_theorem_1_claims_the_target():
    setting: dict[str, Any] = {
        "clip_norm": 2.0,
        "noise_std": [0.3, 0.4, 0.5] * 20,
        "participation": [0.9, 0.8, 0.7] * 20,
        "delta": 1e-5,
    }
    target = np.linspace(0.5, 900, 60)
    w = largest_weight(target, **setting)
    assert theorem1.claim(weight=w, **setting).epsilon == pytest.approx(target, rel=1e-9)
    defaults: dict[str, Any] = {"clip_norm": 100, "noise_std": 0.1**0.5, "participation": 0.9, "delta": 1e-5}
    assert largest_weight([1.0] * 12, **defaults, tail="statement").tolist() == [0.0] * 12


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"upper": 0.1}, r"upper adds up to 0\.4, must be >= 1"),
        ({"participation": 0.0}, "must not be 0: the paper divides"),
        ({"pairs": "none"}, "pairs='none' must be one of others, later"),
        ({"decoder": np.eye(3)}, "decoder has shape"),
    ],
)
def test_bad_input_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        gauss_seidel(FEATURES, **{**CODEC, "participation": 0.9, "upper": 1.0} | given)
