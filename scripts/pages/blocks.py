"""The code blocks of a page: what each is, how it is marked, and what is wrong with it.

The language of a block says what happens to it:

    sh        every line is a command, and must end with status 0
    console   lines after `$ ` are commands; the lines that follow one are its whole output
    python    a script; the blocks of a page share a namespace, like the cells of a notebook
    text      must be part of what the block before it printed, or a file (below)
    toml, json, yaml
              must parse; a network file and the options of a role are read by airpool
    `>>>`     a doctest, in an indented block too: `make test` runs it

In output, `...` stands for anything, and white space does not count. A mark is a comment on the line before a block:

    <!-- not run: REASON -->     REASON is one of `REASONS`, or `tests/FILE.py runs it` (or checks)
    <!-- needs: WHAT -->         run where WHAT is there: a path such as ../shared/data/x.npz, or a module
    <!-- file: NAME -->          the block is written to NAME, for the commands that follow

Commands that serve (`airpool air`, `up` without --inferences, ...) run in the background to the end of the page.
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
RUN = ("sh", "console", "python")
DATA = ("toml", "json", "yaml")
LANGUAGES = (*RUN, *DATA, "text")
REASONS = {
    "install": "changes the environment, or fetches from the network",
    "docker": "needs a container engine",
    "root": "needs root, or systemd",
    "two machines": "names addresses of other machines",
    "hardware": "needs cameras, radios or a GPU",
    "too long": "minutes on many cores, or hours",
    "own data": "needs files that only the reader has",
    "diagram": "a drawing or a list, no code",
    "sketch": "no program by itself",
}
DIRECTIVES = ("{toctree}", "{include}", "{math}")
FENCE = re.compile(r"^\s*(```|~~~)", re.MULTILINE)
MARK = re.compile(r"\s*<!-- (?:(not run|needs|file): (.+?)) -->\s*")


@dataclass(frozen=True)
class Block:
    """A code block: line is that of its first line of text, counted from 1."""

    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)
    problem: str | None = None

    @property
    def doctest(self) -> bool:
        return self.language in ("", "python", "pycon") and re.search(r"^>>> ", self.text, re.MULTILINE) is not None


@dataclass(frozen=True)
class Command:
    """A command, and the output that the page shows after it, if it shows any."""

    line: int
    text: str
    shown: str = ""


def pages() -> list[Path]:
    """Every page that is written by hand, tracked by git or not yet."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    kept = (
        name for name in names if re.match(r"docs/|[A-Z]+\.md$|(deploy|packages/[\w-]+(/studies)?)/README\.md$", name)
    )
    return sorted(path for path in map(ROOT.joinpath, kept) if path.exists())


def blocks(markdown: str) -> Iterator[Block]:
    """The code blocks of a page in order; directives of the site ({toctree}, {math}) are none."""
    marks, unknown = {}, None
    for token in MarkdownIt("commonmark").parse(markdown):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            mark = MARK.fullmatch(token.content)
            if mark:
                marks[mark[1]] = mark[2]
            elif FENCE.search(token.content):
                yield Block(line, "", token.content, problem="HTML around a block hides it: leave a blank line between")
            else:
                unknown = token.content.strip()
            continue
        if token.type == "code_block":
            yield _judged(Block(line, "", token.content, marks), unknown)
        elif token.type == "fence":
            language = token.info.strip()
            if not language.startswith(DIRECTIVES):
                yield _judged(Block(line + 1, language, token.content, marks), unknown)
        marks, unknown = {}, None


def _judged(block: Block, unknown: str | None) -> Block:
    """The block, with what is wrong with it by the rules above."""
    problem = None
    if unknown and not re.match(r"<!-- (table|end)\b", unknown):
        problem = f"{unknown} is no mark"
    elif "not run" in block.marks and not _reason(block.marks["not run"]):
        problem = f"{block.marks['not run']!r} is no reason; there are: {', '.join(REASONS)}"
    elif block.doctest:
        problem = None if block.text.lstrip().startswith(">>> ") else "a doctest begins with a prompt, `>>> `"
    elif not block.language:
        problem = "a block without a language: fence it"
    elif block.language not in LANGUAGES and "not run" not in block.marks:
        problem = f"the language {block.language!r} is unknown; there are: {', '.join(LANGUAGES)}"
    elif block.language == "console" and not block.text.startswith("$ "):
        problem = "a console block begins with a prompt, `$ `"
    return Block(block.line, block.language, block.text, block.marks, problem)


def _reason(text: str) -> bool:
    tested = re.fullmatch(r"((?:packages/[\w-]+/)?tests/\S+\.py) (?:runs|checks) it", text)
    return (ROOT / tested[1]).is_file() if tested else text in REASONS


def commands(block: Block) -> Iterator[Command]:
    """The commands of an sh or console block; a backslash at the end of a line continues it."""
    prompted = block.language == "console"
    found: list[tuple[int, str, list[str]]] = []
    for match in re.finditer(r"^(?:.*\\\n)*.*$", block.text, re.MULTILINE):
        text = match[0].rstrip()
        line = block.line + block.text.count("\n", 0, match.start())
        if prompted and not text.startswith("$ "):
            if match.start() < len(block.text):
                found[-1][2].append(text)
        elif text.strip() and not text.lstrip().startswith("#"):
            found.append((line, text.removeprefix("$ ").strip(), []))
    for line, text, shown in found:
        yield Command(line, text, "\n".join(shown).strip())
