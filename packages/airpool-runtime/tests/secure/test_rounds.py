"""Random rounds: the server's sum is the integer sum of the survivors, bit for bit, or the round is dropped."""

import numpy as np
import pytest

from airpool.protocol.ring import Ring
from airpool_runtime.secure.group import Terms
from airpool_runtime.secure.rehearsal import STEPS, rehearse


def one_round(rng, fleet, most):
    count = int(2 * ((most + 1) / 2) ** (rng.random() ** 3))  # small fleets more often: they take less time
    colluders = int(rng.integers(0, min(count, 3)))
    t = int(rng.integers((count + colluders) // 2 + 1, count + 1))
    quorum = int(rng.integers(t, count + 1))
    word = Ring(1.0, int(rng.choice([32, 64])))
    terms = Terms(count, t, quorum, colluders, int(rng.integers(1, 30)), word)
    ready = sorted(rng.choice(count, int(rng.integers(quorum, count + 1)), replace=False).tolist())
    values = {k: terms.ring.reduced(rng.integers(0, 2**64, terms.dimension, dtype=np.uint64)) for k in ready}
    gone = rng.choice(ready, int(rng.integers(0, min(len(ready) - t + 2, len(ready)) + 1)), replace=False)
    vanish = {int(k): int(rng.integers(0, len(STEPS))) for k in gone}
    outcome = rehearse(values, terms, fleet, vanish=vanish).outcome
    survivors = [k for k in ready if vanish.get(k, len(STEPS)) > 1]  # their masked values arrived
    if len(ready) - len(vanish) >= t:
        assert outcome.survivors == tuple(survivors)
        assert outcome.total is not None
        assert np.array_equal(outcome.total, terms.ring.total(values[k] for k in survivors))
    else:
        assert outcome.total is None
        assert "must be" in outcome.dropped
    assert outcome.blamed == {}
    return outcome.total is None


@pytest.mark.parametrize("seed", range(3))
def test_the_sum_is_exact_or_the_round_is_dropped(fleet, seed):
    rng = np.random.default_rng(seed)
    dropped = [one_round(rng, fleet, 16) for _ in range(20)]
    assert 0 < sum(dropped) < len(dropped)


@pytest.mark.check
@pytest.mark.parametrize("seed", range(10, 14))
def test_a_thousand_rounds_of_two_to_fifty_devices_are_exact_or_dropped(fleet, seed):
    rng = np.random.default_rng(seed)
    dropped = [one_round(rng, fleet, 50) for _ in range(250)]
    assert 0 < sum(dropped) < len(dropped)


@pytest.mark.check
def test_a_hundred_devices_work():
    from airpool_runtime.secure.rehearsal import sessions

    terms = Terms(100, 67, 100, 20, 40, Ring(2.0**-24, 32))
    values = {k: terms.ring.encode(np.full(40, k / 100)) for k in range(100)}
    done = rehearse(values, terms, sessions(100), vanish={k: k % 4 for k in range(20)}).outcome
    assert done.total is not None
    assert np.array_equal(done.total, terms.ring.total(values[k] for k in done.survivors))
