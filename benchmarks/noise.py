"""How fast a device draws live noise, beside what NumPy and the operating system need in the same run."""

import os
import time
from collections.abc import Callable

import numpy as np

from airpool.privacy.discrete_gaussian import table
from airpool.privacy.noise import live_noise


def rows() -> list[tuple[str, str]]:
    """(what, measured) pairs; each is the median of several repetitions on one core."""
    rng = np.random.default_rng(0)
    size, feature = 2**20, 25_088
    live, numpy, entropy = seconds(
        lambda: live_noise(0.05, size), lambda: rng.normal(0, 0.05, size), lambda: os.urandom(16 * size)
    )
    large, small = seconds(lambda: live_noise(0.05, feature), lambda: live_noise(0.05, 64))
    table.cache_clear()
    (first,) = seconds(table, repeat=1)
    return [
        ("noise: live, std 0.05", f"{size / live / 1e6:.1f} M samples/s"),
        ("noise: numpy Generator.normal (no guarantee)", f"{size / numpy / 1e6:.1f} M samples/s"),
        ("noise: os.urandom alone, the 16 bytes of a live sample", f"{size / entropy / 1e6:.1f} M samples/s"),
        ("noise: live, one feature of 25,088", f"{large * 1e3:.2f} ms"),
        ("noise: live, one latent of 64", f"{small * 1e6:.0f} µs"),
        ("noise: table, once per process", f"{first * 1e3:.0f} ms"),
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


if __name__ == "__main__":
    for what, measured in rows():
        print(f"{what:<60} {measured}")
