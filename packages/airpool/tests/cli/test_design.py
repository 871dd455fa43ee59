"""`airpool design` and `airpool calibrate` with a target for each device, from the network file to the network file."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from airpool import cli
from airpool.account.guarantee import guarantee
from airpool.network import Claim, Devices, Network
from airpool.network.file import read, read_claim, write

TARGETS = (0.5, 6.0, 0.5, 6.0)
LIVE = Claim(live=True)


def run(*arguments):
    done = CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def refused(refused):
    """The one line that a command is refused with."""

    def said(*arguments):
        err = refused(*arguments)
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    return said


@pytest.fixture
def files(tmp_path):
    """A network file with a target for each device, and calibration latents."""
    rng = np.random.default_rng(0)
    latents = rng.standard_normal((9, 1, 6)) / 4 + rng.standard_normal((9, 4, 6)) / 9
    save_file({"latents": torch.tensor(latents).float(), "labels": torch.arange(9)}, tmp_path / "latents.safetensors")
    write(Network(Devices(4, noise_std=0.3, epsilon=TARGETS), dimension=6), tmp_path / "net.toml")
    return tmp_path / "net.toml", tmp_path / "latents.safetensors"


@pytest.mark.parametrize(
    ("flags", "column"),
    [(["weights"], "weight"), (["weights", "--normalise", "free"], "weight"), (["clipping"], "clip_norm")],
)
def test_a_design_goes_from_the_file_to_the_file(files, tmp_path, flags, column):
    net, latents = files
    out = tmp_path / "out.toml"
    data = json.loads(run("design", *flags, "--network", net, "--latents", latents, "--out", out, "--json"))
    found = read(out)
    assert found.devices.epsilon == TARGETS == tuple(data["target"])
    assert list(found.devices.column(column)) == data[column]
    assert guarantee(found).epsilon.tolist() == data["epsilon"]
    assert np.all(np.array(data["epsilon"]) <= TARGETS)
    assert data[column][0] < data[column][1]
    assert data["epsilon_before"] == guarantee(read(net)).epsilon.tolist()
    assert data["mse"] > 0
    assert data["mse_before"] > 0
    if column == "weight":
        assert data["kkt_residual"] < 1e-9
        assert np.all(np.array(data["weight"]) <= data["weight_max"])


def test_commands_meet_their_targets_with_the_noise_that_runs(files, tmp_path):
    net, latents = files
    out, channel = tmp_path / "out.toml", ["--fading", "rician", "--power-rule", "backoff"]
    given = ["--network", net, *channel, "--out", out, "--live", "--json"]
    designed = json.loads(run("design", "weights", "--normalise", "free", "--latents", latents, *given))
    assert guarantee(read(out), LIVE).epsilon.tolist() == designed["epsilon"]
    assert np.all(np.array(designed["epsilon"]) <= TARGETS)
    for more in ([], ["--epsilon", "2"], ["--epsilon", "2", "--adjust", "clip"]):
        data = json.loads(run("calibrate", *more, *given))
        assert data["live"]
        assert read_claim(out) == LIVE
        assert np.all(guarantee(read(out), LIVE).epsilon <= np.array(read(out).devices.column("epsilon")))


@pytest.mark.parametrize("what", ["weights", "clipping"])
def test_a_design_for_people_is_a_table(files, what, tmp_path):
    net, latents = files
    out = tmp_path / "out.toml"
    text = run("design", what, "--network", net, "--latents", latents, "--out", out)
    assert "target" in text
    assert "Mean square error" in text
    assert f"Network file: {out}" in text.replace("\n", "")


def test_without_latents_the_shipped_validation_objects_are_used():
    data = json.loads(
        run("design", "weights", "--epsilon", ",".join(["0.5", "8"] * 6), "--normalise", "free", "--json")
    )
    assert len(data["weight"]) == 12
    assert np.all(np.array(data["epsilon"]) <= [0.5, 8] * 6)
    assert data["mse"] < data["mse_before"]


@pytest.mark.parametrize("what", [["weights", "--normalise", "free"], ["clipping"]], ids=["weights", "clipping"])
@pytest.mark.parametrize(("count", "note"), [(3, "used: 0, 4, 8;"), (14, "from device 12 on"), (12, None)])
def test_any_number_of_devices_is_designed_with_the_shipped_cameras(what, count, note):
    targets = ([0.5, 8] * count)[:count]
    flags = ["design", *what, "--devices", count, "--epsilon", ",".join(map(str, targets))]
    data = json.loads(run(*flags, "--json"))
    assert np.all(np.array(data["epsilon"]) <= targets)
    if note is None:
        assert data["cameras"] is None
    else:
        assert note in data["cameras"]
        assert data["cameras"] in run(*flags)


def test_what_cannot_be_designed_is_refused_with_what_can(files, refused):
    net, latents = files
    both = ["--network", net, "--latents", latents]
    assert "can be met at this noise" in refused("design", "weights", *both, "--noise-std", "0.001")
    assert "epsilon has 2 values for 4 devices" in refused("design", "weights", *both, "--epsilon", "1,2")
    assert "--normalise loud must be one of sum, free" in refused("design", "weights", *both, "--normalise", "loud")
    assert "are of 4 devices, the network has 3" in refused("design", "clipping", "--devices", 3, "--latents", latents)
    assert "no target" in refused("design", "clipping", "--latents", latents, "--devices", 4)


# airpool calibrate with a target for each device


@pytest.mark.parametrize(
    ("flags", "column", "stricter"),
    [
        (["--adjust", "weight"], "weight", "less"),
        (["--adjust", "clip"], "clip_norm", "less"),
        (["--per-device"], "noise_std", "more"),
        ([], "noise_std", "same"),
    ],
)
@pytest.mark.parametrize("given", [[], ["--epsilon", "1,4,1,4"]])
def test_calibrate_meets_every_devices_own_target(files, tmp_path, flags, column, stricter, given):
    net, _ = files
    out = tmp_path / "out.toml"
    data = json.loads(run("calibrate", "--network", net, *flags, *given, "--out", out, "--json"))
    target = [1.0, 4.0, 1.0, 4.0] if given else list(TARGETS)
    assert data["target"] == target
    assert np.all(np.array(data["epsilon"]) <= target)
    found = read(out)
    assert guarantee(found).epsilon.tolist() == data["epsilon"]
    strict, loose = found.devices.column(column)[:2]
    assert {"less": strict < loose, "more": strict > loose, "same": strict == loose}[stricter]
