"""Scheme 1 with soft weighting: an uncertain device transmits a shorter latent, and nothing more is leaked.

    z ← s(u) z,  s(u) = min(1, 2^(−β(u − u₀))),  then clipped, weighted and noised as usual

Why it costs no privacy: docs/proofs/selection.md.
"""

import math
from typing import Any

from array_api_compat import array_namespace

from airpool._support.arrays import Array


def attenuation(bits: Array, *, exponent: float, free_bits: float = 0.0) -> Array:
    """s(u) of raw scores in bits, any shape: 1 up to u₀ = `free_bits`, then divided by 2^exponent for every bit more.

    Both numbers are public, from calibration data. Scores need no bound and no noise.
    Edge cases: exponent 0 → 1, plain Scheme 1; inf → 1 up to free_bits and 0 beyond; a score that is not finite → 0,
    unless the exponent is 0.

    >>> import numpy as np
    >>> attenuation(np.array([0.0, 0.6, 1.0, 2.5, np.nan]), exponent=1.0, free_bits=0.5).round(4)
    array([1.    , 0.933 , 0.7071, 0.25  , 0.    ])
    """
    if not exponent >= 0:
        raise ValueError(f"exponent={exponent} must be >= 0: an uncertain device must not transmit a longer latent")
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
    """s(u) z of latents (..., r) and their scores (...), to be clipped, weighted and noised.

    Clip latents longer than C first (`device.clipped`): clipping afterwards would undo the softening. The guarantee
    holds in either order.
    """
    if tuple(bits.shape) != tuple(latents.shape[:-1]):
        wanted = tuple(latents.shape[:-1])
        raise ValueError(f"bits has shape {tuple(bits.shape)}, must be {wanted}, one for each latent")
    return attenuation(bits, exponent=exponent, free_bits=free_bits)[..., None] * latents
