"""Errors in the words of the command line: the option that was typed, the file that holds the value, a suggestion."""

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airpool.cli import values

# noise_std=-1, devices.noise_std[2]='x': as the library names a value. codec 'x': as it names a choice.
_NAMED = re.compile(r"(?<![\w.\-])(?P<name>(?:\w+\.)?[a-z]\w*)(?:\[(?P<index>\d+)\])?=(?P<value>'[^']*'|[^\s,;:)]+)")
# A key of a network file or an argument: where its option was typed, that is where the value comes from.
_KEY = re.compile(r"^(?P<name>(?:\w+\.)?\w+)(?= has )")
_CHOICE = re.compile(r"^(?P<name>[a-z]+) (?P<value>'[^']+')")


def in_words_of(words: Sequence[str], message: str) -> str:
    """The message with every option as it was typed, where its value was typed with it; else with the network file
    that holds the value; and with the name that a mistyped one is like.

    >>> in_words_of(["epsilon", "--noise-std", "-1"], "devices.noise_std=-1.0 must be >= 0 and finite")
    '--noise-std -1 must be >= 0 and finite'
    """
    typed = options(words)

    def renamed(found: re.Match[str]) -> str:
        name, index = option_of(found["name"]), found.groupdict().get("index")
        if (text := typed.get(name)) is None or not _same(text, found["value"], index):
            return found[0]
        return f"--{name.replace('_', '-')} {shlex.quote(text)}"

    def keyed(found: re.Match[str]) -> str:
        name = option_of(found["name"])
        return f"--{name.replace('_', '-')}" if name in typed else found[0]

    first = _NAMED.match(message)
    message = _KEY.sub(keyed, message.replace("give epsilon,", "give --epsilon,"))
    said = _CHOICE.sub(renamed, _NAMED.sub(renamed, message))
    if first is not None and said.startswith(first[0]) and "network" in typed:
        said = f"{typed['network']}: {said}" if _holds(Path(typed["network"]), first) else said
    return said + _suggested(words, typed, message)


# Options that people try → those that they may mean.
_MEANT = {
    **dict.fromkeys(("--sigma", "--noise", "--std"), "--noise-std"),
    **dict.fromkeys(("--eps", "--target"), "--epsilon"),
    **dict.fromkeys(("--clip", "--clipping"), "--clip-norm"),
    **dict.fromkeys(("--net", "--file"), "--network"),
    **dict.fromkeys(("--num-devices", "--k"), "--devices"),
    "--output": "--out",
}


def hinted(error: Any) -> None:
    """Adds to an error of the command line's grammar what may have been meant."""
    message, ctx, param = str(getattr(error, "message", None) or ""), getattr(error, "ctx", None), None
    there = {flag for each in ctx.command.params for flag in each.opts} if ctx is not None else set()
    mistyped = message.removeprefix("No such option: ")
    if _MEANT.get(mistyped) in there:
        error.possibilities = [_MEANT[mistyped]]
    elif re.fullmatch(r"No such option: -\w", message):
        error.message = f"{message}. The name of an option has two dashes, as --help"
    elif mistyped == "--network" and ctx is not None and ctx.command.name == "report":
        error.message = f"{message}. The network file follows without a name, as in {ctx.command_path} net.toml"
    elif "unexpected extra argument" in message and ".toml" in message and "--network" in there:
        error.message = f"{message}. A network file follows --network"
    elif (param := getattr(error, "param", None)) is not None and not message and ctx is not None:
        known = values.known(ctx.command_path.partition(" ")[2], param.name)
        if known is not None:
            error.message = f"Known are {', '.join(known({}))}."


def options(words: Sequence[str]) -> dict[str, str]:
    """Name → text of each option with a value; the last one where it was typed twice.

    >>> options(["epsilon", "--noise-std", "-1", "--json", "--delta=2"])
    {'noise_std': '-1', 'delta': '2'}
    """
    found: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        name, equals, text = word.partition("=")
        if name.startswith("--") and (equals or not after.startswith("--")):
            found[name[2:].replace("-", "_")] = text if equals else after
    return found


def option_of(name: str) -> str:
    """The option of a key of the network file, such as devices.noise_std; any other name is that of its option."""
    from airpool.evaluation.settings import KEYS

    return {f"{table}.{key}": option for option, (table, key) in KEYS.items() if table}.get(name, name)


def _same(typed: str, said: str, index: str | None = None) -> bool:
    """Whether a message speaks of the value that was typed, or of one in its list."""
    if index is not None and "," in typed:
        typed = typed.split(",")[int(index)] if int(index) < len(typed.split(",")) else ""
    try:
        return f"{float(typed):g}" == f"{float(said):g}"
    except ValueError:
        return typed == said.strip("'")


def _holds(path: Path, found: re.Match[str]) -> bool:
    """Whether the network file has this value at this key."""
    from airpool.evaluation.settings import KEYS

    table, _, key = found["name"].rpartition(".")
    table, key = (table, key) if table else KEYS.get(key, ("", key))
    try:
        data = tomllib.loads(path.read_text("utf-8"))
        value = (data[table] if table else data)[key]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    many = value if isinstance(value, list) else [value] * (int(found["index"] or 0) + 1)
    index = int(found["index"] or 0)
    return index < len(many) and _same(str(many[index]), found["value"])


def _suggested(words: Sequence[str], typed: Mapping[str, str], message: str) -> str:
    """For a value that the message quotes: the name that it is like."""
    paths = [" ".join(words[:length]) for length in (2, 1)]
    tried = [(values.known(path, name), text) for name, text in typed.items() for path in paths]
    for key, known in values.VALUES.items():
        if key.rpartition(" ")[0] in paths[1:]:  # an argument, wherever it stands
            tried += [(known, word) for word in words[1:] if not word.startswith("-")]
    for known, text in tried:
        if known is not None and repr(text) in message and (name := values.similar(known, typed, text)):
            return f". Did you mean {name}?"
    return ""
