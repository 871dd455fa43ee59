"""Clip norms and noise for devices with different privacy targets (spec §6).

At a common noise level a device with a stricter target needs a smaller clip norm, C_k = min(C, C_max,k). With much
noise nobody is clipped further and the strictest target decides for all; with little noise, strict devices are clipped
to almost nothing. The noise level of least error on calibration objects lies between.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from airpool.account.calibration import calibrate, targets, with_column
from airpool.account.guarantee import aggregate
from airpool.account.guarantee import epsilon as device_epsilon
from airpool.arrays import Floats
from airpool.design.weights import largest_weight, scaled_error
from airpool.network import Network

# Clip norms stay this far below what meets the target; ten times farther at every further try.
_MARGIN, _TRIES = 1e-12, 12
# Noise levels on the grid, before the best one is refined.
_LEVELS = 17


@dataclass(frozen=True, eq=False)
class ClipDesign:
    """Clip norms and noise that meet every target.

    network: with these clip norms and noise, and the targets in `devices.epsilon`. epsilon: of this network.
    mse, mse_before: min_β E‖βẑ − t‖² on the calibration objects, of this and of the given network, whose ε may exceed
    the targets. noise_factor: on the noise of the given network.
    """

    network: Network
    epsilon: Floats
    noise_factor: float
    mse: float
    mse_before: float


def design(
    network: Network,
    latents: ArrayLike,
    *,
    epsilon: float | Sequence[float] | None = None,
    target: ArrayLike | None = None,
    decoder: ArrayLike | None = None,
    colluding: Sequence[int] = (),
) -> ClipDesign:
    """Clip norms C_k ≤ C, each as large as its device's ε allows, at the common noise factor of least error.

        min_s min_β E‖βDẑ − t‖²,   noise s·σ_k,  C_k = min(C_k, s·C_max,k)

    latents: of *calibration* objects, (n, K, r). epsilon: one target or one per device, by default the network's own.
    target: t (n, d), by default D (1/K) Σ z of the latents without clipping. C_max,k: the largest clip norm at which
    ε_k meets its target at noise σ. The search is between two noise factors: below the first every clip norm and the
    noise shrink together, and nothing changes for a server that knows the scale; above the second nobody is clipped
    further, and only the noise grows.

    Holds for: what theory.mse.error holds for; `guarantee(design.network).epsilon` ≤ targets, always. Weights and the
        ratios of the noise stay as they are.
    Edge cases: no noise at all → an error; a target that no clip norm meets → calibrate's error, with what is possible.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.standard_normal((20, 1, 8)) + rng.standard_normal((20, 4, 8)) / 3
    >>> z /= np.linalg.norm(z, axis=-1, keepdims=True)
    >>> found = design(Network.uniform(num_devices=4, noise_std=0.2, dimension=8), z, epsilon=[0.5, 0.5, 8.0, 8.0])
    >>> [round(c, 3) for c in found.network.devices.clip_norm]
    [0.085, 0.085, 1.0, 1.0]
    """
    aimed = targets(network, epsilon)
    network = replace(network, devices=replace(network.devices, epsilon=tuple(aimed.tolist())))
    std, given = (np.array(network.devices.column(name)) for name in ("noise_std", "clip_norm"))
    if not np.any(std > 0):
        raise ValueError("noise_std is 0 everywhere: no clip norm meets a target; give some noise, its scale is found")
    objects = np.asarray(latents, dtype=np.float64)
    before = scaled_error(objects, network, target=target, decoder=decoder)
    most = largest_clip_norm(network, aimed, colluding=colluding)
    ends = _ends(network, most, aimed, colluding)
    # Without fading or a power limit, noise and clip norms scale together.
    scales = network.channel.gamma == "auto" and network.channel.fading == "none"

    def at(log_factor: float) -> Network:
        noisier = with_column(network, "noise_std", std * np.exp(log_factor))
        return _clipped(noisier, given, most * np.exp(log_factor) if scales else None, aimed, colluding)

    def loss(log_factor: float) -> float:
        return scaled_error(objects, at(log_factor), target=target, decoder=decoder)

    levels = np.linspace(np.log(ends[0]), np.log(ends[1]), _LEVELS) if ends[0] < ends[1] else np.log(ends[1:])
    losses = [loss(level) for level in levels]
    best = int(np.argmin(losses))
    log_factor = float(levels[best])
    if len(levels) > 1:
        near = levels[max(best - 1, 0)], levels[min(best + 1, _LEVELS - 1)]
        refined = minimize_scalar(loss, bounds=near, method="bounded", options={"xatol": 1e-4})
        log_factor = float(refined.x) if float(refined.fun) < losses[best] else log_factor
    found = at(log_factor)
    return ClipDesign(
        network=found,
        epsilon=device_epsilon(found, aggregate(found, colluding=colluding)),
        noise_factor=float(np.exp(log_factor)),
        mse=scaled_error(objects, found, target=target, decoder=decoder),
        mse_before=before,
    )


def largest_clip_norm(
    network: Network, epsilon: float | Sequence[float] | Floats | None = None, *, colluding: Sequence[int] = ()
) -> Floats:
    """C_max (K,): the largest clip norm at which each device's ε meets its target, at this noise and alignment.

    The sensitivity is w C, so this is w_max C/w. Edge cases: a device of weight 0 → inf.

    >>> largest_clip_norm(Network.uniform(num_devices=12, noise_std=0.05, participation=0.9), 2.063925).round(4)[0]
    np.float64(1.0)
    """
    weight, clip = (np.array(network.devices.column(name)) for name in ("weight", "clip_norm"))
    most = largest_weight(network, epsilon, colluding=colluding) * clip
    with np.errstate(divide="ignore"):
        return np.where(weight > 0, most / np.where(weight > 0, weight, 1.0), np.inf)


def _ends(network: Network, most: Floats, target: Floats, colluding: Sequence[int]) -> tuple[float, float]:
    """The noise factors at which the first and the last device are clipped further."""
    room = most / np.array(network.devices.column("clip_norm"))
    if not np.all(room > 0):
        # Raises an error that names the target and what is possible.
        calibrate(network, epsilon=target.tolist(), knob="clip", colluding=colluding)
    room = room[np.isfinite(room)]
    return (float(1 / np.max(room)), float(1 / np.min(room))) if len(room) else (1.0, 1.0)


def _clipped(network: Network, given: Floats, most: Floats | None, target: Floats, colluding: Sequence[int]) -> Network:
    """The network with C_k = min(C, C_max,k), verified: other clip norms may change the alignment."""
    margin = _MARGIN
    for _ in range(_TRIES):
        limit = largest_clip_norm(network, target, colluding=colluding) if most is None else most
        network = with_column(network, "clip_norm", np.minimum(given, limit * (1 - margin)))
        if np.all(device_epsilon(network, aggregate(network, colluding=colluding)) <= target):
            return network
        margin = min(margin * 10, 0.1)
    raise ValueError("clip norms and alignment did not settle: power couples these devices too strongly")
