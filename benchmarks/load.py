"""Inferences a second under load: HTTPS clients with keep-alive, device processes with mTLS and ledgers.

    python -m benchmarks.load [--clients 64] [--devices 12] [--seconds 20]

Every client asks again as soon as it is answered. Clients share the processors with the system, in one process.
"""

import argparse
import asyncio
import json
import ssl
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from airpool import Network, calibrate
from airpool_runtime import up
from airpool_runtime.keys import authority

_REQUEST = b"POST /infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
_CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_CONTEXT.check_hostname, _CONTEXT.verify_mode = False, ssl.CERT_NONE


async def client(address: str, until: float, statuses: Counter[str], seconds: list[float]) -> None:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=_CONTEXT)
    while (began := time.perf_counter()) < until:
        writer.write(_REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        answer = json.loads(await reader.readexactly(int(length.partition(b":")[2])))
        seconds.append(time.perf_counter() - began)
        statuses[answer["status"]] += 1
    writer.close()


async def measured(devices: int, clients: list[int], seconds: float) -> list[dict[str, object]]:
    found = []
    with TemporaryDirectory() as folder:
        keys, ledgers = Path(folder, "keys"), Path(folder, "ledgers")
        authority.create(keys)
        for name in (f"device-{k}" for k in range(devices)):
            authority.add(keys, name)
        ledgers.mkdir(mode=0o700)
        net = calibrate(Network.uniform(num_devices=devices, dimension=40), epsilon=0.05)
        options = {"ledger": ledgers, "budget_epsilon": 1e6}
        setup = up.Setup(net, devices, http="127.0.0.1:0", keys=keys, device_options=options, slot_seconds=20.0)
        async with up.running(setup) as system:
            at = system.roles["server"].said["http"]
            for number in clients:
                await asyncio.gather(*(client(at, time.perf_counter() + 2, Counter(), []) for _ in range(number)))
                statuses, times, began = Counter[str](), list[float](), time.perf_counter()
                until = began + seconds
                await asyncio.gather(*(client(at, until, statuses, times) for _ in range(number)))
                took = time.perf_counter() - began
                p50, p99 = (round(1e3 * float(np.percentile(times, q)), 1) for q in (50, 99))
                one = {"clients": number, "per_second": round(len(times) / took, 1), "p50_ms": p50, "p99_ms": p99}
                found.append(one | {"statuses": dict(statuses)})
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--devices", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    for row in asyncio.run(measured(given.devices, given.clients, given.seconds)):
        print(json.dumps(row))
