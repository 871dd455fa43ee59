"""Expected participation of the devices: a public number, from calibration data.

Never compute it from the inference at hand: scores are made of features, and would leak through it.
"""

from typing import Any

import numpy as np

from airpool._support.arrays import Floats
from airpool.network import Scheme, scheme_rules, scored
from airpool.schemes.scores import bounded, uncertainty


def participation(scores: Any, scheme: Scheme, *, num_classes: int | None = None) -> Floats:
    """The exact probability of each device to transmit, from raw scores in bits, (n, K) → (n, K)."""
    bits = np.asarray(scores, dtype=np.float64)
    if bits.ndim != 2 or not bits.size:
        raise ValueError(f"scores has shape {bits.shape}, must be (objects, devices), with at least one of each")
    rules = scheme_rules(scheme)
    if not rules.scored:
        raise ValueError(
            f"scheme.name={scheme.name!r} must be 2.1 or 2.2: under Scheme {scheme.name} a coin decides, not a score"
        )
    return rules.participation(scheme, bounded(bits, scored(scheme), num_classes))


def expected_participation(scores: Any, scheme: Scheme, *, num_classes: int | None = None) -> Floats:
    """The mean over calibration objects, (n, K) → (K,): what `radio.link.level(participation=...)` takes."""
    return participation(scores, scheme, num_classes=num_classes).mean(axis=0)


def expected_of_posteriors(posteriors: Any, scheme: Scheme) -> Floats:
    """The same from the posteriors (n, K, L) of calibration objects, scored as the scheme says."""
    bits = uncertainty(posteriors, scored(scheme).score)
    return expected_participation(bits, scheme, num_classes=posteriors.shape[-1])
