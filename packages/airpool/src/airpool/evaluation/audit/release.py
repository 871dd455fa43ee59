"""The law of what an adversary sees of one inference of Scheme 1, and how likely an observation was (theory/air.md).

An independent reference without radio. Device k clips, weights, adds its own noise and takes part with probability
p_k; the channel adds up what is sent:

    total = Σ_k τ_k (w_k z_k + n_k) + m      n_k ~ N(0, σ_k² I_r), τ_k ~ Bernoulli(p_k), m ~ N(0, σ_m² I_r)

Under cover noise a silent device still transmits n_k. An alignment g_k ≠ 1 scales both w_k and σ_k.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from airpool._support.arrays import Floats, not_negative, positive, probability
from airpool.network import Neighbours
from airpool.protocol.device import clipped

_MAX_MIXED = 12  # most devices with a feature whose 2^k patterns of silence are enumerated


@dataclass(frozen=True, eq=False)
class Release:
    """The public parameters of one inference, shape (K,) each, and which devices collude."""

    weight: Floats
    clip_norm: Floats
    noise_std: Floats
    participation: Floats
    cover_noise: bool
    receiver_noise_std: float
    colluders: tuple[int, ...]
    scores: Floats | None = None  # Scheme 2.2: what the noisy scores are around
    score_noise_std: float = 0.0

    @property
    def num_devices(self) -> int:
        return len(self.weight)


@dataclass(frozen=True, eq=False)
class Observed:
    """The adversary's observations in n runs."""

    total: Floats  # (n, r)
    participation: NDArray[np.bool_] | None  # (n, K); None under cover noise, which hides it
    sent: Floats | None  # (n, colluders, r): what the colluders themselves have sent; None without colluders
    noisy_scores: Floats | None = None  # (n, K): what the ranking server of Scheme 2.2 was sent; None in other schemes


def release(
    num_devices: int,
    *,
    clip_norm: ArrayLike,
    noise_std: ArrayLike,
    weight: ArrayLike | None = None,
    participation: ArrayLike = 1.0,
    cover_noise: bool = False,
    receiver_noise_std: float = 0.0,
    colluders: Sequence[int] = (),
) -> Release:
    """Checked parameters; one number stands for all devices. The weight defaults to 1/K.

    >>> release(3, clip_norm=1.0, noise_std=[0.1, 0.2, 0.3]).weight.round(3)
    array([0.333, 0.333, 0.333])
    """

    def each(name: str, value: Floats) -> Floats:
        if value.shape not in ((), (num_devices,)):
            raise ValueError(f"{name} has shape {value.shape}: it must be one number or ({num_devices},)")
        return np.broadcast_to(value, num_devices)

    for device in colluders:
        if not 0 <= device < num_devices:
            raise ValueError(f"colluders={device} must be an index from 0 to {num_devices - 1}")
    return Release(
        weight=each("weight", not_negative("weight", 1 / num_devices if weight is None else weight)),
        clip_norm=each("clip_norm", positive("clip_norm", clip_norm)),
        noise_std=each("noise_std", not_negative("noise_std", noise_std)),
        participation=each("participation", probability("participation", participation)),
        cover_noise=cover_noise,
        receiver_noise_std=float(not_negative("receiver_noise_std", receiver_noise_std)),
        colluders=tuple(sorted(set(colluders))),
    )


def worst_pair(
    devices: Release, device: int, *, dimension: int, neighbours: Neighbours | str = Neighbours.ZERO_OUT
) -> tuple[Floats, Floats]:
    """Features (K, r) and their neighbour, as far apart as clipping allows; all other devices hold zeros.

    Holds for: any r, since the noise is isotropic. The adversary knows what the others hold and
    subtracts it where participation is visible; under cover noise zeros are the worst case.
    """
    features = np.zeros((devices.num_devices, dimension))
    features[device, 0] = devices.clip_norm[device]
    return features, (1 - Neighbours(neighbours).sensitivity) * features


def log_likelihood_ratio(
    devices: Release, features: Floats, neighbour: Floats, *, neighbour_devices: Release | None = None
) -> Callable[[Observed], Floats]:
    """The optimal score: ln Pr[seen | features] − ln Pr[seen | neighbour].

    With visible participation and only device k differing it is τ_k ⟨total − middle, w_k(z_k − z′_k)⟩/v(τ),
    under cover noise the ratio of two mixtures. For removal `neighbour_devices` are the same devices, with weight,
    noise_std and participation 0 at the one that is gone.
    """

    def score(seen: Observed) -> Floats:
        there = log_likelihood(seen, devices, features)
        return there - log_likelihood(seen, neighbour_devices or devices, neighbour)

    return score


def log_likelihood(seen: Observed, devices: Release, features: Floats) -> Floats:
    """ln of the density of what was seen, one number a run.

    Holds for: the law at the top of this module, given what the colluders know; noisy scores count up to a constant. A
    variance of 0 counts as tiny.
    Edge cases: a pattern of participation that cannot occur → −inf.
    """
    honest = np.setdiff1d(np.arange(devices.num_devices), devices.colluders)
    signal = (devices.weight[:, None] * clipped(features, devices.clip_norm))[honest]
    p, noise_var = devices.participation[honest], devices.noise_std[honest] ** 2
    rest = seen.total if seen.sent is None else seen.total - seen.sent.sum(axis=1)
    r = rest.shape[1]

    def log_normal(distance: Floats, variance: Floats) -> Floats:
        tiny = max(1e-18 * float(np.max(devices.weight * devices.clip_norm)) ** 2, 1e-300)
        v = np.maximum(variance + devices.receiver_noise_std**2, tiny)
        return -distance / (2 * v) - r / 2 * np.log(2 * np.pi * v)

    if seen.participation is not None:
        tau = seen.participation[:, honest].astype(np.float64)
        all_tau, all_p = seen.participation, devices.participation
        log_tau = (xlogy(all_tau, all_p) + xlogy(~all_tau, 1 - all_p)).sum(axis=1)
        away = rest - tau @ signal
        if devices.scores is not None and seen.noisy_scores is not None:
            log_tau -= np.sum((seen.noisy_scores - devices.scores) ** 2, axis=1) / (
                2 * max(devices.score_noise_std**2, 1e-300)
            )
        variance = noise_var.sum() if devices.cover_noise else tau @ noise_var
        return log_tau + log_normal(np.einsum("nr,nr->n", away, away), variance)

    # Hidden participation: a mixture over which devices with a non-zero feature were silent.
    carrying = np.flatnonzero(signal.any(axis=1) & (p > 0))
    if len(carrying) > _MAX_MIXED:
        raise ValueError(
            f"features has {len(carrying)} non-zero rows: under cover noise the likelihood allows {_MAX_MIXED}; "
            "set others to zero, or audit with score=None"
        )
    patterns = np.array(list(product((0.0, 1.0), repeat=len(carrying))))
    log_tau = (xlogy(patterns, p[carrying]) + xlogy(1 - patterns, 1 - p[carrying])).sum(axis=1)
    means = patterns @ signal[carrying]
    distance = (rest**2).sum(axis=1)[:, None] - 2 * rest @ means.T + (means**2).sum(axis=1)
    return np.logaddexp.reduce(log_tau + log_normal(distance, noise_var.sum()), axis=1)
