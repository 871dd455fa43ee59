"""Odds: how often a guess at a secret of one view is right once the sum is seen (docs/proofs/odds.md).

An adversary who knows everything but the sum guesses the secret with probability κ at best. P_s is the law of what is
seen given the secret s, Q any law that does not depend on it. Then the guess is right with probability at most

    B(κ) = inf_ε e^ε κ + δ(ε),    δ(ε) = sup_s sup_E P_s(E) − e^ε Q(E)

Here Q has the feature zeroed, and a public score where devices have one, whatever neighbours ε has. What the adversary
sees and what does not depend on the secret is given: B is the mean of the bounds given it. All is rounded up.
"""

from collections.abc import Callable, Sequence
from functools import partial, singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, as_floats, checked
from airpool._support.special import ndtr, ndtri
from airpool._support.threads import single_thread
from airpool.privacy import gaussian
from airpool.privacy.compose import MOST_INFERENCES, Stream, stream
from airpool.privacy.epsilon import worst_draws
from airpool.privacy.leak import Decided, Draws, Gaussian, Least, Mixed, Near, PerDevice, Times, Unbounded, Worst
from airpool.privacy.sums import most_of

# A function of μ that rises, with values in [0, 1].
Rising = Callable[[Floats], Floats]

# Relative error of Φ and its inverse, with a margin, down to priors of 1e-300.
_ERROR = 1e-11
# Cells that are looked at together.
_CHUNK = 2**19
# Points of a grid, how often it is refined, and the smallest logarithm of a likelihood ratio that is tried.
_POINTS, _ROUNDS, _LEAST = 16, 5, -10.0
# Cells of a noise law and points of a curve where a stream of Scheme 2.1 is composed for its odds.
_FEW_CELLS, _FEW_POINTS = 2**6, 2**7


def priors(prior: ArrayLike) -> Floats:
    """Priors as an array (n,), each checked."""
    if np.ndim(prior) > 1 or not np.size(prior):
        raise ValueError("prior must be a number, or one or more of them in a row")
    allowed = "must be > 0 and < 1 (1e-300 at least)"
    return np.atleast_1d(checked("prior", prior, allowed=allowed, ok=lambda x: (x >= 1e-300) & (x < 1)))


def _right(prior: float, mu: Floats) -> Floats:
    """Odds against one Gaussian at distance μ, elementwise. Tight for two antipodal features."""
    return as_floats(ndtr(ndtri(prior) + mu))


def rounded_up(prior: ArrayLike, found: Floats) -> Floats:
    """Odds as computed, raised by what rounding may have cost: between the prior and 1."""
    return np.clip(found * (1 + _ERROR), prior, 1.0)


@singledispatch
def odds(leak: Any, prior: Floats) -> Floats:
    """Odds (priors, devices) of a leak whose other side does not depend on the secret; never too small.

    >>> from airpool.privacy.leak import gaussians
    >>> odds(gaussians(np.array([0.26805])), priors([0.5, 0.125, 0.025, 0.001]))[:, 0].round(5)
    array([0.60567, 0.18881, 0.04533, 0.00238])
    """
    raise TypeError(f"{type(leak).__name__} is no leak of devices: register its odds with airpool.privacy.odds.odds")


@odds.register
def _(leak: PerDevice, prior: Floats) -> Floats:
    """Where the adversary sees who takes part, gains and directions:

        B(κ) = (1−p)κ + p·E[Φ(Φ⁻¹(κ) + μ)]

    Under cover noise the coin is hidden, and B is the same: its likelihood ratio rises with the sum, so that the best
    test of level κ is the one of the Gaussian.
    """
    if isinstance(leak.leak, Decided):
        return _decided(leak, prior)
    return _right_on_average(leak, prior, 1) if leak.shifts else _by_losses(Times(1, leak), prior)


@odds.register
def _(leak: Times, prior: Floats) -> Floats:
    """Many inferences of one secret, each with a draw of its own:  B(κ) = E[Φ(Φ⁻¹(κ) + √(Σ μ_t²))]

    Coins that are hidden or depend on the data: by the composed loss.
    """
    one = leak.leak
    if leak.number == 1:
        return odds(one, prior)
    if isinstance(one.leak, Decided):
        return _by_losses(leak, prior, points=_FEW_POINTS, cells=_FEW_CELLS)
    return _right_on_average(one, prior, leak.number) if isinstance(one.signal, Gaussian) else _by_losses(leak, prior)


@odds.register
def _(leak: Draws, prior: Floats) -> Floats:
    """Over a channel that stays:  B(κ) = E[Φ(Φ⁻¹(κ) + √T·μ)]"""
    if leak.draws == 1:
        return odds(leak.in_one, prior)
    found = [odds(worst_draws(leak, kind), prior)[:, 0] for kind in range(leak.leak.num_kinds)]
    return np.array(found).T[:, leak.leak.of_device]


@odds.register
def _(leak: Mixed, prior: Floats) -> Floats:
    """What was drawn is seen:  B(κ) = Σ mass_i·B_i(κ) + (1 − Σ mass_i)·κ;  1 where inferences are not composed."""
    if leak.leaks[0].number > MOST_INFERENCES:
        return np.ones((len(prior), len(leak.leaks[0].leak.of_device)))
    mass = leak.mass[:, leak.leaks[0].leak.of_device]
    silent = np.maximum(1 - mass.sum(axis=0), 0.0)
    found = sum(share * odds(each, prior) for share, each in zip(mass, leak.leaks, strict=True))
    return np.minimum(found + silent * prior[:, None], 1.0)


@odds.register
def _(leak: Near, prior: Floats) -> Floats:
    """Where the law is missed a guess may be right every time."""
    return np.minimum(odds(leak.leak, prior) + leak.failure, 1.0)


@odds.register
def _(leak: Least, prior: Floats) -> Floats:
    return np.minimum.reduce([odds(each, prior) for each in leak.leaks])


@odds.register
def _(leak: Worst, prior: Floats) -> Floats:
    return np.maximum.reduce([odds(each, prior) for each in leak.leaks])


@odds.register
def _(leak: Unbounded, prior: Floats) -> Floats:
    return np.ones((len(prior), leak.count))


def _right_on_average(leak: PerDevice, prior: Floats, times: int) -> Floats:
    return rounded_up(prior[:, None], means_of(leak, [partial(_right, kappa) for kappa in prior], times))


def _by_losses(leak: Times, prior: Floats, **coarser: int) -> Floats:
    one = leak.leak
    with single_thread():
        streams = (stream(one, kind, **coarser).repeated(leak.number) for kind in range(one.num_kinds))
        return np.array([composed(each, prior) for each in streams]).T[:, one.of_device]


def means_of(leak: PerDevice, rising: Sequence[Rising], times: int = 1) -> Floats:
    """Means of rising functions of μ over what the adversary sees, (functions, devices); rounded up.

    times: number of inferences, μ² adds up over them.
    """
    if leak.gaussian is not None:
        mu = leak.worst(leak.gaussian * np.sqrt(times))
        return np.array([each(mu) for each in rising])[:, leak.of_device]
    if times > 1:
        # With the slack as an outcome in which no other noise is there.
        leak = leak if leak.cells is None else leak.coarse(leak.cells)
        certain = max(map(_certain, rising))
        totals = [most_of(*_largest_square(leak, kind), times, certain=certain) for kind in range(leak.num_kinds)]
        found = [[float(each(np.sqrt(one.values)) @ one.mass) + one.infinite for one in totals] for each in rising]
        return np.minimum(found, 1.0)[:, leak.of_device]
    return np.array([_mean_of_one(leak, each) for each in rising])


def _mean_of_one(leak: PerDevice, rising: Rising) -> Floats:
    law = leak.distances
    pairs, out = np.arange(len(leak.kind)), np.empty(len(leak.kind))
    size = max(1, _CHUNK // law.mu(pairs[:1]).shape[1])
    for some in np.split(pairs, range(size, len(pairs), size)):
        seen = np.einsum("ij,ij->i", law.mass(some), rising(law.mu(some))) + law.slack
        p = law.exposed[some]
        out[some] = (1 - p) * rising(np.zeros(1))[0] + p * np.minimum(seen, 1.0)
    return leak.worst(out)[leak.of_device]


def _certain(rising: Rising) -> float:
    """A μ² from which on a rising function is 1, up to a share of 1e-9; inf where it is not soon."""
    mu = 2.0 ** np.arange(0.0, 10.0, 0.125)
    return float(np.min(mu[rising(mu) >= 1 - 1e-9] ** 2, initial=np.inf))


def _largest_square(leak: PerDevice, kind: int) -> tuple[Floats, Floats]:
    """A law of μ² that is above those of all pairs of a kind: values, which rise, and probabilities."""
    law, pairs = leak.distances, np.flatnonzero(leak.kind == kind)
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
    """Odds at each prior by the composed loss of a stream, in its first direction: any view against the public one.

    δ is linear in e^ε between losses, so the infimum of e^ε κ + δ(ε) is at one of them.
    """
    loss = stream.losses[0]
    losses = loss.values
    with np.errstate(over="ignore"):
        level = np.cumsum((loss.mass * np.exp(-losses))[::-1])[::-1]
    # Where tests of this and higher losses have level κ; every ε gives a bound, so those around it will do.
    at = np.searchsorted(-level, -prior)[:, None] + np.array([-1, 0, 1])
    near = losses[np.clip(at, 0, len(losses) - 1)]
    found = np.minimum(np.exp(np.minimum(near, 700.0)) * prior[:, None], 1.0) + np.vectorize(loss.delta)(near)
    return rounded_up(prior, found.min(axis=1))


def _decided(leak: PerDevice, prior: Floats) -> Floats:
    """Odds (priors, devices) of one inference of Scheme 2.1, where the decision to transmit depends on the view too.

        B(κ) = E inf_m κ(m₀ + m) + π₊δ_G(ln(m/π₊); μ),   m₀ = max(1−π₊, 1−π₋ + π₋δ_G(ln(m/π₋); μ) − π₊δ_G(ln(m/π₊); μ))

    π₋ ≤ π₊: how often the device transmits at its highest and lowest score. Q is the best law for each μ: silent with
    weight m₀, else a zeroed feature with weight m (docs/proofs/odds.md).
    leak: that of `leakage.by_threshold`, zero-out: its last choice is the device at its lowest score, the first one
    compares both scores.
    """
    assert isinstance(leak.leak, Decided)
    assert leak.leak.choice is not None
    first, last = (np.flatnonzero(leak.leak.choice == choice) for choice in (0, leak.leak.choice.max()))
    law = leak.distances
    # [highest, lowest score] × priors × cases × cells
    log_transmits, log_silent = (x[:, None, first, None] for x in (leak.leak.on, leak.leak.off))
    least = _least_decided(prior[:, None, None], law.mu(last), log_transmits, np.exp(log_silent))
    found = np.einsum("ij,aij->ai", law.mass(last), least) + law.slack
    worst = np.zeros((len(prior), leak.num_kinds))
    np.maximum.at(worst.T, leak.kind[last], found.T)
    return rounded_up(prior[:, None], worst[:, leak.of_device])


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
