"""The weights of least error for devices with different privacy targets (docs/theory/design.md).

    min_w E‖Dẑ − t‖²   s.t.  Σ w = 1,  0 ≤ w_k ≤ w_max,k      w_max,k: the largest weight at which ε_k meets its target

The expectation is over participation, fading and noise, and averaged over calibration objects. Weights never depend on
the inference at hand, which they would leak. The paper's algorithm is paper.formulas.weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool._support.arrays import Floats, finite
from airpool._support.brief import Brief
from airpool._support.errors import AirpoolError
from airpool._support.progress import automatic
from airpool._support.rounding import down
from airpool._support.search import smallest_number
from airpool._support.table import runs_of
from airpool._support.threads import single_thread
from airpool.account.calibration import most_feature, targets, with_column
from airpool.account.guarantee import device_epsilon
from airpool.account.received import aggregate, require_supported
from airpool.account.report import shown
from airpool.evaluation.design.qp import Normalise, Quadratic, solve
from airpool.evaluation.mse import error, joint_alignment, pooled
from airpool.network import Claim, Network
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.calibrate import largest, largest_shift
from airpool.privacy.compose import LEAST_SHARE
from airpool.privacy.law import Arrivals
from airpool.protocol.device import clipped
from airpool.protocol.medium import turned
from airpool.protocol.simulation import check_latents
from airpool.radio.link import Link, link_of, noise_gain

# Weights stay this far below what meets the target, so that rounding never lifts ε above it.
_MARGIN = 1e-12
# Where power couples the devices, weights and alignment are computed alternately until they agree.
_ROUNDS, _SETTLED, _ROUGHLY_SETTLED = 30, 1e-6, 1e-3
_LARGEST_WEIGHT = 1e6
_SHOWN = 40  # devices in a notebook
# Upper end of the search for feasible targets, as a factor.
_LOOSEST = 1e9


class InfeasibleError(AirpoolError, ValueError):
    """The largest weights add up to less than one. factor: on the targets, the smallest that is feasible."""

    def __init__(self, total: float, factor: float, target: Floats) -> None:
        self.total, self.factor = total, factor
        if np.isinf(factor):
            possible = "no target would do, there is too little noise"
        elif np.all(target == target[0]):
            possible = f"the smallest ε that can be met at this noise is {shown(factor * target[0])}"
        else:
            possible = f"all targets times {shown(factor)} can be met at this noise"
        super().__init__(
            f"the largest weights that meet the targets add up to {down(total)}, must be >= 1: {possible}; or add "
            'noise, or let them add up to less (normalise="free")'
        )


@dataclass(frozen=True, eq=False, repr=False)
class Design(Brief):
    """A network that meets every target, by its weights or by its clip norms and noise.

    network: with the targets in `devices.epsilon`. claim: what they are about. mse: E‖βẑ − t‖² on the calibration
    objects; β is the best one, but 1 for weights with normalise="sum". mse_before: that of the given network, whose ε
    may exceed the targets. upper: the largest weight (or clip norm, at the given noise) that meets each device's
    target. scale: for weights, β, by which a server without other knowledge multiplies the estimate. kkt_residual: for
    weights, a bound on mse − optimum, at the final alignment. noise_factor: for clip norms, the factor on the noise of
    the given network. Example: `design`.
    """

    network: Network
    claim: Claim
    mse: float
    mse_before: float
    upper: Floats
    scale: float = 1.0
    kkt_residual: float | None = None
    noise_factor: float = 1.0

    def _repr_html_(self) -> str:
        from airpool._support import notebook

        d, many = self.network.devices, self.network.devices.count > _SHOWN
        reached = ["not computed: read .epsilon"] * d.count if many else map(shown, self.epsilon.tolist())
        columns = ("weight", "clip_norm", "noise_std", "epsilon")
        values = zip(*([f"{x:.4g}" for x in d.column(name)] for name in columns), reached, strict=True)
        header = ("device", "weight", "clip norm", "noise std", "target ε", "ε")
        rows = [(label, *line) for label, line in runs_of(list(values))]
        error = f"Mean square error on the calibration objects: {self.mse:.4g}, before {self.mse_before:.4g}."
        return notebook.shown("Design", notebook.rows_of(header, rows), notebook.sentences([error]))

    @cached_property
    def epsilon(self) -> Floats:
        """ε of the designed network. With thousands of heterogeneous weights it takes longer than the design."""
        return device_epsilon(self.network, self.claim)


@automatic("designing")
@single_thread()
def design(
    network: Network,
    latents: ArrayLike,
    claim: Claim = Claim(),
    *,
    epsilon: float | Sequence[float] | None = None,
    target: ArrayLike | None = None,
    decoder: ArrayLike | None = None,
    normalise: Normalise = "sum",
) -> Design:
    """The weights of least error at this network's noise that meet every target.

    latents: of *calibration* objects, (n, K, r). claim: what the targets are about. epsilon: one target or one per
    device, by default the network's own. target: t (n, d), by default D (1/K) Σ z of the latents without clipping.
    normalise: "sum", Σ w = 1; "free", only ratios of weights matter, for a server that scales the estimate by its
    public level.

    Holds for: what mse.error holds for; `guarantee(design.network, claim).epsilon` ≤ targets, always. The noise stays
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
    claim = claim.of_target
    require_supported(network, claim)
    aimed = targets(network, epsilon)
    network = with_column(network, "epsilon", aimed)
    objects = finite("latents", latents)
    wished = _target(objects, target, decoder)

    def mse(net: Network) -> float:
        if normalise == "free":
            return scaled_error(objects, net, target=wished, decoder=decoder)
        return float(error(objects, net, decoder=decoder, target=wished).mean.total)

    before = mse(network)
    at, below = with_column(network, "weight", _equal(network)), _MARGIN
    after, previous = link_of(at), None
    # Where laws are drawn, the first rounds make do with few draws; the last ones, which decide, have all of them.
    rough = isinstance(aggregate(at, claim).strength, Arrivals)
    for count in range(_ROUNDS):
        link = after
        upper = largest_weight(at, claim, aimed, rough=rough) * (1 - below)
        total = float(np.sum(np.minimum(upper, 1.0)))
        if normalise == "sum" and total < 1 and rough:
            rough = False
            continue
        if normalise == "sum" and total < 1:
            raise InfeasibleError(total, _feasible_factor(at, claim, aimed), aimed)
        objective = quadratic(objects, at, target=wished, decoder=decoder, link=link)
        one = error(objects[:1], at, decoder=decoder, target=wished[:1], link=link).mean
        found = solve(objective, upper, normalise=normalise, noise=float(one.privacy_noise + one.channel_noise))
        # Half steps once full ones have not converged.
        weight = found.weight if previous is None or count < _ROUNDS // 2 - 1 else (found.weight + previous) / 2
        at = with_column(at, "weight", weight)
        after = link_of(at)
        if network.uses(claim) > 1:
            met = np.all(device_epsilon(at, claim, rough=rough) <= aimed)
        else:  # ε grows with the device's own weight, so a weight below its limit suffices
            limit = largest_weight(at, claim, aimed, rough=rough)
            met = np.all(weight <= limit * (1 - _MARGIN / 2))
        aligned = np.array_equal(after.outage, link.outage)
        settled = aligned and (network.channel.noise_std == 0 or after.gamma == link.gamma)
        if previous is not None:
            near = _ROUGHLY_SETTLED if rough else _SETTLED
            settled |= np.max(np.abs(weight - previous)) <= near * np.max(weight)
        if rough and settled:
            rough, below = False, _MARGIN
        elif met and settled:
            return Design(at, claim, mse(at), before, upper, found.scale, found.residual)
        below = below if met else min(below * 10, 0.1)
        previous = weight
    raise ValueError(
        f"weights and alignment did not converge in {_ROUNDS} rounds: power couples these devices too strongly; "
        'give gamma = "auto", more power or a smaller outage'
    )


def largest_weight(
    network: Network, claim: Claim, epsilon: float | Sequence[float] | Floats | None = None, *, rough: bool = False
) -> Floats:
    """w_max (K,): the largest weight at which each device's ε meets its target, at this noise and alignment.

    The network's own weights matter only for the alignment (outage), which is held fixed. At a fixed γ, limited by the
    device's power. At most 1e6. rough: a little smaller, where that is much faster (`account.received.aggregate`).

    >>> net = Network.uniform(num_devices=12, noise_std=0.05, participation=0.9)
    >>> largest_weight(net, Claim(), 2.063925).round(4)[0]
    np.float64(0.0833)
    """
    aimed = targets(network, epsilon)
    received = aggregate(network, claim, rough=rough)
    clip = np.array(network.devices.column("clip_norm"))
    if network.scheme.independent and network.uses(claim) == 1:
        with single_thread():
            weight = _largest_shift(claim, received, aimed) / clip
    else:

        def meets(weight: Floats) -> NDArray[np.bool_]:
            return device_epsilon(network, claim, replace(received, shift=weight * clip)) <= aimed

        weight = largest(meets, np.full(len(clip), _LARGEST_WEIGHT))
    within_power = most_feature(with_column(network, "weight", _equal(network))) * _equal(network)
    return np.minimum(weight, np.minimum(within_power, _LARGEST_WEIGHT))


def _largest_shift(claim: Claim, received: Aggregate, aimed: Floats) -> Floats:
    """`largest_shift` at what outcomes outside the law leave of δ (`compose.nearby`); 0 where that is next to none."""
    delta, missed = claim.delta, received.misses
    if not np.any(missed):
        return largest_shift(received, aimed, delta, claim.neighbours)
    with np.errstate(over="ignore"):
        left = np.nextafter(delta - np.where(missed > 0, (1 + np.exp(aimed)) * missed, 0.0), 0.0)
    some = left >= LEAST_SHARE * delta
    found = largest_shift(received, aimed * (1 - 4 * _MARGIN), np.where(some, left, delta), claim.neighbours)
    return np.where(some, found, 0.0)


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

    Where devices fade together, p_k² Var(g_k) belongs to the covariance of all p_k g_k, which is one more factor.
    """
    z = finite("latents", latents)
    check_latents(z, network)
    wished = _target(z, target, decoder)
    z = clipped(z, network.devices.column("clip_norm"))
    moments, together, _ = joint_alignment(network, link_of(network) if link is None else link)
    p = np.array(network.devices.column("participation"))
    arriving = p * moments.mean
    spread = np.maximum(p * moments.mean_square - arriving**2, 0.0)
    n, count, _ = z.shape
    # Of a decoder with D = QR, only R and Dᵀt matter; of more rows than devices, again only R.
    D = None if decoder is None else finite("decoder", decoder)
    seen = z if D is None else z @ np.asarray(np.linalg.qr(D, mode="r")).T
    cross = np.einsum("nkr,nr->k", z, wished if D is None else wished @ D)
    factor = seen.swapaxes(1, 2).reshape(-1, count)
    if len(factor) > count:
        factor = np.asarray(np.linalg.qr(factor, mode="r"))
    rows, diagonal = factor * arriving, spread * np.sum(seen**2, axis=(0, 2))
    if together is not None:
        # Covariance ∘ Gram matrix is positive semidefinite with its diagonal, which is then no longer by itself.
        covariance = together.covariance + np.diag(moments.mean_square - moments.mean**2)
        value, vector = np.linalg.eigh(np.outer(p, p) * covariance * (factor.T @ factor))
        rows = np.concatenate([rows, (vector * np.sqrt(np.maximum(value, 0.0))).T])
        diagonal = p * (1 - p) * moments.mean_square * np.sum(seen**2, axis=(0, 2))
    mixed = p * np.maximum(noise_gain(network, moments) - moments.mean_square, 0.0)
    if np.any(mixed > 0):
        # Im ρ of complex symbols, which is 0 on average.
        across = turned(z) if D is None else turned(z) @ np.asarray(np.linalg.qr(D, mode="r")).T
        diagonal = diagonal + mixed * np.sum(across**2, axis=(0, 2))
    return Quadratic(rows / n**0.5, diagonal / n, arriving * cross / n, float(np.sum(wished**2)) / n)


def scaled_error(
    latents: ArrayLike, network: Network, *, target: ArrayLike | None = None, decoder: ArrayLike | None = None
) -> float:
    """min_β E‖βDẑ − t‖² = E‖t‖² − (E⟨Dẑ, t⟩)² / E‖Dẑ‖², averaged over the objects.

    Edge cases: nothing is received, or nothing correlated with t → E‖t‖².
    """
    z = finite("latents", latents)
    wished = _target(z, target, decoder)
    size = float(np.mean(np.sum(wished**2, axis=1)))
    power = float(error(z, network, decoder=decoder, target=np.zeros_like(wished)).mean.total)
    # E‖Dẑ − t‖² = E‖Dẑ‖² − 2 E⟨Dẑ, t⟩ + E‖t‖²
    product = (power + size - float(error(z, network, decoder=decoder, target=wished).mean.total)) / 2
    return size - max(product, 0.0) ** 2 / power if power > 0 else size


def _equal(network: Network) -> Floats:
    return np.full(network.devices.count, 1 / network.devices.count)


def _target(latents: Floats, target: ArrayLike | None, decoder: ArrayLike | None) -> Floats:
    """t, by default the decoded mean of the devices' latents."""
    if target is None:
        return pooled(latents, 1 / latents.shape[1], decoder=decoder)
    return finite("target", target)


def _feasible_factor(network: Network, claim: Claim, target: Floats) -> float:
    """The smallest factor on the targets at which the largest weights add up to one; inf if there is none."""

    def missing(log_factor: float) -> float:
        upper = largest_weight(network, claim, target * np.exp(log_factor)) * (1 - 2 * _MARGIN)
        return 1 - float(np.sum(np.minimum(upper, 1.0)))

    return float(np.exp(smallest_number(missing, 0.0, float(np.log(_LOOSEST)))))
