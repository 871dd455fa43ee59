"""The four power rules: who is heard, how loud, how often a limit is exceeded, and what that is on average."""

from itertools import product
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import chndtr, exp1, gammaincc, ndtr

from airpool.radio.fading import Fading, cdf, sample_gains
from airpool.radio.link import auto_gamma, outage_probability
from airpool.radio.moments import alignment_moments
from airpool.radio.power import PEAK_EXCEEDANCE, Transmitters, misalign, peak_margin, transmit

RULES = ("truncate", "backoff", "paper")
FADINGS = [Fading("rician"), Fading("rayleigh"), Fading("none"), Fading("rician", path_loss_db=(0.0, 3.0, 6.0))]
TRIALS = 40_000


def three_devices(**changed: Any) -> Transmitters:
    given: dict[str, Any] = {
        "weight": [0.2, 0.5, 0.3],
        "clip_norm": [1.0, 2.0, 1.0],
        "noise_std": [0.05, 0.1, 0.3],
        "power_dbm": [0.0, 3.0, 6.0],
        "dimension": 16,
    }
    return Transmitters.of(**(given | changed))


def norms(devices, trials, rng):
    """‖n‖ and ‖wz + n‖ of full features, by the direction of the feature and all others."""
    n = rng.standard_normal((trials, devices.num_devices, devices.dimension)) * devices.noise_std[:, None]
    signal = n.copy()
    signal[..., 0] += devices.feature_norm
    return np.linalg.norm(n, axis=-1), np.linalg.norm(signal, axis=-1)


def energy(fading, devices, **options):
    """E‖x‖² of each device in one inference, in mW · channel uses, under truncate and backoff."""
    inverse = alignment_moments(fading, devices, **options).inverse_square
    return options["gamma"] ** 2 * inverse * devices.amplitude**2


def plainly(devices, h, gamma, rule, *, noise_norm, signal_norm):
    """g and ‖x‖² of one device in one inference, as docs/theory/air.md has them."""
    w_c, std, p, r = devices
    if rule == "paper":
        alpha = min(gamma / h, p**0.5 / (w_c**2 + noise_norm**2) ** 0.5)
    else:
        amplitude = (w_c**2 + r * std**2) ** 0.5 * (1 + peak_margin(r))
        alpha = min(gamma / h, p**0.5 / amplitude)
        if rule == "truncate" and h < gamma * amplitude / p**0.5:
            alpha = 0.0
    return h * alpha / gamma, (alpha * signal_norm) ** 2


# --- one inference ---


@pytest.mark.parametrize("rule", RULES)
def test_alignment_and_power_are_those_of_a_plain_loop(rule):
    devices, rng, gamma = three_devices(), np.random.default_rng(1), 0.9
    h = sample_gains(Fading("rician"), (50, 3), rng)
    noise, signal = norms(devices, 50, rng)
    sent = transmit(devices, h, gamma=gamma, rule=rule, noise_norm=noise)
    power = (sent.scale * signal) ** 2
    for b, k in product(range(50), range(3)):
        one = devices.feature_norm[k], devices.noise_std[k], 10 ** (0.3 * k), 16
        g, x = plainly(one, h[b, k], gamma, rule, noise_norm=noise[b, k], signal_norm=signal[b, k])
        assert sent.alignment[b, k] == pytest.approx(g, rel=1e-12)
        assert power[b, k] == pytest.approx(x, rel=1e-12)
    assert 0 < np.mean(sent.alignment == 1) < 1


@pytest.mark.parametrize("rule", RULES)
def test_numpy_and_torch_agree(rule):
    devices, rng = three_devices(), np.random.default_rng(2)
    h = sample_gains(Fading("rician"), (64, 3), rng)
    noise, _ = norms(devices, 64, rng)
    taking_part, normals = rng.random((64, 3)) < 0.8, rng.standard_normal((3, 64, 3))
    sent = []
    for lib in (np.asarray, torch.from_numpy):
        off = misalign(lib(h), lib(normals), csi_error_std=0.1, phase_error_std=0.1)
        part = transmit(
            devices,
            lib(h),
            gamma=0.9,
            rule=rule,
            taking_part=lib(taking_part),
            misalignment=off,
            noise_norm=lib(noise),
        )
        sent.append(part)
    assert isinstance(sent[1].scale, torch.Tensor)
    for name in ("scale", "alignment"):
        np.testing.assert_allclose(getattr(sent[1], name).numpy(), getattr(sent[0], name), rtol=1e-12, atol=1e-15)
    assert (sent[0].alignment[~taking_part] == 0).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("rule", RULES)
def test_cuda_agrees_with_numpy(rule):
    devices, rng = three_devices(), np.random.default_rng(3)
    h = sample_gains(Fading("rician"), (64, 3), rng)
    noise, _ = norms(devices, 64, rng)
    ours = transmit(devices, h, gamma=0.9, rule=rule, noise_norm=noise)
    there, n = (torch.from_numpy(x).cuda() for x in (h, noise))
    theirs = transmit(devices, there, gamma=0.9, rule=rule, noise_norm=n)
    assert theirs.alignment.device.type == "cuda"
    np.testing.assert_allclose(theirs.alignment.cpu().numpy(), ours.alignment, rtol=1e-12)


def test_with_auto_gamma_and_no_fading_everybody_is_heard_in_either_precision():
    devices = three_devices(noise_std=[0.07, 0.13, 0.31])
    gamma = auto_gamma(Fading("none"), devices)
    for ones in (np.ones((1, 3)), np.ones((1, 3), dtype=np.float32), torch.ones(1, 3)):
        assert bool((transmit(devices, ones, gamma=gamma).alignment == 1).all())


def test_a_gain_of_zero_is_silence_under_every_rule():
    devices, zero = three_devices(), np.zeros((2, 3))
    for rule in RULES:
        sent = transmit(devices, zero, gamma=1.0, rule=rule, noise_norm=zero + 1)
        assert not sent.alignment.any()
        assert not sent.scale.any()


def test_a_device_with_nothing_to_send_is_aligned_and_sends_nothing():
    devices = three_devices(weight=[0.0, 1.0, 1.0], noise_std=[0.0, 0.1, 0.1])
    for rule in RULES:
        sent = transmit(
            devices,
            np.full((1, 3), 0.1),
            gamma=5.0,
            rule=rule,
            noise_norm=np.zeros((1, 3)),
        )
        assert sent.alignment[0, 0] == 1
    assert outage_probability(Fading("rayleigh"), devices, gamma=5.0)[0] == 0
    assert energy(Fading("rayleigh"), devices, gamma=5.0)[0] == 0


@given(
    h=arrays(np.float64, (4, 3), elements=st.floats(0, 1e3)),
    gamma=st.floats(1e-6, 1e6),
    rule=st.sampled_from(RULES),
    norm=arrays(np.float64, (4, 3), elements=st.floats(0, 1e3)),
)
def test_alignment_stays_between_silence_and_one(h, gamma, rule, norm):
    sent = transmit(three_devices(), h, gamma=gamma, rule=rule, noise_norm=norm)
    assert ((sent.alignment >= 0) & (sent.alignment <= 1)).all()
    np.testing.assert_allclose(h * sent.scale, gamma * sent.alignment, rtol=1e-12, atol=1e-300)
    if rule == "truncate":
        assert np.isin(sent.alignment, (0, 1)).all()


def test_a_wrong_estimate_arrives_too_loud_or_too_weak_and_a_phase_error_as_its_cosine():
    devices, h = three_devices(), np.ones((1, 3))
    normals = np.zeros((3, 1, 3))
    normals[0] = [[1.0, -1.0, 0.0]]
    normals[2] = [[0.0, 0.0, 1.0]]
    off = misalign(h, normals, csi_error_std=0.1 * 2**0.5, phase_error_std=0.5)
    sent = transmit(devices, h, gamma=0.01, misalignment=off)
    np.testing.assert_allclose(sent.alignment, [[1 / 1.1, 1 / 0.9, np.cos(0.5)]])
    np.testing.assert_allclose(sent.aim * off.magnitude, [[1 / 1.1, 1 / 0.9, 1.0]])


# --- the peak ---


def exceedance(devices, *, rule="truncate", gamma=1.0, gain=0.0):
    """Pr(‖x‖² > P) of each device over the noise, for a full feature, ‖z‖ = C; by default at its power limit.

    truncate, backoff: Pr(‖wz+n‖ > b), a noncentral χ²_r tail; b = max(h√P/γ, √(w²C² + rσ²)(1+margin))
    paper: Pr(‖wz+n‖ > h√P/γ and zᵀn > 0), ½ at the limit
    """
    limit, f, std = devices.amplitude * (1 + devices.margin), devices.feature_norm, devices.noise_std
    aligned = gain * np.sqrt(devices.power_max) / gamma
    silent = (gain > 0) & (rule == "truncate") & (aligned < limit)
    noisy = np.where(std > 0, std, 1.0)
    if rule == "paper":
        p = np.where(f > 0, half_tail(np.broadcast_to(aligned, f.shape) / noisy, f / noisy, devices.dimension), 0.0)
    else:
        p = 1 - chndtr((np.maximum(aligned, limit) / noisy) ** 2, devices.dimension, (f / noisy) ** 2)
    return np.where((std > 0) & ~silent, np.clip(p, 0, 1), 0.0)


def half_tail(b, f, r):
    """Pr((f+u)² + χ²_{r−1} > b², u > 0), u ~ N(0, 1): u is the noise along the feature."""
    if r == 1:
        return ndtr(-np.maximum(b - f, 0.0))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    u, du = 5 * (nodes + 1), 5 * weights * np.exp(-((5 * (nodes + 1)) ** 2) / 2) / np.sqrt(2 * np.pi)
    left = np.maximum(b[..., None] ** 2 - (f[..., None] + u) ** 2, 0.0)
    return gammaincc((r - 1) / 2, left / 2) @ du


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("margin", [0.0, 0.1, None])
def test_the_peak_is_exceeded_as_often_as_predicted(rule, margin):
    devices, rng, gamma = three_devices(margin=margin), np.random.default_rng(5), 1.0
    noise, signal = norms(devices, TRIALS, rng)
    at_limit = exceedance(devices, rule=rule)
    for gain in (0.3, 0.6, 0.8, 0.9, 1.0, 1.1, 1.5):
        h = np.full((TRIALS, 3), gain)
        sent = transmit(devices, h, gamma=gamma, rule=rule, noise_norm=noise)
        exceeded = np.mean((sent.scale * signal) ** 2 > devices.power_max, axis=0)
        p = exceedance(devices, rule=rule, gamma=gamma, gain=h[0])
        np.testing.assert_array_less(np.abs(exceeded - p), 4 * np.sqrt(p * (1 - p) / TRIALS) + 1e-12)
        assert (p <= at_limit + 1e-12).all()


def test_under_the_papers_rule_a_power_limited_device_exceeds_its_peak_every_other_time():
    np.testing.assert_allclose(exceedance(three_devices(), rule="paper"), 0.5, rtol=1e-12)
    assert (exceedance(three_devices(weight=0.0), rule="paper") == 0).all()
    one = three_devices(dimension=1)
    np.testing.assert_allclose(exceedance(one, rule="paper"), 0.5)


@given(r=st.integers(1, 30_000), feature=st.floats(0, 1e3))
def test_the_default_margin_keeps_exceedances_rare_whatever_the_feature(r, feature):
    devices = Transmitters.of(weight=feature, clip_norm=1.0, noise_std=1.0, power_dbm=0.0, dimension=r)
    worst = exceedance(devices)[0]
    assert worst <= PEAK_EXCEEDANCE * (1 + 1e-6)
    if feature == 0:
        assert worst == pytest.approx(PEAK_EXCEEDANCE, rel=1e-6)


def test_without_noise_nothing_is_exceeded():
    devices = three_devices(noise_std=0.0, margin=0.0)
    for rule in RULES:
        assert not exceedance(devices, rule=rule).any()


# --- outage and γ ---


@pytest.mark.parametrize("fading", FADINGS, ids=str)
@pytest.mark.parametrize("csi_error_std", [0.0, 0.2])
def test_outage_is_as_predicted(fading, csi_error_std):
    devices, rng, gamma = three_devices(), np.random.default_rng(6), 0.6
    h = sample_gains(fading, (TRIALS, 3), rng)
    off = misalign(h, rng.standard_normal((3, TRIALS, 3)), csi_error_std=csi_error_std)
    silent = np.mean(transmit(devices, h, gamma=gamma, misalignment=off).scale == 0, axis=0)
    p = outage_probability(fading, devices, gamma=gamma, csi_error_std=csi_error_std)
    np.testing.assert_array_less(np.abs(silent - p), 4 * np.sqrt(p * (1 - p) / TRIALS) + 1e-12)


@given(
    noise_std=st.lists(st.floats(1e-3, 10), min_size=3, max_size=3),
    power_dbm=st.lists(st.floats(-20, 60), min_size=3, max_size=3),
    outage=st.floats(1e-6, 0.9),
    fading=st.sampled_from([*FADINGS, Fading("rician", k_factor_db=15.0)]),
    csi_error_std=st.sampled_from([0.0, 0.1]),
)
def test_auto_gamma_meets_the_target_exactly_and_never_exceeds_it(noise_std, power_dbm, outage, fading, csi_error_std):
    devices = three_devices(noise_std=noise_std, power_dbm=power_dbm)
    gamma = auto_gamma(fading, devices, outage=outage, csi_error_std=csi_error_std)
    p = outage_probability(fading, devices, gamma=gamma, csi_error_std=csi_error_std)
    assert p.max() <= outage
    if fading.model == "none" and csi_error_std == 0:
        assert gamma == devices.reach.min()
        assert p.max() == 0
    else:
        assert p.max() == pytest.approx(outage, rel=1e-9)


def test_at_the_papers_power_devices_fall_silent_when_the_noise_of_a_small_epsilon_is_added():
    """γ = 1, P = 30 dBm, C = 100, r = 784: 5.6 % are silent at the paper's σ² = 0.1, nearly all at σ = 2."""
    for noise_std, silent in ((0.1**0.5, 0.0556), (2.0, 0.9980)):
        devices = Transmitters.of(weight=1 / 12, clip_norm=100.0, noise_std=noise_std, power_dbm=30.0, dimension=784)
        assert outage_probability(Fading("rician"), devices, gamma=1.0)[0] == pytest.approx(silent, abs=1e-4)


# --- averages ---


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("fading", FADINGS, ids=str)
@pytest.mark.parametrize("errors", [(0.0, 0.0), (0.2, 0.3)])
def test_moments_and_energy_are_those_of_a_simulation(rule, fading, errors):
    devices, rng, gamma = three_devices(), np.random.default_rng(7), 0.8
    csi, phase = errors
    h = sample_gains(fading, (TRIALS, 3), rng)
    noise, _ = norms(devices, TRIALS, rng)
    off = misalign(h, rng.standard_normal((3, TRIALS, 3)), csi_error_std=csi, phase_error_std=phase)
    sent = transmit(devices, h, gamma=gamma, rule=rule, misalignment=off, noise_norm=noise)
    expected = alignment_moments(fading, devices, gamma=gamma, rule=rule, csi_error_std=csi, phase_error_std=phase)
    known = off.estimate > 0
    inverse_square = np.where(known, sent.aim / np.where(known, off.estimate, 1.0), 0.0) ** 2
    for measured, value in (
        (sent.alignment, expected.mean),
        (sent.alignment**2, expected.mean_square),
        (inverse_square, expected.inverse_square),
    ):
        # 1e-5: the kink of a rule that looks at a norm, where there is no fading to smooth it.
        tolerance = 4.5 * measured.std(axis=0) / TRIALS**0.5 + 1e-5
        np.testing.assert_array_less(np.abs(measured.mean(axis=0) - value), tolerance)


def test_under_truncation_both_moments_are_the_chance_of_being_heard():
    devices = three_devices()
    for fading in FADINGS:
        heard = 1 - outage_probability(fading, devices, gamma=0.8)
        got = alignment_moments(fading, devices, gamma=0.8)
        np.testing.assert_allclose(got.mean, heard, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(got.mean_square, heard, rtol=1e-10, atol=1e-14)


def test_rayleigh_has_closed_forms():
    devices = Transmitters.of(weight=1, clip_norm=1.0, noise_std=0.0, power_dbm=0.0, dimension=4, margin=0)
    for t in (1e-3, 0.1, 1.0, 4.0):
        got = alignment_moments(Fading("rayleigh"), devices, gamma=t, rule="backoff")
        assert got.mean_square[0] == pytest.approx(-np.expm1(-(t**2)) / t**2, rel=1e-9)
        spent = energy(Fading("rayleigh"), devices, gamma=t)[0]
        assert spent == pytest.approx(t**2 * exp1(t**2), rel=1e-9)


def test_a_phase_error_alone_costs_its_mean_cosine():
    got = alignment_moments(Fading("none"), three_devices(), gamma=0.01, phase_error_std=0.5)
    np.testing.assert_allclose(got.mean, np.exp(-0.125))
    np.testing.assert_allclose(got.mean_square, (1 + np.exp(-0.5)) / 2)


def test_an_unbiased_looking_rayleigh_estimate_shrinks_what_arrives():
    """E[c | ĉ] = ĉ/(1+s²): however strong the signal, 1/(1+s²) of it arrives on average."""
    got = alignment_moments(Fading("rayleigh"), three_devices(), gamma=1e-6, csi_error_std=0.5)
    np.testing.assert_allclose(got.mean, 0.8, rtol=1e-6)


def test_energy_stays_below_the_peak():
    full = energy(Fading("rician"), three_devices(), gamma=0.5)
    assert all(x < 10 ** (limit / 10) for x, limit in zip(full, (0.0, 3.0, 6.0), strict=True))


@pytest.mark.parametrize("model", ["none", "rician", "rayleigh"])
def test_path_loss_is_a_lower_transmit_power(model):
    """h = a·|c|, a = 10^(−L/20): outage, auto γ and moments are those of a power that is L dB lower."""
    loss, power = np.array([0.0, 3.0, 11.0]), np.array([0.0, 3.0, 6.0])
    far, plain = Fading(model, path_loss_db=tuple(loss.tolist())), Fading(model)
    weaker = three_devices(power_dbm=power - loss)
    gamma = auto_gamma(far, three_devices(power_dbm=power))
    assert gamma == pytest.approx(auto_gamma(plain, weaker), rel=1e-12)
    outage = outage_probability(far, three_devices(power_dbm=power), gamma=1.5 * gamma)
    np.testing.assert_allclose(outage, outage_probability(plain, weaker, gamma=1.5 * gamma), rtol=1e-9)
    for rule in RULES:
        ours = alignment_moments(far, three_devices(power_dbm=power), gamma=1.5 * gamma, rule=rule)
        theirs = alignment_moments(plain, weaker, gamma=1.5 * gamma, rule=rule)
        np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-9)
        np.testing.assert_allclose(ours.mean_square, theirs.mean_square, rtol=1e-9)
        np.testing.assert_allclose(ours.inverse_square, theirs.inverse_square * 10 ** (loss / 10), rtol=1e-9)


def test_power_comes_in_dbm():
    np.testing.assert_allclose(three_devices().power_max, [1.0, 10**0.3, 10**0.6])
    assert cdf(Fading("rayleigh"), 1.0) == outage_probability(
        Fading("rayleigh"),
        Transmitters.of(weight=1, clip_norm=1.0, noise_std=0.0, power_dbm=30.0, dimension=4, margin=0),
        gamma=1000**0.5,
    )


# --- bad input ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: three_devices(clip_norm=-1.0), r"clip_norm=-1 must be > 0 and finite"),
        (lambda: three_devices(noise_std=[0.1, np.nan, 1]), r"noise_std\[1\]=nan must be >= 0 and finite"),
        (lambda: three_devices(power_dbm=np.inf), r"power_dbm=inf must be finite"),
        (
            lambda: three_devices(weight=[1.0, 2.0]),
            r"weight has shape \(2,\), must be one number, or one for each of 3",
        ),
        (lambda: three_devices(weight="many"), r"weight='many' must be a number or a list of numbers"),
        (lambda: three_devices(dimension=0), r"dimension=0 must be a whole number >= 1"),
        (lambda: three_devices(margin=-0.5), r"margin=-0.5 must be >= 0"),
        (
            lambda: transmit(three_devices(), np.ones((5, 2)), gamma=1.0),
            r"gain has shape \(5, 2\), must end with the 3",
        ),
        (lambda: transmit(three_devices(), -np.ones(3), gamma=1.0), r"gain\[0\]=-1 must be >= 0"),
        (lambda: transmit(three_devices(), torch.full((1, 3), torch.nan), gamma=1.0), r"gain\[0, 0\]=nan must be >= 0"),
        (lambda: transmit(three_devices(), np.ones(3), gamma=0.0), r"gamma=0 must be > 0 and finite"),
        (lambda: transmit(three_devices(), np.ones(3), gamma=np.nan), r"gamma=nan must be > 0"),
        (lambda: transmit(three_devices(), np.ones(3), gamma=1, rule=cast("Any", "max")), r"rule='max' must be one of"),
        (lambda: transmit(three_devices(), np.ones(3), gamma=1, rule="paper"), r"noise_norm=None must be given"),
        (
            lambda: transmit(three_devices(), np.ones(3), gamma=1, rule="paper", noise_norm=np.ones(2)),
            r"noise_norm has shape \(2,\), must be \(3\)",
        ),
        (
            lambda: transmit(three_devices(), np.ones((2, 3)), gamma=1, taking_part=np.ones(3)),
            r"taking_part has shape \(3\,\), must be \(2, 3\)",
        ),
        (lambda: auto_gamma(Fading(), three_devices(), outage=0.0), r"outage=0 must be > 0 and < 1"),
        (lambda: auto_gamma(Fading(), three_devices(weight=0.0, noise_std=0.0)), r"must have a device that sends"),
        (lambda: alignment_moments(Fading(), three_devices(), gamma=-1), r"gamma=-1 must be > 0"),
        (
            lambda: auto_gamma(Fading(path_loss_db=(0.0, 1.0)), three_devices()),
            r"path_loss_db has 2 values for 3 devices",
        ),
        (
            lambda: outage_probability(Fading(path_loss_db=(0.0, 1.0)), three_devices(), gamma=1),
            r"path_loss_db has 2 values for 3 devices",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
