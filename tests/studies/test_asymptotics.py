"""The error against K, by formula and over the air; figures redrawn from their tables."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from studies.asymptotics import against_devices, device_error, resampled, thinned, view_error
from studies.trends import trend
from tests.random_networks import channels

from airpool import Channel, Devices, Network, calibrate, load
from airpool.radio.link import unbiased
from studies import asymptotics_depth, asymptotics_devices, theory_figures

SIGMAS = 4.5
COUNTS = (12, 30, 100, 300)
R = 6


# The error at K devices


def some_views(objects: int = 3, views: int = 12) -> np.ndarray:
    """Alike but not the same, and shorter than 1."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((objects, 1, R)) + 0.3 * rng.standard_normal((objects, views, R))
    return z / (1.01 * np.linalg.norm(z, axis=-1, keepdims=True))


@st.composite
def networks(draw: st.DrawFn) -> Network:
    count = draw(st.integers(1, 5))
    devices = Devices(
        count,
        noise_std=draw(st.floats(0.01, 0.3)),
        participation=tuple(draw(st.lists(st.floats(0.1, 1.0), min_size=count, max_size=count))),
        power_dbm=20.0,
    )
    return Network(devices=devices, channel=draw(channels()), dimension=R, cover_noise=draw(st.booleans()))


@settings(max_examples=20)
@given(network=networks())
def test_what_is_measured_is_what_the_formula_says_part_by_part(network):
    z = resampled(some_views(), network.devices.count, rng=np.random.default_rng(2))
    found = device_error(z, network, rng=np.random.default_rng(0), trials=2000)
    noise = found.privacy_noise + found.channel_noise
    for part, exact in (
        ("bias", found.bias),
        ("participation", found.participation),
        ("noise", noise),
        ("total", found.total),
    ):
        measured, se = (getattr(found, f"measured_{part}{end}") for end in ("", "_se"))
        # The bias has an error of second order besides: that of the mean's square, about participation/trials.
        slack = 5 * found.participation / 2000 if part == "bias" else 0.0
        assert abs(measured - exact) <= SIGMAS * se + slack + 1e-9, part
    assert found.total == pytest.approx(found.bias + found.participation + noise)


def test_many_trials_at_once_or_in_steps_are_the_same_law(monkeypatch):
    net = Network.uniform(num_devices=4, participation=0.7, noise_std=0.1, dimension=R)
    z = some_views(views=4)
    whole = device_error(z, net, rng=np.random.default_rng(0), trials=500)
    monkeypatch.setattr("studies.asymptotics._IN_FLIGHT", 100)
    steps = device_error(z, net, rng=np.random.default_rng(1), trials=500)
    away = whole.measured_total - steps.measured_total
    assert abs(away) < SIGMAS * math.hypot(whole.measured_total_se, steps.measured_total_se)


def exponents(network, part="total", *, counts=COUNTS):
    """Of a part by formula, and of the total as measured."""
    rng, views = np.random.default_rng(0), some_views()
    rows = against_devices(lambda K: resampled(views, K, rng=rng), network, counts=counts, rng=rng, trials=400)
    measured = trend(counts, [r.measured_total for r in rows], std=[r.measured_total_se for r in rows])
    return trend(counts, [getattr(r, part) for r in rows]), measured


def plain(K: int, **given) -> Network:
    return Network.uniform(**({"num_devices": K, "noise_std": 0.1, "dimension": R} | given))


@pytest.mark.parametrize(
    ("fixed", "network", "expected"),
    [
        ("the papers σ", plain, 1),
        ("local ε", lambda K: plain(K, noise_std=0.1 / K), -1),
        ("device ε", lambda K: calibrate(plain(K), epsilon=1.0), -2),
    ],
)
def test_what_is_kept_fixed_decides_the_exponent(fixed, network, expected):
    exact, measured = exponents(network)
    assert exact.rate == pytest.approx(expected, abs=1e-9)
    assert abs(measured.rate - expected) < 4 * measured.rate_se < 0.1


@pytest.mark.parametrize("regime", list(asymptotics_devices.REGIMES)[:3])
def test_the_regimes_of_the_figure_are_one_network_at_twelve_devices(regime):
    network, reference = (asymptotics_devices.REGIMES[name](12) for name in (regime, "fixed device ε"))
    assert network.devices.noise_std == pytest.approx(reference.devices.noise_std)
    assert network.devices.weight == reference.devices.weight


def test_silence_leaves_a_bias_that_no_number_of_devices_removes():
    def quiet(K):
        return plain(K, noise_std=0.0, participation=0.8)

    assert abs(exponents(quiet, "bias")[0].rate) < 0.02
    # All latents are equally long: Σ‖z‖²/K² is exactly like 1/K.
    assert exponents(quiet, "participation")[0].rate == pytest.approx(-1, abs=1e-9)


def test_unbiased_weights_leave_one_over_k():
    exact, measured = exponents(lambda K: unbiased(plain(K, noise_std=0.0, participation=0.8)))
    assert exact.rate == pytest.approx(-1, abs=1e-9)
    assert abs(measured.rate + 1) < 4 * measured.rate_se < 0.1


@pytest.mark.parametrize(("gamma", "power_per_device", "expected"), [(1.0, 1, 0), ("auto", 1, -2), ("auto", 0, -1)])
def test_receiver_noise_falls_with_the_power_there_is(gamma, power_per_device, expected):
    def network(K):
        power = 30 if power_per_device else 30 - 10 * math.log10(K / 12)
        return plain(K, noise_std=0.0, power_dbm=power, channel=Channel(noise_std=0.3, gamma=gamma))

    assert exponents(network, "channel_noise")[0].rate == pytest.approx(expected, abs=1e-6)


def test_one_trial_has_no_spread():
    with pytest.raises(ValueError, match="trials=1 must be >= 2"):
        device_error(some_views(), plain(12), rng=np.random.default_rng(0), trials=1)
    with pytest.raises(ValueError, match=r"latents has shape \(3, 12, 6\), must be \(\*, 5, 6\)"):
        device_error(some_views(), plain(5), rng=np.random.default_rng(0))


# Views


def test_resampled_views_are_views_of_the_same_object():
    z = np.arange(3 * 4).reshape(3, 4, 1).astype(float)
    found = resampled(z, 50, rng=np.random.default_rng(0))
    assert found.shape == (3, 50, 1)
    for own, drawn in zip(z, found, strict=True):
        assert set(drawn.ravel()) == set(own.ravel())


@given(views=st.integers(1, 60), data=st.data())
def test_thinned_views_are_different_and_nowhere_far_apart(views, data):
    count = data.draw(st.integers(1, views))
    kept = thinned(np.arange(views, dtype=float).reshape(1, views, 1), count)[0, :, 0]
    gaps = np.diff(np.append(kept, views))
    assert kept[0] == 0
    assert len(set(kept)) == count
    assert gaps.max() - gaps.min() <= 1


def test_random_views_miss_the_mean_by_their_spread_over_k():
    z = some_views(objects=40, views=30)
    spread = np.mean(np.sum((z - z.mean(1, keepdims=True)) ** 2, axis=-1))
    rng = np.random.default_rng(0)
    found = np.array([view_error(z, 5, rng=rng).mean() for _ in range(400)])
    assert abs(found.mean() - spread / 5) < SIGMAS * found.std(ddof=1) / math.sqrt(len(found))


def test_even_views_of_something_smooth_are_right_from_a_few_on():
    turn = np.arange(720) * 2 * np.pi / 720
    wave = np.stack([np.cos(turn), np.cos(3 * turn), np.cos(turn) ** 2], axis=-1)[None]
    assert view_error(wave, 3)[0] > 0.01
    assert view_error(wave, 5)[0] < 1e-20
    assert view_error(wave, 720)[0] == 0


@pytest.mark.parametrize("count", [0, 13])
def test_as_many_views_as_there_are_not_are_refused(count):
    with pytest.raises(ValueError, match=rf"num_devices={count} must "):
        thinned(some_views(), count)


# Tables and figures


def test_figures_are_redrawn_from_their_tables(tmp_path):
    names = ("asymptotics-devices", "asymptotics-depth")
    theory_figures.main([*names, "--figures", str(tmp_path)])
    for name in names:
        for ending in ("png", "svg", "csv"):
            assert (tmp_path / f"{name}.{ending}").stat().st_size > 1000
        committed = theory_figures.FIGURES / f"{name}.csv"
        assert (tmp_path / f"{name}.csv").read_text("utf-8") == committed.read_text("utf-8")


def test_a_figure_that_is_not_there_is_named(capsys):
    with pytest.raises(SystemExit, match="2"):
        theory_figures.main(["asymptotics-colour"])
    assert "asymptotics-colour: there is asymptotics-devices, asymptotics-depth" in capsys.readouterr().err


@pytest.mark.parametrize("name", [*asymptotics_devices.NAMES, *asymptotics_depth.NAMES])
def test_committed_tables_say_how_they_came_about(name):
    table = json.loads((theory_figures.RESULTS / f"{name}.json").read_text("utf-8"))
    assert table["failures"] == []
    # Run from docs before the studies had a folder of their own.
    assert table["command"].startswith(("python -m docs.theory_figures", "python -m studies.theory_figures"))
    assert table["version"]
    assert "--fresh" in table["command"]


def test_committed_exponents_are_those_of_algebra():
    laws = {(x["law"], x["part"], x["from"]): x for x in asymptotics_devices.exponents(theory_figures.RESULTS)}
    for regime, part, expected in (
        ("fixed σ", "total", 1),
        ("fixed local ε", "total", -1),
        ("fixed device ε", "total", -2),
        ("fixed device ε, p = 0.9", "participation", -1),
        ("air, γ = 1", "channel_noise", 0),
    ):
        assert laws[regime, part, "formula"]["exponent"] == pytest.approx(expected, abs=1e-3)
    for regime, expected in (("fixed σ", 1), ("fixed local ε", -1), ("fixed device ε", -2)):
        measured = laws[regime, "total", "air"]
        assert abs(measured["exponent"] - expected) < 4 * measured["exponent_se"] < 0.02


def test_a_point_of_each_table_can_be_measured_again():
    found = asymptotics_devices.error_row(
        views_from="resampled", regime="fixed σ", num_devices=3, trials=5, rng=np.random.default_rng(0)
    )
    assert found["total"] == pytest.approx(40 * 3 * asymptotics_devices.twelve_std() ** 2)
    row = asymptotics_depth.depth_row(family="random, orthogonal", depth=2, net=0, seed=0)
    assert 0 < row["error"] < row["spectral_bound"] < row["frobenius_bound"]


def test_views_come_from_a_file_of_azimuths_too(tmp_path):
    posteriors = torch.from_numpy(np.random.default_rng(0).dirichlet(np.full(40, 0.2), (4, 100))).half()
    latents = load().codec("vote").encoder(posteriors.float())
    path = str(tmp_path / "azimuths.safetensors")
    save_file({"posteriors": posteriors, "labels": torch.arange(4)}, path)
    z, labels = asymptotics_devices.views(path, 25, np.random.default_rng(0), step=2)
    assert z == pytest.approx(latents[::2, ::4].numpy())
    assert labels.tolist() == [0, 2]
    row = asymptotics_devices.view_row(spacing="even", num_devices=25, azimuths=path, rng=np.random.default_rng(0))
    every = latents.double()
    apart = (every[:, ::4].mean(1) - every.mean(1)).square().sum(-1)
    assert row["error"] == pytest.approx(float(apart.mean()))
    assert row["error_se"] == pytest.approx(float(apart.std()) / 2)


def test_measured_depths_never_exceed_their_bounds():
    for name, error, bound in (
        ("asymptotics-depth", "error", "spectral_bound"),
        ("asymptotics-split", "map", "spectral_bound"),
    ):
        columns = json.loads((theory_figures.RESULTS / f"{name}.json").read_text("utf-8"))["columns"]
        assert all(e <= b * (1 + 1e-6) for e, b in zip(columns[error], columns[bound], strict=True))
