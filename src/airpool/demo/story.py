"""The demo as files: its figures, their data, and one page that contains all of it."""

from pathlib import Path

from airpool import files, network_file
from airpool.account.report import shown
from airpool.demo import Demo, pictures, tables
from airpool.demo.comparison import Curve, Point
from airpool.demo.one_object import REPEATS, STEP_DEG, Sent
from airpool.page import Figure, render

DATA = (
    "Test set: the 2,468 official test objects of ModelNet40 (Princeton University, for academic research), seen as "
    "renders of their voxels; the paper renders the CAD models, so its accuracies and ours are on different pictures. "
    "Latents ship with airpool, the objects do not. Both codecs were trained through simulated noise."
)
DEFAULTS = (
    "The paper's default network: 12 devices, clip norm 100, weight 1/12, noise variance 0.1, participation 0.9, "
    "q = 16 (r = 784), one inference, δ = 1e-5."
)


def write(demo: Demo, folder: Path) -> dict[str, Path]:
    """Writes the figures and the page; returns the path of each."""
    drawn = pictures.draw(demo, folder)
    html = render(
        "demo.html",
        demo=demo,
        sent=demo.sent,
        ours=_at(demo.ours, 2.0),
        paper=_at(demo.paper, 3.9811),
        least=demo.paper.points[0],
        views=[_view(demo.sent, k) for k in range(len(demo.sent.views))],
        drawings={name: path.read_bytes() for name, path in drawn.items()},
        csv={name: path.with_suffix(".csv").read_bytes() for name, path in drawn.items() if name != "views"},
        data=DATA,
        defaults=DEFAULTS,
        repeats=REPEATS,
        step=STEP_DEG,
        tables=tables,
        shown=shown,
        percent="{:.1%}".format,
        dump=network_file.dump,
    )
    target = folder / "demo.html"
    files.write(target, html)
    return {"page": target} | drawn


def _view(sent: Sent, k: int) -> Figure:
    angle, silence = f"{STEP_DEG * k:.0f}", ": silent" if k in sent.silent else ""
    alt = f"The {sent.shape.label} from {angle} degrees, as camera {k} sees it"
    return Figure(pictures.picture(sent.views[k, 0]), alt, f"camera {k}, {angle}°{silence}")


def _at(curve: Curve, epsilon: float) -> Point:
    """The point whose ε is nearest."""
    return min(curve.points, key=lambda point: abs(point.epsilon - epsilon))
