"""The demo as files: its figures, their data, and one page that contains all of it."""

from hashlib import sha256
from pathlib import Path

from airpool._support import files
from airpool._support.page import Figure, render
from airpool.account.report import shown
from airpool.evaluation.demo import Demo, pictures, tables
from airpool.evaluation.demo.comparison import Curve, Point
from airpool.evaluation.demo.one_object import REPEATS, Sent
from airpool.network import file as network_file

NETWORK = "network.toml"
DATA = (
    "Test set: the 2,468 official test objects of ModelNet40 (Princeton University, for academic research): the "
    "paper's objects, but not its pictures. Ours are renders of the CAD models, simplified to about 2,000 faces at "
    "most (22 rebuilt from points), by our own renderer. What the cameras' networks make of them ships with airpool, "
    "the objects do not."
)
VOTE = (
    "The vote is our codec, and the baseline of every other: each camera sends its own posterior, and beyond the "
    "cameras' own network only class means are fitted. Below are codecs that were trained through the noise, each "
    "beside the vote of its trunk: q16 on VGG11, as in the paper; compact on ours, EfficientNet-Lite2. Where the "
    "difference is not clearly above zero, this training has bought nothing."
)
SLOTS = (
    "A single slot is loud enough for the hardest object. Instead, every camera may send the same feature up to "
    "sixteen times, each time with four times the noise, and the server stops when it is sure. Promised are the cap, ε "
    "of all sixteen slots, and the budget of a life. The mean is a figure after the fact, promised to no inference: it "
    "says how fast a budget is used up. A hard object is asked about to the end, and has spent its cap."
)
DEFAULTS = (
    "The paper's default network: 12 devices, clip norm 100, weight 1/12, noise variance 0.1, participation 0.9, "
    "q = 16 (r = 784), one inference, δ = 1e-5."
)


def write(demo: Demo, folder: Path) -> dict[str, Path]:
    """Writes the figures and the page; returns the path of each."""
    drawn = pictures.draw(demo, folder)
    ours = _at(demo.ours, 2.0)
    text = network_file.dump(ours.network)
    stated = ours.evaluation.report.statement(source=NETWORK, digest=sha256(text.encode()).hexdigest()).html
    html = render(
        "demo.html",
        demo=demo,
        sent=demo.sent,
        ours=ours,
        stated=stated.encode(),
        paper=_at(demo.paper, 3.9811),
        least=demo.paper.points[0],
        views=[_view(demo.sent, k) for k in range(len(demo.sent.views))],
        drawings={name: path.read_bytes() for name, path in drawn.items()},
        csv={name: path.with_suffix(".csv").read_bytes() for name, path in drawn.items() if name != "views"},
        data=DATA,
        vote=VOTE,
        slots=SLOTS,
        defaults=DEFAULTS,
        repeats=REPEATS,
        tables=tables,
        shown=shown,
        percent="{:.1%}".format,
        dump=network_file.dump,
    )
    written = {"page": ("demo.html", html), "network": (NETWORK, text), "statement": ("statement.html", stated)}
    for name, content in written.values():
        files.write(folder / name, content)
    return {what: folder / name for what, (name, _) in written.items()} | drawn


def _view(sent: Sent, k: int) -> Figure:
    angle, silence = f"{sent.step_deg * k:.0f}", ": silent" if k in sent.silent else ""
    alt = f"The {sent.shape.label} from {angle} degrees, as camera {k} sees it"
    return Figure(pictures.picture(sent.views[k]), alt, f"camera {k}, {angle}°{silence}")


def _at(curve: Curve, epsilon: float) -> Point:
    """The point whose ε is nearest."""
    return min(curve.points, key=lambda point: abs(point.epsilon - epsilon))
