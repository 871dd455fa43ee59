"""The reference, made at build time from docstrings, from the commands and from the fields of a network.

`pages` gives every page as Markdown (names_page.py, commands_page.py, network_page.py); `setup` writes them to
docs/reference/generated, which git ignores.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import commands_page
import names_page
import network_page
from public import PAGES

from airpool.cli import GROUPS


def pages() -> dict[str, str]:
    """Name of a page → its Markdown."""
    found = {name: names_page.page_of(page) for name, page in PAGES.items()}
    found |= {f"commands-{commands_page.slug(group)}": commands_page.page_of(group) for group in GROUPS}
    return found | {"network-file": network_page.page()}


def setup(app: Any) -> dict[str, bool]:
    def written(app: Any) -> None:
        folder = Path(app.srcdir) / "reference" / "generated"
        folder.mkdir(exist_ok=True)
        made = pages()
        for name, text in made.items():
            path = folder / f"{name}.md"
            if not path.exists() or path.read_text("utf-8") != text:
                path.write_text(text, encoding="utf-8")
        for path in folder.glob("*.md"):
            if path.stem not in made:
                path.unlink()

    app.connect("builder-inited", written)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
