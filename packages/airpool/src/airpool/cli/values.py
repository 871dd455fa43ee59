"""Values that options take by name, those of plug-ins and shipped models too: for completion, and for suggestions.

A function here is called when somebody presses TAB, so none imports torch.
"""

import os
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, get_args

# The parameters of a command line so far → names that an option takes.
Known = Callable[[Mapping[str, Any]], Iterable[str]]


def _words(text: str) -> Known:
    return lambda _: text.split()


def _of_network(name: str) -> Known:
    def found(_: Mapping[str, Any]) -> Iterable[str]:
        from airpool import network

        kind = getattr(network, name)
        return get_args(kind) or [str(each) for each in kind]

    return found


def _registered(what: str) -> Known:
    def found(_: Mapping[str, Any]) -> Iterable[str]:
        from airpool._support.plugins import registry

        return registry(what).names()

    return found


def _models(_: Mapping[str, Any]) -> Iterable[str]:
    from airpool.models.stored import shipped

    return shipped()


def _codecs(given: Mapping[str, Any]) -> Iterable[str]:
    from airpool.models.stored import found

    return found(str(given.get("model") or "modelnet40")).trunks


def _figures(_: Mapping[str, Any]) -> Iterable[str]:
    """As `paper.figures.IDS`, without what draws them."""
    from airpool._support.extras import place

    if (lab := place("airpool_lab")) is None:
        return []
    sections = tomllib.loads((lab / "paper" / "figures" / "statements.toml").read_text("utf-8"))
    return [*(name for name, section in sections.items() if "paper" in section), "all"]


# A parameter, or a command and its parameter → its values.
VALUES: dict[str, Known] = {
    "fading": _registered("fading"),
    "scheme": _registered("scheme"),
    "medium": _registered("medium"),
    "neighbours": _of_network("Neighbours"),
    "access": _of_network("AccessName"),
    "power_rule": _of_network("PowerRule"),
    "score": _of_network("Score"),
    "score_rule": _of_network("ScoreRule"),
    "gamma": _words("auto"),
    "model": _models,
    "codec": _codecs,
    "split": _words("test validation"),
    "adjust": _words("noise weight clip slots inferences"),
    "accounting": _words("exact theorem1"),
    "baseline": _words("orthogonal best-device centralised"),
    "backend": _words("serial pool ray"),
    "normalise": _words("sum free"),
    "end": _words("high low"),
    "position": _words("link sum colluding antennas repeated"),
    "torch_device": _words("cpu cuda"),
    "attack name": _registered("attack"),
    "reproduce name": _figures,
    "sweep function": _words("epsilon evaluate"),
    "train trunk kind": _words("lite0 lite1 lite2 vgg11"),
    "train all kind": _words("lite0 lite1 lite2 vgg11"),
    "train trunk head": _words("linear mlp flat vgg"),
    "train codec kind": _words("compact map"),
}


def known(path: str, name: str) -> Known | None:
    """The values of a command's parameter; None where it takes no names."""
    return VALUES.get(f"{path} {name}") or VALUES.get(name)


def complete(known: Known, ctx: Any, _: Any, incomplete: str) -> list[str]:
    """Names that begin as typed. Plug-ins that the line names are loaded for theirs; an error completes nothing."""
    with suppress(Exception):
        words = shlex.split(os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", ""))
        for word, file in pairwise(words):
            if word == "--plugin":
                from airpool._support.plugins import load_file

                load_file(file)
        return [name for name in known(ctx.params) if name.startswith(incomplete)]
    return []


def similar(known: Known, given: Mapping[str, Any], text: str) -> str | None:
    """The name that a text was perhaps meant to be; None where it is one, or like none."""
    with suppress(Exception):
        names = list(known(given))
        word = text.partition(":")[0]
        if word not in names and (found := get_close_matches(word.lower(), names, 1)):
            return found[0]
    return None
