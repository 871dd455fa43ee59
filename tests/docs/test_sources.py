"""Pages as they are written: links lead somewhere, files that are named exist, every page has its place and a title."""

import itertools
import re
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.sources import AROUND, DOCS, PAGES, ROOT, anchors, headings, inline, links, name, toctree

FOLDERS = ("tests", "docs", "scripts", "benchmarks", "examples", "deploy", "packages")
# A path of the repository in code; one with a placeholder or a star is no name of a file.
PATH = rf"(?:{'|'.join(FOLDERS)})/[\w./@-]*\w"
# Sphinx writes these from the code.
GENERATED = DOCS / "reference" / "generated"


def missing(page, target):
    """What is wrong with a relative link; None if it leads somewhere."""
    path, _, anchor = unquote(target).partition("#")
    file = (page.parent / path).resolve() if path else page
    if GENERATED in file.parents:
        return None
    if not file.exists():
        return "no such file"
    if DOCS in page.parents and file.suffix == ".md" and DOCS not in file.parents:
        return "the site has no such page: name the file in code"
    if DOCS in page.parents and file.is_dir():
        return "a folder is no page"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return "no such heading"
    return None


@pytest.mark.parametrize("page", [*PAGES, *AROUND], ids=name)
def test_every_link_leads_somewhere(page):
    relative = [link for link in links(page) if not urlsplit(link.target).scheme]
    wrong = {f"{link.line}: {link.target}": why for link in relative if (why := missing(page, link.target))}
    assert wrong == {}


@pytest.mark.parametrize("page", [*PAGES, *AROUND], ids=name)
def test_links_to_the_outside_are_well_formed(page):
    for link in links(page):
        parts = urlsplit(link.target)
        if parts.scheme:
            assert parts.scheme in ("https", "mailto"), link
            assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.netloc) or parts.scheme == "mailto", link


def named_files(page):
    """(line, path) of the files that a page names: from the root of the repository, modules also from their own."""
    for line, token in inline(page):
        if token.type == "code_inline" and not re.search(r"[*{}…]|[A-Z]{3}", token.content):
            yield from ((line, found) for found in re.findall(rf"(?:^|\s)({PATH})", token.content))
        if token.type in ("code_inline", "text"):
            yield from (
                (line, found) for found in re.findall(r"(?<![\w/.<-])(?:[a-z_]+/)+[a-z_0-9]+\.py\b", token.content)
            )


@pytest.mark.parametrize("page", [page for page in [*PAGES, *AROUND] if page.name != "CHANGELOG.md"], ids=name)
def test_files_that_are_named_exist(page):
    packages = sorted((ROOT / "packages").iterdir())
    bases = [ROOT, ROOT / "tests", ROOT / "packages/airpool/src/airpool"]
    bases += [folder for package in packages for folder in (package / "src", package / "tests")]
    assert [each for each in named_files(page) if not any((base / each[1]).exists() for base in bases)] == []


@pytest.mark.parametrize("page", [*PAGES, *AROUND], ids=name)
def test_every_link_and_every_image_says_what_it_is(page):
    assert [link for link in links(page) if not link.text.strip()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_has_one_title_and_headings_without_gaps(page):
    levels = [level for level, _ in headings(page)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in itertools.pairwise(levels))


def test_every_page_stands_in_one_toctree():
    listed = [entry.resolve().with_suffix("") for page in PAGES for entry in toctree(page)]
    pages = {page.with_suffix("") for page in [*PAGES, *DOCS.rglob("*.ipynb")]} - {DOCS / "index"}
    assert sorted(str(page) for page in pages if listed.count(page) != 1) == []
    assert sorted(str(entry) for entry in listed if entry not in pages and GENERATED not in entry.parents) == []


def test_a_dead_link_and_a_wrong_anchor_are_found():
    page = DOCS / "index.md"
    assert missing(page, "start.md#install") is None
    assert missing(page, "nowhere.md") == "no such file"
    assert missing(page, "start.md#nowhere") == "no such heading"
    assert missing(page, "../README.md") == "the site has no such page: name the file in code"
