"""The weights of least error for devices with different privacy targets (spec §6).

    min_w E‖Dẑ − t‖²   s.t.  Σ w = 1,  0 ≤ w_k ≤ w_max,k      w_max,k: the largest weight at which ε_k meets its target

The expectation is over participation, fading and noise, and averaged over calibration objects. Weights never depend on
the inference at hand, which they would leak. The paper's algorithm is paper.weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool.account.calibration import most_feature, targets, with_column
from airpool.account.guarantee import aggregate
from airpool.account.guarantee import epsilon as device_epsilon
from airpool.arrays import Floats, finite, require_shape
from airpool.design.qp import Normalise, Quadratic, solve
from airpool.network import Coin, Network
from airpool.privacy.calibrate import largest, largest_shift
from airpool.protocol.device import clipped
from airpool.protocol.link import Link, alignment, link_of
from airpool.protocol.simulation import check_latents
from airpool.search import smallest_number
from airpool.theory.mse import error, pooled

# Weights stay this far below what meets the target, so that rounding never lifts ε above it.
_MARGIN = 1e-12
# Where power couples the devices, weights and alignment are computed alternately until they agree.
_ROUNDS, _SETTLED = 30, 1e-6
_LARGEST_WEIGHT = 1e6
# Upper end of the search for feasible targets, as a factor.
_LOOSEST = 1e9


class InfeasibleError(ValueError):
    """The largest weights add up to less than one. factor: on the targets, the smallest that is feasible."""

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
    """Weights that meet every target.

    network: with these weights, and the targets in `devices.epsilon`. upper: w_max. scale: β, by which a server without
    other knowledge multiplies the estimate (1 for "sum").
    mse, mse_before: E‖βẑ − t‖² on the calibration objects, of this and of the given network, whose ε may exceed the
    targets; β is optimal for "free" and 1 for "sum".
    kkt_residual: bound on mse − optimum, at the final alignment.
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
        """ε of the designed network. With thousands of heterogeneous weights it takes longer than the design."""
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
    """The weights of least error at this network's noise that meet every target.

    latents: of *calibration* objects, (n, K, r). epsilon: one target or one per device, by default the network's own.
    target: t (n, d), by default D (1/K) Σ z of the latents without clipping. normalise: "sum", Σ w = 1; "free", only
    ratios of weights matter, for a server that scales the estimate by its public level.

    Holds for: what theory.mse.error holds for; `guarantee(design.network).epsilon` ≤ targets, always. The noise stays
        as it is: calibrate it before, or use "free", which is equivalent to choosing noise and weights together.
    Differs from the paper: the exact error instead of an invalid bound, exact ε, averages over calibration objects.
    Edge cases: Σ w_max < 1 → InfeasibleError, with what is feasible. Where fading or a fixed γ couples the devices,
        weights and alignment are computed alternately; the error is the least at the final alignment.

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

    def mse(net: Network) -> float:
        if normalise == "free":
            return scaled_error(objects, net, target=wished, decoder=decoder)
        return float(error(objects, net, decoder=decoder, target=wished).mean.total)

    before = mse(network)
    at, below = with_column(network, "weight", _equal(network)), _MARGIN
    previous: Floats | None = None
    for count in range(1, _ROUNDS + 1):
        link = link_of(at)
        upper = largest_weight(at, aimed, colluding=colluding) * (1 - below)
        total = float(np.sum(np.minimum(upper, 1.0)))
        if normalise == "sum" and total < 1:
            raise InfeasibleError(total, _feasible_factor(at, aimed, colluding), aimed)
        objective = quadratic(objects, at, target=wished, decoder=decoder, link=link)
        one = error(objects[:1], at, decoder=decoder, target=wished[:1], link=link).mean
        noise = float(one.privacy_noise + one.channel_noise)
        found = solve(objective, upper, normalise=normalise, noise=noise)
        # Half steps once full ones have not converged.
        weight = found.weight if previous is None or count < _ROUNDS // 2 else (found.weight + previous) / 2
        at = with_column(at, "weight", weight)
        met = _meets_targets(at, aimed, colluding)
        settled = previous is not None and np.max(np.abs(weight - previous)) <= _SETTLED * np.max(weight)
        if met and (settled or _same(link_of(at), link, network)):
            return WeightDesign(at, upper, found.scale, mse(at), before, found.residual, count, tuple(colluding))
        below = below if met else min(below * 10, 0.1)
        previous = weight
    raise ValueError(
        f"weights and alignment did not settle in {_ROUNDS} rounds: power couples these devices too strongly; "
        'give gamma = "auto", more power or a smaller outage'
    )


def largest_weight(
    network: Network, epsilon: float | Sequence[float] | Floats | None = None, *, colluding: Sequence[int] = ()
) -> Floats:
    """w_max (K,): the largest weight at which each device's ε meets its target, at this noise and alignment.

    The network's own weights matter only for the alignment (outage), which is held fixed. At a fixed γ, limited by the
    device's power. At most 1e6.

    >>> net = Network.uniform(num_devices=12, noise_std=0.05, participation=0.9)
    >>> largest_weight(net, 2.063925).round(4)[0]
    np.float64(0.0833)
    """
    aimed = targets(network, epsilon)
    received = aggregate(network, colluding=colluding)
    clip = np.array(network.devices.column("clip_norm"))
    if isinstance(network.scheme, Coin) and network.inferences == 1:
        shift = largest_shift(received, aimed, network.delta, network.neighbours)
    else:

        def meets(weight: Floats) -> NDArray[np.bool_]:
            return device_epsilon(network, replace(received, shift=weight * clip)) <= aimed

        shift = clip * largest(meets, np.full(len(clip), _LARGEST_WEIGHT))
    equal = with_column(network, "weight", _equal(network))
    return np.minimum(shift / clip, np.minimum(most_feature(equal) * _equal(network), _LARGEST_WEIGHT))


def quadratic(
    latents: ArrayLike,
    network: Network,
    *,
    target: ArrayLike | None = None,
    decoder: ArrayLike | None = None,
    link: Link | None = None,
) -> Quadratic:
    """E‖Dẑ − t‖² without the noise, averaged over the objects, as a function of the weights at this alignment.

        mean_i:  ‖Σ_k p_k E[g_k] w_k D z_ik − t_i‖² + Σ_k (p_k E[g_k²] − p_k² E[g_k]²) w_k² ‖D z_ik‖²

    Only inner products of latents and target enter: a K×K matrix where there are more numbers than devices.
    """
    z = np.asarray(latents, dtype=np.float64)
    check_latents(z, network)
    wished = _target(z, network, target, decoder)
    z = clipped(z, network.devices.column("clip_norm"))
    link = link_of(network) if link is None else link
    moments, p = alignment(network, link), np.array(network.devices.column("participation"))
    arriving = p * moments.mean
    D = None if decoder is None else finite("decoder", decoder)
    size = 0.0
    own, cross = np.zeros(z.shape[1]), np.zeros(z.shape[1])
    rows = z.shape[0] * (z.shape[2] if D is None else D.shape[0])
    thin = rows <= z.shape[1]
    gram, columns = np.zeros((0, 0)) if thin else np.zeros((z.shape[1],) * 2), []
    for views, wish in zip(z, wished, strict=True):  # one object at a time: decoded, it may be large
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


def _equal(network: Network) -> Floats:
    return np.full(network.devices.count, 1 / network.devices.count)


def _target(latents: Floats, network: Network, target: ArrayLike | None, decoder: ArrayLike | None) -> Floats:
    check_latents(latents, network)
    if target is None:
        return pooled(latents, 1 / network.devices.count, decoder=decoder)
    width = network.dimension if decoder is None else np.shape(decoder)[0]
    return require_shape("target", finite("target", target), (len(latents), width))


def scaled_error(
    latents: ArrayLike, network: Network, *, target: ArrayLike | None = None, decoder: ArrayLike | None = None
) -> float:
    """min_β E‖βDẑ − t‖² = E‖t‖² − (E⟨Dẑ, t⟩)² / E‖Dẑ‖², averaged over the objects.

    Edge cases: nothing is received, or nothing correlated with t → E‖t‖².
    """
    z = np.asarray(latents, dtype=np.float64)
    wished = _target(z, network, target, decoder)
    size = float(np.mean(np.sum(wished**2, axis=1)))
    power = float(error(z, network, decoder=decoder, target=np.zeros_like(wished)).mean.total)
    # E‖Dẑ − t‖² = E‖Dẑ‖² − 2 E⟨Dẑ, t⟩ + E‖t‖²
    product = (power + size - float(error(z, network, decoder=decoder, target=wished).mean.total)) / 2
    return size - max(product, 0.0) ** 2 / power if power > 0 else size


def _meets_targets(network: Network, target: Floats, colluding: Sequence[int]) -> bool:
    """Whether every ε meets its target at the alignment of these weights.

    ε grows with the device's own weight, so a weight below its limit suffices. Compositions are evaluated.
    """
    if network.inferences > 1:
        return bool(np.all(device_epsilon(network, aggregate(network, colluding=colluding)) <= target))
    limit = largest_weight(network, target, colluding=colluding) * (1 - _MARGIN / 2)
    return bool(np.all(np.array(network.devices.column("weight")) <= limit))


def _same(now: Link, before: Link, network: Network) -> bool:
    """Whether the new weights left outage and receiver noise unchanged."""
    same_noise = network.channel.noise_std == 0 or now.gamma == before.gamma
    return same_noise and np.array_equal(now.outage, before.outage)


def _feasible_factor(network: Network, target: Floats, colluding: Sequence[int]) -> float:
    """The smallest factor on the targets at which the largest weights add up to one; inf if there is none."""

    def missing(log_factor: float) -> float:
        upper = largest_weight(network, target * np.exp(log_factor), colluding=colluding) * (1 - 2 * _MARGIN)
        return 1 - float(np.sum(np.minimum(upper, 1.0)))

    return float(np.exp(smallest_number(missing, 0.0, float(np.log(_LOOSEST)))))


def _up(value: float) -> str:
    """Four digits, rounded up."""
    digits = 3 - int(np.floor(np.log10(value)))
    return f"{np.ceil(value * 10.0**digits) / 10.0**digits:.{max(digits, 0)}f}"
