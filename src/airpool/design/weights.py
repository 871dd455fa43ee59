"""Weights for devices that ask for different amounts of privacy: the least error that their targets allow (spec §6).

    min_w E‖Dẑ − t‖²   s.t.  Σ w = 1,  0 ≤ w_k ≤ w_max,k      w_max,k: the largest weight at which ε_k meets its target

The expectation is over silence, fading and noise, and a mean over calibration objects. Weights never come from the
inference at hand: they would tell about it. The paper's way to them is paper.weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from airpool.account.calibration import most_feature, targets, with_column
from airpool.account.guarantee import aggregate
from airpool.account.guarantee import epsilon as device_epsilon
from airpool.arrays import Floats, finite, require_shape
from airpool.design.qp import Normalise, Quadratic, solve
from airpool.network import Coin, Network
from airpool.privacy.calibrate import largest, largest_shift
from airpool.privacy.device import Aggregate
from airpool.protocol.device import clipped
from airpool.protocol.link import Radio, alignment, radio
from airpool.protocol.simulation import check_latents
from airpool.theory.mse import error, pooled

# Weights end a hair inside what meets the target, so that finding ε again never lands above it by rounding.
_HAIR = 1e-12
# Where power couples the devices, weights and alignment are settled in turns; they agree after a few.
_ROUNDS, _SETTLED = 30, 1e-6
# No weight is tried above this; "no limit" is as good as that.
_MOST = 1e6
# Targets are loosened up to this much in search of feasible ones.
_LOOSEST = 1e9


class InfeasibleError(ValueError):
    """The largest weights do not add up to one; `factor` times the targets is the least that would do."""

    def __init__(self, total: float, factor: float, target: Floats) -> None:
        self.total, self.factor = total, factor
        if np.isinf(factor):
            possible = "no target would do, there is too little noise"
        elif np.all(target == target[0]):
            possible = f"the smallest ε that can be met at this noise is {_up(factor * target[0])}"
        else:
            possible = f"all targets times {_up(factor)} can be met at this noise"
        super().__init__(
            f"the largest weights that meet the targets add up to {total:.4g}, must be >= 1: {possible}; or add noise, "
            'or let them add up to less (normalise="free")'
        )


@dataclass(frozen=True, eq=False)
class WeightDesign:
    """Weights that meet every target, and what they are worth.

    network: the network with these weights and the targets in `devices.epsilon`. upper: w_max. scale: β, what a server
    that knows nothing better multiplies by (1 for "sum").
    mse, mse_before: E‖βẑ − t‖² on the calibration objects, of this network and of the one given, whose ε may be above
    the targets; β of both is the best one for "free" and 1 for "sum".
    kkt_residual: mse is above the least possible by no more than this, at the alignment that was settled on.
    """

    network: Network
    upper: Floats
    scale: float
    mse: float
    mse_before: float
    kkt_residual: float
    rounds: int
    colluding: tuple[int, ...] = ()

    @cached_property
    def epsilon(self) -> Floats:
        """What the network promises, found anew; with thousands of unlike weights it takes longer than the design."""
        return device_epsilon(self.network, aggregate(self.network, colluding=self.colluding))


def design(
    network: Network,
    latents: ArrayLike,
    *,
    epsilon: float | Sequence[float] | None = None,
    target: ArrayLike | None = None,
    decoder: ArrayLike | None = None,
    normalise: Normalise = "sum",
    colluding: Sequence[int] = (),
) -> WeightDesign:
    """The weights of least error at this network's noise, each within what its device's ε allows.

    latents: of *calibration* objects, (n, K, r). epsilon: one target or one each; left out, the network's own.
    target: t, (n, d); left out, D (1/K) Σ z, the plain mean of all views as they are. normalise: "sum", Σ w = 1;
    "free", only how weights compare matters, as for a server that scales what it hears by the public level.

    Holds for: what theory.mse.error holds for; `guarantee(design.network).epsilon` ≤ targets, always. The noise and
        whatever else is in the network stays as it is: scale it before (calibrate), or use "free", which is the same
        as choosing noise and weights of sum one together.
    Differs from the paper: the exact error instead of a bound that is none, exact ε, means over calibration objects.
    Edge cases: Σ w_max < 1 → InfeasibleError, which says what would be feasible. Where fading or a fixed γ couples the
        devices, weights and alignment are settled in turns; the error is then the least at that alignment.

    >>> rng = np.random.default_rng(0)
    >>> latents = rng.standard_normal((20, 1, 8)) / 3 + rng.standard_normal((20, 4, 8)) / 9
    >>> net = Network.uniform(num_devices=4, noise_std=0.2, dimension=8)
    >>> found = design(net, latents, epsilon=[0.5, 0.5, 8.0, 8.0])
    >>> [round(w, 3) for w in found.network.devices.weight]
    [0.057, 0.057, 0.435, 0.451]
    """
    aimed = targets(network, epsilon)
    network = replace(network, devices=replace(network.devices, epsilon=tuple(aimed.tolist())))
    objects = np.asarray(latents, dtype=np.float64)
    wished = _target(objects, network, target, decoder)
    before = _scaled_error(objects, network, wished, decoder, normalise)

    at, hair = with_column(network, "weight", _equal(network)), _HAIR
    previous: Floats | None = None
    for count in range(1, _ROUNDS + 1):
        link = radio(at)
        upper = largest_weight(at, aimed, colluding=colluding) * (1 - hair)
        objective = quadratic(objects, at, target=wished, decoder=decoder, link=link)
        total = float(np.sum(np.minimum(upper, 1.0)))
        if normalise == "sum" and total < 1:
            raise InfeasibleError(total, _feasible_factor(at, aimed, colluding), aimed)
        noise = _noise(objects, at, wished, decoder, link)
        found = solve(objective, upper, normalise=normalise, noise=noise)
        # Half steps where whole ones go back and forth.
        weight = found.weight if previous is None or count < _ROUNDS // 2 else (found.weight + previous) / 2
        at = with_column(at, "weight", weight)
        kept = _kept(at, aimed, colluding)
        settled = previous is not None and np.max(np.abs(weight - previous)) <= _SETTLED * np.max(weight)
        if kept and (settled or _same(radio(at), link, network)):
            after = _scaled_error(objects, at, wished, decoder, normalise)
            return WeightDesign(at, upper, found.scale, after, before, found.residual, count, tuple(colluding))
        hair = hair if kept else min(hair * 10, 0.1)
        previous = weight
    raise ValueError(
        f"weights and alignment did not settle in {_ROUNDS} rounds: power couples these devices too strongly; "
        'give gamma = "auto", more power or a smaller outage'
    )


def largest_weight(
    network: Network, epsilon: float | Sequence[float] | Floats | None = None, *, colluding: Sequence[int] = ()
) -> Floats:
    """w_max of each device: at this network's noise and alignment its ε meets the target, and a little more does not.

    The weights that the network has now matter only for the alignment (outage), which is held fixed. At a fixed γ no
    weight is above what the power can carry. At most 1e6.

    >>> net = Network.uniform(num_devices=12, noise_std=0.05, participation=0.9)
    >>> largest_weight(net, 2.063925).round(4)[0]
    np.float64(0.0833)
    """
    aimed = targets(network, epsilon)
    heard = aggregate(network, colluding=colluding)
    clip = np.array(network.devices.column("clip_norm"))
    if isinstance(network.scheme, Coin) and network.inferences == 1:
        shift = largest_shift(heard, aimed, network.delta, network.neighbours)
    else:
        shift = clip * largest(lambda w: _meets(network, heard, w * clip, aimed), np.full(len(clip), _MOST))
    equal = with_column(network, "weight", _equal(network))
    return np.minimum(shift / clip, np.minimum(most_feature(equal) * _equal(network), _MOST))


def quadratic(
    latents: ArrayLike,
    network: Network,
    *,
    target: ArrayLike | None = None,
    decoder: ArrayLike | None = None,
    link: Radio | None = None,
) -> Quadratic:
    """The mean over the objects of E‖Dẑ − t‖² as a function of the weights, without the noise, at this alignment.

        Σ_ik over mean_i:  ‖Σ_k p_k E[g_k] w_k D z_ik − t_i‖² + Σ_k (p_k E[g_k²] − p_k² E[g_k]²) w_k² ‖D z_ik‖²

    Only products of the devices' latents, and with the target, enter: for more numbers than devices, a K×K matrix.
    """
    z = np.asarray(latents, dtype=np.float64)
    check_latents(z, network)
    wished = _target(z, network, target, decoder)
    z = clipped(z, network.devices.column("clip_norm"))
    link = radio(network) if link is None else link
    moments, p = alignment(network, link), np.array(network.devices.column("participation"))
    arriving = p * moments.mean
    D = None if decoder is None else finite("decoder", decoder)
    size = 0.0
    own, cross = np.zeros(z.shape[1]), np.zeros(z.shape[1])
    rows = z.shape[0] * (z.shape[2] if D is None else D.shape[0])
    thin = rows <= z.shape[1]
    gram, columns = np.zeros((0, 0)) if thin else np.zeros((z.shape[1],) * 2), []
    for views, wish in zip(z, wished, strict=True):  # one object at a time: decoded, it may be long
        seen = views if D is None else views @ D.T
        own += np.sum(seen**2, axis=1)
        cross += seen @ wish
        size += float(wish @ wish)
        if thin:
            columns.append(seen.T)
        else:
            gram += seen @ seen.T
    factor = np.concatenate(columns) if thin else _root(gram)
    n = len(z)
    spread = np.maximum(p * moments.mean_square - arriving**2, 0.0)
    return Quadratic(factor * arriving / n**0.5, spread * own / n, arriving * cross / n, size / n)


def _root(gram: Floats) -> Floats:
    """F with FᵀF = gram."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > values[-1] * len(gram) * np.finfo(np.float64).eps
    return np.sqrt(values[kept])[:, None] * vectors[:, kept].T


def _meets(network: Network, heard: Aggregate, shift: Floats, target: Floats) -> NDArray[np.bool_]:
    return device_epsilon(network, replace(heard, shift=shift)) <= target


def _equal(network: Network) -> Floats:
    return np.full(network.devices.count, 1 / network.devices.count)


def _target(latents: Floats, network: Network, target: ArrayLike | None, decoder: ArrayLike | None) -> Floats:
    check_latents(latents, network)
    if target is None:
        return pooled(latents, 1 / network.devices.count, decoder=decoder)
    width = network.dimension if decoder is None else np.shape(decoder)[0]
    return require_shape("target", finite("target", target), (len(latents), width))


def _noise(latents: Floats, network: Network, target: Floats, decoder: ArrayLike | None, link: Radio) -> float:
    parts = error(latents[:1], network, decoder=decoder, target=target[:1], link=link).mean
    return float(parts.privacy_noise + parts.channel_noise)


def _scaled_error(
    latents: Floats, network: Network, target: Floats, decoder: ArrayLike | None, normalise: Normalise
) -> float:
    if normalise == "sum":
        return float(error(latents, network, decoder=decoder, target=target).mean.total)
    return scaled_error(latents, network, target=target, decoder=decoder)


def scaled_error(
    latents: ArrayLike, network: Network, *, target: ArrayLike | None = None, decoder: ArrayLike | None = None
) -> float:
    """min_β E‖βDẑ − t‖², a mean over the objects: the error where the server chooses the scale itself.

        E‖t‖² − (E⟨Dẑ, t⟩)² / E‖Dẑ‖²

    Edge cases: nothing is heard, or nothing of use → E‖t‖².
    """
    z = np.asarray(latents, dtype=np.float64)
    wished = _target(z, network, target, decoder)
    size = float(np.mean(np.sum(wished**2, axis=1)))
    power = float(error(z, network, decoder=decoder, target=np.zeros_like(wished)).mean.total)
    # E‖Dẑ − t‖² = E‖Dẑ‖² − 2 E⟨Dẑ, t⟩ + E‖t‖²
    product = (power + size - float(error(z, network, decoder=decoder, target=wished).mean.total)) / 2
    return size - max(product, 0.0) ** 2 / power if power > 0 else size


def _kept(network: Network, target: Floats, colluding: Sequence[int]) -> bool:
    """Whether every ε meets its target at the alignment that these weights themselves bring about.

    ε grows with the own weight, so a weight below its limit will do. A stream's ε comes from a grid: it is looked at.
    """
    if network.inferences > 1:
        return bool(np.all(device_epsilon(network, aggregate(network, colluding=colluding)) <= target))
    limit = largest_weight(network, target, colluding=colluding) * (1 - _HAIR / 2)
    return bool(np.all(np.array(network.devices.column("weight")) <= limit))


def _same(now: Radio, before: Radio, network: Network) -> bool:
    """Whether other weights left the alignment, and what the receiver's noise amounts to, as they were."""
    deaf = network.channel.noise_std == 0 or now.gamma == before.gamma
    return deaf and np.array_equal(now.outage, before.outage)


def _feasible_factor(network: Network, target: Floats, colluding: Sequence[int]) -> float:
    """The least factor on the targets at which the largest weights add up to one; inf if none does."""

    def missing(log_factor: float) -> float:
        upper = largest_weight(network, target * np.exp(log_factor), colluding=colluding)
        return float(np.sum(np.minimum(upper * (1 - 2 * _HAIR), 1.0))) - 1

    high = np.log(_LOOSEST)
    if missing(high) < 0:
        return float("inf")
    return float(np.exp(brentq(missing, 0.0, high, xtol=1e-6))) * (1 + 2e-6)


def _up(value: float) -> str:
    """Four digits, rounded up: what is named must be feasible."""
    digits = 3 - int(np.floor(np.log10(value)))
    return f"{np.ceil(value * 10.0**digits) / 10.0**digits:.{max(digits, 0)}f}"
