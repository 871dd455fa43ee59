"""VGG11 over many views: the trunk runs on each device, the classifier on the server, the pooling of views between.

    views (B, K, 2, H, H) → trunk on each → maps (B, K, 512, 7, 7) → pooled over views → classifier → logits (B, C)

Parameters are named as in torchvision (`features.N.weight`, `classifier.N.weight`), so its weights load.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor, nn

from airpool.models.heads import dense, pooled_classifier

Head = Literal["linear", "mlp", "flat", "vgg"]
Pooling = Literal["mean", "max"]

MAP_SHAPE = (512, 7, 7)
_MAP_SIZE = 512 * 7 * 7
_BLOCKS = ((64,), (128,), (256, 256), (512, 512), (512, 512))  # channels of the convolutions between two pools


@dataclass(frozen=True)
class Architecture:
    """What determines the shape of every parameter.

    resolution: 224 pools five times, as in the paper; 112 leaves out the last pool. Both give maps 512 × 7 × 7.
    head, on the pooled map, with its number of parameters for 40 classes:
        "linear"  one layer on the global average                      20,520
        "mlp"     two layers on the global average, 512 hidden        283,176
        "flat"    one layer on the whole map                        1,003,560
        "vgg"     VGG11's own 4096-4096 on the whole map, the paper's choice    119,709,736
    """

    num_classes: int = 40
    in_channels: int = 2
    resolution: int = 112
    batch_norm: bool = True
    head: Head = "linear"
    pooling: Pooling = "mean"

    def __post_init__(self) -> None:
        if self.resolution not in (112, 224):
            raise ValueError(f"resolution={self.resolution} must be 112 or 224: only these give 7 × 7 maps")
        if self.num_classes < 1 or self.in_channels < 1:
            raise ValueError(f"num_classes={self.num_classes} and in_channels={self.in_channels} must be ≥ 1")
        if self.head not in get_args(Head):
            raise ValueError(f"head={self.head!r} must be 'linear', 'mlp', 'flat' or 'vgg'")
        if self.pooling not in get_args(Pooling):
            raise ValueError(f"pooling={self.pooling!r} must be 'mean' or 'max'")


def trunk(architecture: Architecture) -> nn.Sequential:
    """VGG11's convolutions: images (B, in_channels, H, H) to maps (B, 512, 7, 7), never negative. On each device."""
    layers: list[nn.Module] = []
    channels = architecture.in_channels
    for block in _BLOCKS:
        for width in block:
            convolution = nn.Conv2d(channels, width, kernel_size=3, padding=1)
            nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(convolution.bias)  # pyright: ignore[reportArgumentType]
            norm = [nn.BatchNorm2d(width)] if architecture.batch_norm else []
            layers += [convolution, *norm, nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*(layers if architecture.resolution == 224 else layers[:-1]))


def classifier(architecture: Architecture) -> nn.Sequential:
    """Pooled maps (B, 512, 7, 7) to logits (B, num_classes). On the server."""
    num_classes = architecture.num_classes
    match architecture.head:
        case "linear":
            return pooled_classifier(num_classes)
        case "mlp":
            return pooled_classifier(num_classes, hidden=512)
        case "flat":
            widths = (_MAP_SIZE, num_classes)
        case "vgg":
            widths = (_MAP_SIZE, 4096, 4096, num_classes)
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), **dense(*widths)))


class MVCNN(nn.Module):
    """Trunk and classifier together, as they are trained and as the server would see it without radio or noise."""

    def __init__(self, architecture: Architecture | None = None) -> None:
        super().__init__()
        self.architecture = architecture or Architecture()
        self.features = trunk(self.architecture)
        self.classifier = classifier(self.architecture)

    def maps(self, views: Tensor) -> Tensor:
        """Feature maps (B, K, 512, 7, 7) of views (B, K, in_channels, H, H)."""
        return self.features(views.flatten(0, 1)).unflatten(0, views.shape[:2])

    def forward(self, views: Tensor) -> Tensor:
        """Logits (B, num_classes) of views (B, K, in_channels, H, H)."""
        return self.classifier(pool_views(self.maps(views), pooling=self.architecture.pooling))


def pool_views(maps: Tensor, *, pooling: Pooling = "mean") -> Tensor:
    """Mean or maximum (B, ...) over the views of maps (B, K, ...)."""
    return maps.mean(1) if pooling == "mean" else maps.amax(1)
