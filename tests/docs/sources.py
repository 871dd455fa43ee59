"""The pages of the documentation as they are written: headings, links, code."""

import itertools
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# The site's pages, and the Markdown around them that people read on the forge.
PAGES = sorted(path for path in DOCS.rglob("*.md") if "generated" not in path.parts)
AROUND = [*sorted(ROOT.glob("*.md")), ROOT / "deploy" / "README.md"]


class Link(NamedTuple):
    """target: as it is written; text: what is shown, or the alt text of an image."""

    line: int
    target: str
    text: str
    image: bool


def name(path):
    return str(path.relative_to(ROOT))


@cache
def tokens(path):
    return MarkdownIt().enable("table").parse(path.read_text("utf-8"))


def inline(path):
    """(line, token) of all that stands within paragraphs, headings and tables."""
    for token in tokens(path):
        for child in token.children or []:
            yield (token.map[0] + 1 if token.map else 0), child


def links(path):
    """All links and images of a page."""
    opened = []
    for line, token in inline(path):
        if token.type == "image":
            yield Link(line, str(token.attrs["src"]), token.content, True)
        elif token.type == "link_open":
            opened.append((str(token.attrs["href"]), []))
        elif token.type == "link_close":
            target, words = opened.pop()
            yield Link(line, target, "".join(words), False)
        elif opened:
            opened[-1][1].append(token.content)


@cache
def headings(path):
    """(level, text) of each heading, in order."""
    found = tokens(path)
    return [
        (
            int(token.tag[1]),
            "".join(child.content for child in after.children or [] if child.type in ("text", "code_inline")),
        )
        for token, after in itertools.pairwise(found)
        if token.type == "heading_open"
    ]


@cache
def anchors(path):
    """The anchors of a page's headings, as the forge and MyST make them."""
    slugs = [re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-") for _, text in headings(path)]
    return {slug if not (n := slugs[:place].count(slug)) else f"{slug}-{n}" for place, slug in enumerate(slugs)}


def toctree(path):
    """The entries of a page's toctrees, as paths without an ending."""
    for token in tokens(path):
        if token.type == "fence" and token.info.strip() == "{toctree}":
            for line in token.content.splitlines():
                if line.strip() and not line.startswith(":"):
                    entry = re.sub(r".*<(.*)>$", r"\1", line.strip())
                    yield from path.parent.glob(f"{entry}.*") if "*" in entry else [path.parent / entry]
