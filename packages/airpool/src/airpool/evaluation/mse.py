"""The exact mean square error of the server's estimate, in its four parts (docs/theory/accuracy.md).

    ẑ = Σ_k τ_k g_k (w_k z_k + n_k) + m/γ,  a_k = w_k D z_k  with the clipped latent z_k

    E‖Dẑ − t‖² = ‖Σ_k p_k E[g_k] a_k − t‖²                       bias
               + Σ_k (p_k E[g_k²] − p_k² E[g_k]²) ‖a_k‖²         participation
               + ‖D‖²_F Σ_k p_k E[g_k²] σ_k²                     privacy noise   (cover noise: without p_k)
               + ‖D‖²_F σ_m²/γ²                                  channel noise   (orthogonal: per received device)

Where devices fade together, Σ_{j≠k} p_j p_k Cov(g_j, g_k) a_jᵀa_k is part of participation, and the
moments of g are those of a sample. The paper's bound on it is paper.formulas.weights.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from airpool._support.arrays import Floats, finite, require_shape
from airpool.network import Network, require_one_slot
from airpool.protocol import device, medium
from airpool.protocol.device import clipped
from airpool.protocol.medium import turned
from airpool.protocol.simulation import check_latents
from airpool.radio.fading import Fading, sample_gains
from airpool.radio.link import Link, alignment, link_of, noise_gain, receivers
from airpool.radio.moments import Moments
from airpool.radio.power import Transmission


@dataclass(frozen=True, eq=False)
class Error:
    """E‖Dẑ − t‖² in four parts that add up: (n,), one per object, or scalars after `mean`.

    bias: of the expected estimate, from silence, outage, misalignment, and clipping where t is not clipped.
    participation: variance of participation and alignment. privacy_noise, channel_noise: the same for all objects.
    unsure: total + unsure is a proven upper bound; 0 where the parts are exact, inf where they are those of a sample
    that no bound is known for (devices that fade together and do not know their gains).
    """

    bias: Floats
    participation: Floats
    privacy_noise: Floats
    channel_noise: Floats
    unsure: Floats

    @property
    def total(self) -> Floats:
        return self.bias + self.participation + self.privacy_noise + self.channel_noise

    @property
    def mean(self) -> "Error":
        """Part by part, the average over the objects."""
        parts = (self.bias, self.participation, self.privacy_noise, self.channel_noise, self.unsure)
        return Error(*(np.asarray(np.mean(part), dtype=np.float64)[()] for part in parts))


def error(
    latents: ArrayLike,
    network: Network,
    *,
    decoder: ArrayLike | None = None,
    target: ArrayLike | None = None,
    link: Link | None = None,
) -> Error:
    """E‖Dẑ − t‖² of each object, over participation, fading and noise, for latents (n, K, r).

    decoder: D (d, r), by default the identity. target: t (n, d), by default D Σ w z of the *clipped* latents, so that
    clipping adds no error; `pooled` makes other targets. link: the network's, if already computed.

    Holds for: Scheme 1; truncate and backoff; any fading, outage, CSI and phase error, access and cover noise. Devices
        fade independently, or together behind a server's beam, where the moments are those of a sample (`unsure`). γ,
        also "auto", depends on the distribution of the gains only. Under Sionna's models the distribution is that of a
        large sample. Inferences without an answer are included.
    Differs from the paper: the exact value; the paper's bound does not hold (paper.formulas.weights).
    Edge cases: p = 0 or w = 0 everywhere → bias ‖t‖² plus noise. A latent that is not finite counts as 0. Power rules
        paper is refused: there g depends on the noise.

    >>> net = Network.uniform(num_devices=12, noise_std=0.05, participation=0.9, dimension=4)
    >>> e = error(np.full((1, 12, 4), 0.5), net)
    >>> e.bias.round(6), e.participation.round(6), e.privacy_noise.round(6), e.channel_noise
    (array([0.01]), array([0.0075]), array([0.108]), array([0.]))
    """
    check_network(network)
    z, D = _clipped(latents, network), None if decoder is None else np.asarray(decoder, dtype=np.float64)
    link = link_of(network) if link is None else link
    p, w, std = (np.array(network.devices.column(name)) for name in ("participation", "weight", "noise_std"))
    moments, together, link = joint_alignment(network, link)
    first, second, noisy = moments.mean, moments.mean_square, noise_gain(network, moments)

    mean = _decoded(D, pooled(z, p * first * w))
    wanted = _decoded(D, pooled(z, w)) if target is None else finite("target", target)
    bias = np.sum((mean - require_shape("target", wanted, mean.shape)) ** 2, axis=-1)
    # Not below 0: E[g²] ≥ E[g]² up to rounding.
    variance = np.maximum(p * second - (p * first) ** 2, 0.0) * w**2
    # ‖Rz‖ = ‖Dz‖ with D = QR, where D has many rows.
    R = D if D is None or D.shape[0] <= D.shape[1] else np.asarray(np.linalg.qr(D, mode="r"))
    seen = _decoded(R, z)
    participation = np.sum(seen**2, axis=-1) @ variance
    if together is not None:
        arriving = seen * (p * w)[:, None]
        participation += np.sum(np.matmul(together.covariance, arriving) * arriving, axis=(1, 2))
    if noisy is not second:
        # What Im ρ, which is 0 on average, adds to each coordinate from the other one of its symbol.
        participation += np.sum(_decoded(R, turned(z)) ** 2, axis=-1) @ (p * np.maximum(noisy - second, 0.0) * w**2)

    transmitting = np.ones_like(p) if network.cover_noise else p
    energy = float(network.dimension) if D is None else float(np.sum(D**2))
    privacy = energy * float(np.sum(transmitting * noisy * std**2))
    channel = energy * receivers(network, link, transmitting) * (network.channel.noise_std / link.gamma) ** 2
    found = Error(bias, participation, np.full(len(z), privacy), np.full(len(z), channel), np.zeros(len(z)))
    if together is None:
        return found
    if not network.channel.known:
        return replace(found, unsure=np.full(len(z), np.inf))
    # What the error given the gains is at most: its mean over the draws, 0 ≤ g ≤ 1, is `found.total`.
    size = np.sqrt(np.sum(seen**2, axis=-1)) * p * w
    far = np.sqrt(np.sum((_decoded(D, pooled(z, p * w / 2)) - wanted) ** 2, axis=-1)) + np.sum(size, axis=-1) / 2
    count = float(network.channel.rules.receptions(transmitting))
    loudest = energy * (float(np.sum(transmitting * std**2)) + count * (network.channel.noise_std / link.gamma) ** 2)
    most = far**2 + np.sum(seen**2, axis=-1) @ (p * (1 - p) * w**2) + loudest
    with np.errstate(invalid="ignore"):
        bound = np.where(most > 0, most * at_most(found.total / most, together.draws), 0.0)
    return replace(found, unsure=np.maximum(bound - found.total, 0.0))


def expected(latents: ArrayLike, network: Network, *, link: Link | None = None) -> Floats:
    """E[ẑ] (n, r) of each object: as a target for `error` it leaves no bias.

    >>> net = Network.uniform(num_devices=2, participation=0.5, dimension=1)
    >>> expected([[[0.5], [0.5]]], net)
    array([[0.25]])
    """
    check_network(network)
    p, w = (np.array(network.devices.column(name)) for name in ("participation", "weight"))
    moments = alignment(network, link_of(network) if link is None else link)
    return pooled(_clipped(latents, network), p * moments.mean * w)


def pooled(latents: ArrayLike, weight: ArrayLike, *, decoder: ArrayLike | None = None) -> Floats:
    """D Σ_k w_k z_k of each object (n, d), from latents (n, K, r) without clipping.

    >>> pooled([[[1.0, 2.0], [3.0, 4.0]]], [0.5, 0.5])
    array([[2., 3.]])
    """
    z, w = finite("latents", latents), finite("weight", weight)
    if z.ndim != 3 or w.shape not in ((), z.shape[1:2]):
        raise ValueError(f"latents and weight have shapes {z.shape} and {w.shape}, must be (*, K, *) and (K,)")
    return _decoded(decoder, np.einsum("nkr,k->nr", z, np.broadcast_to(w, z.shape[1:2])))


def pooled_error(latents: Floats, weight: Floats) -> Floats:
    """Bound (n, r) on the rounding error of Σ_k c_k z_k, for every c that rounds some 0 ≤ c ≤ w (server.affine)."""
    return affine(weight[None], np.zeros(1), np.swapaxes(latents, 1, 2), np.zeros(1))[1][..., 0]


def require_coin(network: Network) -> None:
    """Raises an error unless participation is independent of the features."""
    network.scheme.require_coins(
        f"scheme.name={network.scheme.name!r} must be 1: by scores, who transmits depends on the features; "
        "measure it with airpool evaluate"
    )


def check_network(network: Network) -> None:
    """Raises an error unless participation and alignment are independent of features and noise."""
    require_coin(network)
    require_one_slot(network, "the theory is that of one slot")
    if network.channel.power_rule not in ("truncate", "backoff"):
        raise ValueError(
            f"channel.power_rule={network.channel.power_rule!r} must be truncate or backoff: under the others the "
            "alignment depends on the noise; measure it with airpool evaluate"
        )


def _clipped(latents: ArrayLike, network: Network) -> Floats:
    """Latents as transmitted: float64, finite and clipped."""
    z = np.asarray(latents, dtype=np.float64)
    check_latents(z, network)
    return clipped(z, network.devices.column("clip_norm"))


def _decoded(decoder: ArrayLike | None, x: Floats) -> Floats:
    if decoder is None:
        return x
    return x @ require_shape("decoder", finite("decoder", decoder), (-1, x.shape[-1])).T


# How often a bound does not hold, over the draws; their seed is another than that of the link's own sample.
_LOG_FAILURE, _SEED = float(np.log(1e9)), 20_281
# Of the interval in which a bound is searched for.
_HALVINGS = 48
# Draws: as many as these coefficients of channels allow, a few thousand at a time.
_COEFFICIENTS, _FEWEST, _MOST, _CHUNK = 2**20, 2**12, 2**17, 2**10


def fade_together(link: Link) -> bool:
    """Whether one beam receives all devices, so that their gains depend on each other."""
    return link.fading.antennas > 1


def drawn(network: Network, link: Link) -> Transmission:
    """Transmission of all devices in every draw of the gains, (draws, K). All take part."""
    gain = _gains(replace(link.fading, path_loss_db=0.0)) * link.fading.path_gain
    off = medium.misalignment(gain, network.channel, np.random.default_rng(_SEED + 1))
    everyone = np.ones(gain.shape, dtype=np.bool_)
    return device.power(device.Senders(network, link), gain, takes_part=everyone, misalignment=off)


@dataclass(frozen=True, eq=False)
class Together:
    """Covariance of devices that fade together: Cov(g_j, g_k) (K, K), 0 for j = k, over `draws` draws."""

    covariance: Floats
    draws: int


def joint_alignment(network: Network, link: Link) -> tuple[Moments, Together | None, Link]:
    """Moments of each device's g, how they vary together (None: independently), and the link with these outages."""
    if not fade_together(link):
        return alignment(network, link), None, link
    sent = drawn(network, link)
    g = sent.alignment
    mean, square = np.mean(g, axis=0), np.mean(g**2, axis=0)
    power = square if sent.quadrature is None else square + np.mean(sent.quadrature**2, axis=0)
    off = g - mean
    covariance = off.T @ off / len(g)
    np.fill_diagonal(covariance, 0.0)
    inverse = np.mean((sent.scale / link.gamma) ** 2, axis=0)
    received = replace(link, outage=np.mean(sent.aim == 0, axis=0))
    return Moments(mean, square, power, inverse), Together(covariance, len(g)), received


@lru_cache(maxsize=8)
def _gains(fading: Fading) -> Floats:
    wanted = _COEFFICIENTS // (fading.devices * fading.antennas)
    chunks = min(max(wanted, _FEWEST), _MOST) // _CHUNK
    rng = np.random.default_rng(_SEED)
    out = np.concatenate([sample_gains(fading, (_CHUNK, fading.devices), rng) for _ in range(chunks)])
    out.setflags(write=False)  # shared
    return out


def at_most(mean: ArrayLike, draws: int) -> Floats:
    """An upper bound on E[f] from the mean of f over n draws, for 0 ≤ f ≤ 1: the largest q with n·KL(mean‖q) ≤ ln 1e9.

    >>> at_most([0.08, 0.95], 2**17).round(4)
    array([0.0849, 0.9538])
    """
    m = np.clip(np.asarray(mean, dtype=np.float64), 0.0, 1.0)
    low, high = m, np.ones_like(m)
    for _ in range(_HALVINGS):
        q = (low + high) / 2
        inside = rel_entr(m, q) + rel_entr(1 - m, 1 - q) <= _LOG_FAILURE / draws
        low, high = np.where(inside, q, low), np.where(inside, high, q)
    return high


def affine(A: Floats, b: Floats, h: Floats, h_error: Floats) -> tuple[Floats, Floats]:
    """A h + b (..., out) as computed from h (..., in) with an error of at most `h_error`, and a bound on its error.

    γ_{2n+8}(|A||h| + |b|) + |A| h_error, with room for the roundings in `gaps` (proof: docs/proofs/theory.md).
    """
    count, tiny = A.shape[1], float(np.finfo(np.float64).tiny)
    g = gamma(2 * count + 8)
    with np.errstate(over="ignore", invalid="ignore"):
        value = h @ A.T + b
        off = h_error + g * np.abs(h) + tiny
        return value, (1 + g) * (off @ np.abs(A).T + g * np.abs(b) + 4 * count * tiny)


def gamma(roundings: int) -> float:
    """γ_n = n u/(1 − n u), u = 2⁻⁵³: bounds the relative error of n roundings."""
    return roundings * 2.0**-53 / (1 - roundings * 2.0**-53)
