"""The waveform against the signal model: symbols come back, impairments come out as errors, leaks are computed."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from airpool.account.guarantee import guarantee
from airpool.evaluation.audit.bound import audit
from airpool.network import Claim, Neighbours, Network
from airpool.privacy import gaussian
from airpool.protocol.simulation import receive
from airpool.radio.link import link_of
from airpool_lab.waveform.frame import Frame, demodulate, modulate
from airpool_lab.waveform.reception import (
    Waveform,
    estimate,
    evened,
    live_frame,
    sample_maps,
    waveform_epsilon,
    waveform_report,
)
from airpool_lab.waveform.uplink import Impairments, Uplink, measured, uplink

K, C = 12, 20
TWELVE = Network.uniform(num_devices=K, noise_std=0.08975, dimension=2 * C)


def ideal(frame: Frame, *, timing: np.ndarray | None = None, carrier: np.ndarray | None = None) -> Uplink:
    link = uplink((1, K), C, frame, Impairments(timing=4), np.random.default_rng(0))
    zero = np.zeros((1, K))
    paths = replace(
        link.paths, timing=zero if timing is None else timing[None], carrier=zero if carrier is None else carrier[None]
    )
    return replace(link, paths=paths)


EARLY = np.where(np.arange(K) == 0, -1.0, 0.0)


@pytest.mark.parametrize("symbols", [1, 20, 33])
@pytest.mark.parametrize("frame", [Frame(), Frame(subcarriers=32, active=7, prefix=0, guard=3)])
def test_symbols_come_back_with_their_energy(frame, symbols):
    rng = np.random.default_rng(symbols)
    sent = rng.standard_normal((3, symbols)) + 1j * rng.standard_normal((3, symbols))
    samples = modulate(sent, frame)
    assert samples.shape[-1] == frame.length(symbols)
    np.testing.assert_allclose(demodulate(samples, frame, symbols), sent, atol=1e-12)
    if frame.prefix == 0:
        np.testing.assert_allclose(np.sum(np.abs(samples) ** 2), np.sum(np.abs(sent) ** 2))


def test_without_impairment_the_waveform_is_the_symbol_level_sum():
    z = np.random.default_rng(1).standard_normal((3, K, 2 * C))
    over_waveform = Waveform().receive(z, TWELVE, rng=np.random.default_rng(2), trials=4).estimate
    at_symbols = receive(z, TWELVE, rng=np.random.default_rng(2), trials=4, path="full").estimate
    np.testing.assert_allclose(over_waveform, at_symbols, atol=1e-12)


def test_multipath_and_timing_within_the_prefix_are_equalised_away():
    rng = np.random.default_rng(3)
    link = uplink((50, K), C, Frame(), Impairments(num_taps=6, direct=0.8), rng)
    assert np.abs(measured(link, rng).ratio - 1).max() < 1e-9
    late = uplink((50, K), C, Frame(), Impairments(num_taps=3, direct=0.8, timing=4), rng)
    found = measured(late, rng)
    np.testing.assert_allclose(np.abs(found.ratio), 1.0, atol=1e-9)
    assert found.residual < 1e-12
    assert found.phase_error_std > 0.1


def test_errors_come_out_of_the_waveform():
    rng = np.random.default_rng(4)
    found = measured(uplink((100, K), C, Frame(), Impairments(pilot_noise_std=0.1), rng), rng)
    assert found.csi_error_std == pytest.approx(0.1, rel=0.05)
    assert found.phase_error_std == pytest.approx(0.1 / np.sqrt(2), rel=0.05)
    drifting = measured(uplink((100, K), C, Frame(), Impairments(carrier_std=0.05), rng), rng)
    assert 1e-4 < drifting.residual < 1e-1
    noisy = measured(uplink((100, K), C, Frame(), Impairments(phase_std=0.01), rng), rng)
    assert noisy.phase_error_std > 0.05


def test_an_amplifier_clips_what_exceeds_it():
    rng = np.random.default_rng(5)
    symbols = np.exp(0.5j * np.pi * rng.integers(0, 4, (200, K, C)))
    shares = [
        uplink((200, K), C, Frame(), Impairments(limit=limit), rng).sent(symbols)[1].mean() for limit in (0.5, 1.5, 3.0)
    ]
    assert shares[0] > 0.9 > shares[1] > shares[2] == 0


# What the samples tell


def test_in_perfect_unison_every_sample_tells_no_more_than_the_symbols():
    assert waveform_epsilon(TWELVE, ideal(Frame())).max() == pytest.approx(1.0, abs=1e-3)


def test_a_device_that_is_one_sample_early_is_alone_for_a_moment():
    assert waveform_epsilon(TWELVE, ideal(Frame(), timing=EARLY))[0] == pytest.approx(4.018, abs=1e-3)


@pytest.mark.parametrize(("guard_db", "epsilon"), [(0, 2.77), (6, 1.855), (12, 1.295), (18, 1.083)])
def test_noise_guards_hide_a_device_that_is_early(guard_db, epsilon):
    frame = Frame(guard=4, guard_db=guard_db)
    assert waveform_epsilon(TWELVE, ideal(frame, timing=EARLY)).max() == pytest.approx(epsilon, abs=0.005)
    assert frame.energy(C) == pytest.approx(1.25 + 0.125 * 10 ** (guard_db / 10))


def test_guards_of_the_right_length_and_loudness_cost_a_fifth_at_most():
    rng = np.random.default_rng(6)
    frame = Frame(guard=4, guard_db=18)
    for _ in range(5):
        timing = rng.integers(-4, 5, K).astype(float)
        assert waveform_epsilon(TWELVE, ideal(frame, timing=timing)).max() < 1.2


def test_carrier_offsets_turn_devices_away_from_each_other():
    carrier = 0.001 * np.random.default_rng(7).standard_normal(K)
    assert 1.8 < waveform_epsilon(TWELVE, ideal(Frame(), carrier=carrier)).max() < 3.2


def told(network: Network, link: Uplink, noise: np.ndarray) -> float:
    """The worst device's ε over all samples in real arithmetic, of the noise in each real coordinate that it sends."""
    r = network.dimension
    maps = []
    for k in range(K):
        a, _ = sample_maps(link, k)
        columns = np.stack([a, 1j * a], axis=-1).reshape(len(a), -1)  # of I and Q of every symbol
        maps.append(np.concatenate([columns.real, columns.imag]))
    total = np.sum([(m * noise**2) @ m.T for m in maps], axis=0)
    inverse = np.linalg.inv(total + 1e-11 * np.linalg.eigvalsh(total)[-1] * np.eye(len(total)))
    leverage = max(float(np.linalg.eigvalsh(m[:, :r].T @ inverse @ m[:, :r])[-1]) for m in maps)
    return float(gaussian.epsilon(np.sqrt(leverage) / K, Claim().delta))


@pytest.mark.parametrize("r", [1, 2, 3])
def test_epsilon_over_all_samples_holds_for_the_noise_that_is_sent(r, monkeypatch):
    """With an odd r there is half a symbol left. Without noise in it, ε of turned devices is up to three times this."""
    network, sent = replace(TWELVE, dimension=r), Uplink.sent
    seen: list[np.ndarray] = []

    def watched(self, symbols, guard_noise=None):
        seen.append(symbols)
        return sent(self, symbols, guard_noise)

    monkeypatch.setattr(Uplink, "sent", watched)
    arrived = Waveform().receive(np.zeros((1, K, r)), network, rng=np.random.default_rng(10), trials=2000)
    assert arrived.estimate.shape == (1, 2000, r)
    monkeypatch.undo()
    symbols = np.concatenate(seen)
    noise = np.stack([np.real(symbols), np.imag(symbols)], axis=-1).reshape(-1, 2 * symbols.shape[-1]).std(axis=0)
    np.testing.assert_allclose(noise, 0.08975, rtol=0.03)
    link = uplink((1, K), symbols.shape[-1], Frame(), Impairments(pilot_noise_std=0.2), np.random.default_rng(11))
    claimed = waveform_epsilon(network, link).max()
    drawn, half_empty = told(network, link, noise), np.where(np.arange(len(noise)) < r, noise, 0.0)
    assert drawn < claimed * 1.05  # the noise is that of 2000 draws
    assert (told(network, link, half_empty) > 1.5 * claimed) == (r % 2 == 1)


@pytest.mark.parametrize("r", [1, 3])
def test_a_live_device_fills_its_last_symbol_with_noise(r):
    network, frame = replace(TWELVE, dimension=r), Frame(guard=2)
    frames = [live_frame(np.zeros(r), network, frame, device=0, gain=1.0)[0] for _ in range(200)]
    last = demodulate(np.array(frames), frame, (r + 1) // 2)[:, -1]
    gamma = link_of(evened(network)).gamma
    for part in (last.real, last.imag):
        assert part.std() == pytest.approx(0.08975 * gamma, rel=0.2)
    assert estimate(frames[0], network, frame).shape == (r,)
    with pytest.raises(ValueError, match=f"must end with {r} coordinates"):
        live_frame(np.zeros(r + 1), network, frame, device=0, gain=1.0)


@pytest.mark.parametrize("guard", [0, 4])
def test_a_game_on_all_samples_finds_what_was_computed_and_no_more(guard):
    link = ideal(Frame(guard=guard, guard_db=18), timing=EARLY)
    maps = [sample_maps(link, k) for k in range(K)]
    noise = 0.08975 * np.concatenate([np.concatenate(pair, axis=1) for pair in maps], axis=1)
    inverse = np.linalg.pinv(noise @ noise.conj().T, rcond=1e-12, hermitian=True)
    a = maps[0][0]
    feature = np.linalg.eigh(a.conj().T @ inverse @ a)[1][:, -1] / K  # the direction that is told most easily
    claimed = waveform_epsilon(TWELVE, link, Claim(delta=0.01))[0]

    def heard(scale: float, runs: int, rng: np.random.Generator) -> np.ndarray:
        normals = rng.standard_normal((2, runs, noise.shape[1]))
        return scale * (a @ feature) + (normals[0] + 1j * normals[1]) @ noise.T

    def score(seen: np.ndarray) -> np.ndarray:
        return np.real(seen @ np.conj(inverse @ (a @ feature)))

    rng = np.random.default_rng(8)
    found = audit(heard, 1.0, 0.0, runs=10_000, rng=rng, delta=0.01, score=score, claimed_epsilon=float(claimed))
    assert not found.violated
    device = waveform_epsilon(TWELVE, ideal(Frame()), Claim(delta=0.01))[0]
    assert (found.epsilon_lower > 1.5 * device) == (guard == 0)


def test_samples_are_those_of_sionnas_modulator():
    sionna = pytest.importorskip("sionna.phy.ofdm")
    torch = pytest.importorskip("torch")
    frame, rng = Frame(), np.random.default_rng(9)
    symbols = rng.standard_normal((2, 3 * C)) + 1j * rng.standard_normal((2, 3 * C))
    spectrum = np.zeros((2, 3, frame.subcarriers), dtype=np.complex64)
    spectrum[..., frame.bins] = symbols.reshape(2, 3, C)
    shifted = torch.tensor(np.fft.fftshift(spectrum, axes=-1))
    samples = sionna.OFDMModulator(frame.prefix)(shifted)
    np.testing.assert_allclose(samples.cpu().numpy(), modulate(symbols, frame), atol=1e-5)
    back = sionna.OFDMDemodulator(frame.subcarriers, 0, frame.prefix)(samples)
    np.testing.assert_allclose(np.fft.ifftshift(back.cpu().numpy(), axes=-1), spectrum, atol=1e-4)


def test_removal_shows_in_the_coordinate_that_fills_up_the_last_symbol():
    network, removal = Network.uniform(num_devices=12, noise_std=0.1, dimension=1), Claim(neighbours=Neighbours.REMOVE)
    report = waveform_report(network, Waveform(), removal)
    assert report.worst == guarantee(replace(network, dimension=2), removal).worst
    assert report.worst > guarantee(network, removal).worst


def test_own_noise_alone_is_no_lower_end_over_a_waveform():
    network = Network.uniform(num_devices=12, noise_std=0.09, dimension=4)
    report = waveform_report(network, Waveform(impairments=Impairments(carrier_std=1e-6)))
    assert report.epsilon_lower is None
    assert report.epsilon_at_least is None


@pytest.mark.parametrize("impairments", [Impairments(), Impairments(carrier_std=1e-6)])
@pytest.mark.parametrize("dimension", [3, 4])
def test_a_waveforms_report_stays_one_of_its_waveform(impairments, dimension):
    network = Network.uniform(num_devices=12, noise_std=0.9, dimension=dimension)
    waveform = Waveform(impairments=impairments)
    report, five = waveform_report(network, waveform), waveform_report(network, waveform, Claim(inferences=5))
    later = report.over(5)
    assert (later.network, later.claim) == (network, Claim(inferences=5))
    assert later.network.channel.access == "superposed"
    assert later.assumptions == five.assumptions
    assert later.epsilon.tolist() == five.epsilon.tolist()
    assert later.over(1).assumptions == report.assumptions
    own = impairments != Impairments()
    assert own == any("over a waveform" in line.lower() for line in later.assumptions)
    # The samples of an impaired waveform show each device by itself: its odds and the statement's are the local ones.
    for each in (*report.odds, *later.odds):
        assert np.allclose(each.device, each.local, rtol=1e-9) == own
    page = report.statement(per_day=5)
    assert [each.epsilon.tolist() for each in page.periods[:2]] == [x.epsilon.tolist() for x in (report, later)]
    assert own == ("keeps every sample" in str(page))
    # A report that was stored and read is the same one.
    back = pickle.loads(pickle.dumps(report))
    assert back.over(5).epsilon.tolist() == five.epsilon.tolist()
    assert back.epsilon_if_absent == report.epsilon_if_absent
    assert (back.epsilon_at_least is None) == own
