"""airpool alone is the accountant: ε, calibration and network files work, the rest names its extra or its package."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from airpool._support import extras
from airpool._support.version import __version__
from airpool.cli import COMMANDS
from airpool.cli import PACKAGES as PACKAGES_OF_COMMANDS

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(each.parent.name for each in ROOT.glob("packages/*/pyproject.toml"))


def project(package):
    return tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))["project"]


# Nothing but the core is there: as after `pip install ./packages/airpool` in a fresh environment.
BARE = """
import importlib.metadata
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
importlib.metadata.entry_points = lambda **_: ()
"""
MISSING = (*extras.BROUGHT_BY, "airpool_models", "hypothesis")


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


def test_the_library_works():
    code = """
import airpool
net = airpool.Network.uniform(num_devices=12, noise_std=0.05, participation=0.9)
print(airpool.guarantee(airpool.calibrate(net, epsilon=2.0), airpool.Claim(inferences=3)).worst, dir(airpool))
try:
    airpool.load
except ImportError as error:
    print(error)
"""
    done = bare(code)
    assert done.returncode == 0, done.stderr
    assert f"airpool.load needs torch: {extras.install('airpool[models]')}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["epsilon", "--devices", 2, "--plot", "x.png"], "matplotlib: airpool[plots]"),
        (["evaluate", "--epsilon", 2], "torch, safetensors: airpool[models]"),
        (["plan", "--epsilon", 2], "torch, safetensors: airpool[models]"),
        (["design", "weights", "--epsilon", 2], "torch, safetensors, clarabel: airpool[models] airpool[design]"),
        (["bundle", "--out", "x.zip"], "onnxruntime, onnx: airpool[int8] airpool-lab[bundle]"),
        (["epsilon", "--devices", 2, "--noise-std", 1, "--fading", "sionna:tdl-a"], "airpool-lab: airpool-lab"),
    ],
)
def test_all_that_is_missing_is_named_at_once_before_any_work(arguments, needed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    libraries, _, wanted = needed.partition(": ")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"error: .* needs {libraries}: {re.escape(extras.install(*wanted.split()))}\n", done.stderr)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("package", "names"), PACKAGES_OF_COMMANDS.items())
def test_a_command_of_another_package_names_it(package, names):
    for name in names.split():
        done = command(name, "--help")
        told = f"error: airpool {name} is a command of {package}: {extras.install(package)}\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


def test_without_a_checkout_the_wheels_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "_CHECKOUT", tmp_path / "pyproject.toml")
    rest = f"-{__version__}-py3-none-any.whl"
    models = f"airpool_models{rest}"
    assert extras.install("airpool[plots]") == f"pip install 'airpool{rest}[plots]', with the path of the wheel"
    assert extras.install("airpool-runtime") == f"pip install airpool_runtime{rest}, with the path of the wheel"
    told = f"pip install {models} 'airpool{rest}[models]', with the path of the wheels"
    assert extras.install("airpool[models]") == told
    told = f"pip install {models} 'airpool_lab{rest}[ray]', with the path of the wheels"
    assert extras.install("airpool-lab[ray]") == told


def test_nobody_is_told_to_install_a_name_that_is_not_published():
    told = re.compile(r"pip install '?airpool\b(?![\w.…-]*\.whl)")
    texts = [
        *(ROOT / "packages").glob("*/src/**/*.py"),
        *(ROOT / "docs").glob("*/*.md"),
        *(ROOT / "benchmarks").glob("*.py"),
        ROOT / "README.md",
    ]
    assert [path.name for path in texts if told.search(path.read_text("utf-8"))] == []


def test_help_needs_no_extra():
    for name in ("evaluate", "plan"):
        done = command(name, "--help")
        assert done.returncode == 0, done.stderr


def test_help_lists_every_command_in_one_line():
    done = command("--help")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    for name, text in COMMANDS.items():
        assert any(re.search(rf"\b{name} +{re.escape(text)}", line) for line in lines)


def test_every_extra_that_is_named_exists_and_brings_the_library():
    distributions = {"grpc": "grpcio", "cv2": "opencv-python-headless", "PIL": "pillow", "sionna": "sionna-no-rt"}
    for library, wanted in extras.BROUGHT_BY.items():
        package, _, extra = wanted.removesuffix("]").partition("[")
        found = project(package)
        needed = found["optional-dependencies"][extra] if extra else [*found["dependencies"], package]
        name = distributions.get(library, library.replace("_", "-"))
        assert any(re.match(rf"(py)?{name}\b(?!-)", each) for each in needed), library


def test_airpool_itself_is_small_and_all_of_it_is_everything():
    found = project("airpool")
    core = {re.split(r"[>=<\[]", each)[0] for each in found["dependencies"]}
    assert core == {"array-api-compat", "numpy", "scipy", "threadpoolctl", "typer", "rich"}
    named = {}
    for each in found["optional-dependencies"]["all"]:
        match = re.fullmatch(rf"([\w-]+)\[?([\w,]*)\]?(=={re.escape(__version__)})?", each)
        assert match
        named[match[1]] = {*match[2].split(",")} - {""}
    everything = {each: {*project(each).get("optional-dependencies", ())} - {"all"} for each in PACKAGES}
    del everything["airpool-device"], everything["airpool-models"]  # never beside airpool; of the extra models
    assert named == everything


def test_python_m_airpool_is_the_command():
    done = subprocess.run([sys.executable, "-m", "airpool", "--version"], capture_output=True, text=True, check=True)
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
    told = f"needs the package airpool-models: {extras.install('airpool-models')}"
    assert (model, shape) == (f"the model 'modelnet40' {told}", f"a sample object {told}")
