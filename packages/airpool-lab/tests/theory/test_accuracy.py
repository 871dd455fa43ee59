"""Proven accuracies: never above what is measured, in networks and servers at random; and their parts by themselves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import binom, norm

from airpool.evaluation import mse
from airpool.network import Channel, Devices, Network, Threshold
from airpool.protocol.device import clipped
from airpool.protocol.server import labels as labels_of
from airpool.protocol.simulation import receive
from airpool.radio.link import level, link_of
from airpool_lab.theory.prediction import (
    _expected_scores,
    _worst,
    ball,
    ceiling,
    chebyshev,
    half_spaces,
    law,
    lipschitz_constants,
    margin,
    no_answer,
    spectral_constants,
)
from airpool_lab.theory.server import LayeredServer, linear_server, scores
from tests.random_networks import channels, stds
from tests.random_servers import random_server

R = 4
TRIALS = 2000
# Of one comparison; some thousands are made.
RARE = 1e-8


@st.composite
def networks(draw, *, exact):
    """exact: only what the law of the error is known for."""
    count = draw(st.integers(1, 5))
    noise = draw(st.sampled_from([0.0, 0.02, 0.1, 0.3]))
    devices = Devices(
        count=count,
        weight=tuple(draw(st.lists(st.floats(0.1, 1.0), min_size=count, max_size=count))),
        clip_norm=draw(st.sampled_from([0.5, 1.0, 3.0])),
        noise_std=tuple(draw(st.lists(stds(1.0), min_size=count, max_size=count)) * np.array(noise)),
        participation=tuple(draw(st.lists(st.floats(0.2, 1.0), min_size=count, max_size=count))),
        power_dbm=tuple(draw(st.lists(st.floats(20.0, 30.0), min_size=count, max_size=count))),
    )
    channel = draw(channels())
    channel = replace(channel, noise_std=draw(st.sampled_from([0.0, 0.3, 3.0])))
    if exact:
        channel = replace(channel, power_rule="truncate", csi_error_std=0.0, phase_error_std=0.0)
    return Network(devices=devices, channel=channel, dimension=R, cover_noise=draw(st.booleans()))


def objects(network, rng, *, count=5):
    """Latents of views that are alike, some too long for their clip norm."""
    return rng.standard_normal((count, 1, R)) + 0.2 * rng.standard_normal((count, network.devices.count, R))


@st.composite
def cases(draw, *, exact):
    """A network and its radio, a server with at most one hidden layer, latents, and labels that it can hope to name."""
    network, rng = draw(networks(exact=exact)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    z, link = objects(network, rng), link_of(network)
    expected = mse.expected(z, network, link=link)
    kind = draw(st.sampled_from(["linear", "hidden", "made"]))
    classes = draw(st.integers(2, 5))
    if kind == "made":
        own = np.arange(len(z)) % classes
        noise = level(network, link).noise_std + 0.05
        return network, link, linear_server(expected, own, noise_std=noise, num_classes=classes), z, own
    server = random_server(rng, R, *([6] if kind == "hidden" else []), classes)
    # One label is wrong from the start.
    own = np.argmax(scores(server, expected), axis=1)
    own[-1] = (own[-1] + 1) % classes
    return network, link, server, z, own


def times_right(network, server, latents, own, *, trials=TRIALS, link=None):
    """How often each object is named over the air; no answer counts as wrong."""
    heard = receive(latents, network, rng=np.random.default_rng(0), trials=trials, link=link)
    return np.sum(labels_of(scores(server, heard.estimate), heard.any_signal) == own[:, None], axis=1)


def is_possible(count, bound, trials=TRIALS):
    """Whether a chance of at least `bound` may well give no more than `count`, by the binomial law itself."""
    return np.all(binom.cdf(count, trials, np.clip(bound - 1e-12, 0, 1)) >= RARE)


def is_possible_below(count, bound, trials=TRIALS):
    return np.all(binom.sf(count - 1, trials, np.clip(bound + 1e-12, 0, 1)) >= RARE)


def by_chebyshev(network, server, latents, own, *, link=None):
    link = link_of(network) if link is None else link
    expected = mse.expected(latents, network, link=link)
    spread = mse.error(latents, network, target=expected, link=link).total
    away = margin(server, expected, own, constants=lipschitz_constants(server))
    return chebyshev(spread, away, unanswered=no_answer(network, link))


# What must hold


@settings(max_examples=100)
@given(case=cases(exact=True), most=st.sampled_from([1, 3, 4096]))
def test_no_certificate_exceeds_the_measured_accuracy(case, most):
    network, link, server, z, own = case
    count = times_right(network, server, z, own, link=link)
    known, constants = law(network, most=most, link=link), lipschitz_constants(server)
    certificates = {
        "chebyshev": by_chebyshev(network, server, z, own, link=link),
        "ball": ball(server, known, z, own, constants=constants),
        "ball, spectral": ball(server, known, z, own),
        "half-spaces": half_spaces(server, known, z, own, constants=constants),
        "half-spaces, spectral": half_spaces(server, known, z, own, constants=spectral_constants(server)),
    }
    for name, bound in certificates.items():
        assert np.all((bound >= 0) & (bound <= 1)), name
        assert is_possible(count, bound), (name, count / TRIALS, bound)
    if len(server.layers) == 1:
        assert is_possible_below(count, ceiling(server, known, z, own))


@settings(max_examples=100)
@given(case=cases(exact=False))
def test_chebyshev_holds_with_backoff_and_with_gains_and_phases_that_are_off(case):
    network, link, server, z, own = case
    count = times_right(network, server, z, own, link=link)
    assert is_possible(count, by_chebyshev(network, server, z, own, link=link))


def test_the_certificates_are_worth_something():
    """On objects that are seldom misnamed, from loose to sharp, each well above nothing."""
    rng = np.random.default_rng(0)
    network = Network.uniform(num_devices=5, participation=0.9, noise_std=0.02, dimension=R)
    server = random_server(rng, R, 8, 3)
    z = 4 * objects(network, rng, count=40)
    own = np.argmax(scores(server, mse.expected(z, network)), axis=1)
    known, constants = law(network), lipschitz_constants(server)
    loose, middle, sharp = (
        float(np.mean(each))
        for each in (
            by_chebyshev(network, server, z, own),
            ball(server, known, z, own, constants=constants),
            half_spaces(server, known, z, own, constants=constants),
        )
    )
    measured = float(np.mean(times_right(network, server, z, own))) / TRIALS
    assert 0.15 < loose < middle < sharp < measured
    assert measured - sharp < 0.15


@settings(max_examples=25)
@given(network=networks(exact=True), seed=st.integers(0, 2**32 - 1))
def test_two_classes_and_a_linear_server_leave_no_gap(network, seed):
    """Then the union bound has one term, and the bracket closes on the exact probability."""
    rng = np.random.default_rng(seed)
    server, z = random_server(rng, R, 2), objects(network, rng)
    own = rng.integers(0, 2, len(z))
    known = law(network)
    low, high = half_spaces(server, known, z, own), ceiling(server, known, z, own)
    assert low == pytest.approx(high, abs=1e-12)
    (A, b) = server.layers[0]
    sent = clipped(z, network.devices.column("clip_norm"))
    for i, label in enumerate(own):
        right = 0.0
        for who, chance, variance in zip(known.transmitting, known.probability, known.variance, strict=True):
            x = sum(who[k] * network.devices.column("weight")[k] * sent[i, k] for k in range(network.devices.count))
            away, gap = A[label] - A[1 - label], (A[label] - A[1 - label]) @ x + b[label] - b[1 - label]
            right += chance * (norm.cdf(gap / np.sqrt(variance * away @ away)) if variance > 0 else float(gap > 0))
        assert low[i] == pytest.approx(right, abs=1e-9)
    assert is_possible(times_right(network, server, z, own), low)
    assert is_possible_below(times_right(network, server, z, own), low)


@settings(max_examples=25)
@given(network=networks(exact=True), seed=st.integers(0, 2**32 - 1))
def test_a_linear_server_is_bracketed(network, seed):
    rng = np.random.default_rng(seed)
    server, z = random_server(rng, R, 4), objects(network, rng)
    own = rng.integers(0, 4, len(z))
    known = law(network)
    low, high, inside = (f(server, known, z, own) for f in (half_spaces, ceiling, ball))
    assert np.all(low <= high + 1e-12)
    # Usually below half_spaces; above where much noise makes many half-spaces count twice.
    assert np.all(inside <= high + 1e-12)


# The parts


@pytest.mark.parametrize(
    ("dimension", "inside"), [(1, lambda t: 2 * norm.cdf(t) - 1), (2, lambda t: 1 - np.exp(-t * t / 2))]
)
def test_a_ball_holds_the_share_of_the_noise_that_it_holds(dimension, inside):
    """On a line and in the plane, in closed form."""
    network = Network.uniform(num_devices=1, noise_std=0.2, dimension=dimension)
    server = LayeredServer(((np.array([[1.0, -1.0], [-1.0, 1.0]])[:, :dimension], np.zeros(2)),))
    z = np.array([[[0.1, -0.3][:dimension]], [[0.5, 0.2][:dimension]]])
    away = margin(server, z[:, 0], [0, 0])
    assert np.all(away > 0)
    assert ball(server, law(network), z, [0, 0]) == pytest.approx(inside(away / 0.2))


def test_one_hidden_layer_has_the_mean_score_that_sampling_gives():
    rng = np.random.default_rng(0)
    server = random_server(rng, 3, 7, 4)
    x, std = rng.standard_normal((5, 3)), 0.7
    samples = scores(server, x[:, None] + std * rng.standard_normal((5, 50_000, 3)))
    error = samples.std(axis=1) / samples.shape[1] ** 0.5
    assert np.all(np.abs(_expected_scores(server, x, std)[0] - samples.mean(axis=1)) <= 5 * error)


def test_one_unit_has_the_mean_score_of_quadrature():
    server = LayeredServer(((np.array([[2.0]]), np.array([-1.0])), (np.array([[3.0], [-1.0]]), np.array([0.5, 0.0]))))
    for x, std in ((0.2, 0.1), (0.5, 1.0), (-3.0, 0.3), (40.0, 0.01)):
        mean = quad(lambda y, x=x, std=std: max(2 * (x + std * y) - 1, 0.0) * norm.pdf(y), -9, 9, points=[0.0])[0]
        found = _expected_scores(server, np.array([[x]]), std)[0]
        assert found[0] == pytest.approx([3 * mean + 0.5, -mean], rel=1e-6, abs=1e-9)
    assert _expected_scores(server, np.array([[2.0]]), 0.0)[0].tolist() == scores(server, [[2.0]]).tolist()


@pytest.mark.parametrize("q", [-8.0, -5.0, -2.0, -0.5, 0.0, 0.3, 1.0, 2.5])
def test_the_worst_chance_is_that_of_the_function_that_attains_it(q):
    """f(y) = (y − q)₊ has slope 1, and is 0 with probability Φ(q): no function of its mean does so more often."""
    mean = quad(lambda y: (y - q) * norm.pdf(y), max(q, -12), 12, epsabs=1e-14)[0]
    found = float(_worst(np.array([mean]))[0])
    assert found == pytest.approx(ndtr(q), rel=1e-6)
    assert found >= ndtr(q) * (1 - 1e-9)


def test_without_a_mean_above_zero_nothing_is_proven():
    assert _worst(np.array([-1.0, 0.0, 1e-320, -np.inf])).tolist() == [1.0] * 4
    assert _worst(np.array([np.inf, 1e4])).tolist() == [0.0, 0.0]
    away = np.concatenate((np.linspace(1e-6, 45, 4000), [1e-9]))
    assert np.all(np.diff(_worst(np.sort(away))) <= 0)


@settings(max_examples=200)
@given(
    slopes=st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=6),
    knots=st.lists(st.floats(-3.0, 3.0), min_size=5, max_size=5),
    start=st.floats(-1.0, 4.0),
)
def test_no_function_of_slope_one_is_negative_more_often_than_the_worst(slopes, knots, start):
    """Straight pieces: mean and chance in closed form, piece by piece."""
    ends = [-np.inf, *sorted(knots[: len(slopes) - 1]), np.inf]
    mean = chance = 0.0
    value = start  # at the first knot, or at 0 if there is none
    for left, right, slope in zip(ends, ends[1:], slopes, strict=False):
        at = left if np.isfinite(left) else right if np.isfinite(right) else 0.0
        height = value - slope * at  # f(y) = height + slope·y on this piece
        a, b = ndtr(left), ndtr(right)
        mean += height * (b - a) + slope * (norm.pdf(left) - norm.pdf(right))
        if slope == 0:
            chance += (b - a) * (height <= 0)
        else:
            root = ndtr(np.clip(-height / slope, left, right))
            chance += root - a if slope > 0 else b - root
        value = height + slope * right if np.isfinite(right) else 0.0
    assert chance <= float(_worst(np.array([mean]))[0]) + 1e-9


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), dimension=st.integers(1, 6))
def test_no_network_of_slope_one_is_negative_more_often_than_the_worst(seed, dimension):
    rng = np.random.default_rng(seed)
    server = random_server(rng, dimension, 5, 2)
    x = rng.standard_normal((20_000, dimension))
    gap = scores(server, x) @ [1.0, -1.0] / lipschitz_constants(server)[0, 1]
    gap += rng.uniform(0, 1.5) - gap.mean()
    # The mean by sampling, its error on the safe side.
    mean = gap.mean() - 5 * gap.std() / len(gap) ** 0.5
    assert binom.sf(np.sum(gap <= 0) - 1, len(gap), float(_worst(np.array([mean]))[0])) >= RARE


# No answer


def test_no_answer_is_nobody_on_the_air():
    assert no_answer(Network(Devices(3, participation=(0.9, 0.5, 0.8)))) == pytest.approx(0.1 * 0.5 * 0.2)
    assert no_answer(Network.uniform(num_devices=3, participation=0.5, cover_noise=True)) == 0.0
    fading = Channel("rayleigh", outage=0.3)
    network = Network.uniform(num_devices=3, participation=0.5, channel=fading)
    assert no_answer(network) == pytest.approx((1 - 0.5 * 0.7) ** 3, rel=1e-6)
    assert no_answer(replace(network, channel=replace(fading, power_rule="backoff"))) == pytest.approx(0.5**3)
    assert no_answer(replace(network, cover_noise=True)) == pytest.approx(0.3**3, rel=1e-6)


@settings(max_examples=25)
@given(network=networks(exact=False))
def test_no_answer_is_as_frequent_as_it_is_measured(network):
    heard = receive(np.zeros((1, network.devices.count, R)), network, rng=np.random.default_rng(0), trials=20_000)
    heard = heard.any_signal
    silent, chance = np.sum(~heard), no_answer(network)
    assert binom.cdf(silent, heard.size, chance) >= RARE
    assert binom.sf(silent - 1, heard.size, chance) >= RARE


def test_no_answer_is_not_known_where_scores_choose():
    with pytest.raises(ValueError, match=r"scheme.name='2.1' must be 1"):
        no_answer(Network.uniform(num_devices=3, scheme=Threshold()))


def test_chebyshev_leaves_no_more_than_the_inferences_with_an_answer():
    """A server that always says 0: no error matters, and only silence loses."""
    network = Network.uniform(num_devices=2, participation=0.5, noise_std=0.0, dimension=R)
    server = LayeredServer(((np.ones((2, R)), np.array([1.0, 0.0])),))
    z, own = objects(network, np.random.default_rng(0)), np.zeros(5, dtype=int)
    found = by_chebyshev(network, server, z, own)
    assert found == pytest.approx([0.75] * 5)
    assert half_spaces(server, law(network), z, own) == pytest.approx([0.75] * 5)
    assert ball(server, law(network), z, own) == pytest.approx([0.75] * 5)
    count = times_right(network, server, z, own)
    assert is_possible(count, found)
    assert is_possible_below(count, found)


# Edges


def test_without_noise_the_certificates_are_what_the_server_says():
    rng = np.random.default_rng(0)
    network = Network.uniform(num_devices=3, noise_std=0.0, dimension=R)
    z = objects(network, rng, count=30)
    for server in (random_server(rng, R, 3), random_server(rng, R, 6, 3)):
        own = rng.integers(0, 3, len(z))
        right = np.argmax(scores(server, mse.expected(z, network)), axis=1) == own
        assert half_spaces(server, law(network), z, own).tolist() == right.tolist()
        assert ball(server, law(network), z, own).tolist() == right.tolist()
    linear = random_server(rng, R, 3)
    right = np.argmax(scores(linear, mse.expected(z, network)), axis=1) == own
    assert ceiling(linear, law(network), z, own).tolist() == right.tolist()


def test_a_tie_is_lost_below_and_won_above():
    network = Network.uniform(num_devices=1, noise_std=0.1, dimension=R)
    torn = LayeredServer(((np.ones((2, R)), np.zeros(2)),))
    z, own = np.zeros((1, 1, R)), [0]
    assert half_spaces(torn, law(network), z, own).tolist() == ball(torn, law(network), z, own).tolist() == [0.0]
    assert ceiling(torn, law(network), z, own).tolist() == [1.0]


@pytest.mark.parametrize("hidden", [False, True])
def test_a_gap_that_rounding_made_is_lost_below_and_won_above(hidden):
    """The last of two classes with one row is never named, whatever the last bit of its scores."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(18, 38))
    A[17] = A[0]
    z = (5 * A[[17]] / np.linalg.norm(A[17]) + rng.normal(size=(7, 38)))[:, None]
    server = LayeredServer(((A, np.zeros(18)),))
    theirs = np.isin(np.argmax(scores(server, z[:, 0]), axis=1), (0, 17))
    if hidden:
        server = LayeredServer(
            ((np.concatenate((np.eye(38), -np.eye(38))), np.zeros(76)), (np.hstack((A, -A)), np.zeros(18)))
        )
    for noise in (0.0, 1e-9, 0.1):
        network = Network.uniform(num_devices=1, weight=1.0, clip_norm=1e3, noise_std=noise, dimension=38)
        for label in (0, 17):
            own = np.full(7, label)
            assert half_spaces(server, law(network), z, own).tolist() == [0.0] * 7
            assert ball(server, law(network), z, own).tolist() == [0.0] * 7
            if not hidden:
                assert np.all(ceiling(server, law(network), z, own)[theirs] > 0.9)


@pytest.mark.parametrize("size", [1e-170, 1e-320])
def test_rows_that_differ_by_next_to_nothing_are_not_settled(size):
    """Noise ten times the distance to the border: right little more than half of the time."""
    network = Network.uniform(num_devices=1, weight=1.0, clip_norm=9.0, noise_std=10.0, dimension=1)
    server = LayeredServer(((np.array([[size], [-size]]), np.zeros(2)),))
    assert half_spaces(server, law(network), [[[1.0]]], [0])[0] <= ndtr(0.1) + 1e-12
    assert ball(server, law(network), [[[1.0]]], [0])[0] <= ndtr(0.1)


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 12), hidden=st.booleans())
def test_what_is_pooled_to_a_tie_is_not_won_by_the_order_of_the_sum(seed, count, hidden):
    """Without noise and without bias, devices that cancel leave nothing but rounding to be named."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((6, count, R))
    z = np.concatenate((z, -z[:, rng.permutation(count)]), axis=1)
    network = Network.uniform(num_devices=2 * count, clip_norm=100.0, noise_std=0.0, dimension=R)
    server = LayeredServer(tuple((A, 0 * b) for A, b in random_server(rng, R, *([6] if hidden else []), 3).layers))
    own = np.argmax(scores(server, law(network).means(z, 0)), axis=1)
    assert half_spaces(server, law(network), z, own).tolist() == [0.0] * 6
    assert ball(server, law(network), z, own).tolist() == [0.0] * 6


@given(
    seed=st.integers(0, 2**32 - 1),
    exponents=st.lists(st.integers(-150, 150) | st.integers(-2, 2), min_size=6, max_size=6),
    hidden=st.booleans(),
)
def test_certificates_are_chances_in_order_at_any_scale(seed, exponents, hidden):
    rng = np.random.default_rng(seed)
    # A network's own numbers have a range; the server's have none.
    sizes = [10.0**e for e in (*exponents[:4], *np.clip(exponents[4:], -49, 29))]
    made = random_server(rng, R, *([6] if hidden else []), 3)
    server = LayeredServer(
        tuple((A * a, b * c) for (A, b), a, c in zip(made.layers, sizes[2:], sizes[:2], strict=False))
    )
    network = Network.uniform(num_devices=2, clip_norm=10 * sizes[4], noise_std=sizes[5], dimension=R)
    z, own, known = rng.standard_normal((4, 2, R)) * sizes[4], rng.integers(0, 3, 4), law(network)
    low, inside = half_spaces(server, known, z, own), ball(server, known, z, own)
    high = np.ones(4) if hidden else ceiling(server, known, z, own)
    assert np.all((low >= 0) & (low <= high + 1e-12) & (high <= 1))
    assert np.all((inside >= 0) & (inside <= high + 1e-12))


def test_latents_count_as_they_are_sent_however_long_they_are_given():
    """A latent that is not clipped yet must not look further from the border than it will be heard."""
    rng = np.random.default_rng(0)
    network = Network.uniform(num_devices=2, noise_std=0.3, dimension=R)
    server, own = random_server(rng, R, 3), [0, 1, 2]
    z = objects(network, rng, count=3)
    for certificate in (ball, half_spaces, ceiling):
        assert certificate(server, law(network), 100 * z, own) == pytest.approx(
            certificate(server, law(network), 1000 * z, own)
        )


def test_loose_constants_do_not_flatter_a_linear_server_that_errs():
    """Φ(−gap/(L√v)) with a larger L is smaller where the gap is negative: only the exact one is safe."""
    network = Network.uniform(num_devices=1, noise_std=1.0, dimension=1)
    server = LayeredServer(((np.array([[1.0], [-1.0]]), np.zeros(2)),))
    found = half_spaces(server, law(network), [[[-0.9]]], [0], constants=np.full((2, 2), 100.0))
    assert found == pytest.approx([norm.cdf(-0.9)])


def test_ways_that_are_left_out_are_lost_below_and_won_above():
    network = Network.uniform(num_devices=4, participation=0.7, noise_std=0.1, dimension=R)
    rng = np.random.default_rng(0)
    server, z = random_server(rng, R, 3), objects(network, rng)
    own = np.argmax(scores(server, mse.expected(z, network)), axis=1)
    few, all_of_them = law(network, most=2), law(network)
    assert np.all(half_spaces(server, few, z, own) <= half_spaces(server, all_of_them, z, own))
    assert np.all(ceiling(server, few, z, own) >= ceiling(server, all_of_them, z, own))
    assert np.all(half_spaces(server, few, z, own) <= 2 * few.probability[0])


@pytest.mark.parametrize("certificate", [ball, half_spaces, ceiling])
def test_chances_that_add_up_to_a_hair_above_one_prove_no_more_than_one(certificate):
    always = LayeredServer(((np.ones((2, R)), np.array([1.0, 0.0])),))
    for p in np.linspace(0.05, 0.95, 19):
        network = Network.uniform(num_devices=5, participation=float(p), dimension=R, cover_noise=True)
        assert certificate(always, law(network), np.zeros((1, 5, R)), [0])[0] == pytest.approx(1.0, abs=1e-12)
        assert certificate(always, law(network), np.zeros((1, 5, R)), [0])[0] <= 1.0


def test_chebyshev_has_no_trouble_with_extremes():
    error, away = [0.0, 0.0, 1.0, 1.0, 0.0, 1.0], [1e-200, -1.0, 1e-200, np.inf, 0.0, -np.inf]
    assert chebyshev(error, away).tolist() == [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    assert chebyshev([0.2], [1.0], unanswered=0.9).tolist() == [0.0]


@pytest.mark.parametrize(
    ("error", "away", "unanswered", "message"),
    [
        ([-0.5], [1.0], 0.0, r"error\[0\]=-0.5 must be >= 0"),
        ([np.nan], [1.0], 0.0, r"error\[0\]=nan"),
        ([0.5, 0.5], [1.0], 0.0, r"margins has shape \(1,\), must be \(2\)"),
        ([0.5], [1.0], -0.1, r"unanswered=-0.1 must be between 0 and 1"),
    ],
)
def test_chebyshev_refuses_what_is_no_error_or_chance(error, away, unanswered, message):
    with pytest.raises(ValueError, match=message):
        chebyshev(error, away, unanswered=unanswered)


@pytest.mark.parametrize("certificate", [ball, half_spaces, ceiling])
@pytest.mark.parametrize(
    ("latents", "own", "message"),
    [
        (np.zeros((2, 3, R)), [0, -1], "labels run from -1 to 0, must be from 0 to 2"),
        (np.zeros((2, 3, R)), [0, 3], "labels run from 0 to 3"),
        (np.zeros((2, 3, R)), [0], r"labels has shape \(1,\), must be \(2,\)"),
        (np.zeros((2, 4, R)), [0, 1], r"latents has shape \(2, 4, 4\), must be \(\*, 3, \*\)"),
        (np.zeros((2, 3, R + 1)), [0, 1], r"x has shape \(2, 5\), must be \(..., 4\)"),
    ],
)
def test_bad_latents_and_labels_are_refused(certificate, latents, own, message):
    server = random_server(np.random.default_rng(0), R, 3)
    with pytest.raises(ValueError, match=message):
        certificate(server, law(Network.uniform(num_devices=3, dimension=R)), latents, own)


def test_deep_servers_have_a_ball_and_no_half_spaces():
    network = Network.uniform(num_devices=3, dimension=R)
    deep, two = random_server(np.random.default_rng(0), R, 5, 5, 3), random_server(np.random.default_rng(0), R, 5, 3)
    z, own = np.zeros((1, 3, R)), [0]
    assert ball(deep, law(network), z, own).shape == (1,)
    with pytest.raises(ValueError, match="at most 2 for this certificate; use ball"):
        half_spaces(deep, law(network), z, own, constants=spectral_constants(deep))
    with pytest.raises(ValueError, match="the server has 2 layers, must be linear"):
        ceiling(two, law(network), z, own)
