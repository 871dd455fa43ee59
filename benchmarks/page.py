"""The page (`airpool ui`): time from a moved control to the first part of its answer, and to ε and odds.

A walk: from a preset, five controls are moved one after the other, then the next preset. Each answer is read until its
ε and odds are there, and left, as a browser leaves it when the next control moves.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from itertools import islice
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from airpool import Channel, Network, guarantee

from . import Row
from .noise import seconds

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


def walk(port: int, record: dict[str, Any], rng: np.random.Generator) -> Iterator[tuple[str, float, float, str]]:
    """The control that was moved, milliseconds until the first part and until ε and odds, and which part ended the
    wait. Grey ones stay."""
    presets = [each["settings"] for each in record["presets"] if each["settings"].get("codec") != "q16"] + [{}]
    while True:
        settings = dict(presets[rng.integers(len(presets))])
        greyed = answered(port, settings)[-1]
        for _ in range(_EACH):
            name = str(rng.choice([each for each in record["knobs"] if each not in (*_NOT_MOVED, *greyed)]))
            before, settings[name] = dict(settings), moved(record["knobs"][name], rng)
            first, took, part, found = answered(port, settings)
            settings, greyed = (before, greyed) if part == "error" else (settings, found)
            yield name, first, took, part


def answered(port: int, settings: dict[str, str]) -> tuple[float, float, str, dict[str, str]]:
    """Milliseconds until the first part, and until ε and odds; the part that ended the wait; and what is greyed.

    A network that takes its time says so at once ("search" without progress), and is not waited for.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    began, first = perf_counter(), 0.0
    connection.request("POST", "/api/answer", json.dumps(settings), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    name, greyed = "error", dict[str, str]()
    while line := reply.readline():
        first = first or 1e3 * (perf_counter() - began)
        part = json.loads(line)
        name, greyed = part.get("part", "error"), part.get("greyed", greyed)
        if name in ("leakage", "error") or part.get("progress", 0) is None:
            break
    took = 1e3 * (perf_counter() - began)
    connection.close()
    return first, took, name, greyed


def library() -> float:
    """Median milliseconds of a report with its odds, of twelve cameras over Rician fading."""
    network = Network.uniform(num_devices=12, noise_std=0.05, dimension=40, channel=Channel(fading="rician"))
    return 1e3 * seconds(lambda: guarantee(network).to_json(), repeat=5)[0]


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
            found = list(islice(walk(port, record, rng), moves))
        finally:
            page.terminate()
    first = np.array([ms for _, ms, _, part in found if part != "error"])
    took = np.array([ms for _, _, ms, part in found if part == "leakage"])
    name, _, slowest, _ = max((each for each in found if each[3] == "leakage"), key=lambda each: each[2])
    note = f"{len(first)} moves of one control, K ≤ 12; {len(found) - len(first)} more were refused with a sentence"
    later = f"without {len(first) - len(took)} networks that take up to a minute"
    state = "ε, or the state of a search or of a network that takes its time"
    return [
        Row(
            "page", "control moved to the first part of its answer, median", float(np.median(first)), "ms", note, 150.0
        ),
        Row("page", "- 95th percentile", float(np.percentile(first, 95)), "ms", state, 400.0),
        Row(
            "page",
            "control moved to ε and odds, median",
            float(np.median(took)),
            "ms",
            later,
            150.0,
            library(),
            "the report of one plain network in Python",
        ),
        Row("page", "- 90th percentile", float(np.percentile(took, 90)), "ms"),
        Row("page", "- slowest", slowest, "ms", f"after a move of the control {name!r}"),
    ]
