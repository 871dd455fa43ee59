"""A device's key and ledger in a temporary folder."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool import Network
from airpool.runtime.keys import secret
from airpool.runtime.ledger.ledger import Ledger
from airpool.runtime.ledger.mechanism import mechanism


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
