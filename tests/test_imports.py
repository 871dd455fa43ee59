"""The arrows of the design: who may import whom, and what `airpool epsilon` leaves unloaded."""

import ast
import json
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import airpool

PACKAGES = Path(__file__).parents[1] / "packages"
MODULES = sorted(PACKAGES.glob("*/src/**/*.py"))
SOURCE = PACKAGES / "airpool/src/airpool"
HEAVY = ("torch", "matplotlib", "dp_accounting")
# What `airpool epsilon` of one inference does without: each takes a tenth of a second or more to load.
SLOW = ("scipy.optimize", "scipy.signal", "scipy.stats", "pydantic", "rich", "airpool_lab.cli.train")


def name_of(path):
    parts = path.relative_to(PACKAGES).with_suffix("").parts[2:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path, *, at_start=False):
    """Full names of what a module imports: anywhere, or at module level outside `if TYPE_CHECKING`."""
    tree = tree_of(path)
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


def modules_of(*packages):
    return [path for path in MODULES if any(inside({name_of(path)}, package) for package in packages)]


def who_imports(paths, *banned, at_start=False):
    """A line for each of the modules that import any of these packages, with what they take from them."""
    taken = {path: [inside(imported(path, at_start=at_start), package) for package in banned] for path in paths}
    return [f"{name_of(path)} imports {sorted(set().union(*names))}" for path, names in taken.items() if any(names)]


def none_of(lines):
    """Fails with every line, which pytest would cut short."""
    assert not lines, "\n".join(lines)


# Bottom to top. A room imports from the floors below it, never from its own floor or from above.
FLOORS = [
    ["airpool._support"],
    ["airpool.schemes"],
    ["airpool.network"],
    ["airpool.privacy", "airpool.radio"],
    ["airpool.protocol.ring", "airpool.protocol.traffic"],
    ["airpool.account"],
    ["airpool.protocol"],
    ["airpool.models"],
    ["airpool.evaluation"],
    ["airpool.cli"],
    ["airpool.__main__", "airpool_runtime", "airpool_lab"],
    # Bundles are for the running system: the extra `bundle` brings it.
    ["airpool_lab.bundle"],
    ["airpool_lab.cli"],
    ["airpool_web"],
]
ROOMS = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def room_of(name):
    """The most specific room that a module or a name in it belongs to; None for the library's own names."""
    parts = name.split(".")
    return next((room for n in range(len(parts), 0, -1) if (room := ".".join(parts[:n])) in ROOMS), None)


def test_there_is_something_to_walk():
    assert len(MODULES) > 30
    special = SOURCE / "_support" / "special.py"
    assert "airpool.privacy.gaussian" in imported(SOURCE / "privacy" / "epsilon.py")
    assert "scipy.stats" in imported(special) - imported(special, at_start=True)


def test_imports_point_down():
    wrong = []
    for path in MODULES:
        if (name := name_of(path)) in ("airpool", "airpool_models"):
            continue
        rooms = {room for each in imported(path) if (room := room_of(each))}
        if (home := room_of(name)) is None:
            wrong.append(f"{name} belongs to no room: add it to FLOORS")
        elif above := sorted(room for room in rooms - {home} if ROOMS[room] >= ROOMS[home]):
            wrong.append(f"{name} in {home} imports from {above}")
    none_of(wrong)


def test_no_modules_import_each_other_in_a_circle():
    names = {name_of(path) for path in MODULES}
    graph = {name_of(path): (imported(path) & names) - {name_of(path)} for path in MODULES}
    TopologicalSorter(
        {name: {other for other in seen if not name.startswith(other + ".")} for name, seen in graph.items()}
    ).prepare()


# Of a device's rooms: the choice between SciPy's functions and ours.
WITH_SCIPY = {"airpool._support.special"}
OF_A_DEVICE = ("_support", "network", "privacy", "radio", "schemes", "account", "protocol")


def test_a_device_starts_without_scipy():
    rooms = modules_of("airpool_runtime", *(f"airpool.{room}" for room in OF_A_DEVICE))
    none_of(who_imports([p for p in rooms if name_of(p) not in WITH_SCIPY], "scipy", at_start=True))


def test_privacy_and_schemes_never_touch_torch():
    none_of(who_imports(modules_of("airpool.privacy", "airpool.schemes"), "torch"))


def test_formulas_load_neither_torch_nor_matplotlib():
    formulas = modules_of("airpool.privacy", "airpool.radio", "airpool.account", "airpool.evaluation.mse")
    formulas += modules_of("airpool_lab.paper.formulas", "airpool_lab.theory")
    none_of(who_imports(formulas, *HEAVY, at_start=True))


def test_the_library_stands_without_the_command_lines_tools_and_the_studies():
    tools = who_imports([p for p in MODULES if "cli" not in p.parts], "typer", "rich", at_start=True)
    none_of(tools + who_imports(MODULES, "studies"))


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


def test_every_promised_name_is_there_and_stays_there():
    promised = list(airpool.__all__)
    assert [name for name in promised if getattr(airpool, name, None) is None] == []
    assert dir(airpool) == sorted(promised)
    assert {"evaluate", "plan", "audit", "design"} <= set(promised)
    # Importing a room of the same name would put the module in the function's place.
    assert {path.stem for path in SOURCE.iterdir()} & set(promised) == set()


def test_type_checkers_see_what_is_there():
    (stated,) = [
        ast.literal_eval(node.value)
        for node in ast.parse((SOURCE / "__init__.pyi").read_text("utf-8")).body
        if isinstance(node, ast.Assign)
    ]
    assert sorted(stated) == dir(airpool)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'airpool' has no attribute 'colour'"):
        getattr(airpool, "colour")  # noqa: B009


def test_guarantee_is_the_function_whatever_was_used_before():
    code = """
import json
import airpool
net = airpool.calibrate(airpool.Network.uniform(num_devices=3), epsilon=2.0)
print(json.dumps([type(airpool.guarantee).__name__]))
"""
    assert loaded_by(code) == {"function"}
