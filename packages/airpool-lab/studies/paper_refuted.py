"""The paper's Theorem 1 refuted by attack: `python -m studies.paper_refuted [--fresh]`.

Prints the table of theory/guarantee §5.1 from results/paper-refuted.json and copies it as CSV to docs/figures; --fresh
plays the games again, in minutes. Removal is the paper's definition of neighbours: device 0 is there, or it
is not, and its noise with it. r = 784, σ where Theorem 1 (quadratic slack) claims ε = 1, 2 and 3.98, all else as in the
paper (K = 12, p = .9, w = 1/12, C = 100, δ = δ′ = 1e-5), an ideal channel; the receiver's noise, which the theorem does
not count, is left out. The attacker sees the sum and nothing else: who takes part is hidden. Two
scores: the received energy ‖y‖², and the exact likelihood ratio. The same attacker plays against the same σ under cover
noise, where the neighbour is a device whose feature is zero. The sums come from the code that transmits; bounds hold
with a confidence of 99 % each, at the δ̃ of the theorem.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.stats import binom

from airpool import Claim, Network, guarantee
from airpool._support.arrays import Floats
from airpool._support.rounding import shown_below
from airpool.account import theorem1
from airpool.evaluation.audit.bound import audit
from airpool.network import Devices, Neighbours
from airpool.protocol.simulation import Received, receive
from airpool_lab.sweep import run
from studies.tables import FIGURES, RESULTS, copy_as_csv, rows, save

DEVICES, DIMENSION, PARTICIPATION, CLIP, DELTA = 12, 784, 0.9, 100.0, 1e-5
WEIGHT = 1 / DEVICES
CLAIMS = (1.0, 2.0, 3.98)
CONFIDENCE = 0.99
# Runs a side: enough for each claim.
RUNS = {"none": (40_000, 40_000, 400_000), "cover": (40_000, 40_000, 100_000)}
# Signals in memory at a time: the GPU's, or a processor's cache.
BATCH = 2**28 if torch.cuda.is_available() else 2**20


def claim(std: float) -> theorem1.PaperClaim:
    """Theorem 1 at the paper's defaults and this σ."""
    weight = np.full(DEVICES, WEIGHT)
    return theorem1.claim(weight=weight, clip_norm=CLIP, noise_std=std, participation=PARTICIPATION, delta=DELTA)


def noise_for(epsilon: float) -> float:
    """σ at which Theorem 1 claims this ε."""
    return float(brentq(lambda std: float(claim(std).epsilon[0]) - epsilon, 0.5, 500.0, xtol=1e-9))


def network(std: float, *, count: int = DEVICES, cover: bool = False, dimension: int = DIMENSION) -> Network:
    """The paper's network, or what is left of it."""
    return Network(
        Devices(count, weight=WEIGHT, clip_norm=CLIP, noise_std=std, participation=PARTICIPATION),
        dimension=dimension,
        cover_noise=cover,
    )


@dataclass(frozen=True, eq=False)
class Sum:
    """All that a likelihood depends on, of n received sums y: ‖y‖², and ⟨y, z/‖z‖⟩ along device 0's feature."""

    energy: Floats
    along: Floats


def transmitted(net: Network, features: Floats, runs: int, rng: np.random.Generator) -> Received:
    """Inferences on features (K, r) through the code that transmits, on the GPU where there is one."""
    home = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    latents = torch.as_tensor(features, dtype=torch.float32, device=home)[None]
    source = torch.Generator(home).manual_seed(int(rng.integers(2**62)))
    return receive(latents, net, rng=source, trials=runs, path="full")


def received(net: Network, features: Floats, runs: int, rng: np.random.Generator) -> Sum:
    """Sums of this network; device 0's feature lies along all coordinates."""
    y = transmitted(net, features, runs, rng).estimate[0].double()
    energy, along = (y * y).sum(dim=1), y.sum(dim=1) / y.shape[1] ** 0.5
    return Sum(energy.cpu().numpy(), along.cpu().numpy())


def log_likelihood(seen: Sum, std: float, *, dimension: int, present: bool, cover: bool, feature: bool) -> Floats:
    """ln of the density of y with hidden participation, up to a constant: a mixture over who transmits.

    present: whether device 0 is there. cover: everybody sends noise. feature: whether device 0 has one.
    """
    others, shift = DEVICES - 1, WEIGHT * CLIP * feature
    terms: list[Floats] = []

    def add(probability: float, senders: int, mean: float) -> None:
        v = max(senders, 1e-6) * std**2  # nobody transmits once in 10¹¹ times
        distance = seen.energy - 2 * mean * seen.along + mean**2
        terms.append(np.log(probability) - distance / (2 * v) - dimension / 2 * np.log(v))

    if cover:
        add(PARTICIPATION, DEVICES, shift)
        add(1 - PARTICIPATION, DEVICES, 0.0)
        return np.logaddexp.reduce(terms)
    for n, mass in enumerate(binom.pmf(np.arange(others + 1), others, PARTICIPATION)):
        if present:
            add(float(mass) * PARTICIPATION, n + 1, shift)
            add(float(mass) * (1 - PARTICIPATION), n, 0.0)
        else:
            add(float(mass), n, 0.0)
    return np.logaddexp.reduce(terms)


def likelihood_ratio(std: float, *, cover: bool, dimension: int = DIMENSION) -> Callable[[Sum], Floats]:
    """The best score: with device 0 and its feature against without (cover noise: against a feature of zero)."""

    def score(seen: Sum) -> Floats:
        how: Any = {"dimension": dimension, "cover": cover}
        here = log_likelihood(seen, std, present=True, feature=True, **how)
        return here - log_likelihood(seen, std, present=cover, feature=False, **how)

    return score


def attacked(*, seed: int, claimed: float, protection: str, runs: int) -> dict[str, Any]:
    """Both attacks on the same sums, `runs` a side. protection: none (removal), or cover (zero-out)."""
    std, cover = noise_for(claimed), protection == "cover"
    said, net, rng = claim(std), network(std, cover=cover), np.random.default_rng(seed)
    features = np.zeros((DEVICES, DIMENSION))
    features[0] = CLIP / DIMENSION**0.5
    without = (net, 0 * features) if cover else (network(std, count=DEVICES - 1), features[1:])
    worlds = {True: _sums(net, features, runs, rng), False: _sums(*without, runs, rng)}
    delta, found = float(said.delta[0]), dict[str, Any]()
    for attack, score in (("energy", lambda seen: seen.energy), ("likelihood", likelihood_ratio(std, cover=cover))):
        used = {True: 0, False: 0}

        def next_sums(world: bool, n: int, _: np.random.Generator, used: dict[bool, int] = used) -> Sum:
            at = slice(used[world], used[world] + n)
            used[world] += n
            return Sum(worlds[world].energy[at], worlds[world].along[at])

        how: Any = {"runs": runs, "rng": rng, "delta": delta, "confidence": CONFIDENCE, "score": score}
        got = audit(next_sums, True, False, **how, claimed_epsilon=float(said.epsilon[0]), batch=runs)
        found |= {attack: got.epsilon_lower, f"{attack}_refutes": got.violated, "ceiling": got.ceiling}
    asked = Claim(delta=delta, neighbours=Neighbours.ZERO_OUT if cover else Neighbours.REMOVE)
    exact = guarantee(net, asked).worst
    return found | {"exact": exact, "noise_std": std, "delta": delta, "confidence": CONFIDENCE}


def _sums(net: Network, features: Floats, runs: int, rng: np.random.Generator) -> Sum:
    size = max(1, BATCH // features.size)
    parts = [received(net, features, min(size, runs - done), rng) for done in range(0, runs, size)]
    return Sum(np.concatenate([part.energy for part in parts]), np.concatenate([part.along for part in parts]))


def points() -> list[dict[str, Any]]:
    return [
        {"claimed": claimed, "protection": protection, "runs": runs}
        for protection, tried in RUNS.items()
        for claimed, runs in zip(CLAIMS, tried, strict=True)
    ]


def table() -> list[str]:
    """The table of docs/theory/guarantee.md, in Markdown."""
    head = ["Theorem 1 claims", "σ", "removal: energy shows", "likelihood shows", "exact", "cover, zero-out: energy"]
    lines = [f"| {' | '.join([*head, 'likelihood', 'exact'])} |", "|" + " --- |" * 8]
    for claimed in CLAIMS:
        cells = [f"{claimed:g}", f"{noise_for(claimed):.2f}"]
        for protection in RUNS:
            (row,) = rows(RESULTS / "paper-refuted.json", claimed=claimed, protection=protection)
            cells += [shown_below(row["energy"]), shown_below(row["likelihood"]), f"{row['exact']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="play the games again")
    if parser.parse_args().fresh:
        found = run(attacked, points(), command="python -m studies.paper_refuted --fresh")
        save(found, RESULTS / "paper-refuted.json")
    copy_as_csv(["paper-refuted"], RESULTS, FIGURES)
    print("\n".join(table()))


if __name__ == "__main__":
    main()
