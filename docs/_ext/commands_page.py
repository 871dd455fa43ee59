"""A page of the reference: the commands of one group, with their options and examples."""

import inspect
import re
from collections.abc import Iterator, Sequence

from docstrings import linked
from public import commands

from airpool.cli import GROUPS
from airpool.cli.help import EXAMPLES, options_by_group

_SHARED = ("Devices", "Channel", "Scheme", "Guarantee", "Slots")  # options that many commands share: folded
_FOLDED = "Options that describe a network are the same in every command; click to unfold them."


def page_of(group: str) -> str:
    parts, folded = list[str](), False
    for words, command, ctx in commands():
        if words.split(" ")[0] not in GROUPS[group]:
            continue
        level = "##" if " " not in words else "###"
        parts += [f"({slug('command ' + words)})=", f"{level} airpool {words}", ""]
        parts += [linked(" ".join(each.split())) + "\n" for each in inspect.cleandoc(command.help or "").split("\n\n")]
        parts += [f"```text\n{command.get_usage(ctx).removeprefix('Usage: ')}\n```", ""]
        if words in EXAMPLES:
            shown = "\n".join(f"airpool {each}" for each in EXAMPLES[words])
            parts += [f"```bash\n{shown}\n```", ""]
        parts += [f"```{{program}} airpool {words}\n```", ""]
        for title, rows in options_by_group(command, words, ctx).items():
            parts, folded = [*parts, *_options(title, rows)], folded or _is_folded(title)
    head = [f"# Commands: {group}", "", *([_FOLDED, ""] if folded else [])]
    return "\n".join([*head, *parts]) + "\n"


def _options(title: str, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    folded = _is_folded(title)
    name = title.replace("<", "&lt;")
    yield f"<details><summary>{name}</summary>\n" if folded else f"**{name}**\n"
    for written, text in rows:
        option = re.sub(r"--\[no-\](\S+)", r"--\1, --no-\1", written)
        yield f":::{{option}} {option}\n{linked(text.replace(chr(160), ' ')) or ' '}\n:::\n"
    if folded:
        yield "</details>\n"


def _is_folded(title: str) -> bool:
    return title.split(" ", maxsplit=1)[0] in _SHARED


def slug(text: str) -> str:
    return text.lower().replace(" ", "-")
