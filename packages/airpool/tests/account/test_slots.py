"""The cap of an inference of several slots: the composition of all of them, drawn anew in each or once for all."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee, realised_epsilon
from airpool.network import Adversary, Channel, Claim, Network, NetworkError, Ranking, Slots, Threshold
from airpool.network.file import dump, parse
from airpool.privacy import gaussian

ONCE, ANEW = Slots(16, redrawn=False), Slots(16)


def network(slots=ANEW, **more):
    return Network.uniform(num_devices=12, noise_std=0.2, dimension=8, **({"slots": slots} | more))


@pytest.mark.parametrize("more", [{}, {"participation": 0.9}, {"cover_noise": True, "participation": 0.8}], ids=str)
@pytest.mark.parametrize("neighbours", ["zero-out", "replace", "remove"])
def test_the_cap_is_the_composition_of_all_slots(more, neighbours):
    net, claim = network(**more), Claim(neighbours=neighbours)
    stream = guarantee(net.one_slot, replace(claim, inferences=16))
    found = guarantee(net, claim)
    np.testing.assert_array_equal(found.epsilon, stream.epsilon)
    np.testing.assert_array_equal(found.epsilon_local, stream.epsilon_local)
    assert found.epsilon_object == stream.epsilon_object


def test_scores_are_spent_in_every_slot():
    for scheme in (Threshold(score_noise_std=1.0), Ranking(score_noise_std=3.0)):
        net = network(scheme=scheme)
        assert guarantee(net).worst == guarantee(net.one_slot, Claim(inferences=16)).worst
        assert guarantee(network(ONCE, scheme=scheme)).worst < guarantee(net).worst


def test_gaussian_slots_compose_without_loss():
    """N slots with noise √N σ cost what one slot with noise σ costs."""
    one = replace(network(Slots()), devices=replace(network().devices, noise_std=0.05))
    assert guarantee(network()).worst == pytest.approx(guarantee(one).worst, rel=1e-12)
    mu = 1 / 12 / (0.05 * np.sqrt(12))
    assert guarantee(network()).worst == pytest.approx(gaussian.epsilon(np.array([mu]), 1e-5)[0], rel=1e-9)


@pytest.mark.parametrize("more", [{"participation": 0.7}, {"participation": 0.7, "cover_noise": True}], ids=str)
@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
def test_one_draw_for_all_slots_is_one_slot_of_less_noise(more, neighbours):
    """Given who takes part, N slots are one with noise σ/√N: the same mixture."""
    quiet, claim = network(Slots(), **more), Claim(neighbours=neighbours)
    quiet = replace(quiet, devices=replace(quiet.devices, noise_std=0.2 / 4))
    found = guarantee(network(ONCE, **more), claim)
    np.testing.assert_allclose(found.epsilon, guarantee(quiet, claim).epsilon, rtol=1e-9)


def test_one_draw_for_all_slots_agrees_with_brute_force():
    """δ(ε) = p Σ_n Bin(n) δ_G(ε; √N Δ/√((n + 1)σ²)) at the reported ε."""
    from scipy.stats import binom

    net = network(ONCE, participation=0.6)
    others = np.arange(12)
    mu = 4 / 12 / (0.2 * np.sqrt(others + 1))
    delta = 0.6 * binom.pmf(others, 11, 0.6) @ gaussian.delta(guarantee(net).worst, mu)
    assert delta == pytest.approx(1e-5, rel=1e-6)


def test_removal_shows_in_every_slot():
    """N slots of r coordinates are one of N r coordinates."""
    net, claim = network(ONCE, participation=0.9), Claim(neighbours="remove")
    more = replace(net.one_slot, dimension=8 * 16, devices=replace(net.devices, weight=4 / 12))
    assert guarantee(net, claim).worst == pytest.approx(guarantee(more, claim).worst, rel=1e-9)


def test_dropouts_that_differ_from_slot_to_slot_leave_own_noise_alone():
    net = network(ONCE, participation=0.9, dropouts=1)
    found = guarantee(net)
    assert np.all(found.epsilon >= guarantee(network(ONCE, participation=0.9)).epsilon)
    assert found.worst == pytest.approx(float(found.epsilon_local.max()), rel=0.05)
    certain = network(ONCE, dropouts=1)
    assert guarantee(certain).worst == pytest.approx(guarantee(network(dropouts=1)).worst, rel=1e-9)


def test_dropouts_in_turn_are_covered_where_a_score_decides_once():
    """Three devices of Scheme 2.1, and the other two drop out in turn: brute force over who transmits.

    Each is silent with probability s = 0.49e-5 (score 1). One that always drops out leaves the device alone with
    probability s, two in turn leave it half alone with 2s. Its own silence costs s, since a score of 0 is never silent.
    """
    s = 0.49e-5
    scheme = Threshold(score_noise_std=0.05, threshold=1.0 + 0.05 * float(norm.isf(s)))
    net = Network.uniform(num_devices=3, noise_std=0.03, scheme=scheme, slots=ONCE, dropouts=1)
    found = guarantee(net)
    mu = 4 / 3 / 0.03 / np.sqrt([1.0, 4 / 3, 2.0])
    chance = np.array([s**2, 2 * s * (1 - s), (1 - s) ** 2])
    worst = min(found.worst, 1e4)
    assert s + (1 - s) * chance @ gaussian.delta(worst, mu) <= 1e-5
    assert found.epsilon_at_least is None


def test_dropouts_do_not_matter_beyond_their_noise_under_cover():
    """All noise is there whoever takes part: whichever drop out in a slot, that of the others is left."""
    covered = {"participation": 0.7, "cover_noise": True}
    left = guarantee(network(ONCE, dropouts=3, **covered)).worst
    nine = replace(network(ONCE, **covered), colluders=3)
    assert left == pytest.approx(guarantee(nine).worst, rel=1e-9)
    assert left < guarantee(network(ONCE, dropouts=3, **covered)).epsilon_local[0] / 2


def elsewhere(slots, claim=Claim(), **more):
    report = guarantee(network(slots, adversary=Adversary(2), **more), claim)
    assert report.epsilon_eavesdropper is not None
    return report, report.epsilon_eavesdropper


def test_an_eavesdropper_that_counts_slots_has_the_antenna_that_they_depend_on():
    """When the server stops shows what it received, wherever the listener is."""
    for slots in (ANEW, ONCE):
        unknowing, found = elsewhere(slots, Claim(knows_answer=False))
        np.testing.assert_array_equal(found, unknowing.epsilon_local)
        assert any("number of slots" in line for line in unknowing.assumptions)
        report, found = elsewhere(slots)
        assert np.all(report.epsilon < found)
        assert np.all(found < report.epsilon_local)
    np.testing.assert_array_equal(elsewhere(ANEW)[1], elsewhere(Slots(), Claim(inferences=ANEW.count))[1])


def test_slots_of_one_draw_are_one_slot_of_a_larger_shift_at_an_eavesdropper():
    _, louder = elsewhere(Slots(), weight=np.sqrt(ONCE.count) / 12)
    np.testing.assert_allclose(elsewhere(ONCE)[1], louder, rtol=1e-9)
    report, found = elsewhere(ONCE, dropouts=1)  # others in every slot, each with its own leverage
    np.testing.assert_array_equal(found, report.epsilon_local)
    assert any("others in every slot" in line for line in report.assumptions)


def test_what_absent_devices_would_cost_is_said_of_one_slot_alone():
    assert len(guarantee(network(ONCE, participation=0.9)).epsilon_if_absent) == 1


@pytest.mark.parametrize("slots", [ANEW, ONCE], ids=["anew", "once"])
def test_calibration_meets_the_cap(slots):
    net = calibrate(network(slots, participation=0.9, channel=Channel(fading="rician")), epsilon=2.0)
    assert 2 * 0.999 < guarantee(net).worst <= 2


def test_a_number_of_inferences_counts_their_slots():
    most, slots = (
        calibrate(net, epsilon=20.0, adjust="inferences").inferences for net in (network(), network(Slots()))
    )
    assert most == slots // 16


def test_the_cap_grows_with_every_slot():
    caps = [
        guarantee(network(Slots(n, redrawn=anew), participation=0.9)).worst for anew in (True, False) for n in (1, 2, 8)
    ]
    assert caps[0] < caps[1] < caps[2]
    assert caps[3] < caps[4] < caps[5]


def test_the_report_says_that_it_is_a_cap():
    found = guarantee(network())
    assert any("the cap" in line for line in found.assumptions)
    assert found.to_json()["slots"] == 16
    with pytest.raises(ValueError, match=r"slots\.count=16"):
        realised_epsilon(network(), np.ones(12))


def test_the_file_keeps_slots_and_leaves_out_a_single_one():
    net = network(Slots(64, sure=0.95, redrawn=False, abstain=True))
    assert parse(dump(net)) == net
    assert "slots" not in dump(network(Slots()))
    bad: list[tuple[dict[str, Any], str]] = [
        ({"count": 0}, "slots.count=0"),
        ({"sure": 1.5}, "slots.sure=1.5"),
    ]
    for settings, why in bad:
        with pytest.raises(NetworkError, match=why):
            Slots(**settings)
