"""Pictures of the page, for people: `python scripts/page_shots.py FOLDER [--live]`.

Needs Playwright and Chromium. Starts `airpool ui` (and with --live `airpool up --ui`) on loopback, and writes every
view, light and dark, on a laptop and on a phone.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.chromium import browser
from benchmarks.page_process import Page

VIEWS = ("scene", "numbers", "adversary", "plan")
SIZES = {"laptop": (1280, 860), "phone": (390, 844)}


@contextmanager
def system(folder: Path) -> Iterator[tuple[int, str]]:
    """A running system: its pid, and the address of its page."""
    command = [sys.executable, "-m", "airpool", "up", "--devices", "6", "--processes", "6", "--ui"]
    with (folder / "up.log").open("w") as log:
        process = subprocess.Popen([*command, "--ui-listen", "127.0.0.1:0"], stdout=log, stderr=log)
    try:
        while not (found := re.search(r"The page: (http://\S+?/)#", (folder / "up.log").read_text())):
            if process.poll() is not None:
                raise OSError((folder / "up.log").read_text())
            time.sleep(0.1)
        yield process.pid, found[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def kill_device(system: int, number: int) -> None:
    """Kills the process of one device of a system, by the pid of `airpool up`."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if f"device {number}-{number}.json" in line and parent == system:
            os.kill(int(entry.name), signal.SIGKILL)


def ready(tab: Any, view: str) -> None:
    """Waits until a view shows what it has to show, and makes it do its work."""
    tab.wait_for_function("() => document.querySelector('#summary-predicted')?.dataset.value !== undefined")
    tab.wait_for_function(f"() => !document.querySelector('#panel-{view} > .loading')")
    if view == "scene":
        tab.wait_for_selector(".view img")
        tab.click("#scene-infer")
        tab.wait_for_selector(".answer .label")
        tab.wait_for_function("() => !document.querySelector('#scene-infer').disabled")
        tab.click("#scene-trials")
        tab.wait_for_selector(".trials .bars")
    for label in {"adversary": ("Paint what it sees", "Try to attack"), "plan": ("Find the best design",)}.get(
        view, ()
    ):
        tab.get_by_role("button", name=label).click()
        tab.wait_for_timeout(15_000)
    if view == "numbers":
        tab.wait_for_function("() => document.querySelector('#curve svg')")
    tab.wait_for_timeout(8_000 if view in ("numbers", "adversary", "plan") else 1_000)


def shots(chromium: Any, url: str, views: tuple[str, ...], folder: Path) -> None:
    for size, (width, height) in SIZES.items():
        for theme in ("light", "dark"):
            viewport = {"width": width, "height": height}
            context = chromium.new_context(viewport=viewport, color_scheme=theme, is_mobile=size == "phone")
            context.add_init_script("localStorage.setItem('airpool-intro', 'done')")
            tab = context.new_page()
            for view in views:
                tab.goto("about:blank")
                tab.goto(f"{url}#tab={view}")
                ready(tab, view)
                tab.evaluate("scrollTo(0, 0)")
                tab.screenshot(path=folder / f"{view}-{size}-{theme}.png", full_page=True)
            context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Pictures of the page.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--live", action="store_true", help="of a running system too")
    parser.add_argument("--only", help="one view")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, browser() as chromium:
        views = VIEWS if options.only is None else tuple(each for each in VIEWS if each == options.only)
        if views:
            with Page(Path(name)) as page:
                shots(chromium, page.url, views, options.folder)
        if options.live:
            with system(Path(name)) as (pid, url):
                time.sleep(20)  # something to see
                kill_device(pid, 2)
                time.sleep(5)
                shots(chromium, url, ("live",), options.folder)


if __name__ == "__main__":
    main()
