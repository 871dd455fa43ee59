"""VGG11's convolutions: the paper's trunk, trained from scratch.

Parameters are named as in torchvision (`features.N.weight`), so its weights load.
"""

from torch import nn

_BLOCKS = ((64,), (128,), (256, 256), (512, 512), (512, 512))  # channels of the convolutions between two pools


def trunk(in_channels: int, *, resolution: int = 112, batch_norm: bool = True) -> nn.Sequential:
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
