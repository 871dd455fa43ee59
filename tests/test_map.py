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
PACKAGES = ROOT / "packages"
SOURCES = sorted(path.parent for path in PACKAGES.glob("*/src/*/__init__.py"))
ROOMS = sorted(path.parent for path in PACKAGES.glob("*/src/**/__init__.py") if path.parent.name != "airpool")
NAMED = re.findall(r"`((?:[\w]+/)+\w+\.(?:py|toml))`((?:, `\w+`)*)", TEXT)


def test_the_map_names_files():
    assert len(NAMED) > 50


@pytest.mark.parametrize(("path", "names"), NAMED, ids=[path for path, _ in NAMED])
def test_what_the_map_names_exists(path, names):
    places = (PACKAGES / "airpool/src/airpool", *(source.parent for source in SOURCES), ROOT)
    found = [folder / path for folder in places if (folder / path).is_file()]
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
            wrong.append(f"{room.relative_to(PACKAGES)}: not listed {unlisted}, listed but absent {absent}")
    assert not wrong, "\n".join(wrong)


def test_dotted_names_in_the_documents_exist():
    rooms = {path.name for path in ROOMS if path.parent in SOURCES}
    texts = [path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*/*.md"))]
    names = {name for text in texts for name in re.findall(r"\bairpool(?:_\w+)?(?:\.\w+)+", text)}
    own = [name for name in names if name.startswith("airpool_") or name.split(".")[1] in rooms]
    named = sorted(name for name in own if name.count(".") > 1)
    assert len(named) > 20
    for name in named:
        pkgutil.resolve_name(name)


MODULES = {
    ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for source in SOURCES
    for path in source.rglob("*.py")
}
# First words of a name that is a module's, or was one's: packages, their rooms, and places of earlier versions.
WORDS = {part for name in MODULES for part in name.split(".")[:-1][:2]} - {"airpool"} | {
    "data",
    "guarantees",
    "runtime",
    "selection",
    "train",
    "web",
    "wireless",
}
DOTTED = re.compile(r"(?<![\w./-])(?:airpool\.)?((?:[a-z_0-9]+\.)+\w+)(?![\w/-])")
FILES = ("csv", "db", "html", "json", "md", "mplstyle", "npz", "png", "py", "safetensors", "svg", "toml", "zip")


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
            if not rest or (rest[0] in words_of(module) and f"{module}.{rest[0]}" not in MODULES):
                return True
    return False


def unknown(text: str) -> list[str]:
    """Names of modules in a text, outside of its examples, that do not exist."""
    plain = re.sub(r"^```.*?^```|^\s*(>>>|\.\.\.).*?$", "", text, flags=re.MULTILINE | re.DOTALL)
    named = {name for name in DOTTED.findall(plain) if name.split(".")[-1] not in FILES}
    return sorted(name for name in named if name.split(".")[0] in WORDS and not exists(name))


def written(path: Path) -> str:
    """Docstrings and messages of a file."""
    texts = [each.value for each in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(each, ast.Constant)]
    return "\n".join(each for each in texts if isinstance(each, str))


def test_what_docstrings_and_messages_name_exists():
    found = {str(path.relative_to(PACKAGES)): names for path in MODULES.values() if (names := unknown(written(path)))}
    assert not found


def test_what_the_documents_name_in_short_exists():
    pages = {*ROOT.glob("*.md"), *ROOT.glob("docs/*/*.md"), *ROOT.glob("packages/*/README.md")}
    pages -= {*ROOT.glob("docs/decisions/*.md")}  # what was decided then
    found = {str(path.relative_to(ROOT)): names for path in pages if (names := unknown(path.read_text("utf-8")))}
    assert not found


@pytest.mark.parametrize(
    "name",
    ["selection.scores.uncertainty", "protocol.link.level", "models.vision.quantisation", "paper.formulas.theorem1"],
)
def test_a_name_of_an_earlier_version_is_found(name):
    assert unknown(f"By {name}, radio.link.level, and airpool_lab.paper.formulas.theorem2.") == [name]
