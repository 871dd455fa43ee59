"""Odds of networks: published numbers, positions, streams, adversaries, and laws over all options."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import airpool
from airpool.account.calibration import calibrate
from airpool.account.errors import at_the_server
from airpool.account.guarantee import guarantee
from airpool.account.odds import Odds, in_words, odds
from airpool.network import Adversary, Channel, Claim, Devices, Network, Ranking, Threshold
from airpool.network.network import Slots
from airpool.privacy import gaussian
from airpool.radio.link import link_of

MU = 1 / 3.730631634816  # device ε = 1 at δ = 1e-5


def twelve(**settings: Any) -> Network:
    """Twelve devices at distance MU from the sum; p = 1 unless it is said."""
    return Network.uniform(**{"num_devices": 12, "noise_std": 1 / 12 / MU / np.sqrt(12)} | settings)


def closed(prior: float, mu: Any) -> Any:
    return norm.cdf(norm.ppf(prior) + mu)


def test_twelve_devices_at_epsilon_one_have_the_published_odds():
    found = odds(calibrate(Network.uniform(num_devices=12), epsilon=1.0), prior=[0.5, 0.125, 0.025, 0.001])
    assert [each.prior for each in found] == [0.5, 0.125, 0.025, 0.001]
    np.testing.assert_allclose([x.worst for x in found], [0.60567, 0.18881, 0.04533, 0.0023849], rtol=1e-4)
    np.testing.assert_allclose([x.local[0] for x in found], [0.82344, 0.41224, 0.15117, 0.015322], rtol=1e-4)
    assert found[0].object == pytest.approx(0.9994, abs=5e-5)
    assert found[0].eavesdropper is None


def test_one_prior_gives_one_answer_and_the_package_exports_it():
    found = airpool.odds(twelve(), prior=0.5)
    assert isinstance(found, airpool.Odds)
    assert found.device.shape == found.local.shape == (12,)
    assert found.to_json() == {
        "prior": 0.5,
        "device": found.device.tolist(),
        "local": found.local.tolist(),
        "object": found.object,
        "eavesdropper": None,
    }


@pytest.mark.parametrize("prior", [0.0, 1.0, [0.5, 2.0]])
def test_priors_must_be_probabilities(prior):
    with pytest.raises(ValueError, match=r"prior.* must be > 0 and < 1"):
        odds(twelve(), prior=prior)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace", "remove"])
@pytest.mark.parametrize("settings", [{}, {"participation": 0.7}, {"participation": 0.7, "cover_noise": True}])
def test_odds_do_not_depend_on_neighbours_nor_on_delta(neighbours, settings):
    network = twelve(**settings)
    expected, found = odds(network), odds(network, Claim(neighbours=neighbours, delta=1e-3))
    np.testing.assert_array_equal(found.device, expected.device)
    assert found.object == expected.object


def test_at_even_odds_two_opposite_features_cost_what_replace_neighbours_say():
    """Φ(μ) and δ at ε = 0 of distance 2μ: (1 + δ)/2."""
    assert odds(twelve()).worst == pytest.approx((1 + float(gaussian.delta(0.0, 2 * MU))) / 2, rel=1e-9)


CASES: dict[str, tuple[dict[str, Any], float, float]] = {
    "colluders": ({"colluders": 3}, MU * np.sqrt(12 / 9), 1.0),
    "dropouts": ({"dropouts": 3}, MU * np.sqrt(12 / 9), MU * 12 * np.sqrt(12 / 9)),
    "secure sum of 8 survivors": ({"channel": Channel(access="secure"), "dropouts": 4}, MU * np.sqrt(12 / 8), 0.0),
    "orthogonal": ({"channel": Channel(access="orthogonal")}, MU * np.sqrt(12), MU * 12),
    "a stream": ({"claim": Claim(inferences=100)}, 10 * MU, 120 * MU),
    "slots": ({"slots": Slots(count=4)}, 2 * MU, 24 * MU),
    "slots of one draw": ({"slots": Slots(count=4, redrawn=False)}, 2 * MU, 24 * MU),
}


@pytest.mark.parametrize("name", CASES)
def test_gaussian_cases_are_closed_forms(name):
    settings, mu, whole = CASES[name]
    claim = settings.get("claim", Claim())
    network = twelve(**{name: value for name, value in settings.items() if name != "claim"})
    for found in odds(network, claim, prior=[0.5, 0.01]):
        np.testing.assert_allclose(found.device, closed(found.prior, mu), rtol=1e-9)
        uses = claim.inferences * network.slots.count
        np.testing.assert_allclose(found.local, closed(found.prior, MU * np.sqrt(12 * uses)), rtol=1e-9)
        if whole:
            assert found.object == pytest.approx(1.0 if name == "colluders" else closed(found.prior, whole), rel=1e-9)


def test_a_known_colluder_sees_the_object():
    found = odds(twelve(), Claim(colluding=[3]))
    assert found.object == 1.0
    assert found.device[0] == pytest.approx(closed(0.5, MU * np.sqrt(12 / 11)), rel=1e-9)
    assert found.device[3] == pytest.approx(closed(0.5, MU), rel=1e-9)


def test_a_ranked_score_counts_from_the_middle_of_its_range():
    scheme = Ranking(score_bound=1.0, score_noise_std=2.0, num_selected=12)
    found = odds(twelve(scheme=scheme))
    assert found.worst == pytest.approx(closed(0.5, np.hypot(MU, 0.5 / 2)), rel=1e-9)
    assert found.local[0] == pytest.approx(closed(0.5, np.hypot(MU * np.sqrt(12), 0.5 / 2)), rel=1e-9)
    assert found.object == 1.0
    stream = odds(twelve(scheme=scheme), Claim(inferences=9))
    assert stream.worst == pytest.approx(closed(0.5, 3 * np.hypot(MU, 0.5 / 2)), rel=1e-9)


def test_a_threshold_leaks_more_than_the_coin_and_less_the_noisier_the_score():
    coin = odds(twelve(participation=0.5)).worst
    by_score = [odds(twelve(scheme=Threshold(score_noise_std=std, threshold=0.5))).worst for std in (0.5, 2.0, 50.0)]
    assert by_score[0] > by_score[1] > by_score[2] > coin
    assert by_score[2] == pytest.approx(coin, rel=0.02)


def test_an_eavesdropper_with_as_many_antennas_as_devices_has_the_local_odds():
    heard = np.array([odds(twelve(adversary=Adversary(antennas))).eavesdropper for antennas in (1, 2, 4, 12)])
    assert np.all(np.diff(heard, axis=0) > 0)
    np.testing.assert_allclose(heard[-1], odds(twelve()).local, rtol=1e-9)


@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize("times", [1, 2, 50])
def test_an_eavesdropper_has_the_mean_over_its_channel(times, knows):
    """Leverage Beta(M, K − M), or with the server's antenna; one place for the whole stream, or a new one each time."""
    rng = np.random.default_rng(0)
    leverage = rng.beta(2, 9 if knows else 10, (200_000, times) if times < 3 else (20_000, times))
    leverage = 1 / 12 + 11 / 12 * leverage if knows else leverage
    found = odds(twelve(adversary=Adversary(2)), Claim(inferences=times, knows_answer=knows), prior=0.1).eavesdropper
    assert found is not None
    stays, moves = (np.mean(closed(0.1, np.sqrt(12 * x) * MU)) for x in (times * leverage[:, 0], leverage.sum(axis=1)))
    assert found[0] == pytest.approx(max(stays, moves), rel=0.005)
    assert found[0] >= max(stays, moves) * (1 - 1e-3)


def test_odds_of_an_eavesdropper_that_moves_are_the_worse_ones():
    """One antenna, a hundred inferences without fading: .946 in the same place, .996 in a new one each time."""
    found = odds(twelve(adversary=Adversary(1)), Claim(inferences=100, knows_answer=False)).eavesdropper
    assert found is not None
    assert found[0] == pytest.approx(0.9962, abs=2e-4)


def test_gains_that_are_not_known_exactly_are_averaged():
    """Rayleigh fading, truncated at 1 % outage, complex errors of 0.1: 200,000 draws of the channel."""
    network = twelve(channel=Channel(fading="rayleigh", csi_error_std=0.1))
    v = at_the_server(network, link_of(network), (200_000, 12), np.random.default_rng(0))[0][..., 0]
    strength = np.abs(v) ** 2
    with np.errstate(invalid="ignore"):
        mu = np.where(strength[:, 0] > 0, np.sqrt(12 * strength[:, 0] / strength.sum(axis=1)) * MU, 0.0)
    for found in odds(network, prior=[0.5, 0.001]):
        right = closed(found.prior, mu)
        assert found.worst == pytest.approx(right.mean(), rel=0.01)
        assert found.worst >= right.mean() - 4 * right.std() / np.sqrt(len(mu))


def mixed(**settings: Any) -> Network:
    devices = Devices(
        4, weight=(0.1, 0.2, 0.3, 0.4), noise_std=(0.5, 0.2, 0.4, 0.3), participation=(0.9, 0.4, 1.0, 0.6)
    )
    return Network(devices, **settings)


KINDS: dict[str, dict[str, Any]] = {
    "coins": {},
    "cover noise": {"cover_noise": True},
    "threshold": {"scheme": Threshold(score_noise_std=2.0)},
    "ranking": {"scheme": Ranking(score_noise_std=2.0, num_selected=3)},
    "outages": {"channel": Channel(fading="rayleigh", outage=0.2)},
    "errors": {"channel": Channel(csi_error_std=0.1)},
    "orthogonal": {"channel": Channel(access="orthogonal")},
}


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("kind", KINDS)
def test_odds_rise_with_prior_time_and_colluders_and_stay_between_prior_and_local(kind):
    network, priors = mixed(**KINDS[kind]), [0.01, 0.1, 0.5, 0.9]
    every = odds(network, prior=priors)
    for found in every:
        assert np.all(found.prior <= found.device)
        assert np.all(found.device <= found.local)
        assert found.object >= found.prior
    device = np.array([x.device for x in every])
    assert np.all(np.diff(device, axis=0) > 0)
    slope = np.diff(device, axis=0) / np.diff(priors)[:, None]
    assert np.all(np.diff(slope, axis=0) <= 1e-9)
    longer = [odds(network, Claim(inferences=n), prior=0.1) for n in (1, 2, 3)]
    watched = [odds(replace(network, colluders=n), prior=0.1) for n in (1, 2, 3)]
    for steps in (longer, watched):
        assert np.all(np.diff([x.device for x in steps], axis=0) >= -1e-3)
        assert np.all(np.diff([x.local for x in steps], axis=0) >= -1e-9)
        assert np.all(np.diff([x.object for x in steps]) >= -1e-9)


@pytest.mark.parametrize("kind", ["coins", "cover noise", "threshold", "outages"])
def test_odds_are_never_above_what_epsilon_says(kind):
    """e^ε κ + δ is a bound as well, where neighbours include the public law."""
    network = mixed(**KINDS[kind])
    report = guarantee(network, Claim(delta=1e-4))
    for found in odds(network, prior=[0.001, 0.1]):
        assert np.all(found.device <= np.exp(report.epsilon) * found.prior + 1e-4)


def test_a_channel_that_stays_is_one_draw_for_all_inferences():
    network = twelve(channel=Channel(fading="rayleigh", outage=0.1, redrawn=False))
    here, number = 0.9, np.arange(12)
    chance = binom.pmf(number, 11, here)
    mu = 5 * MU * np.sqrt(12 / (number + 1))
    expected = (1 - here) * 0.1 + here * float(chance @ closed(0.1, mu))
    assert odds(network, Claim(inferences=25), prior=0.1).worst == pytest.approx(expected, rel=1e-6)


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("kind", [*KINDS, "twelve"])
def test_calibrated_noise_meets_the_odds_and_a_little_less_does_not(kind):
    network = twelve() if kind == "twelve" else mixed(**KINDS[kind])
    target = 0.7 if kind in ("threshold", "ranking") else 0.6
    met = calibrate(network, odds=target, prior=0.5)
    assert odds(met).worst <= target
    less = tuple(0.99 * std for std in met.devices.column("noise_std"))
    assert odds(replace(met, devices=replace(met.devices, noise_std=less))).worst > target


def test_odds_are_met_by_the_noise_that_runs():
    network = twelve(channel=Channel(fading="rician", power_rule="backoff"))
    live = Claim(live=True)
    met, simulated = calibrate(network, live, odds=0.55), calibrate(network, odds=0.55)
    assert 0.5499 < odds(met, live).worst <= 0.55 < odds(simulated, live).worst


def test_odds_out_of_reach_are_refused_with_what_can_be_reached():
    with pytest.raises(ValueError, match=r"odds of 55 % at a prior of 50 % cannot be met .*: the least that can is"):
        calibrate(mixed(scheme=Threshold(score_noise_std=0.5)), odds=0.55)
    with pytest.raises(ValueError, match=r"odds=0\.5 must be > prior=0\.5"):
        calibrate(twelve(), odds=0.5)


@pytest.mark.parametrize(
    "other", [{"epsilon": 1.0}, {"share": 0.1}, {"per_device": True}, {"adjust": "weight"}], ids=str
)
def test_odds_are_a_target_of_their_own(other):
    with pytest.raises(ValueError, match="leave out epsilon, share, per_device and adjust"):
        calibrate(twelve(), odds=0.55, **other)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace", "remove"])
@pytest.mark.parametrize(("cover_noise", "inferences"), [(False, 1), (False, 3), (True, 1), (True, 3)])
def test_a_report_has_the_odds_of_its_network(neighbours, cover_noise, inferences):
    """Though it computes them from what it has: the game of its own neighbours."""
    network, claim = mixed(cover_noise=cover_noise), Claim(neighbours=neighbours, inferences=inferences)
    expected = odds(network, claim, prior=[0.5, 0.025])
    for found, each in zip(guarantee(network, claim).odds, expected, strict=True):
        np.testing.assert_allclose(found.device, each.device, rtol=1e-9)
        np.testing.assert_allclose(found.local, each.local, rtol=1e-9)
        assert found.object == pytest.approx(each.object, rel=1e-9)


def test_a_report_says_its_odds_in_words_and_that_the_class_is_not_protected():
    first, second, third = in_words(guarantee(twelve()).odds)
    assert first == (
        "A yes-or-no question about what this device alone sees: right at most 60.6 % of the time instead of 50 %; "
        "one of 40: 4.6 % instead of 2.5 %."
    )
    assert second == "From its own signal, or with all others colluding: 82.4 % and 15.2 %."
    assert third == "What several devices see, the class above all, is not protected: 99.94 % and 89.6 %."


def test_a_frozen_answer_cannot_be_changed():
    found: Odds = odds(twelve())
    with pytest.raises(ValueError, match="read-only"):
        found.device[0] = 0.0


def test_odds_of_a_stream_count_the_worst_devices_that_drop_out():
    unlike = Network.uniform(num_devices=4, noise_std=(0.2, 0.3, 0.4, 0.5), participation=(0.9, 0.8, 0.5, 0.3))
    whole, missing = (
        odds(replace(unlike, dropouts=number), Claim(inferences=3), prior=0.1).device[0] for number in (0, 1)
    )
    assert np.all(missing > whole)
