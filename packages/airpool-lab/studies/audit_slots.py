"""An adversary that adapts over slots, and faults in one slot of four: `python -m studies.audit_slots [--fresh]`.

Prints the two tables of howto/slots.md from results/audit-slots*.json and copies them as CSV to docs/figures; --fresh
plays all games again, in minutes. Every game is played on the code that transmits, and its bounds on ε
and μ hold together with a confidence of 99.99 %. The auditor knows the network as it claims to be.
"""

import argparse
import copy
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from airpool import Claim, Network
from airpool._support.rounding import shown_below
from airpool.evaluation.audit.path import Overheard, World
from airpool.network import Slots
from airpool.protocol import device
from airpool.protocol.simulation import Drawn
from airpool_lab.audit import adaptive
from airpool_lab.audit.adaptive import (
    ASKING_AGAIN,
    CHARGING,
    CONFIDENCE,
    DROPPING,
    STOPPING,
    TURNING,
    AdaptiveGame,
    Strategy,
    Transmit,
    played,
    transmission,
)
from airpool_lab.sweep import run
from studies.tables import FIGURES, RESULTS, copy_as_csv, rows, save

RUNS = 100_000  # a side
FAULTY = 2  # the third slot of four
DRAWN = ("anew", "once")


def network(kind: str) -> Network:
    """Networks of inferences of four slots, two on the same view.

    gaussian: B = 2 over both, if one of four devices drops out. Mixtures: four devices that take part half of the time,
    seen or under cover noise (hidden), drawn anew in each slot or once.
    """
    if kind == "gaussian":
        std = float(np.sqrt(8 / 3) / 4 / 2)  # μ² of a slot is (1/4)²/(3σ²), and eight of them are 4
        return Network.uniform(num_devices=4, noise_std=std, dimension=2, dropouts=1, slots=Slots(4))
    hidden, once = "hidden" in kind, "once" in kind
    return Network.uniform(
        num_devices=4,
        noise_std=0.25,
        participation=0.5,
        dimension=2,
        slots=Slots(4, redrawn=not once),
        cover_noise=hidden,
    )


def claim(kind: str) -> Claim:
    """Of two inferences; for mixtures at δ = .01, which so many runs can show."""
    return Claim(inferences=2) if kind == "gaussian" else Claim(delta=0.01, inferences=2)


def attacked(fault: str) -> tuple[Network, Claim, Strategy]:
    """The network in which a fault is planted, the claim on one inference, and the strategy that is to find it."""
    if fault == "coin kept":
        # μ of a slot is 2 where the device takes part, one time in five.
        std = 1 / 2 / 2 / 2**0.5
        net = Network.uniform(
            num_devices=2, noise_std=std, participation=0.2, dimension=1, cover_noise=True, slots=Slots(4)
        )
        return net, Claim(delta=0.03), adaptive.never_stops
    net = Network.uniform(num_devices=4, noise_std=0.125, dimension=1, slots=Slots(4))  # B = 2
    return net, Claim(), adaptive.turns_the_view if fault == "noise repeated" else adaptive.never_stops


def quieter(network: Network, factor: float, only: int | None = None) -> Network:
    """The network with that much of the noise of all devices, or of one alone."""
    std = [s * (factor if only in (None, k) else 1.0) for k, s in enumerate(network.devices.column("noise_std"))]
    return replace(network, devices=replace(network.devices, noise_std=tuple(std)))


def planted(fault: str, network: Network) -> Transmit:
    """The path with a fault in the third slot of each run."""
    honest, before = transmission(network.one_slot), dict[str, Any]()

    def transmit(
        network: Network, world: World, runs: int, rng: np.random.Generator, *, drawn: Drawn | None, slot: int
    ) -> Overheard:
        def sent(sender: Network = network, source: np.random.Generator = rng, kept: Drawn | None = drawn) -> Overheard:
            return honest(sender, world, runs, source, drawn=kept, slot=slot)

        if slot != FAULTY:
            before["rng"] = copy.deepcopy(rng)
            got = sent()
            before["drawn"] = got.drawn
            return got
        match fault:
            case "half the noise":
                return sent(quieter(network, 0.5))
            case "own noise missing":
                return sent(quieter(network, 0.0, only=0))
            case "no clip":
                with patch.object(device, "clipped", lambda latents, _: latents):
                    return sent()
            case "noise repeated":
                return sent(source=before["rng"])
            case "coin kept":
                return sent(kept=before["drawn"].of(np.arange(runs)))
            case _:
                raise ValueError(f"fault={fault!r} must be one of {', '.join(FAULTS)}")

    return transmit


# Each fault, and the numbers of runs a side that were tried.
FAULTS = {
    "half the noise": (1_000, 4_000, 16_000),
    "own noise missing": (16_000, 64_000, 256_000),
    "no clip": (100, 1_000),
    "noise repeated": (1_000, 4_000),
    "coin kept": (64_000, 400_000, 1_000_000),
}
REPEATED = 5  # games with a fault, each from a seed of its own


def game(*, seed: int, kind: str, strategy: str, runs: int) -> dict[str, Any]:
    """One strategy against a network without faults: what it shows, what is claimed, what so many runs can show."""
    return _told(played(network(kind), claim(kind), 0, getattr(adaptive, strategy), runs=runs, seed=seed))


def faulty(*, seed: int, fault: str, runs: int) -> dict[str, Any]:
    """Games with a fault: how many of them catch it, and the weakest of them."""
    net, claim, strategy = attacked(fault)
    path = planted(fault, net)
    found = [played(net, claim, 0, strategy, runs=runs, seed=seed + n, transmit=path) for n in range(REPEATED)]
    weakest = min(found, key=lambda each: each.report.mu_lower or each.report.epsilon_lower)
    return _told(weakest) | {"games": REPEATED, "caught": sum(each.report.violated for each in found)}


def _told(found: AdaptiveGame) -> dict[str, Any]:
    report = found.report
    names = ("epsilon_lower", "claimed_epsilon", "ceiling", "mu_lower", "claimed_mu", "mu_ceiling", "delta", "violated")
    own = {"played": found.strategy, "mean_slots": found.mean_slots, "slots": found.slots, "confidence": CONFIDENCE}
    return own | {name: getattr(report, name) for name in names}


def points() -> list[dict[str, Any]]:
    """Every strategy against every kind of network that allows it."""
    every = STOPPING + ASKING_AGAIN
    gaussian = STOPPING + ASKING_AGAIN[:1] + DROPPING + CHARGING + TURNING
    chosen = {"gaussian": gaussian} | {f"{seen}, {drawn}": every for seen in ("seen", "hidden") for drawn in DRAWN}
    return [{"kind": kind, "strategy": s.__name__, "runs": RUNS} for kind, allowed in chosen.items() for s in allowed]


def climbs() -> list[dict[str, Any]]:
    """Every fault, with more and more runs."""
    return [{"fault": fault, "runs": runs} for fault, tried in FAULTS.items() for runs in tried]


def measure() -> None:
    command = "python -m studies.audit_slots --fresh"
    save(run(game, points(), command=command), RESULTS / "audit-slots.json")
    save(run(faulty, climbs(), command=command), RESULTS / "audit-slots-faults.json")


def told() -> list[str]:
    """The tables of docs/howto/slots.md, in Markdown."""
    found = rows(RESULTS / "audit-slots.json")
    kinds, names = (list(dict.fromkeys(row[key] for row in found)) for key in ("kind", "played"))
    claims = {row["kind"]: row["claimed_mu"] or row["claimed_epsilon"] for row in found}
    heads = [f"{kind}: {'μ' if kind == 'gaussian' else 'ε'} ≥ (claimed {claims[kind]:.3f})" for kind in kinds]
    lines = [_row(["strategy", *heads]), "|" + " --- |" * (1 + len(kinds))]
    for name in names:
        mine = {row["kind"]: row for row in found if row["played"] == name}
        lines.append(_row([name, *(_shown(mine[kind]) if kind in mine else "" for kind in kinds)]))
    head = ["fault in the third slot", "runs a side", "caught", "at least", "claimed", "ceiling"]
    lines += ["", _row(head), "|" + " --- |" * 6]
    for fault in FAULTS:
        mine = rows(RESULTS / "audit-slots-faults.json", fault=fault)
        r = next((each for each in mine if each["caught"] == each["games"]), mine[-1])
        name, low, claim, most = ("ε", "epsilon_lower", "claimed_epsilon", "ceiling")
        if r["mu_lower"] is not None:
            name, low, claim, most = "μ", "mu_lower", "claimed_mu", "mu_ceiling"
        caught = f"{r['caught']} of {r['games']}"
        least = f"{name} ≥ {shown_below(r[low])}"
        lines.append(_row([fault, f"{r['runs']:,}", caught, least, f"{r[claim]:.3f}", f"{r[most]:.2f}"]))
    return lines


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(row: dict[str, Any]) -> str:
    return f"{shown_below(row['mu_lower'] or row['epsilon_lower'])} ({row['mean_slots']:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="play all games again")
    if parser.parse_args().fresh:
        measure()
    copy_as_csv(["audit-slots", "audit-slots-faults"], RESULTS, FIGURES)
    print("\n".join(told()))


if __name__ == "__main__":
    main()
