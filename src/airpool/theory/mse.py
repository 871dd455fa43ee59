"""The exact mean square error of what the server hears, part by part (spec §5).

    ẑ = Σ_k τ_k g_k (w_k z_k + n_k) + m/γ,  a_k = w_k D z_k  with the clipped latent z_k

    E‖Dẑ − t‖² = ‖Σ_k p_k E[g_k] a_k − t‖²                       bias
               + Σ_k (p_k E[g_k²] − p_k² E[g_k]²) ‖a_k‖²         participation
               + ‖D‖²_F Σ_k p_k E[g_k²] σ_k²                     privacy noise   (cover noise: without p_k)
               + ‖D‖²_F σ_m²/γ²                                  channel noise   (orthogonal: for each who is heard)

The paper's bound on it is paper.mse.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from airpool.arrays import Floats, finite, require_shape
from airpool.network import Coin, Network
from airpool.protocol.device import clipped
from airpool.protocol.link import Radio, alignment, radio, receivers
from airpool.protocol.simulation import check_latents
from airpool.theory.server import affine


@dataclass(frozen=True, eq=False)
class Error:
    """E‖Dẑ − t‖² in its four parts, which add up; (n,) one for each object, or single numbers after `mean`.

    bias: of the expected estimate: silence, outage, misalignment, and clipping where t is not clipped.
    participation: variance of who takes part, and of how much of them arrives.
    privacy_noise, channel_noise: what devices add on purpose, and what the receiver adds; the same for all objects.
    """

    bias: Floats
    participation: Floats
    privacy_noise: Floats
    channel_noise: Floats

    @property
    def total(self) -> Floats:
        return self.bias + self.participation + self.privacy_noise + self.channel_noise

    @property
    def mean(self) -> "Error":
        """The average over the objects, part by part."""
        parts = (self.bias, self.participation, self.privacy_noise, self.channel_noise)
        return Error(*(np.asarray(np.mean(part), dtype=np.float64)[()] for part in parts))


def error(
    latents: ArrayLike,
    network: Network,
    *,
    decoder: ArrayLike | None = None,
    target: ArrayLike | None = None,
    link: Radio | None = None,
) -> Error:
    """E‖Dẑ − t‖² of each object, over silence, fading and all noise, for latents (n, K, r).

    decoder: D, (d, r); left out, the identity. target: t, (n, d); left out, D Σ w z of the *clipped* latents, so that
    clipping costs nothing. `pooled` makes other targets: of latents as given, or with weights other than the network's
    (for link.unbiased those of the network it was made from). link: the network's radio, if it is known already.

    Holds for: Scheme 1; truncate and backoff; any fading, outage, CSI and phase error; superposed and orthogonal
        access; cover noise. Devices fade independently, and γ, "auto" too, depends on the law of the gains alone.
        Under Sionna's models the law is that of a large sample, and so is the error.
        Inferences where nobody speaks count like all others, though their label is "no answer".
    Differs from the paper: its bound is not one (paper.mse); this is no bound but the value.
    Edge cases: p = 0 or w = 0 everywhere → bias ‖t‖², noise alone besides. A latent that is not finite counts as 0,
        as on the air. Power rules paper and exact: refused, since there g depends on the noise.

    >>> net = Network.uniform(num_devices=12, noise_std=0.05, participation=0.9, dimension=4)
    >>> e = error(np.full((1, 12, 4), 0.5), net)
    >>> e.bias.round(6), e.participation.round(6), e.privacy_noise.round(6), e.channel_noise
    (array([0.01]), array([0.0075]), array([0.108]), array([0.]))
    """
    check_network(network)
    z, D = _clipped(latents, network), _matrix(decoder, network.dimension)
    link = radio(network) if link is None else link
    p, w, std = (np.array(network.devices.column(name)) for name in ("participation", "weight", "noise_std"))
    moments = alignment(network, link)
    first, second = moments.mean, moments.mean_square

    mean = pooled(z, p * first * w)
    if target is None:
        bias = _square(_through(D, mean - pooled(z, w)))
    else:
        decoded = _through(D, mean)
        bias = _square(decoded - require_shape("target", finite("target", target), decoded.shape))
    # Never below 0: E[g²] ≥ E[g]² up to rounding.
    variance = np.maximum(p * second - (p * first) ** 2, 0.0) * w**2
    participation = _square(_through(_same_lengths(D), z)) @ variance

    heard = np.ones_like(p) if network.cover_noise else p
    energy = float(network.dimension) if D is None else float(np.sum(D**2))
    privacy = energy * float(np.sum(heard * second * std**2))
    channel = energy * receivers(network, link, heard) * (network.channel.noise_std / link.gamma) ** 2
    return Error(bias, participation, np.full(len(z), privacy), np.full(len(z), channel))


def expected(latents: ArrayLike, network: Network, *, link: Radio | None = None) -> Floats:
    """E[ẑ] (n, r) of each object: as a target for `error` it leaves no bias.

    >>> net = Network.uniform(num_devices=2, participation=0.5, dimension=1)
    >>> expected([[[0.5], [0.5]]], net)
    array([[0.25]])
    """
    check_network(network)
    z = _clipped(latents, network)
    p, w = (np.array(network.devices.column(name)) for name in ("participation", "weight"))
    return pooled(z, p * alignment(network, radio(network) if link is None else link).mean * w)


def pooled(latents: ArrayLike, weight: ArrayLike, *, decoder: ArrayLike | None = None) -> Floats:
    """D Σ_k w_k z_k of each object, (n, d), from latents (n, K, r) as they are: a target for `error`.

    >>> pooled([[[1.0, 2.0], [3.0, 4.0]]], [0.5, 0.5])
    array([[2., 3.]])
    """
    z = finite("latents", latents)
    w = finite("weight", weight)
    if z.ndim != 3 or w.shape not in ((), z.shape[1:2]):
        raise ValueError(f"latents and weight have shapes {z.shape} and {w.shape}, must be (*, K, *) and (K,)")
    return _through(_matrix(decoder, z.shape[2]), np.einsum("nkr,k->nr", z, np.broadcast_to(w, z.shape[1:2])))


def pooled_error(latents: Floats, weight: Floats) -> Floats:
    """How far rounding may take each coordinate of Σ_k c_k z_k at most, (n, r), of any c that rounds 0 ≤ c ≤ w.

    γ Σ_k w_k |z_k|, as in server.affine, where γ has room for the few roundings of c_k.
    """
    return affine(weight[None], np.zeros(1), np.swapaxes(latents, 1, 2), np.zeros(1))[1][..., 0]


def _clipped(latents: ArrayLike, network: Network) -> Floats:
    """As the devices send them: float64, guarded and clipped by the code that is on the air."""
    z = np.asarray(latents, dtype=np.float64)
    check_latents(z, network)
    return clipped(z, network.devices.column("clip_norm"))


def _matrix(decoder: ArrayLike | None, dimension: int) -> Floats | None:
    return None if decoder is None else require_shape("decoder", finite("decoder", decoder), (-1, dimension))


def check_network(network: Network) -> None:
    """An error unless who transmits, and how much of it arrives, is independent of what is sent."""
    if not isinstance(network.scheme, Coin):
        raise ValueError(
            f"scheme.name={network.scheme.name!r} must be 1: by scores, how many transmit depends on the features; "
            "measure it with airpool evaluate"
        )
    if network.channel.power_rule not in ("truncate", "backoff"):
        raise ValueError(
            f"channel.power_rule={network.channel.power_rule!r} must be truncate or backoff: under the others the "
            "alignment depends on the noise; simulate with simulation.receive (path='full')"
        )


def _through(decoder: Floats | None, x: Floats) -> Floats:
    return x if decoder is None else x @ decoder.T


def _same_lengths(decoder: Floats | None) -> Floats | None:
    """A matrix of at most r rows with ‖Rx‖ = ‖Dx‖ for all x: a decoder may well have 25,088."""
    if decoder is None or decoder.shape[0] <= decoder.shape[1]:
        return decoder
    return np.asarray(np.linalg.qr(decoder, mode="r"))


def _square(x: Floats) -> Floats:
    return np.sum(x * x, axis=-1)
