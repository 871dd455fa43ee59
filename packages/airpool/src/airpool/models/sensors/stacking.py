"""Features of K sensors, all of one width or of a width each, as one standardised tensor.

an array (N, K, F)             K sensors of one width
a list of K arrays (N, F_k)    sensors of a width each, filled up with zeros to the largest
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from airpool._support.arrays import Array, require, require_array, require_shape
from airpool._support.brief import Brief
from airpool.models.layers import FURTHEST


@dataclass(frozen=True, eq=False, repr=False)
class Sensors(Brief):
    """widths: (K,) of the features. centre, scale: (K, F), of the training objects, F the largest width."""

    widths: tuple[int, ...]
    centre: Tensor
    scale: Tensor

    def standardised(self, features: Any) -> Tensor:
        """(N, K, F) of the same sensors; never raises on values: not finite becomes NaN, which the clip makes 0."""
        stacked, widths = stack(features)
        if widths != self.widths:
            raise ValueError(f"features have widths {_listed(widths)}, the model's sensors {_listed(self.widths)}")
        return self.scaled(stacked)

    def scaled(self, stacked: Tensor) -> Tensor:
        """Scaled features in float32; values that are not finite become NaN."""
        x = ((stacked - self.centre) / self.scale).clamp(-FURTHEST, FURTHEST).float()
        return x.where(stacked.isfinite(), torch.nan)


def stack(features: Any) -> tuple[Tensor, tuple[int, ...]]:
    """Features (N, K, F) on the CPU, in float64 where float32 might lose digits, and the width of each sensor."""
    if not isinstance(features, Sequence):
        require_array("features", features)
        whole = _numbers("features", features)
        if whole.ndim != 3 or not all(whole.shape):
            raise ValueError(
                f"features has shape {tuple(whole.shape)}, must be (N, K, F), or a list of K arrays (N, F)"
            )
        return whole, (whole.shape[2],) * whole.shape[1]
    parts = []
    for k, each in enumerate(features):
        require_array(f"features[{k}]", each)
        parts.append(_numbers(f"features[{k}]", each))
        if parts[k].ndim != 2 or not all(parts[k].shape) or len(parts[k]) != len(parts[0]):
            count = len(parts[0]) if k else "N"
            raise ValueError(f"features[{k}] has shape {tuple(parts[k].shape)}, must be ({count}, F), of one sensor")
    if not parts:
        raise ValueError("features is an empty list, must hold one array (N, F) for each sensor")
    widths = tuple(part.shape[1] for part in parts)
    wide = torch.float64 if any(part.dtype == torch.float64 for part in parts) else torch.float32
    filled = [torch.nn.functional.pad(part.to(wide), (0, max(widths) - part.shape[1])) for part in parts]
    return torch.stack(filled, 1), widths


def mask(present: Array, shape: tuple[int, ...]) -> Tensor:
    """Mask of the sensors that are present, (N, K) bool."""
    require_array("present", present)
    require_shape("present", present, shape)
    there = torch.as_tensor(present)
    if there.dtype != torch.bool:
        raise ValueError(f"present is {there.dtype}, must be bool: True where a sensor is there")
    return there


def presence(features: Tensor, present: Array | None) -> Tensor:
    """(N, K) bool: which sensors were there; an error where one that was there measured something not finite."""
    shape = tuple(features.shape[:2])
    there = torch.ones(shape, dtype=torch.bool) if present is None else mask(present, shape).cpu()
    hint = "must be finite; where a sensor was missing, say so: present (N, K), False there"
    require("features", features.where(there[..., None], 0.0), hint, ok=torch.isfinite)
    for k in (~there.any(0)).nonzero().flatten().tolist():
        raise ValueError(f"sensor {k} is never present: leave it out")
    return there


def standardising(features: Tensor, present: Tensor, widths: tuple[int, ...], *, alike: bool) -> Sensors:
    """Centre and scale of features (N, K, F) where they are present: one for each sensor, or if alike one for all.

    Edge case: a feature that is constant up to rounding says nothing, and becomes 0 whatever it is later.
    """
    there = present[..., None]
    axes = (0, 1) if alike else (0,)
    share = there / there.double().sum(axes, keepdim=True).clamp(min=1)
    centre = (features.double().where(there, 0.0) * share).sum(axes, keepdim=True)
    off = (features - centre).where(there, 0.0)
    furthest = off.abs().amax(axes, keepdim=True).clamp(min=torch.finfo(off.dtype).tiny)
    std = furthest * ((off / furthest).square() * share).sum(axes, keepdim=True).sqrt()
    rounding = 8 * torch.finfo(features.dtype).eps * centre.abs()
    scale = torch.where(std > rounding, std, torch.finfo(torch.float32).max)
    shape, dtype = features.shape[1:], features.dtype
    return Sensors(widths, *(each[0].expand(shape).to(dtype).contiguous() for each in (centre, scale)))


def _numbers(name: str, value: Array) -> Tensor:
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array, whose mask would be lost: give its data, and present (N, K)")
    if isinstance(value, Tensor):
        value = (value.float() if value.dtype == torch.bfloat16 else value).detach().cpu().numpy()
    if value.dtype.kind not in "fiu":
        raise ValueError(f"{name} is {value.dtype}, must be numbers")
    wide = np.promote_types(value.dtype, np.float32).itemsize > 4
    return torch.from_numpy(np.array(value, dtype=np.float64 if wide else np.float32, order="C"))


def _listed(widths: tuple[int, ...]) -> str:
    return f"{widths[0]} × {len(widths)}" if len(set(widths)) == 1 else ", ".join(map(str, widths))
