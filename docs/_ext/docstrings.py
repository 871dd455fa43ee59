"""Docstrings as Markdown: arguments as a list, formulas and examples as blocks, public names and pages as links."""

import re
import textwrap
from collections.abc import Callable, Mapping, Set
from functools import cache
from typing import NamedTuple

from public import PAGES


class Listed(NamedTuple):
    """Types of fields, and fields that are not public."""

    types: Mapping[str, str]
    inner: Set[str]


@cache
def homes() -> list[str]:
    return [name for page in PAGES.values() for name in page.names]


def markdown(
    doc: str,
    names: Set[str] = frozenset(),
    listed: Listed | None = None,
    shown: Callable[[str], str] = lambda code: code,
) -> str:
    """A docstring as Markdown: arguments as a list, formulas and examples as blocks of their own.

    names: arguments or fields, of which a docstring says `name: text`. listed: those that
    are given a type, or left out. shown: an example as it is printed.
    """
    parts = list[str]()
    examples = list[str]()
    for block in re.split(r"\n\s*\n", doc.strip()):
        lines = block.splitlines()
        number = next((i for i, line in enumerate(lines) if line.lstrip().startswith(">>>")), len(lines))
        said, code = lines[:number], lines[number:]
        if said and all(line.startswith("    ") for line in said):
            parts.append(f"```text\n{textwrap.dedent(chr(10).join(said))}\n```")
        elif said:
            parts.append(_paragraphs(" ".join(line.strip() for line in said), names, listed or Listed({}, set())))
        if code:
            examples.append(textwrap.dedent("\n".join(code)))
    if examples:
        parts.append(f"```pycon\n{shown(chr(10).join(examples))}\n```")
    return "\n\n".join(parts)


def _paragraphs(text: str, names: Set[str], listed: Listed) -> str:
    """Prose, then a list of the arguments that it describes, then what holds and what does not."""
    said = "|".join(sorted(map(re.escape, names), key=len, reverse=True)) or "(?!)"
    labels = rf"(?:^|(?<=[.;:)] ))((?:{said})(?:, (?:{said}))*|Holds for|Edge cases?|Tight to 1e-3): "
    pieces = re.split(labels, text)
    out = [linked(pieces[0].strip())] if pieces[0].strip() else []
    rows = list[str]()
    for label, text_of in zip(pieces[1::2], pieces[2::2], strict=True):
        told = linked(text_of.strip().removesuffix(";"))
        if label[0].isupper() and label not in names:
            rows.append(f"\n**{label}:** {told}")
            continue
        if shown := [each for each in label.split(", ") if each not in listed.inner]:
            rows.append("- " + ", ".join(typed(each, listed.types) for each in shown) + f": {told}")
    return "\n\n".join([*out, *(["\n".join(rows)] if rows else [])])


def linked(text: str) -> str:
    """Pages that a docstring names, as links; public names in backticks too; what is no markup, escaped."""
    text = re.sub(
        r"(?:docs/)?\b(theory|howto|proofs|results|project|reference)/([\w-]+)\.md", r"[\1/\2](../../\1/\2.md)", text
    )
    text = text.replace("(../../reference/network-file.md)", "(network-file.md)")
    home = {name.rpartition(".")[2]: name for name in homes()}
    text = re.sub(
        r"`(?:airpool\.)?(\w+)`", lambda m: f"{{py:obj}}`{m[1]} <{home[m[1]]}>`" if m[1] in home else m[0], text
    )
    plain = re.split(r"(`[^`]*`|\[[^\]]*\]\([^)]*\))", text)
    return "".join(each if at % 2 else _escaped(each) for at, each in enumerate(plain))


def _escaped(text: str) -> str:
    """Prose without markup: options as code, and what Markdown would take for markup as it is."""
    return re.sub(r"(?<!\w)--[a-z][\w-]*", r"`\g<0>`", text.replace("<", "\\<").replace("$", "\\$"))


def typed(name: str, types: Mapping[str, str]) -> str:
    return f"`{name}`" + (f" (`{types[name]}`)" if types.get(name) else "")
