"""Privacy numbers are what they were: a sample of snapshot.json's 600 networks.

All of them: python -m tests.truth.snapshot
"""

import pytest

from .snapshot import ROWS, differences, rows

pytestmark = pytest.mark.usefixtures("few_draws", "few_cells")
EVERY = 24


@pytest.fixture(scope="module")
def snapshot():
    return rows()


def test_the_snapshot_is_whole_and_has_every_option(snapshot):
    assert len(snapshot) == ROWS
    texts = [row["network"] for row in snapshot]
    words = (
        *('name = "1"', 'name = "2.1"', 'name = "2.2"', '"superposed"', '"orthogonal"', '"secure"'),
        *('"none"', '"rician"', '"rayleigh"', '"nakagami:m=2"', '"log-normal:std_db=4"', "redrawn = false"),
        *('"zero-out"', '"replace"', '"remove"', '"truncate"', '"backoff"', '"paper"', "[slots]", "[adversary]"),
    )
    assert [word for word in words if sum(word in text for text in texts) < 5] == []
    assert sum("live = true" in text for text in texts) > 100


@pytest.mark.parametrize("at", range(0, ROWS, EVERY))
def test_numbers_are_those_of_the_snapshot(snapshot, at):
    assert differences(snapshot[at]) == []


@pytest.mark.check
@pytest.mark.parametrize("first", [5, 10, 15, 20])
def test_more_numbers_are_those_of_the_snapshot(snapshot, first):
    assert {at: each for at in range(first, ROWS, EVERY) if (each := differences(snapshot[at]))} == {}
