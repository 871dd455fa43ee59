"""One network over many views, whatever the trunk: it runs on each device, the classifier on the server.

    views (B, K, 2, H, H) → trunk on each → maps (B, K, F, 7, 7) → pooled over views → classifier → logits (B, C)

A backbone of your own is one more entry of TRUNKS (examples/own_backbone.py). With the linear head and mean pooling
the logits are the average of those of single views.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor, nn

from airpool.models.heads import dense, pooled_classifier
from airpool.models.vision import lite

_BLOCKS = ((64,), (128,), (256, 256), (512, 512), (512, 512))  # channels of the convolutions between two pools


def vgg_trunk(in_channels: int, *, resolution: int = 112, batch_norm: bool = True) -> nn.Sequential:
    """Images (B, in_channels, H, H) to maps (B, 512, 7, 7), never negative.

    resolution: 224 pools five times, as in the paper; 112 leaves out the last pool.
    """
    layers: list[nn.Module] = []
    channels = in_channels
    for block in _BLOCKS:
        for width in block:
            convolution = nn.Conv2d(channels, width, kernel_size=3, padding=1)
            nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(convolution.bias)  # pyright: ignore[reportArgumentType]
            norm = [nn.BatchNorm2d(width)] if batch_norm else []
            layers += [convolution, *norm, nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*(layers if resolution == 224 else layers[:-1]))


Head = Literal["linear", "mlp", "flat", "vgg"]
Pooling = Literal["mean", "max"]


@dataclass(frozen=True)
class Architecture:
    """Architecture of a network, which determines the shape of every parameter.

    trunk: a name in TRUNKS. resolution: pixels along a view's side, one of the trunk's; 0 stands for its first.
    batch_norm: of VGG11; the others always have it.
    head, on the pooled map, with its number of parameters for 40 classes and 512 channels:
        "linear"  one layer on the global average                      20,520
        "mlp"     two layers on the global average, 512 hidden        283,176
        "flat"    one layer on the whole map                        1,003,560
        "vgg"     VGG11's own 4096-4096 on the whole map, the paper's choice    119,709,736
    """

    trunk: str = "vgg11"
    num_classes: int = 40
    in_channels: int = 2
    resolution: int = 0
    batch_norm: bool = True
    head: Head = "linear"
    pooling: Pooling = "mean"

    def __post_init__(self) -> None:
        if self.trunk not in TRUNKS:
            raise ValueError(f"trunk={self.trunk!r} must be {', '.join(TRUNKS)}")
        allowed = TRUNKS[self.trunk].resolutions
        object.__setattr__(self, "resolution", self.resolution or allowed[0])
        if self.resolution not in allowed:
            raise ValueError(f"resolution={self.resolution} must be {' or '.join(map(str, allowed))} for {self.trunk}")
        if self.num_classes < 1 or self.in_channels < 1:
            raise ValueError(f"num_classes={self.num_classes} and in_channels={self.in_channels} must be ≥ 1")
        if self.head not in get_args(Head):
            raise ValueError(f"head={self.head!r} must be 'linear', 'mlp', 'flat' or 'vgg'")
        if self.pooling not in get_args(Pooling):
            raise ValueError(f"pooling={self.pooling!r} must be 'mean' or 'max'")

    @property
    def map_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a view's map."""
        trunk = TRUNKS[self.trunk]
        return trunk.channels, trunk.side, trunk.side


@dataclass(frozen=True)
class Trunk:
    """A backbone: images (B, in_channels, H, H) to maps (B, channels, side, side) for each H in `resolutions`.

    A residual block with an attribute `drop_path` is left out that often in training
    (`training.TrunkRecipe.drop_path`).
    """

    build: Callable[[Architecture], nn.Sequential]  # any other module: nn.Sequential(it)
    channels: int
    resolutions: tuple[int, ...]
    side: int = 7


TRUNKS: dict[str, Trunk] = {
    "vgg11": Trunk(
        lambda a: vgg_trunk(a.in_channels, resolution=a.resolution, batch_norm=a.batch_norm), 512, (112, 224)
    ),
    "lite0": Trunk(lambda a: lite.trunk("lite0", a.in_channels), lite.CHANNELS, (224,)),
    "lite1": Trunk(lambda a: lite.trunk("lite1", a.in_channels), lite.CHANNELS, (224,)),
    "lite2": Trunk(lambda a: lite.trunk("lite2", a.in_channels), lite.CHANNELS, (224,)),
}


def classifier(architecture: Architecture) -> nn.Sequential:
    """Pooled maps (B, F, 7, 7) to logits (B, num_classes). On the server."""
    num_classes, (channels, height, width) = architecture.num_classes, architecture.map_shape
    if architecture.head in ("linear", "mlp"):
        return pooled_classifier(num_classes, channels=channels, hidden=512 if architecture.head == "mlp" else None)
    hidden = (4096, 4096) if architecture.head == "vgg" else ()
    layers = dense(channels * height * width, *hidden, num_classes)
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), **layers))


class MVCNN(nn.Module):
    """Trunk and classifier together, as they are trained and as the server would see it without radio or noise."""

    def __init__(self, architecture: Architecture | None = None) -> None:
        super().__init__()
        self.architecture = architecture or Architecture()
        self.features = TRUNKS[self.architecture.trunk].build(self.architecture)
        self.classifier = classifier(self.architecture)

    def maps(self, views: Tensor) -> Tensor:
        """Feature maps (B, K, F, 7, 7) of views (B, K, in_channels, H, H)."""
        return self.features(views.flatten(0, 1)).unflatten(0, views.shape[:2])

    def forward(self, views: Tensor) -> Tensor:
        """Logits (B, num_classes) of views (B, K, in_channels, H, H)."""
        return self.classifier(pool_views(self.maps(views), pooling=self.architecture.pooling))


def pool_views(maps: Tensor, *, pooling: Pooling = "mean") -> Tensor:
    """Mean or maximum (B, ...) over the views of maps (B, K, ...)."""
    return maps.mean(1) if pooling == "mean" else maps.amax(1)
