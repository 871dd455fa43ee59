"""A scheme answers by its class, found by name in one table; nothing takes an unknown scheme for another."""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from airpool.network import SCHEMES, Coin, Network, NetworkError, Ranking, Scheme, Threshold
from airpool.schemes.scheme import scheme_settings
from airpool.schemes.scores import scored
from tests.sources import MODULES, place


@dataclass(frozen=True)
class Unregistered(Scheme):
    name: ClassVar[str] = "unregistered"

    def participation(self, network):
        return [1.0] * network.devices.count


@dataclass(frozen=True)
class Impostor(Unregistered):
    name: ClassVar[str] = "2.1"


@pytest.mark.parametrize("scheme", [Coin(), Threshold(), Ranking()])
def test_the_table_has_every_scheme(scheme):
    assert type(scheme) is SCHEMES.get(scheme.name)
    assert getattr(type(scheme), "__final__")  # noqa: B009
    assert set(scheme.options()) | set(scheme.unused()) >= set(scheme_settings())


def test_the_base_class_is_no_scheme():
    with pytest.raises(TypeError, match="abstract"):
        Scheme()  # pyright: ignore[reportAbstractUsage]


@pytest.mark.parametrize("scheme", [Unregistered(), Impostor(), "1", None])
def test_a_network_cannot_have_a_scheme_that_is_not_registered(scheme):
    with pytest.raises(NetworkError, match=r"scheme.*(not registered|must be one of)"):
        Network.uniform(num_devices=3, scheme=scheme)


def test_schemes_say_how_often_devices_take_part():
    assert Coin().expected_participation(Network.uniform(num_devices=2, participation=0.4)) == (0.4, 0.4)
    assert Ranking(num_selected=3).expected_participation(Network.uniform(num_devices=4)) == (0.75,) * 4
    assert Threshold().expected_participation(Network.uniform(num_devices=2)) is None


@pytest.mark.parametrize("scheme", [Threshold(threshold=0.5), Ranking(num_selected=2)])
def test_the_choice_of_noisy_scores_has_the_probability_that_it_says(scheme):
    u = np.array([0.2, 0.5, 0.9])
    noisy = u + scheme.score_noise_std * np.random.default_rng(0).standard_normal((40_000, 3))
    # Five standard deviations of a mean of 40,000 coins.
    np.testing.assert_allclose(scheme.select(noisy).mean(0), scheme.participation_by_score(u), atol=2.5 / 200)


def test_coins_have_no_scores():
    with pytest.raises(ValueError, match="scheme 1 has no scores: a coin decides who transmits"):
        scored(Coin())


def test_only_the_leak_is_chosen_by_a_schemes_type():
    typed = re.compile(r"isinstance\([^)]*(scheme\b|Coin|Threshold|Ranking)|case (Coin|Threshold|Ranking)\b")
    found = {place(path) for path in MODULES if typed.search(path.read_text("utf-8"))}
    assert found == {
        "airpool/account/views.py",
        "airpool/schemes/scores.py",
    }  # the second: whether a scheme has scores
