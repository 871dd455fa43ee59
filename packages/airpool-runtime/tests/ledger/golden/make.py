"""Writes the golden ledgers, keys and network files of a release: run as a program, by the release that they are of.

    PYTHONPATH=src python tests/ledger/golden/make.py tests/ledger/golden/RELEASE

A release adds its folder and never changes one that is there: later versions must read it, compute the same ε and go
on charging (test_golden.py). Private keys are derived from a text, so none is stored.
"""

import hashlib
import itertools
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool import Channel, Devices, Network, Ranking, Threshold
from airpool.network import Adversary
from airpool.network import file as network_file
from airpool_runtime.keys import authority
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism

DEVICE, DAYS = 3, 3600
BUDGETS = [Budget(100.0), Budget(50.0, window_s=3600.0), Budget(60.0, scene=True)]
STILL = Channel(fading="rayleigh", redrawn=False, noise_std=0.1, csi_error_std=0.02)
NETWORKS = {
    "coin": Network.uniform(num_devices=4, noise_std=0.5, participation=0.9, dropouts=1),
    "threshold": Network.uniform(num_devices=4, noise_std=0.5, scheme=Threshold(threshold=0.4, score_noise_std=2.0)),
    "ranking": Network.uniform(num_devices=4, noise_std=0.5, scheme=Ranking(num_selected=3, score_noise_std=2.0)),
    "secure": Network.uniform(num_devices=5, noise_std=0.5, dropouts=1, channel=Channel(access="secure")),
    "epochs": Network.uniform(num_devices=4, noise_std=0.5, channel=STILL),
    "windows": Network(
        devices=Devices(count=4, noise_std=(0.4, 0.5, 0.6, 0.7), path_loss_db=(0.0, 1.0, 2.0, 3.0)),
        channel=Channel(fading="rician", noise_std=0.2),
        adversary=Adversary(antennas=2),
        dimension=9,
    ),
}


def identity():
    """The device's identity key."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"airpool golden identity").digest())


def tls_keys():
    """The connection keys, in the order in which an authority makes them."""
    for number in itertools.count():
        secret = hashlib.sha256(f"airpool golden key {number}".encode()).digest()
        yield ec.derive_private_key(int.from_bytes(secret, "big") >> 1, ec.SECP256R1())


def make(folder: Path) -> None:
    folder.mkdir(parents=True)
    expected = {}
    for kind, network in NETWORKS.items():
        network_file.write(network, folder / f"{kind}.toml")
        one, path = mechanism(network, device=DEVICE), folder / f"{kind}.db"
        with Ledger(path, identity(), device=f"device-{DEVICE}", budgets=BUDGETS) as ledger:
            for i, epoch in enumerate(("", "spring", "summer", "summer")):
                ledger.charge(f"{kind} {i}", one, scene="kitchen" if i else "", epoch=epoch)
            relations = ("zero-out", "replace") + (("remove",) if kind not in ("threshold", "ranking") else ())
            expected[kind] = {
                "rows": ledger.tip.seq,
                "hash": ledger.tip.hash,
                "mechanism": one.digest,
                "epsilon": {each: ledger.epsilon(1e-5, neighbours=each) for each in relations},
            }
        path.with_suffix(".db.lock").unlink()
    keys = tls_keys()
    authority.ec.generate_private_key = lambda curve: next(keys)
    authority.Ed25519PrivateKey = SimpleNamespace(generate=identity)
    authority.create(folder / "keys", days=DAYS)
    authority.add(folder / "keys", f"device-{DEVICE}", days=DAYS)
    for role in authority.ROLES:  # whose certificates name this machine
        shutil.rmtree(folder / "keys" / role)
    private = sorted((folder / "keys").rglob("*.key"))
    expected["keys"] = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in private
    }
    for path in private:
        path.unlink()
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
