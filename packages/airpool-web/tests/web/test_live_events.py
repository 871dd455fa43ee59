"""100,000 events of a running system in a real browser: neither its memory nor that of the page's process grows."""

import asyncio
import threading
from pathlib import Path

import pytest
from tests.runtime.systems import network, small
from tests.runtime.test_feed import an_inference
from tests.web.test_live import page, served

from airpool_runtime.server import SlotCourse
from airpool_web.live import LiveOptions, Upstream

pytestmark = pytest.mark.check
INFERENCES = 50_000  # each has two events: its course and its result
MARKS = {"asked": 0.0, "announced": 0.001, "charged": 0.002, "last": 0.004, "summed": 0.005}


@pytest.fixture
def busy():
    """A page of a system in a thread of its own. `busy.make(n)` has the system tell of n inferences."""

    class Busy:
        url, made = "", 0
        ready, stop = threading.Event(), asyncio.Event()

        async def run(self):
            self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
            async with (
                small(network(12)) as self.system,
                served(self.system) as web,
                page(LiveOptions(Upstream.of(web.address))) as self.url,
            ):
                self.ready.set()
                await self.stop.wait()

        async def _make(self, count):
            for _ in range(count):
                what = an_inference(self.made)
                for course in self.system.server.slot_observers:
                    course(SlotCourse(what.id, self.made, 1, {**MARKS, "answered": 0.01}))
                for result in self.system.server.observers:
                    result(what)
                self.made += 1
                if self.made % 50 == 0:
                    await asyncio.sleep(0.01)

        def make(self, count):
            asyncio.run_coroutine_threadsafe(self._make(count), self.loop).result(300)

    it = Busy()
    thread = threading.Thread(target=lambda: asyncio.run(it.run()))
    thread.start()
    assert it.ready.wait(60)
    yield it
    it.loop.call_soon_threadsafe(it.stop.set)
    thread.join(30)


def resident():
    """MB of this process, in which server and page run."""
    return int(Path("/proc/self/statm").read_text("utf-8").split()[1]) * 4096 / 1e6


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_100_000_events_leave_the_page_as_it_was(opened, busy, record_property):
    tab = opened("/#tab=live", at=busy.url).tab
    tab.wait_for_selector(".live-device[data-state=up]")
    tools = tab.context.new_cdp_session(tab)

    def measured():
        tab.wait_for_timeout(1_500)
        tools.send("HeapProfiler.collectGarbage")
        heap = tools.send("Runtime.getHeapUsage")["usedSize"] / 1e6
        return heap, tab.evaluate("document.querySelectorAll('*').length"), resident()

    busy.make(INFERENCES // 5)
    first = measured()
    busy.make(INFERENCES - INFERENCES // 5)
    last = measured()
    record_property("first", first)
    record_property("last", last)
    print(f"heap MB, elements, resident MB: after 20,000 events {first}, after 100,000 {last}")
    assert f"{INFERENCES}" in tab.inner_text(".live-facts")
    assert last[0] < first[0] + 1
    assert last[1] == first[1]
    assert last[2] < first[2] + 10
