"""Pictures by a gallery: the mean of known views, each weighed by how likely it makes the received signal.

    x̂(y) = Σ_i Pr(i | y) x_i

There is nothing to train, so it attacks any network at once. If the object is one of the gallery, no estimate has a
smaller mean squared error, and none names it more often: whoever holds the attacked views is stronger than any real
attacker.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats
from airpool.evaluation.attacks.attackers import likelihood
from airpool.evaluation.attacks.hearing import hear, quiet
from airpool.evaluation.attacks.positions import Position, bound
from airpool.evaluation.attacks.result import AttackResult
from airpool.network import Network


@dataclass(frozen=True, eq=False)
class Beliefs:
    """weight: probability of each of m gallery objects, (n, t, m). present: whether the device was heard, (n, t)."""

    weight: Floats
    present: NDArray[np.bool_]

    def painted(self, pictures: Floats) -> Floats:
        """The mean picture (n, t, ...) of the gallery's pictures (m, ...)."""
        return np.tensordot(self.weight, pictures, axes=1)


def beliefs(
    network: Network,
    place: Position,
    latents: Floats,
    gallery: Floats,
    *,
    rng: np.random.Generator,
    device: int = 0,
    trials: int = 1,
) -> Beliefs:
    """Beliefs after signals of latents (n, K, r), `trials` times each. gallery: latents (m, K, r), equally likely.

    Holds for: as `hear`, but the position antennas. In the sum the gallery is that of a sum in which all take part:
    with silent devices the weights are slightly worse than the best.
    """
    if place.name == "antennas":
        raise ValueError("position 'antennas' has no gallery: what it receives of others is not taken off")
    size = len(gallery)
    heard = hear(network, place, latents, rng=rng, device=device, trials=trials)
    clean = hear(quiet(network), place, gallery, rng=rng, device=device).signal[:, 0]
    score = likelihood(clean, np.arange(size), np.full(size, 1 / size))
    found = score(heard.signal.reshape(-1, clean.shape[1]), heard.noise_std.reshape(-1))
    weight = np.exp(found)
    weight /= weight.sum(axis=1, keepdims=True)
    return Beliefs(weight.reshape(*heard.present.shape, size), heard.present)


def named(
    network: Network, place: Position, gallery: Floats, *, seed: int, device: int = 0, trials: int = 40
) -> AttackResult:
    """Guesses of the likeliest object of the gallery, after `trials` signals of each, beside the bound."""
    how: Any = {"rng": np.random.default_rng(seed), "device": device, "trials": trials}
    weight, size = beliefs(network, place, gallery, gallery, **how).weight, len(gallery)
    right = int((weight.argmax(axis=-1) == np.arange(size)[:, None]).sum())
    return AttackResult(
        "gallery",
        place,
        network,
        secret=f"one of {size} objects",
        of="object",
        trials=size * trials,
        successes=right,
        prior=1 / size,
        bound=bound(network, place, "object", prior=1 / size, device=device),
        seed=seed,
        device=device,
    )
