"""`airpool theory`: what it prints for machines and people, and how it refuses what is out of reach."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch
from typer.testing import CliRunner

import airpool
from airpool import cli
from airpool.models.codecs.dense import CodecShape
from airpool.models.codecs.training import initial
from airpool.models.pretrained import Objects
from airpool.network import Channel, Devices, Network, Ranking, Threshold
from airpool.network.file import write

K, R, CLASSES = 3, 6, 4
NETWORK = Network.uniform(num_devices=K, dimension=R, noise_std=0.02)


class SmallModel:
    """As what ships, with a codec that takes milliseconds: labels are what it says without noise or bias."""

    classes = tuple(f"class {c}" for c in range(CLASSES))

    def __init__(self):
        torch.manual_seed(0)
        self._codec = initial(CodecShape(dimension=R, num_classes=CLASSES, hidden=4, server_hidden=8))
        torch.nn.init.normal_(self._codec.arrays["decoder.out.weight"])
        torch.nn.init.zeros_(self._codec.arrays["decoder.out.bias"])
        self._codec.arrays["decoder.hidden.bias"].zero_()
        self._codec.arrays["decoder.hidden.weight"][:, -1] = 0.0

    def codec(self, _):
        return self._codec

    def held_out(self, split, *, codec):
        if split not in ("test", "validation"):
            raise ValueError(f"split={split!r} must be test or validation")
        rng = torch.Generator().manual_seed(len(split))
        latents = torch.randn(40, 1, R, generator=rng) + 0.1 * torch.randn(40, K, R, generator=rng)
        latents = torch.nn.functional.normalize(latents, dim=-1)
        with torch.no_grad():
            labels = self._codec.decoder(latents.mean(1), 0.1).argmax(-1)
        return Objects(latents, labels, torch.full((40, K, CLASSES), 1 / CLASSES))


@pytest.fixture(autouse=True)
def small(request, monkeypatch):
    if "check" not in request.keywords:
        model = SmallModel()
        monkeypatch.setattr(airpool, "load", lambda _: model)


@pytest.fixture
def net(tmp_path):
    """Writes a network to a file."""

    def written(network=NETWORK):
        write(network, tmp_path / "net.toml")
        return tmp_path / "net.toml"

    return written


def run(*arguments):
    done = CliRunner().invoke(cli.app, ["theory", *(str(a) for a in arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def run_json(*arguments):
    return json.loads(run(*arguments, "--json"), parse_constant=pytest.fail)


@pytest.fixture
def refused(refused):
    return partial(refused, "theory")


BOUNDS = {"ideal", "margin", "margin_paper", "paper", "chebyshev", "ball", "half_spaces", "ceiling"}


def test_json_has_what_is_promised(net):
    data = run_json("--network", net(), "--objects", 20, "--trials", 50)
    about = {"codec", "epsilon", "split", "trials", "seed", "objects", "no_answer", "cameras"}
    assert set(data) == about | {"error", "server", "linear", "measured"}
    assert set(data["server"]) == set(data["linear"]) == BOUNDS
    assert set(data["error"]) == {"bias", "participation", "privacy_noise", "channel_noise", "total"}
    assert (data["objects"], data["trials"], data["split"], data["seed"]) == (20, 50, "test", 0)
    assert data["server"]["ceiling"] is None
    for name in ("server", "linear"):
        run_of = data["measured"][name]
        error = 5 * (0.25 / (20 * 50)) ** 0.5
        assert 0 < data[name]["half_spaces"] <= run_of["accuracy"] + error
        assert run_of["accuracy"] - error <= (data[name]["ceiling"] or 1.0)
        assert run_of["accuracy_ci"][0] <= run_of["accuracy"] <= run_of["accuracy_ci"][1]
        assert run_of["mse"] == pytest.approx(data["error"]["total"], rel=0.1)


def test_epsilon_scales_the_noise(net):
    quiet, loud = (run_json("--network", net(), "--epsilon", epsilon, "--trials", 0) for epsilon in (50.0, 1.0))
    assert 49.9 < quiet["epsilon"] <= 50.0
    assert 0.99 < loud["epsilon"] <= 1.0
    assert loud["error"]["privacy_noise"] > quiet["error"]["privacy_noise"]
    assert loud["server"]["half_spaces"] < quiet["server"]["half_spaces"]


def test_without_trials_nothing_is_measured(net):
    data = run_json("--network", net(), "--trials", 0)
    assert data["measured"] == {}
    assert data["objects"] == 40
    assert "measured" not in run("--network", net(), "--trials", 0)


def test_the_table_says_it_for_people(net):
    text = run("--network", net(), "--objects", 10, "--trials", 5)
    for words in (
        "privacy noise",
        "total",
        "Theorem 2 as printed",
        "Chebyshev",
        "half-spaces",
        "≤ exact law",
        "measured",
    ):
        assert words in text
    assert "10 objects" in text


def test_noise_that_protects_nobody_is_an_infinite_epsilon(net):
    silent = replace(NETWORK, devices=replace(NETWORK.devices, noise_std=0.0))
    data = run_json("--network", net(silent), "--trials", 0)
    assert data["epsilon"] == "inf"
    assert data["server"]["half_spaces"] == data["server"]["ideal"]


def test_where_the_law_is_unknown_there_is_a_dash(net):
    off = replace(NETWORK, channel=Channel("rician", csi_error_std=0.1))
    data = run_json("--network", net(off), "--objects", 10, "--trials", 0)
    assert data["server"]["ball"] is data["server"]["half_spaces"] is data["linear"]["ceiling"] is None
    assert isinstance(data["server"]["chebyshev"], float)
    assert "–" in run("--network", net(off), "--objects", 10, "--trials", 2)


def test_a_server_with_one_answer_has_an_infinite_margin(monkeypatch, net):
    model = SmallModel()
    model.codec("compact").arrays["decoder.out.weight"].zero_()
    model.codec("compact").arrays["decoder.out.bias"][2] = 1.0
    monkeypatch.setattr(airpool, "load", lambda _: model)
    data = run_json("--network", net(), "--trials", 2)
    assert data["server"]["margin"] == data["linear"]["margin"] == "inf"
    assert data["server"]["half_spaces"] == data["measured"]["server"]["accuracy"] == 1.0
    assert "inf" in run("--network", net(), "--trials", 2)


def test_more_objects_than_there_are_means_all(net):
    assert run_json("--network", net(), "--objects", 1000, "--trials", 0)["objects"] == 40


def test_the_same_seed_measures_the_same(net):
    first, again, other = (run_json("--network", net(), "--trials", 3, "--seed", seed) for seed in (1, 1, 2))
    assert first == again
    assert first["measured"] != other["measured"]
    assert first["server"] == other["server"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scheme": Threshold()}, "scheme.name='2.1' must be 1: by scores"),
        ({"scheme": Ranking(num_selected=2)}, "scheme.name='2.2' must be 1: by scores"),
        ({"channel": Channel(power_rule="paper")}, "channel.power_rule='paper' must be truncate or backoff"),
        ({"dimension": 64}, "has dimension 64, the codec vote needs 6: calibrate with --dimension 6"),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--epsilon", 2.0]], ids=["as it is", "calibrated"])
def test_networks_out_of_reach_get_a_reason(net, refused, change, message, flags):
    err = refused("--network", net(replace(NETWORK, **change)), *flags)
    assert err.startswith("error: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(("count", "note"), [(2, "used: 0, 1; left out: 2"), (4, "from device 3 on"), (3, None)])
def test_any_number_of_devices_is_proven_and_it_is_said_which_cameras_they_use(net, count, note):
    network = replace(NETWORK, devices=Devices(count, noise_std=0.02))
    path, flags = net(network), ["--objects", 10, "--trials", 1]
    data = run_json("--network", path, *flags)
    text = run("--network", path, *flags)
    if note is None:
        assert data["cameras"] is None
        assert "camera" not in text
    else:
        assert note in data["cameras"]
        assert data["cameras"] in text


def test_devices_that_the_shipped_cameras_cannot_serve_are_named(net, refused):
    err = refused("--network", net(Network.uniform(num_devices=31, dimension=R)))
    assert "num_devices=31 must be from 1 to 30" in err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--trials", -1], "--trials -1 must be ≥ 0"),
        (["--objects", 0], "--objects 0 must be ≥ 1"),
        (["--split", "train"], "--split train must be test or validation"),
        (["--epsilon", 0], "epsilon"),
        (["--network", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_bad_flags_are_refused(net, refused, flags, message):
    base = [] if "--network" in flags else ["--network", net()]
    assert message in refused(*base, *flags)


@pytest.mark.check
def test_what_ships_is_proven_at_several_epsilons():
    last = 0.0
    for epsilon in (1.0, 4.0, 10.0):
        data = run_json("--epsilon", epsilon, "--objects", 200, "--trials", 5)
        for name in ("server", "linear"):
            assert data[name]["half_spaces"] <= data["measured"][name]["accuracy"] + 5 * (0.25 / 1000) ** 0.5
        assert data["linear"]["half_spaces"] > last
        last = data["linear"]["half_spaces"]
    assert last > 0.8
