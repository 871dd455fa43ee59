"""Connections in a real browser: the page's own server comes and goes, and so does a device of a running system."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.page_process import Page

from . import looking

pytestmark = pytest.mark.check
LOST = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")


@pytest.mark.parametrize("name", ["scene", "live"])
def test_a_lost_server_is_told_and_found_again(opened, tmp_path, name):
    with Page(tmp_path) as page:
        watched = opened(f"#tab={name}", at=page.url)
        tab = watched.tab
        looking.done(tab)
        watched.allowed += LOST
        page.stop(signal.SIGKILL)
        if name != "live":  # that view notices by itself
            tab.fill("#knob-epsilon", "3")
            tab.press("#knob-epsilon", "Enter")
        notice = tab.locator("#notice")
        notice.wait_for(state="visible")
        assert "lost its server" in notice.inner_text()
        page.start()
        notice.wait_for(state="hidden")
        worst = "Number(document.querySelector('#summary-worst').dataset.value)"
        tab.wait_for_function(f"n => Math.abs({worst} - n) < 1e-3", arg=2 if name == "live" else 3)
        tab.wait_for_function(f"() => ({looking.FAULTS}).length === 0")
        tab.close()


def children(pid):
    """Command lines of the processes that a process has started."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == pid:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found


@pytest.fixture
def system(tmp_path):
    """A running system of three devices with its page: the process and the page's address."""
    command = [sys.executable, "-m", "airpool", "up", "--devices", "3", "--processes", "3", "--ui", "--pause", "0.2"]
    with (tmp_path / "up.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--ui-listen", "127.0.0.1:0"],
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a shell's job ignores it
        )
    try:
        for _ in range(600):
            if found := re.search(r"The page: (http://\S+?/)#", (tmp_path / "up.log").read_text()):
                break
            assert process.poll() is None, (tmp_path / "up.log").read_text()
            time.sleep(0.1)
        else:
            raise AssertionError((tmp_path / "up.log").read_text())
        yield process, found[1]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_device_that_is_killed_is_seen_to_be_down(system, opened):
    process, url = system
    tab = opened("#tab=live", at=url).tab
    tab.wait_for_function("() => document.querySelectorAll('[data-device][data-state=up]').length === 3")
    rows = "#panel-live table tbody tr"
    tab.wait_for_function(f"() => document.querySelectorAll('{rows}').length >= 2")
    (victim,) = [pid for pid, line in children(process.pid).items() if re.search(r"airpool device .*device 1\b", line)]
    os.kill(victim, signal.SIGKILL)
    tab.wait_for_selector('[data-device="1"][data-state=down]')
    card = tab.locator('[data-device="1"]')
    assert "down" in card.inner_text()
    assert len(card.locator(".live-reason").inner_text()) > 5
    assert tab.locator("[data-device][data-state=up]").count() == 2
