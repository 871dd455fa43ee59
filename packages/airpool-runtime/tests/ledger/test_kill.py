"""kill -9 at any point: the ledger is never less than what was sent, and no inference is charged or sent twice."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
PROGRAM = Path(__file__).with_name("killing.py")


def killed(device, *arguments, batch=1):
    """Kills, and charges and sends that are left: killing.py has checked them against each other."""
    # In memory, where there is such a folder: a kill leaves the disk's cache, so waiting for the disk shows no more.
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        shutil.copy(device.key, folder)
        command = [sys.executable, PROGRAM, folder, str(batch), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    return said["kills"], said["sent"], said["charged"]


@pytest.mark.parametrize("batch", [1, 6])
def test_killed_at_random_moments(device, batch):
    kills, sent, charged = killed(device, "random", 60, 1, batch=batch)
    assert kills == 60
    assert 0 < sent <= charged


def test_killed_at_every_fiftieth_step(device):
    kills, sent, charged = killed(device, "steps", 50)
    assert kills >= 5
    assert 0 < sent <= charged


@pytest.mark.check
def test_killed_at_every_step(device):
    """Every call, line and return of the ledger's code from opening a new ledger to the end of the second inference."""
    kills, sent, charged = killed(device, "steps", 1)
    assert kills > 300
    assert 0 < sent < charged


@pytest.mark.check
def test_killed_at_every_third_step_of_batches(device):
    kills, sent, charged = killed(device, "steps", 3, batch=2)
    assert kills > 300
    assert 0 < sent < charged


@pytest.mark.check
def test_killed_thousands_of_times(device):
    for batch in (1, 6):
        kills, sent, charged = killed(device, "random", 1000, 2, batch=batch)
        assert kills == 1000
        assert 0 < sent <= charged
