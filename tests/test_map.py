"""The maps of the code: docs/project/architecture.md and the docstrings of rooms name what exists, and all of it."""

import ast
import pkgutil
import re
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
