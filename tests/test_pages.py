"""Every block of every page has a language that says what it is, and every `airpool` command line on them parses.

`make check` runs the blocks (`python -m scripts.pages`).
"""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from scripts.pages.blocks import REASONS, ROOT, Block, blocks, commands, pages
from tests.commands import leaves, parsed

PAGES = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in pages()}
COMMANDS: dict[tuple[str, ...], Any] = dict(leaves())
SOURCES = [path for folder in ("packages", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")]


def calls(line: str) -> list[list[str]]:
    """The words of each call of airpool in a line of shell, without the program itself."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, "#"
    found, words = [], []
    for word in [*lexer, ";"]:
        if set(word) <= set("();<>|&"):
            names = [k for k, each in enumerate(words) if Path(each).name == "airpool"]
            found += [words[names[0] + 1 :]] if names and "pip" not in words else []
            words = []
        else:
            words.append(word)
    return found


def without_plugins(words: list[str]) -> list[str]:
    """The words without `--plugin FILE`, which is read before any command; the file must exist."""
    if "--plugin" not in words:
        return words
    at = words.index("--plugin")
    assert (ROOT / words[at + 1]).is_file()
    return without_plugins([*words[:at], *words[at + 2 :]])


def unknown(words: list[str]) -> list[str]:
    """Commands and options in a call that do not exist; its values, placeholders mostly, are not looked at."""
    plain = [word for word in words if re.fullmatch(r"[a-z][a-z0-9-]*", word)][:2]
    path = next((path for path in (tuple(plain), tuple(plain[:1])) if path in COMMANDS), None)
    if path is None:
        group = bool(plain) and any(each[0] == plain[0] for each in COMMANDS)
        return [] if not plain or (group and len(plain) == 1) else [" ".join(plain)]
    known = {name for param in COMMANDS[path].params for name in (*param.opts, *param.secondary_opts)}
    given = [word.partition("=")[0].rstrip(",.;") for word in words if word.startswith("--")]
    return [name for name in given if name not in known | {"--help", "--plugin", "--version", "--install-completion"}]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_known_language_or_a_mark(page):
    assert [f"{page}:{block.line}: {block.problem}" for block in blocks(PAGES[page]) if block.problem] == []


def test_the_pages_are_those_that_people_read():
    assert {"README.md", "CONTRIBUTING.md", "deploy/README.md", "docs/howto/guide.md"} <= set(PAGES)
    ran = [block for text in PAGES.values() for block in blocks(text) if "not run" not in block.marks]
    assert len(ran) > 150


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```\nx\n```", "a block without a language"),
        ("    x", "a block without a language"),
        ("```perl\nx\n```", "the language 'perl' is unknown"),
        ("```console\nairpool\n```", "begins with a prompt"),
        ("<!-- not run: lazy -->\n```sh\nx\n```", "'lazy' is no reason"),
        ("<!-- not run: tests/test_absent.py runs it -->\n```sh\nx\n```", "is no reason"),
        ("<!-- dont run: docker -->\n```sh\nx\n```", "is no mark"),
        ("```{code-block} sh\nx\n```", "is unknown"),
        ("````{note}\n```sh\nx\n```\n````", "is unknown"),
        ("<details>\n```sh\nx\n```\n</details>", "HTML around a block hides it"),
        ("```python\nx = 1\n>>> x\n1\n```", "a doctest begins with a prompt"),
    ],
)
def test_a_block_that_nobody_would_check_is_named(text, problem):
    (block,) = blocks(text)
    assert problem in (block.problem or "")


def test_what_a_block_needs_is_there_where_the_data_are():
    if not (ROOT.parent / "shared" / "data").is_dir():
        pytest.skip("no data beside the checkout")
    needed = {block.marks["needs"] for text in PAGES.values() for block in blocks(text) if "needs" in block.marks}
    assert [each for each in needed if each.startswith("../shared/") and not (ROOT / each).exists()] == []


def test_a_prompt_of_python_in_a_command_is_no_doctest():
    (block,) = blocks("```sh\ncat <<X\n>>> x\nX\n```")
    assert not block.doctest


def test_a_doctest_may_be_indented_and_a_directive_is_no_block():
    assert [block.problem for block in blocks("    >>> 1\n    1\n\n```{toctree}\nx\n```\n")] == [None]
    assert [block.problem for block in blocks("<!-- not run: docker -->\n```dockerfile\nFROM x\n```")] == [None]
    assert all(REASONS.values())


@pytest.mark.parametrize("page", PAGES)
def test_every_command_line_of_airpool_parses_run_or_not(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    wrong = []
    for block in blocks(PAGES[page]):
        for command in commands(block) if block.language in ("sh", "console") else ():
            for words in calls(command.text.replace("\\\n", " ")):
                try:
                    parsed(without_plugins(words))
                except (Exception, SystemExit) as error:  # typer keeps its exceptions to itself
                    wrong.append(f"{page}:{command.line}: airpool {shlex.join(words)}: {error}")
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_named_in_prose_have_these_options(page):
    tokens = [child for token in MarkdownIt("commonmark").parse(PAGES[page]) for child in token.children or ()]
    named = [child.content for child in tokens if child.type == "code_inline" and child.content.startswith("airpool ")]
    assert {line: unknown(line.split()[1:]) for line in named if unknown(line.split()[1:])} == {}


def test_commands_named_in_docstrings_have_these_options():
    named = re.compile(r"(?:^ {4,}|`)((?:\S*/)?airpool [a-z][^`\n]*)", re.MULTILINE)
    for path in SOURCES:
        for literal in re.findall(r'"""(.*?)"""', path.read_text("utf-8"), re.DOTALL):
            for line in named.findall(literal):
                assert unknown(line.partition("#")[0].split()[1:]) == [], f"{path.relative_to(ROOT)}: {line}"


def test_calls_are_found_in_pipes_lists_and_sub_shells():
    line = "mkdir -p out && (umask 077; .venv/bin/airpool keys init) | X=1 timeout 9 airpool ui > log  # airpool no"
    assert calls(line) == [["keys", "init"], ["ui"]]
    assert unknown(["epsilon", "--devices", "12", "--sigma", "1"]) == ["--sigma"]
    assert unknown(["keys", "make"]) == ["keys make"]
    (command,) = commands(Block(1, "sh", "airpool ui \\\n  --open\n"))
    assert command.text == "airpool ui \\\n  --open"
