"""docs/howto/cameras.md: its commands in order, on a small made-up shop of three cameras."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL.Image")

from PIL import Image, ImageDraw

PAGE = Path(__file__).parent.parent / "docs" / "howto" / "cameras.md"
CAMERAS = {"left": 0.9, "right": 1.1, "door": 0.7}
ROLES = ("air", "server", "device")


def picture(label, camera, seed):
    """A table, and on it a mug or nothing: another size, colour and place for each object, and side for each camera."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (160, 120), tuple(rng.integers(120, 200, 3)))
    draw, size = ImageDraw.Draw(image), 30 * CAMERAS[camera]
    draw.rectangle((0, 80, 160, 120), tuple(rng.integers(60, 120, 3)))
    if label == "mug":
        x, y, colour = 60 + rng.integers(40), 75, tuple(rng.integers(0, 255, 3))
        draw.ellipse((x + size / 2, y - size, x + size * 1.4, y - size / 4), outline=colour, width=5)
        draw.rectangle((x - size / 2, y - size, x + size / 2, y + 5), colour)
    noisy = np.asarray(image) + np.random.default_rng((seed, len(camera))).normal(0, 4, (120, 160, 3))
    return noisy.clip(0, 255).astype(np.uint8)


def shop(folder, objects=8):
    for camera in CAMERAS:
        for k, label in enumerate(("mug", "empty")):
            (folder / camera / label).mkdir(parents=True)
            for number in range(objects):
                pixels = picture(label, camera, 100 * k + number)
                Image.fromarray(pixels).save(folder / camera / label / f"{number}.jpg")


def clips(folder):
    """Videos of three stretches of each class, as the page's list has their columns."""
    cv2 = pytest.importorskip("cv2")
    folder.mkdir()
    spans = [(10 * k, 10 * k + 9, ("mug", "empty")[k % 2]) for k in range(6)]
    for camera in ("left", "right"):
        out = cv2.VideoWriter(str(folder / f"{camera}.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 2, (160, 120))
        for k, (_, _, label) in enumerate(spans):
            for _ in range(20):
                out.write(np.ascontiguousarray(picture(label, camera, k)[..., ::-1]))
        out.release()
    rows = [f"{start},{end},{label}," for start, end, label in spans]
    (folder / "labels.csv").write_text("\n".join(["start,end,class,event", *rows]))


def commands():
    """The page's commands, in order; a backslash at the end of a line continues it."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    found = [each for block in blocks for each in re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE)]
    return [each.replace("\\\n", " ") for each in found if "eth80" not in each and not each.startswith("cat ")]


class Shell:
    """Runs commands in a folder; roles stay until the end. ports: addresses of the page, and free ones for them."""

    def __init__(self, folder, ports):
        bin_first = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        self.folder, self.ports, self.roles = folder, ports, []
        self.environment = {**os.environ, "PATH": bin_first}

    def arguments(self, command):
        for given, free in self.ports.items():
            command = command.replace(given, free)
        return {"args": ["bash", "-c", f"exec {command}"], "cwd": self.folder, "env": self.environment}

    def run(self, command):
        done = subprocess.run(**self.arguments(command), check=False, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, command):
        """Starts a role and waits until it says that it runs."""
        log = self.folder / f"role-{len(self.roles)}.log"
        with log.open("w") as sink:
            role = subprocess.Popen(**self.arguments(command), stdout=sink, stderr=sink)
        self.roles.append(role)
        wait_until(lambda: " runs" in log.read_text() or role.poll() is not None)
        assert role.poll() is None, f"{command}\n{log.read_text()}"

    def stop(self):
        for role in self.roles:
            role.terminate()
        for role in self.roles:
            assert role.wait(30) == 0


def wait_until(true, seconds=120.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.2)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.check
@pytest.mark.skipif(shutil.which("curl") is None, reason="the page asks with curl")
def test_every_command_of_the_page_runs_in_its_order(tmp_path):
    for module in ("torch", "onnx", "onnxruntime", "grpc", "cryptography"):
        pytest.importorskip(module)
    shop(tmp_path / "shop")
    clips(tmp_path / "clips")
    shell = Shell(tmp_path, {f"127.0.0.1:{port}": f"127.0.0.1:{free_port()}" for port in (7001, 8000)})
    said, asked = {}, "curl --cacert"
    try:
        for command in commands():
            words = command.split()
            if words[0] == "airpool" and words[1] in ROLES:
                shell.start(command)
                continue
            name = " ".join(words[:2])
            said[name] = shell.run(command)
            while words[0] == "curl" and "below quorum" in said[name]:  # which spends nothing: not all are ready yet
                said[name] = shell.run(command)
    finally:
        shell.stop()
    assert set(said) >= {"airpool fit", "airpool bundle", "airpool calibrate", "airpool up", "airpool report", asked}
    assert json.loads(said[asked])["name"] in ("mug", "empty")
    assert json.loads(said[asked])["devices"] == 3
    accuracy = float(said["airpool up"].partition("accuracy")[2].split()[0])
    assert accuracy >= 0.7  # the shop is easy: .96 at ε = 2 in the folds, of 20 inferences all but six at least
    assert "20 answered" in said["airpool up"]
    assert "of 16 for any 31 in a row" in said["airpool up"]
    assert "20 inferences" in said["airpool ledger"]
    assert "<!DOCTYPE html>" in (tmp_path / "statement.html").read_text("utf-8")
