"""Every row of "who" in a statement, under every setting: its bound is no less than that of what the reader knows.

The adversary also knows the answer, its own noise, the number of slots: the columns of the table in
docs/howto/security.md, "Who reads what", which is compared with the code.
"""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from airpool.account.guarantee import guarantee
from airpool.account.plain_words import Reader, readers
from airpool.account.report import PrivacyReport
from airpool.account.statement import bounds
from airpool.network import Adversary, Channel, Claim, Network, NetworkError, Slots

from .settings import SETTINGS, asked

pytestmark = pytest.mark.usefixtures("few_draws", "few_cells")
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "security.md"
ACCESSES = {"superposed": "in the air", "orthogonal": "one by one", "secure": "secure sum"}


def like(network: Network, access: str) -> Network | None:
    """The network with another access, without what that refuses; None where it cannot be made."""
    try:
        if access == "secure":
            return replace(network, adversary=Adversary(), channel=Channel(access="secure"))
        return replace(network, channel=replace(network.channel, access=access))
    except NetworkError:
        return None


def every_network() -> dict[str, tuple[Network, Claim]]:
    """Of every setting, with the claim for one inference; a statement is about devices that may be honest."""
    found: dict[str, tuple[Network, Claim]] = {}
    for name, access in product(SETTINGS, ACCESSES):
        after, claim = asked(name)[1]
        claim = replace(claim, inferences=1, colluding=())
        radio = name.startswith(("channel.", "adversary.", "devices.power", "devices.path"))
        if access == after.channel.access or not radio:
            network = after if access == after.channel.access else like(after, access)
            found |= {} if network is None else {f"{name}, {access}": (network, claim)}
    return found


NETWORKS = every_network()


def worst(report: PrivacyReport, *, alone: bool = False) -> tuple[float, float]:
    if alone:
        return float(np.max(report.epsilon_local)), float(np.max(report.odds[0].local))
    return report.worst, report.odds[0].worst


def needed(reader: Reader, report: PrivacyReport) -> tuple[float, float]:
    """ε and odds that the reader's knowledge makes possible, from the network alone."""
    hears = reader.knows_answer or reader.hears_slots
    if not hears:
        return 0.0, 0.5
    if not reader.own_noise:
        return worst(report)
    try:
        more = replace(report.network, colluders=report.network.colluders + 1)
        return worst(guarantee(more, report.claim))
    except NetworkError:
        return worst(report, alone=True)


@pytest.mark.parametrize("name", NETWORKS)
def test_no_row_is_below_what_its_reader_knows(name):
    try:
        report = guarantee(*NETWORKS[name])
    except ValueError:
        pytest.skip("refused")
    for reader, epsilon, odds in bounds(report):
        least, guessed = needed(reader, report)
        assert epsilon >= least * (1 - 1e-9), reader.name
        assert odds >= guessed * (1 - 1e-9), reader.name
        assert reader.hears_slots <= (report.network.slots.count > 1)


def rows() -> list[list[str]]:
    """Cells of the table of the page, without its head."""
    text = PAGE.read_text("utf-8").partition("## Who reads what")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_table_of_the_page_is_that_of_the_code():
    told = {(row[0], row[1]): row[2:] for row in rows()}
    seen = set[tuple[str, str]]()
    for (before, claim), several in product(NETWORKS.values(), (False, True)):
        network = replace(before, slots=Slots(4 if several else 1))
        for each in readers(network, claim):
            at = ACCESSES[network.channel.access], re.sub(r"with \d+ antennas?", "with antennas", each.name)
            answer, own, slots, bound = told[at]
            seen.add(at)
            assert (answer, own) == ("yes" if each.knows_answer else "no", "yes" if each.own_noise else "no"), at
            assert (slots == "yes" and several) == each.hears_slots, at
            assert each.bound in bound, at
    assert seen == set(told)
