"""Our own things about the house, in metres. `THINGS` lists what was built of each kind.

Placed as ModelNet40 places them: z up; monitors look along x, laptops and toilets have their back towards +y, baths are
long in y, guitars and keyboards lie flat and are long in x.
"""

from collections.abc import Sequence

import numpy as np

from airpool.models.vision.meshes import Mesh

from .furniture import Kind
from .solids import arc, box, join, lathe, moved, prism, rod, turned

Profile = Sequence[tuple[float, float]]


def vessel(*, profile: Profile, wall: float, handle: tuple[float, float] | None = None) -> Mesh:
    """An open vessel: its outer profile of (radius, z) from the foot up, and the lower and upper end of its handle."""
    floor = profile[0][1] + wall
    inner = [(max(r - wall, 0.0), z) for r, z in profile if z > floor]
    whole = [(0.0, profile[0][1]), *profile, *reversed(inner), (inner[0][0], floor), (0.0, floor)]
    parts = [lathe(whole)]
    if handle:
        low, high = handle
        radii, heights = zip(*profile, strict=True)
        reach = float(np.interp((low + high) / 2, heights, radii)) - wall / 2
        bow = arc((reach, (low + high) / 2), (high - low) / 2, -90, 90)
        parts += [rod([(x, 0, z) for x, z in bow], wall * 0.8)]
    return join(parts)


def lamp(*, height: float, base: float, shade: tuple[float, float], shade_height: float, stem: float = 0.015) -> Mesh:
    """A standing lamp with a shade of this lower and upper radius."""
    low, high = shade
    z = height - shade_height
    foot = lathe([(0, 0), (base, 0), (base, 0.03), (stem, 0.05), (stem, height * 0.95), (0, height * 0.95)])
    return join([foot, lathe([(0, z), (low, z), (high, height), (0, height)])])


def bottle(*, radius: float, height: float, neck: float, shoulder: float, cap: float = 1.0) -> Mesh:
    """`shoulder` is where the body ends, as a part of the height; the neck follows after a curve."""
    low, high = shoulder * height, min(0.95, shoulder + 0.2) * height
    curve = [
        (neck + (radius - neck) * (1 + np.cos(np.pi * f)) / 2, low + (high - low) * f) for f in np.linspace(0, 1, 8)
    ]
    profile = [(0, 0), (radius * 0.95, 0), (radius, 0.02 * height), *curve, (neck, 0.93 * height)]
    return lathe([*profile, (neck * cap, 0.93 * height), (neck * cap, height), (0, height)])


def cone(*, radius: float, height: float, tip: float = 0.0, plate: float = 0.0) -> Mesh:
    """A cone, or with a square plate one from the road."""
    z = 0.05 * height if plate else 0.0
    parts = [lathe([(0, z), (radius, z), (tip, height), (0, height)])]
    return join([*parts, box((plate, plate, z))] if plate else parts)


def monitor(*, width: float, height: float, lift: float, base: tuple[float, float], thick: float = 0.05) -> Mesh:
    """A screen `lift` above the desk on a base of this width and depth."""
    parts = [box((thick, width, height), (0, 0, lift)), box((0.04, 0.08, lift + height / 2), (0.04, 0, 0))]
    return join([*parts, box((base[1], base[0], 0.02), (0.02, 0, 0))])


def laptop(*, width: float, depth: float, screen: float, opening: float) -> Mesh:
    """A screen of this height, open by so many degrees."""
    t = 0.02
    lid = turned(box((width, screen, t), (0, -screen / 2, 0)), -opening, "x")
    return join([box((width, depth, t), (0, 0, 0)), moved(lid, (0, depth / 2, t))])


def keyboard(*, width: float, depth: float, thick: float, rows: int = 5) -> Mesh:
    step = depth * 0.85 / rows
    keys = [box((width * 0.94, step * 0.7, 0.008), (0, (i - (rows - 1) / 2) * step, thick)) for i in range(rows)]
    return join([box((width, depth, thick)), *keys])


def guitar(*, body: float, upper: float, lower: float, waist: float, neck: float, thick: float) -> Mesh:
    """The body's length, half its width above, below and at the waist; the neck's length."""
    along = np.linspace(0, 1, 25)
    knots = [0, 0.04, 0.25, 0.55, 0.82, 0.97, 1]
    half = np.interp(along, knots, [0, lower * 0.6, lower, waist, upper, upper * 0.5, 0])
    outline = [*zip(along * body, half, strict=True), *zip(along[-2:0:-1] * body, -half[-2:0:-1], strict=True)]
    parts = [prism(outline, thick), box((neck, 0.055, 0.03), (body + neck / 2, 0, thick - 0.03))]
    return join([*parts, box((0.18, 0.09, 0.03), (body + neck + 0.09, 0, thick - 0.03))])


def bathtub(*, length: float, width: float, height: float, rim: float, oval: bool = False, feet: float = 0.0) -> Mesh:
    """A tub; the oval one stands free and narrows towards the floor."""
    sides, corner = (48, 1.0) if oval else (4, np.sqrt(2))
    outer, foot = corner / 2, corner / 2 * (0.75 if oval else 1)
    inner, floor = outer * (1 - 2 * rim / width), outer * 0.62
    profile = [(0, feet), (foot, feet), (outer, height), (inner, height), (floor, feet + 0.12), (0, feet + 0.12)]
    tub = lathe(profile, sides=sides)
    parts = [Mesh(tub.vertices * [width, length, 1], tub.faces)]
    if feet:
        parts += [
            box((0.07, 0.07, feet + 0.15), (x * width, y * length, 0)) for x in (-0.25, 0.25) for y in (-0.3, 0.3)
        ]
    parts += [
        rod(
            [(0, length * 0.46, height - 0.05), (0, length * 0.46, height + 0.12), (0, length * 0.38, height + 0.12)],
            0.025,
        )
    ]
    return join(parts)


def toilet(*, seat: float, width: float, length: float, tank: tuple[float, float, float], lid: bool = False) -> Mesh:
    """Bowl towards -y; the tank's width, depth and height."""
    profile = [(0, 0), (0.32, 0), (0.26, seat * 0.45), (0.5, seat), (0.34, seat), (0.16, seat * 0.55), (0, seat * 0.55)]
    if lid:
        profile = [(0, 0), (0.32, 0), (0.26, seat * 0.45), (0.5, seat), (0.5, seat + 0.04), (0, seat + 0.04)]
    bowl = lathe(profile)
    bowl = Mesh(bowl.vertices * [width, length * 0.7, 1], bowl.faces)
    y = length / 2 - tank[1] / 2
    pedestal = box((width * 0.5, length * 0.4, seat * 0.9), (0, length * 0.22, 0))
    bridge = box((width * 0.8, tank[1] * 1.3, 0.06), (0, y, seat - 0.06))
    parts = [moved(bowl, (0, -length * 0.15, 0)), pedestal, bridge, box(tank, (0, y, seat))]
    return join([*parts, box((tank[0] + 0.03, tank[1] + 0.03, 0.03), (0, y, seat + tank[2]))])


def stairs(*, steps: int, width: float, rise: float, run: float, rail: bool = False, solid: bool = True) -> Mesh:
    parts = []
    for i in range(steps):
        height = rise * (i + 1) if solid else 0.06
        parts += [box((width, run, height), (0, i * run, 0 if solid else rise * (i + 1) - 0.06))]
    if rail:
        top = ((steps - 1) * run, steps * rise + 0.9)
        for x in (-width / 2, width / 2):
            parts += [rod([(x, 0, rise), (x, 0, rise + 0.9), (x, *top), (x, top[0], steps * rise)], 0.03)]
    if not solid:
        slope = [
            (0, 0),
            (run, 0),
            (steps * run, (steps - 1) * rise),
            (steps * run, steps * rise),
            ((steps - 1) * run, steps * rise),
        ]
        string = turned(turned(prism(slope, 0.05), 90, "x"), 90, "z")
        parts += [moved(string, (x, -run / 2, 0)) for x in (-width / 2, width / 2 - 0.05)]
    return join(parts)


THINGS: dict[str, Kind] = {
    "lamp": (
        lamp,
        [
            {"height": 0.6, "base": 0.1, "shade": (0.16, 0.12), "shade_height": 0.2},
            {"height": 0.55, "base": 0.11, "shade": (0.19, 0.06), "shade_height": 0.18},
            {"height": 1.5, "base": 0.16, "shade": (0.22, 0.2), "shade_height": 0.3, "stem": 0.03},
            {"height": 0.5, "base": 0.1, "shade": (0.17, 0.17), "shade_height": 0.2, "stem": 0.06},
        ],
    ),
    "bottle": (
        bottle,
        [
            {"radius": 0.037, "height": 0.3, "neck": 0.014, "shoulder": 0.55, "cap": 1.15},
            {"radius": 0.033, "height": 0.23, "neck": 0.013, "shoulder": 0.45},
            {"radius": 0.045, "height": 0.26, "neck": 0.02, "shoulder": 0.7, "cap": 1.2},
            {"radius": 0.05, "height": 0.22, "neck": 0.022, "shoulder": 0.62, "cap": 1.1},
        ],
    ),
    "bowl": (
        vessel,
        [
            {"profile": [tuple(p) for p in arc((0, 0.15), 0.15, -70, 0)], "wall": 0.012},
            {"profile": [(0.07, 0), (0.07, 0.015), (0.12, 0.05), (0.15, 0.12)], "wall": 0.012},
            {"profile": [(0.09, 0), (0.16, 0.06), (0.165, 0.09)], "wall": 0.014},
            {"profile": [(0.06, 0), (0.14, 0.04), (0.18, 0.07)], "wall": 0.012},
        ],
    ),
    "vase": (
        vessel,
        [
            {"profile": [(0.06, 0), (0.11, 0.12), (0.1, 0.2), (0.05, 0.27), (0.07, 0.32)], "wall": 0.012},
            {"profile": [(0.05, 0), (0.06, 0.15), (0.09, 0.3)], "wall": 0.012},
            {
                "profile": [(0.06, 0), (0.04, 0.03), (0.1, 0.12), (0.11, 0.18), (0.06, 0.24), (0.09, 0.28)],
                "wall": 0.012,
            },
            {"profile": [(0.05, 0), (0.08, 0.06), (0.08, 0.1), (0.03, 0.2), (0.03, 0.3), (0.04, 0.33)], "wall": 0.012},
            {"profile": [(0.08, 0), (0.14, 0.08), (0.14, 0.16), (0.09, 0.22), (0.1, 0.24)], "wall": 0.014},
        ],
    ),
    "cup": (
        vessel,
        [
            {"profile": [(0.04, 0), (0.042, 0.1)], "wall": 0.005, "handle": (0.02, 0.08)},
            {"profile": [(0.03, 0), (0.045, 0.12)], "wall": 0.004},
            {"profile": [(0.032, 0), (0.045, 0.03), (0.05, 0.075)], "wall": 0.005, "handle": (0.02, 0.06)},
            {"profile": [(0.033, 0), (0.036, 0.11)], "wall": 0.004, "handle": (0.02, 0.09)},
            {"profile": [(0.028, 0), (0.04, 0.09), (0.042, 0.1)], "wall": 0.004},
        ],
    ),
    "cone": (
        cone,
        [
            {"radius": 0.15, "height": 0.5, "tip": 0.03, "plate": 0.4},
            {"radius": 0.2, "height": 0.45},
            {"radius": 0.3, "height": 0.4},
            {"radius": 0.13, "height": 0.7, "tip": 0.03, "plate": 0.36},
            {"radius": 0.2, "height": 0.5, "tip": 0.05},
        ],
    ),
    "monitor": (
        monitor,
        [
            {"width": 0.55, "height": 0.34, "lift": 0.12, "base": (0.25, 0.2)},
            {"width": 0.42, "height": 0.34, "lift": 0.1, "base": (0.22, 0.2), "thick": 0.06},
            {"width": 0.95, "height": 0.56, "lift": 0.1, "base": (0.45, 0.25), "thick": 0.07},
            {"width": 0.5, "height": 0.31, "lift": 0.2, "base": (0.3, 0.22), "thick": 0.04},
        ],
    ),
    "laptop": (
        laptop,
        [
            {"width": 0.34, "depth": 0.24, "screen": 0.23, "opening": 110},
            {"width": 0.3, "depth": 0.22, "screen": 0.21, "opening": 95},
            {"width": 0.38, "depth": 0.26, "screen": 0.25, "opening": 120},
            {"width": 0.33, "depth": 0.25, "screen": 0.24, "opening": 105},
        ],
    ),
    "keyboard": (
        keyboard,
        [
            {"width": 0.45, "depth": 0.15, "thick": 0.018},
            {"width": 0.43, "depth": 0.13, "thick": 0.012, "rows": 6},
            {"width": 0.48, "depth": 0.2, "thick": 0.022, "rows": 6},
            {"width": 0.3, "depth": 0.12, "thick": 0.015},
        ],
    ),
    "guitar": (
        guitar,
        [
            {"body": 0.49, "upper": 0.14, "lower": 0.19, "waist": 0.12, "neck": 0.35, "thick": 0.1},
            {"body": 0.42, "upper": 0.13, "lower": 0.16, "waist": 0.11, "neck": 0.42, "thick": 0.045},
            {"body": 0.46, "upper": 0.13, "lower": 0.17, "waist": 0.1, "neck": 0.36, "thick": 0.09},
            {"body": 0.38, "upper": 0.15, "lower": 0.17, "waist": 0.12, "neck": 0.5, "thick": 0.05},
        ],
    ),
    "bathtub": (
        bathtub,
        [
            {"length": 1.7, "width": 0.75, "height": 0.55, "rim": 0.07},
            {"length": 1.7, "width": 0.8, "height": 0.6, "rim": 0.06, "oval": True},
            {"length": 1.6, "width": 0.75, "height": 0.62, "rim": 0.05, "oval": True, "feet": 0.14},
            {"length": 1.8, "width": 1.0, "height": 0.6, "rim": 0.12},
        ],
    ),
    "toilet": (
        toilet,
        [
            {"seat": 0.4, "width": 0.4, "length": 0.7, "tank": (0.42, 0.2, 0.36)},
            {"seat": 0.42, "width": 0.38, "length": 0.68, "tank": (0.4, 0.18, 0.32), "lid": True},
            {"seat": 0.38, "width": 0.42, "length": 0.74, "tank": (0.48, 0.22, 0.4)},
            {"seat": 0.42, "width": 0.4, "length": 0.66, "tank": (0.36, 0.2, 0.3), "lid": True},
        ],
    ),
    "stairs": (
        stairs,
        [
            {"steps": 8, "width": 1.0, "rise": 0.18, "run": 0.27},
            {"steps": 10, "width": 0.9, "rise": 0.18, "run": 0.25, "solid": False},
            {"steps": 9, "width": 1.0, "rise": 0.18, "run": 0.26, "rail": True, "solid": False},
            {"steps": 5, "width": 1.2, "rise": 0.17, "run": 0.3, "rail": True},
        ],
    ),
}
