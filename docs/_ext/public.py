"""The public names of airpool: which they are, on which page of the reference they stand, and how they are recorded.

    python docs/_ext/public.py     writes docs/reference/public-names.txt and public-commands.txt anew

A name that is not listed here may change without notice. docs/project/versions.md says how a listed one may change.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from airpool import __version__
from airpool._support.plugins import Registry

REFERENCE = Path(__file__).parents[1] / "reference"
NAMES, COMMANDS = REFERENCE / "public-names.txt", REFERENCE / "public-commands.txt"


@dataclass(frozen=True)
class Page:
    """One page of the reference. names: in the order of reading, as they are imported."""

    title: str
    about: str
    names: tuple[str, ...]


_NETWORK, _PLAN = "airpool.network", "airpool.evaluation.plan"
_ATTACKS, _MEDIUM = "airpool_lab.attacks", "airpool_runtime.medium"

PAGES = {
    "network": Page(
        "The network",
        "A network is plain frozen data: devices, channel, scheme and adversary; a claim is what is asked of it. "
        "Everything else is a function of the two. The same fields stand in [its file](network-file.md).",
        (
            *("airpool.Network", "airpool.Devices", "airpool.Channel", "airpool.Slots", "airpool.Adversary"),
            "airpool.Claim",
            *("airpool.Coin", "airpool.Threshold", "airpool.Ranking", f"{_NETWORK}.Neighbours"),
            *("airpool.read_network", "airpool.read_claim", "airpool.write_network"),
        ),
    ),
    "account": Page(
        "The account",
        "From a network to what it leaks, and back: the least noise for what it may leak.",
        (
            *("airpool.guarantee", "airpool.PrivacyReport", "airpool.calibrate", "airpool.odds", "airpool.Odds"),
            *("airpool.account.event.Event", "airpool.account.statement.Statement"),
        ),
    ),
    "exchange": Page(
        "Adding up with other tools",
        "The spending of a network in the units of other accountants, and together with what they spent "
        "([guide](../../howto/neighbours.md)).",
        (
            *("airpool.exchange", "airpool.Exchange"),
            *("airpool.account.exchange.combined", "airpool.account.exchange.budget_beside"),
        ),
    ),
    "simulate": Page(
        "Accuracy",
        "Accuracy of a network, simulated or bounded. The objects are those of a model, or your own.",
        (
            *("airpool.evaluate", "airpool.Evaluation", "airpool.held_out", "airpool.EncodedObjects"),
            *("airpool_lab.theory.prediction.predict", "airpool_lab.theory.prediction.Prediction"),
            "airpool_lab.theory.prediction.AccuracyBounds",
        ),
    ),
    "plan": Page(
        "Design and plan",
        "The best network for a budget: weights and clip norms for devices that differ, or the whole network.",
        (
            *("airpool.plan", f"{_PLAN}.Plan", f"{_PLAN}.Option", f"{_PLAN}.Candidate"),
            *("airpool.design", "airpool.evaluation.design.weights.Design"),
        ),
    ),
    "audit": Page(
        "The audit",
        "The claimed ε against the code that transmits.",
        ("airpool.audit", "airpool.evaluation.audit.whole.Examination"),
    ),
    "models": Page(
        "Models",
        "The model that ships, models of your own sensors and cameras, and one inference with either.",
        (
            *("airpool.load", "airpool.fit", "airpool.infer", "airpool.protocol.inference.Inference"),
            *("airpool.models.model.Model", "airpool.models.model.Objects", "airpool.models.sensors.fitted.Fitted"),
            "airpool.models.sensors.fitting.FitRecipe",
        ),
    ),
    "plug-ins": Page(
        "Plug-ins",
        "Interfaces of what you can bring ([guide](../../howto/plugins.md)), and the registry of each.",
        (
            *("airpool.register", "airpool.models.codecs.codec.Codec", "airpool.radio.link.Level"),
            *(f"{_NETWORK}.fading.FadingLaw", "airpool.Scheme"),
            *(f"{_ATTACKS}.attack.Attack", f"{_ATTACKS}.attack.AttackSetting", f"{_ATTACKS}.result.AttackResult"),
            *(f"{_MEDIUM}.MediumRules", f"{_MEDIUM}.Hub", f"{_MEDIUM}.Round", f"{_MEDIUM}.DevicePort"),
            *("airpool.models.codecs.codec.CODECS", f"{_NETWORK}.fading.LAWS", "airpool.schemes.scheme.SCHEMES"),
            *(f"{_ATTACKS}.attack.ATTACKS", f"{_MEDIUM}.MEDIA"),
        ),
    ),
    "errors": Page(
        "Errors and version",
        "Every error of airpool's own is an `AirpoolError`. What wrong input raises is a `ValueError` or a `TypeError` "
        "too. Messages name the value and what is allowed; their wording is not public.",
        ("airpool.AirpoolError", "airpool.NetworkError", "airpool.__version__"),
    ),
}

# Made by airpool alone: fields and methods are public, the constructor is not.
_MADE = {
    *(
        "PrivacyReport",
        "Odds",
        "Exchange",
        "Event",
        "Statement",
        "Evaluation",
        "Prediction",
        "AccuracyBounds",
        "Plan",
        "Option",
    ),
    *("Design", "Examination", "Inference", "Model", "Objects", "Fitted", "AirpoolError", "NetworkError"),
}
# Members that are not public: they compute others, or are called by them.
_INNER = {
    *(f"PrivacyReport.{name}" for name in ("absent", "static", "least", "guesses", "again")),
    *(
        f"{kind}.{name}"
        for kind in ("Model", "Fitted")
        for name in ("named_codec", "encoded_objects", "checked", "told")
    ),
    *(f"Fitted.{name}" for name in ("labels", "sensors", "heads", "by_name", "objects")),
    *(
        f"Scheme.{name}"
        for names in (
            "expected_participation most_senders require_coins words why_silent options unused title about coin_bias",
            "independent needs_posteriors needs_ranking_server sets_participation scored ranked",
        )
        for name in names.split()
    ),
    *(
        f"{kind}.{name}"
        for kind in ("Threshold", "Ranking")
        for name in ("participation_by_score", "select", "score_range", "bounded")
    ),
    *("Channel.rules", "Exchange.losses", "Exchange.distinct", "FitRecipe.head", "FitRecipe.codec"),
}


@dataclass(frozen=True)
class Public:
    """A public name: `airpool.Network`, or a member of one: `airpool.Network.uniform`.

    kind: function, class, method, property, field or data.
    """

    name: str
    kind: str
    value: Any

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]

    @cached_property
    def signature(self) -> inspect.Signature | None:
        """Without annotations; None for what is not called."""
        made = self.kind == "class" and (self.last in _MADE or _is_protocol(self.value))
        if self.kind not in ("function", "method", "class") or made or isinstance(self.value, type(Enum)):
            return None
        found = inspect.signature(getattr(self.value, "__func__", self.value))
        given = [_plain(each) for each in found.parameters.values()][self.kind == "method" :]
        return found.replace(parameters=given, return_annotation=found.empty)

    @property
    def line(self) -> str:
        """As it is recorded."""
        called = self.signature
        return f"{self.name}{called}" if called is not None else f"{self.name}  [{self.kind}]"

    @property
    def doc(self) -> str:
        of = getattr(self.value, "func", None) or getattr(self.value, "fget", None) or self.value
        if self.kind == "data":
            of = Registry if isinstance(of, Registry) else resolve_name("airpool._support.version")
        return "" if self.kind == "field" else inspect.getdoc(of) or ""


@dataclass(frozen=True)
class _Default:
    text: str

    def __repr__(self) -> str:
        return self.text


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Without its annotation; with its default where that is plain data, else with three dots."""
    parameter, default = parameter.replace(annotation=parameter.empty), parameter.default
    known = default is not __version__ and isinstance(default, bool | int | float | str | None | tuple)
    known = known and not (isinstance(default, tuple) and len(default) > 8)
    if default is parameter.empty or known:
        return parameter
    return parameter.replace(default=_Default("..."))


def _is_protocol(value: Any) -> bool:
    return getattr(value, "_is_protocol", False)


def public(name: str) -> Public:
    """The public name that is imported so."""
    value = resolve_name(name)
    kind = "class" if isinstance(value, type) else "function" if callable(value) else "data"
    return Public(name, kind, value)


def members(of: Public) -> list[Public]:
    """Public members of a class that no public class above it has: fields first, then methods and properties."""
    if of.kind != "class":
        return []
    own = [each for each in of.value.__mro__ if each.__module__.startswith("airpool")]
    elsewhere = {name for each in own[1:] if each in _listed() for name in dir(each)}
    found = dict[str, Public]()
    for each in reversed(own):
        for name in {**dict.fromkeys(inspect.get_annotations(each)), **vars(each)}:
            if not (name.startswith("_") or name in elsewhere or f"{of.last}.{name}" in _INNER):
                value = inspect.getattr_static(of.value, name, None)
                kind = "field" if name in getattr(each, "__dataclass_fields__", ()) else _kind(value)
                found[name] = Public(f"{of.name}.{name}", kind, value)
    return sorted(found.values(), key=lambda each: each.kind != "field")


@cache
def _listed() -> tuple[Any, ...]:
    return tuple(resolve_name(name) for page in PAGES.values() for name in page.names)


def _kind(value: Any) -> str:
    if isinstance(value, property) or hasattr(value, "func"):
        return "property"
    return "method" if isinstance(value, classmethod | staticmethod) or inspect.isfunction(value) else "field"


def everything() -> Iterator[Public]:
    """All public names, page by page, each class followed by its members."""
    for page in PAGES.values():
        for name in page.names:
            yield (top := public(name))
            yield from members(top)


def recorded_names() -> list[str]:
    """A line for each public name. The fields of a class that you make stand in its constructor."""
    made = {top.name for page in PAGES.values() for top in map(public, page.names) if top.signature is not None}
    return [e.line for e in everything() if not (e.kind == "field" and e.name.rpartition(".")[0] in made)]


def commands() -> Iterator[tuple[str, Any, Any]]:
    """Words after `airpool`, command and context of every command; groups before what they hold."""
    import typer

    from airpool.cli import app

    def within(words: str, command: Any, parent: Any) -> Iterator[tuple[str, Any, Any]]:
        ctx = type(parent)(command, info_name=words.rpartition(" ")[2], parent=parent)
        yield words, command, ctx
        for name, each in getattr(command, "commands", {}).items():
            yield from within(f"{words} {name}", each, ctx)

    root: Any = typer.main.get_command(app)
    top = typer.Context(root, info_name="airpool")
    yield "", root, top
    for name in root.list_commands(top):
        yield from within(name, root.get_command(top, name), top)


def recorded_commands() -> list[str]:
    """A line for each command and option."""
    return [
        f"airpool {words} {option}".replace("  ", " ").rstrip()
        for words, command, ctx in commands()
        for option in ("", *(each for param in command.get_params(ctx) for each in _options(param)))
    ]


def _options(param: Any) -> list[str]:
    if param.param_type_name == "argument":
        return [(param.metavar or param.name.upper())]
    return sorted((*param.opts, *param.secondary_opts), key=len)


if __name__ == "__main__":
    for path, lines in ((NAMES, recorded_names()), (COMMANDS, recorded_commands())):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{path}: {len(lines)} lines")
