"""The law of the noise floor against enumeration of who takes part; the grid's two laws enclose the true one."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from airpool.privacy import floor as floor_module
from airpool.privacy import grid
from airpool.privacy.floor import floor
from airpool.privacy.law import alike, binned, binomial, coarsened, kinds

VARIANCES = st.one_of(st.just(0.0), st.sampled_from([0.25, 1.0]), st.floats(1e-3, 10))
PARTICIPATIONS = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.01, 0.99))


@st.composite
def populations(draw, least=1, most=7):
    count = draw(st.integers(least, most))
    return (
        np.array(draw(st.lists(VARIANCES, min_size=count, max_size=count))),
        np.array(draw(st.lists(PARTICIPATIONS, min_size=count, max_size=count))),
    )


def enumerated(variance, participation, left_out=()):
    """Every outcome of who takes part: total variance and probability, one outcome at a time."""
    counted = [i for i in range(len(variance)) if i not in left_out]
    values, masses = [], []
    for heard in product((0, 1), repeat=len(counted)):
        values.append(sum(variance[i] for i, t in zip(counted, heard, strict=True) if t))
        masses.append(
            np.prod([participation[i] if t else 1 - participation[i] for i, t in zip(counted, heard, strict=True)])
        )
    return np.array(values), np.array(masses)


def at_most(values, masses, t):
    """Pr(V ≤ t) for many t; sums of the same variances in another order differ in their last digits."""
    order = np.argsort(values)
    total = np.concatenate([[0.0], np.cumsum(masses[order])])
    return total[np.searchsorted(values[order], t * (1 + 1e-12) + 1e-300, side="right")]


def rows_of(found, device):
    rows = found.row[found.device == device]
    return [(found.low.variance[r], found.low.mass[r]) for r in rows]


@given(populations())
def test_the_law_around_each_device_is_that_of_all_others_enumerated(population):
    variance, p = population
    found = floor(variance, p)
    assert found.exact
    assert found.slack == 0
    for k in range(len(p)):
        [(v, mass)] = rows_of(found, k)
        values, masses = enumerated(variance, p, left_out=(k,))
        assert at_most(v, mass, values) == pytest.approx(at_most(values, masses, values), abs=1e-13)
        assert mass.sum() == pytest.approx(1, abs=1e-13)
        assert (np.diff(v) >= 0).all()


@given(populations(least=2, most=5), st.integers(1, 4))
def test_with_absent_devices_there_is_a_law_for_every_choice_of_them(population, absent):
    variance, p = population
    found = floor(variance, p, absent=absent)
    absent = min(absent, len(p) - 1)
    for k in range(len(p)):
        others = [i for i in range(len(p)) if i != k]
        choices = [enumerated(variance, p, left_out=(k, *gone)) for gone in combinations(others, absent)]
        # A decreasing function of the noise, as every δ is: the worst choice must be the same.
        for scale in (0.1, 1.0, 10.0):
            worst = max(float(mass @ np.exp(-v / scale)) for v, mass in choices)
            ours = max(float(mass @ np.exp(-v / scale)) for v, mass in rows_of(found, k))
            assert ours == pytest.approx(worst, rel=1e-12)


def test_like_devices_share_a_binomial_law():
    found = floor(np.full(12, 0.25), np.full(12, 0.9))
    [(v, mass)] = rows_of(found, 7)
    assert v.tolist() == [0.25 * m for m in range(12)]
    assert mass == pytest.approx(binomial(11, 0.9)[1], rel=1e-14)


def test_extra_noise_is_added_to_every_outcome():
    plain, more = (floor(np.array([1.0, 2.0]), np.array([0.5, 0.5]), extra=x) for x in (0.0, 0.3))
    assert more.low.variance == pytest.approx(plain.low.variance + 0.3)
    assert more.low.mass == pytest.approx(plain.low.mass)


def test_more_absent_devices_than_there_are_others_leave_no_noise():
    found = floor(np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 0.7]), absent=10)
    for k in range(3):
        [(v, mass)] = rows_of(found, k)
        assert v[mass > 0].tolist() == [0.0]


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.3, 1 - 1e-9, 1.0])
def test_binomial_probabilities_sum_to_one_and_have_the_right_mean(p):
    m, mass = binomial(1000, p)
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    assert m @ mass == pytest.approx(1000 * p, rel=1e-10)


def test_cutting_a_binomial_loses_no_more_than_the_tail_that_was_allowed():
    m, mass = binomial(100_000, 0.3)
    kept, _ = binomial(100_000, 0.3, tail=1e-6)
    assert len(kept) < 5_000
    assert mass[(m < kept[0]) | (m > kept[-1])].sum() <= 2e-6


# The grid, against the exact law of networks small enough for both


@pytest.fixture
def bracketed(monkeypatch):
    monkeypatch.setattr(floor_module, "EXACT_CELLS", 0)
    return floor


def encloses(found, device, values, masses):
    [row] = found.row[found.device == device]
    t = np.concatenate([values, found.low.variance[row], found.high.variance[row]])
    t = np.concatenate([t * (1 - 1e-9), t * (1 + 1e-9)])
    truth = at_most(values, masses, t)
    low, high = (at_most(law.variance[row], law.mass[row], t) for law in (found.low, found.high))
    rounding = (len(values) + found.low.mass.shape[1]) * 2.0**-53  # of the sums here
    return (high - found.slack - rounding <= truth).all() and (truth <= low + found.slack + rounding).all()


@example(
    (np.array([0.25, 0.25, 1.0, 0.005, 0.0, 0.25, 9.54717184]), np.array([0.5, 0.5, 0.5, 0.5, 0.0, 1.0, 0.5])), 0.0
)
@given(populations(least=2, most=7), st.sampled_from([0.0, 1e9]))
def test_the_grids_two_laws_enclose_the_true_one(population, small_share):
    """Both where a device is taken out of the law of all, and where its own noise makes up for it."""
    variance, p = population
    assume((variance * p).sum() > 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floor_module, "EXACT_CELLS", 0)
        patch.setattr(grid, "_SMALL_SHARE", small_share)
        found = floor(variance, p)
    assert not found.exact
    for k in range(len(p)):
        assert encloses(found, k, *enumerated(variance, p, left_out=(k,)))
        assert found.low.mass[found.row[k]].sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("seed", [0, 23, 30, 32])
def test_twenty_unlike_devices_who_nearly_always_speak_keep_all_their_mass(seed):
    """Too many for the exact law; rounding up to the grid must not push the likeliest outcome off its end."""
    rng = np.random.default_rng(seed)
    variance, p = rng.uniform(0.5, 1.5, 20), rng.uniform(0.995, 0.9999, 20)
    variance[0] = 0.0
    found = floor(variance, p)
    assert not found.exact
    assert found.low.mass.sum(axis=1) == pytest.approx(np.ones(len(found.low.mass)), abs=1e-12)
    values, masses = np.zeros(1), np.ones(1)
    for a, q in zip(variance[1:], p[1:], strict=True):
        values, masses = np.concatenate([values, values + a]), np.concatenate([masses * (1 - q), masses * q])
    for law, side in ((found.low, 1), (found.high, -1)):
        [row] = found.row[found.device == 0]
        for scale in (1.0, 10.0):
            truth = masses @ np.exp(-values / scale)
            ours = law.mass[row] @ np.exp(-law.variance[row] / scale)
            assert side * (ours - truth) >= -found.slack
            # One of 4096 bins, and a grid that is finer than that.
            assert ours == pytest.approx(truth, rel=2 * variance.sum() / 4096 / scale)


def test_the_grid_encloses_the_truth_for_groups_of_like_devices(bracketed):
    variance, p = np.repeat([0.3, 1.1, 2.7], 4), np.repeat([0.5, 0.9, 0.2], 4)
    found = bracketed(variance, p)
    for k in (0, 5, 11):
        assert encloses(found, k, *enumerated(variance, p, left_out=(k,)))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.93, 1.0])
@pytest.mark.parametrize("cell", [1, 7, 1234])
def test_taking_a_device_out_of_the_grid_undoes_adding_it(p, cell):
    others = np.random.default_rng(1).random(4000)
    others /= others.sum()
    part = grid._Part(np.array([0, cell]), np.array([1 - p, p]), np.zeros(2))
    total = grid._summed(others, part)
    begins = int(np.flatnonzero(total)[0])  # the grid does not keep empty cells
    first, found = grid._without(total[begins:], part)
    expected = np.zeros(len(found))
    at = begins + first
    expected[max(0, -at) : max(0, -at) + len(others)] = others
    assert found == pytest.approx(expected, abs=1e-16)


def test_a_device_that_always_speaks_does_not_count_its_own_noise_among_the_others(bracketed):
    found = bracketed(np.array([6.0, 0.5, 1.0]), np.array([1.0, 0.5, 0.5]))
    [row] = found.row[found.device == 0]
    assert found.low.variance[row] == pytest.approx([0.0, 0.5, 1.0, 1.5], abs=1e-3)
    assert found.low.mass[row] == pytest.approx([0.25] * 4)


@given(populations(least=2, most=7), st.integers(1, 3))
def test_without_the_largest_is_never_more_than_the_truth(population, number):
    variance, p = population
    assume(variance.sum() > 0)
    law = grid.without_the_largest(kinds(variance, p), number)
    values, masses = [], []
    for heard in product((0, 1), repeat=len(p)):
        contributions = sorted((a for a, t in zip(variance, heard, strict=True) if t), reverse=True)
        values.append(sum(contributions[number:]))
        masses.append(np.prod([q if t else 1 - q for q, t in zip(p, heard, strict=True)]))
    values, masses = np.array(values), np.array(masses)
    t = np.concatenate([values, law.variance[0]])
    truth, ours = at_most(values, masses, t), at_most(law.variance[0], law.mass[0], t)
    assert (truth <= ours + 1e-13).all()
    # And not needlessly less: rounded down by a few cells of a fine grid, one for each kind of device.
    lost = masses @ values - law.mass[0] @ law.variance[0]
    assert -1e-9 <= lost <= len(p) * variance.sum() / 2**15 + variance.sum() / grid._bins(kinds(variance, p))


def test_absent_devices_on_the_grid_are_never_worse_off_than_in_the_exact_law(bracketed, monkeypatch):
    rng = np.random.default_rng(2)
    variance, p = rng.uniform(0.1, 2, 9), rng.uniform(0, 1, 9)
    rough = bracketed(variance, p, absent=2)
    monkeypatch.undo()
    exact = floor(variance, p, absent=2)
    for k in range(9):
        [row] = rough.row[rough.device == k]
        for scale in (0.1, 1.0, 10.0):
            truth = max(float(mass @ np.exp(-v / scale)) for v, mass in rows_of(exact, k))
            assert rough.low.mass[row] @ np.exp(-rough.low.variance[row] / scale) + rough.slack >= truth
            assert rough.high.mass[row] @ np.exp(-rough.high.variance[row] / scale) - rough.slack <= truth


@given(st.lists(st.floats(0, 10), min_size=5, max_size=60), st.integers(1, 10), st.booleans())
def test_coarsening_moves_every_outcome_to_the_asked_side_and_keeps_all_mass(values, bins, down):
    variance = np.sort(np.array(values))
    mass = np.full(len(values), 1 / len(values))
    v, m = binned(variance, mass, bins, down=down)
    assert m.sum() == pytest.approx(1)
    t = np.concatenate([variance, v])
    before, after = at_most(variance, mass, t), at_most(v, m, t)
    assert (after >= before - 1e-12).all() if down else (after <= before + 1e-12).all()


@given(st.lists(st.tuples(*[st.sampled_from([0.0, -0.0, 0.5, 1.0, 1e300])] * 3), min_size=1, max_size=12))
def test_like_devices_are_sorted_into_kinds(rows):
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    distinct, of_device, count = alike(*columns)
    assert (distinct[of_device] == np.stack(columns, axis=1)).all()
    assert len(distinct) == len({tuple(x + 0.0 for x in row) for row in rows})
    assert count.tolist() == np.bincount(of_device, minlength=len(distinct)).tolist()


def test_nobodys_noise_is_a_law_of_nothing_however_many_devices_there_are():
    p = np.random.default_rng(3).uniform(0.1, 0.9, 40)
    found = floor(np.zeros(40), p, absent=1, extra=0.5)
    assert found.exact
    assert (found.low.variance[found.low.mass > 0] == 0.5).all()
    nothing = grid.without_the_largest(kinds(np.zeros(40), p), 2)
    assert (nothing.variance.tolist(), nothing.mass.tolist()) == ([[0.0]], [[1.0]])


def test_coarsening_leaves_a_law_that_is_small_enough_alone():
    law = floor(np.full(4, 1.0), np.full(4, 0.5)).low
    assert coarsened(law, 4, down=True) is law
