"""The paper's Theorem 2 on classification accuracy, as printed.

    P(l̂ = l*) ≥ max{0, P₀ (1 − MSE/Δ²)}

The sharper certificates, object by object and with the exact law of the error, are theory.accuracy.
"""

import numpy as np


def accuracy_bound(*, ideal: float, mse: float, margin: float) -> float:
    """P₀ (1 − MSE/Δ²), at least 0, with one MSE and one Δ for all objects.

    Holds for: the smallest margin, and the MSE averaged over the objects that are classified correctly.
    Differs from the truth: an inference in which nobody transmits has an error too, but no label.

    >>> accuracy_bound(ideal=0.9, mse=0.25, margin=1.0)
    0.675
    """
    if not 0 <= ideal <= 1:
        raise ValueError(f"ideal={ideal} must be from 0 to 1")
    if not mse >= 0:
        raise ValueError(f"mse={mse} must be ≥ 0")
    if not margin > 0:
        return 0.0
    with np.errstate(over="ignore", divide="ignore"):
        return float(max(0.0, ideal * (1 - mse / np.float64(margin) ** 2)))
