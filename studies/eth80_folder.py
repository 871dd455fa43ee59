"""ETH-80 as a folder of photographs, as people have them: CAMERA/CLASS/OBJECT.jpg, sixteen of its 41 places.

    python -m studies.eth80_folder eth80_photos.npz FOLDER

ETH-80 (Leibe and Schiele, CVPR 2003; for research): 80 objects of 8 classes. The cameras are places evenly spaced in
the file's order of views. Photographs are written as they are stored, byte by byte.
"""

import argparse
from pathlib import Path

import numpy as np

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    write(given.data, given.folder)


if __name__ == "__main__":
    main()
