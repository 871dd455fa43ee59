"""The map of the code, docs/project/architecture.md: every file and every function that it names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "project" / "architecture.md").read_text("utf-8")
NAMED = re.findall(r"`((?:[\w]+/)+\w+\.(?:py|toml))`((?:, `\w+`)*)", TEXT)


def test_the_map_names_files():
    assert len(NAMED) > 50


@pytest.mark.parametrize(("path", "names"), NAMED, ids=[path for path, _ in NAMED])
def test_what_the_map_names_exists(path, names):
    found = [folder / path for folder in (ROOT / "src" / "airpool", ROOT) if (folder / path).is_file()]
    assert found, f"docs/project/architecture.md names {path}, which does not exist"
    content = found[0].read_text("utf-8")
    for name in re.findall(r"\w+", names):
        assert re.search(rf"^\s*(async def|def|class) {name}\b|^{name}\b\s*[:=]", content, re.MULTILINE), (
            f"docs/project/architecture.md names {name} in {path}, which has none"
        )
