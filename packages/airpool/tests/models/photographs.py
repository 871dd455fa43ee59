"""Pictures of coloured things, made up, and a trunk that is quick."""

import numpy as np
import torch
from PIL import Image
from torch import nn

from airpool.models.images.trunk import WIDTH, ImageTrunk
from airpool.models.vision.lite import Pixels

COLOURS = {"mug": (200, 60, 40), "pear": (60, 180, 80)}


def photograph(path, colour=(200, 60, 40), *, seed=0, size=(24, 20), **how):
    """A noisy picture of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).normal(colour, 40, (size[1], size[0], 3)).clip(0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path, **how)
    return path


def shop(folder, *, cameras=3, objects=6, ending="png"):
    """FOLDER/CAMERA/CLASS/OBJECT, two classes."""
    seed = 0
    for camera in range(cameras):
        for label, colour in COLOURS.items():
            for number in range(objects):
                seed += 1
                photograph(folder / f"cam{camera}" / label / f"{number}.{ending}", colour, seed=seed)
    return folder


def quick_trunk(patch):
    """The trunk becomes one convolution: same shapes, no time."""
    torch.manual_seed(0)
    module = nn.Sequential(Pixels(), nn.Conv2d(3, WIDTH, 32, stride=32), nn.ReLU()).eval()
    patch.setattr(ImageTrunk, "module", property(lambda _: module))
