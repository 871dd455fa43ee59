"""Networks are checked once, when they are made, with an error that names field and value."""

import math
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest

from airpool.network import Channel, Claim, Devices, Network, NetworkError, Ranking, named_scheme


def test_a_number_stands_for_all_devices_and_a_list_gives_one_each():
    lists: dict[str, Any] = {"noise_std": [0.1, 0.2, 0.3], "participation": np.array([0.5, 0.6, 1.0])}
    d = Devices(count=3, clip_norm=2, **lists)
    assert d.clip_norm == (2.0, 2.0, 2.0)
    assert d.noise_std == (0.1, 0.2, 0.3)
    assert d.participation == (0.5, 0.6, 1.0)
    assert d.weight == (1 / 3, 1 / 3, 1 / 3)
    assert d.epsilon is None
    assert d.column("power_dbm") == (30.0, 30.0, 30.0)


def test_uniform_takes_every_field_of_devices_and_network():
    plain = Network(devices=Devices(count=3), colluders=1)
    of_devices = {each.name: getattr(plain.devices, each.name) for each in fields(Devices) if each.name != "count"}
    rest = {each.name: getattr(plain, each.name) for each in fields(Network) if each.name != "devices"}
    assert Network.uniform(num_devices=3, **of_devices, **rest) == plain


def test_the_defaults_are_those_of_the_specification():
    net = Network(devices=Devices(count=12))
    assert (net.dimension, net.cover_noise, net.colluders, net.dropouts) == (64, False, 0, 0)
    d = net.devices
    assert [d.column(name)[0] for name in ("clip_norm", "noise_std", "participation", "power_dbm")] == [
        1.0,
        0.05,
        1.0,
        30.0,
    ]
    assert net.channel == Channel(
        fading="none",
        k_factor_db=4.8,
        noise_std=0.0,
        access="superposed",
        power_rule="truncate",
        gamma="auto",
        outage=0.01,
        csi_error_std=0.0,
        phase_error_std=0.0,
    )
    assert net.scheme == named_scheme(
        name="1",
        score="shannon",
        score_rule="clip",
        score_bound=1.0,
        score_noise_std=0.3162,
        threshold=0.5,
        num_selected=11,
    )


def test_the_papers_network_has_the_papers_values():
    net = Network.paper()
    assert net.devices.count == 12
    assert net.devices.noise_std == (math.sqrt(0.1),) * 12
    assert net.devices.clip_norm == (100.0,) * 12
    assert net.devices.participation == (0.9,) * 12
    assert (net.dimension, net.channel.gamma, net.channel.noise_std) == (784, 1.0, math.sqrt(0.1))


def test_networks_are_plain_values():
    net = Network.uniform(num_devices=3)
    assert net == Network.uniform(num_devices=3)
    assert hash(net) == hash(Network.uniform(num_devices=3))
    with pytest.raises(FrozenInstanceError):
        net.dimension = 3  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("count", 0, "devices.count=0 must be a whole number >= 1"),
        ("count", -3, "devices.count=-3 must be a whole number >= 1"),
        ("count", 2.5, "devices.count=2.5 must be a whole number >= 1"),
        ("count", True, "devices.count=True must be a whole number >= 1"),
        ("weight", -0.1, "devices.weight=-0.1 must be >= 0 and finite"),
        ("weight", math.nan, "devices.weight=nan must be >= 0 and finite"),
        ("weight", [0.1, math.inf], "devices.weight of device 1=inf must be >= 0 and finite"),
        ("clip_norm", 0.0, "devices.clip_norm=0.0 must be > 0 and finite"),
        ("clip_norm", -1.0, "devices.clip_norm=-1.0 must be > 0 and finite"),
        ("noise_std", -0.05, "devices.noise_std=-0.05 must be >= 0 and finite"),
        ("noise_std", [0.1, math.nan], "devices.noise_std of device 1=nan must be >= 0 and finite"),
        ("noise_std", [0.1], "devices.noise_std has 1 values for 2 devices; give one number or 2"),
        ("noise_std", [0.1, 0.2, 0.3], "devices.noise_std has 3 values for 2 devices; give one number or 2"),
        ("noise_std", "0.1", "devices.noise_std='0.1' must be a number"),
        ("noise_std", None, "devices.noise_std=None must be a number"),
        ("participation", 1.5, "devices.participation=1.5 must be between 0 and 1"),
        ("participation", [0.5, -0.5], "devices.participation of device 1=-0.5 must be between 0 and 1"),
        ("power_dbm", math.inf, "devices.power_dbm=inf must be finite"),
        ("epsilon", 0.0, "devices.epsilon=0.0 must be > 0 and finite"),
    ],
)
def test_bad_devices_are_refused_by_field_and_value(field, value, message):
    with pytest.raises(NetworkError) as caught:
        Devices(**{"count": 2, field: value})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "fading",
            "foggy",
            "channel.fading='foggy' must be one of none, rician, rayleigh, nakagami, log-normal, sionna "
            "or a plug-in's (airpool --plugin FILE.py)",
        ),
        ("access", "random", "channel.access='random' must be one of superposed, orthogonal, secure"),
        ("power_rule", "max", "channel.power_rule='max' must be one of truncate, backoff, paper"),
        ("gamma", 0.0, "channel.gamma=0.0 must be > 0 and finite"),
        ("gamma", "automatic", "channel.gamma='automatic' must be a number"),
        ("outage", 0.0, "channel.outage=0.0 must be > 0 and < 1"),
        ("outage", 1.0, "channel.outage=1.0 must be > 0 and < 1"),
        ("noise_std", -1.0, "channel.noise_std=-1.0 must be >= 0 and finite"),
        ("k_factor_db", math.nan, "channel.k_factor_db=nan must be finite"),
        (
            "k_factor_db",
            99,
            "channel.k_factor_db=99.0 is of fading = \"rician\" alone, and channel.fading is 'none': leave k_factor_db "
            "out (its default is 4.8), or choose rician",
        ),
        (
            "fading",
            "rician:k_factor_db=3",
            "channel.fading='rician:k_factor_db=3': the K factor is a setting of the channel; write fading = "
            '"rician" and k_factor_db = 3',
        ),
        ("csi_error_std", -0.1, "channel.csi_error_std=-0.1 must be >= 0 and finite"),
        ("phase_error_std", math.inf, "channel.phase_error_std=inf must be >= 0 and finite"),
    ],
)
def test_a_bad_channel_is_refused_by_field_and_value(field, value, message):
    with pytest.raises(NetworkError) as caught:
        Channel(**{field: value})
    assert str(caught.value) == message


@pytest.mark.parametrize("fading", ["none", "rayleigh", "nakagami:m=2", "log-normal"])
def test_a_k_factor_is_of_rician_fading_alone(fading):
    assert Channel(fading=fading, k_factor_db=4.8).fading == fading  # the default, as every file has it
    with pytest.raises(NetworkError, match=rf'k_factor_db=6.0 is of fading = "rician" alone, .* is {fading!r}'):
        Channel(fading=fading, k_factor_db=6.0)
    net = Network.uniform(num_devices=2, channel=Channel(fading="rician", k_factor_db=6.0))
    with pytest.raises(NetworkError, match="leave k_factor_db out"):
        replace(net.channel, fading=fading)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "3", "scheme.name='3' must be one of 1, 2.1, 2.2 or a plug-in's (airpool --plugin FILE.py)"),
        ("name", 1, "scheme.name=1 must be one of 1, 2.1, 2.2 or a plug-in's (airpool --plugin FILE.py)"),
        ("score", "max", "scheme.score='max' must be one of shannon, min"),
        ("score_rule", "none", "scheme.score_rule='none' must be one of clip, scale"),
        ("score_bound", 0.0, "scheme.score_bound=0.0 must be > 0 and finite"),
        ("score_noise_std", -1.0, "scheme.score_noise_std=-1.0 must be >= 0 and finite"),
        ("threshold", math.inf, "scheme.threshold=inf must be finite"),
        ("num_selected", 0, "scheme.num_selected=0 must be a whole number >= 1"),
    ],
)
def test_a_bad_scheme_is_refused_by_field_and_value(field, value, message):
    with pytest.raises(NetworkError) as caught:
        named_scheme(**{field: value})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("dimension", 0, "dimension=0 must be a whole number >= 1"),
        ("dimension", 6.4, "dimension=6.4 must be a whole number >= 1"),
        ("cover_noise", 1, "cover_noise=1 must be true or false"),
        ("colluders", 3, "colluders=3 must be a whole number from 0 to 2"),
        ("colluders", -1, "colluders=-1 must be a whole number from 0 to 2"),
        ("dropouts", 3, "dropouts=3 must be a whole number from 0 to 2"),
    ],
)
def test_a_bad_network_is_refused_by_field_and_value(field, value, message):
    with pytest.raises(NetworkError) as caught:
        replace(Network.uniform(num_devices=3), **{field: value})
    assert str(caught.value) == message


def test_a_ranking_cannot_select_more_devices_than_there_are():
    with pytest.raises(NetworkError, match=r"scheme\.num_selected=11 must not exceed the 3 devices"):
        Network.uniform(num_devices=3, scheme=Ranking())
    assert Network.uniform(num_devices=3, scheme=Ranking(num_selected=3)).scheme == Ranking(num_selected=3)


def test_an_unknown_field_is_refused():
    with pytest.raises(TypeError, match="colour"):
        Network.uniform(num_devices=3, colour="red")
    for name in (each.name for each in fields(Claim)):
        with pytest.raises(TypeError, match=rf"no setting '{name}'; it belongs to Claim\({name}=\.\.\.\)"):
            Network.uniform(num_devices=3, **{name: 1e-5})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Devices(2, weight=1e31), "devices.weight=1e+31 is too large: it must be at most 1e+30"),
        (lambda: Devices(2, clip_norm=(1, 1e31)), "devices.clip_norm of device 1=1e+31 is too large"),
        (lambda: Devices(2, noise_std=1e80), "devices.noise_std=1e+80 is too large: it must be at most 1e+50"),
        (lambda: Devices(2, noise_std=1e-300), "devices.noise_std=1e-300 is too small: it must be 0 or at least 1e-50"),
        (lambda: Devices(2, power_dbm=-4e3), "devices.power_dbm=-4000.0 is too large: it must be from -300 to 300"),
        (lambda: Devices(2, clip_norm=10**400), "devices.clip_norm has more than 300 digits, must be at most 1e+30"),
        (lambda: Devices(10**400), "devices.count has more than 300 digits, must be at most 10000000"),
        (lambda: Devices(10**8), "devices.count=100000000 is too large: it must be at most 10000000"),
        (lambda: Channel(gamma=1e-31), "channel.gamma=1e-31 is too small: it must be at least 1e-30"),
        (lambda: Channel(noise_std=1e51), "channel.noise_std=1e+51 is too large"),
        (lambda: Channel(k_factor_db=1e5), "channel.k_factor_db=100000.0 is too large: it must be from -300 to 300"),
        (lambda: Channel(outage=1e-31), "channel.outage=1e-31 is too small: it must be at least 1e-30"),
        (lambda: Channel(csi_error_std=1e31), "channel.csi_error_std=1e+31 is too large"),
        (lambda: Channel(phase_error_std=1e-31), "channel.phase_error_std=1e-31 is too small"),
        (lambda: named_scheme(score_bound=1e-31), "scheme.score_bound=1e-31 is too small"),
        (lambda: named_scheme(score_noise_std=1e51), "scheme.score_noise_std=1e+51 is too large"),
        (
            lambda: named_scheme(threshold=-1e31),
            "scheme.threshold=-1e+31 is too large: it must be from -1e+30 to 1e+30",
        ),
        (lambda: Network.uniform(num_devices=2, dimension=10**10), "dimension=10000000000 is too large"),
        (lambda: Claim(inferences=10**13), "inferences=10000000000000 is too large"),
        (lambda: Claim(delta=1e-301), "delta=1e-301 is too small: it must be at least 1e-300"),
    ],
)
def test_a_number_out_of_range_is_refused_by_field_and_value(make, message):
    with pytest.raises(NetworkError) as caught:
        make()
    assert message in str(caught.value)
