"""Plain ReLU networks of a given depth, trained on the shipped validation latents: for fig_asymptotics alone."""

from functools import cache
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from airpool._support.arrays import Floats
from airpool.models.pretrained import load

WIDTH, CLASSES, STEPS, BATCH, RATE = 128, 40, 500, 128, 1e-3


@cache
def halves() -> tuple[Tensor, Tensor, Tensor]:
    """Validation objects: latents (n, 12, r) and labels of every other one to train on, latents of the rest."""
    objects = load().held_out("validation")
    return objects.latents[::2], objects.labels[::2], objects.latents[1::2]


def trained(depth: int, *, noise_std: float, seed: int) -> list[tuple[Floats, Floats]]:
    """Weights and biases of `depth` hidden layers and the classes on top, trained on means of random views.

    noise_std: in each coordinate of what it is trained on; 0 for a network that has never met noise.
    """
    rng = torch.Generator().manual_seed(seed)
    latents, labels, _ = halves()
    layers = [nn.Linear(a, b) for a, b in pairwise([latents.shape[-1], *[WIDTH] * depth, CLASSES])]
    with torch.no_grad():
        for layer in layers:
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=rng) * (2 / layer.in_features) ** 0.5)
            layer.bias.zero_()
    optimiser = torch.optim.AdamW([p for layer in layers for p in layer.parameters()], lr=RATE, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=STEPS)
    for _ in range(STEPS):
        batch = torch.randint(len(latents), (BATCH,), generator=rng)
        kept = (torch.rand(BATCH, latents.shape[1], 1, generator=rng) < 0.5).float()
        x = (latents[batch] * kept).sum(1) / kept.sum(1).clamp(min=1)
        x = x + noise_std * torch.randn(x.shape, generator=rng)
        for layer in layers[:-1]:
            x = F.relu(layer(x))
        loss = F.cross_entropy(layers[-1](x), labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return [(layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()) for layer in layers]
