"""Start-up of `airpool epsilon`, and what its two shortcuts bring: CPU time of alternating runs."""

import os
import subprocess
import sys
from statistics import median

from . import Row

# Code that runs before the command; each of the last two turns one shortcut off.
_VARIANTS = {
    "as it is": "",
    "if it imported pydantic too": "core.build_runtime_param = partial(core.build_runtime_param)",
    "if it imported numpy.f2py and numpy.testing too": "epsilon.quick = lambda: None",
}
_RUN = """
import sys
from functools import partial
from typer import core
from airpool.cli import epsilon, main
{}
sys.argv = ["airpool", "epsilon", "--devices", "12"]
main()
"""

_BARE = "import numpy, scipy.special; print(scipy.special.ndtr(numpy.linspace(0, 1, 12)))"


def cpu_seconds(code: str, *, whole: bool = False) -> float:
    """User and system time of one process that runs the command after this code, or this code as a whole."""
    start = os.times()
    run = code if whole else _RUN.format(code)
    subprocess.run([sys.executable, "-c", run], check=True, stdout=subprocess.DEVNULL)
    end = os.times()
    return end.children_user + end.children_system - start.children_user - start.children_system


def rows(rounds: int = 20) -> list[Row]:
    took = [[cpu_seconds(before) for before in _VARIANTS.values()] for _ in range(1 + rounds)][1:]
    as_it_is = median(each[0] for each in took)
    bare = median(cpu_seconds(_BARE, whole=True) for _ in range(rounds))
    beside = "a script that imports NumPy and scipy.special"
    found = [Row("start", "airpool epsilon --devices 12", as_it_is, "s", "CPU time", rival=bare, beside=beside)]
    for k, what in list(enumerate(_VARIANTS))[1:]:
        found.append(Row("start", f"- {what}", median(each[k] / each[0] for each in took), "times the time"))
    return found
