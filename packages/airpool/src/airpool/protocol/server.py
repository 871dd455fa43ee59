"""The server: scale what was received, decode it, name the object.

    ẑ = y/γ      label = argmax J(D ẑ)

What it sees, and nothing else of the devices:

    y        the noisy sum, (r,); under orthogonal access each device's y_k, (K, r)  (medium.py)
    τ        who transmitted, except under cover noise
    ũ        Scheme 2.2 only: the ranking server sees every noisy score  (schemes/ranking.py)

The account grants an adversary at least this, without the receiver's noise
(evaluation/audit/adversary.py, `mechanism`).
"""

from collections.abc import Sequence

from array_api_compat import array_namespace

from airpool._support.arrays import Array
from airpool.protocol.device import Map, apply

NO_ANSWER = -1


def estimate(received: Array, gamma: float) -> Array:
    """ẑ = y/γ, (..., r): an estimate of Σ w z."""
    return received / gamma


def decode(estimate: Array, server: Map | Sequence[Map]) -> Array:
    """Logits (..., L) of an estimate ẑ (..., r): J(ẑ), or J(D ẑ) of a sequence D, J."""
    if not isinstance(server, list | tuple):
        return apply(server, estimate, name="server")  # pyright: ignore[reportArgumentType]
    for i, each in enumerate(server):
        estimate = apply(each, estimate, name=f"server[{i}]")
    return estimate


def labels(logits: Array, any_signal: Array) -> Array:
    """The class of the largest logit; NO_ANSWER where no device transmitted: noise alone is never decoded."""
    xp = array_namespace(logits)
    if bool(xp.any(xp.isnan(logits))):
        raise ValueError("the server gives logits that are NaN: its parameters must be finite")
    best = xp.argmax(logits, axis=-1)
    return xp.where(any_signal, best, xp.full_like(best, NO_ANSWER))
