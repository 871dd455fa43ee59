"""Likelihood ratios of simulated signals and scores, for the two games that have no closed form here.

`oracle` is an oracle.Oracle.
"""

from typing import Any

import numpy as np

from .curves import Floats, gaussian, mean_from_below
from .law import Law

# Signals and scores that are drawn; inferences that are looked at one by one, for fewer show less.
_DRAWS, _SCORES, FEW = 6000, 20_000, 24


def removed_under_cover(oracle: Any, k: int, epsilon: float, times: int, law: Law, p: float) -> float:
    """Removal under cover noise: the likelihood ratio of simulated signals, along the feature and across it."""
    own, shift, r = oracle.variance[k], oracle.shift(k), oracle.net.coordinates
    times, loss = min(times, FEW), np.zeros(_DRAWS)
    if own == 0 and shift == 0:
        return 0.0
    cover = oracle.net.cover_noise
    for _ in range(times):
        which = oracle.rng.choice(len(law.noise) + 1, _DRAWS, p=np.append(law.probability, 1 - law.probability.sum()))
        b = np.append(law.noise, 1.0)[which]
        if np.any(b <= 0):
            return 0.0
        heard = which < len(law.noise)
        on = oracle.rng.random(_DRAWS) < p
        a = b + own
        now = np.where(on | cover, a, b)
        y = on * shift + np.sqrt(now) * oracle.rng.standard_normal(_DRAWS)
        across = now * oracle.rng.chisquare(r - 1, _DRAWS) if r > 1 else np.zeros(_DRAWS)

        def density(mean: float, v: Floats, y: Floats = y, across: Floats = across) -> Floats:
            return -((y - mean) ** 2 + across) / (2 * v) - r / 2 * np.log(v)

        without = density(0.0, b)
        with np.errstate(divide="ignore"):
            ratio = np.logaddexp(np.log(p) + density(shift, a), np.log1p(-p) + density(0.0, a if cover else b))
        loss += heard * (ratio - without)
    return mean_from_below(np.maximum(-np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0))


def by_rank(oracle: Any, k: int, epsilon: float, times: int) -> float:
    """Scheme 2.2: all noisy scores are seen; the others' are such that the quietest are mostly selected."""
    net, scheme, spread = oracle.net, oracle.net.scheme, oracle.net.scheme.score_noise_std
    apart = oracle.score_range / spread
    if times > 1:
        # The scores alone, or everything where everybody is always selected and heard.
        every = scheme.num_selected == oracle.radio.count and oracle.aligned and not np.any(oracle.outage > 0)
        noise = np.array([oracle.extra + float(np.sum(oracle.variance * (oracle.lending(k) > 0)))])
        square = float(oracle.squares(k, Law(noise, noise))[0]) if every else 0.0
        return float(gaussian(epsilon, np.sqrt(times * (apart**2 + square))))
    if not oracle.aligned:
        return float(gaussian(epsilon, apart))
    others = np.delete(np.arange(oracle.radio.count), k)
    order = others[np.argsort(oracle.variance[others])]
    likely = set(order[: scheme.num_selected - 1].tolist())
    honest = np.ones(oracle.radio.count, dtype=bool)
    honest[list(oracle.claim.colluding)] = False
    absent = min(net.colluders + net.dropouts, len(others))
    for j in sorted((j for j in likely if honest[j]), key=lambda j: -oracle.variance[j])[:absent]:
        honest[j] = False
    if net.channel.access == "orthogonal":
        honest[:] = False
    n = _SCORES
    means = np.array([0.0 if j in likely else oracle.score_range for j in others])
    noisy = means + spread * oracle.rng.standard_normal((n, len(others)))
    rank = np.argsort(np.argsort(noisy, axis=1), axis=1)
    heard = oracle.rng.random((n, oracle.radio.count)) < 1 - oracle.outage
    lends = np.ones_like(rank, dtype=bool) if net.cover_noise else rank < scheme.num_selected - 1
    noise = oracle.extra + (lends & heard[:, others] & honest[others]) @ oracle.variance[others]
    last = (
        np.sort(noisy, axis=1)[:, scheme.num_selected - 1] if scheme.num_selected <= len(others) else np.full(n, np.inf)
    )
    found = []
    for u, v in ((0.0, oracle.score_range), (oracle.score_range, 0.0)):
        x = u + spread * oracle.rng.standard_normal(n)
        loss = ((x - v) ** 2 - (x - u) ** 2) / (2 * spread**2)
        sends = (x < last) & heard[:, k]
        found.append(
            mean_from_below(gaussian(epsilon - loss, np.sqrt(np.where(sends, oracle.squares(k, Law(noise, noise)), 0))))
        )
    return max(found)
