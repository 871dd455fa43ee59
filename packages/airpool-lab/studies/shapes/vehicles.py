"""Our own airplanes and cars, in metres: nose towards -y, z up. `VEHICLES` lists what was built."""

from airpool.models.vision.meshes import Mesh

from .furniture import Kind
from .solids import disc, join, lathe, moved, prism, turned


def airplane(*, length: float, span: float, radius: float, sweep: float, engines: int = 2, low: bool = True) -> Mesh:
    """Nose towards -y. `sweep` is how far the tips of the wings lie behind their roots."""
    hull = [(0, 0), (0.5, 0.04), (0.85, 0.1), (1, 0.18), (1, 0.65), (0.7, 0.85), (0.25, 1), (0, 1)]
    parts = [turned(lathe([(r * radius, f * length) for r, f in hull], sides=16), -90, "x")]

    def wing(root: float, chord: float, half: float, back: float) -> Mesh:
        tip = chord * 0.35
        right = [(0, root), (half, root + back), (half, root + back + tip), (0, root + chord)]
        return prism([*right, *((-x, y) for x, y in reversed(right[1:3]))], 0.02 * length)

    height = -0.5 * radius if low else 0.7 * radius
    parts += [moved(wing(0.36 * length, 0.2 * length, span / 2, sweep), (0, 0, height))]
    parts += [wing(0.86 * length, 0.12 * length, span * 0.19, sweep * 0.35)]
    fin = [(0.8 * length, 0), (0.92 * length, 0.17 * length), (length, 0.17 * length), (0.97 * length, 0)]
    upright = turned(turned(prism(fin, 0.02 * length), 90, "x"), 90, "z")
    parts += [moved(upright, (-0.01 * length, 0, 0.3 * radius))]
    for i in range(engines):
        side, out = (-1, 1)[i % 2], 0.17 + 0.15 * (i // 2)
        pod = turned(disc(0.35 * radius, 0.13 * length, sides=12), -90, "x")
        parts += [moved(pod, (side * out * span, 0.36 * length + sweep * out * 1.6, height - 0.35 * radius))]
    return join(parts)


def car(*, length: float, width: float, height: float, bonnet: float, boot: float, slope: float = 0.12) -> Mesh:
    """Seen from the side: bonnet and boot as parts of the length; between them the cabin, its windows sloping."""
    belt, sill = 0.58 * height, 0.17 * height
    front, back = bonnet * length, (1 - boot) * length
    rise = slope * length
    side = [(0, sill), (0, 0.5 * height), (front, belt), (front + rise, height), (back - rise * 0.7, height)]
    side += [(back, belt), (length, belt * 0.95), (length, sill)]
    shell = turned(turned(prism(side, width), 90, "x"), 90, "z")
    r = 0.22 * height
    wheel = turned(disc(r, 0.2), 90, "y")
    ends = [(x, y) for x in (-0.01, width - 0.19) for y in (0.19 * length, 0.8 * length)]
    return join([shell, *(moved(wheel, (x, y, r)) for x, y in ends)])


VEHICLES: dict[str, Kind] = {
    "airplane": (
        airplane,
        [
            {"length": 38, "span": 34, "radius": 2.0, "sweep": 7},
            {"length": 70, "span": 62, "radius": 3.3, "sweep": 13, "engines": 4},
            {"length": 8, "span": 10.5, "radius": 0.6, "sweep": 0.3, "engines": 0, "low": False},
            {"length": 18, "span": 19, "radius": 1.2, "sweep": 2, "low": False},
        ],
    ),
    "car": (
        car,
        [
            {"length": 4.6, "width": 1.8, "height": 1.45, "bonnet": 0.24, "boot": 0.16},
            {"length": 4.0, "width": 1.75, "height": 1.5, "bonnet": 0.22, "boot": 0.02},
            {"length": 4.5, "width": 1.85, "height": 1.25, "bonnet": 0.32, "boot": 0.12, "slope": 0.15},
            {"length": 4.7, "width": 1.9, "height": 1.75, "bonnet": 0.22, "boot": 0.01, "slope": 0.09},
        ],
    ),
}
