"""Sionna's channels as gains: unit power, reproducible, and Rayleigh or Rician where 3GPP says so."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from airpool.radio.fading import Fading, cdf, components, quantile, sample_gains
from airpool_lab import sionna_models

# A fixed seed either passes or not; a p-value below this would say that the law is wrong.
CHANCE = 1e-3
SIONNA = [f"sionna:{model}" for model in sionna_models.MODELS]


def p_value(gains, fading):
    """Of a Kolmogorov-Smirnov test against one of our own laws."""
    return kstest(cdf(fading, gains), "uniform").pvalue


@pytest.fixture(scope="module")
def sionna():
    return pytest.importorskip("sionna.phy", reason="Sionna is not installed: the extra sionna of airpool-lab")


@pytest.mark.check
@pytest.mark.usefixtures("sionna")
@pytest.mark.parametrize("model", ["sionna:tdl-a", "sionna:tdl-b", "sionna:tdl-c", "sionna:cdl-a"])
def test_sionnas_models_without_line_of_sight_are_our_rayleigh(model):
    count = 4096 if "cdl" in model else 16384
    h = sample_gains(Fading(model), (count,), np.random.default_rng(7))
    assert p_value(h, Fading("rayleigh")) > CHANCE


@pytest.mark.check
@pytest.mark.usefixtures("sionna")
@pytest.mark.parametrize("letter", ["d", "e"])
def test_sionnas_line_of_sight_models_are_our_rician(letter):
    from sionna.phy.channel.tr38901 import TDL  # pyright: ignore[reportMissingImports]

    steady = float(TDL(letter.upper(), 1e-7, 3.5e9, device="cpu").mean_power_los)
    ours = Fading("rician", k_factor_db=10 * np.log10(steady / (1 - steady)))
    h = sample_gains(Fading(f"sionna:tdl-{letter}"), (16384,), np.random.default_rng(8))
    assert p_value(h, ours) > CHANCE


@pytest.mark.check
@pytest.mark.usefixtures("sionna")
@pytest.mark.parametrize("model", SIONNA)
def test_sionnas_gains_have_unit_power_and_repeat_with_the_seed(model):
    count = 16384 if "tdl" in model else 2048
    h = sample_gains(Fading(model), (count // 2, 2), np.random.default_rng(9))
    assert h.shape == (count // 2, 2)
    assert abs(np.mean(h**2) - 1) < 4 * np.std(h**2) / count**0.5
    few = [sample_gains(Fading(model), (8,), np.random.default_rng(10)) for _ in range(2)]
    np.testing.assert_array_equal(*few)


@pytest.mark.check
@pytest.mark.usefixtures("sionna")
def test_the_law_of_a_sionna_model_is_that_of_its_draws():
    fading = Fading("sionna:tdl-c")
    h = sample_gains(fading, (16384,), torch.Generator().manual_seed(11))
    for p in (0.01, 0.5):
        t = quantile(fading, p)
        assert cdf(fading, t) <= p
        # Two samples: theirs and the reference.
        assert abs(float((h < float(t)).double().mean()) - p) < 4 * (2 * p * (1 - p) / 16384) ** 0.5
    t = quantile(fading, 0.01, csi_error_std=0.3)
    assert cdf(fading, t, csi_error_std=0.3) == pytest.approx(0.01, rel=1e-9)
    assert t == pytest.approx(quantile(Fading("rayleigh"), 0.01, csi_error_std=0.3), rel=0.1)


@pytest.mark.check
@pytest.mark.usefixtures("sionna")
def test_loading_and_sampling_sionna_leaves_the_global_generators_alone():
    code = """
import numpy as np, torch
from airpool.radio.fading import Fading, sample_gains
torch.manual_seed(12), np.random.seed(12)
expected = torch.rand(()), np.random.random()
torch.manual_seed(12), np.random.seed(12)
sample_gains(Fading("sionna:tdl-a"), (4,), np.random.default_rng(0))
assert expected == (torch.rand(()), np.random.random())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_sionna_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sionna", None)
    monkeypatch.setitem(sys.modules, "sionna.phy", None)
    sionna_models._sionna.cache_clear()
    with pytest.raises(ImportError, match=r"pip install .*airpool-lab\[sionna\]"):
        sample_gains(Fading("sionna:tdl-a"), (4,), np.random.default_rng(0))
    assert components(Fading("rician"))[0].size == 1
