"""Our own furniture, in metres. Each function builds one kind; `FURNITURE` lists what was built of it.

Placed as ModelNet40 places them: z up; backs of chairs and heads of beds towards +y; tables, desks and sofas long in y,
sofas with the back towards +x; shelves, stands and doors wide in x.
"""

from collections.abc import Callable
from typing import Any

from airpool.models.vision.meshes import Mesh

from .solids import box, corners, disc, join, lathe, rod, turned

Kind = tuple[Callable[..., Mesh], list[dict[str, Any]]]  # how to build it, and the variants


def _legs(x: float, y: float, height: float, thick: float, *, splay: float = 0, z: float = 0) -> list[Mesh]:
    """Four legs whose tops stand at the corners (±x, ±y), their feet `splay` further out in both directions."""
    if not splay:
        return [box((thick, thick, height), (u, v, z)) for u, v in corners(x, y)]
    grow = 1 + splay / x, 1 + splay / y
    return [rod([(u * grow[0], v * grow[1], z), (u, v, z + height)], thick / 2) for u, v in corners(x, y)]


def _star(reach: float, height: float) -> list[Mesh]:
    """The foot of an office chair: five arms and a post."""
    arm = turned(box((reach, 0.05, 0.05), (reach / 2, 0, 0.02)), 18, "z")
    return [turned(arm, 72 * i, "z") for i in range(5)] + [disc(0.03, height)]


def chair(*, width: float, depth: float, seat: float, height: float, foot: str = "legs", arms: bool = False) -> Mesh:
    t = 0.05
    parts = [box((width, depth, t), (0, 0, seat - t))]
    back = height - seat + t
    if foot == "star":
        parts += _star(0.3, seat)
    elif foot == "block":
        parts += [box((width, depth, seat))]
    else:
        parts += _legs(width / 2 - t / 2, depth / 2 - t / 2, seat, t, splay=0.04 if foot == "splayed" else 0)
    if foot == "slats":
        bars = [(0, depth / 2 - t / 2, seat + back * f) for f in (0.3, 0.6, 0.88)]
        parts += [box((width, t, 0.07), bar) for bar in bars]
        parts += [box((t, t, back), (s * (width / 2 - t / 2), depth / 2 - t / 2, seat - t)) for s in (-1, 1)]
    else:
        parts += [box((width, t, back), (0, depth / 2 - t / 2, seat - t))]
    if arms and foot == "block":
        parts += [box((0.12, depth, seat + 0.2), (s * (width / 2 + 0.06), 0, 0)) for s in (-1, 1)]
    elif arms:
        for x in (-width / 2, width / 2):
            parts += [box((t, depth, t), (x, 0, seat + 0.2)), box((t, t, 0.22), (x, -depth / 2 + t, seat - t))]
    return join(parts)


def table(*, length: float, width: float, height: float, top: str = "square", foot: str = "legs") -> Mesh:
    t = 0.04
    if top == "round":
        parts = [disc(length / 2, t, (0, 0, height - t))]
    else:
        parts = [box((width, length, t), (0, 0, height - t))]
    if foot == "post":
        parts += [disc(0.06, height), lathe([(0, 0), (length / 4, 0), (length / 4, 0.03), (0.06, 0.12)])]
    elif foot == "trestle":
        for y in (-length * 0.35, length * 0.35):
            parts += [box((width * 0.8, 0.06, 0.06), (0, y, 0)), box((0.1, 0.06, height), (0, y, 0))]
        parts += [box((0.05, length * 0.7, 0.08), (0, 0, height * 0.4))]
    else:
        inset = 0.3 if top == "round" else 0.45
        parts += _legs(width * inset, length * inset, height, 0.06)
        if foot == "shelf":
            parts += [box((width * 0.9, length * 0.9, t), (0, 0, height * 0.3))]
    return join(parts)


def stool(*, width: float, height: float, seat: str, rung: float, splay: float = 0.06) -> Mesh:
    t = 0.05
    top = (0, 0, height - t)
    parts = [disc(width / 2, t, top) if seat == "round" else box((width, width, t), top)]
    if rung == 0:
        foot = [(0, 0), (width * 0.55, 0), (width * 0.55, 0.03), (0.04, 0.06), (0.04, height), (0, height)]
        return join([*parts, lathe(foot)])
    x = width / 2 * (0.65 if seat == "round" else 0.9)
    parts += _legs(x, x, height, 0.045, splay=splay)
    r = x + splay * (1 - rung)
    z = rung * height
    ring = [(u, v, z) for u, v in corners(r, r)]
    return join([*parts, rod([*ring, ring[0]], 0.018)])


def bench(
    *, length: float, depth: float, seat: float, height: float = 0, arms: bool = False, foot: str = "legs"
) -> Mesh:
    t = 0.06
    parts = [box((length, depth, t), (0, 0, seat - t))]
    if foot == "slabs":
        parts += [box((t, depth, seat), (s * (length / 2 - t), 0, 0)) for s in (-1, 1)]
    else:
        parts += _legs(length / 2 - t, depth / 2 - t / 2, seat, t)
    if height:
        y = depth / 2 - t / 2
        parts += [box((length, t, 0.12), (0, y, seat + f * (height - seat))) for f in (0.2, 0.66)]
        parts += [box((t, t, height - seat), (s * (length / 2 - t), y, seat)) for s in (-1, 1)]
    if arms:
        for x in (-length / 2 + t, length / 2 - t):
            parts += [box((t, depth, t), (x, 0, seat + 0.2)), box((t, t, 0.2), (x, -depth / 2 + t, seat))]
    return join(parts)


def bed(*, width: float, length: float, mattress: float, head: float, foot: float = 0, legs: float = 0.15) -> Mesh:
    t = 0.08
    y = length / 2
    parts = [box((width, length, mattress - legs), (0, 0, legs))]
    parts += [box((width + t, t, head), (0, y, 0))]
    parts += [box((width + t, t, foot), (0, -y, 0))] if foot else _legs(width / 2 - t, y - t, mattress, t)
    pillows = (0,) if width < 1.2 else (-width / 4, width / 4)
    parts += [box((min(0.6, width * 0.4), 0.35, 0.12), (x, y - 0.3, mattress)) for x in pillows]
    return join(parts)


def sofa(*, length: float, depth: float, seat: float, height: float, arm: float, corner: float = 0) -> Mesh:
    """`corner` is how far a chaise longue reaches out at one end."""
    foot, back = 0.08, 0.22
    parts = [box((depth, length, seat - foot), (0, 0, foot)), *_legs(depth / 2 - 0.06, length / 2 - 0.06, foot, 0.06)]
    parts += [box((back, length, height - foot), (depth / 2 - back / 2, 0, foot))]
    for side in (-1, 1):
        parts += [box((depth, 0.18, arm - foot), (0, side * (length / 2 - 0.09), foot))]
    if corner:
        parts += [box((corner, 0.8, seat - foot), (-depth / 2 - corner / 2, length / 2 - 0.4, foot))]
    return join(parts)


def desk(*, length: float, depth: float, height: float, left: str, right: str, hutch: float = 0) -> Mesh:
    t = 0.04
    parts = [box((depth, length, t), (0, 0, height - t)), box((t, length, 0.35), (depth / 2 - t, 0, height - 0.35))]
    for kind, side in ((left, -1), (right, 1)):
        if kind == "drawers":
            parts += [box((depth * 0.95, 0.42, height - 0.03), (0, side * (length / 2 - 0.24), 0))]
        elif kind == "slab":
            parts += [box((depth * 0.95, t, height), (0, side * (length / 2 - t), 0))]
        else:
            parts += [
                box((0.05, 0.05, height), (u, side * (length / 2 - 0.05), 0)) for u in (-depth * 0.45, depth * 0.45)
            ]
    if hutch:
        x = depth / 2 - 0.15
        parts += [box((0.3, length, t), (x, 0, height + f * hutch - t)) for f in (0.5, 1)]
        parts += [box((0.3, t, hutch), (x, s * (length / 2 - t / 2), height)) for s in (-1, 0, 1)]
    return join(parts)


def case(
    *, width: float, depth: float, height: float, rows: int, columns: int = 1, back: bool = True, legs: float = 0
) -> Mesh:
    """Open shelves: a bookshelf, a stand for a television."""
    t = 0.04
    inside = height - legs - t
    parts = [box((width, depth, t), (0, 0, legs + inside * r / rows)) for r in range(rows + 1)]
    step = (width - t) / columns
    parts += [box((t, depth, height - legs), ((t - width) / 2 + step * c, 0, legs)) for c in range(columns + 1)]
    if back:
        parts += [box((width, t, height - legs), (0, depth / 2 - t / 2, legs))]
    if legs:
        parts += _legs(width / 2 - t, depth / 2 - t, legs, t)
    return join(parts)


def cupboard(*, width: float, depth: float, height: float, foot: float, doors: int = 2, crown: float = 0) -> Mesh:
    """Closed: a wardrobe, with handles on its doors."""
    parts = [box((width, depth, height - foot), (0, 0, foot)), *_legs(width / 2 - 0.05, depth / 2 - 0.05, foot, 0.08)]
    step = width / doors
    parts += [box((0.04, 0.06, 0.25), (step * i - width / 2, -depth / 2, height * 0.45)) for i in range(1, doors)]
    if crown:
        parts += [box((width + 2 * crown, depth + 2 * crown, 0.08), (0, 0, height))]
    return join(parts)


def door(*, width: float, height: float, thick: float, frame: float = 0, handle: float = 0.06, panels: int = 0) -> Mesh:
    parts = [box((width, thick, height))]
    for side in (-1, 1):
        parts += [box((0.14, handle, 0.04), (width / 2 - 0.14, side * (thick + handle) / 2, height * 0.48))]
        parts += [
            box((width * 0.6, 0.03, height * 0.6 / panels), (0, side * thick / 2, height * (0.1 + 0.85 * i / panels)))
            for i in range(panels)
        ]
    if frame:
        post = (frame, thick * 2.2, height + frame)
        parts += [box(post, (s * (width + frame) / 2, 0, 0)) for s in (-1, 1)]
        parts += [box((width + 2 * frame, thick * 2.2, frame), (0, 0, height))]
    return join(parts)


FURNITURE: dict[str, Kind] = {
    "chair": (
        chair,
        [
            {"width": 0.45, "depth": 0.45, "seat": 0.46, "height": 0.95},
            {"width": 0.44, "depth": 0.46, "seat": 0.45, "height": 1.0, "foot": "slats"},
            {"width": 0.52, "depth": 0.5, "seat": 0.45, "height": 0.85, "foot": "splayed"},
            {"width": 0.56, "depth": 0.52, "seat": 0.45, "height": 0.92, "arms": True},
            {"width": 0.52, "depth": 0.5, "seat": 0.48, "height": 1.05, "foot": "star", "arms": True},
            {"width": 0.65, "depth": 0.65, "seat": 0.4, "height": 0.85, "foot": "block", "arms": True},
        ],
    ),
    "table": (
        table,
        [
            {"length": 1.7, "width": 0.9, "height": 0.75},
            {"length": 1.0, "width": 1.0, "height": 0.74},
            {"length": 1.2, "width": 1.2, "height": 0.75, "top": "round", "foot": "post"},
            {"length": 1.3, "width": 1.3, "height": 0.75, "top": "round"},
            {"length": 2.0, "width": 0.9, "height": 0.76, "foot": "trestle"},
            {"length": 1.2, "width": 0.6, "height": 0.45, "foot": "shelf"},
        ],
    ),
    "stool": (
        stool,
        [
            {"width": 0.34, "height": 0.7, "seat": "round", "rung": 0.3},
            {"width": 0.38, "height": 0.65, "seat": "square", "rung": 0.35, "splay": 0.02},
            {"width": 0.36, "height": 0.75, "seat": "round", "rung": 0},
            {"width": 0.36, "height": 0.48, "seat": "square", "rung": 0.25, "splay": 0.04},
            {"width": 0.32, "height": 0.8, "seat": "round", "rung": 0.45, "splay": 0.1},
        ],
    ),
    "bench": (
        bench,
        [
            {"length": 1.5, "depth": 0.5, "seat": 0.45, "height": 0.85, "arms": True},
            {"length": 1.6, "depth": 0.42, "seat": 0.45},
            {"length": 1.4, "depth": 0.45, "seat": 0.42, "foot": "slabs"},
            {"length": 1.8, "depth": 0.5, "seat": 0.44, "height": 0.88},
        ],
    ),
    "bed": (
        bed,
        [
            {"width": 1.6, "length": 2.05, "mattress": 0.5, "head": 1.05},
            {"width": 0.95, "length": 2.0, "mattress": 0.48, "head": 0.9, "foot": 0.65},
            {"width": 1.8, "length": 2.1, "mattress": 0.45, "head": 0.95, "legs": 0.05},
            {"width": 1.4, "length": 2.0, "mattress": 0.55, "head": 1.2, "foot": 0.8, "legs": 0.25},
        ],
    ),
    "sofa": (
        sofa,
        [
            {"length": 2.1, "depth": 0.95, "seat": 0.42, "height": 0.85, "arm": 0.62},
            {"length": 1.6, "depth": 0.9, "seat": 0.43, "height": 0.82, "arm": 0.6},
            {"length": 2.6, "depth": 0.95, "seat": 0.4, "height": 0.78, "arm": 0.58, "corner": 0.75},
            {"length": 2.3, "depth": 1.0, "seat": 0.4, "height": 0.7, "arm": 0.7},
        ],
    ),
    "desk": (
        desk,
        [
            {"length": 1.5, "depth": 0.75, "height": 0.75, "left": "drawers", "right": "legs"},
            {"length": 1.7, "depth": 0.8, "height": 0.76, "left": "drawers", "right": "drawers"},
            {"length": 1.4, "depth": 0.7, "height": 0.74, "left": "slab", "right": "drawers", "hutch": 0.55},
            {"length": 1.6, "depth": 0.75, "height": 0.75, "left": "slab", "right": "slab"},
        ],
    ),
    "bookshelf": (
        case,
        [
            {"width": 0.9, "depth": 0.3, "height": 1.9, "rows": 5},
            {"width": 0.6, "depth": 0.28, "height": 1.8, "rows": 6},
            {"width": 1.2, "depth": 0.35, "height": 1.6, "rows": 4, "columns": 3, "back": False},
            {"width": 1.0, "depth": 0.32, "height": 1.2, "rows": 3, "columns": 2},
        ],
    ),
    "tv_stand": (
        case,
        [
            {"width": 1.4, "depth": 0.5, "height": 0.5, "rows": 2, "columns": 2},
            {"width": 1.2, "depth": 0.45, "height": 0.5, "rows": 1, "columns": 3, "legs": 0.15},
            {"width": 1.6, "depth": 0.45, "height": 0.45, "rows": 1, "columns": 1, "back": False},
            {"width": 1.1, "depth": 0.5, "height": 0.6, "rows": 3, "columns": 1},
        ],
    ),
    "wardrobe": (
        cupboard,
        [
            {"width": 1.2, "depth": 0.6, "height": 2.0, "foot": 0.08},
            {"width": 1.8, "depth": 0.62, "height": 2.1, "foot": 0, "doors": 3},
            {"width": 1.0, "depth": 0.55, "height": 1.9, "foot": 0.12, "crown": 0.06},
            {"width": 1.5, "depth": 0.6, "height": 1.8, "foot": 0.1, "doors": 2, "crown": 0.04},
        ],
    ),
    "door": (
        door,
        [
            {"width": 0.9, "height": 2.05, "thick": 0.06},
            {"width": 0.95, "height": 2.1, "thick": 0.07, "frame": 0.1},
            {"width": 0.85, "height": 2.0, "thick": 0.08, "panels": 2},
            {"width": 1.3, "height": 2.2, "thick": 0.07, "frame": 0.08, "panels": 3},
        ],
    ),
}
