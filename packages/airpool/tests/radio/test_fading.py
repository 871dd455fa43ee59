"""The gains: their laws, their generators, path loss, and what devices believe about them."""

import subprocess
import sys
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest, rayleigh, rice

from airpool.radio.fading import Fading, cdf, log_distance_loss_db, quantile, sample_gains
from airpool.radio.power import misalign

DRAWS = 40_000
# A fixed seed either passes or not; a p-value below this would say that the law is wrong.
CHANCE = 1e-3
K_FACTORS_DB = (-10.0, 0.0, 4.8, 10.0, 20.0)
LAWS = [*(Fading("rician", k_factor_db=k) for k in K_FACTORS_DB), Fading("rayleigh")]


def scipy_law(fading):
    """The same law as SciPy has it."""
    if fading.model == "rayleigh":
        return rayleigh(scale=0.5**0.5)
    k = 10 ** (fading.k_factor_db / 10)
    return rice((2 * k) ** 0.5, scale=(0.5 / (k + 1)) ** 0.5)


def p_value(gains, law):
    """Of a Kolmogorov-Smirnov test: where they follow a law, its values at the draws are uniform."""
    return kstest(law(np.asarray(gains)), "uniform").pvalue


# --- laws ---


@pytest.mark.parametrize("fading", LAWS, ids=str)
def test_the_law_of_the_gains_is_scipys_and_has_unit_power(fading):
    h = np.linspace(0, 3, 50)
    np.testing.assert_allclose(cdf(fading, h), scipy_law(fading).cdf(h), rtol=1e-9, atol=1e-14)
    power, _ = quad(lambda x: float(x**2 * scipy_law(fading).pdf(x)), 0, 6)
    assert power == pytest.approx(1, rel=1e-6)


def test_rayleigh_is_a_rician_without_a_steady_path():
    h = np.linspace(0, 4, 30)
    np.testing.assert_allclose(cdf(Fading("rayleigh"), h), -np.expm1(-(h**2)), rtol=1e-14)
    np.testing.assert_allclose(cdf(Fading("rician", k_factor_db=-100.0), h), cdf(Fading("rayleigh"), h), rtol=1e-8)


def test_a_strong_steady_path_is_no_fading():
    assert quantile(Fading("rician", k_factor_db=200.0), 0.01) == pytest.approx(1, rel=1e-8)
    assert quantile(Fading("none"), 0.01) == 1.0
    assert cdf(Fading("none"), [0.0, 1.0, np.nextafter(1.0, 2.0)]).tolist() == [0, 0, 1]


def test_the_law_is_continuous_where_its_formula_changes():
    near, far = (Fading("rician", k_factor_db=k) for k in (86.98, 87.0))  # noncentrality just below and above 1e9
    assert quantile(near, 0.01) == pytest.approx(quantile(far, 0.01), rel=1e-6)


@pytest.mark.parametrize("fading", LAWS, ids=str)
@pytest.mark.parametrize("p", [1e-9, 1e-2, 0.5, 0.999])
@pytest.mark.parametrize("csi_error_std", [0.0, 0.2])
def test_the_quantile_inverts_the_law(fading, p, csi_error_std):
    t = quantile(fading, p, csi_error_std=csi_error_std)
    assert cdf(fading, t, csi_error_std=csi_error_std) == pytest.approx(p, rel=1e-9)


# --- draws ---


@pytest.mark.parametrize("fading", LAWS, ids=str)
def test_numpy_gains_follow_the_law(fading):
    h = sample_gains(fading, (DRAWS,), np.random.default_rng(1))
    assert h.dtype == np.float64
    assert p_value(h, scipy_law(fading).cdf) > CHANCE
    assert abs(np.mean(h**2) - 1) < 4 * np.std(h**2) / DRAWS**0.5


@pytest.mark.parametrize("fading", LAWS, ids=str)
def test_torch_gains_follow_the_law(fading):
    h = sample_gains(fading, (DRAWS,), torch.Generator().manual_seed(2), dtype=torch.float64)
    assert isinstance(h, torch.Tensor)
    assert p_value(h, scipy_law(fading).cdf) > CHANCE


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_gains_follow_the_law():
    h = sample_gains(Fading("rician"), (DRAWS,), torch.Generator("cuda").manual_seed(2))
    assert h.device.type == "cuda"
    assert p_value(h.cpu().double(), scipy_law(Fading("rician")).cdf) > CHANCE


def test_gains_are_fresh_in_every_inference_and_repeat_with_the_seed():
    draw = [sample_gains(Fading("rician"), (1000, 2), np.random.default_rng(3)) for _ in range(2)]
    np.testing.assert_array_equal(*draw)
    h = draw[0]
    assert abs(np.corrcoef(h[:, 0], h[:, 1])[0, 1]) < 4 / 1000**0.5
    assert abs(np.corrcoef(h[:-1, 0], h[1:, 0])[0, 1]) < 4 / 1000**0.5


def test_no_fading_is_exactly_one_in_the_generators_library():
    assert (sample_gains(Fading(), (2, 3), np.random.default_rng(0)) == 1).all()
    ones = sample_gains(Fading(), (2, 3), torch.Generator(), dtype=torch.float64)
    assert ones.dtype == torch.float64
    assert bool((ones == 1).all())


def test_precision_can_be_chosen():
    assert sample_gains(Fading("rician"), (3,), np.random.default_rng(0), dtype=np.float32).dtype == np.float32
    assert sample_gains(Fading("rician"), (3,), torch.Generator()).dtype == torch.float32


# --- path loss ---


def test_path_loss_is_log_distance():
    np.testing.assert_allclose(
        log_distance_loss_db([1, 2, 100], exponent=3.5, reference_loss_db=40), [40, 40 + 35 * np.log10(2), 110]
    )
    np.testing.assert_allclose(log_distance_loss_db(200.0, exponent=2, reference_distance=100.0), 20 * np.log10(2))


def test_path_loss_scales_gains_and_their_law_device_by_device():
    fading = Fading("rician", path_loss_db=(0.0, 20.0))
    h = sample_gains(fading, (DRAWS, 2), np.random.default_rng(4))
    plain = sample_gains(Fading("rician"), (DRAWS, 2), np.random.default_rng(4))
    np.testing.assert_allclose(h, plain * [1.0, 0.1])
    np.testing.assert_allclose(cdf(fading, [0.5, 0.05]), cdf(Fading("rician"), 0.5))
    np.testing.assert_allclose(quantile(fading, 0.1), quantile(Fading("rician"), 0.1) * np.array([1, 0.1]))


# --- what devices believe ---


@pytest.mark.parametrize("model", ["none", "rician", "rayleigh"])
@pytest.mark.parametrize("csi_error_std", [0.05, 0.5])
def test_estimates_follow_their_law(model, csi_error_std):
    fading, rng = Fading(model), np.random.default_rng(5)
    h = sample_gains(fading, (DRAWS,), rng)
    believed = misalign(h, rng.standard_normal((3, DRAWS)), csi_error_std=csi_error_std).estimate
    assert p_value(believed, lambda t: cdf(fading, t, csi_error_std=csi_error_std)) > CHANCE


@given(
    h=st.floats(0, 10),
    normals=st.tuples(*[st.floats(-5, 5)] * 3),
    csi_error_std=st.floats(0, 2),
    phase_error_std=st.floats(0, 2),
)
def test_misalignment_is_the_complex_quotient(h, normals, csi_error_std, phase_error_std):
    a, b, phi = normals
    estimate = h + csi_error_std * (a + 1j * b) / 2**0.5
    got = misalign(
        np.array([h]), np.array(normals)[:, None], csi_error_std=csi_error_std, phase_error_std=phase_error_std
    )
    assert got.estimate[0] == pytest.approx(abs(estimate), rel=1e-12)
    if abs(estimate) > 1e-150:
        rho = h / estimate * np.exp(1j * phase_error_std * phi)
        assert got.in_phase[0] == pytest.approx(rho.real, rel=1e-9, abs=1e-12 * abs(rho))
        assert got.magnitude[0] == pytest.approx(abs(rho), rel=1e-12)
    assert abs(got.in_phase[0]) <= got.magnitude[0] * (1 + 1e-12)


@pytest.mark.parametrize("ones", [np.ones((3, 1000)), torch.ones(3, 1000)], ids=["numpy", "torch"])
def test_with_perfect_knowledge_nothing_is_misaligned(ones):
    rng = np.random.default_rng(6) if isinstance(ones, np.ndarray) else torch.Generator().manual_seed(6)
    h = sample_gains(Fading("rayleigh"), (1000,), rng)
    got = misalign(h, ones)
    assert bool((got.estimate == h).all())
    assert bool((got.in_phase == 1).all())
    assert bool((got.magnitude == 1).all())


def test_a_link_that_is_not_heard_is_silent_not_nan():
    got = misalign(np.array([0.0, 0.0]), np.array([[0, 1.0], [0, 0], [0, 0]]), csi_error_std=0.1)
    assert got.in_phase.tolist() == [0, 0]
    assert got.estimate[0] == 0 < got.estimate[1]


# --- bad input ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Fading("weibull"),
            r"fading='weibull' must be one of none, rician, rayleigh, nakagami, log-normal, sionna",
        ),
        (lambda: Fading("sionna:tdl-z"), r"fading='sionna:tdl-z': model='tdl-z' must be one of tdl-a"),
        (lambda: Fading("rician", k_factor_db=np.nan), r"k_factor_db=nan must be finite"),
        (lambda: Fading(path_loss_db=(1.0, np.inf)), r"path_loss_db\[1\]=inf must be finite"),
        (lambda: cdf(Fading(), [1.0, -1.0]), r"gain\[1\]=-1 must be >= 0 and finite"),
        (lambda: quantile(Fading(), 1.0), r"probability=1 must be > 0 and < 1"),
        (lambda: cdf(Fading(), 1.0, csi_error_std=-0.1), r"csi_error_std=-0.1 must be >= 0"),
        (lambda: log_distance_loss_db(0.5, exponent=2), r"distance=0.5 must be >= 1 and finite"),
        (lambda: sample_gains(Fading("rician"), (2,), cast("Any", 7)), r"rng=7 must be a numpy.random.Generator"),
        (
            lambda: sample_gains(Fading(path_loss_db=(0.0, 1.0)), (5, 3), np.random.default_rng(0)),
            r"shape=\(5, 3\) must end with the 2 devices",
        ),
        (lambda: misalign(np.ones(2), np.ones((2, 2))), r"normals has shape \(2, 2\), must be \(3, 2\)"),
        (lambda: misalign(np.array([np.nan]), np.ones((3, 1))), r"gain\[0\]=nan must be >= 0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_the_radio_loads_neither_torch_nor_privacy():
    code = (
        "import sys, airpool.radio.moments, airpool.protocol.medium;"
        "bad = {'torch', 'sionna', 'airpool.privacy', 'scipy.stats'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
