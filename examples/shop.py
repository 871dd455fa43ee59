"""A made-up shop of three cameras, to try docs/howto/cameras.md before you have photographs of your own.

    python examples/shop.py

Writes shop/CAMERA/CLASS/OBJECT.jpg, a table with a mug on it or nothing, and clips/, the same as videos with their
labels (needs OpenCV, extra `video`).
"""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

CAMERAS = {"left": 0.9, "right": 1.1, "door": 0.7}  # and how large things are there
CLASSES = ("mug", "empty")
OBJECTS = 8  # of each class
SPANS = [(10 * k, 10 * k + 9, CLASSES[k % 2]) for k in range(6)]  # seconds of the videos


def picture(label: str, camera: str, seed: int) -> np.ndarray:
    """(120, 160, 3) bytes: size, colour and place are those of the object, noise and scale the camera's."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (160, 120), tuple(rng.integers(120, 200, 3)))
    draw, size = ImageDraw.Draw(image), 30 * CAMERAS[camera]
    draw.rectangle((0, 80, 160, 120), tuple(rng.integers(60, 120, 3)))
    if label == "mug":
        x, y, colour = 60 + rng.integers(40), 75, tuple(rng.integers(0, 255, 3))
        draw.ellipse((x + size / 2, y - size, x + size * 1.4, y - size / 4), outline=colour, width=5)
        draw.rectangle((x - size / 2, y - size, x + size / 2, y + 5), colour)
    noisy = np.asarray(image) + np.random.default_rng((seed, len(camera))).normal(0, 4, (120, 160, 3))
    return noisy.clip(0, 255).astype(np.uint8)


def photographs(folder: Path) -> None:
    """FOLDER/CAMERA/CLASS/OBJECT.jpg."""
    for camera in CAMERAS:
        for k, label in enumerate(CLASSES):
            (folder / camera / label).mkdir(parents=True, exist_ok=True)
            for number in range(OBJECTS):
                pixels = picture(label, camera, 100 * k + number)
                Image.fromarray(pixels).save(folder / camera / label / f"{number + 1}.jpg")


def clips(folder: Path) -> None:
    """A video of each of two cameras, two frames a second, and what stands on the table when."""
    import cv2  # pyright: ignore[reportMissingImports]

    folder.mkdir(exist_ok=True)
    for camera in ("left", "right"):
        out = cv2.VideoWriter(str(folder / f"{camera}.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 2, (160, 120))
        for k, (_, _, label) in enumerate(SPANS):
            for _ in range(20):
                out.write(np.ascontiguousarray(picture(label, camera, k)[..., ::-1]))
        out.release()
    rows = [f"0:00:{start:02},0:00:{end:02},{label},visit {k}" for k, (start, end, label) in enumerate(SPANS, 1)]
    (folder / "labels.csv").write_text("\n".join(["start,end,class,event", *rows, ""]))


if __name__ == "__main__":
    photographs(Path("shop"))
    try:
        clips(Path("clips"))
    except ImportError:
        print("no OpenCV, so no clips: pip install -e './packages/airpool[video]'")
