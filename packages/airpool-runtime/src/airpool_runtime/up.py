"""The whole system on one machine: starts every role as a process, asks for inferences, stops all of it."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from airpool._support import files, plugins
from airpool.account.report import number
from airpool.network import Claim, Network
from airpool.network import file as network_file
from airpool_runtime import secured, transport
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.keys import authority
from airpool_runtime.keys.credentials import Credentials
from airpool_runtime.medium import slot_seconds_of
from airpool_runtime.messages import DisconnectedError
from airpool_runtime.options import (
    ANYWHERE,
    FRAME_WINDOW,
    AirOptions,
    DeviceOptions,
    RankingOptions,
    RoleOptions,
    ServerOptions,
    data_of,
    made,
    role_of,
)
from airpool_runtime.remote import RemoteServer
from airpool_runtime.seeing import BACK, FAILED
from airpool_runtime.wire_pb2_grpc import InferencesStub

# Ends when the pipe to it does, which the system closes whatever happens; roles may take a moment to end as well.
_CLEANER = """
import pathlib, shutil, sys, time
sys.stdin.buffer.read()
for _ in range(10):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(0.5)
    if not pathlib.Path(sys.argv[1]).exists():
        break
"""


@contextmanager
def vanishing_folder(prefix: str) -> Iterator[Path]:
    """A folder for this user alone, removed at the end of the block, or by a process of its own after a kill -9."""
    made = TemporaryDirectory(prefix=prefix)
    command, null = [sys.executable, "-I", "-S", "-c", _CLEANER, made.name], subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True) as cleaner:
        try:
            yield Path(made.name)
        finally:
            made.cleanup()
            cleaner.kill()


@dataclass
class RunTally:
    """Results of the inferences so far. distinct: those with a higher number than the one before.

    labels: the true ones, by number; or live: the true name at a moment. judged: inferences whose truth is known: not
    those in which one object took the place of another. Of the times, the last 100,000 are kept. slots: used by the
    inferences that were announced. trouble: what is wrong with sources, in words.
    """

    labels: Sequence[int] | None
    live: Callable[[float], str] | None = None
    judged: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    right: int = 0
    distinct: int = 0
    slots: int = 0
    announced: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=100_000))
    last: wire.Result | None = None
    truth: str = ""
    trouble: list[str] = field(default_factory=list)

    def add(self, result: wire.Result, began: float = 0.0) -> None:
        """Counts a result. began: when it was asked for, in seconds since 1970."""
        self.statuses[result.status] += 1
        self.seconds.append(result.seconds)
        self.slots, self.announced = self.slots + result.slots, self.announced + (result.slots > 0)
        self.distinct += self.last is None or result.number > self.last.number
        self.last = result
        if self.labels is not None:
            self.judged += 1
            self.right += result.status == "answered" and result.label == self.labels[result.number % len(self.labels)]
        elif self.live is not None:
            self.truth = now if (now := self.live(time.time())) == self.live(began) else ""
            self.judged += bool(self.truth)
            self.right += result.status == "answered" and result.name == self.truth

    @property
    def count(self) -> int:
        return sum(self.statuses.values())

    def record(self, took: float) -> dict[str, Any]:
        times = np.array(self.seconds) * 1e3
        told = self.last
        return {
            "inferences": self.count,
            "distinct": self.distinct,
            "statuses": dict(self.statuses),
            "accuracy": self.right / self.judged if self.judged else None,
            "per_second": self.count / took if took else None,
            "p50_ms": float(np.percentile(times, 50)) if len(times) else None,
            "p99_ms": float(np.percentile(times, 99)) if len(times) else None,
            "devices": told.devices if told else 0,
            "slots": {"mean": self.slots / max(self.announced, 1), "cap": told.cap} if told else None,
            "epsilon": {name: number(getattr(told.guarantee, name)) for name in ("device", "local", "object")}
            if told
            else None,
            "delta": told.guarantee.delta if told else None,
            "simulated": bool(told and told.simulated),
            "note": told.note if told else "",
            "last": self._last_label(),
            "trouble": self.trouble,
        }

    def _last_label(self) -> str:
        """The newest label, and whether it is right, where that is known."""
        if self.last is None or self.last.status != "answered":
            return ""
        if not self.truth:
            return self.last.name
        return f"{self.last.name} " + ("✓" if self.last.name == self.truth else f"✗ ({self.truth})")


_START_SECONDS, _STOP_SECONDS = 300.0, 5.0
_POLL_SECONDS, _REFUSED_SECONDS = 0.05, 5.0


@dataclass(frozen=True)
class Setup:
    """Setup of a run. processes: number that host the devices. device_options: more of `DeviceOptions`, by name.

    claim: that the roles read beside the network.
    """

    network: Network
    processes: int
    source: str = "latents:modelnet40/test"
    model: str = "modelnet40"
    codec: str | None = None
    quorum: int | None = None
    slot_seconds: float | None = None
    http: str | None = None
    simulate: int | None = None
    device_options: Mapping[str, Any] = field(default_factory=dict)
    keys: Path | None = None
    frame_window: float = FRAME_WINDOW
    claim: Claim = field(default_factory=Claim)

    def __post_init__(self) -> None:
        if not 1 <= self.processes <= self.network.devices.count:
            raise ValueError(f"processes={self.processes} must be from 1 to {self.network.devices.count}, the devices")

    @property
    def secure(self) -> bool:
        """Whether a secure sum takes the place of the air: its devices need identities."""
        return self.network.channel.rules.medium == "secure sum"

    @property
    def seconds(self) -> float:
        """The time that a slot waits for the devices."""
        return slot_seconds_of(self.network) if self.slot_seconds is None else self.slot_seconds


class Process:
    """One role: its first line on stdout says where it listens; what it logs goes to a file."""

    def __init__(self, process: asyncio.subprocess.Process, said: dict[str, Any]) -> None:
        self._process, self.said = process, said

    @classmethod
    async def started(cls, options: RoleOptions, log: Path, *, python: Path | None = None) -> "Process":
        """A role with these options, which it reads from a file beside its log. python: of another environment."""
        role, config = role_of(type(options)), log.with_suffix(".json")
        files.write(config, json.dumps(data_of(options)))
        with files.log(log) as stderr:
            own = [word for path in plugins.loaded_files() for word in ("--plugin", str(path))]
            start = [python or sys.executable, "-m", "airpool", *own]
            command = [*start, role, "--config", config, "--attached", "--json"]
            pipe = asyncio.subprocess.PIPE
            inherited = None if python is None else {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            # In a session of its own: Ctrl-C is for the one that has started it.
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=stderr, start_new_session=True, env=inherited
            )
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)
            return cls(process, json.loads(line))
        except (TimeoutError, ValueError):
            await _end(process)
            last = log.read_text("utf-8", "replace").strip().splitlines()[-1:]
            why = (last or ["no message"])[0].removeprefix("error: ")
            raise OSError(f"airpool {role} did not start: {why}") from None
        except BaseException:
            await _end(process)
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        await _end(self._process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Closes stdin, on which the role stops by itself; kills it if it does not."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@dataclass
class System:
    """The running processes. folder: of the network file and of what they log."""

    setup: Setup
    folder: Path
    roles: dict[str, Process] = field(default_factory=dict)

    async def start(self, name: str) -> Process:
        """Starts a role by its name; after a restart it has the same address."""
        before = self.roles.get(name)
        listen = before.said.get("address", ANYWHERE) if before else ANYWHERE
        self.roles[name] = await Process.started(self.options(name, listen), self.folder / f"{name}.log")
        return self.roles[name]

    def options(self, name: str, listen: str) -> RoleOptions:
        """Options of a role by its name: air, ranking, server, or "device 0-3"."""
        setup = self.setup
        role, _, devices = name.partition(" ")
        given: dict[str, Any] = {"network": self.folder / "network.toml"}
        if setup.keys is not None:
            given["keys"] = setup.keys if role == "device" else setup.keys / role
        if role == "air":
            given |= {"listen": listen, "slot_seconds": setup.seconds, "quorum": setup.quorum}
            return made(AirOptions, given, {"simulate": setup.simulate, "frame_window": setup.frame_window})
        if role == "ranking":
            return made(RankingOptions, given, {"listen": listen, "seconds": setup.seconds / 2})
        given |= {"air": self.address("air"), "codec": setup.codec, "simulate": setup.simulate}
        if role == "server":
            given |= {"listen": listen, "slot_seconds": setup.seconds, "model": setup.model, "http": setup.http}
            return made(ServerOptions, given)
        given |= {"device": devices, "source": setup.source}
        if setup.network.scheme.needs_ranking_server:
            given["ranking"] = self.address("ranking")
        if setup.secure:
            given["quorum"] = setup.quorum
        return made(DeviceOptions, given, setup.device_options)

    def address(self, name: str) -> str:
        return self.roles[name].said["address"] if name in self.roles else ANYWHERE

    def require(self) -> None:
        """Raises what the start of a role would raise for its options, before any process is started."""
        from airpool_runtime import roles

        ranked = ["ranking"] if self.setup.network.scheme.needs_ranking_server else []
        for name in (f"device 0-{self.setup.network.devices.count - 1}", "air", *ranked, "server"):
            options = self.options(name, ANYWHERE)
            if isinstance(options, DeviceOptions) and options.ledger is not None and not options.ledger.exists():
                options = replace(options, ledger=self.folder)  # it is made if nothing is wrong
            roles.require(options)

    def trouble(self) -> list[str]:
        return [f"device {k}: {why}" for (k, _), why in sorted(self.source_faults().items())]

    def source_faults(self) -> dict[tuple[int, str], str]:
        """Faults that devices have logged and not taken back, by device and kind."""
        found = dict[tuple[int, str], str]()
        for name in self.device_names:
            for line in self._logged(name):
                if line["event"] == FAILED:
                    found[line["device"], line["status"]] = line["reason"]
                elif line["event"] == BACK:
                    found = {of: text for of, text in found.items() if of[0] != line["device"]}
        return found

    def _logged(self, name: str) -> list[dict[str, Any]]:
        lines = (self.folder / f"{name}.log").read_text("utf-8", "replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def credentials(self) -> Credentials | None:
        keys = self.setup.keys
        return None if keys is None else secured.credentials(keys / "server", "server")

    @property
    def device_names(self) -> list[str]:
        parts = np.array_split(np.arange(self.setup.network.devices.count), self.setup.processes)
        return [f"device {part[0]}-{part[-1]}" for part in parts]

    async def ready(self, devices: int, seconds: float = _START_SECONDS) -> None:
        """Waits until `devices` devices are ready."""
        async with transport.channel(self.address("air"), self.credentials(), role="air") as channel:
            port = RemoteServer(channel, slot_seconds=self.setup.seconds)
            try:
                async with asyncio.timeout(seconds):
                    while True:
                        with suppress(DisconnectedError):  # on a busy machine an attempt may fail
                            if (await port.status()).ready >= devices:
                                return
                        await asyncio.sleep(_POLL_SECONDS)
            except TimeoutError:
                raise TimeoutError(f"fewer than {devices} devices were ready within {seconds:g} s") from None

    def refusal(self) -> str | None:
        """The reason why a device does not take part: one it logged, such as a spent budget, or that it has ended."""
        for name in self.device_names:
            why = next((line["reason"] for line in self._logged(name) if line["event"] == "refused"), None)
            if why is None and not self.roles[name].alive:
                lines = (self.folder / f"{name}.log").read_text("utf-8", "replace").splitlines()
                why = (lines or ["it has ended"])[-1].removeprefix("error: ")
            if why is not None:
                return f"airpool {name} does not take part: {why}"
        return None

    async def all_ready(self) -> None:
        """Waits until all devices are ready; raises an error if one of them refuses."""
        waiting = asyncio.create_task(self.ready(self.setup.network.devices.count))
        try:
            while not (await asyncio.wait([waiting], timeout=_REFUSED_SECONDS))[0]:
                if why := self.refusal():
                    raise OSError(why)
            await waiting
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


@asynccontextmanager
async def running(setup: Setup) -> AsyncIterator[System]:
    """All roles, with all devices ready; none of them is left when the block ends.

    A secure sum without keys has an authority of its own, for this run.
    """
    with vanishing_folder("airpool-") as folder:
        if setup.secure and setup.keys is None:
            authority.create(folder / "keys", devices=setup.network.devices.count)
            setup = replace(setup, keys=folder / "keys")
        system = System(setup, folder)
        network_file.write(setup.network, system.folder / "network.toml", setup.claim)
        system.require()
        if (ledger := setup.device_options.get("ledger")) is not None:
            ledger.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            await system.start("air")
            if setup.network.scheme.needs_ranking_server:
                await system.start("ranking")
            starting = [asyncio.create_task(system.start(name)) for name in ("server", *system.device_names)]
            try:
                await asyncio.gather(*starting)
            finally:
                await asyncio.gather(*starting, return_exceptions=True)
            await system.all_ready()
            yield system
        finally:
            await asyncio.gather(*(each.stop() for each in system.roles.values()))


@asynccontextmanager
async def client(system: System) -> AsyncIterator[InferencesStub]:
    async with transport.channel(system.address("server"), system.credentials(), role="server") as channel:
        yield InferencesStub(channel)
