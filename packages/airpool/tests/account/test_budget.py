"""One ε for scores and features: never above the target, shared as asked, and refused with what is possible."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airpool import Claim, calibrate, guarantee
from airpool.account.guarantee import score_epsilon
from airpool.network import Channel, Network, Threshold, named_scheme, scored
from airpool.privacy import gaussian
from airpool.privacy.calibrate import UnreachableError


def network(name, **changes):
    scheme = {"score_bound": 1.0, "threshold": 0.7, "num_selected": 4} | {
        key: changes.pop(key) for key in ("score_bound", "threshold", "num_selected", "score_rule") if key in changes
    }
    return Network.uniform(num_devices=5, dimension=8, scheme=named_scheme(name, **scheme), **changes)


@settings(max_examples=5)
@given(
    st.sampled_from(["2.1", "2.2"]),
    st.floats(0.3, 6),
    st.floats(0.02, 0.95),
    st.floats(-0.5, 2.0),
    st.sampled_from(["zero-out", "replace"]),
    st.sampled_from([Channel(), Channel(fading="rician", outage=0.1)]),
)
def test_the_total_meets_the_target_and_is_never_above_it(name, epsilon, share, threshold, neighbours, channel):
    claim = Claim(neighbours=neighbours)
    found = calibrate(network(name, threshold=threshold, channel=channel), claim, epsilon=epsilon, share=share)
    worst = guarantee(found, claim).worst
    assert 0.999 * epsilon < worst <= epsilon


def test_the_total_is_met_by_the_noise_that_runs():
    net = network("2.1", channel=Channel(fading="rician", csi_error_std=0.05))
    running, simulated = (calibrate(net, Claim(live=live), epsilon=3.0, share=0.1) for live in (True, False))
    assert guarantee(running, Claim(live=True)).worst <= 3.0 < guarantee(simulated, Claim(live=True)).worst
    assert running.scheme == simulated.scheme


@given(st.floats(0.2, 8), st.floats(0.01, 0.99), st.sampled_from([1, 50]), st.sampled_from(["clip", "scale"]))
@settings(max_examples=8)
def test_the_share_of_scheme_2_2_is_of_the_squared_distance(epsilon, share, inferences, rule):
    claim = Claim(inferences=inferences)
    found = calibrate(network("2.2", score_rule=rule), claim, epsilon=epsilon, share=share)
    mu = 1 / float(gaussian.noise_multiplier(epsilon, claim.delta))
    spread = 1.0 if rule == "clip" else 0.5
    assert inferences * (spread / scored(found.scheme).score_noise_std) ** 2 == pytest.approx(share * mu**2, rel=1e-6)
    alone = gaussian.epsilon(np.sqrt(share) * mu, claim.delta)
    assert score_epsilon(found, claim)[0] == pytest.approx(float(alone), rel=1e-6)
    assert guarantee(found, claim).worst <= epsilon


@pytest.mark.parametrize(("threshold", "share"), [(0.0, 0.1), (0.5, 0.6), (1.0, 0.3)])
def test_the_share_of_scheme_2_1_is_what_the_decision_alone_costs(threshold, share):
    found = calibrate(network("2.1", threshold=threshold), epsilon=2.0, share=share)
    assert float(score_epsilon(found).max()) == pytest.approx(share * 2.0, rel=1e-6)
    assert float(score_epsilon(found).max()) <= share * 2.0


@pytest.mark.parametrize("threshold", [-0.3, 1.4])
def test_a_threshold_beyond_all_scores_never_costs_more_with_more_noise_than_was_found(threshold):
    """There the cost rises before it falls: the noise found is good from there on."""
    found = calibrate(network("2.1", threshold=threshold), epsilon=2.0, share=0.4)
    for factor in (1.0, 1.5, 10.0):
        louder = replace(scored(found.scheme), score_noise_std=scored(found.scheme).score_noise_std * factor)
        assert float(score_epsilon(replace(found, scheme=louder)).max()) <= 0.8


@pytest.mark.parametrize("name", ["2.1", "2.2"])
def test_a_larger_share_means_less_noise_on_the_score(name):
    noise = [
        scored(calibrate(network(name), epsilon=2.0, share=share).scheme).score_noise_std for share in (0.05, 0.3, 0.9)
    ]
    assert noise == sorted(noise, reverse=True)
    assert len(set(noise)) == 3


def test_a_stream_of_decisions_is_shared_out_as_well():
    claim = Claim(inferences=10)
    found = calibrate(network("2.1"), claim, epsilon=6.0, share=0.5)
    assert guarantee(found, claim).worst <= 6.0
    assert float(score_epsilon(found, claim).max()) <= 3.0


def test_the_decision_alone_costs_what_its_two_probabilities_say():
    net = replace(network("2.1"), scheme=Threshold(threshold=0.5, score_noise_std=0.5))
    often, rarely = 0.8413447460685429, 0.15865525393145707  # Φ(±1)
    assert float(score_epsilon(net, Claim(delta=1e-3))[0]) == pytest.approx(np.log((often - 1e-3) / rarely), rel=1e-6)
    assert (score_epsilon(network("1")) == 0).all()


@pytest.mark.parametrize("name", ["2.1", "2.2"])
def test_calibrate_scales_the_features_noise_alone(name):
    net = replace(network(name), scheme=named_scheme(name, score_noise_std=3.0, num_selected=4))
    found = calibrate(net, epsilon=3.0)
    assert 2.999 < guarantee(found).worst <= 3.0
    assert found.scheme == net.scheme


@pytest.mark.parametrize("name", ["2.1", "2.2"])
@pytest.mark.parametrize("gamma", ["auto", 1.0])
def test_calibrate_says_when_the_scores_alone_cost_too_much_and_how_little_can_be_reached(name, gamma):
    net = replace(network(name), channel=Channel(gamma=gamma))
    with pytest.raises(
        UnreachableError, match=r"which is what the scores cost at score_noise_std=0.3162: raise it"
    ) as caught:
        calibrate(net, epsilon=0.5)
    assert caught.value.smallest == pytest.approx(float(score_epsilon(net).max()))


@pytest.mark.parametrize(
    ("name", "given_", "message"),
    [
        ("1", {"epsilon": 1.0, "share": 0.5}, "scheme.name='1' has no score"),
        ("2.1", {"epsilon": 1.0, "share": 0.0}, "share=0.0 must be > 0 and < 1"),
        ("2.2", {"epsilon": 1.0, "share": 1.0}, "share=1.0 must be > 0 and < 1"),
        ("2.2", {"epsilon": 1.0, "share": float("nan")}, "share=nan must be"),
        ("2.2", {"share": 0.5}, "epsilon=None must be one number"),
        ("2.2", {"epsilon": [1.0, 2.0], "share": 0.5}, "must be one number > 0"),
        ("2.2", {"epsilon": 1.0, "share": 0.5, "adjust": "weight"}, "leave out adjust and per_device"),
        ("2.2", {"epsilon": 1.0, "share": 0.5, "per_device": True}, "leave out adjust and per_device"),
        ("2.2", {"epsilon": -1.0, "share": 0.5}, "epsilon=-1.0 must be one number > 0 and finite"),
    ],
)
def test_bad_input_is_named(name, given_, message):
    with pytest.raises(ValueError, match=message):
        calibrate(network(name), **given_)
