"""Four devices write recordings; their sum, in complex64, is the weighted sum of their latents."""

import json
import socket
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from airpool.cli import app

pytest.importorskip("sigmf")
NETWORK = ("--devices", "4", "--dimension", "6", "--noise-std", "0.01", "--gamma", "1")


def run(*arguments: object) -> dict:
    done = CliRunner().invoke(app, ["radio", *(str(a) for a in arguments), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_recordings_of_all_devices_add_up_to_the_estimate(tmp_path):
    z = np.random.default_rng(1).standard_normal((4, 6))
    z /= 2 * np.linalg.norm(z, axis=1, keepdims=True)
    for k in range(4):
        np.save(tmp_path / f"{k}.npy", z[k])
        said = run("transmit", *NETWORK, "--latent", tmp_path / f"{k}.npy", "--device", k, "--out", tmp_path / f"{k}")
        assert said["epsilon_local"] == "inf"  # next to no noise, so that the sum is seen
        assert (tmp_path / f"{k}.sigmf-data").stat().st_size == 8 * said["samples"]
        assert json.loads((tmp_path / f"{k}.sigmf-meta").read_text())["global"]["core:datatype"] == "cf32_le"
    names = ",".join(str(tmp_path / f"{k}") for k in range(4))
    run("receive", *NETWORK, "--recordings", names, "--out", tmp_path / "sum.npy")
    np.testing.assert_allclose(np.load(tmp_path / "sum.npy"), z.mean(axis=0), atol=6 * 0.02)


def test_names_with_dots_are_recordings_of_their_own(tmp_path):
    np.save(tmp_path / "z.npy", np.zeros(6))
    for name in ("run.a", "run.b"):
        run("transmit", *NETWORK, "--latent", tmp_path / "z.npy", "--device", 0, "--out", tmp_path / name)
    assert (tmp_path / "run.a.sigmf-data").read_bytes() != (tmp_path / "run.b.sigmf-data").read_bytes()
    names = f"{tmp_path / 'run.a'},{tmp_path / 'run.b.sigmf-meta'}"
    run("receive", *NETWORK, "--recordings", names, "--out", tmp_path / "sum.npy")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--out", "x", "--guard-db", "nan"), "--guard-db nan must be"),
        (("--out", "x", "--rate", "nan"), "sample_rate=nan must be"),
        (("--out", "tcp://nonsense"), "tcp://nonsense: Invalid argument"),
        (("--out", "tcp://127.0.0.1:5", "--timeout", "-1"), "timeout"),
    ],
)
def test_what_cannot_be_transmitted_is_said_and_nothing_is_written(tmp_path, monkeypatch, refused, given, message):
    pytest.importorskip("zmq")
    monkeypatch.chdir(tmp_path)
    np.save("z.npy", np.zeros(6))
    assert message in refused("radio", "transmit", *NETWORK, "--latent", "z.npy", "--device", 0, *given)
    assert [path.name for path in tmp_path.iterdir()] == ["z.npy"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--recordings", "none", "--delay", "-3"), "delay"),
        (("--recordings", "tcp://nonsense"), "tcp://nonsense: Invalid argument"),
    ],
)
def test_what_cannot_be_received_is_said(tmp_path, refused, given, message):
    pytest.importorskip("zmq")
    assert message in refused("radio", "receive", *NETWORK, *given, "--out", tmp_path / "sum.npy")


def test_what_is_no_recording_is_named(tmp_path, refused):
    message = refused("radio", "receive", *NETWORK, "--recordings", tmp_path / "none", "--out", tmp_path / "sum.npy")
    assert "none.sigmf-meta does not exist" in message


def test_a_stream_goes_from_transmitter_to_receiver(tmp_path):
    pytest.importorskip("zmq")
    z = np.array([0.3, -0.2, 0.1, 0.4, 0.0, -0.5])
    np.save(tmp_path / "z.npy", z)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    one = ("--devices", "1", *NETWORK[2:])
    given = ("--latent", tmp_path / "z.npy", "--device", "0", "--out", address, "--timeout", "60")
    command = [sys.executable, "-m", "airpool", "radio", "transmit", *one, *map(str, given)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as sender:
        try:
            run("receive", *one, "--recordings", address, "--out", tmp_path / "sum.npy", "--timeout", "60")
            assert sender.wait(timeout=60) == 0
        finally:
            sender.kill()
    np.testing.assert_allclose(np.load(tmp_path / "sum.npy"), z, atol=6 * 0.01)


def test_a_stream_without_another_end_is_given_up(tmp_path, refused):
    pytest.importorskip("zmq")
    np.save(tmp_path / "z.npy", np.zeros(6))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    out = ("--out", tmp_path / "sum.npy", "--timeout", "0.2")
    assert "sent 0 of" in refused("radio", "receive", *NETWORK, "--recordings", address, *out)
    given = ("--latent", tmp_path / "z.npy", "--device", "0", "--out", address, "--timeout", "0.2")
    assert "no reader has taken the samples" in refused("radio", "transmit", *NETWORK, *given)


def test_over_the_waveform_labels_are_those_of_symbols_and_every_sample_is_accounted_for():
    said = run("evaluate", "--noise-std", "0.08975", "--split", "validation", "--guard", "0")
    low, high = said["accuracy_symbols_ci"]
    assert low < said["accuracy"] < high
    assert said["csi_error_std"] == pytest.approx(0, abs=1e-9)
    assert said["epsilon_samples"] == pytest.approx(said["epsilon_symbols"], rel=1e-3) == pytest.approx(1.0, abs=1e-3)


def test_what_a_waveform_does_not_account_for_is_said(refused):
    said = run("evaluate", "--participation", "0.9", "--noise-std", "0.1", "--split", "validation", "--limit", "9")
    assert said["epsilon_samples"] == said["epsilon_local"]
    assert "participation" in said["why_local"]
    assert "its own" in refused("radio", "evaluate", "--fading", "rayleigh")


@pytest.mark.parametrize("command", ["transmit", "evaluate"])
def test_what_people_read_is_never_below_epsilon(command, tmp_path):
    """σ = .0906: the local ε is 3.97443, which is more than the 3.974 that it rounds to."""
    np.save(tmp_path / "z.npy", np.zeros(40))
    given = ["--devices", "12", "--noise-std", "0.0906"]
    if command == "transmit":
        given += ["--dimension", "40", "--latent", tmp_path / "z.npy", "--device", "0", "--out", tmp_path / "out"]
    else:
        given += ["--split", "validation", "--guard", "0", "--timing", "1"]
    exact = run(command, *given)
    said = CliRunner().invoke(app, ["radio", command, *map(str, given)]).output
    words = {"epsilon_local": "ε, no other device trusted", "epsilon_symbols": "ε over symbols, worst device"}
    for name, text in words.items():
        if name in exact:
            printed = next(line for line in said.splitlines() if line.startswith(text))
            assert exact[name] <= float(printed.removeprefix(text)) < exact[name] + 1.001e-3
    if command == "transmit":
        about = json.loads((tmp_path / "out.sigmf-meta").read_text())["global"]["core:description"]
        assert float(about.rsplit(" ", 1)[1]) >= exact["epsilon_local"]
