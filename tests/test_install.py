"""airpool without extras is the accountant: ε, calibration and network files work, the rest names its extra."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from airpool._support import extras

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# Nothing but the core is there: as after `pip install .` in a fresh environment.
BARE = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
MISSING = (*extras.EXTRA_OF, "airpool_models", "dp_accounting", "hypothesis")


def bare(code):
    program = BARE.format(missing=MISSING) + code
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def command(*arguments):
    return bare(f"from airpool.cli import main\nsys.argv = ['airpool', *{list(map(str, arguments))!r}]\nmain()")


def test_epsilon_calibrate_and_network_files_work(tmp_path):
    path = tmp_path / "net.toml"
    done = command("calibrate", "--epsilon", 2, "--devices", 12, "--participation", 0.9, "--out", path)
    assert done.returncode == 0, done.stderr
    done = command("epsilon", "--network", path, "--neighbours", "remove", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["epsilon"]) == 12
    assert command("epsilon", "--network", path, "--inferences", 10, "--fading", "rician").returncode == 0
    assert command("sweep", "epsilon", "--backend", "serial", "--no-cache").returncode == 0


def test_the_library_works():
    code = """
import airpool
net = airpool.Network.uniform(num_devices=12, noise_std=0.05, participation=0.9)
print(airpool.guarantee(airpool.calibrate(net, epsilon=2.0), inferences=3).worst, dir(airpool))
try:
    airpool.load
except ImportError as error:
    print(error)
"""
    done = bare(code)
    assert done.returncode == 0, done.stderr
    assert "airpool.load needs torch: pip install -e ./packages/models -e '.[models]'" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["epsilon", "--devices", 2, "--plot", "x.png"], "matplotlib: plots"),
        (["evaluate", "--epsilon", 2], "torch, safetensors: models"),
        (["plan", "--epsilon", 2], "torch, safetensors: models"),
        (["theory"], "torch, safetensors: models"),
        (["demo"], "torch, safetensors, matplotlib, jinja2: models,plots"),
        (["reproduce", "table-1"], "matplotlib, jinja2: plots"),
        (["reproduce", "all"], "matplotlib, jinja2: plots"),
        (["design", "weights", "--epsilon", 2], "torch, safetensors, clarabel: models,design"),
        (["train", "trunk", "x.npz", "--out", "x"], "torch, safetensors: models"),
        (["up", "--inferences", 2], "grpc, starlette, uvicorn, prometheus_client: runtime"),
        (["bundle", "--out", "x.zip"], "torch, safetensors, onnxruntime, onnx: models,int8,bundle"),
        (["epsilon", "--devices", 2, "--noise-std", 1, "--fading", "sionna:tdl-a"], "Sionna (...): sionna"),
    ],
)
def test_all_that_is_missing_is_named_at_once_before_any_work(arguments, needed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    libraries, _, names = needed.partition(": ")
    assert (done.returncode, done.stdout) == (2, "")
    words = re.escape(libraries).replace(re.escape("..."), ".*")
    data = "-e ./packages/models " if "models" in names else ""
    assert re.fullmatch(
        rf"error: .* needs? {words}: pip install {data}-e '\.\[{names}\]' in the checkout\n", done.stderr
    )
    assert not any(tmp_path.iterdir())


def test_without_a_checkout_the_wheel_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "_CHECKOUT", tmp_path / "pyproject.toml")
    wheel = r"'airpool-[\w.]+-py3-none-any\.whl\[{}\]', with the path of the wheel"
    assert re.fullmatch("pip install " + wheel.format("plots"), extras.install("plots"))
    data = r"airpool_models-[\w.]+-py3-none-any\.whl"
    assert re.fullmatch(f"pip install {data} {wheel.format('models')}s", extras.install("models"))
    assert re.fullmatch(f"pip install {data}, with the path of the wheel", extras.install_data())


def test_nobody_is_told_to_install_a_name_that_is_not_published():
    told = re.compile(r"pip install '?airpool\b(?!-)")
    texts = [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "docs").glob("*/*.md"),
        *(ROOT / "benchmarks").glob("*.py"),
        ROOT / "README.md",
    ]
    assert [path.name for path in texts if told.search(path.read_text("utf-8"))] == []


def test_help_needs_no_extra():
    for name in ("demo", "up"):
        done = command(name, "--help")
        assert done.returncode == 0, done.stderr


def test_help_lists_every_command_in_one_line():
    done = command("--help")
    assert done.returncode == 0
    from airpool.cli import COMMANDS

    lines = done.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    for name, text in COMMANDS.items():
        assert any(re.search(rf"\b{name} +{re.escape(text)}", line) for line in lines)


def test_every_extra_that_is_named_exists_and_brings_the_library():
    optional = PROJECT["optional-dependencies"]
    packages = {"grpc": "grpcio", "cv2": "opencv-python-headless", "PIL": "pillow"}
    for library, extra in extras.EXTRA_OF.items():
        name = packages.get(library, library.replace("_", "-"))
        assert any(re.match(rf"(py)?{name}\b", each) for each in optional[extra]), library
    core = {re.split(r"[>=<\[]", each)[0] for each in PROJECT["dependencies"]}
    assert core == {"array-api-compat", "numpy", "scipy", "threadpoolctl", "typer", "rich"}
    everything = re.fullmatch(r"airpool\[(.*)\]", optional["all"][0])
    assert everything
    assert set(everything[1].split(",")) == set(optional) - {"all", "dev", "docs"}


def test_python_m_airpool_is_the_command():
    done = subprocess.run([sys.executable, "-m", "airpool", "--version"], capture_output=True, text=True, check=True)
    from airpool._support.version import __version__

    assert done.stdout.strip() == __version__


def test_a_shell_completes_commands_and_options():
    def completed(text):
        import os

        variables = {"_AIRPOOL_COMPLETE": "complete_bash", "COMP_WORDS": text, "COMP_CWORD": str(len(text.split()) - 1)}
        program = Path(sys.executable).with_name("airpool")
        done = subprocess.run([program], env={**os.environ, **variables}, capture_output=True, text=True, check=False)
        return done.stdout.split()

    assert completed("airpool ca") == ["calibrate"]
    assert "--receiver-noise-std" in completed("airpool epsilon --rec")


def test_without_the_data_package_all_that_needs_it_names_it_and_nothing_else_fails():
    code = """
from airpool.models import assets, stored
from airpool.models.vision import shapes
print(assets.installed(), stored.shipped())
for function in (lambda: stored.found("modelnet40"), shapes.all):
    try:
        function()
    except ValueError as error:
        print(error)
"""
    done = bare(code)
    assert done.stderr == ""
    nothing, model, shape = done.stdout.splitlines()
    assert nothing == "None []"
    told = "needs the package airpool-models: pip install ./packages/models in the checkout"
    assert (model, shape) == (f"the model 'modelnet40' {told}", f"a sample object {told}")
