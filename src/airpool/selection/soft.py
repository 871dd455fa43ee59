"""Scheme 1 with soft weighting: an unsure device speaks all the same, only more softly, and nothing more is leaked.

    z ← s(u) z,  s(u) = min(1, 2^(−β(u − u₀))),  then clipped, weighted and noised as ever

Scores choose in Schemes 2.1 and 2.2 by who is on the air, which shows. Here they choose within the noise. Why it costs
nothing: the account of Scheme 1 holds for *any* vector of length ≤ C that a device makes of its own feature, and s(u) z
is one. The neighbour is 0 (zero-out) or another such vector (replace), so the sensitivity is wC or 2wC as before; σ,
power, outage and participation do not look at u. Device, local and object ε are those of the network without it.

The gate, β = ∞, is Scheme 2.1 without noise on its score, with devices that send their noise although they have nothing
to say, and with nobody told who they are.
"""

import math
from typing import Any

from array_api_compat import array_namespace

from airpool.arrays import Array


def loudness(bits: Array, *, exponent: float, free_bits: float = 0.0) -> Array:
    """s(u) of raw scores in bits, any shape: 1 up to `free_bits`, then divided by 2^exponent for every bit more.

    With free_bits = 0 it is the posterior's perplexity to the power −exponent. Both numbers are public, from
    calibration data.
    Holds for: any scores; they need no bound and no noise, since they leave the device only within s(u) z.
    Edge cases: exponent 0 → 1, plain Scheme 1; exponent inf → the gate, 1 up to free_bits and 0 beyond; a score that is
    not finite → 0, unless the exponent is.

    >>> import numpy as np
    >>> loudness(np.array([0.0, 0.6, 1.0, 2.5, np.nan]), exponent=1.0, free_bits=0.5).round(4)
    array([1.    , 0.933 , 0.7071, 0.25  , 0.    ])
    >>> loudness(np.array([0.0, 0.6, 1.0]), exponent=np.inf, free_bits=0.6)
    array([1., 1., 0.])
    """
    if not exponent >= 0:
        raise ValueError(f"exponent={exponent} must be >= 0: who is less sure must not speak up")
    if not 0 <= free_bits < math.inf:
        raise ValueError(f"free_bits={free_bits} must be >= 0 and finite")
    xp = array_namespace(bits)
    if exponent == 0:
        return xp.ones_like(bits)
    finite = xp.isfinite(bits)
    over = xp.clip(xp.where(finite, bits, xp.zeros_like(bits)) - free_bits, 0.0, None)
    quiet = xp.astype(over <= 0, bits.dtype) if exponent == math.inf else 2.0 ** (-exponent * over)
    return xp.where(finite, quiet, xp.zeros_like(bits))


def softened(latents: Array, bits: Array, *, exponent: float, free_bits: float = 0.0) -> Any:
    """s(u) z of latents (..., r) and their scores (...): what a device hands on to be clipped, weighted and noised.

    Latents longer than C should be clipped first (`device.clipped`): clipping afterwards would undo the softening. The
    guarantee holds in either order.

    >>> import numpy as np
    >>> softened(np.array([[0.6, 0.8], [0.6, 0.8]]), np.array([0.2, 2.0]), exponent=0.5, free_bits=1.0).round(3)
    array([[0.6  , 0.8  ],
           [0.424, 0.566]])
    """
    if tuple(bits.shape) != tuple(latents.shape[:-1]):
        raise ValueError(
            f"bits has shape {tuple(bits.shape)}, must be {tuple(latents.shape[:-1])}, one for each latent"
        )
    return loudness(bits, exponent=exponent, free_bits=free_bits)[..., None] * latents
