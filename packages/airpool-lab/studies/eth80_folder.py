"""ETH-80 as a folder of photographs, as people have them: CAMERA/CLASS/OBJECT.jpg, sixteen of its 41 places.

    python -m studies.eth80_folder eth80_photos.npz FOLDER
    airpool fit --images FOLDER --folds 5 --out eth80.safetensors
    python -m studies.eth80_folder --record eth80.json docs/figures

ETH-80 (Leibe and Schiele, CVPR 2003; for research): 80 objects of 8 classes. The cameras are places evenly spaced in
the file's order of views. Photographs are written as they are stored, byte by byte.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from airpool._support import figures
from airpool_lab.pictures import card

CAMERAS = 16


def write(data: Path, folder: Path, *, cameras: int = CAMERAS) -> None:
    z = np.load(data)
    jpeg, start, label, objects = (z[name] for name in ("jpeg", "start", "label", "object"))
    rows = [np.flatnonzero(objects == each) for each in range(objects.max() + 1)]
    places = np.linspace(0, min(map(len, rows)) - 1, cameras).round().astype(int)
    for number, row in enumerate(rows):
        for camera, index in enumerate(row[places].tolist()):
            file = folder / str(camera) / str(z["classes"][label[index]]) / f"{number:02d}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(jpeg[start[index] : start[index + 1]].tobytes())


def draw(record: Path, folder: Path) -> None:
    """Writes the table of a record as cameras-eth80.csv, and the figure of its confusions."""
    found = json.loads(record.read_text("utf-8"))
    cells = [(row, column, cell) for row, columns in found["table"].items() for column, cell in columns.items()]
    columns = {"row": [each[0] for each in cells], "epsilon": [each[1] for each in cells]}
    columns |= {name: [each[2][name] for each in cells] for name in ("mean", "std")}
    about = {key: found[key] for key in ("folds", "trials", "seed", "version", "recipe")}
    figures.write_csv(folder / "cameras-eth80.csv", columns, comment=f"airpool fit --images eth80: {json.dumps(about)}")
    card.draw(found, folder / "cameras-eth80.png", folder / "cameras-eth80.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--record", action="store_true", help="draw what `airpool fit` measured, a JSON file")
    given = parser.parse_args()
    (draw if given.record else write)(given.data, given.folder)


if __name__ == "__main__":
    main()
