"""The maps of the code, docs/project/architecture.md and the docstrings of rooms: what they name exists, and is all.

Docstrings and messages name no module that is gone.
"""

import ast
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest

from airpool.cli import COMMANDS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "project" / "architecture.md").read_text("utf-8")
SOURCE = ROOT / "src" / "airpool"
ROOMS = [path.parent for path in sorted(SOURCE.glob("*/**/__init__.py"))]
NAMED = re.findall(r"`((?:[\w]+/)+\w+\.(?:py|toml))`((?:, `\w+`)*)", TEXT)


def test_the_map_names_files():
    assert len(NAMED) > 50


@pytest.mark.parametrize(("path", "names"), NAMED, ids=[path for path, _ in NAMED])
def test_what_the_map_names_exists(path, names):
    found = [folder / path for folder in (SOURCE, ROOT) if (folder / path).is_file()]
    assert found, f"docs/project/architecture.md names {path}, which does not exist"
    content = found[0].read_text("utf-8")
    for name in re.findall(r"\w+", names):
        assert re.search(rf"^\s*(async def|def|class) {name}\b|^{name}\b\s*[:=]", content, re.MULTILINE), (
            f"docs/project/architecture.md names {name} in {path}, which has none"
        )


def test_a_room_has_a_map_of_its_modules():
    wrong = []
    for room in ROOMS:
        text = ast.get_docstring(ast.parse((room / "__init__.py").read_text("utf-8"))) or ""
        own = {path.stem for path in room.glob("*.py") if "_pb2" not in path.name} - {"__init__"}
        own |= {path.parent.name for path in room.glob("*/__init__.py")}
        named = set(re.findall(r"\w+", text)) | (set(COMMANDS) if room.name == "cli" else set())
        listed = {name for name in own if re.match(r"(fig|table)_", name) and f"{name.split('_')[0]}_*.py" in text}
        unlisted, absent = own - named - listed, set(re.findall(r"\b(\w+)\.py\b", text)) - own
        if unlisted or absent:
            wrong.append(f"{room.relative_to(SOURCE)}: not listed {unlisted}, listed but absent {absent}")
    assert not wrong, "\n".join(wrong)


def test_dotted_names_in_the_documents_exist():
    rooms = {path.name for path in ROOMS if path.parent == SOURCE}
    texts = [path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*/*.md"))]
    names = {name for text in texts for name in re.findall(r"\bairpool((?:\.\w+)+)", text)}
    named = sorted(name for name in names if name.count(".") > 1 and name.split(".")[1] in rooms)
    assert len(named) > 20
    for name in named:
        pkgutil.resolve_name(f"airpool{name}")


MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}
# First words of a name that is a module's, or was one's: rooms, and places of earlier versions.
WORDS = {name.partition(".")[0] for name in MODULES} | {"data", "guarantees", "selection", "train", "wireless"}
DOTTED = re.compile(r"(?<![\w./-])(?:airpool\.)?((?:[a-z_0-9]+\.)+\w+)(?![\w/-])")
FILES = ("csv", "db", "html", "json", "md", "mplstyle", "npz", "py", "safetensors", "svg", "toml", "zip")


@cache
def words_of(module: str) -> set[str]:
    """All that a module defines, imports or uses by name."""
    nodes = list(ast.walk(ast.parse(MODULES[module].read_text("utf-8"))))
    kinds = {ast.FunctionDef: "name", ast.AsyncFunctionDef: "name", ast.ClassDef: "name", ast.Name: "id"}
    kinds |= {ast.Attribute: "attr", ast.arg: "arg"}
    imported = {each.asname or each.name for each in nodes if isinstance(each, ast.alias)}
    return imported | {getattr(each, kinds[type(each)]) for each in nodes if type(each) in kinds}


def exists(name: str) -> bool:
    """Whether a name, written from any package on, is that of a module, or of something in one."""
    parts = name.split(".")
    for module in MODULES:
        path = module.split(".")
        for tail in (path[i:] for i in range(len(path)) if parts[: len(path) - i] == path[i:]):
            rest = parts[len(tail) :]
            if not rest or rest[0] in words_of(module) or f"{module}.{rest[0]}" in MODULES:
                return True
    return False


def unknown(path: Path) -> list[str]:
    """Names of modules in a file's docstrings and messages that no longer exist."""
    texts = [each.value for each in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(each, ast.Constant)]
    plain = "\n".join(re.sub(r"^\s*(>>>|\.\.\.).*$", "", each, flags=re.M) for each in texts if isinstance(each, str))
    named = {name for name in DOTTED.findall(plain) if name.split(".")[-1] not in FILES}
    return sorted(name for name in named if name.split(".")[0] in WORDS and not exists(name))


def test_what_docstrings_and_messages_name_exists():
    found = {str(path.relative_to(SOURCE)): names for path in MODULES.values() if (names := unknown(path))}
    assert not found


def test_a_name_of_an_earlier_version_is_found(tmp_path):
    (tmp_path / "old.py").write_text(
        '"""By selection.scores.uncertainty, protocol.link.level, radio.link.level."""', "utf-8"
    )
    assert unknown(tmp_path / "old.py") == ["protocol.link.level", "selection.scores.uncertainty"]
