"""Latents of your own on disk, as safetensors:

    latents      (N, K, r)  float, or int8 with `step` (1,), the size of one step
    labels       (N,)       integers, 0 to C − 1
    classifier   (C, r)     optional: the server's linear classifier
    bias         (C,)       optional, with classifier
    posteriors   (N, K, L)  optional: each device's own label distribution; Schemes 2.1 and 2.2 select by it

Without a classifier, a codec must decode them (`airpool train codec`).
"""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from airpool._support import files
from airpool._support.arrays import require, require_array

_SUM = 0.01  # how far a posterior's sum may be from 1: half precision, and many classes


@dataclass(frozen=True, eq=False)
class Latents:
    """Latents (N, K, r) float32, labels (N,) int64; classifier (C, r), bias (C,) and local posteriors, or None."""

    latents: Tensor
    labels: Tensor
    classifier: Tensor | None = None
    bias: Tensor | None = None
    posteriors: Tensor | None = None

    def __post_init__(self) -> None:
        latents, labels, classifier, bias = self.latents, self.labels, self.classifier, self.bias
        for name, tensor in vars(self).items():
            if tensor is not None:
                require_array(name, tensor, torch=True)
                require(name, tensor, "must be finite", ok=torch.isfinite)
        if latents.ndim != 3 or not latents.is_floating_point() or not len(latents):
            raise ValueError(f"latents is {latents.dtype} {tuple(latents.shape)}, must be float (N, K, r), N ≥ 1")
        check_labels(labels, objects=len(latents))
        if (p := self.posteriors) is not None:
            if p.ndim != 3 or p.shape[:2] != latents.shape[:2] or p.shape[2] < 2:
                count, devices, _ = latents.shape
                raise ValueError(f"posteriors has shape {tuple(p.shape)}, must be ({count}, {devices}, L), L ≥ 2")
            require("posteriors", p, "must be ≥ 0", ok=lambda p: p >= 0)
            require("the sum of posteriors", p.sum(-1), "must be 1", ok=lambda total: (total - 1).abs() <= _SUM)
        if classifier is None:
            if bias is not None:
                raise ValueError("bias is there without a classifier: give both or neither")
            return
        classes, shape = int(labels.max()) + 1, tuple(classifier.shape)
        if len(shape) != 2 or shape[0] < classes or shape[1] != latents.shape[2]:
            raise ValueError(f"classifier has shape {shape}, must be (C, {latents.shape[2]}) with C ≥ {classes}")
        if bias is not None and bias.shape != shape[:1]:
            raise ValueError(f"bias has shape {tuple(bias.shape)}, must be ({shape[0]},)")

    def decoder(self, estimate: Tensor) -> Tensor:
        """Logits (..., C) of estimates (..., r)."""
        if self.classifier is None:
            raise ValueError("these latents come without a classifier: give a codec that decodes them")
        logits = estimate @ self.classifier.T
        return logits if self.bias is None else logits + self.bias


def check_labels(labels: Tensor, *, objects: int) -> None:
    if labels.shape != (objects,):
        raise ValueError(f"labels has shape {tuple(labels.shape)}, must be ({objects},)")
    if labels.is_floating_point():
        raise ValueError(f"labels are {labels.dtype}, must be whole numbers")
    if int(labels.min()) < 0:
        raise ValueError(f"labels has {int(labels.min())}, must be ≥ 0")


def read(path: Path) -> Latents:
    """The latents of a file, checked."""
    found = _tensors(path, "latents", "labels")
    latents = found["latents"]
    if latents.dtype == torch.int8:
        if "step" not in found:
            raise ValueError(f"{path}: latents are int8, so step, the size of a step, must be there")
        step = found["step"].float()
        if step.numel() != 1 or not 0 < float(step) < math.inf:
            raise ValueError(f"{path}: step is {step.tolist()}, must be one number > 0 and finite")
        latents = latents.float() * step
    floats = {name: found[name].float() for name in ("classifier", "bias", "posteriors") if name in found}
    try:
        return Latents(latents.float() if latents.is_floating_point() else latents, found["labels"].long(), **floats)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_views(path: Path) -> tuple[Tensor, Tensor]:
    """Views (N, K, 2, H, H) uint8 and labels (N,) of a file that holds these two."""
    found = _tensors(path, "views", "labels")
    views, labels = found["views"], found["labels"].long()
    if views.ndim != 5 or views.dtype != torch.uint8 or labels.shape != views.shape[:1] or not len(labels):
        shapes = f"{views.dtype} {tuple(views.shape)} and {tuple(labels.shape)}"
        raise ValueError(f"{path}: views and labels are {shapes}, must be uint8 (N, K, 2, H, H) and (N,), N ≥ 1")
    return views, labels


def _tensors(path: Path, *names: str) -> dict[str, Tensor]:
    found, _ = files.read_tensors(path)
    if missing := sorted(set(names) - found.keys()):
        there = ", ".join([*sorted(found)[:5], *(["…"] if len(found) > 5 else [])]) or "nothing"
        raise ValueError(f"{path}: {', '.join(missing)} missing; there is {there}")
    if found["labels"].is_floating_point():
        raise ValueError(f"{path}: labels are {found['labels'].dtype}, must be whole numbers")
    return found
