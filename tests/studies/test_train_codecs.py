"""Settings as plain data, for a machine without SciPy."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from studies.train_codecs import packed, unpacked

from airpool.account.calibration import calibrate
from airpool.models.codecs.training import setting
from airpool.network import Channel, Devices, Network
from airpool.protocol.simulation import receive

ROOT = Path(__file__).parents[2]
DEVICES, R = 12, 40
UNLIKE = Devices(
    count=3,
    weight=(0.2, 0.3, 0.5),
    clip_norm=(1.0, 0.5, 0.7),
    noise_std=(0.1, 0.2, 0.0),
    participation=(0.5, 1.0, 0.7),
    power_dbm=(10.0, 20.0, 30.0),
    epsilon=(1.0, 2.0, 3.0),
)
CHANNELS = (
    Channel(),
    Channel("rician", k_factor_db=2.5, noise_std=0.3, outage=0.2, csi_error_std=0.1),
    Channel("rayleigh", noise_std=0.3, access="orthogonal", power_rule="backoff", gamma=0.7, phase_error_std=0.2),
)


@pytest.mark.parametrize("cover_noise", [False, True])
@pytest.mark.parametrize("channel", CHANNELS, ids=["none", "rician", "rayleigh"])
def test_a_setting_comes_back_from_plain_data_and_sends_the_same(channel, cover_noise):
    here = setting(Network(UNLIKE, channel, dimension=4, cover_noise=cover_noise, colluders=1, inferences=3))
    back = unpacked(json.loads(json.dumps(packed(here))))
    assert back.network == here.network
    assert back.level == here.level
    assert back.link.fading == here.link.fading
    assert back.link.gamma == here.link.gamma
    latents = np.random.default_rng(0).standard_normal((5, 3, 4))
    one, other = (
        receive(latents, each.network, rng=np.random.default_rng(1), trials=50, link=each.link) for each in (here, back)
    )
    for name in ("estimate", "alignment", "power"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(back.link.outage, here.link.outage)


def test_a_machine_without_scipy_can_train_for_settings_that_were_found_elsewhere():
    code = f"""
import sys
sys.modules["scipy"] = None  # an import of it fails
sys.path.insert(0, ".")
import json, torch
from airpool.models.codecs.dense import CodecShape
from airpool.models.codecs.training import CodecRecipe, fit
from studies.train_codecs import unpacked
here = unpacked(json.loads(sys.stdin.read()))
shape = CodecShape(dimension={R}, num_classes=2, features=3, hidden=4, server_hidden=4)
codec = fit(CodecRecipe(epochs=1), shape, torch.randn(4, {DEVICES}, 3), torch.tensor([0, 1, 0, 1]), settings=[here])
assert codec.encoder(torch.randn(3)).isfinite().all()
"""
    network = Network.uniform(num_devices=DEVICES, dimension=R, channel=Channel("rician", noise_std=0.3))
    given = json.dumps(packed(setting(calibrate(network, epsilon=1.0))))
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
