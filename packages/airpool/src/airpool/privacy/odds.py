"""Odds: how often a guess at a secret of one view is right once the sum is seen (docs/proofs/odds.md).

An adversary who knows everything but the sum guesses the secret with probability κ at best. P_s is the law of what is
seen given the secret s, Q any law that does not depend on it. Then the guess is right with probability at most

    B(κ) = inf_ε e^ε κ + δ(ε),    δ(ε) = sup_s sup_E P_s(E) − e^ε Q(E)

Here Q has the feature zeroed, and a public score where devices have one, whatever neighbours ε has. What the adversary
sees and what does not depend on the secret is given: B is the mean of the bounds given it. All is rounded up.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, Integers, as_floats, checked
from airpool._support.special import ndtr, ndtri
from airpool.privacy import gaussian
from airpool.privacy.compose import Loss, Stream
from airpool.privacy.game import Distances, Game
from airpool.privacy.leakage import Decision
from airpool.privacy.sums import most_of

# A function of μ that rises, with values in [0, 1].
Rising = Callable[[Floats], Floats]

# Relative error of Φ and its inverse, with a margin, down to priors of 1e-300.
_ERROR = 1e-11
# Cells that are looked at together.
_CHUNK = 2**19
# Points of a grid, how often it is refined, and the smallest logarithm of a likelihood ratio that is tried.
_POINTS, _ROUNDS, _LEAST = 16, 5, -10.0


def priors(prior: ArrayLike) -> Floats:
    """Priors as an array (n,), each checked."""
    if np.ndim(prior) > 1 or not np.size(prior):
        raise ValueError("prior must be a number, or one or more of them in a row")
    allowed = "must be > 0 and < 1 (1e-300 at least)"
    return np.atleast_1d(checked("prior", prior, allowed=allowed, ok=lambda x: (x >= 1e-300) & (x < 1)))


def of_gaussian(prior: ArrayLike, mu: ArrayLike) -> Floats:
    """Odds against one Gaussian at distance μ, elementwise: Φ(Φ⁻¹(κ) + μ). Tight for two antipodal features.

    >>> of_gaussian([0.5, 0.125, 0.025, 0.001], 0.26805).round(5)
    array([0.60567, 0.18881, 0.04533, 0.00238])
    """
    return rounded_up(prior, _right(as_floats(prior), as_floats(mu)))


def _right(prior: Floats | float, mu: Floats) -> Floats:
    return as_floats(ndtr(ndtri(prior) + mu))


def rounded_up(prior: ArrayLike, found: Floats) -> Floats:
    """Odds as computed, raised by what rounding may have cost: between the prior and 1."""
    return np.clip(found * (1 + _ERROR), prior, 1.0)


def halved(game: Game) -> Game:
    """The zero-out game from that of replaced features, which are twice as far apart; without hidden coins."""
    law = _law(game)

    def half(pair: Integers) -> Floats:
        return law.mu(pair) / 2

    return replace(game, distances=law._replace(mu=half), gaussian=None if game.gaussian is None else game.gaussian / 2)


def averaged(game: Game, prior: Floats) -> Floats:
    """Odds (priors, devices) of one inference where the adversary sees who takes part, gains and directions.

        B(κ) = (1−p)κ + p·E[Φ(Φ⁻¹(κ) + μ)]

    Under cover noise the coin is hidden, and B is the same: its likelihood ratio rises with the sum, so that the best
    test of level κ is the one of the Gaussian.
    Holds for: Scheme 1, 2.2 and the object.
    """
    return _right_on_average(game, prior, 1)


def repeated(game: Game, prior: Floats, times: int) -> Floats:
    """Odds (priors, devices) of many inferences of one secret, each with a draw of its own that the adversary sees.

        B(κ) = E[Φ(Φ⁻¹(κ) + √(Σ μ_t²))]

    Holds for: the games of `averaged`, without hidden coins.
    """
    return _right_on_average(game, prior, times)


def _right_on_average(game: Game, prior: Floats, times: int) -> Floats:
    return rounded_up(prior[:, None], means_of(game, [partial(_right, kappa) for kappa in prior], times))


def means_of(game: Game, rising: Sequence[Rising], times: int = 1) -> Floats:
    """Means of rising functions of μ over what the adversary sees, (functions, devices); rounded up.

    times: number of inferences, μ² adds up over them.
    """
    if game.gaussian is not None:
        mu = game.worst(game.gaussian * np.sqrt(times))
        return np.array([each(mu) for each in rising])[:, game.of_device]
    if times > 1:
        certain = max(map(_certain, rising))
        totals = [most_of(*_largest_square(game, kind), times, certain=certain) for kind in range(game.num_kinds)]
        found = [[float(each(np.sqrt(one.values)) @ one.mass) + one.lost for one in totals] for each in rising]
        return np.minimum(found, 1.0)[:, game.of_device]
    return np.array([_mean_of_one(game, each) for each in rising])


def _mean_of_one(game: Game, rising: Rising) -> Floats:
    law = _law(game)
    pairs, out = np.arange(len(game.kind)), np.empty(len(game.kind))
    size = max(1, _CHUNK // law.mu(pairs[:1]).shape[1])
    for some in np.split(pairs, range(size, len(pairs), size)):
        seen = np.einsum("ij,ij->i", law.mass(some), rising(law.mu(some))) + law.slack
        p = law.exposed[some]
        out[some] = (1 - p) * rising(np.zeros(1))[0] + p * np.minimum(seen, 1.0)
    return game.worst(out)[game.of_device]


def _certain(rising: Rising) -> float:
    """A μ² from which on a rising function is 1, up to a share of 1e-9; inf where it is not soon."""
    mu = 2.0 ** np.arange(0.0, 10.0, 0.125)
    return float(np.min(mu[rising(mu) >= 1 - 1e-9] ** 2, initial=np.inf))


def _law(game: Game) -> Distances:
    assert game.distances is not None
    return game.distances


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
    scores = np.stack([np.broadcast_to(score, game.of_device.shape)[first] for score in ends])
    # [highest, lowest score] × priors × pairs × cells
    log_transmits, log_silent = (x[:, None, :, None] for x in scheme.log_participation(scores))
    least = _least_decided(prior[:, None, None], law.mu(last), log_transmits, np.exp(log_silent))
    found = np.einsum("ij,aij->ai", law.mass(last), least) + law.slack
    worst = np.zeros((len(prior), game.num_kinds))
    np.maximum.at(worst.T, game.kind[last], found.T)
    return rounded_up(prior[:, None], worst[:, game.of_device])


def _least_decided(prior: Floats, mu: Floats, log_transmits: Floats, silent: Floats) -> Floats:
    """The infimum over m of `decided`, on ever finer grids of ln m: convex in m, and every m gives a bound."""
    log_transmits = log_transmits[:, None]  # and the points of a grid
    transmits = np.exp(log_transmits)

    def bound(log_m: Floats) -> Floats:
        rare, often = transmits * gaussian.delta(log_m - log_transmits, mu)
        return prior * (np.maximum(silent[1], silent[0] + rare - often) + np.exp(log_m)) + often

    least, grid = np.ones((len(prior), *mu.shape)), np.linspace(0.0, 1.0, _POINTS)[:, None, None, None]
    low = np.full(least.shape, _LEAST)
    width = -_LEAST - np.log(prior)
    for _ in range(_ROUNDS):
        tried = low + grid * width
        found = bound(tried)
        at = np.argmin(found, axis=0)[None]
        least = np.minimum(least, np.take_along_axis(found, at, 0)[0])
        width = width / (_POINTS - 1)
        low = np.take_along_axis(tried, at, 0)[0] - width
        width = 2 * width
    return least


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
