"""How the error of what the server hears changes with the number of devices: exact and measured.

The paper says MSE ~ O(1/K). What holds depends on what is kept fixed as devices join, w = 1/K (r: dimension, m(ε): the
noise multiplier, σ_Σ: the noise of the sum):

    σ of each device     r σ_Σ² = r K σ²               grows like K     (the paper's own setting)
    its local ε          σ = m w C,   r σ_Σ² = r m² C²/K                falls like 1/K
    its device ε         σ_Σ = m w C, r σ_Σ² = r m² C²/K²               falls like 1/K²
    participation p < 1  bias (1−p)²‖z̄‖² stays, variance p(1−p) Σ‖z_k‖²/K² falls like 1/K

Which is why everything here takes a function from K to a network, and none is built in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool._support.arrays import Floats, finite, require_shape
from airpool.evaluation.mse import error, pooled
from airpool.network import Network
from airpool.protocol.device import clipped
from airpool.protocol.medium import turned
from airpool.protocol.simulation import receive
from airpool.radio.link import link_of

_IN_FLIGHT = 2**22  # devices × objects × trials at a time: 32 MB an array


@dataclass(frozen=True)
class DeviceError:
    """E‖ẑ − z̄‖² with K devices, z̄ the plain mean of their clipped latents, on average over the objects.

    By formula, part by part (mse), and measured on the air: each with its standard error over the trials, for
    these objects. measured_noise: of devices and receiver together.
    """

    num_devices: int
    bias: float
    participation: float
    privacy_noise: float
    channel_noise: float
    total: float
    measured_bias: float
    measured_bias_se: float
    measured_participation: float
    measured_participation_se: float
    measured_noise: float
    measured_noise_se: float
    measured_total: float
    measured_total_se: float


def device_error(latents: ArrayLike, network: Network, *, rng: np.random.Generator, trials: int = 100) -> DeviceError:
    """The error of latents (n, K, r) sent through a network of K devices, by formula and over the air.

    With s = Σ τ ρ w z, what would be received without noise, s̄ its mean over T trials, and d = s̄ − z̄:
    participation is the sample variance of s, the noise is ‖ẑ − s‖², and the bias ‖d‖² less what is left in it of the
    participation, 1/T of it: so no part is off on average. Its standard error is that of 2⟨s − s̄, d⟩.
    Holds for: what evaluation.mse holds for.

    >>> net = Network.uniform(num_devices=12, noise_std=0.05, participation=0.9, dimension=4)
    >>> e = device_error(np.full((1, 12, 4), 0.5), net, rng=np.random.default_rng(0), trials=2000)
    >>> round(e.total, 4), abs(e.measured_total - e.total) < 3 * e.measured_total_se
    (0.1255, True)
    """
    if trials < 2:
        raise ValueError(f"trials={trials} must be >= 2: one has no spread")
    given = np.asarray(latents, dtype=np.float64)
    link = link_of(network)
    count = network.devices.count
    require_shape("latents", given, (-1, count, network.dimension))
    z = clipped(given, network.devices.column("clip_norm"))
    mean = pooled(z, 1 / count)
    exact = error(given, network, target=mean, link=link).mean

    weighted = z * np.array(network.devices.column("weight"))[:, None]
    signals, heard = [], []
    per_step = max(1, _IN_FLIGHT // (len(z) * count))
    for start in range(0, trials, per_step):
        received = receive(given, network, rng=rng, trials=min(per_step, trials - start), link=link)
        sent, on = received.sent, received.taking_part
        signal = (sent.alignment * on) @ weighted
        if sent.quadrature is not None:
            signal = signal + (sent.quadrature * on) @ turned(weighted)
        signals.append(signal)
        heard.append(received.estimate)
    s, estimate = np.concatenate(signals, axis=1), np.concatenate(heard, axis=1)

    d = np.mean(s, axis=1) - mean
    away = s - np.mean(s, axis=1, keepdims=True)
    participation = _per_trial(away) * trials / (trials - 1)
    towards = 2 * np.mean(np.einsum("ntr,nr->nt", away, d), axis=0)
    noise, total = _per_trial(estimate - s), _per_trial(estimate - mean[:, None])
    return DeviceError(
        num_devices=count,
        bias=float(exact.bias),
        participation=float(exact.participation),
        privacy_noise=float(exact.privacy_noise),
        channel_noise=float(exact.channel_noise),
        total=float(exact.total),
        measured_bias=float(np.mean(np.sum(d**2, axis=-1)) - np.mean(participation) / trials),
        measured_bias_se=_standard_error(towards),
        measured_participation=float(np.mean(participation)),
        measured_participation_se=_standard_error(participation),
        measured_noise=float(np.mean(noise)),
        measured_noise_se=_standard_error(noise),
        measured_total=float(np.mean(total)),
        measured_total_se=_standard_error(total),
    )


def against_devices(
    latents: Callable[[int], ArrayLike],
    network: Callable[[int], Network],
    *,
    counts: Sequence[int],
    rng: np.random.Generator,
    trials: int = 100,
) -> list[DeviceError]:
    """The error at each number of devices: `latents(K)` (n, K, r) through `network(K)`.

    >>> from studies.trends import trend
    >>> rng = np.random.default_rng(0)
    >>> views = rng.standard_normal((4, 12, 8)) / 4
    >>> rows = against_devices(
    ...     lambda K: resampled(views, K, rng=rng),
    ...     lambda K: Network.uniform(num_devices=K, noise_std=0.1 / K, dimension=8),
    ...     counts=(2, 20, 200), rng=rng)
    >>> round(trend([row.num_devices for row in rows], [row.total for row in rows]).rate, 6)
    -1.0
    """
    return [device_error(latents(count), network(count), rng=rng, trials=trials) for count in counts]


def resampled(latents: ArrayLike, num_devices: int, *, rng: np.random.Generator) -> Floats:
    """K views of each object, (n, K, r), drawn with replacement from those there are, (n, V, r), for each by itself."""
    z = _views(latents, num_devices)
    chosen = rng.integers(z.shape[1], size=(len(z), num_devices))
    return np.take_along_axis(z, chosen[..., None], axis=1)


def thinned(latents: ArrayLike, num_devices: int) -> Floats:
    """K of the V views of each object, as evenly spaced as V allows: (n, V, r) → (n, K, r).

    >>> thinned(np.arange(10.0).reshape(1, 10, 1), 4)[0, :, 0]
    array([0., 2., 5., 7.])
    """
    z = _views(latents, num_devices)
    if num_devices > z.shape[1]:
        raise ValueError(f"num_devices={num_devices} must not exceed the {z.shape[1]} views; resample them instead")
    return z[:, (np.arange(num_devices) * z.shape[1]) // num_devices]


def view_error(latents: ArrayLike, num_devices: int, *, rng: np.random.Generator | None = None) -> Floats:
    """‖mean of K views − mean of all V‖² of each object, (n,): no noise, no air, only too few cameras.

    The K are evenly spaced, or, with rng, drawn at random with replacement; then it is Σ_v‖z_v − z̄‖²/(V K) on average.
    Holds for: V views that stand for all there are. Even spacing is the trapezoidal rule around the circle, which
    converges faster than any power of 1/K for smooth latents.

    >>> turn = np.arange(360) * np.pi / 180
    >>> circle = np.stack([np.cos(turn), np.sin(turn)], axis=-1)[None]
    >>> view_error(circle, 4).round(12), view_error(circle, 1).round(12)
    (array([0.]), array([1.]))
    """
    z = _views(latents, num_devices)
    some = thinned(z, num_devices) if rng is None else resampled(z, num_devices, rng=rng)
    return np.sum((np.mean(some, axis=1) - np.mean(z, axis=1)) ** 2, axis=-1)


def _views(latents: ArrayLike, num_devices: int) -> Floats:
    z = require_shape("latents", finite("latents", latents), (-1, -1, -1))
    if num_devices < 1:
        raise ValueError(f"num_devices={num_devices} must be >= 1")
    return z


def _per_trial(away: Floats) -> Floats:
    """‖·‖² of (n, t, r), averaged over the objects: (t,)."""
    return np.mean(np.sum(away**2, axis=-1), axis=0)


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
