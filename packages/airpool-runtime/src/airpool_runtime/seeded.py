"""Seeds of a simulated run. Its noise gives no privacy.

One seed gives every inference of a run its generators: in each slot one of the air and one of each device, as
protocol.simulation spawns them. So a run over any medium gives what `airpool.infer(..., rng=generator(seed, number))`
gives on the full path.
"""

import numpy as np

from airpool.protocol.device import Seeded

NOTE = "Simulated: the noise is seeded and protects nobody."


def require(seed: int | None) -> None:
    if seed is not None and seed < 0:
        raise ValueError(f"the seed of a simulated run, {seed}, must be >= 0")


def generator(seed: int, number: int) -> np.random.Generator:
    """The generator of inference `number` of a run."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))


def child(seed: int, number: int, index: int) -> np.random.Generator:
    """A child of `generator`, as `draws.spawn` makes it: from (i − 1)(K + 1) on those of slot i, the air's first."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, index)))


def of_air(seed: int, number: int, *, slot: int, devices: int) -> np.random.Generator:
    return child(seed, number, (slot - 1) * (devices + 1))


def source(seed: int, number: int, device: int, *, slot: int = 1, devices: int = 0) -> Seeded:
    """Coins and noise of a device in a slot of inference `number` of a run. devices: K, of which slot 1 needs none."""
    return Seeded([child(seed, number, (slot - 1) * (devices + 1) + device + 1)])
