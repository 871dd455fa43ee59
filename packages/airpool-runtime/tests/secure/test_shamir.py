"""Shares: enough of them give the secret, one fewer says nothing."""

from collections import Counter
from itertools import combinations, product

import pytest

from airpool_runtime.secure import shamir


def test_every_set_of_t_shares_gives_the_secret():
    secret = shamir.random_element()
    dealt = dict(zip(range(1, 7), shamir.shares(shamir.polynomial(secret, 4), range(1, 7)), strict=True))
    for some in combinations(dealt, 4):
        assert shamir.secret({x: dealt[x] for x in some}) == secret
    assert shamir.secret({x: dealt[x] for x in (1, 2, 3)}) != secret


@pytest.mark.parametrize("threshold", [2, 3])
def test_fewer_than_t_shares_have_the_same_law_whatever_the_secret(threshold):
    """All polynomials over a field of five elements, all sets of t − 1 of three shares."""
    prime = 5
    for held in combinations(range(3), threshold - 1):
        laws = {
            secret: Counter(
                tuple(shamir.shares((secret, *rest), (1, 2, 3), prime)[k] for k in held)
                for rest in product(range(prime), repeat=threshold - 1)
            )
            for secret in range(prime)
        }
        assert all(law == laws[0] for law in laws.values())


def test_a_point_at_the_secret_is_an_error():
    with pytest.raises(ValueError, match="must be from 1"):
        shamir.shares((1, 2), (0, 1))
