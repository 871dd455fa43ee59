"""One inference end to end: features in; label, what happened on the air, and guarantee out."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from airpool.account.guarantee import guarantee
from airpool.network import Channel, Claim, Network
from airpool.protocol.device import apply, clipped, encode
from airpool.protocol.inference import Simulation, centralised, transmitted
from airpool.protocol.inference import infer_features as infer
from airpool.protocol.server import NO_ANSWER
from airpool.radio.link import link_of, unbiased

SIGMAS = 4.5
K, D, R, CLASSES = 4, 10, 6, 3
FADING: dict[str, Any] = {"fading": "rician", "outage": 0.1}


def like_devices(channel: dict[str, Any] | None = None, **fields: Any) -> Network:
    """Four devices, r = 6."""
    given: dict[str, Any] = {"num_devices": K, "noise_std": 0.05, "dimension": R, "channel": Channel(**(channel or {}))}
    return Network.uniform(**(given | fields))


@pytest.fixture
def matrices():
    """Encoder, decoder and classifier, and the features of 5 objects."""
    rng = np.random.default_rng(1)
    shapes = {"encoder": (R, D), "decoder": (D, R), "classifier": (CLASSES, D)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}, rng.standard_normal((5, K, D))


def _of(maps: dict[str, Any]) -> dict[str, Any]:
    return {"encoder": maps["encoder"], "server": [maps["decoder"], maps["classifier"]]}


# --- encode, decode, classify ---


@pytest.mark.parametrize("path", ["fast", "full"])
def test_labels_and_logits_are_those_of_the_decoded_estimate(matrices, path):
    models, features = matrices
    out = infer(
        features,
        like_devices(FADING),
        rng=np.random.default_rng(2),
        **_of(models),
        simulation=Simulation(trials=7, path=path),
    )
    assert out.received.estimate.shape == (5, 7, R)
    logits = np.einsum("cd,dr,ntr->ntc", models["classifier"], models["decoder"], out.received.estimate)
    np.testing.assert_allclose(out.logits, logits, rtol=1e-10)
    assert out.received.any_signal.all()
    np.testing.assert_array_equal(out.label, logits.argmax(axis=-1))


def test_matrices_functions_and_torch_modules_give_the_same(matrices):
    models, features = matrices
    by_matrix = infer(features, like_devices(), rng=np.random.default_rng(3), **_of(models))
    functions: dict[str, Any] = {name: lambda x, m=m: x @ m.T for name, m in models.items()}
    by_function = infer(features, like_devices(), rng=np.random.default_rng(3), **_of(functions))
    np.testing.assert_allclose(by_function.logits, by_matrix.logits, rtol=1e-10)

    tensors = {name: torch.from_numpy(m) for name, m in models.items()}
    modules: dict[str, Any] = {}
    for name, m in tensors.items():
        modules[name] = torch.nn.Linear(m.shape[1], m.shape[0], bias=False, dtype=m.dtype).requires_grad_(False)
        modules[name].weight.copy_(m)
    by_tensor, by_module = (
        infer(torch.from_numpy(features), like_devices(), rng=torch.Generator().manual_seed(3), **_of(maps))
        for maps in (tensors, modules)
    )
    torch.testing.assert_close(by_module.logits, by_tensor.logits)
    assert by_tensor.label.dtype == torch.int64


def test_numpy_and_torch_encode_and_average_alike(matrices):
    models, features = matrices
    z = encode(features, models["encoder"])
    there = encode(torch.from_numpy(features), torch.from_numpy(models["encoder"]))
    np.testing.assert_allclose(there.numpy(), z, rtol=1e-10)
    ours, theirs = centralised(z, like_devices()), centralised(there, like_devices())
    np.testing.assert_allclose(theirs.estimate.numpy(), ours.estimate, rtol=1e-10)


def test_without_an_encoder_the_features_are_the_latents():
    z = np.random.default_rng(4).standard_normal((2, K, R))
    assert encode(z, None) is z
    assert infer(z, like_devices(), server=np.eye(R), rng=np.random.default_rng(5)).logits.shape == (
        2,
        1,
        R,
    )


def test_every_device_may_have_an_encoder_of_its_own(matrices):
    models, features = matrices
    each = [models["encoder"] * (k + 1) for k in range(K)]
    mixed = [each[0], lambda f: f @ each[1].T, *each[2:]]
    expected = np.stack([features[:, k] @ each[k].T for k in range(K)], axis=1)
    for encoders in (each, tuple(mixed)):
        np.testing.assert_allclose(encode(features, encoders), expected, rtol=1e-10)


def test_features_that_overflow_or_are_not_finite_are_sent_as_nothing(matrices):
    models, features = matrices
    silent = features.copy()
    silent[0, 1] = 0.0
    expected = infer(silent, like_devices(), rng=np.random.default_rng(6), **_of(models)).logits
    for bad in (np.nan, np.inf, 1e308):
        broken = features.copy()
        broken[0, 1] = bad
        out = infer(broken, like_devices(), rng=np.random.default_rng(6), **_of(models))
        np.testing.assert_array_equal(out.logits, expected)


# --- nobody transmits ---


@pytest.mark.parametrize("path", ["fast", "full"])
def test_when_nobody_takes_part_there_is_no_answer(path):
    network = like_devices({"noise_std": 0.3}, participation=0.0)
    out = infer(
        np.ones((2, K, R)),
        network,
        server=np.eye(R),
        rng=np.random.default_rng(7),
        simulation=Simulation(trials=9, path=path),
    )
    assert (out.label == NO_ANSWER).all()
    assert not out.received.energy.any()
    assert out.report.worst == 0


@pytest.mark.parametrize("path", ["fast", "full"])
def test_no_answer_comes_exactly_when_everybody_is_silent_or_too_weak(path):
    network = like_devices({"fading": "rayleigh", "outage": 0.6}, participation=0.7)
    trials = 4_000
    out = infer(
        np.ones((1, K, R)),
        network,
        server=np.eye(R),
        rng=np.random.default_rng(8),
        simulation=Simulation(trials=trials, path=path),
    )
    silent = (out.received.alignment == 0).all(axis=-1)
    np.testing.assert_array_equal(out.label == NO_ANSWER, silent)
    expected = (1 - 0.7 * (1 - link_of(network).outage[0])) ** K
    assert abs(silent.mean() - expected) < SIGMAS * math.sqrt(expected * (1 - expected) / trials)


def test_torch_gives_no_answer_either():
    network = like_devices(participation=0.5)
    rng = torch.Generator().manual_seed(9)
    out = infer(torch.ones(1, K, R), network, server=torch.eye(R), rng=rng, simulation=Simulation(trials=300))
    assert torch.equal(out.label == NO_ANSWER, ~out.received.taking_part.any(-1))
    assert 0 < int((out.label == NO_ANSWER).sum()) < 300


@pytest.mark.parametrize("path", ["fast", "full"])
def test_under_cover_noise_nobody_is_told_that_nobody_takes_part(path):
    network = like_devices(participation=0.0, cover_noise=True)
    z = np.ones((1, K, R))
    out = infer(
        z, network, server=np.eye(R), rng=np.random.default_rng(10), simulation=Simulation(trials=2_000, path=path)
    )
    assert (out.label >= 0).all()
    assert not out.received.taking_part.any()
    # Noise alone: every class equally often.
    share = np.bincount(out.label.ravel(), minlength=R) / 2_000
    np.testing.assert_allclose(share, 1 / R, atol=SIGMAS * math.sqrt((R - 1) / R**2 / 2_000))


# --- baselines and weights ---


def test_centralised_is_the_weighted_mean_of_clipped_latents_and_costs_no_energy():
    network = like_devices(FADING, participation=0.5, noise_std=1.0)
    z = 3 * np.random.default_rng(11).standard_normal((2, K, R))
    out = infer(
        z,
        network,
        server=np.eye(R),
        rng=np.random.default_rng(12),
        simulation=Simulation(trials=3, baseline="centralised"),
    )
    expected = clipped(z, [1.0] * K).mean(axis=1)[:, None, :].repeat(3, axis=1)
    np.testing.assert_allclose(out.received.estimate, expected, rtol=1e-10)
    assert not out.received.energy.any()
    assert (out.label >= 0).all()


@pytest.mark.parametrize("path", ["fast", "full"])
def test_the_best_device_speaks_alone_with_weight_one_and_is_protected_by_its_own_noise_only(path):
    network = like_devices(FADING)
    z = np.random.default_rng(13).standard_normal((1, K, R))
    out = infer(
        z,
        network,
        server=np.eye(R),
        rng=np.random.default_rng(14),
        simulation=Simulation(trials=2_000, path=path, baseline="best-device"),
    )
    best = out.received.gain[0].argmax(axis=-1)
    error = out.received.estimate[0] - clipped(z, [1.0] * K)[0, best]
    heard = out.received.any_signal[0]
    assert heard.mean() > 0.99
    assert abs(error[heard].std() / 0.05 - 1) < SIGMAS / math.sqrt(2 * heard.sum() * R)
    np.testing.assert_array_equal(out.received.alignment[0].argmax(axis=-1)[heard], best[heard])
    alone = guarantee(transmitted(network, "best-device"))
    np.testing.assert_array_equal(out.report.epsilon, alone.epsilon)
    assert out.report.worst > guarantee(network).worst


def test_orthogonal_access_has_the_noise_of_every_receiver_and_the_privacy_of_each_device_alone():
    superposed, orthogonal = (
        like_devices({"noise_std": 2.0, "gamma": 1.0, "access": access}, noise_std=0.1)
        for access in ("superposed", "orthogonal")
    )
    variance = {}
    for network in (superposed, orthogonal):
        z = np.zeros((1, K, R))
        out = infer(z, network, server=np.eye(R), rng=np.random.default_rng(15), simulation=Simulation(trials=4_000))
        variance[network.channel.access] = out.received.estimate.var()
    error = SIGMAS * math.sqrt(2 / (4_000 * R))
    assert variance["superposed"] == pytest.approx(K * 0.1**2 + 4.0, rel=error)
    assert variance["orthogonal"] == pytest.approx(K * 0.1**2 + K * 4.0, rel=error)
    np.testing.assert_allclose(guarantee(orthogonal).epsilon, guarantee(orthogonal).epsilon_local, rtol=1e-6)
    assert guarantee(superposed).worst < guarantee(orthogonal).worst


@pytest.mark.parametrize("path", ["fast", "full"])
def test_weights_over_participation_make_the_mean_unbiased_at_a_price_in_epsilon(path):
    network = like_devices(FADING, participation=(0.9, 0.8, 0.7, 0.6))
    z = np.random.default_rng(16).standard_normal((1, K, R))
    wanted = clipped(z, [1.0] * K)[0].mean(axis=0)
    p = np.array(network.devices.column("participation"))
    papers = ((p * (1 - link_of(network).outage))[:, None] * clipped(z, [1.0] * K)[0]).mean(axis=0)
    trials = 20_000
    for net, mean in ((network, papers), (unbiased(network), wanted)):
        seen = infer(
            z, net, server=np.eye(R), rng=np.random.default_rng(17), simulation=Simulation(trials=trials, path=path)
        ).received
        error = seen.estimate[0].std(axis=0) / math.sqrt(trials)
        np.testing.assert_array_less(np.abs(seen.estimate[0].mean(axis=0) - mean), SIGMAS * error)
    assert np.linalg.norm(papers - wanted) > 0.1 * np.linalg.norm(wanted)
    # Louder weights need more power: the outage that they are made up for is their own.
    outage = link_of(unbiased(network)).outage
    np.testing.assert_allclose(unbiased(network).devices.column("weight"), 1 / K / (p * (1 - outage)))
    assert outage.max() == pytest.approx(0.1)
    assert outage.min() < 0.09
    assert (guarantee(unbiased(network)).epsilon > guarantee(network).epsilon).all()


# --- the guarantee comes along ---


def test_every_result_carries_the_report_of_its_network_and_says_that_it_is_simulated():
    network = like_devices(FADING, participation=0.9)
    z = np.ones((1, K, R))
    out = infer(z, network, server=np.eye(R), rng=np.random.default_rng(18))
    np.testing.assert_array_equal(out.report.epsilon, guarantee(network).epsilon)
    assert out.simulated
    known = guarantee(network)
    assert (
        infer(z, network, server=np.eye(R), rng=np.random.default_rng(18), simulation=Simulation(report=known)).report
        is known
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_an_inference_runs_on_cuda(matrices):
    models, features = matrices
    there: dict[str, Any] = {name: torch.from_numpy(m).cuda() for name, m in models.items()}
    network = replace(like_devices(FADING), devices=replace(like_devices().devices, noise_std=0.0))
    rng = torch.Generator("cuda").manual_seed(19)
    for baseline in (None, "best-device", "centralised"):
        out = infer(
            torch.from_numpy(features).cuda(),
            network,
            rng=rng,
            **_of(there),
            simulation=Simulation(trials=4, baseline=baseline),
        )
        assert out.label.device.type == out.logits.device.type == "cuda"
        assert out.label.shape == (5, 4)


# --- bad input ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.ones((K, D))}, r"features has shape \(4, 10\), must be \(objects, devices, coordinates\)"),
        ({"features": np.ones((0, K, D))}, "latents has no objects, must have at least one"),
        ({"features": np.ones((2, K + 1, D))}, r"latents has shape \(2, 5, 6\), must be \(objects, 4 devices"),
        ({"features": np.ones((2, K, D - 1))}, r"encoder has shape \(6, 10\), must be a matrix \(\*, 9\)"),
        ({"encoder": np.ones((R + 1, D))}, r"latents has shape \(2, 4, 7\), must be \(objects, 4 devices, 6 coord"),
        ({"encoder": np.ones(D)}, r"encoder has shape \(10,\), must be a matrix \(\*, 10\)"),
        ({"encoder": [np.ones((R, D))] * 3}, "encoder has 3 entries for 4 devices"),
        ({"encoder": [np.ones((R, D))] * 3 + [np.ones((R, 2))]}, r"encoder\[3\] has shape \(6, 2\), must be"),
        ({"decoder": np.ones((D, R + 1))}, r"server\[0\] has shape \(10, 7\), must be a matrix \(\*, 6\)"),
        ({"classifier": np.ones((CLASSES, R))}, r"server\[1\] has shape \(3, 6\), must be a matrix \(\*, 10\)"),
        ({"baseline": "max"}, "baseline='max' must be orthogonal, best-device, centralised or None"),
        ({"trials": 0}, "trials=0 must be >= 1"),
        ({"trials": 0, "baseline": "centralised"}, "trials=0 must be >= 1"),
    ],
)
def test_bad_input_is_named(matrices, change, message):
    given: dict[str, Any] = {"features": np.ones((2, K, D)), "network": like_devices(), **matrices[0]} | change
    how = {name: given.pop(name) for name in ("path", "baseline", "trials") if name in given}
    maps = _of({name: given.pop(name) for name in ("encoder", "decoder", "classifier")})
    with pytest.raises(ValueError, match=message) as caught:
        infer(rng=np.random.default_rng(20), simulation=Simulation(**how), **maps, **given)
    assert "\n" not in str(caught.value)


def test_weights_are_unbiased_where_signals_arrive_weaker_or_stronger_than_meant():
    channel = FADING | {"power_rule": "backoff", "csi_error_std": 0.1, "phase_error_std": 0.3}
    network = unbiased(like_devices(channel, participation=0.8))
    z = np.random.default_rng(21).standard_normal((1, K, R))
    seen = infer(
        z, network, server=np.eye(R), rng=np.random.default_rng(22), simulation=Simulation(trials=20_000)
    ).received.estimate[0]
    wanted = clipped(z, [1.0] * K)[0].mean(axis=0)
    np.testing.assert_array_less(np.abs(seen.mean(axis=0) - wanted), SIGMAS * seen.std(axis=0) / math.sqrt(20_000))


def test_weights_that_power_cannot_make_unbiased_are_an_error():
    with pytest.raises(ValueError, match=r"channel\.gamma=.*power"):
        unbiased(like_devices({"fading": "rician", "gamma": 55.0}, participation=0.5))


def test_who_never_takes_part_cannot_be_made_unbiased():
    with pytest.raises(ValueError, match="participation of device 2 is 0"):
        unbiased(like_devices(participation=(1.0, 0.5, 0.0, 1.0)))


def test_a_matrix_multiplies_from_the_left():
    np.testing.assert_array_equal(apply(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])), [[11.0]])


# --- a result carries the report of the network that transmitted ---


def test_centralised_sends_no_noise_and_promises_nothing():
    network = Network.uniform(num_devices=12, noise_std=0.05, participation=0.9, dimension=8)
    f = np.random.default_rng(0).standard_normal((2, 12, 8))
    out = infer(
        f, network, server=np.eye(8), rng=np.random.default_rng(1), simulation=Simulation(baseline="centralised")
    )
    assert np.isinf(out.report.epsilon).all()
    assert np.isinf(out.report.epsilon_local).all()
    assert math.isinf(out.report.epsilon_object)


def test_a_report_of_another_network_is_refused():
    network = Network.uniform(num_devices=3, noise_std=0.5, dimension=4)
    f, rng = np.zeros((1, 3, 4)), np.random.default_rng(0)
    for other in (
        guarantee(replace(network, devices=replace(network.devices, noise_std=0.6))),
        guarantee(transmitted(network, "orthogonal")),
    ):
        with pytest.raises(ValueError, match="another network than the one that transmits"):
            infer(f, network, server=np.eye(4), rng=rng, simulation=Simulation(report=other))
    own = guarantee(network, Claim(delta=1e-6, inferences=3))
    assert infer(f, network, server=np.eye(4), rng=rng, simulation=Simulation(report=own)).report is own
    with pytest.raises(ValueError, match="another network"):
        infer(f, network, server=np.eye(4), rng=rng, simulation=Simulation(baseline="centralised", report=own))


def test_an_unknown_baseline_is_refused():
    unknown: Any = "loudest"
    with pytest.raises(ValueError, match="baseline='loudest' must be orthogonal, best-device, centralised or None"):
        transmitted(Network.uniform(num_devices=3), unknown)
