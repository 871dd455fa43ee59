"""Clip norms and noise for devices with different privacy targets (docs/theory/design.md).

At a common noise level a device with a stricter target needs a smaller clip norm, C_k = min(C, C_max,k). With much
noise no device is clipped further and the strictest target decides for all; with little noise, strict devices are
clipped to almost nothing. The noise level of least error on calibration objects lies between.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from airpool._support.arrays import Floats
from airpool._support.progress import automatic
from airpool._support.threads import single_thread
from airpool.account.calibration import calibrate, targets, with_column
from airpool.account.guarantee import device_epsilon
from airpool.account.received import aggregate, require_supported
from airpool.evaluation.design.weights import Design, largest_weight, scaled_error
from airpool.network import Claim, Network

# Clip norms stay this far below what meets the target; ten times farther at every further try.
_MARGIN, _TRIES = 1e-12, 12
# Noise levels on the grid, before the best one is refined, and how far; then where each level takes long.
_LEVELS, _CLOSE = (17, 9), (1e-4, 1e-2)


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
) -> Design:
    """Clip norms C_k ≤ C, each as large as its device's ε allows, at the common noise factor of least error.

        min_s min_β E‖βDẑ − t‖²,   noise s·σ_k,  C_k = min(C_k, C_max,k at this noise)

    latents: of *calibration* objects, (n, K, r). claim: what the targets are about. epsilon: one target or one per
    device, by default the network's own. target: t (n, d), by default D (1/K) Σ z of the latents without clipping.

    Holds for: what mse.error holds for; `guarantee(design.network, claim).epsilon` ≤ targets, always. Weights and the
        ratios of the noise stay as they are. The search ends where no optimum can lie beyond (docs/proofs/design.md).
    Edge cases: no noise at all → an error; a target that no clip norm meets → calibrate's error, with what is possible.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.standard_normal((20, 1, 8)) + rng.standard_normal((20, 4, 8)) / 3
    >>> z /= np.linalg.norm(z, axis=-1, keepdims=True)
    >>> found = design(Network.uniform(num_devices=4, noise_std=0.2, dimension=8), z, epsilon=[0.5, 0.5, 8.0, 8.0])
    >>> [round(c, 3) for c in found.network.devices.clip_norm]
    [0.085, 0.085, 1.0, 1.0]
    """
    claim, aimed = claim.of_target, targets(network, epsilon)
    network = with_column(network, "epsilon", aimed)
    std, given = (np.array(network.devices.column(name)) for name in ("noise_std", "clip_norm"))
    if not np.any(std > 0):
        raise ValueError("noise_std is 0 everywhere: no clip norm meets a target; give some noise, its scale is found")
    require_supported(network, claim)
    most = largest_clip_norm(network, claim, aimed)
    if not np.all(most > 0):
        # Raises an error that names the target and what is possible.
        calibrate(network, claim, epsilon=aimed.tolist(), adjust="clip")
    # Without fading or a power limit, noise and clip norms scale together.
    scales = network.channel.gamma == "auto" and network.channel.fading == "none"

    def at(log_factor: float, *, rough: bool = False) -> Network:
        """The network at this noise, verified at its own alignment, which its clip norms may change.

        rough: few draws where laws are drawn, until the last step.
        """
        net, margin = with_column(network, "noise_std", std * np.exp(log_factor)), _MARGIN
        for _ in range(_TRIES):
            limit = most * np.exp(log_factor)
            if not scales:
                limit = largest_clip_norm(net, claim, aimed, rough=rough)
            net = with_column(net, "clip_norm", np.minimum(given, limit * (1 - margin)))
            if np.all(device_epsilon(net, claim, rough=rough) <= aimed):
                return net
            margin = min(margin * 10, 0.1)
        raise ValueError("clip norms and alignment did not converge: power couples these devices too strongly")

    def loss(net: Network) -> float:
        return scaled_error(latents, net, target=target, decoder=decoder)

    # The noise at which the first and the last device are clipped further.
    needed = np.log(given / most)[np.isfinite(most)]
    low, high = (float(np.min(needed)), float(np.max(needed))) if len(needed) else (0.0, 0.0)
    costly = aggregate(network, claim).strength is not None
    levels = np.linspace(low, high, _LEVELS[costly] if low < high else 1)
    losses = [loss(at(level, rough=True)) for level in levels]
    best = int(np.argmin(losses))
    log_factor = float(levels[best])
    if low < high:
        near = levels[max(best - 1, 0)], levels[min(best + 1, len(levels) - 1)]
        refined: Any = minimize_scalar(
            lambda x: loss(at(x, rough=True)), bounds=near, method="bounded", options={"xatol": _CLOSE[costly]}
        )
        log_factor = float(refined.x) if float(refined.fun) < losses[best] else log_factor
    found = at(log_factor)
    return Design(found, claim, loss(found), loss(network), most, noise_factor=float(np.exp(log_factor)))


def largest_clip_norm(
    network: Network, claim: Claim, epsilon: float | Sequence[float] | Floats | None = None, *, rough: bool = False
) -> Floats:
    """C_max (K,): the largest clip norm at which each device's ε meets its target, at this noise and alignment.

    The sensitivity is w C, so this is w_max C/w. Edge cases: a device of weight 0 → inf.

    >>> net = Network.uniform(num_devices=12, noise_std=0.05, participation=0.9)
    >>> largest_clip_norm(net, Claim(), 2.063925).round(4)[0]
    np.float64(1.0)
    """
    weight, clip = (np.array(network.devices.column(name)) for name in ("weight", "clip_norm"))
    most = largest_weight(network, claim, epsilon, rough=rough) * clip
    return np.divide(most, weight, out=np.full(len(weight), np.inf), where=weight > 0)
