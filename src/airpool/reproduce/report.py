"""The reproduction as one page: the verdicts on top, then each result with its figure, its data and its statements."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from airpool import files
from airpool.page import Download, Facts, Figure, Items, Part, Section, Table, Text, page
from airpool.reproduce.description import Result, text
from airpool.reproduce.tables import Stored
from airpool.reproduce.verdicts import WORDS, Finding, Holds
from airpool.version import __version__


@dataclass(frozen=True, eq=False)
class Reproduced:
    """One result with its table, its files and its finding."""

    result: Result
    table: Stored
    files: Sequence[Path]
    finding: Finding


def write(results: Sequence[Reproduced], folder: Path) -> Path:
    """Writes report.html, a page that needs no other file."""
    words = text("report")
    html = page(
        words["title"],
        lead=words["lead"],
        sections=[
            Section("Which findings hold", _summary(results)),
            *(Section(f"{r.result.id}: {r.result.title}", _parts(r)) for r in results),
        ],
        footer=[f"Made by airpool {__version__}.", words["data"], text("settings")["ideal"]],
    )
    target = folder / "report.html"
    files.write(target, html)
    return target


def record(results: Sequence[Reproduced]) -> dict[str, Mapping[str, object]]:
    """As plain data, for JSON."""
    return {
        r.result.id: {
            "holds": r.finding.holds,
            "checks": [asdict(check) for check in r.finding.checks],
            "more": r.finding.more,
            "instead": r.finding.instead,
            "setting": r.result.setting,
            "files": [str(path) for path in r.files],
            "table": dict(r.table.about),
        }
        for r in results
    }


def _summary(results: Sequence[Reproduced]) -> list[Part]:
    counts = Counter(r.finding.holds for r in results)
    plural: dict[Holds, str] = {"yes": "findings hold", "partly": "hold in part", "no": "do not hold"}
    rows = [(r.result.id, WORDS[r.finding.holds], r.finding.sentence) for r in results]
    return [
        Facts([(f"{counts[kind]} of {len(results)}", words) for kind, words in plural.items()]),
        Text(text("report")["rule"]),
        Table("Every result of the paper", ("result", "finding", "the paper's statements"), rows),
        Text("What one should do instead:"),
        Items([f"{r.result.id}: {r.finding.instead}" for r in results if r.finding.instead]),
        Text(text("report")["data"]),
        Text(text("settings")["ideal"]),
    ]


def _parts(each: Reproduced) -> list[Part]:
    figures = [path for path in each.files if path.suffix == ".svg"]
    data = [path for path in each.files if path.suffix == ".csv"]
    title, finding = each.result.title, each.finding
    header = ("the paper's statement", "where", "verdict", "what we find")
    rows = [(check.says, check.where, check.word, check.found) for check in finding.checks]
    return [
        Text(f"The paper: {text(each.result.id)['paper']}"),
        Text(each.result.setting),
        *(Figure(path.read_bytes(), f"{title}. {finding.sentence}", f"{title}.") for path in figures),
        Table(f"The finding {WORDS[finding.holds]}.", header, rows),
        *([Text(finding.more)] if finding.more else []),
        *([Text(f"Instead: {finding.instead}")] if finding.instead else []),
        *(Download(path.name, path.read_bytes()) for path in data),
        Text(f"Table: {each.table.line()}."),
    ]
