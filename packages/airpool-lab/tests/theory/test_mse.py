"""The exact mean square error: against what is received over the air, part by part, and against the paper's bound."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from airpool.evaluation.mse import Error, error, pooled
from airpool.network import Channel, Devices, Network, Threshold
from airpool.protocol.device import clipped
from airpool.protocol.simulation import receive
from airpool.radio.link import level, link_of, unbiased
from airpool_lab.paper.formulas.weights import bound
from tests.random_networks import networks

SIGMAS = 4.5
TRIALS = 4000
R = 5


def some_latents(network: Network, objects: int = 2) -> np.ndarray:
    """Alike but not the same, as the views of an object are, and some of them too long."""
    rng = np.random.default_rng(1)
    return rng.standard_normal((objects, 1, R)) + 0.5 * rng.standard_normal((objects, network.devices.count, R))


DECODER = np.random.default_rng(2).standard_normal((9, R))


def agrees(squares: np.ndarray, expected: np.ndarray) -> bool:
    """Whether the mean of each row (n, t) may well be this."""
    deviation = squares.std(axis=1, ddof=1) / math.sqrt(squares.shape[1])
    return bool(np.all(np.abs(squares.mean(axis=1) - expected) <= SIGMAS * deviation + 1e-9))


def heard(latents: np.ndarray, network: Network, *, path: Any = "fast", trials: int = TRIALS) -> np.ndarray:
    return receive(latents, network, rng=np.random.default_rng(0), trials=trials, path=path).estimate


def squares(estimate: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.sum((estimate - target[:, None, :]) ** 2, axis=-1)


EVERYTHING = Network(
    devices=Devices(
        3, weight=(0.2, 0.5, 0.3), clip_norm=(0.5, 1.0, 9.0), noise_std=(0.0, 0.1, 0.2), participation=(0.5, 1.0, 0.8)
    ),
    channel=Channel("rayleigh", noise_std=3.0, outage=0.3, csi_error_std=0.2, phase_error_std=0.3),
    dimension=R,
)


@settings(max_examples=25)
@given(network=networks(R))
@example(network=EVERYTHING)
@example(network=replace(EVERYTHING, cover_noise=True, channel=replace(EVERYTHING.channel, access="orthogonal")))
@example(network=replace(EVERYTHING, channel=replace(EVERYTHING.channel, access="orthogonal", power_rule="backoff")))
def test_the_error_is_that_of_what_is_received(network):
    assume(all(p == 0 or p > 0.01 for p in network.devices.column("participation")))  # what is rarer is hardly seen
    z = some_latents(network)
    estimate, weight = heard(z, network), network.devices.column("weight")
    kept = pooled(clipped(z, network.devices.column("clip_norm")), weight)
    assert agrees(squares(estimate, kept), error(z, network).total)
    assert agrees(squares(estimate, pooled(z, weight)), error(z, network, target=pooled(z, weight)).total)
    decoded = estimate @ DECODER.T
    assert agrees(squares(decoded, kept @ DECODER.T), error(z, network, decoder=DECODER).total)


@pytest.mark.parametrize("cover_noise", [False, True])
def test_the_devices_own_way_through_the_air_has_the_same_error(cover_noise):
    network = replace(EVERYTHING, cover_noise=cover_noise)
    z = some_latents(network)
    kept = pooled(clipped(z, network.devices.column("clip_norm")), network.devices.column("weight"))
    assert agrees(squares(heard(z, network, path="full"), kept), error(z, network).total)


@given(network=networks(R))
def test_the_noise_is_what_the_server_is_told(network):
    found = error(some_latents(network), network).mean
    assert found.privacy_noise + found.channel_noise == pytest.approx(R * level(network).noise_std ** 2, abs=1e-12)


@given(network=networks(R))
def test_parts_are_never_negative_and_add_up(network):
    found = error(some_latents(network), network)
    parts = (found.bias, found.participation, found.privacy_noise, found.channel_noise)
    assert all(part.shape == (2,) and np.all(part >= 0) for part in parts)
    assert found.total == pytest.approx(sum(parts))
    assert found.mean.total == pytest.approx(found.total.mean())


# Each part by itself


def alone(**given: Any) -> Network:
    """Four devices of weight 1/4, nothing in the way but what is given."""
    return Network.uniform(**({"num_devices": 4, "clip_norm": 10.0, "noise_std": 0.0, "dimension": R} | given))


def same(network: Network) -> np.ndarray:
    """Every device holds the same latent, of length 2."""
    z = np.zeros((1, network.devices.count, R))
    z[..., 0] = 2.0
    return z


def parts(found: Error) -> list[float]:
    each = (found.bias, found.participation, found.privacy_noise, found.channel_noise)
    return [float(x) for x in (part[0] for part in each)]


def test_where_nothing_is_in_the_way_there_is_no_error():
    assert parts(error(same(alone()), alone())) == [0, 0, 0, 0]


def test_silence_costs_bias_and_variance():
    net = alone(participation=0.7)
    assert parts(error(same(net), net)) == pytest.approx([0.3**2 * 4, 0.7 * 0.3 * 4 / 4, 0, 0])


def test_an_outage_counts_as_silence():
    net = alone(participation=0.8, channel=Channel("rayleigh", outage=0.1))
    p = 0.8 * (1 - float(link_of(net).outage[0]))
    assert p == pytest.approx(0.72)
    assert parts(error(same(net), net)) == pytest.approx([(1 - p) ** 2 * 4, p * (1 - p) * 4 / 4, 0, 0])


def test_nothing_is_lost_to_a_phase_error_but_all_is_turned():
    net = alone(channel=Channel(phase_error_std=0.5))
    first = math.exp(-0.125)
    assert parts(error(same(net), net)) == pytest.approx([(1 - first) ** 2 * 4, (1 - first**2) * 4 / 4, 0, 0])


def test_devices_without_power_fade_away_by_backing_off():
    # At gain 1 a device reaches `reach`; at twice that γ exactly half of it arrives, noise and all.
    net = alone(noise_std=0.1, channel=Channel(power_rule="backoff", gamma=1.0))
    net = replace(net, channel=replace(net.channel, gamma=2 * float(link_of(net).transmitters.reach[0])))
    assert parts(error(same(net), net)) == pytest.approx([0.5**2 * 4, 0, R * 4 * 0.25 * 0.01, 0])


@pytest.mark.parametrize(("cover_noise", "senders"), [(False, 4 * 0.7), (True, 4)])
def test_noise_is_that_of_whoever_is_on_the_air(cover_noise, senders):
    net = alone(participation=0.7, noise_std=0.3, cover_noise=cover_noise)
    found = error(same(net), net)
    assert found.privacy_noise == pytest.approx(R * senders * 0.09)
    assert found.channel_noise == 0


@pytest.mark.parametrize(
    ("access", "cover_noise", "times"), [("superposed", False, 1), ("orthogonal", False, 2.8), ("orthogonal", True, 4)]
)
def test_the_receivers_noise_counts_once_or_for_each_who_is_heard(access, cover_noise, times):
    net = alone(participation=0.7, cover_noise=cover_noise, channel=Channel(noise_std=2.0, gamma=0.5, access=access))
    assert error(same(net), net).channel_noise == pytest.approx(R * times * (2.0 / 0.5) ** 2)


def test_clipping_costs_what_it_takes_away():
    net = alone(clip_norm=0.5)
    z = same(net)
    assert error(z, net).bias == 0  # of what was kept, nothing is lost
    assert error(z, net, target=pooled(z, 0.25)).bias == pytest.approx(1.5**2)
    assert error(z, alone(), target=pooled(z, 0.25)).bias == 0


def test_clipping_and_silence_together_are_worse_than_their_sum():
    net = alone(clip_norm=0.5, participation=0.8)
    z = same(net)
    assert error(z, net, target=pooled(z, 0.25)).bias == pytest.approx((2 - 0.8 * 0.5) ** 2)
    assert error(z, net).bias == pytest.approx(0.1**2)
    alone_clipped = error(z, alone(clip_norm=0.5), target=pooled(z, 0.25)).bias
    assert alone_clipped == pytest.approx(1.5**2)


def test_unbiased_weights_trade_bias_for_variance_and_noise():
    net = alone(participation=0.5, noise_std=0.1, channel=Channel("rician", noise_std=1.0))
    z, fair = same(net), unbiased(net)
    wanted = pooled(z, net.devices.column("weight"))
    biased, found = error(z, net), error(z, fair, target=wanted)
    assert found.bias == pytest.approx(0, abs=1e-20)
    assert biased.bias > 0.5
    assert found.participation > biased.participation
    assert found.channel_noise > biased.channel_noise  # louder weights leave less power for γ
    assert agrees(squares(heard(z, fair), wanted), found.total)


def test_a_decoder_that_only_turns_changes_nothing():
    z = some_latents(EVERYTHING)
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((9, R)))[0]
    plain, turned = error(z, EVERYTHING), error(z, EVERYTHING, decoder=turn)
    for name in ("bias", "participation", "privacy_noise", "channel_noise"):
        assert getattr(turned, name) == pytest.approx(getattr(plain, name))


@pytest.mark.parametrize("rows", [1, 3, R, 40])
def test_a_decoder_of_any_height_is_that_of_the_spec(rows):
    net = Network.uniform(num_devices=3, clip_norm=9.0, noise_std=0.2, participation=0.6, dimension=R)
    z, D = some_latents(net), np.random.default_rng(4).standard_normal((rows, R))
    a = z @ D.T / 3
    expected = (
        np.sum((0.6 * a.sum(1) - a.sum(1)) ** 2, axis=-1)
        + 0.6 * 0.4 * np.sum(a**2, axis=(1, 2))
        + np.sum(D**2) * 3 * 0.6 * 0.04
    )
    assert error(z, net, decoder=D).total == pytest.approx(expected)


# Edges


def test_where_nobody_takes_part_all_is_lost():
    net = alone(participation=0.0, noise_std=0.1, channel=Channel(noise_std=1.0, gamma=2.0))
    assert parts(error(same(net), net)) == pytest.approx([4, 0, 0, R / 4])


def test_weights_of_zero_leave_the_noise_alone():
    net = alone(weight=0.0, noise_std=0.1)
    assert parts(error(same(net), net)) == pytest.approx([0, 0, R * 4 * 0.01, 0])
    silent = alone(weight=0.0)
    assert parts(error(same(silent), silent)) == [0, 0, 0, 0]


def test_a_latent_that_is_not_finite_counts_as_zero():
    net = alone(participation=0.5)
    z = same(net)
    z[0, 1, 2] = np.nan
    zero = same(net)
    zero[0, 1] = 0
    assert error(z, net).total == pytest.approx(error(zero, net).total)


def test_the_law_found_beforehand_serves_as_well():
    z = some_latents(EVERYTHING)
    assert error(z, EVERYTHING, link=link_of(EVERYTHING)).total == pytest.approx(error(z, EVERYTHING).total)


def test_numbers_of_single_precision_are_welcome():
    z = some_latents(EVERYTHING)
    found = error(z.astype(np.float32), EVERYTHING).total
    assert found.dtype == np.float64
    assert found == pytest.approx(error(z, EVERYTHING).total, rel=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"latents": np.zeros((4, R))}, r"latents has shape \(4, 5\), must be \(objects, 4 devices, 5 coordinates\)"),
        ({"latents": np.zeros((1, 3, R))}, r"latents has shape \(1, 3, 5\), must be"),
        ({"latents": np.zeros((0, 4, R))}, "latents has no objects"),
        ({"decoder": np.zeros((R, 9))}, r"decoder has shape \(5, 9\), must be \(\*, 5\)"),
        ({"decoder": [[math.nan] * R]}, r"decoder\[0, 0\]=nan must be finite"),
        ({"target": np.zeros((2, R))}, r"target has shape \(2, 5\), must be \(1, 5\)"),
        ({"decoder": np.zeros((9, R)), "target": np.zeros((1, R))}, r"target has shape \(1, 5\), must be \(1, 9\)"),
    ],
)
def test_shapes_that_do_not_fit_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        error(**({"latents": same(alone()), "network": alone()} | given))


def test_a_sum_needs_one_weight_for_each_device():
    with pytest.raises(ValueError, match=r"latents and weight have shapes \(1, 4, 5\) and \(3,\)"):
        pooled(same(alone()), [1.0, 1.0, 1.0])


def test_a_rule_that_looks_at_the_noise_is_refused():
    net = alone(noise_std=0.1, channel=Channel(power_rule="paper"))
    with pytest.raises(ValueError, match=r"channel\.power_rule='paper' must be truncate or backoff"):
        error(same(net), net)


def test_whom_scores_choose_is_not_known_beforehand():
    net = alone(scheme=Threshold())
    with pytest.raises(ValueError, match=r"scheme.name='2.1' must be 1"):
        error(same(net), net)


# The paper's bound


def truth(features: np.ndarray, encoder: np.ndarray, decoder: np.ndarray, network: Network) -> np.ndarray:
    """E‖f̂ − (1/K) Σ f‖², which the paper bounds."""
    return error(features @ encoder.T, network, decoder=decoder, target=features.mean(axis=1)).total


@given(seed=st.integers(0, 10**6), count=st.integers(1, 4), p=st.floats(0, 1))
def test_the_papers_bound_is_what_it_prints(seed, count, p):
    rng = np.random.default_rng(seed)
    d, r = 4, 3
    f, W, D = rng.standard_normal((2, count, d)), rng.standard_normal((count, r, d)), rng.standard_normal((d, r))
    w, std = rng.uniform(0, 1, count), rng.uniform(0, 1, count)
    found = bound(f, encoder=W, decoder=D, weight=w, noise_std=std, participation=p, channel_noise_std=0.3 / 2.0)
    size = np.linalg.norm(D) ** 2
    for n in range(2):
        total = d * size * (sum(p * s**2 for s in std) + 0.3**2 / 2.0**2)
        for k in range(count):
            own = size * np.linalg.norm(W[k]) ** 2 * np.linalg.norm(f[n, k]) ** 2
            total += (w[k] ** 2 * p - 2 * w[k] * p + 1) * own
            for j in range(k + 1, count):
                cross = f[n, k] @ W[k].T @ D.T @ D @ W[j] @ f[n, j]
                total += (p * p * w[k] * w[j] - p * w[k] - p * w[j] + 1) * cross
        assert found[n] == pytest.approx(total)
        assert found[n] >= 0


def test_the_papers_bound_is_below_the_truth_where_the_codec_loses_something():
    f, W, D = np.array([[[1.0, 1.0]]]), np.array([[1.0, 0.0]]), np.array([[1.0], [0.0]])
    net = Network.uniform(num_devices=1, clip_norm=10.0, noise_std=0.0, dimension=1)
    claimed = bound(f, encoder=W, decoder=D, weight=1.0, noise_std=0.0, participation=1.0)
    assert claimed == 0
    assert truth(f, W, D, net) == pytest.approx(1)


def test_the_papers_bound_is_below_the_truth_where_weights_are_large():
    f, one = np.ones((1, 2, 1)), np.ones((1, 1))
    net = Network.uniform(num_devices=2, clip_norm=10.0, noise_std=0.0, weight=1.0, dimension=1)
    assert bound(f, encoder=one, decoder=one, weight=1.0, noise_std=0.0, participation=1.0) == 0
    assert truth(f, one, one, net) == pytest.approx(1)


def test_the_papers_bound_is_below_the_truth_where_the_decoder_is_careful():
    # A decoder that shrinks what is noisy, weights 1/K: the target is still of full size.
    f, W, D = np.ones((1, 12, 2)), np.eye(2), 0.05 * np.eye(2)
    net = Network.uniform(num_devices=12, clip_norm=10.0, noise_std=0.1, dimension=2)
    claimed = bound(f, encoder=W, decoder=D, weight=1 / 12, noise_std=0.1, participation=1.0)
    assert claimed < 0.8 * truth(f, W, D, net)


def test_the_papers_bound_is_many_times_the_truth_at_its_own_setting():
    rng = np.random.default_rng(0)
    d = 16
    f = rng.standard_normal((1, 1, d)) + 0.3 * rng.standard_normal((1, 12, d))
    net = Network.uniform(num_devices=12, clip_norm=100.0, noise_std=0.1**0.5, participation=0.9, dimension=d)
    claimed = bound(f, encoder=np.eye(d), decoder=np.eye(d), weight=1 / 12, noise_std=0.1**0.5, participation=0.9)
    assert claimed > 100 * truth(f, np.eye(d), np.eye(d), net)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"features": np.ones((2, 3))}, r"features has shape \(2, 3\), must be \(objects, devices, coordinates\)"),
        ({"decoder": np.ones((2, 2))}, r"decoder has shape \(2, 2\), must be \(3, \*\)"),
        ({"encoder": np.ones((3, 3))}, r"encoder has shape \(3, 3\), must be \(2, 3\) or \(4, 2, 3\)"),
    ],
)
def test_shapes_that_the_papers_bound_cannot_take_are_named(given, message):
    fits: dict[str, Any] = {"features": np.ones((1, 4, 3)), "encoder": np.ones((2, 3)), "decoder": np.ones((3, 2))}
    with pytest.raises(ValueError, match=message):
        bound(**(fits | given), weight=0.25, noise_std=0.1, participation=1.0)
