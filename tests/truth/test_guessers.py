"""No reader of a statement guesses right more often than its row says: Bayes guessers in random networks.

guesses.json has 500 networks, run once: what each row said, and what its guesser reached in 10^5 guesses.

    python -m tests.truth.test_guessers      makes it again, and says what is above its row
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airpool
from airpool.account.plain_words import Reader
from airpool.account.statement import bounds
from airpool.network import Adversary, Claim, Network, NetworkError, Slots, file
from airpool.radio.beam import beam
from airpool.radio.link import link_of

from .any_network import any_network
from .guessers import Guesser, Knowledge
from .radio import Radio
from .snapshot import few

PATH = Path(__file__).with_name("guesses.json")
NETWORKS, GUESSES = 500, 100_000
# Standard errors by which a share may be above its row.
FAR = 4.0


def drawn(seed: int) -> tuple[Network, Claim]:
    """One inference of a random network in which something can be guessed, often of several slots."""
    network, claim = any_network(seed)
    rng = np.random.default_rng([45, seed])
    count, many = network.devices.count, network.channel.access == "secure"
    slots = int(rng.choice([1, 1, 2, 8, 64 if many or count < 4 else 16]))
    slots = slots if count * slots < 400 and network.channel.antennas == 1 else 1
    std = np.array(network.devices.column("noise_std")) * np.sqrt(slots / claim.inferences) * rng.uniform(0.5, 2)
    listening = network.channel.access == "superposed" and count < 25
    antennas, knows = (int(rng.integers(1, 3)), bool(rng.random() < 0.8)) if listening else (0, True)
    network = replace(
        network,
        devices=replace(network.devices, noise_std=tuple(std.tolist())),
        adversary=Adversary(antennas),
        slots=Slots(slots, sure=float(rng.uniform(0.6, 0.95)), redrawn=bool(rng.random() < 0.6)),
    )
    return network, Claim(claim.delta, claim.neighbours, knows_answer=knows)


def knowledge(reader: Reader) -> Knowledge:
    """What this row's reader has."""
    known: dict[str, Any] = {"slots": reader.hears_slots, "own_noise": reader.own_noise, "answer": reader.knows_answer}
    if reader.bound == "own":
        return Knowledge("own")
    if reader.bound == "antennas":
        return Knowledge("antennas", answer=reader.knows_answer)
    if reader.name == "the ranking server":
        return Knowledge("scores")
    return Knowledge("sum") if reader.name == "the server" else Knowledge("nothing", **known)


def looked_at(seed: int, guesses: int = GUESSES) -> dict[str, Any]:
    """What every row says, and what its guesser reaches."""
    few()
    network, claim = drawn(seed)
    row: dict[str, Any] = {"seed": seed, "network": file.dump(network, claim)}
    try:
        report = airpool.guarantee(network, claim)
        rows = bounds(report)
    except (ValueError, NetworkError) as error:
        return row | {"refused": str(error)}
    said = {}
    for i, (reader, _, odds) in enumerate(rows):
        found = report.odds[0].local if reader.bound == "own" else report.odds[0].device
        radio = Radio(network, 1.0 if network.channel.access == "secure" else link_of(network).gamma, beam)
        guesser = Guesser(radio, int(np.argmax(found)), np.random.default_rng([seed, i]))
        said[reader.name] = [odds, guesser.reached(knowledge(reader), guesses)]
    return row | {"rows": said}


def above(row: dict[str, Any], guesses: int = GUESSES) -> list[str]:
    """The rows whose guesser is above what they say by more than chance."""
    return [
        f"seed {row['seed']}, {name}: {said:.5f} said, {reached:.5f} reached"
        for name, (said, reached) in row.get("rows", {}).items()
        if reached > said + FAR * np.sqrt(max(said * (1 - said), 0.25 / guesses) / guesses)
    ]


def test_no_guesser_was_above_its_row_in_500_networks():
    rows = json.loads(PATH.read_text(encoding="utf-8"))
    assert len(rows) == NETWORKS
    assert [line for row in rows for line in above(row)] == []
    pairs = [pair for row in rows for pair in row.get("rows", {}).values()]
    assert len(pairs) > 4 * NETWORKS
    # A guesser that reaches nothing would pass for nothing: most close half of the way from ½ to what is said.
    close = [reached - 0.5 > 0.5 * (said - 0.5) for said, reached in pairs if 0.51 < said < 0.99]
    assert np.mean(close) > 0.5


@pytest.mark.check
@pytest.mark.parametrize("seed", range(0, NETWORKS, 20))
def test_no_guesser_is_above_its_row(seed, few_draws, few_cells):
    assert above(looked_at(seed)) == []


def main() -> int:
    with ProcessPoolExecutor() as pool:
        rows = list(pool.map(looked_at, range(NETWORKS), chunksize=2))
    wrong = [line for row in rows for line in above(row)]
    PATH.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n", encoding="utf-8")
    print(*wrong, sep="\n")
    refused = sum("refused" in row for row in rows)
    print(f"{sum(len(row.get('rows', {})) for row in rows)} rows of {NETWORKS} networks ({refused} refused by name)")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
