"""How long it takes to design weights for devices with targets of their own, and how near the optimum they are."""

import numpy as np

from airpool import calibrate
from airpool._support.arrays import Floats
from airpool.evaluation.design.weights import design
from airpool.network import Network

from . import Row
from .privacy import timed

# Calibration objects by number of devices: K numbers each, so that the products of devices have a thin factor.
_SIZES = ((12, 985, 40), (1_000, 10, 40), (10_000, 5, 20))


def views(num_devices: int, objects: int, dimension: int) -> Floats:
    """Latents of length one: what an object's views have in common, and what each has of its own."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((objects, 1, dimension)) + rng.standard_normal((objects, num_devices, dimension)) / 2
    return z / np.linalg.norm(z, axis=-1, keepdims=True)


def rows() -> list[Row]:
    out: list[Row] = []
    for count, objects, dimension in _SIZES:
        latents = views(count, objects, dimension)
        # Noise that gives ε of about 2 whatever the number of devices.
        std = 0.05 * (12 / count) ** 1.5
        net = Network.uniform(num_devices=count, noise_std=std, participation=0.9, dimension=dimension)
        targets = [1.0, 8.0] * (count // 2)
        took, found = timed(lambda net=net, z=latents, e=targets: design(net, z, epsilon=e))
        plain, _ = timed(lambda net=net: calibrate(net, epsilon=1.0))
        note = f"{objects} calibration objects, r = {dimension}"
        limit, what = 30.0 if count == 10_000 else None, f"weights of {count:,} devices, half of them strict"
        out.append(Row("design", what, took, "s", note, limit, plain, "equal weights, noise for the strictest"))
        gap = (found.kkt_residual or 0.0) / found.mse
        out.append(Row("design", "- above the least error by at most", gap * 1e9, "parts in 10⁹", "KKT", 1.0))
    return out
