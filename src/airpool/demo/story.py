"""The demo as files: its figures, their data, and one page that holds all of it."""

from pathlib import Path

from airpool import files, network_file
from airpool.account.report import shown
from airpool.demo import Demo, pictures, tables
from airpool.demo.comparison import Curve, Point
from airpool.demo.one_object import REPEATS, STEP_DEG, Sent
from airpool.page import Code, Download, Facts, Figure, Gallery, Items, Part, Section, Text, page
from airpool.version import __version__

DATA = (
    "Test set: the 2,468 official test objects of ModelNet40 (Princeton University, for academic research), seen as "
    "renders of their voxels; the paper renders the CAD models, so its accuracies and ours are on different pictures. "
    "What ships are latents, not objects. Both codecs were trained through simulated noise."
)
SIMULATED = (
    "This is a simulation: its noise comes from a seeded generator, so that it can be repeated, and protects nobody."
)


def write(demo: Demo, folder: Path) -> dict[str, Path]:
    """Draws every figure, writes the page beside them, and says where everything is."""
    about = f"airpool {__version__}; seed {demo.seed}"
    curves = (demo.paper, demo.ours)
    drawn = {
        "accuracy": pictures.accuracy(curves, folder, f"{about}; {demo.trials} trials; voxel renders of ModelNet40"),
        "views": pictures.views(demo.sent, folder),
        "heard": pictures.heard(demo.sent, folder, f"{about}; {demo.sent.shape.name}"),
        "claim": pictures.claim(
            demo.claim,
            folder,
            f"{about}; the paper's defaults: K = 12, C = 100, w = 1/12, p = 0.9, delta = 1e-5, r = 784",
        ),
    }
    html = page(
        "airpool: what a dozen cameras can say without telling",
        lead="Twelve cameras, one noisy sum, one label, and an exact account of what each camera gives away.",
        sections=[
            Section("Accuracy and privacy", _accuracy(demo, drawn["accuracy"])),
            Section(f"One object, sent once: {demo.sent.shape.name}", _object(demo.sent, drawn["heard"])),
            Section("What the paper's default network leaks", _claim(demo, drawn["claim"])),
            Section("How this was made", _making(demo)),
        ],
        footer=[f"Made by airpool {__version__}, seed {demo.seed}, {demo.trials} trials. {SIMULATED}", DATA],
    )
    target = folder / "demo.html"
    files.write(target, html)
    return {"page": target} | drawn


def _at(curve: Curve, epsilon: float) -> Point:
    """The point of a budget, or the nearest there is."""
    return min(curve.points, key=lambda point: abs(point.epsilon - epsilon))


def _accuracy(demo: Demo, drawing: Path) -> list[Part]:
    ours, paper, least = _at(demo.ours, 2.0), _at(demo.paper, 3.9811), demo.paper.points[0]
    facts = [
        (f"{ours.evaluation.accuracy_mean:.1%}", f"named right by ours at an exact ε of {ours.epsilon:g}"),
        (
            f"{paper.evaluation.accuracy_mean:.1%}",
            f"by the paper's network where Theorem 1 claims ε = {paper.epsilon:g}"
            + ("" if paper.printed is None else f" (printed in the paper: {paper.printed.mean:.1%})"),
        ),
        (
            f"ε = {shown(least.removal, 2)}",
            f"is the truth, by the paper's own definition (remove), where it claims {least.epsilon:g}",
        ),
    ]
    end = demo.ours.points[-1]
    alt = (
        f"Accuracy against epsilon, both for every device. Ours rises from "
        f"{demo.ours.points[0].evaluation.accuracy_mean:.3f} at epsilon {demo.ours.points[0].epsilon:g} to "
        f"{end.evaluation.accuracy_mean:.3f} at {end.epsilon:g}; the paper's network from "
        f"{least.evaluation.accuracy_mean:.3f} to {demo.paper.points[-1].evaluation.accuracy_mean:.3f}."
    )
    return [
        Facts(facts),
        Figure(
            drawing.read_bytes(),
            alt,
            "Accuracy against ε. Bars: 95 % intervals over objects and noise; those of the paper: one standard "
            "deviation; many are smaller than their marker. Dotted: the same codec with nothing private.",
        ),
        Text(
            "ε claimed: by the paper's Theorem 1 (quadratic slack). ε device: exact, one camera's feature becomes zero "
            "and everybody's noise protects it. ε remove: exact, the camera vanishes with its noise, which is how the "
            "paper defines neighbours. ε local: nobody else is trusted. ε object: all views change at once, which "
            "feature privacy does not protect."
        ),
        tables.compared(demo.paper),
        tables.compared(demo.ours),
        Text(
            f"Accuracy ± its standard deviation over {demo.trials} trials of all objects (the noise alone); the "
            "interval also counts which objects they happened to be."
        ),
        Text(DATA),
        Download("accuracy.csv", drawing.with_suffix(".csv").read_bytes()),
    ]


def _object(sent: Sent, drawing: Path) -> list[Part]:
    report = sent.out.report
    silent = [str(k) for k, spoke in enumerate(sent.on_the_air) if not spoke]
    who = (
        "All twelve were on the air." if not silent else f"Silent, their channel too weak: camera {', '.join(silent)}."
    )
    answer = "Nobody was heard: no answer." if sent.label is None else f"The server says: {sent.label}."
    right = sent.frequency[sent.classes.index(sent.shape.label)] if sent.shape.label in sent.classes else 0.0
    return [
        Text(
            f"One of airpool's own objects, of the class {sent.shape.label}. Twelve cameras stand around it, "
            f"{STEP_DEG:.0f}° apart. {who} {answer}"
        ),
        Gallery(
            [
                Figure(
                    pictures.picture(view[0]),
                    f"View {k} of the object, from {STEP_DEG * k:.0f} degrees",
                    f"camera {k}, {STEP_DEG * k:.0f}°" + ("" if sent.on_the_air[k] else ": silent"),
                )
                for k, view in enumerate(sent.views)
            ],
            "What the cameras see (shading; depth is used too). No picture leaves its camera.",
        ),
        Figure(
            drawing.read_bytes(),
            f"The {len(sent.ideal)} numbers that the server heard, beside the sum of the clean latents.",
            f"All that the server gets: {len(sent.ideal)} numbers, each a sum of latents and of everybody's noise.",
        ),
        tables.labels(sent),
        Text(
            f"Sent {REPEATS:,} times more, with fresh noise and fading, it is named right {right:.1%} of the time. "
            f"ε of the worst device: {shown(report.worst)}; of the object itself: {shown(report.epsilon_object)}."
        ),
        tables.devices(sent),
        Download("object-heard.csv", drawing.with_suffix(".csv").read_bytes()),
    ]


def _claim(demo: Demo, drawing: Path) -> list[Part]:
    return [
        Text(
            "The network that the paper gives as its default: 12 devices, clip norm 100, weight 1/12, noise "
            "variance 0.1, participation 0.9, q = 16 (r = 784), one inference, δ = 1e-5."
        ),
        tables.claims(demo.claim),
        Text("True δ: of the zero-out game at the claimed ε. Where it exceeds the claimed δ the claim is false."),
        tables.truths(demo.claim),
        Figure(
            drawing.read_bytes(),
            "Epsilon of each device against the standard deviation of its noise, both on log scales: four exact curves "
            "and two forms of the paper's claim.",
            "What one inference of the paper's network leaks, claim and truth, against the noise.",
        ),
        Download("paper-claim.csv", drawing.with_suffix(".csv").read_bytes()),
    ]


def _making(demo: Demo) -> list[Part]:
    ours, paper = _at(demo.ours, 2.0), _at(demo.paper, 3.9811)
    return [
        Text(f"{SIMULATED} Seed {demo.seed}; {demo.trials} trials; airpool {__version__}."),
        Text("The ε of our network hold if:"),
        Items(ours.evaluation.report.assumptions),
        Code(f"Our network at ε = {ours.epsilon:g}, as a network file", network_file.dump(ours.network)),
        Code(f"The paper's, where Theorem 1 claims ε = {paper.epsilon:g}", network_file.dump(paper.network)),
    ]
