"""The built site: no warning, no dead link, nothing from outside, narrow enough for a phone; spelling."""

import fcntl
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from benchmarks import chromium
from tests.docs.sources import ROOT

SITE = ROOT / "out" / "site"
needs_sphinx = pytest.mark.skipif(find_spec("furo") is None, reason="needs the extra docs")


class Page(HTMLParser):
    """What a page of the site links to (`refs`), fetches by itself (`fetched`), and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.refs, self.fetched, self.ids, self.bare = [], [], set(), []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.refs.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "author"):
            self.fetched.append(given.get("href", ""))
        elif tag in ("script", "img", "iframe", "source", "video", "audio", "embed", "object"):
            self.fetched += [given[key] for key in ("src", "data", "srcset") if given.get(key)]
        if tag == "img" and not (given.get("alt") or "").strip():
            self.bare.append(given.get("src"))
        self.fetched += re.findall(r"url\(['\"]?([^)'\"]+)", given.get("style") or "")


@pytest.fixture(scope="session")
def site():
    """The pages of the site by path; built as `make docs` does, by the first process of this session."""
    SITE.parent.mkdir(exist_ok=True)
    with (SITE.parent / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "2", "docs", SITE]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    return {path: Page(path) for path in SITE.rglob("*.html") if "_static" not in path.parts}


@needs_sphinx
@pytest.mark.check
def test_no_link_of_the_site_is_dead(site):
    dead = set()
    for path, page in site.items():
        for target in page.refs + page.fetched:
            parts = urlsplit(target)
            if parts.scheme or target.startswith("//"):
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not file.is_file() or (anchor and file in site and anchor not in site[file].ids):
                dead.add((str(path.relative_to(SITE)), target))
    assert sorted(dead) == []


@needs_sphinx
@pytest.mark.check
def test_no_page_fetches_anything_from_outside(site):
    outside = {
        (path.name, target)
        for path, page in site.items()
        for target in page.fetched
        if urlsplit(target).scheme not in ("", "data") or target.startswith("//")
    }
    assert outside == set()
    for style in SITE.rglob("*.css"):
        loaded = re.findall(r"(?:url\(|@import\s+)['\"]?([^)'\"\s;]+)", style.read_text("utf-8"))
        assert [target for target in loaded if target.startswith(("http", "//"))] == [], style.name


@needs_sphinx
@pytest.mark.check
def test_every_picture_of_the_site_has_an_alt_text(site):
    assert {path.name: page.bare for path, page in site.items() if page.bare} == {}


@needs_sphinx
@pytest.mark.check
@pytest.mark.skipif(chromium.CHROMIUM is None, reason="needs Chromium")
def test_pages_fit_a_phone_and_search_works_from_files(site):
    pytest.importorskip("playwright.sync_api", reason="no Playwright")
    with chromium.browser() as browser:
        context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
        tab, asked = context.new_page(), []
        tab.on("request", lambda request: asked.append(request.url))
        wide = {}
        for path in site:
            tab.goto(path.as_uri())
            width = tab.evaluate("document.documentElement.scrollWidth")
            if width > 390:
                wide[str(path.relative_to(SITE))] = width
        assert wide == {}
        tab.goto((SITE / "search.html").as_uri() + "?q=ledger")
        tab.wait_for_selector("#search-results li a", timeout=30_000)
        context.close()
    assert {urlsplit(url).scheme for url in asked} <= {"file", "data"}


@pytest.mark.skipif(find_spec("codespell_lib") is None, reason="needs codespell, of the extra docs")
def test_words_are_spelt_right():
    places = ["docs", "src", "README.md", "CONTRIBUTING.md", "examples", "scripts", "deploy"]
    command = [sys.executable, "-m", "codespell_lib", "--toml", "pyproject.toml", *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
