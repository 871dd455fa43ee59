"""The page in a real browser: from a control to its repaint, first paint, bytes, layout jumps; and ten clients at once.

    python -m benchmarks.page_browser [--moves 200] [--seconds 60] [--clients 10] [--out FILE]

Needs Playwright and Chromium. Starts `airpool ui` as a process on loopback. A move is an input event of a slider, as a
hand makes it; it ends two frames after the account of ε was painted, which is after that paint.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from airpool._support.version import __version__

from . import record
from .chromium import browser
from .fuzz import resident
from .page_process import Page

# Those of them that have a slider are moved. K stays at 12 or below.
KNOBS = ("epsilon", "delta", "devices", "participation")
STREAM = (*KNOBS, "inferences")
_TIMED = """async ([knob, share]) => {
  const slider = document.querySelector(`[data-knob="${knob}"] input[type=range]`);
  const field = document.getElementById(`knob-${knob}`);
  const was = field.value;
  const count = () => performance.getEntriesByName("airpool:answer").length;
  const before = count();
  const frame = () => new Promise((then) => requestAnimationFrame(then));
  slider.value = String(Math.round(Number(slider.max) * share));
  const began = performance.now();
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  await frame();
  while (field.value !== was && count() === before && performance.now() - began < 5000) await frame();
  await frame();
  if (field.value !== was && count() === before) throw new Error(`${knob} = ${field.value}: no answer in 5 s`);
  return field.value === was ? null : performance.now() - began;
}"""
_LOADED = """() => ({
  paint: Object.fromEntries(performance.getEntriesByType("paint").map((each) => [each.name, each.startTime])),
  shift: window.shifts ?? 0,
})"""
_WATCH = """window.shifts = 0;
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) if (!each.hadRecentInput) window.shifts += each.value;
}).observe({ type: "layout-shift", buffered: true });"""


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def summary(values: list[float], digits: int = 1) -> dict[str, Any]:
    named = {"median": 0.5, "p95": 0.95, "max": 1.0}
    return {"count": len(values)} | {name: round(percentile(values, share), digits) for name, share in named.items()}


def loaded(chromium: Any, url: str) -> dict[str, Any]:
    """First paint in ms, bytes over the wire until the first view is whole, and how far it jumped meanwhile."""
    tab = chromium.new_page(viewport={"width": 1280, "height": 860})
    tab.add_init_script(_WATCH)
    sizes = list[float]()
    wire = tab.context.new_cdp_session(tab)
    wire.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    wire.send("Network.enable")
    tab.goto(url)
    tab.wait_for_function("() => document.querySelector('#summary-predicted')?.dataset.value !== undefined")
    tab.wait_for_selector(".view img")
    tab.wait_for_timeout(1_000)
    found = tab.evaluate(_LOADED)
    tab.close()
    return {
        "first_paint_ms": round(found["paint"]["first-paint"], 1),
        "first_contentful_paint_ms": round(found["paint"]["first-contentful-paint"], 1),
        "bytes": int(sum(sizes)),
        "requests": len(sizes),
        "layout_shift": round(found["shift"], 4),
    }


def moves(chromium: Any, url: str, number: int, seed: int, names: tuple[str, ...] = KNOBS) -> dict[str, Any]:
    """Milliseconds from a slider's move to the paint of the numbers, by knob and in all. names: of the knobs."""
    tab, rng = chromium.new_page(viewport={"width": 1280, "height": 860}), random.Random(seed)
    tab.goto(f"{url}#tab=numbers")
    tab.wait_for_function("() => document.querySelector('#summary-predicted')?.dataset.value !== undefined")
    tab.evaluate("for (const each of document.querySelectorAll('#knobs details')) each.open = true")
    there = "knob => document.querySelector(`[data-knob='${knob}'] input[type=range]:enabled`) !== null"
    knobs = [knob for knob in names if tab.evaluate(there, knob)]
    found: dict[str, list[float]] = {knob: [] for knob in knobs}
    lost = 0
    for k in range(number):
        knob = knobs[k % len(knobs)]
        share = rng.uniform(0.1, 0.3) if knob == "devices" else rng.uniform(0.02, 0.9)
        took = tab.evaluate(_TIMED, [knob, share])
        if took is None:
            lost += 1  # the same value as before: nothing was asked
        else:
            found[knob].append(took)
        if knob == "devices":
            assert int(tab.input_value("#knob-devices")) <= 12
    tab.close()
    everything = [each for values in found.values() for each in values]
    return {"all": summary(everything), "unchanged": lost} | {
        knob: summary(values) for knob, values in found.items() if values
    }


async def clients(url: str, number: int, seconds: float, seed: int) -> dict[str, Any]:
    """So many clients for so long, each asking as a page does: settings, views, an inference, files."""
    errors, first, whole, asked = list[str](), list[float](), list[float](), 0
    end = time.monotonic() + seconds

    async def one(k: int) -> None:
        nonlocal asked
        rng = random.Random(f"{seed}/{k}")
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
            while time.monotonic() < end:
                asked += 1
                began = time.perf_counter()
                try:
                    match rng.randrange(6):
                        case 0:
                            reply = await client.get("/")
                        case 1:
                            reply = await client.get("/api/knobs")
                        case 2:
                            body = {"epsilon": f"{rng.uniform(0.5, 5):.2f}", "object": "chair_0", "seed": k}
                            reply = await client.post("/api/infer", json=body)
                        case _:
                            body = {"epsilon": f"{rng.uniform(0.3, 9):.2f}", "devices": str(rng.randrange(4, 13))}
                            async with client.stream("POST", "/api/answer", json=body) as reply:
                                async for line in reply.aiter_lines():
                                    part = json.loads(line)["part"]
                                    if part == "error":
                                        errors.append(line[:300])
                                    if part == "leakage":
                                        first.append(1e3 * (time.perf_counter() - began))
                                    if part == "accuracy":
                                        break  # as a page whose knob moves on
                    if reply.status_code != 200:
                        errors.append(f"status {reply.status_code}")
                    whole.append(1e3 * (time.perf_counter() - began))
                except httpx.HTTPError as error:
                    errors.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(rng.uniform(0.05, 0.5))

    await asyncio.gather(*(one(k) for k in range(number)))
    return {
        "clients": number,
        "seconds": seconds,
        "requests": asked,
        "errors": errors,
        "epsilon_ms": summary(first) if first else None,
        "request_ms": summary(whole),
    }


def run(number: int, people: int, seconds: float, seed: int) -> dict[str, Any]:
    load = os.getloadavg()[0]
    with TemporaryDirectory(prefix="airpool-page-") as folder, Page(Path(folder)) as page:
        with browser() as chromium:
            version = chromium.version
            cold, warm = loaded(chromium, page.url), loaded(chromium, page.url)
            moved = moves(chromium, page.url, number, seed)
            stream = moves(chromium, page.url, number // 2, seed, STREAM)
        memory = [round(resident(page.pid), 1)]
        met = asyncio.run(clients(page.url, people, seconds / 2, seed))
        memory.append(round(resident(page.pid), 1))
        more = asyncio.run(clients(page.url, people, seconds / 2, seed + 1))
        memory.append(round(resident(page.pid), 1))
        log = page.log.read_text()
    return {
        "version": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "command": f"python -m benchmarks.page_browser --moves {number} --clients {people} --seconds {seconds:g}",
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "load_before": round(load, 1),
        "chromium": version,
        "first_load": cold,
        "second_load": warm,
        "control_to_repaint_ms": moved,  # one move after the other, while slow parts of the last one still run
        "many_inferences_ms": stream,  # the number of inferences is moved too: ε of all of them is composed
        "ten_clients": [met, more],
        "memory_mib": memory,  # before the clients, after half of their time, at the end
        "log": log[:2_000],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The page in a real browser.")
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON; left out: printed")
    options = parser.parse_args()
    record.write(run(options.moves, options.clients, options.seconds, options.seed), options.out)


if __name__ == "__main__":
    main()
