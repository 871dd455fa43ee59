"""Installs each package and each extra alone into a clean environment, from wheels, and uses what it brings.

    python scripts/extras.py ["airpool[plots]" ...] [--linked] [--out TABLE.md]

By pip, torch by its pin; with --linked each environment holds links to what this one has installed, of the closure of
one requirement and of nothing else: seconds, and no index. `USES` has a program for each, and every environment must
name the package or extra that a command lacks.
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
# airpool-device cannot stand beside airpool: tests/test_device_install.py.
PACKAGES = ("airpool", "airpool-models", "airpool-lab", "airpool-runtime", "airpool-web")
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
    "airpool": """
airpool("calibrate --epsilon 2 --devices 12 --participation 0.9 --out net.toml")
airpool("epsilon --network net.toml")
import airpool
assert abs(airpool.guarantee(airpool.read_network("net.toml")).worst - 2) < 1e-6
assert not {"torch", "airpool_models"} & set(sys.modules)
""",
    "airpool[models]": """
airpool("evaluate --epsilon 2 --devices 12 --trials 1")
import airpool
assert airpool.load("modelnet40").trunk
""",
    "airpool[plots]": """
airpool("epsilon --devices 2 --noise-std 1 --plot plot.png")
airpool("calibrate --epsilon 2 --devices 12 --out net.toml")
airpool("report net.toml --every 10s --hours 8 --out statement.html")
assert Path("plot.png").stat().st_size > 1000 and "<html" in Path("statement.html").read_text("utf-8")
""",
    "airpool[design]": """
from airpool.evaluation.design.qp import Quadratic, solve
flat = Quadratic(np.zeros((1, 3)), np.ones(3), np.zeros(3), 0.0)
assert np.allclose(solve(flat, np.array([0.1, 1, 1])).weight, [0.1, 0.45, 0.45], atol=1e-6)
""",
    "airpool[int8]": f"""
import base64
from airpool.models.vision.int8 import Int8Trunk
views = np.full((3, 2, 8, 8), 255, np.uint8)
assert np.all(Int8Trunk(base64.b64decode("{_ONNX}"))(views) == 1)
""",
    "airpool-lab[bundle]": """
import torch
from airpool_lab.vision import quantisation
layers = torch.nn.Sequential(torch.nn.Conv2d(2, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3)).eval()
views = torch.randint(256, (8, 2, 16, 16), dtype=torch.uint8)
found = torch.as_tensor(quantisation.quantise(layers, views)(views.numpy()))
exact = layers(views / 255).detach()
assert (found - exact).norm() < 0.05 * exact.norm()
""",
    "airpool[mesh]": """
import trimesh
from airpool.models.vision import meshes
trimesh.creation.box().export("box.ply")
assert len(meshes.parse(Path("box.ply").read_bytes(), name="box.ply").faces) == 12
""",
    "airpool-lab[mesh]": """
from airpool.models.vision import meshes
from airpool_lab.vision import prepare
grid = [(x, y) for x in range(9) for y in range(9)]
corners = [(9 * x + y + 1, 9 * x + y + 2, 9 * x + y + 10) for x, y in grid if x < 8 and y < 8]
text = "\\n".join([f"v {x} {y} {(x * y) % 5}" for x, y in grid] + ["f %d %d %d" % each for each in corners])
mesh = meshes.parse(text.encode(), name="hill.obj")
assert len(mesh.faces) == 64 and 4 <= len(prepare.gridded(mesh, faces=20)[1]) <= 30
""",
    "airpool-lab": """
airpool("sweep epsilon --set devices=4,12 --workers 2 --no-cache --out table.csv")
assert len(Path("table.csv").read_text("utf-8").splitlines()) >= 3
""",
    "airpool-lab[parquet]": """
airpool("sweep epsilon --set devices=4,12 --backend serial --no-cache --out table.parquet")
import pyarrow.parquet
assert pyarrow.parquet.read_table("table.parquet").num_rows == 2
""",
    "airpool-lab[ray]": """
airpool("sweep epsilon --set devices=4,12 --backend ray --workers 1 --no-cache --out table.csv")
assert len(Path("table.csv").read_text("utf-8").splitlines()) >= 3
""",
    "airpool-lab[sionna]": """
airpool("epsilon --devices 2 --noise-std 1 --fading sionna:tdl-a")
""",
    "airpool-lab[radio]": """
import threading
from airpool_lab.waveform import recording
samples = (np.arange(64) * (1 - 1j)).astype(np.complex64)
recording.write("signal.sigmf-meta", samples, sample_rate=1e6, description="a ramp")
assert np.array_equal(recording.read("signal.sigmf-meta")[0], samples)
sender = threading.Thread(target=recording.push, args=("ipc://stream", samples))
sender.start()
assert np.array_equal(recording.pull("ipc://stream", 64), samples)
sender.join()
""",
    "airpool-runtime[fleet]": """
from airpool_runtime.ledger.fleet import Fleet
Fleet("sqlite:///view.db").close()
try:
    Fleet("postgresql://airpool@127.0.0.1:1/fleet?connect_timeout=2")
except ValueError as error:
    assert "127.0.0.1" in str(error) and "pip" not in str(error), error
""",
    "airpool-runtime": """
airpool("up --devices 2 --inferences 3")
airpool("up --devices 3 --inferences 2 --access secure")
airpool("keys init --keys keys")
airpool("keys device device-0 --keys keys")
import airpool as library
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism
key = Path("keys/device-0/identity.key")
ledger = Ledger(Path("device-0.db"), key)
assert ledger.charge("a", mechanism(library.Network.uniform(num_devices=3, noise_std=1.0), device=0)).new
ledger.close()
airpool("ledger verify device-0.db --key keys/device-0/identity.key")
""",
    "airpool-web": """
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
    "airpool[camera]": """
from PIL import Image
from airpool.models.vision import picture
Image.new("RGB", (40, 30), (255, 0, 0)).save("photo.jpg")
assert picture.prepared(picture.read(Path("photo.jpg")), 8).shape == (3, 8, 8)
""",
    "airpool[video]": """
import cv2
from airpool.models.images import videos
film = cv2.VideoWriter("film.avi", cv2.VideoWriter_fourcc(*"MJPG"), 10.0, (32, 32))
for light in range(50):
    film.write(np.full((32, 32, 3), 5 * light, np.uint8))
film.release()
Path("labels.csv").write_text("start,end,class\\n0,5,lamp\\n")
shot = videos.found(Path(".")).shots[0]
assert shot.read()[1]().shape == (32, 32, 3)
""",
    "airpool[accounting]": """
import airpool as library
network = library.Network.uniform(num_devices=12, noise_std=0.1)
claim = library.Claim(inferences=5)
theirs = library.exchange(network, claim).pld().get_epsilon_for_delta(1e-5)
assert abs(theirs - library.guarantee(network, claim).worst) < 0.01
""",
    "airpool[all]": """
from importlib import import_module
from airpool._support.extras import BROUGHT_BY
for library in BROUGHT_BY:
    import_module(library)
airpool("up --devices 3 --inferences 2 --access secure")
airpool("epsilon --devices 2 --noise-std 1 --plot plot.png")
""",
}
_BESIDE = {"airpool-runtime": {"airpool-models"}}  # what an example reads, too
# Commands, the library without which each fails, and the wheel that the advice names.
_LACKING = {
    "evaluate --epsilon 2": ("torch", r"airpool-[\w.]+-py3-none-any\.whl\[models\]"),
    "reproduce table-1": ("airpool-lab", r"airpool_lab-[\w.]+-py3-none-any\.whl"),
    "up": ("airpool-runtime", r"airpool_runtime-[\w.]+-py3-none-any\.whl"),
    "ui": ("airpool-web", r"airpool_web-[\w.]+-py3-none-any\.whl"),
}


def built(project: Path, out: Path) -> tuple[Path, Path]:
    """Wheel and sdist of a folder with a pyproject.toml, in `out`."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    subprocess.run(command, check=True, cwd=project, capture_output=True)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def wheels_of(out: Path) -> dict[str, Path]:
    """The wheel of each package that can stand beside the others, by its name."""
    return {name: built(ROOT / "packages" / name, out / name)[0] for name in PACKAGES}


def _needs(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(next(name for name in archive.namelist() if name.endswith("METADATA"))).decode()
    return re.findall(r"^Requires-Dist: (.*)$", text, re.MULTILINE)


def closure(wheels: dict[str, Path], wanted: str) -> set[str]:
    """Names of all that a requirement asks for and of itself, by what is installed here; an error if some is not."""
    own = {name: _needs(wheel) for name, wheel in wheels.items()}
    first = Requirement(wanted)
    found, todo = set[tuple[str, str]](), {(first.name, each) for each in ("", *first.extras)}
    while todo := todo - found:
        name, which = todo.pop()
        found.add((name, which))
        for need in map(Requirement, own[name] if name in own else metadata.requires(name) or []):
            if need.marker is None or need.marker.evaluate({"extra": which}):
                todo |= {(canonicalize_name(need.name), each) for each in ("", *need.extras)}
    return {name for name, _ in found}


def linked(folder: Path, wheels: dict[str, Path], names: set[str]) -> Path:
    """The Python of a new environment: wheels unpacked, and links to these packages of the present environment."""
    venv.create(folder, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    for name in names & wheels.keys():
        with zipfile.ZipFile(wheels[name]) as archive:
            archive.extractall(site)
    shared = Counter(top for each in metadata.distributions() for top in _tops(each))
    for each in map(metadata.distribution, names - wheels.keys()):
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


def by_pip(folder: Path, wheels: dict[str, Path], wanted: str) -> Path:
    """The Python of a new environment, filled by pip within the constraints; torch first and by its pin."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    found = [word for wheel in wheels.values() for word in ("--find-links", wheel.parent)]
    pip = [python, "-m", "pip", "install", "-q", "--no-input", "-c", ROOT / "constraints.txt", *found]
    if "torch" in closure(wheels, wanted):
        pin = next(each for each in (ROOT / "constraints.txt").read_text("utf-8").split() if each.startswith("torch=="))
        subprocess.run([*pip, pin], check=True, capture_output=True, text=True)
    subprocess.run([*pip, wanted, *_BESIDE.get(wanted, ())], check=True, capture_output=True, text=True)
    return python


def used(python: Path, wanted: str, names: Iterable[str], folder: Path) -> None:
    """Uses a package or extra in an empty folder; an error if that fails, or if what lacks is not named."""
    folder.mkdir(parents=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"MPLBACKEND": "Agg"}
    command = [python, "-I", "-c", _BEGIN + USES[wanted]]
    done = subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{wanted}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    for line, (library, wheel) in _LACKING.items():
        if library not in names:
            command = [python, "-I", "-m", "airpool", *line.split()]
            done = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)
            assert done.returncode == 2, done.stderr
            assert re.fullmatch(rf"error: .*: pip install .*{wheel}.*\n", done.stderr), done.stderr


def tried(wanted: str, wheels: dict[str, Path], folder: Path, *, pip: bool) -> Path:
    """Makes the environment of a requirement in a folder, and uses it; its site-packages."""
    names = closure(wheels, wanted) | _BESIDE.get(wanted, set())
    python = by_pip(folder / "env", wheels, wanted) if pip else linked(folder / "env", wheels, names)
    used(python, wanted, names, folder / "work")
    return next((folder / "env").glob("lib/python*/site-packages"))


def _bytes(site: Path) -> int:
    """The size of what is installed, without pip."""
    found = (each for each in site.rglob("*") if each.relative_to(site).parts[0] != "pip")
    return sum(each.stat().st_size for each in found if each.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wanted", nargs="*", help="default: every package and every extra")
    parser.add_argument("--linked", action="store_true", help="link what is installed here instead of asking pip")
    parser.add_argument("--out", type=Path, help="where the table goes, too")
    given = parser.parse_args()
    lines = ["| install | MB on disk | seconds | result |", "| --- | --- | --- | --- |"]
    print(*lines, sep="\n")
    with TemporaryDirectory() as name:
        wheels = wheels_of(Path(name))
        for wanted in given.wanted or USES:
            begin = time.monotonic()
            size, result = "–", "works"
            with TemporaryDirectory() as folder:
                try:
                    site = tried(wanted, wheels, Path(folder), pip=not given.linked)
                    size = "–" if given.linked else f"{_bytes(site) / 1e6:.0f}"
                except (AssertionError, subprocess.SubprocessError) as error:
                    result = "fails"
                    print(error, getattr(error, "stderr", ""), file=sys.stderr)
            lines.append(f"| {wanted} | {size} | {time.monotonic() - begin:.0f} | {result} |")
            print(lines[-1], flush=True)
    if given.out:
        given.out.write_text("\n".join(lines) + "\n", "utf-8")
    sys.exit(any("fails" in line for line in lines))


if __name__ == "__main__":
    main()
