"""A running page and a real browser. Every test that uses the browser is marked `check`; it skips without one."""

import pytest

from benchmarks import chromium
from benchmarks.page_process import Page

SECONDS = 30


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The address of a running page."""
    with Page(tmp_path_factory.mktemp("page")) as page:
        yield page.url
    assert "Traceback" not in page.log.read_text("utf-8", "replace")


@pytest.fixture(scope="module")
def browser():
    """Chromium of this machine, by Playwright, whose event loop must not be there when other modules run their own."""
    if chromium.CHROMIUM is None:
        pytest.skip("no Chromium")
    pytest.importorskip("playwright.sync_api", reason="no Playwright")
    with chromium.browser() as found:
        yield found


class Watched:
    """A tab of the browser, and all that it has complained about. allowed: texts of complaints that a test provokes."""

    def __init__(self, tab):
        self.tab, self.complaints, self.allowed = tab, [], []
        tab.set_default_timeout(1e3 * SECONDS)
        tab.on("console", lambda said: self._complain(said.type, f"{said.text} {said.location.get('url', '')}"))
        tab.on("pageerror", lambda error: self._complain("error", str(error)))

    def _complain(self, kind, text):
        if kind in ("error", "warning", "assert") and not any(each in text for each in self.allowed):
            self.complaints.append(f"{kind}: {text}")


@pytest.fixture
def opened(browser, site):
    """Opens tabs: `opened("#tab=numbers", width=390)`. A console error or warning of any of them fails the test."""
    tabs = []

    def one(address="", *, width=1280, height=900, theme="light", at=None, **options):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce", **options
        )
        watched = Watched(context.new_page())
        tabs.append((context, watched))
        if address is not None:
            watched.tab.goto((at or site) + address)
        return watched

    yield one
    for context, _ in tabs:
        context.close()
    assert [each for _, watched in tabs for each in watched.complaints] == []
