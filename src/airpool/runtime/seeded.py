"""Seeds of a simulated run. Its noise gives no privacy.

One seed gives every inference of a run its generators: of the air and of each device, as protocol.simulation spawns
them. So a run over any medium gives what `airpool.infer(..., rng=generator(seed, number))` gives.
"""

import numpy as np

from airpool.protocol.randomness import Seeded

NOTE = "Simulated: the noise is seeded and protects nobody."


def require(seed: int | None) -> None:
    if seed is not None and seed < 0:
        raise ValueError(f"the seed of a simulated run, {seed}, must be >= 0")


def generator(seed: int, number: int) -> np.random.Generator:
    """The generator of inference `number` of a run."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))


def child(seed: int, number: int, index: int) -> np.random.Generator:
    """The generator of the air (0) or of device index − 1: what `draws.spawn` makes of `generator`."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, index)))


def source(seed: int, number: int, device: int) -> Seeded:
    """Coins and noise of a device in inference `number` of a run."""
    return Seeded([child(seed, number, device + 1)])
