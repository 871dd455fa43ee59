"""A server that asks again and again: the budget bounds it, and without a budget nothing does."""

import sys

import pytest
from studies.attack_server import attack, main, watched

from studies import attack_server


@pytest.mark.parametrize("words", [["--help"], []])
def test_the_command_measures_only_when_it_is_asked_to(words, monkeypatch, capsys):
    monkeypatch.setattr(attack_server, "attack", lambda *_, **__: pytest.fail("measured"))
    monkeypatch.setattr(sys, "argv", ["attack_server", *words])
    if words:
        with pytest.raises(SystemExit, match="0"):
            main()
    else:
        main()
    assert ("usage:" if words else "'budget': 8") in capsys.readouterr().out


def test_devices_refuse_after_the_budget_and_the_attack_stays_below_its_bound():
    result = attack(watched(3), trials=60, seed=0)
    assert result.numbers["inferences answered"] == [3]
    assert not result.exceeds


@pytest.mark.check
def test_a_server_that_is_never_refused_exceeds_the_bound_of_the_budget():
    result = attack(watched(3), trials=100, seed=0, unlimited=30)
    assert result.numbers["inferences answered"] == [30]
    assert result.exceeds
