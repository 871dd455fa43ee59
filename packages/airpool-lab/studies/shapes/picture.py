"""Draws docs/figures/shapes.png, what the cameras see of our own shapes, in half a minute.

    python -m studies.shapes.picture

On top the twelve views of one object, shading over depth; below, every kind of object in four variants, by one camera.
"""

from itertools import groupby

import numpy as np
import torch
from PIL import Image, ImageDraw

from airpool.models.vision import shapes
from airpool.models.vision.views import Cameras, views
from studies.tables import FIGURES

SHEET = FIGURES / "shapes.png"
TILE = 112
COLUMNS = 12
VARIANTS = 4
CAPTION = 16


def main() -> None:
    kinds = {label: list(group) for label, group in groupby(shapes.all(), key=lambda shape: shape.label)}
    shown = [shape for group in kinds.values() for shape in group[:VARIANTS]]
    meshes = {shape.name: (shape.vertices, shape.faces) for shape in shown}
    example = views([meshes["chair_0"]], Cameras(resolution=TILE))[0]
    tiles = views(list(meshes.values()), Cameras(1, first_azimuth_deg=30, resolution=TILE))[:, 0, 0]

    per_row = COLUMNS // VARIANTS
    rows = -(-len(kinds) // per_row)
    sheet = Image.new("L", (COLUMNS * TILE, (2 + rows) * TILE + (1 + rows) * CAPTION))
    pen = ImageDraw.Draw(sheet)
    for k, view in enumerate(example):
        for channel, image in enumerate(view):
            sheet.paste(picture(image), (k * TILE, channel * TILE + CAPTION))
        pen.text((k * TILE + 4, 2), f"chair_0, camera {k}", fill=255)
    for index, (label, image) in enumerate(zip((shape.label for shape in shown), tiles, strict=True)):
        row, column = divmod(index, COLUMNS)
        top = (2 + row) * TILE + (1 + row) * CAPTION
        sheet.paste(picture(image), (column * TILE, top + CAPTION))
        if column % VARIANTS == 0:
            pen.text((column * TILE + 4, top + 2), label, fill=255)
    sheet.save(SHEET, optimize=True)
    print(f"{SHEET.name}: {len(kinds)} kinds, {len(shown)} shapes, {SHEET.stat().st_size / 1000:.0f} kB")


def picture(image: torch.Tensor) -> Image.Image:
    return Image.fromarray((image.numpy() * 255).round().astype(np.uint8))


if __name__ == "__main__":
    main()
