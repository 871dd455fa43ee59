"""The registries: names, entry points, files of plug-ins, and errors that say what is wrong."""

from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

import airpool
from airpool._support import plugins
from airpool._support.plugins import PluginError, PluginOrigin, Registry


class Ring:
    """A member of the registry below."""

    def radius(self):
        return 1.0


def registry(**more):
    return Registry(
        "shape", "airpool.tests", {"point": "airpool._support.version:__version__"}, needs=("radius",), **more
    )


def entry(name="ring", value=f"{__name__}:Ring"):
    return EntryPoint(name, value, "airpool.tests")


def test_a_member_is_known_by_its_name():
    known = registry()
    assert known.register("ring", Ring) is Ring
    assert known.get("ring") is Ring
    assert known.names() == ("point", "ring")


def test_airpools_own_members_load_when_they_are_asked_for():
    known = registry()
    assert known.get("point") == airpool.__version__
    assert known.origin("point") is None


def test_a_plug_in_carries_its_file_and_the_hash_of_its_source():
    known = registry()
    known.register("ring", Ring)
    origin = known.origin("ring")
    assert origin is not None
    assert origin.source == __file__
    assert len(origin.sha256) == 64


def test_an_unknown_name_lists_those_that_are_known():
    known = registry()
    known.register("ring", Ring)
    with pytest.raises(PluginError, match=r"shape 'square' is not known; there is point, ring. If a plug-in brings it"):
        known.get("square")


def test_a_name_cannot_be_taken_from_another():
    known = registry()
    with pytest.raises(PluginError, match=r"shape 'point' of .*: airpool's own has this name"):
        known.register("point", Ring)
    known.register("ring", Ring, PluginOrigin("one"))
    with pytest.raises(PluginError, match="shape 'ring' of other: one has registered it already"):
        known.register("ring", type("Other", (Ring,), {}), PluginOrigin("other"))


@pytest.mark.parametrize("name", ["", " ring", None])
def test_a_name_is_text(name):
    with pytest.raises(PluginError, match="its name must be text"):
        registry().register(name, Ring)


def test_a_member_that_lacks_something_is_refused_by_name():
    with pytest.raises(PluginError, match=r"shape 'ring' of .* lacks radius \(docs/howto/plugins.md\)"):
        registry().register("ring", object())


def test_installed_packages_bring_members_by_entry_points(monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry()] if group == "airpool.tests" else [])
    known = registry()
    assert known.names() == ("point", "ring")
    assert known.get("ring") is Ring


@pytest.mark.parametrize("value", ["no.such.module:Ring", f"{__name__}:Nothing"])
def test_an_entry_point_that_fails_is_named(monkeypatch, value):
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry(value=value)])
    with pytest.raises(PluginError, match=r"shape 'ring' of .* fails to load: (ModuleNotFound|Attribute)Error"):
        registry().get("ring")


def test_what_cannot_be_registered_is_an_error():
    with pytest.raises(PluginError, match="'colour' cannot be registered, must be one of codec"):
        airpool.register("colour", "red")


def test_every_registry_of_the_table_is_there():
    for what, place in plugins.REGISTRIES.items():
        found = plugins._attribute(place)
        assert found.what == what
        assert all(found.get(name) is not None for name in found.builtin)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "fails: ZeroDivisionError"),
        ("import airpool\nairpool.register('codec', 'vote')(object)", "fails: codec 'vote' of .*airpool's own"),
        ("import airpool\nairpool.register('codec', 'own')(object)", "fails: codec 'own' of .* lacks encoder, server"),
    ],
)
def test_a_file_that_fails_is_named(tmp_path, text, message):
    file = tmp_path / "own.py"
    file.write_text(text)
    with pytest.raises(PluginError, match=f"--plugin .*own.py {message}"):
        plugins.load_file(file)
    assert file not in plugins.loaded_files()


def test_a_file_that_is_none_is_an_error(tmp_path):
    with pytest.raises(PluginError, match=r"none.py: no such file"):
        plugins.load_file(tmp_path / "none.py")
    (tmp_path / "own.txt").write_text("")
    for path in (tmp_path, tmp_path / "own.txt"):
        with pytest.raises(PluginError, match=r"must be a Python file \(.py\)"):
            plugins.load_file(path)


def test_the_command_line_loads_files_once(tmp_path):
    from airpool.cli import app, plugins_first

    file, seen = tmp_path / "own.py", tmp_path / "seen"
    file.write_text(f"with open({str(seen)!r}, 'a') as out:\n    out.write('x')\n")
    words = plugins_first(["epsilon", "--devices", "3", "--plugin", str(file)])
    assert words[:2] == ["--plugin", str(file)]
    for _ in range(2):
        assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    assert seen.read_text() == "x"
    assert file in plugins.loaded_files()
    del plugins._loaded[file]
