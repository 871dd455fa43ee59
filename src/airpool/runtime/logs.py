"""Structured logs: one JSON object a line on stderr. Never a feature, a score, or who took part.

Only the fields listed here can be logged, and each holds a short text or a number. `device` occurs in what concerns a
device's connection or a fault, never its decision to transmit.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping

_TEXTS = ("role", "id", "address", "http", "metrics", "reason", "status", "file", "version")
_NUMBERS = ("number", "device", "devices", "connected", "missing", "seconds", "pid", "omitted")
FIELDS = frozenset(_TEXTS + _NUMBERS)
_LONGEST = 200  # characters of a text: a peer may have sent it
_state = {"role": "", "on": False}
observers: list[Callable[[str, Mapping[str, str | int | float | None]], None]] = []  # of every event, for metrics


def start(role: str) -> None:
    """Turns logging on, for this process."""
    _state.update(role=role, on=True)


def is_on() -> bool:
    return bool(_state["on"])


def event(name: str, **fields: str | int | float | None) -> None:
    if unknown := fields.keys() - FIELDS:
        raise ValueError(f"{sorted(unknown)[0]} must not be logged; known are {', '.join(sorted(FIELDS))}")
    if any(not isinstance(value, str | int | float | None) for value in fields.values()):
        raise TypeError(f"a field of {name} is neither text nor number: it must not be logged")
    for observe in observers:
        observe(name, fields)
    if _state["on"]:
        short = {key: value[:_LONGEST] if isinstance(value, str) else value for key, value in fields.items()}
        line = {"time": round(time.time(), 3), "role": _state["role"], "event": name, **short}
        print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)
