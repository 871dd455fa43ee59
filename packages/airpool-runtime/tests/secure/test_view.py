"""What the server sees can be made from the sum alone: every mask is enumerated, and the laws of its view compared.

Keystreams are replaced by all values that they can have, at a tiny modulus and for three devices: each coordinate of
the arrays is one choice of all six masks. What is added and sent is the protocol's own code.
"""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from airpool.protocol.ring import Ring
from airpool_runtime.secure.masks import masked, unmasked

RING = Ring(1.0, 2)
PAIRS = ((0, 1), (0, 2), (1, 2))
MASKS = np.array(list(product(range(4), repeat=6)), dtype=np.uint64).T
PAIRWISE = dict(zip(PAIRS, MASKS[:3], strict=True))
OWN = dict(enumerate(MASKS[3:]))
INPUTS = list(product(range(4), repeat=3))


def with_others(device, others=range(3)):
    return {other: PAIRWISE[min(device, other), max(device, other)] for other in others if other != device}


def sent(inputs):
    return {k: masked(np.full(4**6, inputs[k], np.uint64), OWN[k], k, with_others(k), RING) for k in range(3)}


def law(*columns):
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


def laws_by(key, view):
    """The laws of the view, by what the inputs may reveal."""
    found = {}
    for inputs in INPUTS:
        found.setdefault(key(inputs), []).append(view(inputs))
    return found


def equal_within(groups):
    return all(one == of[0] for of in groups.values() for one in of)


def test_two_inputs_of_equal_sum_look_the_same():
    groups = laws_by(lambda v: sum(v) % 4, lambda v: law(*sent(v).values(), *OWN.values()))
    assert len(groups) == 4
    assert equal_within(groups)


def test_inputs_of_different_sum_do_not():
    views = [law(*sent(inputs).values(), *OWN.values()) for inputs in ((0, 0, 0), (1, 0, 0))]
    assert not views[0] & views[1]


def test_of_a_device_that_vanished_nothing_shows_even_if_its_values_arrive_late():
    """Device 2 sent, but was named dead: the server has its key, and so its masks, but not its seed."""
    lost = with_others(2, range(2)).values()
    groups = laws_by(lambda v: sum(v[:2]) % 4, lambda v: law(*sent(v).values(), OWN[0], OWN[1], *lost))
    assert len(groups) == 4
    assert equal_within(groups)


def test_with_one_mask_only_a_late_device_would_be_open():
    """Why there is a second mask: with all of them, the late values can be read off."""
    late = [law(sent(inputs)[2], *MASKS) for inputs in ((0, 0, 0), (0, 0, 1))]
    assert not late[0] & late[1]


def test_a_dropped_round_looks_the_same_for_any_two_inputs():
    assert equal_within(laws_by(lambda _: 0, lambda v: law(*sent(v).values())))
    lost = with_others(2, range(2)).values()
    assert equal_within(laws_by(lambda _: 0, lambda v: law(*sent(v).values(), *lost)))


def test_a_colluder_adds_its_own_masks_and_no_more():
    """Device 2 works with the server: of the others the two see their sum alone."""
    known = (*with_others(2).values(), OWN[2])
    groups = laws_by(lambda v: (sum(v[:2]) % 4, v[2]), lambda v: law(*sent(v).values(), OWN[0], OWN[1], *known))
    assert len(groups) == 16
    assert equal_within(groups)


@pytest.mark.parametrize("inputs", INPUTS[::5])
def test_what_is_opened_is_the_sum(inputs):
    ys = sent(inputs)
    whole = unmasked(ys[0] + ys[1] + ys[2], OWN, {}, RING)
    assert np.all(whole == sum(inputs) % 4)
    lost = {2: with_others(2, range(2))}
    assert np.all(unmasked(ys[0] + ys[1], {k: OWN[k] for k in range(2)}, lost, RING) == sum(inputs[:2]) % 4)


# Two slots, modulo 2, with all masks of both


TWO = Ring(1.0, 1)
BITS = np.array(list(product(range(2), repeat=12)), dtype=np.uint64).T


def of_slot(number):
    """Pairwise masks and own masks of a slot."""
    some = BITS[6 * number : 6 * number + 6]
    return dict(zip(PAIRS, some[:3], strict=True)), some[3:]


def two_slots(inputs, *, kept):
    """The server's view: device 2 survives the first slot, and is named dead in the second, though its values came.

    inputs: three values of each slot. kept: its mask key is that of both slots, so that it gives the masks of both.
    """
    view = []
    for number, values in enumerate((inputs[:3], inputs[3:])):
        pairwise, own = of_slot(number)
        with_2 = [pairwise[0, 2], pairwise[1, 2]]
        for k, value in enumerate(values):
            mine = {j: pairwise[min(j, k), max(j, k)] for j in range(3) if j != k}
            view.append(masked(np.full(BITS.shape[1], value, np.uint64), own[k], k, mine, TWO))
        view += [own[0], own[1], own[2]] if number == 0 else [own[0], own[1], *with_2]
        if number == 0 and kept:
            view += with_2
    return law(*view)


def opened(inputs):
    return sum(inputs[:3]) % 2, sum(inputs[3:5]) % 2


@pytest.mark.parametrize("kept", [False, True], ids=["fresh keys", "a kept key"])
def test_the_sums_of_two_slots_are_all_that_shows_if_and_only_if_keys_are_fresh(kept):
    groups = {}
    for inputs in product(range(2), repeat=6):
        groups.setdefault(opened(inputs), []).append(two_slots(inputs, kept=kept))
    assert len(groups) == 4
    assert equal_within(groups) is not kept


def test_with_a_kept_key_the_values_of_one_device_show():
    views = [two_slots(inputs, kept=True) for inputs in ((0, 0, 0, 0, 0, 0), (1, 0, 1, 0, 0, 0))]
    assert not views[0] & views[1]
