"""Optimisation through the trunk: a likelier view behind a received signal, started from a decoder's picture.

Pixels that are free would fit the signal by patterns that no object shows. So the decoder's sketch is free, the first
layer that has places, and its later layers draw: they paint views alone.
"""

from collections.abc import Callable

import torch
from torch import Tensor

_EXACT = 0.01  # standard deviation that is assumed where there is no noise: the trunk computes in finite precision


def inverted(
    sketch: Tensor,
    signals: Tensor,
    draw: Callable[[Tensor], Tensor],
    encode: Callable[[Tensor], Tensor],
    *,
    noise_std: float,
    steps: int = 100,
    learning_rate: float = 0.02,
) -> Tensor:
    """Sketches (B, ...) near the given ones whose views make the signals (B, r) likelier, by Adam.

        ‖y − z(x(h))‖²/2σ² + ½ Σ ((h − h₀)/s)²,   s: standard deviation of h over the batch

    draw: sketches to views, encode: views to latents, both differentiable. Steps are in units of s.
    """
    start = sketch.detach()
    spread = float(start.std())
    moved = torch.zeros_like(start).requires_grad_()
    optimizer = torch.optim.Adam([moved], lr=learning_rate)
    noise = max(noise_std, _EXACT)
    for _ in range(steps):
        misfit = (encode(draw(start + spread * moved)) - signals).square().sum(1) / (2 * noise**2)
        loss = misfit.sum() + moved.square().sum() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (start + spread * moved).detach()
