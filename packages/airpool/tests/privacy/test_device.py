"""ε of each device against reference values, against enumeration of who takes part, and against dp-accounting."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.optimize import brentq

from airpool.account.views import Situation, beside
from airpool.network import Claim, Network
from airpool.privacy import device, gaussian
from airpool.privacy import floor as floor_module
from airpool.privacy.aggregate import ratio
from airpool.privacy.device import Aggregate, epsilon
from airpool.privacy.epsilon import epsilon as epsilon_of
from airpool.privacy.leak import Times, gaussians

DELTA = 1e-5
UNLIKE = Aggregate(
    shift=np.array([0.1, 0.2, 0.3, 0.15, 0.25]) * np.array([1, 0.5, 1, 2, 1.0]),
    variance=np.array([0.3, 0.2, 0.5, 0.4, 0.1]) ** 2,
    participation=np.array([0.9, 0.5, 1.0, 0.7, 0.3]),
)


def like(count, *, shift, std, p, **rest):
    return Aggregate(np.full(count, shift), np.full(count, std**2), np.full(count, p), **rest)


def upper(aggregate, neighbours: str = "zero-out", delta=DELTA):
    return epsilon(aggregate, delta, neighbours=neighbours).upper


def local_epsilon(aggregate, inferences=1):
    """ε where no other device's noise counts."""
    own = gaussians(ratio(aggregate.distance("zero-out"), np.sqrt(aggregate.variance)))
    return epsilon_of(Times(inferences, own), DELTA)


def enumerated_delta(aggregate, k, eps, neighbours="zero-out", gone=()):
    """δ_k(ε) by a loop over every outcome of who takes part."""
    others = [i for i in range(aggregate.num_devices) if i != k and i not in gone]
    distance = aggregate.shift[k] * (2 if neighbours == "replace" else 1)
    total = 0.0
    for heard in product((0, 1), repeat=len(others)):
        p = np.prod(
            [
                aggregate.participation[i] if t else 1 - aggregate.participation[i]
                for i, t in zip(others, heard, strict=True)
            ]
        )
        v = aggregate.variance[k] + sum(aggregate.variance[i] for i, t in zip(others, heard, strict=True) if t)
        total += p * gaussian.delta(eps, distance / np.sqrt(v))
    return float(aggregate.participation[k] * total)


# Reference values


@pytest.mark.parametrize(
    ("std", "neighbours", "cover_noise", "dimension", "expected"),
    [
        (0.05, "zero-out", False, 64, 2.063924225),
        (0.05, "replace", False, 64, 4.578183579),
        (0.05, "zero-out", True, 64, 1.808281125),
        (0.05, "remove", False, 1, 3.036466269),
        (0.05, "remove", False, 64, 4.342167113),
        (0.05, "remove", False, 784, 15.28500108),
        (0.02, "zero-out", False, 64, 5.969285149),
        (0.02, "replace", False, 64, 14.24429994),
        (0.02, "zero-out", True, 64, 5.294042122),
        (0.02, "remove", False, 1, 7.503579784),
        (0.02, "remove", False, 64, 8.317542819),
        (0.02, "remove", False, 784, 17.71005218),
    ],
)
def test_twelve_like_devices_have_the_reference_epsilon(std, neighbours, cover_noise, dimension, expected):
    twelve = like(12, shift=1 / 12, std=std, p=0.9, cover_noise=cover_noise, dimension=dimension)
    found = epsilon(twelve, DELTA, neighbours=neighbours)
    assert found.upper == pytest.approx(np.full(12, expected), rel=1e-8)
    assert (found.lower == found.upper).all()


@pytest.mark.parametrize(
    ("neighbours", "cover_noise", "expected"),
    [
        ("zero-out", False, [0.5435240259, 0.5137881454, 1.933530653, 1.621840596, 1.411887136]),
        ("replace", False, [1.170544724, 1.113643715, 4.324820691, 3.55964956, 3.153614438]),
        ("zero-out", True, [0.4300684117, 0.2485161477, 1.574473363, 1.270507808, 0.51918852]),
    ],
)
def test_five_unlike_devices_have_the_reference_epsilon(neighbours, cover_noise, expected):
    assert upper(replace(UNLIKE, cover_noise=cover_noise), neighbours) == pytest.approx(expected, rel=1e-8)


def test_the_papers_defaults_have_the_reference_epsilon_and_break_the_papers_claim():
    paper = like(12, shift=100 / 12, std=np.sqrt(0.1), p=0.9)
    assert upper(paper)[0] == pytest.approx(80.12256366, rel=1e-9)
    assert device.delta(paper, 59.39744156)[0] == pytest.approx(0.00162220209, rel=1e-8)


def test_device_and_local_epsilon_differ_as_the_reference_says():
    net = like(12, shift=1 / 12, std=0.08975, p=1.0)
    assert upper(net)[0] == pytest.approx(0.9999394235, rel=1e-9)
    assert local_epsilon(net)[0] == pytest.approx(4.017809984, rel=1e-9)


def test_one_colluder_out_of_unequal_ones_is_the_worst_one():
    net = Aggregate(np.full(3, 0.1), np.array([0.1, 1.0, 0.9486832981]) ** 2, np.array([1.0, 0.1, 1.0]), absent=1)
    assert upper(net)[0] == pytest.approx(4.352517046, rel=1e-8)


def test_the_mean_noise_would_promise_too_much():
    """K = 5, p = .9, σ = C = w = 1, replace, given that the device takes part: 4.815, where the mean says 4.038."""
    net = like(5, shift=1.0, std=1.0, p=0.9)
    given = brentq(lambda e: enumerated_delta(net, 0, e, "replace") / 0.9 - DELTA, 1, 10)
    assert given == pytest.approx(4.815, abs=5e-4)
    assert gaussian.epsilon(2 / np.sqrt(1 + 4 * 0.9), DELTA) == pytest.approx(4.038, abs=5e-4)
    # δ_k = p·(that), so at δ = p·1e-5 the library must find the same.
    assert upper(net, "replace", delta=0.9 * DELTA)[0] == pytest.approx(given, rel=1e-9)


# Independent answers


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("eps", [0.0, 0.3, 1.0, 3.0])
def test_delta_is_the_mean_over_every_outcome_of_who_takes_part(neighbours, eps):
    expected = [enumerated_delta(UNLIKE, k, eps, neighbours) for k in range(5)]
    assert device.delta(UNLIKE, eps, neighbours=neighbours) == pytest.approx(expected, rel=1e-10)


def test_delta_takes_one_epsilon_for_each_device():
    eps = upper(UNLIKE)
    assert device.delta(UNLIKE, eps) == pytest.approx(np.full(5, DELTA), rel=1e-9)
    assert (device.delta(UNLIKE, eps) <= DELTA).all()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_absent_devices_are_the_worst_ones_that_could_be_missing(number):
    found = upper(replace(UNLIKE, absent=number))
    for k in range(5):
        others = [i for i in range(5) if i != k]
        worst = max(enumerated_delta(UNLIKE, k, found[k], gone=gone) for gone in combinations(others, number))
        assert worst == pytest.approx(DELTA, rel=1e-8)


def test_devices_known_to_collude_lend_no_noise_but_are_protected_by_the_others():
    found = upper(replace(UNLIKE, colluding=(0, 2)))
    for k in range(5):
        assert enumerated_delta(UNLIKE, k, found[k], gone=(0, 2)) == pytest.approx(DELTA, rel=1e-8)


def test_known_colluders_come_on_top_of_the_number_of_unknown_ones():
    found = upper(replace(UNLIKE, colluding=(0,), absent=1))
    for k in range(5):
        others = [i for i in range(1, 5) if i != k]
        worst = max(enumerated_delta(UNLIKE, k, found[k], gone=(0, i)) for i in others)
        assert worst == pytest.approx(DELTA, rel=1e-8)


@pytest.mark.parametrize("k", range(5))
def test_dp_accounting_mixes_the_outcomes_to_the_same_epsilon(k):
    """The adversary sees τ: the privacy loss is that of a Gaussian drawn with the outcome's probability."""
    grid = 1e-3
    others = [i for i in range(5) if i != k]
    p = UNLIKE.participation
    parts = [(float(1 - p[k]), 0.0)]
    for heard in product((0, 1), repeat=4):
        chance = float(p[k] * np.prod([p[i] if t else 1 - p[i] for i, t in zip(others, heard, strict=True)]))
        v = UNLIKE.variance[k] + sum(UNLIKE.variance[i] for i, t in zip(others, heard, strict=True) if t)
        parts.append((chance, float(UNLIKE.shift[k] / np.sqrt(v))))
    losses: dict[int, float] = {}
    infinity = 0.0
    for chance, mu in parts:
        if chance == 0:
            continue
        one = (
            pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid)._pmf_remove.to_dense_pmf()
            if mu
            else pld_pmf.DensePLDPmf(grid, 0, np.ones(1), 0.0, True)
        )
        infinity += chance * one._infinity_mass
        for i, mass in enumerate(one._probs):
            losses[one._lower_loss + i] = losses.get(one._lower_loss + i, 0.0) + chance * mass
    lowest, highest = min(losses), max(losses)
    probs = np.array([losses.get(i, 0.0) for i in range(lowest, highest + 1)])
    oracle = pld_pmf.DensePLDPmf(grid, lowest, probs, infinity, True).get_epsilon_for_delta(DELTA)
    ours = float(upper(UNLIKE)[k])
    # Connecting the dots is exact on the grid and above the truth within a cell.
    assert ours - 1e-9 <= oracle <= ours + grid


# Outage: a device that is not on the air


def test_a_device_in_outage_is_silent_for_itself_and_for_the_others():
    presence = np.array([0.9, 0.99, 0.5, 1.0, 0.8])
    folded = replace(UNLIKE, participation=UNLIKE.participation * presence)
    for neighbours in ("zero-out", "replace"):
        assert upper(replace(UNLIKE, presence=presence), neighbours) == pytest.approx(
            upper(folded, neighbours), rel=1e-12
        )


def test_a_weakened_device_leaks_as_if_it_were_there_but_its_noise_does_not_count():
    presence = np.array([0.9, 0.99, 0.5, 1.0, 0.8])
    found = upper(replace(UNLIKE, presence=presence, weakened=True))
    for k in range(5):
        p = UNLIKE.participation * presence
        p[k] = UNLIKE.participation[k]
        folded = replace(UNLIKE, participation=p)
        assert enumerated_delta(folded, k, found[k]) == pytest.approx(DELTA, rel=1e-8)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace", "remove"])
def test_cover_noise_with_outage_is_the_mean_over_who_is_on_the_air(neighbours):
    """Who is on the air is known and does not depend on the data; who of them takes part is hidden."""
    presence = np.array([0.9, 0.6, 0.5, 1.0, 0.8])
    net = replace(UNLIKE, presence=presence, cover_noise=True, dimension=3)
    eps = 0.7
    found = device.delta(net, eps, neighbours=neighbours)
    for k in range(5):
        others = [i for i in range(5) if i != k]
        total = 0.0
        for there in product((0, 1), repeat=4):
            pairs = list(zip(others, there, strict=True))
            on_air = [k, *(i for i, t in pairs if t)]
            one = Aggregate(
                UNLIKE.shift[on_air],
                UNLIKE.variance[on_air],
                UNLIKE.participation[on_air],
                cover_noise=True,
                dimension=3,
            )
            chance = np.prod([presence[i] if t else 1 - presence[i] for i, t in pairs])
            total += chance * device.delta(one, eps, neighbours=neighbours)[0]
        # The larger direction may differ between outcomes, so the sum of the larger ones is no less.
        assert presence[k] * total >= found[k] - 1e-12
        assert presence[k] * total == pytest.approx(found[k], rel=1e-6)


# Edge cases


def test_without_any_noise_epsilon_is_infinite():
    assert (upper(like(3, shift=1.0, std=0.0, p=1.0)) == np.inf).all()
    assert (upper(like(3, shift=1.0, std=0.0, p=0.5), "replace") == np.inf).all()


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_a_device_without_weight_or_that_never_takes_part_leaks_nothing(neighbours):
    net = Aggregate(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0]))
    assert upper(net, neighbours)[:2].tolist() == [0.0, 0.0]


def test_a_device_that_takes_part_less_often_than_delta_leaks_nothing_even_without_noise():
    net = like(2, shift=1.0, std=0.0, p=0.9e-5)
    assert upper(net).tolist() == [0.0, 0.0]
    assert (upper(net, delta=0.8e-5) == np.inf).all()


def test_a_device_without_noise_of_its_own_is_exposed_when_all_noisy_ones_may_be_silent():
    net = Aggregate(np.full(2, 0.1), np.array([0.0, 1.0]), np.array([1.0, 0.999]))
    assert upper(net)[0] == np.inf  # the other one is silent once in a thousand times
    always = Aggregate(np.full(2, 0.1), np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    assert upper(always)[0] == pytest.approx(float(gaussian.epsilon(0.1, DELTA)))


def test_a_device_alone_has_its_local_epsilon():
    net = Aggregate(np.array([0.3]), np.array([0.5]), np.ones(1))
    assert upper(net) == pytest.approx(local_epsilon(net))


def test_orthogonal_access_leaves_each_device_its_own_noise():
    found = upper(replace(UNLIKE, alone=True))
    for k in range(5):
        expected = UNLIKE.participation[k] * gaussian.delta(found[k], UNLIKE.shift[k] / np.sqrt(UNLIKE.variance[k]))
        assert expected == pytest.approx(DELTA, rel=1e-8)
    assert (found >= upper(UNLIKE)).all()


def test_credited_noise_protects_like_a_device_that_always_speaks():
    more = Aggregate(
        np.append(UNLIKE.shift, 0.0), np.append(UNLIKE.variance, 0.04), np.append(UNLIKE.participation, 1.0)
    )
    assert upper(replace(UNLIKE, extra=0.04)) == pytest.approx(upper(more)[:5], rel=1e-10)


def test_epsilon_falls_when_a_noisy_device_joins():
    joined = Aggregate(
        np.append(UNLIKE.shift, 0.3), np.append(UNLIKE.variance, 0.3), np.append(UNLIKE.participation, 0.4)
    )
    assert (upper(joined)[:5] < upper(UNLIKE)).all()


def test_local_epsilon_of_many_inferences_is_that_of_one_with_mu_grown_by_their_root():
    assert local_epsilon(UNLIKE, inferences=9) == pytest.approx(
        gaussian.epsilon(3 * UNLIKE.shift / np.sqrt(UNLIKE.variance), DELTA)
    )


def test_local_epsilon_of_removal_is_infinite():
    situation = Situation(Network.uniform(num_devices=5), Claim(neighbours="remove"), UNLIKE, 1)
    assert epsilon_of(beside(situation), DELTA).tolist() == [np.inf] * 5


# Many devices


def test_the_exact_law_and_the_grid_agree_within_a_thousandth(monkeypatch):
    exact = upper(UNLIKE)
    monkeypatch.setattr(floor_module, "EXACT_CELLS", 0)
    found = epsilon(UNLIKE, DELTA)
    assert (found.lower <= exact).all()
    assert (exact <= found.upper).all()
    assert (found.lower <= found.upper).all()
    assert (found.upper <= found.lower * 1.001).all()


def many(count, seed):
    """Unlike devices whose ε is of the order of 1."""
    rng = np.random.default_rng(seed)
    std = rng.uniform(0.5, 2, count) / np.sqrt(count)
    return Aggregate(rng.uniform(0.1, 0.5, count), std**2, rng.uniform(0.1, 1, count))


def test_300_unlike_devices_are_enclosed_within_one_percent_as_drawn_participation_confirms():
    """Who takes part is drawn, δ_G given that is exact: four standard errors of the sample, either way."""
    net = many(300, seed=5)
    found = epsilon(net, DELTA)
    assert (found.lower <= found.upper).all()
    assert (found.upper <= found.lower * 1.01).all()
    for k in (0, 100, 299):
        others = np.delete(np.arange(300), k)
        heard = np.random.default_rng([6, k]).random((20_000, 299)) < net.participation[others]
        v = heard @ net.variance[others] + net.variance[k]
        for bound, side in ((found.upper[k], 1), (found.lower[k], -1)):
            each = net.participation[k] * gaussian.delta(bound, net.shift[k] / np.sqrt(v))
            error = 4 * each.std() / np.sqrt(len(each))
            assert side * (each.mean() - DELTA) <= error
            assert error < 0.05 * DELTA  # or the sample would say nothing


def test_forty_unlike_devices_that_lend_no_noise_are_each_on_their_own():
    net = replace(many(40, seed=9), alone=True)
    found = upper(net)
    own = net.participation * gaussian.delta(found, net.shift / np.sqrt(net.variance))
    assert own == pytest.approx(np.full(40, DELTA), rel=1e-8)
    assert (upper(replace(net, alone=False, variance=np.zeros(40))) == np.inf).all()


@pytest.mark.check
def test_ten_thousand_unlike_devices_are_enclosed_within_one_percent():
    found = epsilon(many(10_000, seed=7), DELTA)
    assert (found.lower <= found.upper).all()
    assert (found.upper <= found.lower * 1.01).all()


def test_a_million_devices_of_ten_kinds_are_enclosed_within_one_percent():
    rng = np.random.default_rng(8)
    ten = many(10, seed=8)
    of_device = rng.integers(0, 10, 1_000_000)
    net = Aggregate(ten.shift[of_device], ten.variance[of_device] / 1e5, ten.participation[of_device])
    found = epsilon(net, DELTA)
    assert found.upper.shape == (1_000_000,)
    assert found.lower.min() > 0.1
    assert (found.upper <= found.lower * 1.01).all()


# Bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shift": np.array([1.0, -1.0])}, r"shift\[1\]=-1 must be >= 0 and finite"),
        ({"shift": np.array([np.inf, 1.0])}, r"shift\[0\]=inf must be >= 0 and finite"),
        ({"variance": np.array([np.nan, 1.0])}, r"variance\[0\]=nan must be >= 0 and finite"),
        ({"participation": np.array([0.5, 1.5])}, r"participation\[1\]=1.5 must be between 0 and 1"),
        ({"participation": np.array([0.5])}, "need one value per device"),
        ({"presence": np.array([0.5])}, "need one value per device"),
        ({"presence": np.array([0.5, -0.5])}, r"presence\[1\]=-0.5 must be between 0 and 1"),
        ({"extra": -1.0}, "extra=-1 must be >= 0 and finite"),
        ({"absent": -1}, "absent=-1 must be >= 0"),
        ({"colluding": (2,)}, r"colluding=\(2,\) must name devices 0 to 1"),
    ],
)
def test_a_bad_aggregate_is_refused_by_name_and_value(change, message):
    with pytest.raises(ValueError, match=message):
        replace(like(2, shift=1.0, std=1.0, p=0.5), **change)


def test_an_aggregate_without_devices_is_refused():
    with pytest.raises(ValueError, match="at least one device"):
        Aggregate(np.zeros(0), np.zeros(0), np.zeros(0))


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, np.nan])
def test_a_delta_outside_zero_to_one_is_refused(delta):
    with pytest.raises(ValueError, match=r"delta=.* must be > 0 and < 1"):
        epsilon(UNLIKE, delta)


def test_unknown_neighbours_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="neighbours='swap' must be one of zero-out, replace, remove"):
        epsilon(UNLIKE, DELTA, neighbours="swap")  # pyright: ignore[reportArgumentType]
