"""One rules object for each scheme, found by type in one table; nothing takes an unknown scheme for another."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import airpool
from airpool.network import SCHEMES, Coin, Network, NetworkError, Ranking, Threshold, scheme_rules


@dataclass(frozen=True)
class Unregistered:
    name: ClassVar[str] = "unregistered"


@dataclass(frozen=True)
class Impostor:
    name: ClassVar[str] = "2.1"


@pytest.mark.parametrize(
    ("scheme", "scored", "ranked"), [(Coin(), False, False), (Threshold(), True, False), (Ranking(), True, True)]
)
def test_the_table_has_the_rules_of_every_scheme(scheme, scored, ranked):
    rules = scheme_rules(scheme)
    assert rules is SCHEMES.get(scheme.name)
    assert (rules.settings, rules.scored, rules.ranked) == (type(scheme), scored, ranked)


@pytest.mark.parametrize("scheme", [Unregistered(), Impostor(), "1", None])
def test_a_network_cannot_have_a_scheme_without_rules(scheme):
    with pytest.raises(NetworkError, match=r"scheme.*(not registered|must be one of)"):
        Network.uniform(num_devices=3, scheme=scheme)


def test_rules_say_how_often_devices_take_part():
    assert scheme_rules(Coin()).expected(Network.uniform(num_devices=2, participation=0.4)) == (0.4, 0.4)
    assert scheme_rules(Ranking()).expected(Network.uniform(num_devices=12, scheme=Ranking(num_selected=3))) == 0.25
    assert scheme_rules(Threshold()).expected(Network.uniform(num_devices=2, scheme=Threshold())) is None


@pytest.mark.parametrize("scheme", [Threshold(threshold=0.5), Ranking(num_selected=2)])
def test_the_choice_of_noisy_scores_has_the_probability_that_the_rules_say(scheme):
    rules, u = scheme_rules(scheme), np.array([0.2, 0.5, 0.9])
    noisy = u + scheme.score_noise_std * np.random.default_rng(0).standard_normal((40_000, 3))
    # Five standard deviations of a mean of 40,000 coins.
    np.testing.assert_allclose(rules.chosen(scheme, noisy).mean(0), rules.participation(scheme, u), atol=2.5 / 200)


def test_coins_have_no_scores():
    with pytest.raises(ValueError, match="scheme 1 has no scores: a coin decides who transmits"):
        scheme_rules(Coin()).chosen(Coin(), np.zeros(3))


def test_only_the_game_is_chosen_by_a_schemes_type():
    typed = re.compile(r"isinstance\([^)]*(scheme\b|Coin|Threshold|Ranking)|case (Coin|Threshold|Ranking)\b")
    source = Path(airpool.__file__).parent
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if typed.search(path.read_text("utf-8"))}
    assert found == {"account/games.py", "network/choosing.py"}  # the second: whether a scheme has scores
