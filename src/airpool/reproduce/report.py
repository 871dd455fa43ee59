"""The reproduction as one page: what holds on top, then every result with its figure, its data and its sentence."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airpool import files
from airpool.page import Download, Facts, Figure, Items, Part, Section, Table, Text, page
from airpool.version import __version__

from .results import Finding, Stored

DATA = (
    "Data: ModelNet40's 2,468 official test objects, seen as renders of their voxels. The paper renders the CAD "
    "models, so its accuracies and ours are on different pictures. Codecs, decoders and thresholds were chosen on "
    "training and validation objects; the test objects decided nothing."
)
WORDS = {"yes": "holds", "partly": "holds in part", "no": "does not hold"}


@dataclass(frozen=True, eq=False)
class Told:
    """One result, ready to be told: its title, the paper's part, its table, its files and its finding."""

    name: str
    title: str
    paper: str
    table: Stored
    files: Sequence[Path]
    finding: Finding


def write(told: Sequence[Told], folder: Path) -> Path:
    """Writes report.html; everything it shows travels inside it."""
    html = page(
        "Private collaborative inference over the air: the paper's results, redrawn",
        lead="Each result in the paper's own terms, the exact account beside it, and whether its finding holds.",
        sections=[Section("Which findings hold", _summary(told)), *(Section(_heading(t), _parts(t)) for t in told)],
        footer=[f"Made by airpool {__version__}.", DATA],
    )
    target = folder / "report.html"
    files.write(target, html)
    return target


def record(told: Sequence[Told]) -> dict[str, Mapping[str, object]]:
    """As plain data, for JSON."""
    return {
        t.name: {
            "holds": t.finding.holds,
            "says": t.finding.says,
            "found": t.finding.found,
            "instead": t.finding.instead,
            "files": [str(path) for path in t.files],
            "table": dict(t.table.about),
        }
        for t in told
    }


def _summary(told: Sequence[Told]) -> list[Part]:
    counts = Counter(t.finding.holds for t in told)
    plural = {"yes": "findings hold", "partly": "hold in part", "no": "do not hold"}
    facts = [(f"{counts[kind]} of {len(told)}", words) for kind, words in plural.items()]
    rows = [(t.name, WORDS[t.finding.holds], t.finding.says, t.finding.found) for t in told]
    return [
        Facts(facts),
        Table("Every result of the paper, and what we find", ("result", "finding", "the paper says", "we find"), rows),
        Text("What one should do instead:"),
        Items([f"{t.name}: {t.finding.instead}" for t in told if t.finding.instead]),
        Text(DATA),
    ]


def _heading(told: Told) -> str:
    return f"{told.name}: {told.title}"


def _parts(told: Told) -> list[Part]:
    figures = [path for path in told.files if path.suffix == ".svg"]
    data = [path for path in told.files if path.suffix == ".csv"]
    alt = f"{told.title}. {told.finding.found}"
    return [
        Text(f"The paper: {told.paper}"),
        *(Figure(path.read_bytes(), alt, f"{told.title}.") for path in figures),
        Text(f"The paper finds: {told.finding.says}"),
        Text(f"This {WORDS[told.finding.holds]}. {told.finding.found}"),
        *([Text(f"Instead: {told.finding.instead}")] if told.finding.instead else []),
        *(Download(path.name, path.read_bytes()) for path in data),
        Text(f"Table: {told.table.line()}."),
    ]
