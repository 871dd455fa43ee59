"""Attackers: from a signal to a score for each value of the secret.

Those that learn are trained on noisy signals of the attacked configuration, never on clean features alone. The
likelihood needs no training: it knows the law of the noise and a gallery of objects like the attacked ones.

By a gallery pictures are painted too, as the mean of known views, each weighed by how likely it makes the signal:

    x̂(y) = Σ_i Pr(i | y) x_i

If the object is one of the gallery, no estimate has a smaller mean squared error, and none names it more often: whoever
holds the attacked views is stronger than any real attacker.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from airpool._support.arrays import Floats, Integers
from airpool.network import Claim, Network
from airpool_lab.attacks.hearing import hear, quiet
from airpool_lab.attacks.positions import Position, bound
from airpool_lab.attacks.result import AttackResult

# Signals (n, d) and their noise per coordinate (n,) → log-probabilities of the secret's values (n, C).
Attacker = Callable[[Floats, Floats], Floats]

_FLOOR = 1e-3  # of the likelihood's noise, in units of the gallery's spread: without noise, the nearest neighbour


_STEPS, _BATCH = 300, 512  # of an attacker that learns
# Width of its one hidden layer (0: it is linear), learning rate, weight decay.
_LEARNERS = {"a linear classifier": (0, 0.01, 1e-4), "a small network": (128, 0.004, 1e-3)}


def trained(
    signals: Floats, values: Integers, prior: Floats, *, hidden: int, rate: float, decay: float, seed: int
) -> Attacker:
    """A classifier of noisy signals (n, d) whose secrets are `values` (n,), for secrets of this prior (C,)."""
    x = torch.as_tensor(signals, dtype=torch.float32)
    centre, scale = x.mean(0), x.std() + 1e-12
    y, generator = torch.as_tensor(values), torch.Generator().manual_seed(seed)
    share = np.bincount(values, minlength=len(prior)) / len(values)
    weight = torch.as_tensor(np.where(share > 0, prior / np.maximum(share, 1e-12), 0.0), dtype=torch.float32)
    widths = [x.shape[1], hidden, len(prior)] if hidden else [x.shape[1], len(prior)]
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=layer.in_features**-0.5, generator=generator)
        nn.init.zeros_(layer.bias)
    model = nn.Sequential(layers[0], *(part for layer in layers[1:] for part in (nn.ReLU(), layer)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=_STEPS)
    x = (x - centre) / scale
    for _ in range(_STEPS):
        rows = torch.randint(len(x), (_BATCH,), generator=generator)
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows], weight=weight)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()

    def scores(seen: Floats, _: Floats) -> Floats:
        with torch.no_grad():
            found = model((torch.as_tensor(seen, dtype=torch.float32) - centre) / scale)
        return found.double().log_softmax(-1).numpy()

    return scores


def likelihood(gallery: Floats, values: Integers, prior: Floats) -> Attacker:
    """The posterior of the secret if the object is one of a gallery of clean signals (m, d)."""
    counts = np.bincount(values, minlength=len(prior))
    order = np.argsort(values, kind="stable")
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior / np.maximum(counts, 1))[values[order]]
    sorted_gallery, square = gallery[order], np.sum(gallery[order] ** 2, axis=1)
    known, starts = np.unique(values[order], return_index=True)
    floor = _FLOOR * float(np.sqrt(np.mean(np.var(gallery, axis=0)))) + 1e-12

    def scores(seen: Floats, noise_std: Floats) -> Floats:
        found = np.full((len(seen), len(prior)), -np.inf)
        for rows in np.array_split(np.arange(len(seen)), max(1, len(seen) * len(gallery) // 2**23)):
            variance = np.maximum(noise_std[rows], floor)[:, None] ** 2
            score = (seen[rows] @ sorted_gallery.T - square / 2) / variance + log_prior
            best = score.max(axis=1, keepdims=True)
            posterior = np.add.reduceat(np.exp(score - best), starts, axis=1)
            found[np.ix_(rows, known)] = np.log(posterior / posterior.sum(axis=1, keepdims=True) + 1e-300)
        return found

    return scores


def nearest(seen: Floats, candidates: Floats) -> Integers:
    """The most likely of each row's own candidates (n, C, d), all of one prior, under noise alike in all directions.

    Edge cases: candidates that are the same → the first of them.
    """
    score = np.einsum("nd,ncd->nc", seen, candidates) - np.sum(candidates**2, axis=-1) / 2
    return score.argmax(axis=1)


def all_of(
    noisy: Floats,
    values: Integers,
    prior: Floats,
    *,
    seed: int,
    gallery: tuple[Floats, Integers] | None = None,
    only: str | None = None,
) -> dict[str, Attacker]:
    """Every attacker by name, or one of them: two that learn from noisy signals (n, d), and the likelihood.

    gallery: clean signals (m, d) and their secrets, for the likelihood; None: there is no such attacker.
    """
    found = {
        name: trained(noisy, values, prior, hidden=hidden, rate=rate, decay=decay, seed=seed)
        for name, (hidden, rate, decay) in _LEARNERS.items()
        if only in (None, name)
    }
    if gallery is not None and only in (None, "the likelihood"):
        found["the likelihood"] = likelihood(*gallery, prior)
    return found


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
    claim: Claim,
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
    heard = hear(network, claim, place, latents, rng=rng, device=device, trials=trials)
    clean = hear(*quiet(network, claim), place, gallery, rng=rng, device=device).signal[:, 0]
    score = likelihood(clean, np.arange(size), np.full(size, 1 / size))
    found = score(heard.signal.reshape(-1, clean.shape[1]), heard.noise_std.reshape(-1))
    weight = np.exp(found)
    weight /= weight.sum(axis=1, keepdims=True)
    return Beliefs(weight.reshape(*heard.present.shape, size), heard.present)


def named(
    network: Network, claim: Claim, place: Position, gallery: Floats, *, seed: int, device: int = 0, trials: int = 40
) -> AttackResult:
    """Guesses of the likeliest object of the gallery, after `trials` signals of each, beside the bound."""
    rng, size = np.random.default_rng(seed), len(gallery)
    weight = beliefs(network, claim, place, gallery, gallery, rng=rng, device=device, trials=trials).weight
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
        bound=bound(network, claim, place, "object", prior=1 / size, device=device),
        seed=seed,
        device=device,
        claim=claim,
    )
