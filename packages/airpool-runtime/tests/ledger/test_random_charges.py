"""Random sequences of 2,000 charges over networks, relations, schemes, restarts and epochs: never below an oracle."""

from functools import cache

import numpy as np
import pytest

from airpool_runtime.ledger.backup import content
from airpool_runtime.ledger.mechanism import Mechanism, mechanism
from airpool_runtime.ledger.spending import Use, total

from .random_charges import DELTA, Kind, kinds, sequence, true_epsilon

KINDS = {kind.name: kind for kind in kinds()}
# Removal is not accounted for where scores choose, and infinite where a channel stands still.
UNLIKE = [kind for kind in KINDS.values() if "like it" not in kind.name]  # a draw of each of its own
REMOVABLE = [KINDS[name] for name in ("certain", "like it", "long")]


@cache
def one(kind: Kind) -> Mechanism:
    return mechanism(kind.network, device=0, live=False)


def used(found) -> dict[Mechanism, Use]:
    """What was booked, counted by hand."""
    counts = {}
    for kind in {kind for kind, _ in found.booked}:
        epochs = [epoch for each, epoch in found.booked if each is kind]
        before = counts.get(one(kind), Use(0, 0))  # of a kind that is like it
        draws = len(set(epochs) - {""}) + epochs.count("")
        counts[one(kind)] = Use(before.inferences + len(epochs), before.epochs + draws)
    return counts


def some(rng, allowed):
    chosen = [kind for kind in allowed if rng.random() < 0.6]
    return [KINDS["certain"], *chosen]  # one smooth law makes all of them smooth


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.check) for seed in range(1, 8))])
@pytest.mark.parametrize("neighbours", ["zero-out", "replace", pytest.param("remove", marks=pytest.mark.check)])
def test_a_total_of_2000_charges_is_never_below_the_oracle(neighbours, seed):
    rng = np.random.default_rng((seed, len(neighbours)))
    allowed = some(rng, REMOVABLE if neighbours == "remove" else list(KINDS.values()))
    found = sequence(rng, allowed, 2000, restarts=float(rng.choice([0.0, 0.001, 0.02])))
    spent, true = total(used(found), DELTA, neighbours), true_epsilon(found, KINDS, neighbours)
    assert spent >= true * (1 - 1e-6)
    if not any(kind.outage or kind.name == "ranking" for kind in allowed):
        assert spent <= 1.01 * true


def test_the_ledger_books_what_was_counted_by_hand(device):
    rng = np.random.default_rng(7)
    found = sequence(rng, [kind for kind in UNLIKE if kind.name != "ranking"], 40, restarts=0.1)
    ledger = device.open()
    for i, (kind, epoch) in enumerate(found.booked):
        if rng.random() < 0.1:  # the device restarts
            ledger.close()
            ledger = device.open()
        ledger.charge(str(i), one(kind), epoch=epoch)
    spent = ledger.epsilon(DELTA)
    assert spent == total(used(found), DELTA, "zero-out") >= true_epsilon(found, KINDS, "zero-out")
    ledger.close()
    assert content(device.path).counts == used(found)


@pytest.mark.check
def test_a_ledger_of_2000_charges_is_never_below_the_oracle(device):
    """Through the file."""
    rng = np.random.default_rng(3)
    found = sequence(rng, UNLIKE, 2000, restarts=0.002)
    with device.open() as ledger:
        for i, (kind, epoch) in enumerate(found.booked):
            ledger.charge(str(i), one(kind), epoch=epoch)
        for relation in ("zero-out", "replace"):
            assert ledger.epsilon(DELTA, neighbours=relation) >= true_epsilon(found, KINDS, relation) * (1 - 1e-6)
