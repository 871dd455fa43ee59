"""A device without SciPy has the same ε as one with it, over every setting that runs as processes."""

import json
import subprocess
import sys
from itertools import product

import pytest

from airpool.network import file as network_file
from airpool.network.network import Network
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.spending import Use, total

# As in the clean environment of a device (packages/airpool-device).
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("scipy", "torch"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "scipy" else found(name, package)

import json
from airpool._support import special
from airpool.network.file import parse, parse_claim
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.spending import Use, total
assert special.ndtr.__module__ == "airpool._support.plain"
for text in json.load(sys.stdin):
    one, relation = mechanism(parse(text), device=1, quorum=3), parse_claim(text).neighbours
    print(json.dumps([total({one: use}, 1e-5, relation) for use in (1, 50, Use(50, 7))]), flush=True)
assert "scipy" not in sys.modules
"""

CHANNELS = {
    "none": "",
    "rician": 'fading = "rician"\nnoise_std = 0.01',
    "rayleigh": 'fading = "rayleigh"\nnoise_std = 0.01\noutage = 0.1',
    "backoff": 'fading = "rician"\npower_rule = "backoff"\nnoise_std = 0.01',
    "nakagami": 'fading = "nakagami:m=2.5"\nnoise_std = 0.01',
    "log-normal": 'fading = "log-normal:std_db=6"\nnoise_std = 0.01',
    "csi error": 'fading = "rician"\ncsi_error_std = 0.1\nnoise_std = 0.01',
    "phase error": "phase_error_std = 0.05\nnoise_std = 0.01",
    "errors": 'fading = "rician"\nphase_error_std = 0.05\nnoise_std = 0.01',
    "antennas": 'fading = "rayleigh"\nantennas = 2\nnoise_std = 0.01',
    "secure": 'access = "secure"',
}
SCHEMES = {
    "1": 'name = "1"',
    "2.1": 'name = "2.1"\nthreshold = 1.5\nscore_noise_std = 0.3162',
    "2.2": 'name = "2.2"\nnum_selected = 3\nscore_noise_std = 0.3162',
}
QUICK = [("none", "1", "zero-out", 0.9), ("none", "2.1", "zero-out", 1.0), ("none", "2.2", "replace", 1.0)]
QUICK += [("rician", "1", "zero-out", 0.9), ("csi error", "1", "zero-out", 1.0), ("secure", "1", "zero-out", 0.9)]
ALL = [
    (channel, scheme, neighbours, p)
    for channel, scheme, neighbours, p in product(CHANNELS, SCHEMES, ("zero-out", "replace", "remove"), (1.0, 0.8))
    if scheme == "1" or (p == 1 and neighbours != "remove")
]


def text(channel, scheme, neighbours, participation, cover="false"):
    return f"""version = 3
dimension = 40
cover_noise = {cover}
[claim]
neighbours = "{neighbours}"
[devices]
count = 4
noise_std = 0.3
participation = {participation}
[channel]
{CHANNELS[channel]}
[scheme]
{SCHEMES[scheme]}
"""


def same(texts):
    """Asserts that totals agree with and without SciPy to 1e-10 of their value."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], input=json.dumps(texts), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(texts)
    for each, without in zip(texts, found, strict=True):
        relation = network_file.parse_claim(each).neighbours
        one = mechanism(network_file.parse(each), device=1, quorum=3)
        uses: list[Use | int] = [1, 50, Use(50, 7)]
        assert without == pytest.approx([total({one: use}, 1e-5, relation) for use in uses], rel=1e-10), each


def test_totals_agree_without_scipy():
    same([text(*setting) for setting in QUICK])


@pytest.mark.check
def test_totals_agree_without_scipy_in_every_setting():
    covered = [text(channel, "1", "zero-out", 0.8, "true") for channel in CHANNELS]
    same([text(*setting) for setting in ALL] + covered)


def test_mechanisms_have_one_digest_with_and_without_scipy():
    one = mechanism(Network.uniform(num_devices=4), device=1)
    code = WITHOUT.partition("for text in")[0] + (
        "from airpool.network import Network\nprint(mechanism(Network.uniform(num_devices=4), device=1).digest)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == one.digest
