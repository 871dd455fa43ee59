"""A device's key and ledger in a temporary folder, and a PostgreSQL cluster."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool import Network
from airpool_runtime.keys import secret
from airpool_runtime.ledger.backup import content
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism


class Device:
    """Where a device keeps key and ledger, and how it opens it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.key = folder, folder / "ledger.db", folder / "keys" / "identity.key"
        self.key.parent.mkdir()
        secret.write(self.key, secret.pem(Ed25519PrivateKey.generate()))
        self.head = self.key.with_suffix(".head")

    def open(self, *budgets, **more) -> Ledger:
        return Ledger(self.path, self.key, device="device-3", budgets=budgets, **more)


@pytest.fixture
def device(tmp_path):
    return Device(tmp_path)


@pytest.fixture(scope="session")
def network():
    return Network.uniform(num_devices=4, noise_std=0.5)


@pytest.fixture(scope="session")
def one(network):
    return mechanism(network, device=3)


@pytest.fixture
def told(device, one):
    with device.open() as ledger:
        for i in range(6):
            ledger.charge(f"{i}", one)
    return content(device.path)


class Cluster:
    """PostgreSQL in a temporary folder, on a Unix socket alone."""

    def __init__(self, folder: Path, programs: list[str], user: str | None) -> None:
        self._folder, self._data, self._user = folder, folder / "data", user
        self._initdb, self._pg_ctl = programs
        self.url = f"postgresql:///postgres?host={folder}&user=airpool"
        self._run(self._initdb, "-D", self._data, "-A", "trust", "-U", "airpool", "--no-sync")

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories={self._folder} -c fsync=off"
        self._run(self._pg_ctl, "-D", self._data, "-l", self._folder / "log", "-o", options, "-w", "start")

    def stop(self) -> None:
        self._run(self._pg_ctl, "-D", self._data, "-m", "immediate", "-w", "stop", check=False)

    def _run(self, *command, check=True) -> None:
        how = {"capture_output": True, "text": True, "timeout": 120, "cwd": self._folder, "user": self._user}
        subprocess.run(command, check=check, **how)


def found_program(name):
    places = [shutil.which(name), *map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True))]
    return next((place for place in places if place), None)


@pytest.fixture(scope="module")
def postgres():
    """A cluster of our own; stopped and removed afterwards."""
    programs = [found_program(name) for name in ("initdb", "pg_ctl")]
    if None in programs:
        pytest.skip("no PostgreSQL here: apt install postgresql")
    pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="airpool-pg-"))  # a short path: a socket's has at most 107 bytes
    user = None
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        user = next((u for u in ("postgres", "nobody") if any(p.pw_name == u for p in pwd.getpwall())), None)
        if user is None:
            pytest.skip("PostgreSQL needs a user that is not root")
        shutil.chown(folder, user)
    cluster = None
    try:
        cluster = Cluster(folder, [each for each in programs if each], user)
        cluster.start()
        yield cluster
    finally:
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
