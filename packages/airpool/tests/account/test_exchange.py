"""A network's spending in the units of other accountants, and together with what they spent: never below the truth."""

import json
import sys
from dataclasses import replace

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant, common
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from scipy import special, stats
from typer.testing import CliRunner

from airpool import Claim, Network, NetworkError, Ranking, Threshold, cli, guarantee
from airpool.account.exchange import budget_beside, combined, exchange
from airpool.network import Channel, Devices, Slots
from airpool.privacy import gaussian, renyi
from tests.random_networks import any_network

DELTA = 1e-5
TRAINING = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.05, dp.GaussianDpEvent(1.0)), 50)
STILL = Channel(fading="rician", redrawn=False, outage=0.1)


def like(noise_std=0.2, **rest):
    return Network.uniform(num_devices=6, noise_std=noise_std, **rest)


def by_dp_accounting(*events):
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    for event in events:
        accountant.compose(event)
    return accountant.get_epsilon(DELTA)


def repeated(spent):
    """The kind of event that is composed with itself."""
    event = spent.event()
    assert isinstance(event, dp.SelfComposedDpEvent)
    return type(event.event)


def trained():
    return PLDAccountant(value_discretization_interval=1e-3).compose(TRAINING)


def at_least(report):
    """What each ε is at least: the proven lower end where there is one, else less 0.1 %, what a grid costs at most."""
    least = report.epsilon * (1 - 1e-3) if report.epsilon_at_least is None else report.epsilon_at_least
    return np.where(np.isfinite(report.epsilon), least, 0.0) * (1 - 1e-9)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize(("protects", "share"), [("device", 6**-0.5), ("local", 1.0), ("object", 6**0.5)])
def test_where_all_take_part_every_unit_has_its_closed_form(protects, share, neighbours):
    spent = exchange(like(), Claim(inferences=7, neighbours=neighbours), protects=protects)
    mu = (2 if neighbours == "replace" else 1) / 6 / 0.2 * share
    assert spent.gaussian
    assert spent.gdp == pytest.approx(mu * 7**0.5, rel=1e-9)
    assert spent.zcdp == pytest.approx(7 * mu**2 / 2, rel=1e-9)
    assert spent.rdp([1.5, 3])[0] == pytest.approx([7 * 1.5 * mu**2 / 2, 7 * 3 * mu**2 / 2], rel=1e-9)
    assert np.all(spent.gdp >= mu * 7**0.5)
    report = guarantee(like(), Claim(inferences=7, neighbours=neighbours))
    ours = {"device": report.worst, "local": report.epsilon_local[0], "object": report.epsilon_object}[protects]
    assert by_dp_accounting(spent.event()) == pytest.approx(float(ours), rel=1e-4)
    assert combined(spent, []) == pytest.approx(float(ours), rel=1e-9)
    assert spent.pld(interval=1e-3).get_epsilon_for_delta(DELTA) == pytest.approx(float(ours), rel=1e-3)


def test_the_rest_of_the_noise_decides_the_divergence_of_coins():
    net = Network(Devices(2, weight=(1.0, 0.0), noise_std=(1.0, 2.0), participation=(0.7, 0.4)))
    alpha = 3.0
    seen = 0.4 * np.exp(alpha * (alpha - 1) / 2 / 5) + 0.6 * np.exp(alpha * (alpha - 1) / 2)
    spent = exchange(net)
    assert not spent.gaussian
    assert spent.rdp([alpha])[:, 0] == pytest.approx([np.log(0.3 + 0.7 * seen) / (alpha - 1), 0.0], rel=1e-9)
    assert spent.gdp == pytest.approx([1.0, 0.0])
    assert isinstance(spent.event(1), dp.NoOpDpEvent)
    never = exchange(Network(Devices(2, noise_std=1.0, participation=(0.0, 1.0))))
    assert never.gdp == pytest.approx([0.0, 0.5])
    # Whatever the coins, the divergence of large orders is that of the least noise: no smaller ρ is true.
    assert spent.rdp([500.0])[0, 0] / 500 == pytest.approx(spent.zcdp[0], rel=1e-2)


@pytest.mark.parametrize("count", [350, 1000])  # as one cell for each number of others, and in fewer cells
def test_outcomes_too_rare_for_a_floating_point_number_count_in_every_unit(count):
    p, alpha = 0.9, np.array([2.0, 32.0, 1024.0])
    net = Network.uniform(num_devices=count, noise_std=0.1, weight=0.5, participation=p)
    spent, others = exchange(net), np.arange(count)
    squared = 0.25 / 0.01 / (1 + others)
    assert stats.binom.pmf(0, count - 1, p) == 0
    assert 5.0 <= spent.gdp[0] <= 5.0 * (1 + 1e-9)
    power = stats.binom.logpmf(others, count - 1, p) + np.multiply.outer(alpha * (alpha - 1) / 2, squared)
    truth = np.logaddexp(np.log1p(-p), np.log(p) + special.logsumexp(power, axis=1)) / (alpha - 1)
    assert np.all(spent.rdp(alpha)[0] >= truth * (1 - 1e-10))
    assert spent.rdp(alpha)[0, 0] == pytest.approx(truth[0], rel=1e-3)
    rarely = replace(net, devices=replace(net.devices, participation=0.1))
    assert exchange(rarely, protects="object").gdp[0] == pytest.approx(5.0 * count**0.5, rel=1e-9)


def test_noise_that_is_always_there_protects_in_the_worst_outcome_too():
    devices = Devices(400, weight=0.5, noise_std=0.1, participation=(*[1.0] * 100, *[0.1] * 300))
    spent = exchange(Network(devices), Claim(colluding=[0]))
    assert spent.gdp[[1, 399]] == pytest.approx([5 / 99**0.5, 5 / 100**0.5], rel=1e-9)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(i, marks=pytest.mark.check) for i in range(8, 64))])
def test_no_unit_is_below_the_exact_epsilon_of_a_random_network(seed):
    rng = np.random.default_rng(seed)
    net, claim = any_network(rng)
    claim = replace(claim, delta=DELTA, inferences=int(rng.integers(1, 4)))
    net = replace(net, channel=replace(net.channel, redrawn=bool(rng.random() < 0.6)))
    report = guarantee(net, claim)
    least = at_least(report)
    try:
        spent = exchange(net, claim)
    except NetworkError:
        assert claim.neighbours == "remove"
        assert np.all(np.isinf(report.epsilon))
        return
    device = int(np.argmax(np.where(np.isfinite(report.epsilon), report.epsilon, 0.0)))
    assert combined(spent, [], device=device) >= least[device]
    if claim.neighbours == "remove":
        with pytest.raises(ValueError, match="takes its noise along"):
            _ = spent.gdp
        return
    assert np.all(gaussian.epsilon(spent.gdp, DELTA) >= least)
    found = spent.rdp([1.5, 2.5, 4.5, 8.5, 16.5, 64.5])
    alone = [renyi.epsilon([1.5, 2.5, 4.5, 8.5, 16.5, 64.5], each, DELTA) for each in found]
    assert np.all(np.array(alone) >= least)
    assert np.all(found <= np.multiply.outer(spent.zcdp, [1.5, 2.5, 4.5, 8.5, 16.5, 64.5]) * (1 + 1e-9) + 1e-9)
    if least[device] < 30:
        assert by_dp_accounting(spent.event(device)) >= least[device] - 1e-6
    if spent.gaussian:
        assert gaussian.epsilon(spent.gdp, DELTA) == pytest.approx(report.epsilon, rel=1e-6)


def test_cover_noise_is_an_event_of_poisson_sampling():
    net, claim = like(participation=0.3, cover_noise=True), Claim(inferences=5)
    spent = exchange(net, claim)
    assert repeated(spent) is dp.PoissonSampledDpEvent
    ours = guarantee(net, claim).worst
    assert by_dp_accounting(spent.event()) == pytest.approx(ours, rel=1e-3)
    # Two opposite features are not what accountants of a sampled record compare: no sampling is counted on.
    assert repeated(exchange(net, replace(claim, neighbours="replace"))) is dp.GaussianDpEvent


def test_a_score_counts_as_a_gaussian_release_of_its_own():
    scheme = Threshold(score_noise_std=0.5, threshold=0.5, score_bound=1.0)
    spent = exchange(like(scheme=scheme))
    assert spent.gdp == pytest.approx(np.hypot(1 / 0.5, 1 / 6 / 0.2), rel=1e-6)
    ranked = exchange(like(scheme=Ranking(score_noise_std=0.5, num_selected=3, score_bound=1.0)))
    assert ranked.gaussian
    assert ranked.gdp == pytest.approx(np.hypot(1 / 0.5, 1 / 6 / 0.2 / 3**0.5), rel=1e-6)
    with pytest.raises(NetworkError, match="all scores may change"):
        exchange(like(scheme=scheme), protects="object")


def test_all_slots_count():
    for redrawn in (True, False):
        spent = exchange(like(slots=Slots(count=4, redrawn=redrawn)))
        assert spent.gdp == pytest.approx(2 * exchange(like()).gdp)


@pytest.mark.parametrize("changes", [{}, {"participation": 0.9}, {"dropouts": 1}, {"cover_noise": True}])
def test_a_channel_that_stands_still_is_never_below_its_account(changes):
    net, claim = like(channel=STILL, **changes), Claim(inferences=5)
    spent, report = exchange(net, claim), guarantee(net, claim)
    assert combined(spent, []) >= report.worst * (1 - 1e-9) or combined(spent, []) >= np.max(at_least(report))
    assert np.all(gaussian.epsilon(spent.gdp, DELTA) >= report.epsilon * (1 - 1e-9))
    whole = exchange(net, claim, protects="object")
    assert combined(whole, []) >= report.epsilon_object * (1 - 1e-9)


def test_many_heterogeneous_devices_count_the_slack_of_their_law_as_the_worst_case():
    rng = np.random.default_rng(0)
    devices = Devices(40, noise_std=tuple(rng.uniform(0.1, 0.3, 40)), participation=tuple(rng.uniform(0.5, 0.9, 40)))
    net = Network(devices)
    assert exchange(net).gdp == pytest.approx(exchange(net, protects="local").gdp)
    whole = exchange(net, protects="object")
    assert combined(whole, []) >= guarantee(net).epsilon_object * (1 - 1e-9)
    assert whole.gdp[0] == pytest.approx(np.linalg.norm(exchange(net, protects="local").gdp), rel=1e-9)


@pytest.mark.parametrize(
    ("net", "claim"),
    [
        (Network.paper(), Claim()),
        (like(), Claim()),
        (like(noise_std=0.02, channel=Channel(fading="rayleigh")), Claim(inferences=300)),
        (like(noise_std=0.02, participation=0.5, cover_noise=True), Claim(neighbours="replace", inferences=50)),
        (like(), Claim(inferences=1_000)),
    ],
    ids=["paper", "plain", "fading", "hidden", "many"],
)
def test_a_distribution_by_default_holds_losses_of_any_size(net, claim):
    distribution, exact = exchange(net, claim).pld(), guarantee(net, claim).worst
    theirs = distribution.get_epsilon_for_delta(claim.delta)
    # Above the truth by a little of what the interval is; the last digits are dp-accounting's own.
    assert exact * (1 - 1e-9) <= theirs <= exact * 1.002


def test_removal_has_a_loss_and_nothing_else():
    net, claim = like(noise_std=0.8, cover_noise=True, dimension=4), Claim(neighbours="remove")
    spent, exact = exchange(net, claim), guarantee(net, claim).worst
    assert spent.pld(interval=1e-3).get_epsilon_for_delta(DELTA) == pytest.approx(exact, rel=5e-3)
    for unit in (lambda: spent.zcdp, spent.rdp, spent.event):
        with pytest.raises(ValueError, match=r"use pld\(\)"):
            unit()
    with pytest.raises(NetworkError, match="is seen to be missing"):
        exchange(like(channel=Channel(access="secure")), claim)


@pytest.mark.parametrize("changes", [{}, {"cover_noise": True, "participation": 0.5}])
def test_together_with_a_training_it_is_what_dp_accounting_says(changes):
    spent = exchange(like(**changes), Claim(inferences=10))
    theirs = by_dp_accounting(TRAINING, spent.event())
    assert theirs - 1e-6 <= combined(spent, trained()) <= theirs * (1 + 2e-3)


def test_together_with_a_training_coins_lose_nothing_by_their_loss():
    spent = exchange(like(participation=0.8), Claim(inferences=10))
    ours = combined(spent, trained())
    assert ours <= by_dp_accounting(TRAINING, spent.event())
    training = pld.from_gaussian_mechanism(1.0, sampling_prob=0.05, value_discretization_interval=1e-3).self_compose(50)
    assert spent.pld(interval=1e-3).compose(training).get_epsilon_for_delta(DELTA) == pytest.approx(ours, rel=2e-3)


def test_a_pair_of_epsilon_and_delta_composes_as_its_worst_mechanism():
    spent = exchange(like(), Claim(inferences=10))
    pair = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(1.0, 1e-6))
    theirs = spent.pld().compose(pair).get_epsilon_for_delta(DELTA)
    assert combined(spent, (1.0, 1e-6)) == pytest.approx(theirs, rel=2e-3)
    assert combined(spent, [(0.0, 0.0)]) == pytest.approx(combined(spent, []), rel=1e-3)
    assert combined(spent, lambda eps: float(gaussian.delta(eps, 1.0))) == pytest.approx(
        float(gaussian.epsilon(np.hypot(1.0, spent.gdp[0]), DELTA)), rel=1e-3
    )


@pytest.mark.check
def test_a_thousand_steps_of_training_add_up_as_in_dp_accounting():
    steps = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0)), 1000)
    spent = exchange(like(), Claim(inferences=10))
    theirs = PLDAccountant().compose(steps).compose(spent.event()).get_epsilon(DELTA)
    assert theirs - 1e-6 <= combined(spent, steps) <= theirs * (1 + 1e-3)


def test_events_that_have_a_rho_only_are_accounted_for_by_their_curve():
    spent = exchange(like(), Claim(inferences=10))
    together = combined(spent, dp.ZCDpEvent(0.1))
    assert together >= gaussian.epsilon(np.hypot(spent.gdp[0], 0.2**0.5), DELTA)
    with pytest.raises(ValueError, match="no accountant"):
        combined(spent, dp.UnsupportedDpEvent())


def test_live_noise_counts_in_the_sum():
    plain, live = (exchange(like(), Claim(live=live)) for live in (False, True))
    assert np.all(plain.missed == 0)
    assert np.all((live.missed > 0) & (live.missed < 1e-40))
    assert combined(live, []) >= combined(plain, [])
    assert np.isinf(combined(replace(plain, missed=np.ones(6)), []))


def test_a_ledgers_budget_beside_others_fits_and_no_more():
    others = [(1.0, 1e-6), trained()]
    left = budget_beside(others, epsilon=4.0, delta=DELTA, ledger_delta=2e-6)
    nothing = exchange(like(clip_norm=1e-300))
    assert combined(nothing, [(left, 2e-6), *others], DELTA) <= 4.0 + 1e-6
    assert combined(nothing, [(left * 1.001, 2e-6), *others], DELTA) > 4.0
    with pytest.raises(ValueError, match=r"epsilon=0.5 must be at least .*, what others spent"):
        budget_beside(others, epsilon=0.5, delta=DELTA)


@pytest.mark.parametrize("rho", [1e-3, 0.1, 2.0])
def test_rho_converts_as_in_dp_accounting_and_above_its_gaussian(rho):
    found = renyi.zcdp_epsilon(rho, DELTA)
    theirs = RdpAccountant().compose(dp.ZCDpEvent(rho)).get_epsilon(DELTA)
    assert float(gaussian.epsilon((2 * rho) ** 0.5, DELTA)) <= found <= theirs * (1 + 1e-9)
    assert found == pytest.approx(theirs, rel=0.1)
    assert (renyi.zcdp_epsilon(0.0, DELTA), renyi.zcdp_epsilon(np.inf, DELTA)) == (0.0, np.inf)


def test_a_curve_of_another_tool_adds_up_with_ours():
    orders = [1.5, 2.0, 4.0, 8.0, 16.0, 32.0]
    spent = exchange(like(), Claim(inferences=10))
    theirs = RdpAccountant(orders).compose(TRAINING).compose(spent.event()).get_epsilon(DELTA)
    training = np.array([RdpAccountant([order]).compose(TRAINING)._rdp[0] for order in orders])
    assert renyi.epsilon(orders, training + spent.rdp(orders)[0], DELTA) == pytest.approx(theirs, rel=1e-9)


def test_bad_input_is_named(monkeypatch):
    spent = exchange(like())
    with pytest.raises(ValueError, match="orders=1 must be above 1"):
        spent.rdp(1.0)
    with pytest.raises(ValueError, match=r"divergence has shape \(1,\), must have one value for each"):
        renyi.epsilon([2.0, 3.0], [1.0], DELTA)
    with pytest.raises(ValueError, match="device=6 must be from 0 to 5"):
        spent.event(6)
    with pytest.raises(ValueError, match="device=-1 must be from 0 to 5"):
        combined(spent, [], device=-1)
    for other in ("DP-SGD", (1.0, 1e-6, 0.0), PLDAccountant):
        with pytest.raises(ValueError, match="must be events or accountants"):
            combined(spent, other)
    with pytest.raises(ValueError, match="ledger_delta=1e-05 must be less than delta=1e-05"):
        budget_beside([], epsilon=1.0, delta=1e-5, ledger_delta=1e-5)
    with pytest.raises(ValueError, match="protects='person' must be one of device, local, object"):
        exchange(like(), protects="person")  # pyright: ignore[reportArgumentType]
    with pytest.raises(NetworkError, match="power_rule='paper' fails"):
        exchange(like(channel=Channel(power_rule="paper")))
    with pytest.raises(ValueError, match=r"interval=1e-09 must be at least"):
        spent.pld(interval=1e-9)
    assert isinstance(exchange(like(noise_std=0.0)).event(), dp.NonPrivateDpEvent)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ValueError, match=r"needs dp_accounting: pip install -e './packages/airpool\[accounting\]'"):
        spent.event()


def test_the_command_prints_units_and_has_them_as_data():
    def said(*more):
        done = CliRunner().invoke(cli.app, ["epsilon", "--devices", "6", "--noise-std", "0.2", "--units", *more])
        return done.exit_code, done.output

    code, text = said("--inferences", "7")
    assert code == 0
    assert "For other accountants, worst device: μ = 0.9002 (GDP), ρ = 0.4051 (zCDP)." in " ".join(text.split())
    assert "They do not count that live noise is another with probability" in " ".join(said("--live")[1].split())
    data = json.loads(said("--json", "--participation", "0.9")[1])["units"]
    spent = exchange(like(participation=0.9))
    assert data["gdp"] == pytest.approx(spent.gdp.tolist())
    assert data["rdp"]["worst"] == pytest.approx(np.max(spent.rdp(data["rdp"]["orders"]), axis=0).tolist())
    assert not data["gaussian"]
    assert said("--neighbours", "remove", "--cover-noise")[0] != 0
