"""Latents over the air: never longer than they may be, heard as the spec says, on both paths and in both libraries."""

import inspect
import math
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from airpool._support import draws
from airpool.network import Channel, Devices, Network, Threshold
from airpool.protocol import simulation
from airpool.protocol.device import clipped
from airpool.protocol.inference import Simulation
from airpool.protocol.medium import pack, unpack
from airpool.protocol.simulation import has_shortcut, in_batches, receive
from airpool.radio import fading
from airpool.radio.link import alignment, link_of
from airpool.radio.power import Transmitters
from tests.counted_work import work

SIGMAS = 4.5  # a correct value lies further off once in 150,000
LEAST_P = 1e-3  # of a Kolmogorov-Smirnov test; seeds are fixed

PERFECT: dict[str, Any] = {}
FADING: dict[str, Any] = {"fading": "rician", "outage": 0.2}
NOISY: dict[str, Any] = {"noise_std": 1.0}
UNKNOWN: dict[str, Any] = {"csi_error_std": 0.2, "phase_error_std": 0.2}


def unlike_devices(channel: dict[str, Any] | None = None, **fields: Any) -> Network:
    """Three devices that differ in everything, r = 6."""
    devices = Devices(
        count=3,
        weight=(0.5, 0.3, 0.4),
        clip_norm=(1.0, 2.0, 0.5),
        noise_std=(0.1, 0.2, 0.3),
        participation=(1.0, 0.8, 0.6),
        power_dbm=(20.0, 23.0, 17.0),
    )
    return Network(devices=devices, dimension=6, channel=Channel(**(channel or {})), **fields)


def latents(network: Network, objects: int = 1, *, length: float = 3.0, seed: int = 7) -> Any:
    """Random latents, most of them too long."""
    shape = (objects, network.devices.count, network.dimension)
    return length * np.random.default_rng(seed).standard_normal(shape)


def columns(network: Network, *names: str) -> list[Any]:
    return [np.array(network.devices.column(name)) for name in names]


# --- clipping ---


def square(vector: Any) -> Fraction:
    """‖v‖², exactly."""
    return sum((Fraction(float(x)) ** 2 for x in vector), Fraction(0))


def vectors(width: Any, smallest: float, largest: float) -> Any:
    """A latent of any floats at all, and a clip norm."""
    numbers = st.floats(width=width, allow_nan=True, allow_infinity=True)
    dtype = {32: np.float32, 64: np.float64}[width]
    return st.tuples(arrays(dtype, st.integers(1, 9), elements=numbers), st.floats(smallest, largest))


@pytest.mark.parametrize("library", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@given(drawn=vectors(64, 1e-290, 1e300) | vectors(32, 1e-30, 1e37))
def test_a_clipped_latent_is_never_longer_than_its_clip_norm(library, drawn):
    latent, clip_norm = drawn
    out = np.asarray(clipped(library(latent[None, None, :]), [clip_norm]))[0, 0]
    assert out.dtype == latent.dtype
    assert np.isfinite(out).all()
    assert square(out) <= Fraction(clip_norm) ** 2
    if not np.isfinite(latent).all():
        assert not out.any()
    elif square(latent) <= (Fraction(clip_norm) * Fraction(99_999, 100_000)) ** 2:
        np.testing.assert_array_equal(out, latent)
    else:
        eps = Fraction(float(np.finfo(latent.dtype).eps))
        assert square(out) >= (Fraction(clip_norm) * (1 - 40 * eps)) ** 2 or square(out) >= square(latent)
        # Of the same direction: what is tiny beside the clip norm may vanish.
        direction = latent / np.abs(latent).max()
        np.testing.assert_allclose(
            out / np.abs(out).max(), direction, rtol=1e-5, atol=float(np.finfo(latent.dtype).tiny) / clip_norm
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_many_coordinates_in_any_order_of_memory_do_not_add_up_to_more(dtype, order):
    z = np.random.default_rng(1).standard_normal((3, 2, 25_088))
    z[0] = 1.0
    z = np.asarray(z.astype(dtype), order=order)
    for out in (clipped(z, [1.0, 0.1]), clipped(torch.from_numpy(z), [1.0, 0.1]).numpy()):
        for k, limit in enumerate((1.0, 0.1)):
            norms = [math.sqrt(math.fsum(float(x) ** 2 for x in out[n, k])) for n in range(3)]
            assert max(norms) <= limit
            assert min(norms) > limit * (1 - 1e-3)


def test_a_latent_that_is_not_finite_is_zero_and_leaves_the_others_alone():
    network = unlike_devices()
    z = latents(network)
    for bad in (np.nan, np.inf, -np.inf):
        broken = z.copy()
        broken[0, 1, 2] = bad
        silenced = z.copy()
        silenced[0, 1] = 0.0
        for path in ("fast", "full"):
            seen, expected = (
                receive(x, network, rng=np.random.default_rng(2), trials=5, path=path).estimate
                for x in (broken, silenced)
            )
            np.testing.assert_array_equal(seen, expected)


def test_gradients_flow_through_the_air_and_are_finite_at_zero():
    network = unlike_devices(FADING)
    start = torch.from_numpy(latents(network, 4, length=0.1))
    start[0] = 0.0
    start[1, 0, 0] = torch.nan
    for path in ("fast", "full"):
        z = start.clone().requires_grad_()
        seen = receive(z, network, rng=torch.Generator().manual_seed(3), trials=50, path=path)
        seen.estimate.sum().backward()
        assert z.grad is not None
        assert bool(torch.isfinite(z.grad).all())
        assert not z.grad[1, 0].any()
        weight, g = torch.tensor(network.devices.column("weight")), seen.alignment[0].sum(0)
        torch.testing.assert_close(z.grad[0], (weight * g)[:, None].expand(3, 6).to(z.dtype))


# --- what arrives ---


@pytest.mark.parametrize("path", ["fast", "full"])
def test_who_is_too_weak_or_takes_no_part_is_silent_and_all_others_arrive_aligned(path):
    network = unlike_devices(FADING | {"gamma": 4.5})
    seen = receive(latents(network, 2), network, rng=np.random.default_rng(4), trials=500, path=path)
    weight, clip_norm, std, power_dbm = columns(network, "weight", "clip_norm", "noise_std", "power_dbm")
    margin = link_of(network).transmitters.margin
    amplitude = np.sqrt(weight**2 * clip_norm**2 + 6 * std**2) * (1 + margin)
    strong = seen.gain >= 4.5 * amplitude / np.sqrt(10 ** (power_dbm / 10))
    assert 0.02 < np.mean(~strong) < 0.98
    np.testing.assert_array_equal(seen.alignment, (strong & seen.taking_part).astype(float))
    np.testing.assert_array_equal(seen.any_signal, (strong & seen.taking_part).any(axis=-1))
    np.testing.assert_allclose(seen.scale, seen.alignment * 4.5 / seen.gain, rtol=1e-12)


@pytest.mark.parametrize("path", ["fast", "full"])
@pytest.mark.parametrize("cover_noise", [False, True])
def test_without_noise_the_estimate_is_a_plain_weighted_sum_of_who_takes_part(path, cover_noise):
    network = unlike_devices(FADING, cover_noise=cover_noise)
    network = replace(network, devices=replace(network.devices, noise_std=0.0))
    z = latents(network, 2)
    seen = receive(z, network, rng=np.random.default_rng(5), trials=40, path=path)
    for n, t in product(range(2), range(40)):
        total = np.zeros(6)
        for k in range(3):
            limit = network.devices.column("clip_norm")[k]
            shorter = z[n, k] * min(1.0, limit / np.linalg.norm(z[n, k]))
            aligned = seen.alignment[n, t, k] * seen.taking_part[n, t, k]
            total += aligned * network.devices.column("weight")[k] * shorter
        np.testing.assert_allclose(seen.estimate[n, t], total, atol=1e-12)
    assert {0.0, 1.0} == set(np.unique(seen.alignment))


CASES = {
    "perfect channel": (PERFECT, {}),
    "cover noise": (PERFECT, {"cover_noise": True}),
    "fading": (FADING, {}),
    "fading, cover noise, receiver noise": (FADING | NOISY, {"cover_noise": True}),
    "fading, orthogonal, receiver noise": (FADING | NOISY | {"access": "orthogonal"}, {}),
    "backoff": (FADING | NOISY | {"power_rule": "backoff"}, {}),
    "backoff, gains and phases unknown": (FADING | UNKNOWN | {"power_rule": "backoff"}, {}),
    "gains and phases unknown, cover noise": (FADING | NOISY | UNKNOWN, {"cover_noise": True}),
    "gains and phases unknown, orthogonal": (FADING | NOISY | UNKNOWN | {"access": "orthogonal"}, {}),
}


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def network(request):
    channel, fields = request.param
    return unlike_devices(channel, **fields)


@pytest.mark.parametrize("path", ["fast", "full"])
def test_around_the_aligned_sum_the_noise_is_gaussian_of_the_variance_in_the_spec(network, path):
    """(ẑ − Σ τ g w z)/√v is standard normal, v = Σ g²σ² + σ_m²/γ²: whatever the alignments were.

    Under errors g is complex and turns z, and v has |g|².
    """
    trials, z = 8_000, latents(network)
    seen = receive(z, network, rng=np.random.default_rng(6), trials=trials, path=path)
    weight, std = columns(network, "weight", "noise_std")
    g, kept = seen.alignment[0], clipped(z, network.devices.column("clip_norm"))[0]
    mean, power = (g * seen.taking_part[0] * weight) @ kept, g**2
    if seen.sent.quadrature is not None:
        turned = g + 1j * seen.sent.quadrature[0]
        mean = unpack((turned * seen.taking_part[0] * weight) @ pack(kept), 6)
        power = np.abs(turned) ** 2
    receivers = 1 if network.channel.access == "superposed" else (g != 0).sum(axis=-1)
    variance = power @ std**2 + (network.channel.noise_std / link_of(network).gamma) ** 2 * receivers
    heard = variance > 0
    assert heard.mean() > 0.5
    u = (seen.estimate[0] - mean)[heard] / np.sqrt(variance[heard])[:, None]
    assert stats.kstest(u.ravel(), "norm").pvalue > LEAST_P
    # Independent from one coordinate and from one inference to the next, and of who is aligned.
    np.testing.assert_allclose(np.cov(u.T), np.eye(6), atol=SIGMAS * math.sqrt(2 / len(u)))
    assert abs(np.mean(u[1:] * u[:-1])) < SIGMAS / math.sqrt(u[1:].size)
    assert np.abs(np.mean(u[:, :1] * (g[heard] - g.mean(axis=0)), axis=0)).max() < SIGMAS / math.sqrt(len(u))
    np.testing.assert_array_equal(seen.estimate[0][~heard], mean[~heard])


def test_both_paths_agree_in_distribution(network):
    trials, z = 8_000, latents(network)
    fast = receive(z, network, rng=np.random.default_rng(8), trials=trials)
    full = receive(z, network, rng=np.random.default_rng(9), trials=trials, path="full")
    same_law(fast.estimate[0], full.estimate[0])
    # The fast path knows the power's mean over the noise only.
    for name in ("taking_part", "gain", "alignment", "power", "scale", "any_signal"):
        same_mean(*(getattr(x, name)[0].astype(float) for x in (fast, full)))


def same_mean(a: Any, b: Any) -> None:
    error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / len(a))
    np.testing.assert_array_less(np.abs(a.mean(axis=0) - b.mean(axis=0)), SIGMAS * error + 1e-12)


def same_law(a: Any, b: Any) -> None:
    """Means, covariances, and whole laws along some directions."""
    same_mean(a, b)
    centred = [x - x.mean(axis=0) for x in (a, b)]
    same_mean(*(x[:, :, None] * x[:, None, :] for x in centred))
    for direction in np.random.default_rng(10).standard_normal((4, a.shape[1])):
        assert stats.ks_2samp(a @ direction, b @ direction).pvalue > LEAST_P


def test_a_wrong_law_would_be_seen():
    rng = np.random.default_rng(11)
    a, b = rng.standard_normal((2, 8_000, 6))
    same_law(a, b)
    for wrong in (b + 0.1, b * 1.1, b @ (np.eye(6) + 0.1 * np.eye(6, k=1))):
        with pytest.raises(AssertionError):
            same_law(a, wrong)


def test_devices_draw_their_noise_independently_of_each_other():
    """The noise of each device is what is heard when all others have none: they add up to the whole, uncorrelated."""
    network, trials = unlike_devices(), 4_000
    network = replace(network, devices=replace(network.devices, participation=1.0))
    zeros = np.zeros((1, 3, 6))

    def heard(noise_std: tuple[float, ...]) -> Any:
        alone = replace(network, devices=replace(network.devices, noise_std=noise_std))
        return receive(zeros, alone, rng=np.random.default_rng(12), trials=trials, path="full").estimate[0]

    std = network.devices.column("noise_std")
    each = np.stack([heard(tuple(s * (j == k) for j, s in enumerate(std))) for k in range(3)])
    np.testing.assert_allclose(each.sum(axis=0), heard(std), atol=1e-12)
    correlation = np.corrcoef(each.reshape(3, -1))
    np.testing.assert_allclose(correlation, np.eye(3), atol=SIGMAS / math.sqrt(trials * 6))
    np.testing.assert_allclose(each.std(axis=(1, 2)), std, rtol=SIGMAS / math.sqrt(2 * trials * 6))


def test_on_the_full_path_every_device_draws_coin_and_noise_from_a_generator_of_its_own(monkeypatch):
    used: dict[str, list[Any]] = {"uniform": [], "standard_normal": []}
    for name, generators in used.items():
        honest = getattr(draws, name)

        def noted(rng: Any, *args: Any, honest: Any = honest, generators: Any = generators, **kwargs: Any) -> Any:
            generators.append(rng)
            return honest(rng, *args, **kwargs)

        monkeypatch.setattr(draws, name, noted)
    for rng, lib in ((np.random.default_rng(30), np.asarray), (torch.Generator().manual_seed(30), torch.from_numpy)):
        for generators in used.values():
            generators.clear()
        receive(lib(latents(unlike_devices())), unlike_devices(NOISY), rng=rng, path="full")
        *noise, receiver = used["standard_normal"]
        assert [id(x) for x in used["uniform"]] == [id(x) for x in noise]
        assert len({id(x) for x in (rng, receiver, *noise)}) == 5


def test_devices_decide_independently_of_each_other(network):
    p = np.array(network.devices.column("participation"))
    for path in ("fast", "full"):
        seen = receive(latents(network), network, rng=np.random.default_rng(13), trials=8_000, path=path)
        coins = seen.taking_part[0].astype(float)
        np.testing.assert_allclose(coins.mean(axis=0), p, atol=SIGMAS * 0.5 / math.sqrt(8_000))
        np.testing.assert_allclose(np.cov(coins.T), np.diag(p * (1 - p)), atol=SIGMAS * 0.5 / math.sqrt(8_000))


def test_every_call_draws_afresh_and_the_same_seed_draws_the_same():
    network = unlike_devices(FADING | NOISY)
    z = latents(network)
    for path in ("fast", "full"):
        rng = np.random.default_rng(14)
        first, second = (receive(z, network, rng=rng, path=path).estimate for _ in range(2))
        again = receive(z, network, rng=np.random.default_rng(14), path=path).estimate
        assert not np.any(first == second)
        np.testing.assert_array_equal(first, again)
        seeded = torch.Generator().manual_seed(14)
        third, fourth = (receive(torch.from_numpy(z), network, rng=seeded, path=path).estimate for _ in range(2))
        assert not bool((third == fourth).any())


def test_no_global_generator_is_touched():
    network, z = unlike_devices(FADING | NOISY), torch.zeros(1, 3, 6)

    def states() -> list[str]:
        return [str(torch.get_rng_state().tolist()), str(np.random.get_state())]  # noqa: NPY002

    before = states()
    for path in ("fast", "full"):
        receive(z, network, rng=torch.Generator().manual_seed(1), path=path)
        receive(z.numpy(), network, rng=np.random.default_rng(1), path=path)
    assert states() == before


# --- power ---


def full_features(network: Network) -> Any:
    """Everybody as loud as clipping allows."""
    return 2 * np.array(network.devices.column("clip_norm"))[:, None] * np.eye(3, 6)[None]


def mean_power(network: Network) -> Any:
    """E‖x‖² of each device with a full feature: by the moments of fading, or by plain draws where the noise decides."""
    link, p = link_of(network), np.array(network.devices.column("participation"))
    sent, rule = link.transmitters, network.channel.power_rule
    noise = sent.dimension * sent.noise_std**2
    if rule in ("truncate", "backoff"):
        square = p * (sent.feature_norm**2 + noise) + (1 - p) * noise * network.cover_noise
        return link.gamma**2 * alignment(network, link).inverse_square * square
    rng, count = np.random.default_rng(99), 400_000
    gain = fading.sample_gains(link.fading, (count, 3), rng)
    error = network.channel.csi_error_std / math.sqrt(2) * rng.standard_normal((2, count, 3))
    estimate = np.hypot(gain + error[0], error[1])
    n = sent.noise_std[:, None] * rng.standard_normal((count, 3, sent.dimension))
    signal = n + sent.feature_norm[:, None] * np.eye(3, sent.dimension)
    length = np.linalg.norm(signal, axis=-1)
    looked_at = np.hypot(np.linalg.norm(n, axis=-1), sent.feature_norm)
    scale = np.minimum(link.gamma / estimate, np.sqrt(sent.power_max) / looked_at)
    return p * np.mean((scale * length) ** 2, axis=0)


@pytest.mark.parametrize("rule", ["truncate", "backoff", "paper"])
@pytest.mark.parametrize("fading_model", ["none", "rician"])
def test_power_is_on_average_what_the_laws_of_fading_and_noise_say(rule, fading_model):
    network = unlike_devices({"fading": fading_model, "gamma": 4.5, "power_rule": rule, "csi_error_std": 0.1})
    expected = mean_power(network)
    for path in ("full",) if rule == "paper" else ("fast", "full"):
        seen = receive(full_features(network), network, rng=np.random.default_rng(15), trials=6_000, path=path)
        power = seen.power[0]
        error = power.std(axis=0) / math.sqrt(6_000)
        np.testing.assert_array_less(np.abs(power.mean(axis=0) - expected), SIGMAS * error)
        np.testing.assert_allclose(seen.energy, seen.power.sum(axis=-1))


def test_cover_noise_costs_the_power_of_the_noise():
    network = unlike_devices(FADING, cover_noise=True)
    expected = mean_power(network)
    for path in ("fast", "full"):
        power = receive(full_features(network), network, rng=np.random.default_rng(16), trials=6_000, path=path).power[
            0
        ]
        error = power.std(axis=0) / math.sqrt(6_000)
        np.testing.assert_array_less(np.abs(power.mean(axis=0) - expected), SIGMAS * error)


@pytest.mark.parametrize("rule", ["truncate", "paper"])
def test_only_the_papers_rule_tells_a_feature_from_none_by_exceeding_the_limit(rule):
    network = unlike_devices({"fading": "rician", "gamma": 8.0, "power_rule": rule})
    limit = np.array([10.0**2.0, 10.0**2.3, 10.0**1.7])
    for feature in (full_features(network), np.zeros((1, 3, 6))):
        seen = receive(feature, network, rng=np.random.default_rng(17), trials=5_000, path="full")
        exceeds = seen.power > limit * (1 + 1e-9)
        assert np.all(seen.alignment <= 1)
        if rule == "paper":
            limited = (seen.alignment > 0) & (seen.alignment < 1)
            wanted = 0.5 if feature.any() else 0.0
            assert abs(np.mean(exceeds[limited]) - wanted) <= SIGMAS * 0.5 / math.sqrt(limited.sum()) * (wanted > 0)
        else:
            # The margin of truncate lets a device that is exactly at its limit exceed it once in 1,000.
            assert np.mean(exceeds) <= 1e-3


def test_outage_happens_as_often_as_predicted():
    network = unlike_devices(FADING)
    outage = link_of(network).outage
    assert outage.max() == pytest.approx(0.2)
    for path in ("fast", "full"):
        seen = receive(latents(network), network, rng=np.random.default_rng(18), trials=20_000, path=path)
        for k in range(3):
            took_part = seen.taking_part[0, :, k]
            silent = np.mean(seen.alignment[0, took_part, k] == 0)
            error = math.sqrt(outage[k] * (1 - outage[k]) / took_part.sum())
            assert abs(silent - outage[k]) < SIGMAS * error + 1e-9


# --- NumPy and torch ---


@pytest.fixture
def torch_with_numpys_numbers(monkeypatch):
    """Draws by NumPy, handed to torch: both libraries then compute with the same numbers."""
    for module, name in (
        (draws, "standard_normal"),
        (draws, "uniform"),
        (draws, "ones"),
        (fading, "standard_normal"),
        (fading, "ones"),
    ):
        numpys = getattr(module, name)

        def torchs(rng: Any, shape: Any, *, dtype: Any = None, numpys: Any = numpys) -> Any:
            return torch.from_numpy(numpys(rng, shape)).to(dtype)

        monkeypatch.setattr(module, name, torchs)


def everything(network: Network, z: Any, path: Any) -> dict[str, Any]:
    seen = receive(z, network, rng=np.random.default_rng(19), trials=20, path=path)
    return {
        name: getattr(seen, name)
        for name in ("estimate", "taking_part", "gain", "alignment", "scale", "power", "energy", "any_signal")
    }


@pytest.mark.parametrize(
    ("path", "rule"),
    [*product(("fast", "full"), ("truncate", "backoff")), ("full", "paper")],
)
def test_numpy_and_torch_compute_the_same(request, path, rule):
    network = unlike_devices(FADING | NOISY | UNKNOWN | {"power_rule": rule, "gamma": 4.5})
    z = latents(network, 5)
    ours = everything(network, z, path)
    request.getfixturevalue("torch_with_numpys_numbers")
    for name, theirs in everything(network, torch.from_numpy(z), path).items():
        assert isinstance(theirs, torch.Tensor)
        np.testing.assert_allclose(theirs.numpy(), ours[name], rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("path", ["fast", "full"])
def test_torchs_own_numbers_have_the_same_law(network, path):
    z = latents(network)
    ours = receive(z, network, rng=np.random.default_rng(20), trials=8_000, path=path)
    theirs = receive(torch.from_numpy(z), network, rng=torch.Generator().manual_seed(20), trials=8_000, path=path)
    same_law(ours.estimate[0], theirs.estimate[0].numpy())
    for name in ("taking_part", "gain", "alignment", "power"):
        same_mean(*(np.asarray(getattr(x, name)[0], dtype=float) for x in (ours, theirs)))


@pytest.mark.parametrize("path", ["fast", "full"])
def test_single_precision_stays_single(path):
    network = unlike_devices(FADING | NOISY | UNKNOWN, cover_noise=True)
    z = latents(network).astype(np.float32)
    for values, rng in ((z, np.random.default_rng(21)), (torch.from_numpy(z), torch.Generator().manual_seed(21))):
        seen = receive(values, network, rng=rng, trials=3, path=path)
        for name in ("estimate", "gain", "alignment", "scale", "power"):
            assert getattr(seen, name).dtype == values.dtype


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("path", ["fast", "full"])
def test_cuda_has_the_same_law(network, path):
    z = latents(network)
    ours = receive(z, network, rng=np.random.default_rng(22), trials=8_000, path=path)
    rng = torch.Generator("cuda").manual_seed(22)
    theirs = receive(torch.from_numpy(z).cuda(), network, rng=rng, trials=8_000, path=path)
    assert theirs.estimate.device.type == theirs.alignment.device.type == "cuda"
    same_law(ours.estimate[0], theirs.estimate[0].cpu().numpy())
    for name in ("taking_part", "gain", "alignment", "power"):
        same_mean(np.asarray(getattr(ours, name)[0], dtype=float), getattr(theirs, name)[0].cpu().double().numpy())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_clipping_on_cuda_never_exceeds_either(dtype):
    z = torch.randn(4, 3, 25_088, dtype=dtype, device="cuda") * 1e3
    out = clipped(z, [1.0, 0.1, 30.0]).double().cpu()
    assert bool((torch.linalg.vector_norm(out, dim=-1) <= torch.tensor([1.0, 0.1, 30.0])).all())


# --- any size ---


@pytest.mark.parametrize(("objects", "count", "dimension", "trials"), [(1, 1, 1, 1), (3, 1, 5, 2), (2, 40, 1, 7)])
@pytest.mark.parametrize("path", ["fast", "full"])
def test_any_number_of_objects_devices_coordinates_and_trials_will_do(objects, count, dimension, trials, path):
    network = Network.uniform(num_devices=count, dimension=dimension, participation=0.5, channel=Channel(**FADING))
    seen = receive(latents(network, objects), network, rng=np.random.default_rng(23), trials=trials, path=path)
    assert seen.estimate.shape == (objects, trials, dimension)
    assert seen.taking_part.shape == seen.alignment.shape == seen.power.shape == (objects, trials, count)
    assert seen.any_signal.shape == seen.energy.shape == (objects, trials)


@pytest.mark.parametrize("path", ["fast", "full"])
@pytest.mark.parametrize("other", [{}, {"access": "orthogonal"}, {"csi_error_std": 0.1}])
@pytest.mark.parametrize("dimension", [1, 3, 4])
def test_the_estimate_has_as_many_coordinates_as_a_latent_whatever_is_sent(dimension, other, path):
    channel = Channel(fading="rayleigh", antennas=2, **other)
    network = Network.uniform(num_devices=3, dimension=dimension, noise_std=0.1, channel=channel)
    seen = receive(latents(network, 2), network, trials=5, rng=np.random.default_rng(0), path=path)
    assert seen.estimate.shape == (2, 5, dimension)


def test_only_the_strongest_channel_speaks_where_asked():
    network = unlike_devices(FADING)
    for path in ("fast", "full"):
        seen = receive(latents(network), network, rng=np.random.default_rng(24), trials=300, path=path, only_best=True)
        spoken = np.argwhere(seen.alignment[0] > 0)
        assert len(np.unique(spoken[:, 0])) == len(spoken) > 100
        np.testing.assert_array_equal(seen.gain[0].argmax(axis=-1)[spoken[:, 0]], spoken[:, 1])


@given(objects=st.integers(1, 50), trials=st.integers(1, 50), batch=st.integers(1, 200))
def test_batches_cover_every_trial_of_every_object_once(objects, trials, batch):
    done = np.zeros(objects, dtype=int)
    for rows, times in in_batches(np.zeros((objects, 1, 1)), trials=trials, batch=batch):
        assert (rows.stop - rows.start) * times <= batch
        done[rows] += times
    assert (done == trials).all()


@pytest.mark.parametrize("path", ["fast", "full"])
def test_memory_does_not_grow_with_the_number_of_trials(path):
    network = Network.uniform(num_devices=12, dimension=64, participation=0.9, channel=Channel(**FADING))
    z, link = latents(network, 2), link_of(network)

    def peak(trials: int) -> int:
        tracemalloc.start()
        for rows, times in in_batches(z, trials=trials, batch=500):
            receive(z[rows], network, rng=np.random.default_rng(25), trials=times, path=path, link=link)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(250)
    assert peak(10_000) < 1.1 * peak(250)


@pytest.mark.parametrize("path", ["fast", "full"])
@pytest.mark.parametrize("grown", ["devices", "dimension"])
def test_ten_times_the_devices_or_coordinates_are_at_most_ten_times_the_work(path, grown):
    def done(factor: int) -> int:
        count, r = (16 * factor, 64) if grown == "devices" else (16, 64 * factor)
        network = Network.uniform(num_devices=count, dimension=r, participation=0.9)
        z, link, rng = torch.from_numpy(latents(network)), link_of(network), torch.Generator().manual_seed(26)
        return work(lambda: receive(z, network, rng=rng, trials=20, path=path, link=link))

    assert done(1) < done(10) <= 10 * done(1)


def test_a_rule_that_looks_at_the_noise_takes_the_full_path_by_itself():
    network = unlike_devices({"fading": "rician", "gamma": 8.0, "power_rule": "paper"})
    assert not has_shortcut(network)
    paths: tuple[dict[str, Any], ...] = ({}, {"path": "fast"}, {"path": "full"})
    by_default, asked, full = (
        receive(latents(network, 2), network, rng=np.random.default_rng(30), trials=5, **how) for how in paths
    )
    assert np.any(full.alignment[full.alignment > 0] < 1)
    for each in (by_default, asked):
        np.testing.assert_array_equal(each.estimate, full.estimate)
        np.testing.assert_array_equal(each.power, full.power)
    assert Simulation().path == inspect.signature(receive).parameters["path"].default == "fast"


# --- bad input ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latents": np.zeros((3, 6))}, r"latents has shape \(3, 6\), must be \(objects, 3 devices, 6 coordinates\)"),
        ({"latents": np.zeros((1, 2, 6))}, r"latents has shape \(1, 2, 6\), must be"),
        ({"latents": np.zeros((1, 3, 5))}, r"latents has shape \(1, 3, 5\), must be"),
        ({"latents": np.zeros((0, 3, 6))}, "latents has no objects, must have at least one"),
        ({"latents": np.zeros((1, 3, 6), dtype=int)}, "latents has type int64, must be real floating numbers"),
        ({"latents": np.zeros((1, 3, 6)) + 1j}, "latents has type complex128, must be real floating numbers"),
        ({"latents": torch.zeros(1, 3, 6)}, r"rng of type Generator must be a torch.Generator\(cpu\)"),
        ({"rng": torch.Generator()}, "rng of type Generator must be a numpy.random.Generator"),
        ({"rng": 0}, "rng=0 must be a numpy.random.Generator or a torch.Generator"),
        ({"trials": 0}, "trials=0 must be >= 1"),
        ({"path": "short"}, "path='short' must be fast or full"),
        ({"network": unlike_devices(scheme=Threshold())}, "scheme 2.1 needs scores"),
        ({"network": unlike_devices({"gamma": 1e6})}, "channel.gamma=1e.06 is beyond the power of device"),
    ],
)
def test_bad_input_is_named(change, message):
    given: dict[str, Any] = {
        "latents": np.zeros((1, 3, 6)),
        "network": unlike_devices(),
        "rng": np.random.default_rng(27),
    }
    with pytest.raises(ValueError, match=message) as caught:
        receive(**(given | change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("gamma", [0.0, -1.0, math.nan, math.inf])
def test_gamma_must_be_positive(gamma):
    with pytest.raises(ValueError, match=r"channel.gamma=.* must be > 0 and finite"):
        Channel(gamma=gamma)


def test_a_channel_of_gain_zero_is_silence(monkeypatch):
    network = unlike_devices({"power_rule": "backoff"})
    monkeypatch.setattr(simulation, "sample_gains", lambda law, shape, rng, dtype: np.zeros(shape))
    for path in ("fast", "full"):
        seen = receive(latents(network), network, rng=np.random.default_rng(28), trials=5, path=path)
        assert not seen.any_signal.any()
        assert not seen.estimate.any()
        assert not seen.power.any()


def test_a_radio_that_is_known_is_not_found_again(monkeypatch):
    network = unlike_devices(FADING)
    link = link_of(network)
    monkeypatch.setattr(simulation, "link_of", lambda _: pytest.fail("the link was given"))
    for path in ("fast", "full"):
        receive(latents(network), network, rng=np.random.default_rng(29), path=path, link=link)
    assert isinstance(link.transmitters, Transmitters)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("r", [40, 25_088])
def test_half_precision_is_clipped_in_single_precision(dtype, r):
    z = torch.randn((2, 3, r), generator=torch.Generator().manual_seed(0)).to(dtype)
    out = clipped(z, [1.0, 0.5, 2.0])
    assert out.dtype == torch.float32
    assert (out.double().norm(dim=-1) <= torch.tensor([1.0, 0.5, 2.0])).all()
    along = (out.double() * z.double()).sum(-1)
    assert (along > 0).all()
    network = Network.uniform(num_devices=3, noise_std=0.1, dimension=r)
    received = receive(z, network, rng=torch.Generator().manual_seed(1))
    assert received.estimate.dtype == torch.float32


@given(arrays(np.float64, (1, 2, 3), elements=st.floats(width=64)))
def test_no_feature_raises_however_strict_the_arithmetic(z):
    network = Network.uniform(num_devices=2, noise_std=0.1, dimension=3)
    with np.errstate(all="raise"):
        clipped(z, [1.0, 1e-3])
        receive(z, network, rng=np.random.default_rng(0))


@pytest.mark.parametrize("unit", [1e-25, 1e-22, 1e22])
def test_signals_whose_squares_do_not_fit_their_type_are_refused(unit):
    network = Network.uniform(num_devices=3, noise_std=0.1 * unit, weight=unit / 3, dimension=4)
    z = torch.ones(1, 3, 4)
    with pytest.raises(ValueError, match=r"their squares do not fit torch.float32; give float64 latents"):
        receive(z, network, rng=torch.Generator().manual_seed(0))
    same = Network.uniform(num_devices=3, noise_std=0.1, weight=1 / 3, dimension=4)
    got, wanted = (
        receive(z.double(), each, rng=torch.Generator().manual_seed(0), trials=4) for each in (network, same)
    )
    torch.testing.assert_close(got.estimate / unit, wanted.estimate)
    torch.testing.assert_close(got.energy, wanted.energy)
