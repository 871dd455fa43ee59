"""The reproduction as one page: what holds on top, then every result with its figure, its data and its statements."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from airpool import files
from airpool.page import Download, Facts, Figure, Items, Part, Section, Table, Text, page
from airpool.reproduce import Result
from airpool.reproduce.results import IDEAL, Stored
from airpool.reproduce.verdicts import WORDS, Finding, Holds
from airpool.version import __version__

DATA = (
    "Data: ModelNet40's 2,468 official test objects, seen as renders of their voxels. The paper renders the CAD "
    "models, so its accuracies and ours are on different pictures. Codecs, decoders and thresholds were chosen on "
    "training and validation objects; the test objects decided nothing."
)
RULE = (
    "A finding is a list of statements of the paper, each tested on our table, with its error where it has one. The "
    "finding holds if every statement does, does not hold if none does, and holds in part otherwise; a statement that "
    "could not be tested does not count as holding."
)


@dataclass(frozen=True, eq=False)
class Told:
    """One result, ready to be told: its module, its table, its files and its finding."""

    module: Result
    table: Stored
    files: Sequence[Path]
    finding: Finding


def write(told: Sequence[Told], folder: Path) -> Path:
    """Writes report.html; everything it shows travels inside it."""
    html = page(
        "Private collaborative inference over the air: the paper's results, redrawn",
        lead="Each result in the paper's own terms, the exact account beside it, and whether its finding holds.",
        sections=[Section("Which findings hold", _summary(told)), *(Section(_heading(t), _parts(t)) for t in told)],
        footer=[f"Made by airpool {__version__}.", DATA, IDEAL],
    )
    target = folder / "report.html"
    files.write(target, html)
    return target


def record(told: Sequence[Told]) -> dict[str, Mapping[str, object]]:
    """As plain data, for JSON."""
    return {
        t.module.ID: {
            "holds": t.finding.holds,
            "checks": [asdict(check) for check in t.finding.checks],
            "more": t.finding.more,
            "instead": t.finding.instead,
            "setting": t.module.SETTING,
            "files": [str(path) for path in t.files],
            "table": dict(t.table.about),
        }
        for t in told
    }


def _summary(told: Sequence[Told]) -> list[Part]:
    counts = Counter(t.finding.holds for t in told)
    plural: dict[Holds, str] = {"yes": "findings hold", "partly": "hold in part", "no": "do not hold"}
    facts = [(f"{counts[kind]} of {len(told)}", words) for kind, words in plural.items()]
    rows = [(t.module.ID, WORDS[t.finding.holds], t.finding.sentence) for t in told]
    return [
        Facts(facts),
        Text(RULE),
        Table("Every result of the paper", ("result", "finding", "the paper's statements"), rows),
        Text("What one should do instead:"),
        Items([f"{t.module.ID}: {t.finding.instead}" for t in told if t.finding.instead]),
        Text(DATA),
        Text(IDEAL),
    ]


def _heading(told: Told) -> str:
    return f"{told.module.ID}: {told.module.TITLE}"


def _parts(told: Told) -> list[Part]:
    figures = [path for path in told.files if path.suffix == ".svg"]
    data = [path for path in told.files if path.suffix == ".csv"]
    title, finding = told.module.TITLE, told.finding
    rows = [(check.says, check.where, check.word, check.found) for check in finding.checks]
    return [
        Text(f"The paper: {told.module.PAPER}"),
        Text(told.module.SETTING),
        *(Figure(path.read_bytes(), f"{title}. {finding.sentence}", f"{title}.") for path in figures),
        Table(
            f"The finding {WORDS[finding.holds]}.",
            ("the paper's statement", "where", "verdict", "what we find"),
            rows,
        ),
        *([Text(finding.more)] if finding.more else []),
        *([Text(f"Instead: {finding.instead}")] if finding.instead else []),
        *(Download(path.name, path.read_bytes()) for path in data),
        Text(f"Table: {told.table.line()}."),
    ]
