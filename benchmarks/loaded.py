"""A loaded machine: CPU time of commands beside two busy loops, relative to the same on one thread."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import Row

_RADIO = "--devices 12 --noise-std 0.05 --fading rayleigh --server-antennas 2 --no-absent"
_COMMANDS = {
    "examples/own_data.py": [str(Path(__file__).parents[1] / "examples" / "own_data.py")],
    f"airpool epsilon {_RADIO}": ["-m", "airpool", "epsilon", *_RADIO.split()],
    "airpool theory": ["-m", "airpool", "theory"],
}


@contextmanager
def busy(loops: int = 2) -> Iterator[None]:
    """Keeps this many cores busy meanwhile."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()


def cpu_seconds(words: Sequence[str], **environment: str) -> float:
    """User and system time of one process, which may use all cores unless the environment says otherwise."""
    own = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    start = os.times()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, *words], env=own | environment, cwd=folder, check=True, capture_output=True)
    end = os.times()
    return end.children_user + end.children_system - start.children_user - start.children_system


def rows() -> list[Row]:
    found: list[Row] = []
    with busy():
        for name, words in _COMMANDS.items():
            alone, took = cpu_seconds(words, OMP_NUM_THREADS="1"), cpu_seconds(words)
            note = "CPU time beside two busy loops"
            found.append(Row("loaded", name, took, "s", note, 1.5 * alone, alone, "one thread"))
    return found
