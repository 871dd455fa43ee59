"""Kills roles at random points while inferences run, over mTLS; then compares what was sent with the ledgers.

    python -m benchmarks.kills [--seconds 300] [--seed 1] [--access superposed|secure] [--slots 8] [--out FILE]

Roles are forks of one process that has imported everything, so that a restart takes a tenth of a second. Each writes
what it sends to a file before it sends it. The label of inference n is n mod 40, whatever the noise; with --slots, once
the server is sure, which takes several slots: roles are then killed in slots and between them.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from grpc import aio

from airpool import Network, Ranking
from airpool._support import files
from airpool._support.version import __version__
from airpool.network import Channel, Slots
from airpool.network import file as network_file
from airpool_runtime import options, roles, transport, up
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.keys import authority
from airpool_runtime.ledger.backup import content, faults
from airpool_runtime.messages import RoundMessage, SlotSignal
from airpool_runtime.remote import RemoteDevice
from airpool_runtime.secure.messages import Kind, kind_of
from airpool_runtime.wire_pb2_grpc import InferencesStub

DEVICES, CLASSES, CLIENTS = 4, 40, 4
_CALL_SECONDS, _START_SECONDS, _AGAIN_SECONDS = 30.0, 20.0, 60.0


def latent(number: int) -> tuple[Any, Any]:
    """A view whose label is its number, and the device's own posterior."""
    return 10.0 * np.eye(CLASSES)[number % CLASSES], np.full(CLASSES, 1 / CLASSES)


def _noted(folder: Path, device: int, line: str) -> None:
    with (folder / f"sent-{device}").open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def _forked(folder: Path, name: str, config: Path) -> int:
    """A role as a fork; returns its number."""
    if child := os.fork():
        return child
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for target, file in ((1, folder / f"{name}.out"), (2, folder / f"{name}.log")):
            os.dup2(
                os.open(file, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if target == 1 else os.O_APPEND), 0o600), target
            )
        transmit, answer = RemoteDevice.transmit, RemoteDevice.answer

        async def noted_transmit(self: RemoteDevice, signals: Sequence[SlotSignal]) -> None:
            for each in signals:
                _noted(folder, self._device, each.id)
            await transmit(self, signals)

        async def noted_answer(self: RemoteDevice, message: RoundMessage) -> None:
            _noted(folder, self._device, f"{message.id} {Kind(kind_of(message.content)).name}")
            await answer(self, message)

        RemoteDevice.transmit, RemoteDevice.answer = noted_transmit, noted_answer
        roles.run(options.read(config), json=True)
    finally:
        os._exit(1)


def _forks(folder: Path, asked: socket.socket) -> None:
    """Forks a role for each line that is asked for, until the other side is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    warm = set[str]()
    for line in asked.makefile("r"):
        name = line.strip()
        if (role := name.partition(" ")[0]) not in warm:  # what is imported and computed here, no fork does again
            warm.add(role)
            asyncio.run(roles.check(options.read(folder / f"{name}.json")))
        asked.sendall(f"{_forked(folder, name, folder / f'{name}.json')}\n".encode())


@dataclass
class Roles:
    """The running roles by name: numbers of their processes, and addresses."""

    system: up.System
    asked: socket.socket
    pids: dict[str, int] = field(default_factory=dict)

    async def start(self, name: str) -> None:
        folder, before = self.system.folder, self.system.roles.get(name)
        listen = before.said.get("address", options.ANYWHERE) if before else options.ANYWHERE
        files.write(folder / f"{name}.json", json.dumps(options.data_of(self.system.options(name, listen))))
        (folder / f"{name}.out").unlink(missing_ok=True)
        self.asked.sendall(f"{name}\n".encode())
        self.pids[name] = int(self.asked.recv(20))
        until = time.monotonic() + _START_SECONDS
        while not (out := folder / f"{name}.out").exists() or not out.read_text().endswith("\n"):
            if time.monotonic() > until or not _alive(self.pids[name]):
                last = (folder / f"{name}.log").read_text().splitlines()[-1:]
                raise OSError(f"{name} did not start: {last}")
            await asyncio.sleep(0.01)
        self.system.roles[name] = up.Process(None, json.loads(out.read_text()))  # pyright: ignore[reportArgumentType]

    async def kill(self, name: str) -> None:
        os.kill(self.pids[name], signal.SIGKILL)
        while _alive(self.pids[name]):
            await asyncio.sleep(0.005)


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@dataclass
class Seen:
    """What clients were answered."""

    statuses: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    ids: Counter[str] = field(default_factory=Counter)
    answered: dict[str, tuple[int, int]] = field(default_factory=dict)  # devices and slots
    unsure: int = 0
    wrong: list[str] = field(default_factory=list)


async def _asking(system: up.System, seen: Seen, stop: asyncio.Event) -> None:
    while not stop.is_set():
        async with transport.channel(system.address("server"), system.credentials(), role="server") as channel:
            stub = InferencesStub(channel)
            try:
                while not stop.is_set():
                    result = await stub.Infer(wire.Nothing(), timeout=_CALL_SECONDS)
                    seen.statuses[result.status] += 1
                    seen.ids[result.id] += 1
                    if result.status == "answered":
                        seen.answered[result.id] = result.devices, result.slots
                        seen.unsure += not result.sure
                        # Before it is sure, a server that lost its air may be wrong.
                        if (result.sure or result.cap == 1) and result.label != result.number % CLASSES:
                            seen.wrong.append(f"{result.id}: {result.label}, must be {result.number % CLASSES}")
                    else:
                        seen.reasons[result.reason[:120]] += 1
                        await asyncio.sleep(0.05)
            except aio.AioRpcError as error:
                seen.statuses[error.code().name] += 1
                await asyncio.sleep(0.05)


async def _killing(roles: Roles, seen: Seen, seconds: float, rng: random.Random) -> dict[str, Any]:
    """Kills until the time is up, half of the time as soon as inferences are answered again, else before."""
    kills, slowest, answered, since = Counter[str](), 0.0, 0, time.monotonic()
    until = since + seconds
    while time.monotonic() < until:
        names = rng.sample(sorted(roles.pids), 2 if rng.random() < 0.2 else 1)
        await asyncio.gather(*(roles.kill(name) for name in names))
        kills.update(name.partition(" ")[0] for name in names)
        for name in sorted(names):  # the air first
            await roles.start(name)
        again = rng.random() < 0.5
        await asyncio.sleep(0.3 * rng.random())
        while len(seen.answered) == answered and (again or time.monotonic() > since + 5):
            if time.monotonic() > since + _AGAIN_SECONDS:
                raise TimeoutError(f"no answer within {_AGAIN_SECONDS:g} s after {names} was killed: {seen.reasons}")
            await asyncio.sleep(0.01)
        if len(seen.answered) > answered:
            slowest, answered, since = max(slowest, time.monotonic() - since), len(seen.answered), time.monotonic()
    return {"kills": sum(kills.values()), "by_role": dict(kills), "longest_without_answer_s": round(slowest, 2)}


def _compared(folder: Path, ledgers: Path, seen: Seen) -> dict[str, Any]:
    """Differences between what was sent, charged and answered."""
    wrong, charged_in, sent_count, charged_count = list[str](), Counter[str](), 0, 0
    for k in range(DEVICES):
        found = content(ledgers / f"device-{k}.db")
        wrong += [f"device {k}: {each}" for each in faults(found)]
        charged = [row.inference for row in found.rows]
        lines = (folder / f"sent-{k}").read_text().split("\n")[:-1]
        sent = {line.split()[0] for line in lines if "COMPLAINT" not in line}
        wrong += [f"device {k} sent twice: {each}" for each, n in Counter(lines).items() if n > 1]
        wrong += [f"device {k} charged twice: {each}" for each, n in Counter(charged).items() if n > 1]
        wrong += [f"device {k} sent uncharged: {each}" for each in sent - set(charged)]
        charged_in.update(charged)
        sent_count, charged_count = sent_count + len(sent), charged_count + len(charged)
    charged_slots: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for name, count in charged_in.items():
        id, _, slot = name.partition("/")
        charged_slots[id][int(slot or 1)] = count
    for id, (devices, slots) in seen.answered.items():
        most = max(charged_slots[id].values(), default=0)
        if devices > most:
            wrong.append(f"{id}: answered by {devices} devices, charged in {most}")
        if max(charged_slots[id], default=0) > slots:
            wrong.append(f"{id}: of {slots} slots, charged for {max(charged_slots[id])}")
    wrong += [f"answered twice: {id}" for id, n in seen.ids.items() if n > 1]
    counts = {"sent": sent_count, "charged": charged_count, "not_sure": seen.unsure}
    return counts | {"inferences_charged": len(charged_slots), "wrong": wrong + seen.wrong}


async def measured(
    net: Network, seconds: float, rng: random.Random, folder: Path, asked: socket.socket
) -> dict[str, Any]:
    keys, ledgers = folder / "keys", folder / "ledgers"
    authority.create(keys)
    for k in range(DEVICES):
        authority.add(keys, f"device-{k}")
    ledgers.mkdir(mode=0o700)
    network_file.write(net, folder / "network.toml")
    given = {"ledger": ledgers}
    setup = up.Setup(
        net, DEVICES, source="benchmarks.kills:latent", quorum=DEVICES - 1, keys=keys, device_options=given
    )
    system = up.System(setup, folder)
    roles, seen, stop = Roles(system, asked), Seen(), asyncio.Event()
    ranked = ["ranking"] if isinstance(net.scheme, Ranking) else []
    clients: list[asyncio.Task[None]] = []
    try:
        for name in ("air", *ranked, "server", *system.device_names):
            await roles.start(name)
        clients = [asyncio.create_task(_asking(system, seen, stop)) for _ in range(CLIENTS)]
        killed = await _killing(roles, seen, seconds, rng)
        stop.set()
        await asyncio.wait(clients, timeout=2 * _CALL_SECONDS)
        for each in clients:
            if each.done():
                each.result()
    finally:
        for each in clients:
            each.cancel()
        for pid in roles.pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while any(map(_alive, roles.pids.values())):
            await asyncio.sleep(0.01)
    logged = "".join(each.read_text("utf-8", "replace") for each in folder.glob("*.log"))
    shown = {"answers": dict(seen.statuses), "reasons": dict(seen.reasons.most_common(8))}
    return killed | shown | {"tracebacks": logged.count("Traceback")} | _compared(folder, ledgers, seen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--access", choices=("superposed", "secure"), default="superposed")
    parser.add_argument("--ranking", action="store_true")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    scheme = {"scheme": Ranking(num_selected=3, score_noise_std=2.0)} if given.ranking else {}
    slots = Slots(given.slots, sure=0.999999) if given.slots > 1 else Slots()
    net = Network.uniform(
        num_devices=DEVICES,
        dimension=CLASSES,
        slots=slots,
        noise_std=0.02 if given.slots == 1 else 0.2,
        dropouts=1,
        channel=Channel(access=given.access),
        **scheme,
    )
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        here, there = socket.socketpair()
        if not (forks := os.fork()):
            here.close()
            _forks(Path(name), there)
            os._exit(0)
        there.close()
        found = asyncio.run(measured(net, given.seconds, random.Random(given.seed), Path(name), here))
        here.close()
        os.waitpid(forks, 0)
    how = {
        "version": __version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "seed": given.seed,
        "seconds": given.seconds,
    }
    how |= {"access": given.access, "scheme": net.scheme.name, "devices": DEVICES, "clients": CLIENTS}
    how |= {"slots": given.slots}
    text = json.dumps(how | {"load_average": os.getloadavg()[1]} | found, indent=1, ensure_ascii=False)
    if given.out:
        given.out.write_text(text + "\n")
    print(text)
    sys.exit(bool(found["wrong"] or found["tracebacks"]))


if __name__ == "__main__":
    main()
