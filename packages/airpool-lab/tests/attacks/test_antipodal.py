"""The yes-or-no question: an honest network stays below its bound, and planted faults do not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airpool import Adversary, Channel, Claim, Devices, Network
from airpool.network import Slots
from airpool.protocol import device
from airpool_lab.attacks.antipodal import antipodal
from airpool_lab.attacks.attack import AttackSetting
from airpool_lab.attacks.hearing import hear
from airpool_lab.attacks.positions import POSITIONS

NETWORK = Network.uniform(num_devices=4, noise_std=0.25, dimension=3, adversary=Adversary(3))
CLAIM = Claim(inferences=3)


def setting(name, **more):
    return AttackSetting(NETWORK, POSITIONS[name], device=1, trials=20_000, claim=CLAIM, **more)


@pytest.mark.parametrize("name", list(POSITIONS))
def test_an_honest_network_stays_below_its_bound(name):
    result: Any = antipodal(setting(name))
    assert not result.exceeds
    assert result.trials == 20_000


@pytest.mark.parametrize("name", list(POSITIONS))
def test_the_question_attains_the_bound(name):
    result: Any = antipodal(setting(name, seed=1))
    # The law of an array is bounded with a few draws: up to 2 % above it.
    assert -4.5 * result.standard_error < result.bound - result.success < 4.5 * result.standard_error + 0.02


UNLIKE = Devices(4, weight=(0.1, 0.4, 0.3, 0.2), clip_norm=(1, 2, 0.5, 1), noise_std=(0.3, 0.5, 0.2, 0.4))
KINDS = {
    "coins": replace(NETWORK, devices=replace(UNLIKE, participation=(0.9, 0.6, 0.8, 0.5))),
    "cover noise": replace(NETWORK, devices=replace(UNLIKE, participation=0.7), cover_noise=True),
    "fading": replace(NETWORK, devices=UNLIKE, channel=Channel(fading="rayleigh", outage=0.2)),
    "colluders": replace(NETWORK, devices=UNLIKE, colluders=1),
    "links": replace(NETWORK, devices=UNLIKE, channel=Channel(access="orthogonal")),
    "secure sum": replace(NETWORK, devices=UNLIKE, channel=Channel(access="secure"), adversary=Adversary()),
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("name", ["link", "sum", "colluding", "repeated"])
def test_networks_of_every_kind_stay_below_their_bound(kind, name):
    result: Any = antipodal(AttackSetting(KINDS[kind], POSITIONS[name], device=1, trials=8000, claim=CLAIM))
    assert not result.exceeds
    assert result.success > 0.5


ONE_DRAW = {
    "slots": (
        Network.uniform(num_devices=4, noise_std=0.1, participation=0.3, slots=Slots(count=8, redrawn=False)),
        Claim(),
    ),
    "inferences": (
        Network.uniform(num_devices=4, noise_std=0.1, channel=Channel(fading="rayleigh", outage=0.4, redrawn=False)),
        Claim(inferences=8),
    ),
}


@pytest.mark.parametrize("served", list(ONE_DRAW))
def test_where_one_draw_serves_several_the_question_attains_its_bound(served):
    """Coins or gains that were drawn anew each time would show the device in some slot of nearly every trial."""
    net, claim = ONE_DRAW[served]
    setting = AttackSetting(replace(net, dimension=2), POSITIONS["repeated"], trials=8000, claim=claim)
    result: Any = antipodal(setting)
    assert abs(result.success - result.bound) < 4.5 * result.standard_error


def test_coins_are_new_in_every_inference_over_one_draw_of_the_channel():
    fading = Channel(fading="rayleigh", outage=0.4, redrawn=False)
    net = Network.uniform(num_devices=2, participation=0.5, channel=fading, dimension=1)
    claim, rng = Claim(inferences=6), np.random.default_rng(0)
    heard = hear(net, claim, POSITIONS["repeated"], np.ones((1, 2, 1)), rng=rng, trials=4000)
    wanted = 0.6 * (1 - 0.5**6)  # once at least, if the channel lets it
    assert abs(heard.present.mean() - wanted) < 4.5 * (0.25 / 4000) ** 0.5


@pytest.mark.parametrize("name", list(POSITIONS))
def test_half_the_noise_is_caught(name):
    half = replace(NETWORK, devices=replace(NETWORK.devices, noise_std=0.125))
    assert antipodal(setting(name), played=half).exceeds


@pytest.mark.parametrize("name", list(POSITIONS))
def test_a_device_without_its_clip_is_caught(name, monkeypatch):
    monkeypatch.setattr(device, "clipped", lambda latents, clip_norm: latents)
    assert antipodal(setting(name)).exceeds


@pytest.mark.parametrize("noise_std", [(0.0, 0.0), (0.0, 0.5)])
def test_an_array_that_hears_a_device_without_noise_is_never_wrong(noise_std):
    net = Network(Devices(2, noise_std=noise_std), dimension=2, adversary=Adversary(2))
    assert antipodal(AttackSetting(net, POSITIONS["antennas"], trials=2000)).success == 1


def test_a_device_without_its_clip_shows_by_long_features_alone(monkeypatch):
    monkeypatch.setattr(device, "clipped", lambda latents, clip_norm: latents)
    assert not antipodal(setting("link"), length=1.0).exceeds


def test_a_silent_device_answers_nothing():
    silent = replace(NETWORK, devices=replace(NETWORK.devices, participation=(1.0, 0.0, 1.0, 1.0)))
    result: Any = antipodal(setting("sum"), played=silent)
    assert abs(result.success - 0.5) < 4.5 * result.standard_error
    unheard = antipodal(setting("link"), played=silent)
    assert (unheard.trials, unheard.success, unheard.bound, unheard.exceeds) == (0, None, None, False)


@pytest.mark.parametrize("name", ["link", "colluding"])
def test_silence_hides_no_fault_where_the_bound_leaves_the_coin_out(name):
    rare = replace(NETWORK, devices=replace(NETWORK.devices, participation=0.2))
    half = replace(rare, devices=replace(rare.devices, noise_std=0.125))
    asked = AttackSetting(rare, POSITIONS[name], device=1, trials=20_000, claim=CLAIM)
    honest: Any = antipodal(asked)
    assert abs(honest.success - honest.bound) < 4.5 * honest.standard_error
    assert abs(honest.trials - 4000) < 4.5 * (0.16 * 20_000) ** 0.5
    assert antipodal(asked, played=half).exceeds


def test_the_same_seed_gives_the_same_answers():
    once, again = (antipodal(setting("sum", seed=3)) for _ in range(2))
    assert once.bound is not None
    assert once.successes == again.successes
    assert np.isfinite(once.bound)
