"""How fast a device draws live noise, beside what NumPy and the operating system need in the same run."""

import os
import time
from collections.abc import Callable

import numpy as np

from airpool.privacy.discrete_gaussian import table
from airpool.privacy.noise import live_noise

from . import Row


def rows() -> list[Row]:
    """Medians of several repetitions on one core."""
    rng = np.random.default_rng(0)
    size, feature = 2**20, 25_088
    live, numpy, entropy = seconds(
        lambda: live_noise(0.05, size), lambda: rng.normal(0, 0.05, size), lambda: os.urandom(16 * size)
    )
    large, small, few = seconds(
        lambda: live_noise(0.05, feature), lambda: live_noise(0.05, 64), lambda: rng.normal(0, 0.05, 64), repeat=99
    )
    table.cache_clear()
    (first,) = seconds(table, repeat=1)
    what = f"live noise, {size:,} samples"
    return [
        Row("noise", what, live, "s", rival=numpy, beside="NumPy's Generator.normal, which promises nothing"),
        Row("noise", "- the same", live, "s", rival=entropy, beside="os.urandom alone, 16 bytes a sample"),
        Row("noise", "one feature of 25,088", large, "s"),
        Row("noise", "one latent of 64", small, "s", rival=few, beside="NumPy's Generator.normal"),
        Row("noise", "table, once per process", first, "s"),
    ]


def seconds(*calls: Callable[[], object], repeat: int = 9) -> list[float]:
    """Median time of each call; the calls take turns, so that a slow moment of the machine hits all of them."""
    times = np.empty((repeat, len(calls)))
    for row in times:
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            row[i] = time.perf_counter() - start
    return np.median(times, axis=0).tolist()
