"""Installs airpool's wheel into clean environments, the accountant and each extra alone, and uses what each brings.

    python scripts/extras.py [EXTRA ...] [--linked] [--out TABLE.md]

By pip, torch by its pin; with --linked each environment holds links to what this one has installed, of the closure of
one extra and of nothing else: seconds, and no index. `USES` has a program for each extra, and every environment must
name the extra that a command lacks.
"""

import argparse
import os
import re
import subprocess
import sys
import time
import venv
import zipfile
from collections import Counter
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
_BEGIN = """
import subprocess, sys
from pathlib import Path
import numpy as np
def airpool(line):
    subprocess.run([sys.executable, "-I", "-m", "airpool", *line.split()], check=True)
"""
# An ONNX graph of one layer, a ReLU of (B, 2, 8, 8).
_ONNX = (
    "CAg6TQoMCgF2EgFtIgRSZWx1EgFnWhwKAXYSFwoVCAESEQoDEgFiCgIIAgoCCAgKAggI"
    "YhwKAW0SFwoVCAESEQoDEgFiCgIIAgoCCAgKAggIQgQKABAN"
)
# Programs: each ends without an error where its extra is installed, and cannot without it. "": the accountant.
USES = {
    "": """
airpool("calibrate --epsilon 2 --devices 12 --participation 0.9 --out net.toml")
airpool("epsilon --network net.toml")
import airpool
assert abs(airpool.guarantee(airpool.read_network("net.toml")).worst - 2) < 1e-6
assert not {"torch", "airpool_models"} & set(sys.modules)
""",
    "models": """
airpool("evaluate --epsilon 2 --devices 12 --trials 1")
import airpool
assert airpool.load("modelnet40").trunk
""",
    "plots": """
airpool("epsilon --devices 2 --noise-std 1 --plot plot.png")
airpool("calibrate --epsilon 2 --devices 12 --out net.toml")
airpool("report net.toml --every 10s --hours 8 --out statement.html")
assert Path("plot.png").stat().st_size > 1000 and "<html" in Path("statement.html").read_text("utf-8")
""",
    "design": """
from airpool.evaluation.design.qp import Quadratic, solve
flat = Quadratic(np.zeros((1, 3)), np.ones(3), np.zeros(3), 0.0)
assert np.allclose(solve(flat, np.array([0.1, 1, 1])).weight, [0.1, 0.45, 0.45], atol=1e-6)
""",
    "int8": f"""
import base64
from airpool.models.vision.int8 import Int8Trunk
views = np.full((3, 2, 8, 8), 255, np.uint8)
assert np.all(Int8Trunk({{"trunk.onnx": base64.b64decode("{_ONNX}")}})(views) == 1)
""",
    "bundle": """
import torch
from airpool.models.vision import quantisation
layers = torch.nn.Sequential(torch.nn.Conv2d(2, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3)).eval()
views = torch.randint(256, (8, 2, 16, 16), dtype=torch.uint8)
found = torch.as_tensor(quantisation.quantise(layers, views)(views.numpy()))
exact = layers(views / 255).detach()
assert (found - exact).norm() < 0.05 * exact.norm()
""",
    "openvino": """
from airpool.models.vision.int8 import Int8Trunk, openvino
ops = openvino().opset13
views = ops.parameter([-1, 2, 8, 8], np.float32)
openvino().save_model(openvino().Model([ops.relu(views)], [views]), "trunk.xml", compress_to_fp16=False)
trunk = Int8Trunk({name: Path(name).read_bytes() for name in ("trunk.xml", "trunk.bin")})
assert np.all(trunk(np.full((3, 2, 8, 8), 255, np.uint8)) == 1)
""",
    "mesh": """
from airpool.models.vision import meshes, prepare
grid = [(x, y) for x in range(9) for y in range(9)]
corners = [(9 * x + y + 1, 9 * x + y + 2, 9 * x + y + 10) for x, y in grid if x < 8 and y < 8]
text = "\\n".join([f"v {x} {y} {(x * y) % 5}" for x, y in grid] + ["f %d %d %d" % each for each in corners])
mesh = meshes.parse(text.encode(), name="hill.obj")
assert len(mesh.faces) == 64 and 4 <= len(prepare.gridded(mesh, faces=20)[1]) <= 30
""",
    "parquet": """
airpool("sweep epsilon --set devices=4,12 --backend serial --no-cache --out table.parquet")
import pyarrow.parquet
assert pyarrow.parquet.read_table("table.parquet").num_rows == 2
""",
    "ray": """
airpool("sweep epsilon --set devices=4,12 --backend ray --workers 1 --no-cache --out table.csv")
assert len(Path("table.csv").read_text("utf-8").splitlines()) >= 3
""",
    "sionna": """
airpool("epsilon --devices 2 --noise-std 1 --fading sionna:tdl-a")
""",
    "radio": """
import threading
from airpool.radio.waveform import recording
samples = (np.arange(64) * (1 - 1j)).astype(np.complex64)
recording.write("signal.sigmf-meta", samples, sample_rate=1e6, description="a ramp")
assert np.array_equal(recording.read("signal.sigmf-meta")[0], samples)
sender = threading.Thread(target=recording.push, args=("ipc://stream", samples))
sender.start()
assert np.array_equal(recording.pull("ipc://stream", 64), samples)
sender.join()
""",
    "ledger": """
airpool("keys init --keys keys")
airpool("keys device device-0 --keys keys")
import airpool as library
from airpool.runtime.ledger.ledger import Ledger
from airpool.runtime.ledger.mechanism import mechanism
key = Path("keys/device-0/identity.key")
ledger = Ledger(Path("device-0.db"), key)
assert ledger.charge("a", mechanism(library.Network.uniform(num_devices=3, noise_std=1.0), device=0)).new
ledger.close()
airpool("ledger verify device-0.db --key keys/device-0/identity.key")
""",
    "fleet": """
from airpool.runtime.ledger.fleet import Fleet
Fleet("sqlite:///view.db").close()
try:
    Fleet("postgresql://airpool@127.0.0.1:1/fleet?connect_timeout=2")
except ValueError as error:
    assert "127.0.0.1" in str(error) and "pip" not in str(error), error
""",
    "runtime": """
airpool("up --devices 2 --inferences 3")
""",
    "web": """
import re, urllib.request
page = subprocess.Popen([sys.executable, "-I", "-m", "airpool", "ui", "--listen", "127.0.0.1:0"],
                        stdout=subprocess.PIPE, text=True)
try:
    address = next(found[0] for line in page.stdout if (found := re.search(r"http://127[^\\s]*", line)))
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert b"<html" in answer.read()
finally:
    page.terminate()
    page.wait(30)
""",
    "secure": """
import airpool as library
from airpool.runtime.secure import group, rehearsal
channel = library.Channel(access="secure")
terms = group.terms_of(library.Network.uniform(num_devices=4, noise_std=1.0, dimension=3, channel=channel))
values = {k: terms.ring.encode(np.full(3, k / 10)) for k in range(4)}
total = rehearsal.rehearse(values, terms, rehearsal.sessions(4)).outcome.total
assert np.allclose(terms.ring.decode(total), 0.6, atol=1e-3)
""",
    "camera": """
from PIL import Image
from airpool.models.vision import picture
Image.new("RGB", (40, 30), (255, 0, 0)).save("photo.jpg")
assert picture.prepared(picture.read(Path("photo.jpg")), 8).shape == (3, 8, 8)
""",
    "video": """
import cv2
from airpool.runtime import readers
film = cv2.VideoWriter("film.avi", cv2.VideoWriter_fourcc(*"MJPG"), 10.0, (32, 32))
for light in range(5):
    film.write(np.full((32, 32, 3), 40 * light, np.uint8))
film.release()
reader = readers.video(Path("film.avi"))
assert reader.read().shape == (32, 32, 3)
reader.close()
""",
    "accounting": """
import airpool as library
network = library.Network.uniform(num_devices=12, noise_std=0.1)
theirs = library.exchange(network, inferences=5).pld().get_epsilon_for_delta(1e-5)
assert abs(theirs - library.guarantee(network, inferences=5).worst) < 0.01
""",
    "docs": """
Path("conf.py").write_text("extensions = ['myst_nb']\\nhtml_theme = 'furo'\\nproject = 'x'\\n")
Path("index.md").write_text("# Title\\n\\nText.\\n")
subprocess.run([sys.executable, "-I", "-m", "sphinx", "-W", "-q", ".", "site"], check=True)
assert "Text." in Path("site/index.html").read_text("utf-8")
import latex2mathml, codespell_lib
""",
    "all": """
from importlib import import_module
from airpool._support.extras import EXTRA_OF
for library in EXTRA_OF:
    import_module(library)
airpool("up --devices 3 --inferences 2 --access secure")
airpool("epsilon --devices 2 --noise-std 1 --plot plot.png")
""",
}
_WITH_DATA = {"runtime"}  # they read the shipped latents if they are there
# Commands, the extra that each needs, and what that brings.
_LACKING = {
    "evaluate --epsilon 2": ("models", {"torch", "safetensors"}),
    "reproduce table-1": ("plots", {"matplotlib", "jinja2"}),
}


def built(project: Path, out: Path) -> tuple[Path, Path]:
    """Wheel and sdist of a folder with a pyproject.toml, in `out`."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    subprocess.run(command, check=True, cwd=project, capture_output=True)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def closure(wheel: Path, extra: str) -> set[str]:
    """Names of all that a wheel with an extra asks for, by what is installed here; a ValueError if some is not."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(next(name for name in archive.namelist() if name.endswith("METADATA"))).decode()
    own = re.findall(r"^Requires-Dist: (.*)$", text, re.MULTILINE)
    found, todo = set[tuple[str, str]](), {("airpool", ""), ("airpool", extra)}
    while todo := todo - found:
        name, which = todo.pop()
        found.add((name, which))
        wanted = own if name == "airpool" else [] if name == "airpool-models" else metadata.requires(name) or []
        for need in map(Requirement, wanted):
            if need.marker is None or need.marker.evaluate({"extra": which}):
                todo |= {(canonicalize_name(need.name), each) for each in ("", *need.extras)}
    return {name for name, _ in found} - {"airpool"}


def linked(folder: Path, wheels: Iterable[Path], names: Iterable[str]) -> Path:
    """The Python of a new environment: wheels unpacked, and links to these packages of the present environment."""
    venv.create(folder, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    shared = Counter(top for each in metadata.distributions() for top in _tops(each))
    for each in map(metadata.distribution, {*names} - {"airpool-models"}):
        for top in _tops(each):
            _link(Path(str(each.locate_file(top))), site / top, whole=shared[top] == 1, of=each)
    return folder / "bin" / "python"


def _tops(of: metadata.Distribution) -> set[str]:
    return {each.parts[0] for each in of.files or () if each.parts[0] not in ("..", "__pycache__", "bin")}


def _link(source: Path, target: Path, *, whole: bool, of: metadata.Distribution) -> None:
    """A link to a file or folder; of a folder that packages share, to what this one put there."""
    if whole or not source.is_dir():
        target.symlink_to(source)
        return
    target.mkdir(exist_ok=True)
    for name in {each.parts[1] for each in of.files or () if each.parts[0] == source.name} - {"__pycache__"}:
        if not (target / name).exists():
            (target / name).symlink_to(source / name)


def by_pip(folder: Path, wheels: Iterable[Path], extra: str) -> Path:
    """The Python of a new environment, filled by pip within the constraints; torch first and by its pin."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", "--no-input", "-c", ROOT / "constraints.txt"]
    first, *others = wheels
    if "torch" in closure(first, extra):
        pin = next(each for each in (ROOT / "constraints.txt").read_text("utf-8").split() if each.startswith("torch=="))
        subprocess.run([*pip, pin], check=True, capture_output=True, text=True)
    subprocess.run([*pip, *others, f"{first}[{extra}]" if extra else first], check=True, capture_output=True, text=True)
    return python


def used(python: Path, extra: str, names: Iterable[str], folder: Path) -> None:
    """Uses an extra in an empty folder; an AssertionError if that fails, or if what lacks is not named."""
    folder.mkdir(parents=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"MPLBACKEND": "Agg"}
    command = [python, "-I", "-c", _BEGIN + USES[extra]]
    done = subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{extra}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    for line, (lacking, libraries) in _LACKING.items():
        if not libraries <= {*names}:
            command = [python, "-I", "-m", "airpool", *line.split()]
            done = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)
            assert done.returncode == 2, done.stderr
            assert re.fullmatch(rf"error: .*: pip install .*\.whl\[{lacking}\].*\n", done.stderr), done.stderr


def tried(extra: str, wheels: tuple[Path, Path], folder: Path, *, pip: bool) -> Path:
    """Makes the environment of an extra in a folder, and uses it; its site-packages."""
    names = closure(wheels[0], extra)
    own = wheels if "airpool-models" in names or extra in _WITH_DATA else wheels[:1]
    python = by_pip(folder / "env", own, extra) if pip else linked(folder / "env", own, names)
    used(python, extra, names, folder / "work")
    return next((folder / "env").glob("lib/python*/site-packages"))


def _bytes(site: Path) -> int:
    """The size of what is installed, without pip."""
    found = (each for each in site.rglob("*") if each.relative_to(site).parts[0] != "pip")
    return sum(each.stat().st_size for each in found if each.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", help="default: the accountant and every extra")
    parser.add_argument("--linked", action="store_true", help="link what is installed here instead of asking pip")
    parser.add_argument("--out", type=Path, help="where the table goes, too")
    given = parser.parse_args()
    lines = ["| extra | MB on disk | seconds | result |", "| --- | --- | --- | --- |"]
    print(*lines, sep="\n")
    with TemporaryDirectory() as name:
        wheels = built(ROOT, Path(name) / "code")[0], built(ROOT / "packages/models", Path(name) / "data")[0]
        for extra in given.extras or USES:
            begin = time.monotonic()
            size, result = "–", "works"
            with TemporaryDirectory() as folder:
                try:
                    site = tried(extra, wheels, Path(folder), pip=not given.linked)
                    own = [
                        each for each in site.rglob("*") if each.is_file() and each.relative_to(site).parts[0] != "pip"
                    ]
                    size = "–" if given.linked else f"{sum(each.stat().st_size for each in own) / 1e6:.0f}"
                except (AssertionError, subprocess.SubprocessError) as error:
                    result = "fails"
                    print(error, getattr(error, "stderr", ""), file=sys.stderr)
            lines.append(f"| {extra or 'none'} | {size} | {time.monotonic() - begin:.0f} | {result} |")
            print(lines[-1], flush=True)
    if given.out:
        given.out.write_text("\n".join(lines) + "\n", "utf-8")
    sys.exit(any("fails" in line for line in lines))


if __name__ == "__main__":
    main()
