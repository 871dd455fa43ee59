"""How small a device is: MB installed by package, and memory at one inference a second with keys and a ledger.

    python -m benchmarks.shelf --bundle cameras.zip [--python device/bin/python] [--seconds 60] [--json FILE]

python: of the environment to measure, by default the one that runs this. One device of it takes part beside a device,
air and server of this environment. Its views are stored bytes of noise: what a picture shows makes no difference.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from airpool import Network, calibrate
from airpool._support.version import __version__
from airpool.network import file as network_file
from airpool_runtime import up
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.bundle import read
from airpool_runtime.keys import authority

from . import Row
from .__main__ import print_table

# Of an environment itself, not of what a device needs.
_TOOLS = ("pip", "setuptools", "wheel")
_SIZES = """
import json
from importlib.metadata import distributions
sizes = {}
for one in distributions():
    found = (one.locate_file(each) for each in one.files or ())
    sizes[one.metadata["Name"].lower()] = sum(each.stat().st_size for each in found if each.is_file())
print(json.dumps(sizes))
"""


def installed(python: Path) -> dict[str, float]:
    """MB of each package of an environment, the largest first; files as long as they are, compiled modules too."""
    done = subprocess.run([python, "-I", "-c", _SIZES], capture_output=True, text=True, check=True)
    sizes = sorted(json.loads(done.stdout).items(), key=lambda each: -each[1])
    return {name: round(size / 1e6, 1) for name, size in sizes if name not in _TOOLS}


@asynccontextmanager
async def beside(folder: Path, python: Path | None, **options: Any) -> AsyncIterator[up.System]:
    """Two devices with keys and ledgers, "device 0" a process of another environment with these options."""
    keys, ledgers = folder / "keys", folder / "ledgers"
    authority.create(keys)
    for name in ("device-0", "device-1"):
        authority.add(keys, name)
    ledgers.mkdir(mode=0o700)
    net = calibrate(Network.uniform(num_devices=2, dimension=40), epsilon=0.5)
    network_file.write(net, folder / "network.toml")
    charged = {"ledger": ledgers, "budget_epsilon": 1e3}
    system = up.System(up.Setup(net, 2, keys=keys, device_options=charged, slot_seconds=20.0), folder)
    try:
        for name in ("air", "server", "device 1"):
            await system.start(name)
        own = replace(system.options("device 0", up.ANYWHERE), **options)
        system.roles["device 0"] = await up.Process.started(own, folder / "own.log", python=python)
        await system.ready(2)
        yield system
    finally:
        await asyncio.gather(*(each.stop() for each in system.roles.values()))


async def resident(bundle: Path, python: Path | None, seconds: int) -> dict[str, float]:
    """Memory in MB of device 0 over so many inferences, one a second: at the end, and at its largest."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        views = folder / "views" / "front" / "object"
        views.mkdir(parents=True)
        some = np.random.default_rng(0).integers(0, 256, (4, *read(bundle, threads=1).view_shape), dtype=np.uint8)
        for k, view in enumerate(some):
            np.save(views / f"{k}.npy", view)
        options = {"source": f"images:{folder / 'views'}", "bundle": bundle, "threads": 1}
        async with beside(folder, python, **options) as system, up.client(system) as client:
            pid = system.roles["device 0"].pid
            times, began = [], time.monotonic()
            for k in range(seconds):
                await asyncio.sleep(max(0.0, began + k - time.monotonic()))
                asked = time.monotonic()
                answer = await client.Infer(wire.Nothing())
                if answer.devices != 2:
                    raise RuntimeError(f"{answer.devices} of 2 devices took part: {answer.reason}")
                times.append(time.monotonic() - asked)
            found = dict(line.split(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    end, most = (int(found[key].split()[0]) * 1024 / 1e6 for key in ("VmRSS", "VmHWM"))
    return {
        "resident_mb": round(end, 1),
        "largest_mb": round(most, 1),
        "p50_ms": round(1e3 * float(np.median(times)), 1),
    }


def processor() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def measured(bundle: Path | None, python: Path | None, seconds: int) -> dict[str, Any]:
    sizes = installed(python or Path(sys.executable))
    found: dict[str, Any] = {"installed_mb": round(sum(sizes.values()), 1), "packages_mb": sizes}
    return found if bundle is None else found | asyncio.run(resident(bundle, python, seconds))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shelf", description=__doc__)
    parser.add_argument("--bundle", type=Path, help="of `airpool bundle`; left out: the install alone")
    parser.add_argument("--python", type=Path, help="of the environment to measure")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    given = parser.parse_args()
    found = measured(given.bundle, given.python, given.seconds)
    rows = [Row("shelf", "installed", found["installed_mb"], "MB", limit=250.0)]
    rows += [Row("shelf", f"- {name}", size, "MB") for name, size in found["packages_mb"].items() if size >= 1]
    if given.bundle is not None:
        note = "one a second; keys, ledger, stored views, one thread"
        rows += [
            Row(
                "shelf",
                f"memory after {given.seconds} inferences, one a second",
                found["resident_mb"],
                "MB",
                note,
                200.0,
            ),
            Row("shelf", "- at its largest", found["largest_mb"], "MB"),
            Row("shelf", "- an inference: median", found["p50_ms"] / 1e3, "s", "all roles on this machine"),
        ]
    print_table(rows)
    if given.json is not None:
        about = {
            "version": __version__,
            "date": time.strftime("%Y-%m-%d"),
            "machine": platform.processor() or platform.machine(),
        }
        about |= {"cpu_count": os.cpu_count(), "python": platform.python_version(), "seconds": given.seconds}
        given.json.write_text(json.dumps(about | found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
