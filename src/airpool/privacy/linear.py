"""Leakage to an adversary that keeps every sample: the leverage of one device in all that is linear (howto/radio.md).

    μ_k² = (w_kC_k)² · λ_max[A_k^H (Σ_j F_j F_j^H)⁺ A_k]

A_k maps the symbols of device k to all samples, F_j all noise of device j: σ_jA_j, and its guards.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.complex128]
# Least receiver noise, as a share of the power in the loudest direction: −110 dB, far below any receiver's.
RECEIVER = 1e-11


def leverages(maps: Sequence[Matrix], noises: Sequence[Matrix], *, receiver: float = RECEIVER) -> NDArray[np.float64]:
    """λ_max of every device, from A_k (samples, symbols) and F_k (samples, sources), whose columns include σ_kA_k.

    receiver: its noise, as a share of the power in the loudest direction. Without any, the smallest difference between
        two devices' carriers leaves each of them alone in some direction.
    Holds for: circular noise, independent of the data; any linear map, known to the adversary.
    Edge cases: no noise at all → inf.
    """
    total = sum((f @ f.conj().T for f in noises), np.zeros((len(maps[0]),) * 2, dtype=np.complex128))
    values, vectors = np.linalg.eigh(total)
    if values[-1] <= 0:
        return np.full(len(maps), np.inf)
    whitened = vectors / np.sqrt(np.maximum(values, 0.0) + receiver * values[-1])
    return np.array([float(np.linalg.norm(whitened.conj().T @ a, 2)) ** 2 for a in maps])
