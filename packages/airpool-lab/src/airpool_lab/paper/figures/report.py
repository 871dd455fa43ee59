"""The reproduction as one page: the verdicts on top, then each result with its figure, its data and its statements."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from airpool._support import files
from airpool._support.page import Badge, Download, Facts, Figure, Items, Mood, PageTable, Part, Section, Text, page
from airpool._support.version import __version__
from airpool_lab.paper.figures.description import WORDS, Finding, Result, Stored, text

MOODS: dict[str, Mood] = {"holds": "good", "holds in part": "fair", "does not hold": "bad", "not tested": "open"}


class Reproduced(NamedTuple):
    """One result with its table, its files and its finding."""

    result: Result
    table: Stored
    files: Sequence[Path]
    finding: Finding


def write(results: Sequence[Reproduced], folder: Path) -> Path:
    """Writes report.html, a page that needs no other file."""
    words, ideal = text("report"), text("settings")["ideal"]
    counts = Counter(r.finding.holds for r in results)
    plural = {"yes": "findings hold", "partly": "hold in part", "no": "do not hold"}
    rows = [(r.result.id, Badge(word := WORDS[r.finding.holds], MOODS[word]), r.finding.sentence) for r in results]
    summary: list[Part] = [
        Facts([(Badge(f"{counts[kind]} of {len(results)}", MOODS[WORDS[kind]]), plural[kind]) for kind in WORDS]),
        Text(words["rule"]),
        PageTable("Every result of the paper", ("result", "finding", "the paper's statements"), rows),
        Text("What one should do instead:"),
        Items([f"{r.result.id}: {r.finding.instead}" for r in results]),
        Text(words["data"]),
        Text(ideal),
    ]
    sections = [Section(f"{r.result.id}: {r.result.title}", _parts(r)) for r in results]
    footer = [f"Made by airpool {__version__}.", words["data"], ideal]
    sections = [Section("Which findings hold", summary), *sections]
    target = folder / "report.html"
    files.write(
        target, page(words["title"], lead=words["lead"], origin=origin(results), sections=sections, footer=footer)
    )
    return target


def origin(results: Sequence[Reproduced]) -> list[str]:
    """When and where the tables were measured, and the command that measures them again: a line for each."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for result, table, *_ in results:
        elsewhere = result.measurement if isinstance(result.measurement, str) else ""
        when = (table.about["measured"] or "on an unknown day", table.about["version"].partition("+")[0])
        groups.setdefault((*when, table.about["machine"], elsewhere), []).append(result.id)
    lines = [f"Drawn by airpool {__version__} from tables on disk; drawn again by airpool reproduce all."]
    for (day, version, machine, elsewhere), ids in groups.items():
        where = f" on {machine}" if machine else ""
        again = elsewhere or f"airpool reproduce {ids[0] if len(ids) == 1 else 'all'} --fresh"
        lines.append(f"Measured {day} by airpool {version}{where}: {', '.join(ids)}. Measured again by {again}.")
    return lines


def _parts(each: Reproduced) -> list[Part]:
    title, finding, by_kind = each.result.title, each.finding, {path.suffix: path for path in each.files}
    header = ("the paper's statement", "where", "verdict", "what we find")
    rows = [(c.says, c.where, Badge(c.word, MOODS[c.word]), c.found) for c in finding.checks]
    return [
        Text(f"The paper: {text(each.result.id)['paper']}"),
        Text(each.result.setting),
        Figure(by_kind[".svg"].read_bytes(), f"{title}. {finding.sentence}", f"{title}."),
        PageTable(f"The finding {WORDS[finding.holds]}.", header, rows),
        Text(finding.more),
        Text(f"Instead: {finding.instead}"),
        Download(by_kind[".csv"].name, by_kind[".csv"].read_bytes()),
        Text(f"Table: {each.table.line()}."),
    ]


def record(results: Sequence[Reproduced]) -> dict[str, Mapping[str, object]]:
    """The report as plain data, for JSON."""
    return {
        r.result.id: {
            "holds": r.finding.holds,
            **asdict(r.finding),
            "setting": r.result.setting,
            "files": [str(path) for path in r.files],
            "table": dict(r.table.about),
        }
        for r in results
    }
