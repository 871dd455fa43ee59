"""A page of the reference: every key of a network file, with what it may be, its unit and its default."""

import re
from dataclasses import MISSING, fields
from typing import Any

from docstrings import linked
from public import commands

from airpool._support.rules import Rule, rules_of
from airpool.evaluation.settings import KEYS
from airpool.network import Adversary, Channel, Claim, Devices, Network, Ranking, Slots, Threshold
from airpool.network.claim import MOST_INFERENCES
from airpool.network.file import VERSION

_UNITS = {"db": "dB", "dbm": "dBm", "bound": "bits", "threshold": "bits", "phase_error_std": "radians"}


def page() -> str:
    evaluate = next(command for words, command, _ in commands() if words == "evaluate")
    help_of = {param.name: param.help for param in evaluate.params}
    said = {place: help_of.get(option) or "" for option, place in KEYS.items()}
    tables = {
        "": Network,
        "claim": Claim,
        "devices": Devices,
        "channel": Channel,
        "scheme": None,
        "adversary": Adversary,
        "slots": Slots,
    }
    parts = [
        "# The network file",
        "A network as versioned TOML, which {py:obj}`read_network <airpool.read_network>` reads, every command "
        "takes by `--network`, and `airpool calibrate --out` and `airpool plan --out` write. A number stands for all "
        "devices, a list gives one value for each. What is left out has its default; an unknown key is an error.",
        "The table `[claim]` is no part of the network: it is what commands ask of it by default, and what "
        "{py:obj}`read_claim <airpool.read_claim>` reads.",
        f"```toml\nversion = {VERSION}\ndimension = 40\n\n[claim]\ndelta = 1e-5\n\n"
        "[devices]\ncount = 3\nnoise_std = [0.05, 0.05, 0.1]\n\n"
        '[channel]\nfading = "rician"\nnoise_std = 0.1\n\n[scheme]\nname = "2.1"\nthreshold = 0.5\n```',
    ]
    for table, kind in tables.items():
        parts.append(f"## [{table}]" if table else "## At the top")
        rows = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
        if not table:
            rows.append(f"| `version` | {VERSION} | required | of the file format |")
        if kind is None:
            rows.append(f"| `name` | 1, 2.1, 2.2, or a plug-in's | 1 | {said['scheme', 'name']} |")
        for field in _settings(kind):
            allowed, default = _allowed(kind or _owner(field.name), field.name), _default(field)
            meaning = _ON_THE_COMMAND_LINE.sub(".", _MEANING.get(field.name) or said[table, field.name])
            unit = f" ({unit})" if (unit := _unit(table, field.name)) else ""
            rows.append(f"| `{field.name}` | {allowed}{unit} | {default} | {linked(meaning)} |")
        parts.append("\n".join(rows))
    parts.append(
        "Settings of a plug-in's scheme stand beside its name in `[scheme]` ([plug-ins](../../howto/plugins.md)). "
        "Versions and upgrades: [upgrades](../../howto/upgrades.md)."
    )
    return "\n\n".join(parts) + "\n"


_ON_THE_COMMAND_LINE = re.compile(r"(, or which ones|; the server's are --).*")
# Of settings that `evaluate` has no option for.
_MEANING = {
    "epsilon": "Target ε of each device, for `calibrate`, `plan` and `design`.",
    "colluding": "Devices known to collude, by index, on top of the network's number of colluders.",
    "credit_channel_noise": "Count the receiver's noise too.",
    "live": "Account for the noise that devices really draw.",
    "knows_answer": "An eavesdropper may learn the answer, so the server's antennas count among its own.",
    "per_event": "A stay of this many inferences in a row, of which ε is reported too, and which `calibrate` meets.",
}


def _settings(kind: Any) -> list[Any]:
    if kind is not None:
        return [
            field for field in fields(kind) if field.name not in ("devices", "channel", "scheme", "adversary", "slots")
        ]
    return list({field.name: field for each in (Threshold, Ranking) for field in fields(each)}.values())


def _owner(name: str) -> Any:
    return Threshold if name in rules_of(Threshold) else Ranking


def _allowed(kind: Any, name: str) -> str:
    """Values that a field may have, in words."""
    rule = rules_of(kind).get(name)
    if isinstance(rule, Rule):
        auto = 'a number or `"auto"`, ' if name == "gamma" else ""
        return auto + rule.allowed.removeprefix("must be ").replace("<", "\\<").replace(">=", "≥").replace(">", "\\>")
    if isinstance(rule, range):
        return f"whole, {rule[0]} to {rule[-1]:,}"
    if rule is bool:
        return "true or false"
    if rule is not None:
        return ", ".join(f"`{each}`" for each in rule)
    words = {
        "colluding": "a list of devices",
        "per_event": f"whole, 1 to {MOST_INFERENCES:,}",
        "fading": "the name of a law",
    }
    return words.get(name, "whole, 0 to K − 1")


def _unit(table: str, name: str) -> str:
    if (table, name) == ("channel", "noise_std"):
        return "√mW"
    return _UNITS.get(name) or _UNITS.get(
        name.rpartition("_")[2], "bits" if name.startswith("score_") and "rule" not in name else ""
    )


def _default(field: Any) -> str:
    if field.name == "weight":
        return "1/K"
    if field.default is MISSING:
        return "required"
    value = field.default
    if value == ():
        return "`[]`"
    return "none" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"
