"""A server of the running system that asks again and again about one view: `python -m studies.attack_server`.

Prints results/attack-server.json; --fresh measures it first, in four minutes. Real devices with live noise, an air and
a server's port over loopback; each device has a ledger with a budget of ε, and the server asks until it is refused. The
secret is the view of device 0, a feature or its opposite with equal odds. The adversary averages all that it got; its
bound is that of the budget.
"""

import argparse
import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool import Claim, Network, calibrate, guarantee
from airpool._support import files
from airpool._support.arrays import Floats
from airpool_lab.attacks.positions import bound, position
from airpool_lab.attacks.result import AttackResult
from airpool_runtime import device as devices
from airpool_runtime import terms
from airpool_runtime.air import Air
from airpool_runtime.charge import Booked, Counted
from airpool_runtime.device import Device, Seen
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.loopback import LoopbackDevice
from airpool_runtime.messages import Sum
from studies.tables import RESULTS

NAME = "attack-server"
_MEMORY = Path("/dev/shm")  # ledgers that nobody reads again need no disk
MOST_ASKED = 1000  # inferences, of a server that is never refused


def ledger(folder: Path, network: Network, k: int, inferences: int) -> Booked:
    """The charge of device k, in a new ledger with the ε that so many inferences have."""
    claim = Claim(inferences=inferences, live=True)
    budget = Budget(float(guarantee(network, claim).epsilon[k]), claim.delta)
    path, key = folder / f"{k}.db", Ed25519PrivateKey.generate()
    return Booked(Ledger(path, key, budgets=[budget], head=path.with_suffix(".head")), mechanism(network, device=k))


async def sums_until_refused(
    network: Network, latents: Floats, budget: int | None, *, most: int = MOST_ASKED, patience: float = 0.02
) -> Floats:
    """All sums (T, r) that a server gets about one view (K, r) before it is refused, or after `most` inferences.

    budget: inferences that each device's ledger covers; None: no ledger, a planted fault.
    """
    air = Air(network, patience=patience, slot_seconds=2.0)
    ports = [LoopbackDevice(air, k, network) for k in range(network.devices.count)]
    folder = TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None)
    charges = [
        Counted() if budget is None else ledger(Path(folder.name), network, k, budget) for k in range(len(ports))
    ]
    running = [
        asyncio.create_task(devices.run(Device(k, network, lambda _, k=k: Seen(latents[k]), charges[k]), port))
        for k, port in enumerate(ports)
    ]
    asked, got = terms.stated(network), list[Floats]()
    try:
        while len(got) < most and isinstance(answer := await air.run_slot(f"{len(got)}", 0, asked), Sum):
            got.append(answer.y)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for each in (*ports, *charges):
            each.close()
        folder.cleanup()
    return np.array(got).reshape(-1, network.dimension)


def attack(network: Network, claim: Claim, *, trials: int, seed: int, unlimited: int | None = None) -> AttackResult:
    """Guesses from all that the server got. Budget: `claim.inferences`; unlimited: inferences without a budget."""
    budget, rng = claim.inferences, np.random.default_rng(seed)
    right, answered = 0, set[int]()
    for sign in rng.choice([-1.0, 1.0], size=trials):
        latents = np.zeros((network.devices.count, network.dimension))
        latents[0, 0] = sign * network.devices.column("clip_norm")[0]
        most = MOST_ASKED if unlimited is None else unlimited
        got = asyncio.run(sums_until_refused(network, latents, budget if unlimited is None else None, most=most))
        answered.add(len(got))
        right += int((got[:, 0].sum() >= 0) == (sign > 0))
    return AttackResult(
        "antipodal, running system",
        position("repeated"),
        network,
        secret="yes or no",
        of="view",
        trials=trials,
        successes=right,
        prior=0.5,
        bound=bound(network, claim, position("repeated"), "view", prior=0.5),
        seed=seed,
        numbers={"inferences answered": sorted(answered), "budget": budget},
        claim=claim,
    )


def watched(budget: int) -> tuple[Network, Claim]:
    """Four devices whose ε of 2 is that of the whole budget."""
    claim = Claim(inferences=budget)
    return calibrate(Network.uniform(num_devices=4, dimension=4), claim, epsilon=2.0), claim


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="measure again")
    path = RESULTS / f"{NAME}.json"
    if parser.parse_args().fresh:
        found = [attack(*watched(budget), trials=2000, seed=0).to_json() for budget in (2, 8)]
        files.write(path, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    for each in json.loads(path.read_text("utf-8")):
        print({name: each[name] for name in ("numbers", "success", "standard_error", "bound", "exceeds")})


if __name__ == "__main__":
    main()
