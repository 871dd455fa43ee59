"""A network as a compact table in a notebook: equal devices share a row, and settings at rest are left out."""

from dataclasses import MISSING, fields
from typing import Any

from airpool._support.notebook import facts, rows_of, shown
from airpool._support.rounding import full
from airpool._support.text_table import runs_of
from airpool.network.network import Network

# Column of a device → its heading.
_COLUMNS = {
    "weight": "weight",
    "clip_norm": "clip norm",
    "noise_std": "noise std",
    "participation": "participation",
    "power_dbm": "power, dBm",
    "path_loss_db": "path loss, dB",
    "epsilon": "target ε",
}


def html(network: Network) -> str:
    """Devices, channel, scheme and all else that is not at its default."""
    d, scheme = network.devices, network.scheme
    names = [name for name in _COLUMNS if getattr(d, name) is not None]
    lines = list(zip(*([f"{value:.4g}" for value in d.column(name)] for name in names), strict=True))
    rows = [(label, *line) for label, line in runs_of(lines)]
    more = {
        "scheme": ", ".join([str(scheme.name), *_changed(scheme)]),
        "channel": ", ".join([network.channel.access, *_changed(network.channel, but=("access",))]),
        "numbers sent by each device": str(network.dimension),
        "privacy": f"{network.neighbours} neighbours, δ = {full(network.delta)}",
        "inferences": f"{network.inferences:,}",
        **{name: str(getattr(network, name)) for name in ("colluders", "dropouts") if getattr(network, name)},
        **{name: ", ".join(_changed(getattr(network, name))) for name in ("adversary", "slots")},
        "cover noise": "silent devices send their noise" if network.cover_noise else "",
    }
    table = rows_of(("device", *(_COLUMNS[name] for name in names)), rows)
    kept = [(name, text) for name, text in more.items() if text]
    return shown(f"Network of {d.count} device{'s' * (d.count > 1)}", table, facts(kept))


def _changed(settings: Any, but: tuple[str, ...] = ()) -> list[str]:
    """Settings that are not at their defaults, as words."""
    values = {each: getattr(settings, each.name) for each in fields(settings) if each.name not in but}
    changed = {each.name: value for each, value in values.items() if each.default is MISSING or value != each.default}
    return [f"{name.replace('_', ' ')} {full(x) if type(x) is float else x}" for name, x in changed.items()]
