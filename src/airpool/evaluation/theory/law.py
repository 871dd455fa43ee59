"""The exact distribution of an estimate given the object: a Gaussian mixture over participation patterns.

    given the pattern, ẑ ~ N(Σ_k s_k w_k z_k, v I),   v = Σ_k t_k σ_k² + receivers·σ_m²/γ²

s_k: device k's feature is received. t_k: its noise is received (t = s without cover noise). Only the most likely
patterns are listed. The others count as errors, so that certificates remain valid. Where devices fade together, who is
too weak is drawn (theory.together), and certificates leave room for that.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airpool._support.arrays import Floats, require_shape
from airpool.evaluation.theory.mse import require_coin
from airpool.evaluation.theory.together import drawn, fade_together
from airpool.network import Network, require_one_slot
from airpool.protocol.device import clipped
from airpool.radio.link import Link, link_of

# Patterns listed by default: all of twelve devices without cover noise.
MOST_PATTERNS = 4096


@dataclass(frozen=True, eq=False)
class Mixture:
    """S participation patterns: who transmits (S, K), probability (S,), and noise variance per coordinate (S,).

    weight, clip_norm: (K,). left_out: probability of the patterns that are not listed. The rest, up to a total of 1,
    is no answer: no device is received. draws: of the gains that the probabilities come from; None if they are exact.
    """

    transmitting: NDArray[np.bool_]
    probability: Floats
    variance: Floats
    weight: Floats
    clip_norm: Floats
    left_out: float
    draws: int | None = None

    def sent(self, latents: ArrayLike) -> Floats:
        """Latents (n, K, r) as transmitted: clipped, and 0 where not finite."""
        z = require_shape("latents", np.asarray(latents, dtype=np.float64), (-1, len(self.weight), -1))
        return clipped(z, self.clip_norm)

    def means(self, latents: Floats, pattern: int) -> Floats:
        """E[ẑ | pattern] (n, r) of latents (n, K, r) from `sent`."""
        return np.einsum("nkr,k->nr", latents, self.transmitting[pattern] * self.weight)


def law(network: Network, *, most: int = MOST_PATTERNS, link: Link | None = None) -> Mixture:
    """The distribution of ẑ, over at most `most` participation patterns.

    Holds for: Scheme 1; truncate (or backoff without power-limited devices); known gains and phases; any access and
        fading. Devices participate independently; they fade independently, or together behind one beam, where
        probabilities are those of a sample (`draws`). Under Sionna's models the outage is that of a large sample.
    Edge cases: p = 1 and no outage → one pattern. No device ever transmits → none.

    >>> law(Network.uniform(num_devices=12, participation=0.9)).probability[0].round(6)
    np.float64(0.28243)
    """
    require_one_slot(network, "the theory is that of one slot")
    if most < 1:
        raise ValueError(f"most={most} must be ≥ 1")
    link = link_of(network) if link is None else link
    require_coin(network)
    channel, d = network.channel, network.devices
    known = not (channel.csi_error_std or channel.phase_error_std)
    together = fade_together(link)
    never_weak = not together and not np.any(link.outage > 0)
    aligned = channel.power_rule == "truncate" or (channel.power_rule == "backoff" and never_weak)
    if not (known and aligned):
        raise ValueError(
            f"channel.power_rule={channel.power_rule!r}, csi_error_std={channel.csi_error_std:g}, phase_error_std="
            f"{channel.phase_error_std:g}: the law is known for truncate with exact gains and phases; the mean square "
            "error (theory.mse) covers more"
        )
    p, std, weight, clip = (np.array(d.column(x)) for x in ("participation", "noise_std", "weight", "clip_norm"))
    # States of a device that is strong enough: feature and noise received, noise only, nothing.
    noise_only = (1 - p) * network.cover_noise
    states = np.stack((p, noise_only, 1 - p - noise_only), axis=1)
    draws = None
    if together:
        strong = drawn(network, link).aim > 0
        draws = len(strong)
        chosen, probability = _together(strong, states, most)
    else:
        chosen, probability = _independent(states, link.outage, most)
    left_out = max(0.0, 1.0 - float(np.sum(probability)))
    answered = np.any(chosen < 2, axis=1)
    chosen, probability = chosen[answered], probability[answered]
    receivers = np.sum(chosen < 2, axis=1) if channel.rules.separate else 1.0
    variance = (chosen < 2) @ std**2 + receivers * (channel.noise_std / link.gamma) ** 2
    return Mixture(chosen == 0, probability, np.asarray(variance, dtype=np.float64), weight, clip, left_out, draws)


_Patterns = tuple[NDArray[np.int8], Floats]


def _independent(states: Floats, outage: Floats, most: int) -> _Patterns:
    """The state of every device (S, K), 2 for nothing, and the probability (S,), of the likeliest patterns."""
    chosen, probability = np.zeros((1, 0), dtype=np.int8), np.ones(1)
    for given_strong, weak in zip(states, outage, strict=True):
        of_device = given_strong * (1 - weak) + weak * np.array([0.0, 0.0, 1.0])
        joint = probability[:, None] * of_device
        row, state = np.nonzero(joint > 0)
        order = np.argsort(-joint[row, state], kind="stable")[:most]
        chosen = np.concatenate((chosen[row[order]], state[order, None].astype(np.int8)), axis=1)
        probability = joint[row[order], state[order]]
    return chosen, probability


def _together(strong: NDArray[np.bool_], states: Floats, most: int) -> _Patterns:
    """The same where the strong devices of every draw are given, (draws, K)."""
    undecided = len(states[0])
    chosen = np.where(strong, undecided, 2).astype(np.int8)
    chosen, probability = _merged(chosen, np.full(len(strong), 1 / len(strong)), most)
    for k, of_device in enumerate(states):
        joint = np.where(chosen[:, [k]] == undecided, of_device, (0.0, 0.0, 1.0)) * probability[:, None]
        row, state = np.nonzero(joint > 0)
        chosen, probability = chosen[row], joint[row, state]
        chosen[:, k] = state
        chosen, probability = _merged(chosen, probability, most)
    return chosen, probability


def _merged(chosen: NDArray[np.int8], probability: Floats, most: int) -> _Patterns:
    """The `most` likeliest patterns, in descending order, equal ones merged."""
    rows, which = np.unique(chosen, axis=0, return_inverse=True)
    total = np.asarray(np.bincount(which.reshape(-1), weights=probability), dtype=np.float64)
    order = np.argsort(-total, kind="stable")[:most]
    return rows[order], total[order]
