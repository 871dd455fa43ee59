"""The arrows of the design: who may import whom, and what `airpool epsilon` leaves unloaded."""

import ast
import json
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import airpool

SOURCE = Path(airpool.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py"))
HEAVY = ("torch", "matplotlib", "dp_accounting")
# What `airpool epsilon` of one inference does without: each takes a tenth of a second or more to load.
SLOW = ("scipy.optimize", "scipy.signal", "scipy.stats", "pydantic", "rich", "airpool.cli.train")


def name_of(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path, *, at_start=False):
    """Full names of what a module imports: anywhere, or at module level outside `if TYPE_CHECKING`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = name_of(path).split(".") if path.name == "__init__.py" else name_of(path).split(".")[:-1]
    nodes = list(_at_module_level(tree.body)) if at_start else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, node.module] if node.module else base)
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def _at_module_level(body):
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        yield node
        for field in ("body", "orelse", "handlers", "finalbody"):
            yield from _at_module_level(getattr(node, field, []))


def inside(names, package):
    return {name for name in names if name == package or name.startswith(package + ".")}


def modules_of(package):
    return [path for path in MODULES if inside({name_of(path)}, f"airpool.{package}")]


# Bottom to top. A room imports from the floors below it, never from its own floor or from above.
FLOORS = [
    ["_support"],
    ["network"],
    ["privacy", "radio", "schemes", "runtime.keys"],
    ["paper.formulas", "runtime.secure"],
    ["account"],
    ["protocol", "runtime.ledger"],
    ["models"],
    ["evaluation"],
    ["paper", "runtime"],
    ["web"],
    ["cli"],
    ["__main__"],
]
ROOMS = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def room_of(name):
    """The most specific room that a module or a name in it belongs to; None for the package itself."""
    parts = name.split(".")[1:]
    return next((room for n in range(len(parts), 0, -1) if (room := ".".join(parts[:n])) in ROOMS), None)


def test_there_is_something_to_walk():
    assert len(MODULES) > 30
    assert "airpool.privacy.gaussian" in imported(SOURCE / "privacy" / "device.py")
    assert "scipy.stats" in imported(SOURCE / "_support" / "special.py")
    assert "scipy.stats" not in imported(SOURCE / "_support" / "special.py", at_start=True)


@pytest.mark.parametrize("path", [p for p in MODULES if name_of(p) != "airpool"], ids=name_of)
def test_imports_point_down(path):
    home = room_of(name_of(path))
    assert home, f"{name_of(path)} belongs to no room: add it to FLOORS"
    rooms = {room for name in inside(imported(path), "airpool") if (room := room_of(name))} - {home}
    assert {room for room in rooms if ROOMS[room] >= ROOMS[home]} == set()


def test_no_modules_import_each_other_in_a_circle():
    names = {name_of(path) for path in MODULES}
    graph = {name_of(path): (imported(path) & names) - {name_of(path)} for path in MODULES}
    TopologicalSorter(
        {name: {other for other in seen if not name.startswith(other + ".")} for name, seen in graph.items()}
    ).prepare()


@pytest.mark.parametrize("path", modules_of("schemes"), ids=name_of)
def test_schemes_run_where_only_torch_is_installed(path):
    assert not inside(imported(path), "torch")
    assert not inside(imported(path, at_start=True), "scipy")


@pytest.mark.parametrize(
    "path",
    [
        p
        for package in ("privacy", "radio", "paper.formulas", "evaluation.theory", "account")
        for p in modules_of(package)
    ],
    ids=name_of,
)
def test_formulas_load_neither_torch_nor_matplotlib(path):
    assert not any(inside(imported(path, at_start=True), heavy) for heavy in HEAVY)


# Of a device's rooms: what an audit alone uses, and the choice between SciPy's functions and ours.
WITH_SCIPY = {"airpool.privacy.evidence", "airpool._support.special"}


@pytest.mark.parametrize(
    "path",
    [
        p
        for package in ("_support", "network", "privacy", "radio", "schemes", "account", "protocol", "runtime")
        for p in modules_of(package)
        if name_of(p) not in WITH_SCIPY
    ],
    ids=name_of,
)
def test_a_device_starts_without_scipy(path):
    assert not inside(imported(path, at_start=True), "scipy")


@pytest.mark.parametrize("path", modules_of("privacy"), ids=name_of)
def test_privacy_never_touches_torch(path):
    assert not inside(imported(path), "torch")


@pytest.mark.parametrize("path", [p for p in MODULES if "cli" not in p.parts], ids=name_of)
def test_the_library_does_not_need_the_command_lines_tools(path):
    assert not inside(imported(path, at_start=True), "typer")
    assert not inside(imported(path, at_start=True), "rich")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_library_stands_without_the_studies(path):
    assert not inside(imported(path), "studies")


def test_no_module_has_a_name_that_says_nothing():
    assert {path.stem for path in MODULES}.isdisjoint(
        {"utils", "util", "helpers", "helper", "manager", "base", "common"}
    )


# What really happens


def loaded_by(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_airpool_epsilon_loads_neither_torch_nor_matplotlib_nor_dp_accounting():
    code = """
import contextlib, io, json, sys
from airpool.cli import main
sys.argv = ["airpool", "epsilon", "--devices", "12", "--participation", "0.9", "--neighbours", "remove", "--json"]
with contextlib.redirect_stdout(io.StringIO()) as out:
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
assert "epsilon" in json.loads(out.getvalue())
print(json.dumps(sorted(sys.modules)))
"""
    loaded = loaded_by(code)
    assert "airpool.privacy.removal" in loaded
    assert not any(inside(loaded, heavy) for heavy in HEAVY)


def test_airpool_epsilon_starts_without_what_it_does_not_use():
    code = """
import contextlib, io, json, sys
from airpool.cli import main
sys.argv = ["airpool", "epsilon", "--devices", "12", "--participation", "0.9", "--noise-std", "0.05", "--json"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print(json.dumps(sorted(sys.modules)))
"""
    loaded = loaded_by(code)
    assert "airpool.account.guarantee" in loaded
    assert {name for name in SLOW if inside(loaded, name)} == set()
    assert "numpy.f2py.crackfortran" not in loaded


def test_importing_airpool_loads_next_to_nothing():
    loaded = loaded_by("import json, sys, airpool; print(json.dumps(sorted(sys.modules)))")
    assert not any(inside(loaded, name) for name in (*HEAVY, "numpy", "scipy", "typer"))


@pytest.mark.parametrize("name", airpool.__all__)
def test_every_promised_name_is_there(name):
    assert getattr(airpool, name) is not None


def test_dir_lists_what_is_promised():
    assert dir(airpool) == sorted(airpool.__all__)
    assert {"evaluate", "plan", "audit", "design", "predict"} <= set(airpool.__all__)


def test_no_room_has_the_name_of_a_function():
    assert {path.stem for path in SOURCE.iterdir()}.isdisjoint(set(airpool.__all__))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'airpool' has no attribute 'colour'"):
        airpool.colour  # noqa: B018


def test_guarantee_is_the_function_whatever_was_used_before():
    code = """
import json
import airpool
net = airpool.calibrate(airpool.Network.uniform(num_devices=3), epsilon=2.0)
print(json.dumps([type(airpool.guarantee).__name__]))
"""
    assert loaded_by(code) == {"function"}


def test_every_class_name_stands_once():
    generated = ("wire_pb2.py", "wire_pb2_grpc.py")
    named = [
        node.name
        for path in MODULES
        if path.name not in generated
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in named if named.count(name) > 1} == set()
