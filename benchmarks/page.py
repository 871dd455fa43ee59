"""The page (`airpool ui`): time from a moved control to ε and odds, as a browser on the same machine waits for them.

A walk: from a preset, five controls are moved one after the other, then the next preset. Each answer is read until its
ε and odds are there, and left, as a browser leaves it when the next control moves.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from . import Row

_MOVES, _EACH = 240, 5
_NOT_MOVED = ("model", "dimension", "weight", "clip_norm", "gamma", "server_antennas")  # texts, and what takes minutes


def moved(knob: dict[str, Any], rng: np.random.Generator) -> str:
    """A text of a control: anywhere on its slider, any of its choices."""
    if knob["kind"] == "choice":
        return str(rng.choice([choice["value"] for choice in knob["choices"]]))
    if knob["kind"] == "switch":
        return str(rng.choice(["true", "false"]))
    low, high = knob["min"], min(knob["max"], 12) if knob["option"] == "--devices" else knob["max"]
    if knob["scale"] == "log":
        value = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    else:
        value = float(rng.uniform(low, high))
    return str(round(value)) if knob["kind"] == "whole" else f"{value:.3g}"


def walk(record: dict[str, Any], rng: np.random.Generator) -> Iterator[tuple[str, dict[str, str]]]:
    """The control that moved, and the settings after it."""
    presets = [each["settings"] for each in record["presets"] if each["settings"].get("codec") != "q16"] + [{}]
    knobs = {name: knob for name, knob in record["knobs"].items() if name not in _NOT_MOVED}
    while True:
        settings = dict(presets[rng.integers(len(presets))])
        yield "preset", dict(settings)
        for _ in range(_EACH):
            name = str(rng.choice(list(knobs)))
            settings[name] = moved(knobs[name], rng)
            yield name, dict(settings)


def answered(port: int, settings: dict[str, str]) -> tuple[float, str]:
    """Milliseconds until ε and odds, or until the mistake is told, and which of both."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    began = perf_counter()
    connection.request("POST", "/api/answer", json.dumps(settings), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    name = "error"
    while line := reply.readline():
        name = json.loads(line).get("part", "error")
        if name in ("leakage", "error"):
            break
    took = 1e3 * (perf_counter() - began)
    connection.close()
    return took, name


def rows(moves: int = _MOVES, seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    command = [sys.executable, "-m", "airpool", "ui", "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as page:
        assert page.stdout is not None
        try:
            port = urlsplit(json.loads(page.stdout.readline())["url"]).port
            assert port is not None
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/api/knobs")
            record = json.loads(connection.getresponse().read())
            for preset in [{}, *(each["settings"] for each in record["presets"])]:
                answered(port, preset)  # models are loaded once
            steps = walk(record, rng)
            found = [(*next(steps), 0.0, "") for _ in range(moves)]
            found = [(name, settings, *answered(port, settings)) for name, settings, _, _ in found]
        finally:
            page.terminate()
    took = np.array([ms for _, _, ms, part in found if part == "leakage"])
    refused = sum(part == "error" for *_, part in found)
    slowest = max((each for each in found if each[3] == "leakage"), key=lambda each: each[2])
    note = f"{len(took)} moves of one control, K ≤ 12; {refused} more were refused with a sentence"
    return [
        Row("page", "control moved to ε and odds, median", float(np.median(took)), "ms", note, limit=150.0),
        Row("page", "- 95th percentile", float(np.percentile(took, 95)), "ms", limit=400.0),
        Row("page", "- slowest", slowest[2], "ms", f"after {slowest[0]} moved"),
    ]
