"""The law of an estimate: against every subset of devices by hand, and against what is received."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airpool.network import Channel, Devices, Network, Ranking, Threshold
from airpool.protocol.device import clipped
from airpool.protocol.simulation import receive
from airpool.radio.link import link_of
from airpool_lab.theory.prediction import law, no_answer
from tests.random_networks import networks


def known(network):
    """The same network where its law is known."""
    sure = replace(network.channel, power_rule="truncate", csi_error_std=0.0, phase_error_std=0.0)
    return replace(network, channel=sure)


def every_way(network):
    """{who speaks: {variance: probability}} over all subsets, device by device."""
    d, link = network.devices, link_of(network)
    receiver = (network.channel.noise_std / link.gamma) ** 2
    found = {}
    for states in itertools.product(("speaks", "noise", "silent"), repeat=d.count):
        probability, variance, sounding = 1.0, 0.0, 0
        for k, state in enumerate(states):
            p, on = d.column("participation")[k], 1 - link.outage[k]
            quiet = (1 - p) * on if network.cover_noise else 0.0
            probability *= {"speaks": p * on, "noise": quiet, "silent": 1 - p * on - quiet}[state]
            if state != "silent":
                variance += d.column("noise_std")[k] ** 2
                sounding += 1
        if not sounding or probability <= 0:
            continue
        variance += receiver * (1 if network.channel.access == "superposed" else sounding)
        speaking = tuple(state == "speaks" for state in states)
        found.setdefault((speaking, round(variance, 9)), 0.0)
        found[speaking, round(variance, 9)] += probability
    return found


@given(network=networks(3).map(known))
def test_the_law_lists_every_subset_with_its_probability_and_noise(network):
    known, found = every_way(network), {}
    listed = law(network)
    for who, probability, variance in zip(listed.transmitting, listed.probability, listed.variance, strict=True):
        key = tuple(bool(each) for each in who), round(float(variance), 9)
        found[key] = found.get(key, 0.0) + float(probability)
    likely = {key: value for key, value in known.items() if value > 1e-12}
    assert found.keys() >= likely.keys()
    assert all(found[key] == pytest.approx(value, abs=1e-12) for key, value in likely.items())
    assert sum(found.values()) == pytest.approx(sum(known.values()), abs=1e-12)
    assert listed.left_out == pytest.approx(0.0, abs=1e-12)
    assert 1 - sum(found.values()) == pytest.approx(no_answer(network), abs=1e-12)


@given(network=networks(3).map(known), most=st.integers(1, 12))
def test_those_left_out_are_the_least_likely_and_are_counted(network, most):
    whole, some = law(network), law(network, most=most)
    assert len(some.probability) <= most
    # Nobody at all is a way too, though none in which there is an answer.
    every = np.sort(np.append(whole.probability, no_answer(network)))[::-1]
    assert 1 - some.left_out == pytest.approx(np.sum(every[:most]), abs=1e-12)
    assert np.sum(some.probability) + some.left_out <= 1 + 1e-12
    assert np.sum(some.probability) + some.left_out + no_answer(network) >= 1 - 1e-12


def test_one_way_is_the_likeliest_one():
    network = Network(Devices(4, participation=(0.9, 0.2, 0.7, 0.4)), dimension=2)
    only = law(network, most=1)
    assert only.transmitting.tolist() == [[True, False, True, False]]
    assert only.probability == pytest.approx([0.9 * 0.8 * 0.7 * 0.6])
    assert only.left_out == pytest.approx(1 - 0.9 * 0.8 * 0.7 * 0.6)


def test_all_heard_is_one_way_and_nobody_heard_is_none():
    whole = law(Network.uniform(num_devices=12, noise_std=0.1))
    assert whole.transmitting.tolist() == [[True] * 12]
    assert whole.probability.tolist() == [1.0]
    assert whole.variance == pytest.approx([12 * 0.01])
    nobody = law(Network.uniform(num_devices=3, participation=0.0))
    assert nobody.probability.size == 0
    assert nobody.left_out == 0.0


def test_means_are_weighted_sums_of_who_speaks():
    rng = np.random.default_rng(0)
    network = Network(Devices(3, weight=(0.2, 0.5, 0.3), participation=0.5), dimension=2)
    found, z = law(network), rng.standard_normal((4, 3, 2)) / 4
    for way, who in enumerate(found.transmitting):
        by_hand = sum(who[k] * (0.2, 0.5, 0.3)[k] * z[:, k] for k in range(3))
        assert found.means(z, way) == pytest.approx(by_hand)


def test_latents_are_sent_as_the_air_sends_them():
    network = Network(Devices(2, clip_norm=(1.0, 9.0)), dimension=2)
    z = np.array([[[3.0, 4.0], [3.0, 4.0]], [[np.nan, 1.0], [0.1, 0.2]]])
    assert np.array_equal(law(network).sent(z), clipped(z, [1.0, 9.0]))
    with pytest.raises(ValueError, match=r"latents has shape \(2, 3, 2\), must be \(\*, 2, \*\)"):
        law(network).sent(np.zeros((2, 3, 2)))


@settings(max_examples=10)
@given(network=networks(3).map(known))
def test_what_is_received_has_the_mean_and_the_variance_of_the_law(network):
    trials = 4000
    z = clipped(np.random.default_rng(1).standard_normal((1, network.devices.count, 3)), network.devices.clip_norm)
    heard = receive(z, network, rng=np.random.default_rng(2), trials=trials)
    estimate = heard.estimate[heard.any_signal]
    listed = law(network)
    if len(estimate) < 100 or not listed.probability.size:
        return
    share = listed.probability / listed.probability.sum()
    means = np.array([listed.means(z, way)[0] for way in range(len(share))])
    mean = share @ means
    variance = share @ ((means - mean) ** 2 + listed.variance[:, None])
    # Bernstein's inequality: six standard deviations, and what a rare way can add when it is seen at all.
    away, v, count = means - mean, listed.variance[:, None], len(estimate)
    furthest = np.max(away**2 + 30 * v, axis=0)
    assert np.all(
        np.abs(estimate.mean(axis=0) - mean) <= 6 * np.sqrt(variance / count) + 15 * np.sqrt(furthest) / count + 1e-9
    )
    square = (estimate - mean) ** 2
    spread = np.sqrt(share @ (away**4 + 6 * away**2 * v + 3 * v**2) - variance**2 + 1e-18)
    assert np.all(np.abs(square.mean(axis=0) - variance) <= 6 * spread / count**0.5 + 15 * furthest / count + 1e-9)


def test_backoff_has_a_known_law_only_where_nobody_is_too_weak():
    strong = Network.uniform(num_devices=3, participation=0.5, channel=Channel(power_rule="backoff"))
    assert law(strong).probability == pytest.approx(law(replace(strong, channel=Channel())).probability)
    weak = replace(strong, channel=Channel("rayleigh", power_rule="backoff"))
    with pytest.raises(ValueError, match=r"channel\.power_rule='backoff'.*evaluation\.mse\) covers more"):
        law(weak)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channel": Channel("rician", csi_error_std=0.1)}, "csi_error_std=0.1"),
        ({"channel": Channel("rician", phase_error_std=0.2)}, "phase_error_std=0.2"),
        ({"channel": Channel(power_rule="paper")}, "power_rule='paper'"),
        ({"scheme": Threshold()}, r"scheme\.name='2\.1' must be 1"),
        ({"scheme": Ranking(num_selected=2)}, r"scheme\.name='2\.2' must be 1"),
    ],
)
def test_networks_whose_law_is_unknown_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        law(replace(Network.uniform(num_devices=3), **change))


def test_at_least_one_way_must_be_asked_for():
    with pytest.raises(ValueError, match="most=0 must be ≥ 1"):
        law(Network.uniform(num_devices=3), most=0)
