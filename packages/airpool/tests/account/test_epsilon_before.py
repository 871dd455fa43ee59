"""Every privacy number equals the one before the rebuilding (commit 95a01e8): 183 networks over all options.

A row of epsilon_before.json has a network file with its claim, and what was found: `epsilon`, `local` and `lower` per
device (one value where all agree; `lower` only where it differs from `epsilon`), `object`, and in some rows
`if_absent`, `realised` at an `alignment`, and `calibrated` noise.

Networks of that time sent one number in each use of the channel, now it is two. Where channels were not known exactly,
own noise alone counted. Now others' noise counts too (howto/radio): there ε must not have risen, and the rest is as it
was. Long streams of Scheme 2.1 are bounded more tightly since (issue 28, privacy/renyi.py): there ε must not have
risen, nor lie below its lower end.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee, realised_epsilon
from airpool.account.received import aggregate
from airpool.network import Claim, Network, Threshold
from airpool.network.file import parse, parse_claim

pytestmark = pytest.mark.usefixtures("few_draws", "few_cells")
ROWS = json.loads(Path(__file__).with_name("epsilon_before.json").read_text(encoding="utf-8"))


def agree(found, before, *, at_most: bool = False):
    found, before = np.atleast_1d(found), np.array([float(x) for x in np.atleast_1d(before)])
    before = np.broadcast_to(before, found.shape)
    if at_most:
        assert np.all(found <= before * (1 + 1e-9))
    else:
        np.testing.assert_allclose(found, before, rtol=1e-9, atol=0)


def asked(row) -> tuple[Network, Claim]:
    return parse(row["network"]), parse_claim(row["network"])


def counted_since(row) -> bool:
    """Whether others' noise counts although channels are not known exactly."""
    return aggregate(*asked(row)).strength is not None


def tightened_since(network, claim) -> bool:
    """Whether moments are looked at as well: a stream whose data chooses whether a device transmits."""
    return isinstance(network.scheme, Threshold) and claim.inferences >= 16


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(ROWS.index(row)))
def test_epsilon_is_what_it_was(row):
    (network, claim), fewer = asked(row), counted_since(row)
    report = guarantee(network, claim)
    tightened = tightened_since(network, claim)
    agree(report.epsilon, row["epsilon"], at_most=fewer or tightened)
    if report.epsilon_at_least is not None:
        assert np.all(report.epsilon_at_least <= report.epsilon)
    agree(report.epsilon_local, row["local"], at_most=tightened)
    agree(report.epsilon_object, row["object"])
    if report.epsilon_lower is not None:
        agree(report.epsilon_lower, row.get("lower", row["epsilon"]), at_most=fewer)
    if "if_absent" in row:
        before = row["if_absent"]  # one number where own noise alone counted
        agree(report.epsilon_if_absent, before[0] if fewer else before, at_most=fewer)
    if "realised" in row:
        # Which were of the devices' own noise, with nobody named.
        bare = replace(claim, colluding=(), credit_channel_noise=False, live=False)
        agree(realised_epsilon(network, row["alignment"], bare), row["realised"])


def test_most_rows_are_compared_to_the_last_digit():
    assert sum(counted_since(row) for row in ROWS) < 0.15 * len(ROWS)


@pytest.mark.parametrize("row", [row for row in ROWS if "calibrated" in row], ids=lambda row: str(ROWS.index(row)))
def test_calibrated_noise_is_what_it_was(row):
    want = dict(row["calibrated"])
    before = want.pop("noise_std")
    found = calibrate(*asked(row), **want).devices.noise_std
    agree(found, before, at_most=counted_since(row))
