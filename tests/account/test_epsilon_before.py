"""Every privacy number equals the one before the rebuilding (commit 95a01e8): 210 networks over all options.

A row of epsilon_before.json has a network file, the options of `guarantee`, and what was found: `epsilon`, `local` and
`lower` per device (one value where all agree; `lower` only where it differs from `epsilon`), `object`, and in some rows
`if_absent`, `realised` at an `alignment`, and `calibrated` noise.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from airpool.account.calibration import calibrate
from airpool.account.guarantee import guarantee, realised_epsilon
from airpool.network_file import parse

ROWS = json.loads(Path(__file__).with_name("epsilon_before.json").read_text(encoding="utf-8"))


def agree(found, before):
    found, before = np.atleast_1d(found), np.array([float(x) for x in np.atleast_1d(before)])
    np.testing.assert_allclose(found, np.broadcast_to(before, found.shape), rtol=1e-9, atol=0)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(ROWS.index(row)))
def test_epsilon_is_what_it_was(row):
    network = parse(row["network"])
    report = guarantee(network, **row.get("options", {}))
    agree(report.epsilon, row["epsilon"])
    agree(report.epsilon_local, row["local"])
    agree(report.epsilon_object, row["object"])
    if report.epsilon_lower is not None:
        agree(report.epsilon_lower, row.get("lower", row["epsilon"]))
    if "if_absent" in row:
        agree(report.epsilon_if_absent, row["if_absent"])
    if "realised" in row:
        agree(realised_epsilon(network, row["alignment"]), row["realised"])


@pytest.mark.parametrize("row", [row for row in ROWS if "calibrated" in row], ids=lambda row: str(ROWS.index(row)))
def test_calibrated_noise_is_what_it_was(row):
    want = dict(row["calibrated"])
    before = want.pop("noise_std")
    options = {name: value for name, value in row.get("options", {}).items() if name != "live"}
    agree(calibrate(parse(row["network"]), **want, **options).devices.noise_std, before)
