"""Optimisation through the trunk: the likeliest view behind a received signal, started from a decoder's picture."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

_EXACT = 0.01  # standard deviation that is assumed where there is no noise: the trunk computes in finite precision


def inverted(
    pictures: Tensor,
    signals: Tensor,
    encode: Callable[[Tensor], Tensor],
    *,
    noise_std: float,
    picture_std: float,
    steps: int = 200,
    learning_rate: float = 0.01,
) -> Tensor:
    """Views (B, 2, H, H) in [0, 1] near `pictures` that make the signals (B, r) likelier, by Adam.

        ‖y − z(x)‖²/2σ² + ‖x − x₀‖²/2s²

    encode: views to latents, differentiable. picture_std: s, the root of the decoder's mean squared error.
    """
    start = pictures.detach().clamp(1e-3, 1 - 1e-3)
    logit = torch.logit(start).requires_grad_()
    optimizer = torch.optim.Adam([logit], lr=learning_rate)
    noise = max(noise_std, _EXACT)
    for _ in range(steps):
        views = logit.sigmoid()
        misfit = (encode(views) - signals).square().sum(1) / (2 * noise**2)
        # The decoder errs in patches, not in single pixels: as many independent errors as 16×16 patches.
        apart = F.avg_pool2d((views - start).square(), 16).sum((1, 2, 3)) / (2 * picture_std**2)
        loss = (misfit + apart).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return logit.detach().sigmoid()
