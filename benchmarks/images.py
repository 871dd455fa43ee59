"""Pictures a second of `airpool fit --images`: read, cut, through the trunk; and once more, from the kept features."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

from airpool.models.images import folder, trunk
from airpool.models.images.features import features

from . import Row

CAMERAS, OBJECTS, SIDE = 4, 16, 640


def rows() -> list[Row]:
    """Photographs of 640 × 480 made up of noise: harder to decode than real ones."""
    count, known = CAMERAS * OBJECTS, trunk.shipped()
    rng = np.random.default_rng(0)
    with TemporaryDirectory() as place:
        for k in range(count):
            file = Path(place, f"{k % CAMERAS}", f"{k // CAMERAS % 2}", f"{k // CAMERAS}.jpg")
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (SIDE * 3 // 4, SIDE, 3), np.uint8)).save(file)
        known.features(np.zeros((1, 1, 3, 224, 224), np.uint8))  # loads the weights
        took = []
        for _ in range(2):
            began = time.perf_counter()
            features(folder.found(place), known, kept=Path(place, "kept"))
            took.append(time.perf_counter() - began)
        began = time.perf_counter()
        for file in sorted(Path(place).rglob("*.jpg")):
            picture = np.array(Image.open(file).convert("RGB").resize((224, 224)))
            known.features(np.moveaxis(picture, -1, 0)[None, None])
        plain = time.perf_counter() - began
    threads = f"{torch.get_num_threads()} threads"
    return [
        Row(
            "images",
            f"{count} photographs of {SIDE} px to features",
            took[0],
            "s",
            f"{count / took[0]:.1f} a second, {threads}",
            rival=plain,
            beside="Pillow and the trunk, one after the other",
        ),
        Row("images", "- that are known", took[1], "s", "read and hashed, not decoded"),
    ]
