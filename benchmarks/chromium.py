"""Chromium of this machine, by Playwright, for what measures, photographs and tests the page."""

import importlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Without a graphics card: WebGL in software.
FLAGS = ["--no-sandbox", "--enable-unsafe-swiftshader", "--use-gl=angle", "--use-angle=swiftshader"]


@contextmanager
def browser() -> Iterator[Any]:
    """The browser; closed at the end."""
    if CHROMIUM is None:
        raise OSError("there is no Chromium")
    with importlib.import_module("playwright.sync_api").sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()
