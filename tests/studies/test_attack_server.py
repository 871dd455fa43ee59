"""A server that asks again and again: the budget bounds it, and without a budget nothing does."""

import pytest
from studies.attack_server import attack, watched


def test_devices_refuse_after_the_budget_and_the_attack_stays_below_its_bound():
    result = attack(watched(3), trials=60, seed=0)
    assert result.numbers["inferences answered"] == [3]
    assert not result.exceeds


@pytest.mark.check
def test_a_server_that_is_never_refused_exceeds_the_bound_of_the_budget():
    result = attack(watched(3), trials=40, seed=0, unlimited=30)
    assert result.numbers["inferences answered"] == [30]
    assert result.exceeds
