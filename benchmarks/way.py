"""The way of an ε through the code: files and functions of airpool that `guarantee` calls once it is warm."""

import functools
import gc
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from airpool import Claim, Network, guarantee

from . import Row

# Network and claim of each row.
CASES: dict[str, tuple[dict[str, Any], Claim]] = {
    "twelve devices, p = .9": ({"participation": 0.9}, Claim()),
    "100 inferences": ({"participation": 0.9}, Claim(inferences=100)),
}


def way(network: Network, claim: Claim) -> tuple[int, int]:
    """Distinct files, and distinct (file, function), of all airpool packages; in the second call, no answer kept."""
    guarantee(network, claim)
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper) and str(each.__module__).startswith("airpool"):  # pyright: ignore[reportPrivateUsage]
            each.cache_clear()
    found = set[tuple[str, str]]()

    def called(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and "src" in path.parts and any(part.startswith("airpool") for part in path.parts):
            found.add((str(path), frame.f_code.co_name))

    sys.setprofile(called)
    try:
        guarantee(network, claim)
    finally:
        sys.setprofile(None)
    return len({path for path, _ in found}), len(found)


def rows() -> list[Row]:
    out = list[Row]()
    for name, (settings, claim) in CASES.items():
        files, functions = way(Network.uniform(num_devices=12, noise_std=0.05, **settings), claim)
        out.append(Row("way", f"guarantee, {name}: files", files, "files", limit=20.0))
        out.append(Row("way", f"guarantee, {name}: functions", functions, "functions", limit=80.0))
    return out
