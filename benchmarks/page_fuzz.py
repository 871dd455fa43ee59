"""Random and mutated requests against a running page: paths, methods, headers, settings, meshes, broken HTTP.

    python -m benchmarks.page_fuzz [--requests 10000] [--seed 1] [--out FILE]

Starts `airpool ui` as a process on loopback. Reports replies of 500 and above, tracebacks, failures in the page's log,
files that are none of the page's, the slowest first byte, and memory.
"""

import argparse
import asyncio
import json
import random
import re
import string
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airpool._support.version import __version__
from airpool_web.app import PageOptions, app, table

from . import record
from .fuzz import mutated, resident
from .page_process import Page

WORKERS, PARTS = 8, 5
_FIRST_SECONDS, _REST_SECONDS, _MOST_REPLY = 60.0, 0.25, 2**23


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NAMES = (
    *_words("""
    devices epsilon noise_std accuracy way delta scheme fading access codec model participation clip_norm weight
    power_dbm path_loss_db k_factor_db outage gamma share num_selected threshold score score_rule score_bound
    score_noise_std colluders dropouts inferences neighbours cover_noise antennas server_antennas csi_error_std
    phase_error_std redrawn power_rule slots object seed trials channel_noise_std tab dimension
    abstain __proto__ constructor é"""),
    *("", "x" * 50, "\ud800"),
)
_WORDS = _words("""
    1 2.1 2.2 epsilon noise accuracy rician rayleigh none sionna:tdl-d superposed orthogonal secure zero-out replace
    remove true false auto truncate paper backoff modelnet40 antipodal digital shannon min clip chair_1 lamp_1 own""")
_NUMBERS = (
    *_words("""
    0 1 2 3 12 13 100 1000 1001 -1 0.5 1e-5 1e-300 1e300 1e999 nan inf -inf 0x10 1_000 ٣ 1,2,3 , 1;2 1e-5e +1"""),
    *("0.1," * 11 + "0.1", "9" * 400, " 2 ", "1000000000"),
)
_TEXTS = ("", "../../etc/passwd", "<script>alert(1)</script>", "\x00", "\ud800", "é" * 200, "{{7*7}}", "%s%n", "\n\r\n")
_LONG = ("x" * 70_000, "[" * 500)
_OTHERS = (None, True, False, 0, -1, 1.5, 10**30, [], [1, "a", None], {}, {"a": {"b": []}}, [[[[]]]])
_STRANGE: tuple[Any, ...] = (*_TEXTS, *_LONG, *_OTHERS)
_LOOP = b"outer loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\n"
_MESHES = (
    b"OFF\n4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n",
    b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n",
    b"solid x\nfacet normal 0 0 1\n" + _LOOP + b"endfacet\nendsolid x\n",
    b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
    b"element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n",
    bytes(80) + (1).to_bytes(4, "little") + bytes(50),
    b"OFF\n999999999 999999999 0\n0 0 0\n",
    b"ply\nformat binary_little_endian 1.0\nelement vertex 4000000000\nproperty double x\nend_header\n",
    bytes(80) + (2**32 - 1).to_bytes(4, "little"),
    b"mtllib ../../etc/passwd\nv nan inf 1e999\nf 1/1/1 -1 0 99999999999\ncall /etc/passwd\n",
    b"glTF\x02\x00\x00\x00" + bytes(20),
    b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>",
)
_PATHS = (
    *_words(r"""
    /.. /../app.py /js/../../app.py /%2e%2e/%2e%2e/etc/passwd /..%2fapp.py /%00 /index.html%00.js //etc/passwd
    /etc/passwd /js%2fmain.js /js\..\app.py /%ff%fe /api/../app.py /api/shape/..%2f..%2fapp.py /api/shape/%00
    /api/shape/../../etc/passwd * /api/ /api /api/nothing /api/answer/ /?x=%zz http://evil.example/ /enter
    /vendor/SHA256SUMS"""),
    *("/" + "a/" * 2_000, "/api/shape/" + "x" * 3_000),
)
_HEADERS = (
    *("Host: evil.example", "Host: [", "Origin: null", "Origin: http://evil.example", "Content-Length: -1", "X: é"),
    *("Content-Length: 99999999999", "Transfer-Encoding: chunked", "Transfer-Encoding: x", "Expect: 100-continue"),
    *("Cookie: airpool=x; ;=;", "If-None-Match: *", "Accept-Encoding: gzip;q=0", "Accept-Encoding: \xff"),
    *("X-Name: ../../x.off", "X-Name: x.stl", "X-Name: " + "x" * 3_000, "X-Name: %00.ply", "X: " + "x" * 20_000),
    *("Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Key: eA==", "Content-Type: x", "Range: bytes=0-1"),
)


@dataclass(frozen=True)
class Stroke:
    """One request as bytes, and what it was meant to be."""

    content: bytes
    kind: str
    path: str
    method: str


def known_routes() -> list[tuple[str, str]]:
    """Method and path of all that can be asked for, with parameters as {name}."""
    routes = app(PageOptions()).routes
    found = [(getattr(each, "methods", None) or {"GET"}, getattr(each, "path", "")) for each in routes]
    named = [(method, path) for methods, path in found for method in sorted(methods - {"HEAD"}) if "rest:" not in path]
    return sorted(named) + [("GET", path) for path in sorted(table())]


def settings(rng: random.Random) -> dict[str, Any]:
    """Settings as an address bar may hold them, from plausible to absurd."""

    def value() -> Any:
        kinds: Sequence[Callable[[], Any]] = (
            lambda: rng.choice(_NUMBERS),
            lambda: rng.choice(_WORDS),
            lambda: rng.choice(_STRANGE),
            lambda: f"{10 ** rng.uniform(-6, 6):.4g}",
            lambda: "".join(rng.choices(string.printable, k=rng.randrange(12))),
        )
        return rng.choice(kinds)()

    sound = {"object": rng.choice(("chair_0", "lamp_0")), "epsilon": f"{rng.uniform(0.5, 5):.2f}"}
    if rng.random() < 0.5:  # all but one setting are sound, so that it is reached
        known = {
            "devices": str(rng.randrange(2, 13)),
            "fading": rng.choice(("none", "rician")),
            "seed": rng.randrange(9),
        }
        return sound | known | {rng.choice(_NAMES): value()}
    return {rng.choice(_NAMES): value() for _ in range(rng.choice((1, 1, 2, 3, 8, 40)))}


def body(path: str, rng: random.Random) -> tuple[str, bytes]:
    """Kind and content of a request's body."""
    if "mesh" in path and rng.random() < 0.8:
        return "mesh", mutated(rng.choice(_MESHES), rng)
    text = json.dumps(settings(rng)).encode()
    if rng.random() < 0.75:
        return "settings", text
    broken = (mutated(text, rng), b"", b"[" * 20_000, rng.randbytes(200), b"null", b"[]", b"1e999", b"x" * 70_000)
    return "broken JSON", rng.choice(broken)


def stroke(routes: Sequence[tuple[str, str]], rng: random.Random) -> Stroke:
    """A request: to something that is there, or to a hostile path."""
    if rng.random() < 0.25:
        method, path, kind = rng.choice(("GET", "POST", "PUT", "x", "OPTIONS")), rng.choice(_PATHS), "path"
    else:
        weights = [6 if path.startswith("/api") else 1 for _, path in routes]
        method, path = rng.choices(routes, weights)[0]
        path = re.sub(r"{[^}]*}", lambda _: rng.choice(("chair_0", "own", "..", "%00", "plane", "x" * 99)), path)
        kind = "get"
    content = b""
    if method == "POST":
        kind, content = body(path, rng)
    headers = ["Host: 127.0.0.1", "Connection: close"]
    if content:
        headers.append(f"Content-Length: {len(content)}")
    if kind == "mesh":
        headers.append(f"X-Name: it.{rng.choice(('off', 'obj', 'stl', 'ply', 'glb'))}")
    if rng.random() < 0.3:
        headers += rng.sample(_HEADERS, rng.randrange(1, 3))
        kind += ", odd headers"
    if rng.random() < 0.03:
        method, kind = rng.choice(("DELETE", "TRACE", "é", "GET" * 50, "")), "method"
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{each}\r\n" for each in headers) + "\r\n"
    sent = head.encode("utf-8", "replace") + content
    if rng.random() < 0.05:
        kind, sent = "mutated", mutated(sent, rng)
    return Stroke(sent, kind, path, method)


@dataclass
class Seen:
    """Outcomes of the fuzzing: counts by kind and status, and what must not be."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0
    slow_request: str = ""

    def take(self, one: Stroke, reply: bytes, seconds: float) -> None:
        status = int(reply[9:12]) if re.match(rb"HTTP/1\.\d \d\d\d", reply) else 0
        self.outcomes[f"{one.kind}: {status or ('closed' if not reply else 'no HTTP')}"] += 1
        if seconds > self.slowest:
            self.slowest, self.slow_request = seconds, repr(one.content[:300])
        if status >= 500 or b"airpool failed here" in reply or b"Traceback" in reply or b"root:x:0" in reply:
            self.faults.append(f"{one.content[:600]!r} → {reply[-400:]!r}")
        head, _, content = reply.partition(b"\r\n\r\n")
        served = status == 200 and b"no-cache" in head and one.method == "GET"
        if served and content not in own_files():
            self.faults.append(f"{one.content[:600]!r} → a file that is none of the page's")


def own_files() -> set[bytes]:
    """All that may be served as a file."""
    return {form for each in table().values() for form in (each.content, each.compressed, b"")}


async def sent(address: tuple[str, int], one: Stroke) -> tuple[bytes, float]:
    """The reply, read to its end or for a moment, and the seconds until its first byte."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(*address, limit=2**20)
    reply, first = b"", 0.0
    whole = "odd" not in one.kind and one.kind != "mutated"  # else the page may wait for more
    try:
        writer.write(one.content)
        reply = await asyncio.wait_for(reader.read(2**16), _FIRST_SECONDS if whole else _REST_SECONDS)
        first = time.perf_counter() - began
        async with asyncio.timeout(_REST_SECONDS):
            while len(reply) < _MOST_REPLY and (more := await reader.read(2**16)):
                reply += more
    except TimeoutError:
        first = first or time.perf_counter() - began
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return reply, first


async def fuzzed(page: Page, requests: int, seed: str, seen: Seen) -> None:
    """Sends so many requests, a few at a time."""
    left, routes = iter(range(requests)), known_routes()

    async def worker(k: int) -> None:
        rng = random.Random(f"{seed}/{k}")
        for _ in left:
            one = stroke(routes, rng)
            seen.take(one, *await sent(page.address, one))

    await asyncio.gather(*(worker(k) for k in range(WORKERS)))


def run(requests: int, seed: int) -> dict[str, Any]:
    """The findings of so many requests, against a page that is started for it."""
    seen, memory, began = Seen(), list[float](), time.perf_counter()
    with TemporaryDirectory(prefix="airpool-fuzz-") as folder:
        with Page(Path(folder)) as page:
            for part in range(PARTS):
                asyncio.run(fuzzed(page, requests // PARTS, f"{seed}/{part}", seen))
                memory.append(round(resident(page.pid), 1))
            crashed = not page.alive
        log = page.log.read_text("utf-8", "replace")
    return {
        "version": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "command": f"python -m benchmarks.page_fuzz --requests {requests} --seed {seed}",
        "requests": sum(seen.outcomes.values()),
        "seconds": round(time.perf_counter() - began, 1),
        "outcomes": dict(sorted(seen.outcomes.items())),
        "faults": seen.faults,
        "crashed": crashed,
        "tracebacks": [log[at.start() : at.start() + 2_000] for at in re.finditer("Traceback", log)],
        "failures": sorted({line[:300] for line in log.splitlines() if '"failed"' in line}),
        "memory_mib": memory,  # after each part of the requests
        "slowest_first_byte_s": round(seen.slowest, 3),
        "slowest_request": seen.slow_request,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Random and mutated requests against a running page.")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON; left out: printed")
    options = parser.parse_args()
    record.write(run(options.requests, options.seed), options.out)


if __name__ == "__main__":
    main()
