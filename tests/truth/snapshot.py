"""Every privacy number of 600 networks, in snapshot.json as hexadecimal floats: a redesign gives the same ones.

    python -m tests.truth.snapshot           compares all rows, and says how many agree to 1e-9
    python -m tests.truth.snapshot --make    makes the file; once

A row has a network and its claim as text, and what was found: one value where all devices have the same, an error by
its first words. A row that changes is edited, with its reason beside it ("because"); the file is
never made again.
"""

import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import airpool
from airpool.network import Claim, Network, NetworkError, Slots, file
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.spending import total

from .any_network import any_network

PATH = Path(__file__).with_name("snapshot.json")
ROWS, PRIORS = 600, (0.5, 1 / 40)
# Laws that are sampled from few draws, and laws of strength in few cells: wider bands, which hold all the same.
DRAWS, CELLS = 2**14, (30, 60, 90)

Row = dict[str, Any]


def drawn(seed: int) -> tuple[Network, Claim]:
    """One of `any_network`, with slots, other fading laws and live noise among them."""
    network, claim = any_network(seed)
    rng = np.random.default_rng([44, seed])
    if network.channel.fading == "rayleigh" and not network.channel.csi_error_std and network.channel.antennas == 1:
        law = str(rng.choice(["rayleigh", "nakagami:m=2", "log-normal:std_db=4"], p=[0.6, 0.2, 0.2]))
        network = replace(network, channel=replace(network.channel, fading=law))
    if rng.random() < 0.25:
        slots = Slots(int(rng.choice([2, 4, 16, 64])), redrawn=bool(rng.random() < 0.7))
        network, claim = replace(network, slots=slots), replace(claim, inferences=min(claim.inferences, 2**14))
    if rng.random() < 0.25:  # live, which neither a device without noise nor a smaller δ has
        std = np.array(network.devices.column("noise_std"))
        devices = replace(network.devices, noise_std=tuple(np.where(std > 0, std, max(std.max(), 0.1)).tolist()))
        network = replace(network, devices=devices)
        claim = replace(claim, delta=max(claim.delta, 1e-7), live=True)
    return network, claim


def found(text: str) -> dict[str, Any]:
    """Every number of a network and its claim by name, as hexadecimal floats."""
    return {name: _written(number) for name, number in _numbers(file.parse(text), file.parse_claim(text))}


def _numbers(network: Network, claim: Claim) -> Iterator[tuple[str, Callable[[], Any]]]:
    made: list[Any] = []

    def report() -> Any:
        if not made:
            made.append(airpool.guarantee(network, claim))
        return made[0]

    for name in ("epsilon", "epsilon_lower", "epsilon_local", "epsilon_object", "epsilon_eavesdropper"):
        yield name, lambda name=name: getattr(report(), name)
    for name in ("epsilon_if_static", "epsilon_if_selected"):
        yield name, lambda name=name: getattr(report(), name)

    guesses: list[Any] = []

    def odds() -> Any:
        if not guesses:
            guesses.append(airpool.odds(network, claim, prior=PRIORS))
        return guesses[0]

    for i, prior in enumerate(PRIORS):
        for name in ("device", "local", "object", "eavesdropper"):
            yield f"odds_{name} {prior:g}", lambda name=name, i=i: getattr(odds()[i], name)
    yield "gdp", lambda: airpool.exchange(network, claim).gdp
    yield "rdp 8", lambda: airpool.exchange(network, claim).rdp([8.0])
    yield "ledger", lambda: _ledger(network, claim)
    if _quick(network, claim):
        yield "calibrated", lambda: _calibrated(network, claim)


def _ledger(network: Network, claim: Claim) -> float:
    """The first device's total after these inferences, and as many of the same network at twice the noise."""
    loud = replace(network.devices, noise_std=tuple(2 * s for s in network.devices.column("noise_std")))
    slots = min(network.uses(claim), 2**16)
    uses = {mechanism(each, device=0, live=claim.live): slots for each in (network, replace(network, devices=loud))}
    return total(uses, claim.delta, claim.neighbours)


def _quick(network: Network, claim: Claim) -> bool:
    """Whether a search takes seconds: laws that are not sampled, few devices."""
    known = network.channel.known and network.channel.antennas == 1
    return known and network.devices.count <= 12 and network.scheme.name == "1" and claim.neighbours.keeps_noise


def _calibrated(network: Network, claim: Claim) -> Any:
    """The noise of the first device at half of the noise's own ε, of no more than 8."""
    worst = airpool.guarantee(network, claim).worst
    target = float(min(max(worst / 2, 0.05), 8.0)) if np.isfinite(worst) else 8.0
    return airpool.calibrate(network, claim, epsilon=target).devices.column("noise_std")[0]


def _written(number: Callable[[], Any]) -> Any:
    try:
        value = number()
    except (ValueError, NetworkError) as error:
        return f"{type(error).__name__}: {str(error)[:40]}"
    if value is None:
        return None
    values = [float(x).hex() for x in np.ravel(value)]
    return values[0] if len(set(values)) == 1 else values


def row(seed: int) -> Row:
    """One row of the file."""
    few()
    text = file.dump(*drawn(seed))
    return {"network": text, "found": found(text)}  # of what the file says


def few() -> None:
    """Makes sampled laws wide and quick, in this process."""
    import airpool.privacy.sampled
    import airpool.radio.strength

    airpool.privacy.sampled.DRAWS = DRAWS
    airpool.radio.strength._CELLS = CELLS


def rows() -> list[Row]:
    return json.loads(PATH.read_text(encoding="utf-8"))["rows"]


def differences(before: Row, *, within: float = 1e-9) -> list[str]:
    """What a row says otherwise than it did; numbers may differ by this share, another machine's last digits."""
    now = found(before["network"])
    names = sorted(before["found"].keys() | now.keys())
    return [
        f"{name}: {before['found'].get(name, 'nothing')} is now {now.get(name, 'nothing')}"
        for name in names
        if not _agree(before["found"].get(name), now.get(name), within)
    ]


def _agree(before: Any, now: Any, within: float) -> bool:
    if before == now or within == 0:
        return before == now
    try:
        one, other = (np.array([float.fromhex(x) for x in ([v] if isinstance(v, str) else v)]) for v in (before, now))
    except (TypeError, ValueError):
        return False
    with np.errstate(invalid="ignore"):
        return one.shape == other.shape and bool(np.all((one == other) | (np.abs(one - other) <= within * np.abs(one))))


def _differences(before: Row) -> list[str]:
    few()
    return differences(before)


def main() -> int:
    with ProcessPoolExecutor() as pool:
        if "--make" in sys.argv:
            made = list(pool.map(row, range(ROWS), chunksize=4))
            about = {"version": airpool.__version__, "draws": DRAWS, "cells": CELLS}
            lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in made)
            PATH.write_text(f'{json.dumps(about)[:-1]}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")
            return 0
        wrong = {i: each for i, each in enumerate(pool.map(_differences, rows(), chunksize=4)) if each}
    for i, each in wrong.items():
        print(i, *each, sep="\n  ")
    print(f"{ROWS - len(wrong)} of {ROWS} rows agree to 1e-9")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
