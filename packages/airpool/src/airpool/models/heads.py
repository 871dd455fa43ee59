"""Shallow classifiers on a trunk's feature map, and the calibration of their probabilities."""

from collections import OrderedDict
from itertools import pairwise

import torch
from torch import Tensor, nn

_TEMPERATURES = (1e-3, 1e3)


def pooled_classifier(num_classes: int, *, channels: int = 512, hidden: int | None = None) -> nn.Sequential:
    """Feature maps (B, channels, H, W) to logits (B, num_classes) by way of their global average.

    One linear layer; or two with `hidden` units, ReLU and dropout between them. Layers with weights: `0` (and `3`).

    >>> sum(p.numel() for p in pooled_classifier(40).parameters())
    20520
    """
    widths = (channels, num_classes) if hidden is None else (channels, hidden, num_classes)
    return nn.Sequential(OrderedDict(average=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), **dense(*widths)))


def dense(*widths: int) -> OrderedDict[str, nn.Module]:
    """Linear layers of these widths with ReLU and dropout between them, named "0", "3", "6", … as in torchvision."""
    layers: list[nn.Module] = []
    for width_in, width_out in pairwise(widths):
        linear = nn.Linear(width_in, width_out)
        nn.init.normal_(linear.weight, std=0.01)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU(inplace=True), nn.Dropout()]
    return OrderedDict((str(index), layer) for index, layer in enumerate(layers[:-2]))


@torch.no_grad()
def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """The T in [0.001, 1000] under which softmax(logits / T) has the lowest negative log-likelihood of the labels.

        T = argmin  Σ_i -log softmax(z_i / T)[y_i]

    logits: (N, C); labels: (N,). It is convex in β = 1/T, so T is where its slope
    Σ_i (E_softmax(βz_i)[z_i] - z_i[y_i]) changes sign, by bisection.
    Edge cases: every label is the largest logit → 0.001; logits no better than chance → 1000.

    >>> logits = torch.tensor([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 0.0]])
    >>> round(fit_temperature(logits, torch.tensor([0, 0, 0, 1])), 3)  # 4 / log(3): right 3 times in 4
    3.641
    """
    _check(logits, labels, "logits")
    z = logits.double()
    right = z.gather(1, labels[:, None].long())[:, 0]
    low, high = _TEMPERATURES
    while high / low > 1 + 1e-9:
        middle = (low * high) ** 0.5
        overconfident = ((z / middle).softmax(1) * z).sum(1).sub(right).mean() > 0
        low, high = (middle, high) if overconfident else (low, middle)
    return (low * high) ** 0.5


@torch.no_grad()
def expected_calibration_error(probs: Tensor, labels: Tensor, *, bins: int = 15) -> float:
    """Mean gap between confidence and accuracy of probs (N, C), labels (N,), over equal bins (a, b] of the confidence.

        ECE = Σ_b (n_b / N) |accuracy_b - confidence_b|

    >>> expected_calibration_error(torch.tensor([[0.75, 0.25]] * 4), torch.tensor([0, 0, 0, 1]))
    0.0
    """
    _check(probs, labels, "probs")
    if bins < 1:
        raise ValueError(f"bins={bins} must be ≥ 1")
    confidence, predicted = probs.double().max(1)
    gap = (predicted == labels).double() - confidence
    index = (confidence * bins).ceil().long().clamp(1, bins) - 1
    return float(torch.zeros(bins).to(gap).index_add_(0, index, gap).abs().sum() / len(labels))


def _check(scores: Tensor, labels: Tensor, name: str) -> None:
    if scores.ndim != 2 or labels.shape != scores.shape[:1] or len(labels) == 0:
        shapes = f"{name} {tuple(scores.shape)} and labels {tuple(labels.shape)}"
        raise ValueError(f"{shapes} must be (N, C) and (N,), N ≥ 1")
