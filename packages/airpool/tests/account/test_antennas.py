"""ε against several antennas: the numbers of howto/radio.md, and an independent simulation of what they receive."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from scipy.optimize import brentq
from scipy.stats import norm

from airpool.account.calibration import calibrate
from airpool.account.eavesdropper import _arrivals
from airpool.account.guarantee import aggregate, guarantee
from airpool.account.odds import odds
from airpool.account.report import table
from airpool.network import Adversary, Channel, Claim, Devices, Network, Slots
from airpool.privacy import gaussian
from airpool.privacy.device import by_coin
from airpool.privacy.epsilon import epsilon
from airpool.privacy.leak import Times, near
from airpool.radio.fading import sample_gains
from airpool.radio.link import level, link_of
from airpool.radio.power import threshold

pytestmark = pytest.mark.usefixtures("few_draws")
TWELVE = calibrate(Network.uniform(num_devices=12, noise_std=0.09), epsilon=1.0)


# The assumption under which only the antennas elsewhere count.
UNKNOWING = Claim(knows_answer=False)


def listened(network: Network, antennas: int, claim: Claim = Claim()) -> np.ndarray:
    report = guarantee(replace(network, adversary=Adversary(antennas)), claim)
    assert report.epsilon_eavesdropper is not None
    return report.epsilon_eavesdropper


@pytest.mark.parametrize(
    ("antennas", "epsilon"),
    [(1, 1.7352), (2, 2.0907), (3, 2.3710), (4, 2.6131), (6, 3.0304), (8, 3.3924), (11, 3.8710)],
)
def test_equal_devices_follow_the_beta_law(antennas, epsilon):
    assert listened(TWELVE, antennas, UNKNOWING).max() == pytest.approx(epsilon, abs=1e-4)


@pytest.mark.parametrize(("antennas", "epsilon"), [(1, 1.9637), (2, 2.3042), (4, 2.8057), (8, 3.5561), (11, 4.0181)])
def test_whoever_learns_the_answer_is_a_server_with_more_antennas(antennas, epsilon):
    """Without fading a server's further antennas are Rayleigh, as those elsewhere are."""
    found = listened(TWELVE, antennas)
    server = guarantee(replace(TWELVE, channel=Channel(antennas=antennas + 1))).epsilon
    np.testing.assert_allclose(found, server, rtol=1e-9)
    assert found.max() == pytest.approx(epsilon, abs=1e-4)
    two = listened(replace(TWELVE, channel=Channel(antennas=2)), antennas)
    np.testing.assert_allclose(two, listened(TWELVE, antennas + 1), rtol=1e-9)


def bayes(one: float, other: float, runs: int = 200_000) -> tuple[np.ndarray, np.ndarray]:
    """Losses ln P(seen | one)/P(seen | other), with one feature and with the other; all other features are known.

    Seen are one antenna elsewhere and the answer of two classes: on which side of the middle the server's sum lies.
    one, other: what a feature adds to the sum, in standard deviations of its noise.
    """
    rng = np.random.default_rng(44)
    n = 12  # noise of variance 1 in each part of every device's symbol
    worlds, middle = (one * np.sqrt(n), other * np.sqrt(n)), (one + other) / 2 * np.sqrt(n)
    a = rng.standard_normal((runs, n)) + 1j * rng.standard_normal((runs, n))
    noise = rng.standard_normal((runs, n)) + 1j * rng.standard_normal((runs, n))
    size, across = np.sum(np.abs(a) ** 2, axis=1), a.sum(axis=1)
    losses = []
    for sent in worlds:
        y = np.sum(a * noise, axis=1) + a[:, 0] * sent
        answer = noise.real.sum(axis=1) + sent > middle
        logs = []
        for z in worlds:
            off = y - a[:, 0] * z
            # The sum at the server given y: it is Gaussian with y, of which it has Σ a_j in common.
            mean, var = z + np.real(np.conj(across) * off) / size, n - np.abs(across) ** 2 / size
            far = (mean - middle) / np.sqrt(var)
            logs.append(norm.logcdf(np.where(answer, far, -far)) - np.abs(off) ** 2 / (2 * size))
        losses.append(logs[0] - logs[1])
    return losses[0], losses[1]


def test_a_guesser_that_reads_the_answer_is_covered():
    """Odds of a yes-or-no question at device ε = 1: what is reached is above those of one that never reads it."""
    yes, no = bayes(0.26804, -0.26804)
    right = np.concatenate([yes > 0, no <= 0])
    reached, error = right.mean(), right.std() / np.sqrt(right.size)
    network = replace(TWELVE, adversary=Adversary(1))
    known, unknown = (odds(network, Claim(knows_answer=each)).eavesdropper for each in (True, False))
    assert known is not None
    assert unknown is not None
    assert reached - 5 * error > unknown[0] == pytest.approx(0.594, abs=1e-3)
    assert reached + 5 * error < known[0] == pytest.approx(0.644, abs=1e-3)


def test_epsilon_of_whoever_reads_the_answer_is_not_exceeded():
    """A device of μ = 1 in the sum, δ = .01: δ of the guesser above, at the ε of one that never reads the answer."""
    network = Network.uniform(num_devices=12, noise_std=1 / 12**1.5, dimension=2)
    losses, _ = bayes(1.0, 0.0)
    known, unknown = (listened(network, 1, Claim(delta=1e-2, knows_answer=each))[0] for each in (True, False))
    assert unknown == pytest.approx(3.360, abs=2e-3)

    def spent(epsilon: float) -> tuple[float, float]:
        each = -np.expm1(np.minimum(epsilon - losses, 0.0))
        return each.mean(), each.std() / np.sqrt(len(each))

    delta, error = spent(unknown)
    assert delta - 5 * error > 1e-2
    delta, error = spent(known)
    assert delta + 5 * error < 1e-2


def test_a_server_with_more_antennas_has_a_law_of_its_own():
    """Laws are kept by their key; at a fixed γ the thresholds do not tell the servers apart, the gains do."""
    first, second = (
        replace(TWELVE, channel=Channel(fading="rayleigh", gamma=1.0, antennas=m), adversary=Adversary(2))
        for m in (1, 4)
    )
    assert _arrivals(first, link_of(first), answered=True) != _arrivals(second, link_of(second), answered=True)


def test_as_many_antennas_as_devices_get_the_local_epsilon():
    local = guarantee(TWELVE).epsilon_local
    assert (listened(TWELVE, 11, UNKNOWING) < local).all()
    assert local[0] == pytest.approx(4.0181, abs=1e-4)
    for antennas in (11, 12, 20):
        np.testing.assert_allclose(listened(TWELVE, antennas), local, rtol=1e-6)
    assert (listened(TWELVE, 10) < local).all()


def test_an_eavesdropper_that_stays_where_it_is_keeps_its_channel():
    assert listened(TWELVE, 1, replace(UNKNOWING, inferences=100)).max() == pytest.approx(38.1, abs=0.1)


@pytest.mark.parametrize("knows", [False, True])
def test_a_new_place_each_time_is_covered_where_the_gains_stay(knows):
    """No fading, δ = .4: a listener that moves averages over its places, and spends more than one that stays."""
    found = listened(TWELVE, 1, Claim(delta=0.4, inferences=100, knows_answer=knows))[0]
    d, rng = TWELVE.devices, np.random.default_rng(6)
    leverage = rng.beta(1, 10 if knows else 11, (20_000, 100))
    leverage = 1 / 12 + 11 / 12 * leverage if knows else leverage
    square = (d.column("weight")[0] / d.column("noise_std")[0]) ** 2 * leverage
    for total, above in ((100 * square[:, 0], False), (square.sum(axis=1), True)):
        delta = gaussian.delta(np.full(len(total), 0.97 * found), np.sqrt(total))
        assert (delta.mean() - 5 * delta.std() / np.sqrt(len(total)) > 0.4) == above
        delta = gaussian.delta(np.full(len(total), found), np.sqrt(total))
        assert delta.mean() - 5 * delta.std() / np.sqrt(len(total)) <= 0.4


def test_a_louder_device_farther_away_is_a_kind_of_its_own():
    """Path loss and power may cancel in what limits a device; elsewhere the farther one still arrives more strongly."""
    near = Devices(count=4, weight=0.25, noise_std=0.3)
    far = replace(near, path_loss_db=(0, 20, 20, 20), power_dbm=(10.0, 30.0, 30.0, 30.0))
    found = listened(Network(devices=far), 1, replace(UNKNOWING, delta=1e-3))
    rng = np.random.default_rng(5)
    power = rng.exponential(size=(100_000, 4)) * np.array([1, 100, 100, 100])
    mu = 0.25 / 0.3 * np.sqrt(power[:, 1] / power.sum(axis=1))
    delta = gaussian.delta(np.full(len(mu), found[1]), mu)
    assert delta.mean() - 5 * delta.std() / np.sqrt(len(mu)) <= 1e-3
    assert found[0] < found[1] == found[2]


def test_nobody_is_granted_less_than_the_server_or_more_than_the_local_epsilon():
    network = replace(TWELVE, devices=replace(TWELVE.devices, participation=0.8))
    report = guarantee(network)
    found = [listened(network, antennas).max() for antennas in (1, 2, 4)]
    assert report.worst < found[0] < found[1] < found[2] < report.epsilon_local.max()


def simulated(network: Network, claim: Claim, antennas: int, rng: np.random.Generator, runs: int = 20_000) -> float:
    """ε of the worst device by plain matrices: no fading."""
    d = network.devices
    w, c, std, p = (np.array(d.column(x)) for x in ("weight", "clip_norm", "noise_std", "participation"))
    mu = np.zeros((runs, d.count))
    for run in range(runs):
        a = rng.standard_normal((antennas, d.count)) + 1j * rng.standard_normal((antennas, d.count))
        a = np.concatenate([a, np.ones((1, d.count))]) if claim.knows_answer else a
        for k in range(d.count):
            on = rng.random(d.count) < p
            on[k] = True
            noise = a @ np.diag(on * std**2) @ a.conj().T
            mu[run, k] = w[k] * c[k] * np.sqrt(np.real(a[:, k].conj() @ np.linalg.pinv(noise) @ a[:, k]))

    def excess(eps: float, k: int) -> float:
        return np.log(max(p[k] * gaussian.delta(np.full(runs, eps), mu[:, k]).mean(), 1e-300)) - np.log(claim.delta)

    return max(brentq(excess, 1e-3, 50.0, args=(k,)) for k in range(d.count))  # pyright: ignore


@pytest.mark.parametrize(("antennas", "knows"), [(2, False), (1, True)])
def test_heterogeneous_devices_are_bounded_from_above_and_not_far(monkeypatch, antennas, knows):
    monkeypatch.setattr("airpool.privacy.sampled.DRAWS", 2**18)
    devices = Devices(
        count=4, weight=0.25, noise_std=(0.4, 0.5, 0.6, 0.7), participation=(1.0, 0.8, 0.9, 1.0), epsilon=None
    )
    network, claim = Network(devices=devices), Claim(delta=1e-3, knows_answer=knows)
    truth = simulated(network, claim, antennas, np.random.default_rng(1), runs=3000)
    found = listened(network, antennas, claim).max()
    assert 0.97 * truth < found < 1.15 * truth


def test_fading_is_drawn_with_the_gain_that_devices_invert():
    faded = replace(TWELVE, channel=Channel(fading="rayleigh"))
    steady, found = listened(TWELVE, 1).max(), listened(faded, 1).max()
    assert steady < found < guarantee(faded).epsilon_local.max()


def test_where_the_local_epsilon_is_all_the_report_says_why():
    report = guarantee(replace(TWELVE, adversary=Adversary(2)), Claim(neighbours="remove"))
    assert report.epsilon_eavesdropper is not None
    assert any("eavesdropper elsewhere gets the local ε" in line for line in report.assumptions)
    assert guarantee(TWELVE).epsilon_eavesdropper is None


def test_a_server_that_keeps_all_antennas_learns_more_than_its_beam():
    found = [guarantee(replace(TWELVE, channel=Channel(antennas=m))).worst for m in (1, 2, 4, 12)]
    assert found[0] == pytest.approx(1.0, abs=1e-3)
    assert found[1] == pytest.approx(1.964, abs=1e-3)
    assert found[1] < found[2] < found[3] == pytest.approx(4.0181, abs=1e-4)


def test_a_beam_lifts_the_weakest_device():
    one, four = (replace(TWELVE, channel=Channel(fading="rayleigh", antennas=m)) for m in (1, 4))
    assert link_of(four).gamma > 2 * link_of(one).gamma
    assert level(four).noise_std == pytest.approx(level(one).noise_std, rel=0.05)
    report = guarantee(four)
    assert guarantee(one).worst < report.worst < report.epsilon_local.max()
    assert any("keeps all its 4 antennas" in line for line in report.assumptions)


def test_gains_of_a_beam_are_those_that_its_outage_was_computed_for():
    network = replace(TWELVE, channel=Channel(fading="rician", antennas=3, outage=0.1))
    link = link_of(network)
    gain = sample_gains(link.fading, (4000, 12), np.random.default_rng(1))
    low = gain < threshold(link.transmitters, gamma=link.gamma)
    assert np.mean(low) == pytest.approx(np.mean(link.outage), abs=0.02)


def test_no_outage_of_a_beam_is_counted_on():
    """The law of a beam's gain is a sample's: a device that may be silent counts as present, there and elsewhere."""
    channel = Channel(fading="rayleigh", gamma=0.5, antennas=4)
    network = replace(Network.uniform(num_devices=4, dimension=4), channel=channel, adversary=Adversary(2))
    one = replace(network, channel=replace(channel, antennas=1))
    assert np.all(_arrivals(network, link_of(network), answered=True).presence == 1.0)
    assert np.all(_arrivals(one, link_of(one), answered=True).presence < 1.0)


# Over a stream


LENT = Network(  # a device that is hidden by another one's noise, except when that one is in outage
    devices=Devices(count=2, weight=(0.5, 0.01), noise_std=(0.1, 1e4)),
    channel=Channel(fading="rayleigh", outage=8e-3),
)
LENGTH = Claim(delta=1e-2, inferences=100)


def test_outages_of_redrawn_gains_add_up_at_an_eavesdropper(monkeypatch):
    """In one draw the other device is silent with probability .008 < δ, so that one draw in common says 0."""
    monkeypatch.setattr("airpool.privacy.sampled.DRAWS", 3 * 2**18)
    unknowing = replace(LENGTH, knows_answer=False)
    found, local = listened(LENT, 1, unknowing)[0], guarantee(LENT, LENGTH).epsilon_local[0]
    assert 46.8 < found < min(51.5, local)  # of 100 draws with outages alone: 46.8
    still = replace(LENT, channel=replace(LENT.channel, redrawn=False))
    assert listened(still, 1, unknowing)[0] == found  # what an eavesdropper hears may be drawn anew all the same
    assert listened(LENT, 1, LENGTH)[0] == pytest.approx(local, rel=1e-6)  # two antennas for two devices


@pytest.mark.parametrize("inferences", [2, 30])
def test_an_eavesdropper_of_redrawn_gains_gets_no_more_than_promised(inferences):
    """Given all draws, T inferences are one Gaussian of distance √Σμ²: simulated with draws in common, and anew."""
    channel = Channel(fading="rayleigh", outage=0.05)
    network = Network.uniform(num_devices=3, noise_std=0.3, dimension=2, channel=channel)
    claim = Claim(delta=1e-2, inferences=inferences, knows_answer=False)
    found, runs, rng = listened(network, 1, claim).max(), 4000, np.random.default_rng(3)
    shape = (runs, inferences, 3)
    h = rng.rayleigh(np.sqrt(0.5), shape)
    limit = np.sqrt(-np.log1p(-0.05))
    strength = rng.exponential(size=shape) * np.where(h < limit, 0.0, 1 / h**2)
    with np.errstate(invalid="ignore"):
        ratio = np.nan_to_num(strength[..., 0] / strength.sum(axis=-1))  # leverage of device 0 among equal ones
    mu = ratio / (3 * 0.3) ** 2
    for total in (mu.sum(axis=1), inferences * mu[:, 0]):
        deltas = gaussian.delta(np.full(runs, found), np.sqrt(total))
        assert deltas.mean() - 4 * deltas.std() / np.sqrt(runs) <= 1e-2


def test_the_report_says_what_a_channel_that_stays_would_cost():
    network, claim = replace(TWELVE, channel=Channel(antennas=2)), Claim(inferences=100)
    report = guarantee(network, claim)
    stays = report.epsilon_if_static
    assert stays is not None
    assert report.worst == pytest.approx(22.96, abs=0.02)
    assert stays.max() == pytest.approx(42.29, abs=0.01)
    np.testing.assert_array_equal(
        stays, guarantee(replace(network, channel=replace(network.channel, redrawn=False)), claim).epsilon
    )
    assert report.to_json()["epsilon_if_static"][0] == stays[0]
    assert any("drawn anew in every inference" in line for line in report.assumptions)
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(table(report))
    assert "If the channel stays as it is over all inferences: ε = 42.29" in console.export_text()
    console.print(table(guarantee(replace(network, slots=Slots(4)))))
    assert "If the channel stays as it is over all slots: ε = " in console.export_text()


@pytest.mark.parametrize(
    ("channel", "inferences"), [(Channel(antennas=2), 1), (Channel(), 100), (Channel(redrawn=False), 100)]
)
def test_where_nothing_could_stay_there_is_no_second_number(channel, inferences):
    report = guarantee(replace(TWELVE, channel=channel), Claim(inferences=inferences))
    assert report.epsilon_if_static is None
    assert not any("drawn anew in every inference" in line for line in report.assumptions)


def test_a_stream_over_antennas_is_composed_without_loss():
    """Beta laws span ten orders of magnitude: howto/radio.md has 14.9 for an eavesdropper of draws that are all new."""
    network = replace(TWELVE, adversary=Adversary(1))
    received = replace(aggregate(network), strength=_arrivals(network, link_of(network), answered=False))
    anew = near(100 * received.misses, Times(100, by_coin(received, UNKNOWING.neighbours)))
    assert epsilon(anew, UNKNOWING.delta).max() == pytest.approx(14.9, abs=0.1)
