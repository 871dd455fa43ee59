"""Odds: how often a guess at a secret of one view is right once the sum is seen (docs/proofs/odds.md).

An adversary who knows everything but the sum guesses the secret with probability κ at best. P_s is the law of what is
seen given the secret s, Q any law that does not depend on it. Then the guess is right with probability at most

    B(κ) = inf_ε e^ε κ + δ(ε),    δ(ε) = sup_s sup_E P_s(E) − e^ε Q(E)

Here Q has the feature zeroed, and a public score where devices have one, whatever neighbours ε has. What the adversary
sees and what does not depend on the secret is given: B is the mean of the bounds given it. All is rounded up.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from airpool._support.arrays import Floats, Integers, as_floats, checked
from airpool.privacy import gaussian
from airpool.privacy.compose import Loss, Stream
from airpool.privacy.game import Distances, Game
from airpool.privacy.leakage import Decision
from airpool.privacy.sums import most_of

# Relative error of Φ and its inverse, with a margin, down to priors of 1e-300.
_ERROR = 1e-11
# Cells that are looked at together.
_CHUNK = 2**19
# Steps of a golden section, and its ratio; the smallest logarithm of a likelihood ratio that is tried.
_STEPS, _GOLDEN, _LEAST = 48, (5**0.5 - 1) / 2, -40.0


def priors(prior: ArrayLike) -> Floats:
    """Priors as an array, each checked."""
    return np.atleast_1d(checked("prior", prior, allowed="must be > 0 and < 1", ok=lambda x: (x > 0) & (x < 1)))


def of_gaussian(prior: ArrayLike, mu: ArrayLike) -> Floats:
    """Odds against one Gaussian at distance μ, elementwise: Φ(Φ⁻¹(κ) + μ). Tight for two antipodal features.

    >>> of_gaussian([0.5, 0.125, 0.025, 0.001], 0.26805).round(5)
    array([0.60567, 0.18881, 0.04533, 0.00238])
    """
    return rounded_up(prior, _right(as_floats(prior), as_floats(mu)))


def _right(prior: Floats, mu: Floats) -> Floats:
    return as_floats(ndtr(ndtri(prior) + mu))


def rounded_up(prior: ArrayLike, found: Floats) -> Floats:
    """Odds as computed, raised by what rounding may have cost: between the prior and 1."""
    return np.clip(found * (1 + _ERROR), prior, 1.0)


def averaged(game: Game, prior: Floats) -> Floats:
    """Odds (priors, devices) of one inference where the adversary sees who takes part, gains and directions.

        B(κ) = (1−p)κ + p·E[Φ(Φ⁻¹(κ) + μ)]

    Under cover noise the coin is hidden, and B is the same: its likelihood ratio rises with the sum, so that the best
    test of level κ is the one of the Gaussian.
    Holds for: Scheme 1, 2.2 and the object.
    """
    return _mean(game, prior, lambda mu, at: _right(prior[at], mu))


def _mean(game: Game, prior: Floats, given: Callable[[Floats, int], Floats]) -> Floats:
    """The worst pair's mean of what is given by μ and the index of a prior."""
    law = _law(game)
    pairs, out = np.arange(len(game.kind)), np.empty((len(prior), len(game.kind)))
    size = max(1, _CHUNK // law.mu(pairs[:1]).shape[1])
    for some in np.split(pairs, range(size, len(pairs), size)):
        mu, mass, p = law.mu(some), law.mass(some), law.exposed[some]
        for at, kappa in enumerate(prior):
            seen = np.einsum("ij,ij->i", mass, given(mu, at)) + law.slack
            out[at, some] = (1 - p) * kappa + p * np.minimum(seen, 1.0)
    return rounded_up(prior[:, None], np.array([game.worst(each)[game.of_device] for each in out]))


def _law(game: Game) -> Distances:
    assert game.distances is not None
    return game.distances


def repeated(game: Game, prior: Floats, times: int) -> Floats:
    """Odds (priors, devices) of many inferences of one secret, each with a draw of its own that the adversary sees.

        B(κ) = E[Φ(Φ⁻¹(κ) + √(Σ μ_t²))]

    Holds for: the games of `averaged`, without hidden coins.
    """
    if game.gaussian is not None:
        return of_gaussian(prior[:, None], game.worst(game.gaussian * np.sqrt(times))[game.of_device])
    found = np.empty((len(prior), game.num_kinds))
    for kind in range(game.num_kinds):
        total = most_of(*_largest_square(game, kind), times)
        found[:, kind] = _right(prior[:, None], np.sqrt(total.values)) @ total.mass + total.lost
    return rounded_up(prior[:, None], found[:, game.of_device])


def _largest_square(game: Game, kind: int) -> tuple[Floats, Floats]:
    """A law of μ² that is above those of all pairs of a kind: values, which rise, and probabilities."""
    law, pairs = _law(game), np.flatnonzero(game.kind == kind)
    mu = law.mu(pairs)
    # The slack is an outcome without any noise.
    worst = np.max(mu, axis=1, keepdims=True)
    value = np.concatenate([np.zeros_like(worst), mu, worst], axis=1) ** 2
    p, mass = law.exposed[pairs, None], law.mass(pairs)
    mass = np.concatenate([1 - p, p * mass, p * np.full_like(worst, law.slack)], axis=1)
    if len(pairs) == 1:
        order = np.argsort(value[0])
        return value[0, order], mass[0, order]
    level = np.unique(value)
    beyond = np.zeros(len(level))
    for each, weight in zip(value, mass, strict=True):
        cell = np.asarray(np.searchsorted(level, each), dtype=np.int64)
        at = np.bincount(cell, weights=weight, minlength=len(level))
        beyond = np.maximum(beyond, np.cumsum(at[::-1])[::-1])
    return level, -np.diff(np.append(beyond, 0.0))


def composed(stream: Stream, prior: Floats) -> Floats:
    """Odds at each prior by the composed loss of a stream, in its first direction: any view against the public one."""
    return np.array([_by_loss(stream.losses[0], float(kappa)) for kappa in prior])


def _by_loss(loss: Loss, prior: float) -> float:
    """The infimum of e^ε κ + δ(ε): δ is linear in e^ε between losses, so it is at one of them."""
    losses = loss.step * np.arange(loss.lowest, loss.lowest + len(loss.mass), dtype=np.float64)
    with np.errstate(over="ignore"):
        level = np.cumsum((loss.mass * np.exp(-losses))[::-1])[::-1]
    # Where tests of this and higher losses have level κ; every ε gives a bound, so those around it will do.
    at = int(np.searchsorted(-level, -prior))
    near = losses[np.clip([at - 1, at, at + 1], 0, len(losses) - 1)]
    found = min(min(float(np.exp(min(eps, 700.0))) * prior, 1.0) + loss.delta(float(eps)) for eps in near)
    return float(rounded_up(prior, np.asarray(found)))


def decided(game: Game, scheme: Decision, prior: Floats) -> Floats:
    """Odds (priors, devices) of one inference of Scheme 2.1, where the decision to transmit depends on the view too.

        B(κ) = E inf_m κ(m₀ + m) + π₊δ_G(ln(m/π₊); μ),   m₀ = max(1−π₊, 1−π₋ + π₋δ_G(ln(m/π₋); μ) − π₊δ_G(ln(m/π₊); μ))

    π₋ ≤ π₊: how often the device transmits at its highest and lowest score. Q is the best law for each μ: silent with
    weight m₀, else a zeroed feature with weight m (docs/proofs/odds.md).
    game: that of `threshold_game`, zero-out.
    """
    assert game.choices is not None
    last = np.flatnonzero(game.choices == game.choices.max())
    law = _law(game)
    first = np.unique(game.of_device, return_index=True)[1][game.kind[last]]
    ends = (scheme.score_high, scheme.score_low)
    scores = (np.broadcast_to(score, game.of_device.shape)[first, None] for score in ends)
    rare, often = (scheme.log_participation(score) for score in scores)
    out = np.empty((len(prior), len(last)))
    mu, mass = law.mu(last), law.mass(last)
    for at, kappa in enumerate(prior):
        out[at] = np.einsum("ij,ij->i", mass, _least_decided(float(kappa), mu, rare, often)) + law.slack
    worst = np.zeros((len(prior), game.num_kinds))
    np.maximum.at(worst.T, game.kind[last], out.T)
    return rounded_up(prior[:, None], worst[:, game.of_device])


def _least_decided(prior: float, mu: Floats, rare: tuple[Floats, Floats], often: tuple[Floats, Floats]) -> Floats:
    """The infimum over m of `decided`, by golden section on ln m: convex in m, and every m gives a bound."""

    def bound(log_m: Floats) -> Floats:
        seldom, most = (np.exp(log[0]) * gaussian.delta(log_m - log[0], mu) for log in (rare, often))
        silent = np.maximum(np.exp(often[1]), np.exp(rare[1]) + seldom - most)
        return prior * (silent + np.exp(log_m)) + most

    low, high = np.full(mu.shape, _LEAST), np.full(mu.shape, -np.log(prior))
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_a, at_b = bound(a), bound(b)
    for _ in range(_STEPS):
        left = at_a <= at_b
        low, high = np.where(left, low, a), np.where(left, b, high)
        a, b = np.where(left, high - _GOLDEN * (high - low), b), np.where(left, a, low + _GOLDEN * (high - low))
        new = bound(np.where(left, a, b))
        at_a, at_b = np.where(left, new, at_b), np.where(left, at_a, new)
    return np.minimum(np.minimum(at_a, at_b), 1.0)


def public_score(scheme: Decision, squares: Floats) -> Floats:
    """A public score of each device for a stream of Scheme 2.1: the largest mean loss of a view against it is least.

    squares: mean μ² of each device where it transmits. Any score gives valid odds.
    """
    shape = squares.shape
    low, high = (np.broadcast_to(u, shape) for u in (scheme.score_low, scheme.score_high))
    grid = low + np.linspace(0.0, 1.0, 65)[:, None] * (high - low)
    public = scheme.log_participation(grid)
    worst = np.zeros(grid.shape)
    for score in (low, high):
        own = scheme.log_participation(score)
        with np.errstate(invalid="ignore"):
            each = [np.where(a > -np.inf, np.exp(a) * (a - b), 0.0) for a, b in zip(own, public, strict=True)]
            worst = np.maximum(worst, each[0] + each[1] + np.exp(own[0]) * squares / 2)
    at: Integers = np.argmin(np.where(np.isnan(worst), np.inf, worst), axis=0)
    return np.take_along_axis(grid, at[None], axis=0)[0]
