"""Latents and labels of a model's held-out objects, as one device has them.

Files hold one class after the other. Here objects come in a shuffled order, the same for every device and machine, so
that the first hundred are of many classes.
"""

import hashlib
from functools import cache

import numpy as np

from airpool._support.arrays import Floats
from airpool.models import stored
from airpool.models.cameras import camera


def latents(model: str, split: str, codec: str | None, device: int, devices: int) -> tuple[Floats, Floats]:
    """Latents (N, r) and posteriors (N, L) of one device; with more devices than cameras, these repeat."""
    held = stored.found(model)
    arrays = held.objects(split, codec)
    view = camera(device, devices, arrays["posteriors"].shape[1])
    turn = order(len(arrays["labels"]))
    own = {name: each[turn, view] if name in ("latents", "posteriors") else each for name, each in arrays.items()}
    posteriors = own["posteriors"].astype(np.float32)
    sent = stored.latents_of(held.codec(codec), own, posteriors)
    return sent.astype(np.float64), posteriors.astype(np.float64)


def labels(model: str, split: str) -> list[int]:
    known = stored.found(model).objects(split)["labels"]
    return known[order(len(known))].astype(int).tolist()


def cameras(model: str, split: str) -> int:
    """Number of the model's sensors."""
    return stored.found(model).objects(split)["posteriors"].shape[1]


@cache
def order(objects: int) -> list[int]:
    """The place in the file of the first object, of the second, and so on."""
    return sorted(range(objects), key=lambda place: hashlib.sha256(b"%d" % place).digest())
