"""Streams over one draw of the channel in which coins are drawn anew: against enumeration of outages and coins."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from airpool import Claim, Network
from airpool import guarantee as guaranteed
from airpool import odds as odds_of
from airpool.account.views import Question, at_server
from airpool.privacy import gaussian
from airpool.privacy.leak import Least, Mixed, Times, Unbounded

DELTA = 1e-5


def still(
    count=4, inferences=3, outage=0.1, participation: Any = 0.6, noise_std: Any = 0.2, *, fading="rayleigh", **more: Any
):
    """A question about a network of like devices over one draw of the channel."""
    claim = Claim(inferences=inferences, delta=more.pop("delta", DELTA), neighbours=more.pop("neighbours", "zero-out"))
    n = Network.uniform(num_devices=count, noise_std=0.2, **more)
    columns = {"noise_std": noise_std, "participation": participation}
    channel = replace(n.channel, fading=fading, outage=outage, redrawn=False)
    return Question(replace(n, channel=channel, devices=replace(n.devices, **columns)), claim)


def guarantee(question):
    return guaranteed(question.network, question.claim)


def odds(question, prior):
    return odds_of(question.network, question.claim, prior=prior)


def changed(question, *, channel=None, **network):
    """The question about a network with other settings, of its channel too."""
    of = question.network
    channel = of.channel if channel is None else replace(of.channel, **channel)
    return replace(question, network=replace(of, channel=channel, **network))


def subsets(members, chance):
    """Every set of some devices that are there, and its probability."""
    for there in product((False, True), repeat=len(members)):
        pairs = list(zip(members, there, strict=True))
        yield [j for j, x in pairs if x], float(np.prod([chance[j] if x else 1 - chance[j] for j, x in pairs]))


def square_laws(question, k, *, absent=()):
    """Of each set of others that are heard, its probability and the law of Σ μ² over the stream."""
    here = question.situation.here
    square, p = float(here.distance(question.claim.neighbours)[k]) ** 2, float(here.participation[k])
    others = [j for j in range(here.num_devices) if j != k and j not in absent]
    for heard, q in subsets(others, here.presence):
        one = {0.0: 1 - p}
        for sends, chance in subsets(heard, here.participation):
            mu2 = round(square / float(here.variance[[k, *sends]].sum()), 12)
            one[mu2] = one.get(mu2, 0.0) + p * chance
        total = {0.0: 1.0}
        for _ in range(question.network.uses(question.claim)):
            added: dict[float, float] = {}
            for (x, a), (y, b) in product(total.items(), one.items()):
                added[round(x + y, 12)] = added.get(round(x + y, 12), 0.0) + a * b
            total = added
        yield float(here.presence[k]) * q, total


def enumerated(question, k, epsilon, **more):
    """δ of device k at ε, by a loop over outages and coins."""
    return sum(
        q * sum(p * float(gaussian.delta(epsilon, np.sqrt(s))) for s, p in total.items())
        for q, total in square_laws(question, k, **more)
    )


@pytest.mark.parametrize("inferences", [2, 5])
@pytest.mark.parametrize("outage", [0.01, 0.3])
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_like_devices_have_the_enumerated_epsilon(inferences, outage, neighbours):
    net = still(inferences=inferences, outage=outage, neighbours=neighbours)
    found = guarantee(net).worst
    assert enumerated(net, 0, found) <= DELTA
    assert enumerated(net, 0, found * 0.998) > DELTA
    assert found < guarantee(net).epsilon_local[0]


def test_weak_devices_that_are_heard_leak_and_lend_no_noise():
    net = still()
    weak = changed(net, channel={"power_rule": "backoff"})
    found, here = guarantee(weak).worst, net.situation.here
    # As an outage among the others alone.
    assert enumerated(net, 0, found) / here.presence[0] <= DELTA < enumerated(net, 0, found * 0.998) / here.presence[0]


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_unlike_devices_are_never_below_enumeration(k):
    unlike = still(noise_std=(0.2, 0.3, 0.15, 0.25), participation=(0.6, 0.9, 0.7, 0.8), inferences=2)
    found = guarantee(unlike).epsilon[k]
    assert enumerated(unlike, k, found) <= DELTA < enumerated(unlike, k, 0.85 * found)


def test_colluders_and_dropouts_are_never_below_enumeration():
    net = still(count=5, inferences=2, outage=0.2)
    alone = [guarantee(changed(net, **who)).worst for who in ({"colluders": 1}, {"dropouts": 1})]
    assert alone[0] == alone[1]
    assert enumerated(net, 0, alone[0], absent=(4,)) <= DELTA < enumerated(net, 0, 0.95 * alone[0], absent=(4,))


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_under_cover_noise_it_is_the_mean_of_products_of_mixtures(neighbours):
    net = still(count=3, inferences=2, outage=0.2, cover_noise=True, neighbours=neighbours)
    here, y = net.situation.here, np.linspace(-12, 16, 1801)
    p, v, shift = here.participation[0], here.variance[0], here.shift[0]

    def normal(mean):
        return np.exp(-((y - mean) ** 2) / 2) / np.sqrt(2 * np.pi)

    def true(eps):
        total = 0.0
        for j, chance in enumerate((0.04, 0.32, 0.64)):
            mu = shift / np.sqrt(v * (1 + j))
            on = (1 - p) * normal(0) + p * normal(mu)
            off = normal(0) if neighbours == "zero-out" else (1 - p) * normal(0) + p * normal(-mu)
            one, other = np.outer(on, on), np.outer(off, off)
            both = [np.maximum(a - np.exp(eps) * b, 0).sum() for a, b in ((one, other), (other, one))]
            total += 0.8 * chance * max(both) * (y[1] - y[0]) ** 2
        return total

    found = guarantee(net).worst
    assert true(found) <= DELTA * (1 + 1e-4)
    assert true(found * 0.99) > DELTA


def test_odds_are_the_mean_of_those_given_outages_and_coins():
    net, prior = still(), 0.1
    found = float(odds(net, prior).device[0])
    silent = 1 - sum(q for q, _ in square_laws(net, 0))
    true = silent * prior + sum(
        q * sum(p * stats.norm.cdf(stats.norm.ppf(prior) + np.sqrt(s)) for s, p in total.items())
        for q, total in square_laws(net, 0)
    )
    assert true <= found <= true * 1.001


def test_a_simulated_stream_of_twelve_cameras():
    """Own noise alone would count 15.10. Rare outages decide, so that each number of them is simulated by itself."""
    net = still(count=12, inferences=100, outage=0.2, participation=0.9, noise_std=0.3)
    report, rng = guarantee(net), np.random.default_rng(47)
    assert report.epsilon_local[0] == pytest.approx(15.10, abs=0.005)
    sends, heard = rng.random((12, 4000, 100)) < 0.9, np.arange(12)[:, None, None]
    noise = 0.3**2 * (1 + rng.binomial(heard, 0.9, sends.shape))
    mu = np.sqrt(np.sum(sends / noise, axis=-1)) / 12

    def simulated(eps):
        return 0.8 * stats.binom.pmf(range(12), 11, 0.8) @ gaussian.delta(eps, mu).mean(axis=1)

    assert report.worst == pytest.approx(4.13, abs=0.005)
    assert simulated(1.002 * report.worst) < DELTA < simulated(0.995 * report.worst)


def test_it_rises_with_inferences_and_stays_below_own_noise():
    each = [guarantee(still(count=12, noise_std=0.3, inferences=n)) for n in (2, 3, 10, 100, 2**14, 2**20)]
    assert [x.worst for x in each] == sorted(x.worst for x in each)
    assert all(x.worst < x.epsilon_local[0] for x in each)


def test_where_everybody_takes_part_nothing_changes():
    sure, nearly = (guarantee(still(participation=p)).worst for p in (1.0, 1 - 1e-9))
    assert nearly == pytest.approx(sure, rel=2e-3)


def test_what_is_not_composed_has_own_noise():
    for net in (still(delta=1e-12), still(inferences=2**25)):
        report = guarantee(net)
        assert report.worst == report.epsilon_local[0]
    covered = still(inferences=2**25, cover_noise=True)
    found = odds(covered, 0.1)
    assert found.device.tolist() == found.local.tolist()


def test_many_kinds_of_devices_have_own_noise_and_fewer_share_the_numbers_that_are_told_apart():
    def kinds(count):
        return still(count=count, noise_std=tuple(np.linspace(0.2, 0.4, count)), outage=0.01)

    report = guarantee(kinds(65))
    assert report.epsilon.tolist() == report.epsilon_local.tolist()
    for count in (6, 20):
        view = at_server(kinds(count).situation)
        assert isinstance(view, Least)
        assert isinstance(view.leaks[0], Mixed)
        assert 1 < len(view.leaks[0].leaks) <= max(64 // count, 1)
        assert np.all(view.leaks[0].mass.sum(axis=0) >= 0.99 * (1 - 1e-12))


def test_many_like_devices_have_few_numbers_of_silent_others():
    view = at_server(still(count=10_000, participation=0.9).situation)
    assert isinstance(view, Least)
    assert isinstance(view.leaks[0], Mixed)
    assert len(view.leaks[0].leaks) == 16
    assert isinstance(view.leaks[1], Times)


@pytest.mark.parametrize("channel", [{"access": "orthogonal"}, {"csi_error_std": 0.1}])
def test_own_noise_counts_with_own_coins_and_silence(channel):
    net = still(count=3, inferences=4)
    net = changed(net, channel=channel)
    report, here = guarantee(net), net.situation.here
    mu, p = here.shift[0] / np.sqrt(here.variance[0]), here.participation[0]
    count = np.arange(5)
    mass = here.presence[0] * np.array([1, 4, 6, 4, 1]) * p**count * (1 - p) ** (4 - count)

    def true(eps):
        return float(mass @ gaussian.delta(eps, mu * np.sqrt(count)))

    assert true(report.worst) <= DELTA < true(0.998 * report.worst)
    assert report.worst < report.epsilon_local[0]


def test_scores_and_removal_have_nothing_but_own_noise():
    removed = at_server(still(neighbours="remove").situation)
    assert isinstance(removed, Least)
    assert isinstance(removed.leaks[0], Unbounded)


def test_without_outages_nothing_stays_and_the_words_say_nothing_of_it():
    steady = still(fading="none")
    fresh = changed(steady, channel={"redrawn": True})
    assert guarantee(steady).worst == guarantee(fresh).worst
    assert not any("Over such a stream" in line for line in guarantee(steady).assumptions)
    assert any("who takes part, in each" in line for line in guarantee(still()).assumptions)
    assert any("scores and removal" in line for line in guarantee(still(neighbours="remove")).assumptions)


def test_the_report_says_that_many_kinds_of_devices_count_by_their_own_noise():
    unlike = still(count=65, noise_std=tuple(np.linspace(0.2, 0.3, 65).tolist()), participation=0.7)
    report = guarantee(unlike)
    assert report.worst == report.epsilon_local[0]
    assert any("accounted for up to 64 kinds" in each for each in report.assumptions)


def test_removal_over_one_draw_is_infinite_for_that_reason():
    report = guarantee(still(neighbours="remove"))
    assert np.isinf(report.worst)
    assert report.reasons["epsilon"] == "over one draw of the channel scores and removal are not accounted for"
