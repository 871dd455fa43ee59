"""Four devices over GNU Radio's channel models, end to end: `airpool radio`, the flowgraph, and labels."""

import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch

from airpool.models.pretrained import load
from airpool.network import Network
from airpool.protocol.inference import centralised
from airpool.radio.link import level
from airpool_lab.waveform.frame import Frame

ROOT = Path(__file__).parents[3]
PYTHON = "/usr/bin/python3"  # GNU Radio's: that of the system
DEVICES, OBJECTS = 4, 3
AIRPOOL = (sys.executable, "-m", "airpool", "radio")


def has_gnuradio() -> bool:
    return (
        shutil.which(PYTHON) is not None
        and subprocess.run([PYTHON, "-c", "import gnuradio.zeromq"], capture_output=True, check=False).returncode == 0
    )


def address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


def over_gnuradio(latents: np.ndarray, network: Network, tmp_path: Path, *impairments: str) -> np.ndarray:
    """The server's estimate (r,) of latents (K, r): K transmitters, the flowgraph and a receiver, a process each."""
    std = network.devices.column("noise_std")[0]
    described = ("--devices", DEVICES, "--dimension", network.dimension, "--noise-std", std)
    described = (*map(str, described), "--gamma", "1", "--timeout", "60")
    frame = Frame(guard=4, guard_db=18.0)
    streams, total = [address() for _ in range(DEVICES)], address()
    samples = str(frame.length((network.dimension + 1) // 2))
    air = (PYTHON, str(ROOT / "examples/gnuradio/superpose.py"), "--from", ",".join(streams), "--to", total)
    commands: list[tuple[str, ...]] = [(*air, "--samples", samples, "--timeout", "60", *impairments)]
    for k, z in enumerate(latents):
        np.save(tmp_path / f"{k}.npy", z)
        given = ("--latent", str(tmp_path / f"{k}.npy"), "--device", str(k), "--out", streams[k])
        commands.append((*AIRPOOL, "transmit", *described, *given))
    commands.append((*AIRPOOL, "receive", *described, "--recordings", total, "--out", str(tmp_path / "sum.npy")))
    with ExitStack() as started:
        running = [started.enter_context(subprocess.Popen(command, cwd=ROOT)) for command in commands]
        for process in running:
            started.callback(process.kill)
        for process in running:
            assert process.wait(timeout=120) == 0
    return np.load(tmp_path / "sum.npy")


@pytest.mark.check
@pytest.mark.parametrize("impairments", [(), ("--noise-std", "0.002", "--taps", "0.999,0.01j")])
def test_four_devices_get_their_labels_over_gnuradio(tmp_path, impairments):
    if not has_gnuradio():
        pytest.skip("no GNU Radio for the system's Python")
    model = load("modelnet40")
    objects = model.held_out("validation", codec="vote").fitted(DEVICES)
    latents = objects.latents[:OBJECTS]
    network = Network.uniform(num_devices=DEVICES, noise_std=0.001, dimension=latents.shape[-1])
    decode = model.codec("vote").server(level(network))
    with torch.no_grad():
        expected = decode(centralised(latents, network).estimate)[:, 0].argmax(-1)
        sums = np.stack([over_gnuradio(z.double().numpy(), network, tmp_path, *impairments) for z in latents])
        found = decode(torch.from_numpy(sums).to(latents.dtype)).argmax(-1)
    np.testing.assert_allclose(sums, centralised(latents, network).estimate[:, 0], atol=0.05)
    assert found.tolist() == expected.tolist()
