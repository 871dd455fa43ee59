"""The page's settings, a flat table of texts, as a checked network: `asked_network`.

Names are those of the command line's options, with _ for -. Besides them: `way` (which number is asked for: epsilon,
noise or accuracy), `epsilon`, `accuracy`, `model`, `codec` and `share`. What does not apply is left out (`applies`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, get_args

from airpool.evaluation.settings import KEYS, put
from airpool.models import stored
from airpool.models.cameras import cameras
from airpool.models.model import Model
from airpool.models.pretrained import load
from airpool.network import Network, NetworkError, scheme_rules
from airpool.network import file as network_file
from airpool.web import least
from airpool.web.applies import greyed
from airpool.web.asked import AskedError
from airpool.web.radio_knobs import KNOBS

Way = Literal["epsilon", "noise", "accuracy"]
WAYS: tuple[Way, ...] = get_args(Way)
EPSILON, ACCURACY, SHARE = 2.0, 0.9, 0.1
# Settings that are not of the network; those that only say what is looked at are passed over.
OWN, LOOK = ("way", "epsilon", "accuracy", "model", "codec", "share"), ("tab", "object", "seed", "trials")
# The most that the page computes in a few seconds; the command line goes on.
MOST = {"slots": 64, "inferences": 1_000_000, "server_antennas": 8, "antennas": 16}
_RANKED = 24  # devices, where expected participation takes an integral for each
_EPSILONS = 1e-3, 1e3
_MOST_TEXT = 16_000
_NOT_HERE = {"fading": ("sionna",)}


@dataclass(frozen=True, eq=False)
class AskedNetwork:
    """A network as it was asked for on the page.

    network: with the noise in force. bare: before its noise was found, which is the same for way "noise".
    source: name or file of the model. epsilon: the target, found or given; None for way "noise". accuracy: the target;
    None for the other ways.
    share: of the scores; None where there are none, or noise is given. given: the settings that apply, as values.
    greyed: the reasons of those that do not. notes: sentences about what was left out.
    """

    network: Network
    bare: Network
    model: Model
    source: str
    codec: str
    way: Way
    epsilon: float | None
    accuracy: float | None
    share: float | None
    given: Mapping[str, Any]
    greyed: Mapping[str, str]
    notes: tuple[str, ...] = field(default=())


def asked_network(settings: Mapping[str, Any], model: str = "modelnet40") -> AskedNetwork:
    """The network that the page's settings describe. model: the one in force where the settings name none.

    An error is an AskedError that names the setting at fault. Way "accuracy" searches, which takes seconds at first.
    """
    wanted = read(settings, model)
    if wanted.way == "noise":
        return wanted
    found = list(search(wanted))[-1][1] if wanted.epsilon is None else wanted.epsilon
    assert found is not None
    return with_epsilon(wanted, found)


def search(wanted: AskedNetwork) -> Iterator[tuple[float, float | None]]:
    """Steps of the search for the least ε: `least.search`."""
    assert wanted.accuracy is not None
    return least.search(wanted.bare, wanted.share, wanted.model, wanted.codec, accuracy=wanted.accuracy)


def with_epsilon(wanted: AskedNetwork, epsilon: float) -> AskedNetwork:
    """The same with the noise that meets an ε."""
    try:
        network = least.met(wanted.bare, epsilon, wanted.share)
    except ValueError as error:
        raise refused(error, wanted.way) from None
    return AskedNetwork(**(vars(wanted) | {"network": network, "epsilon": epsilon}))


def read(settings: Mapping[str, Any], model: str = "modelnet40") -> AskedNetwork:
    """The settings, checked, before any noise is searched for."""
    texts = tuple(sorted((name, _text(name, value)) for name, value in settings.items() if name not in LOOK))
    return _read(tuple((name, text) for name, text in texts if text), model)


@lru_cache(maxsize=256)
def _read(texts: tuple[tuple[str, str], ...], default: str) -> AskedNetwork:
    given = {name: _value(name, text) for name, text in texts}
    way: Way = given.get("way", "epsilon")
    if way not in WAYS:
        raise AskedError(f"way={way!r} must be one of {', '.join(WAYS)}", field="way")
    known = _model(given.get("model", default), default)
    codec, notes = given.get("codec", known.codecs[0]), list[str]()
    if codec not in known.codecs:
        if codec not in _shipped_codecs():
            raise AskedError(f"codec {codec!r} must be one of {', '.join(known.codecs)}", field="codec")
        notes.append(f"{given.get('model', default)} has no codec {codec}: {known.codecs[0]} is used.")
        codec = known.codecs[0]
    for name, most in MOST.items():
        if given.get(name, 1) > most:
            raise AskedError(f"{name}={given[name]} is too many for the page: at most {most:,} here", field=name)
    wanted = known.wanted(codec)
    try:
        cameras(count := given.get("devices", wanted["devices"]), known.num_devices)
    except ValueError as error:
        raise AskedError(str(error).removeprefix("num_"), field="devices") from None
    if given.get("scheme") == "2.2" and count > _RANKED:
        raise AskedError(f"devices={count} is too many with scheme 2.2: at most {_RANKED} here", field="devices")
    try:
        grey = greyed(given)
    except (KeyError, ValueError) as error:
        raise _first_of(given, error) from None
    applied = {name: value for name, value in given.items() if name not in grey or _profile(name, value)}
    left_out = [name for name in given if name not in (*applied, *OWN, "noise_std")]
    if given.get("scheme") == "2.2":
        applied.setdefault("num_selected", max(1, count - 1))  # as of the paper's 12
    if _profile("noise_std", applied.get("noise_std")) and way != "noise":
        notes.append("The noise keeps the proportions of the list that was given; its size is found.")
    share = _between("share", applied.get("share", SHARE)) if "share" not in grey else None
    bare = _network(wanted | {name: value for name, value in applied.items() if name in KEYS})
    return AskedNetwork(
        network=bare,
        bare=bare,
        model=known,
        source=given.get("model", default),
        codec=codec,
        way=way,
        epsilon=_target("epsilon", applied.get("epsilon", EPSILON)) if way == "epsilon" else None,
        accuracy=_between("accuracy", applied.get("accuracy", ACCURACY)) if way == "accuracy" else None,
        share=share,
        given=applied,
        greyed=grey,
        notes=(*notes, *(f"{name} is left out: {grey[name]}." for name in left_out)),
    )


def _profile(name: str, value: Any) -> bool:
    """Whether it is a list of the devices' noise, whose proportions hold where its size is searched for."""
    return name == "noise_std" and isinstance(value, list)


def _network(settings: Mapping[str, Any]) -> Network:
    data: dict[str, Any] = {"version": network_file.VERSION, "devices": {}}
    for name, value in settings.items():
        put(data, name, value)
    try:
        network = network_file.build(data)
    except ValueError as error:
        raise refused(error) from None
    if scheme_rules(network.scheme).scored and not network.neighbours.keeps_noise:
        raise AskedError("removal is accounted for with scheme 1 only: choose zero-out or replace", field="neighbours")
    return network


def _model(name: str, default: str) -> Model:
    if name != default and name not in stored.shipped():
        raise AskedError(f"model {name!r} must be one of {', '.join(stored.shipped())}", field="model")
    return loaded(name)


@lru_cache(maxsize=1)
def _shipped_codecs() -> frozenset[str]:
    return frozenset(codec for name in stored.shipped() for codec in stored.found(name).trunks)


@lru_cache(maxsize=4)
def loaded(name: str) -> Model:
    """A model, read once."""
    return load(name)


# Texts


def _text(name: Any, value: Any) -> str:
    if name not in KEYS and name not in OWN:
        raise AskedError(f"there is no setting {str(name)[:60]!r}", field=None)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and abs(value) < 1e300:
        return repr(value)
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise AskedError(f"{name} must be a text of at most {_MOST_TEXT:,} characters", field=name)
    return value.strip()


def _value(name: str, text: str) -> Any:
    """A text as the value of its setting."""
    knob = KNOBS[name]
    if knob.kind == "choice":
        if text.partition(":")[0] in _NOT_HERE.get(name, ()):
            raise AskedError(f"{name}={text[:60]!r} takes too long for the page: use the command line", field=name)
        return text
    if knob.kind == "switch":
        if text not in ("true", "false"):
            raise AskedError(f"{name}={text[:60]!r} must be true or false", field=name)
        return text == "true"
    if knob.kind == "whole":
        if not re.fullmatch(r"[+-]?[0-9]{1,12}", text):
            raise AskedError(f"{name}={text[:60]!r} must be a whole number", field=name)
        return int(text)
    if name == "gamma" and text == "auto":
        return text
    values = [_number(name, part) for part in text.split(",")]
    if len(values) > 1 and not knob.per_device:
        raise AskedError(f"{name}={text[:60]!r} must be one number", field=name)
    return values[0] if len(values) == 1 else values


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise AskedError(f"{name}={text[:60]!r} must be a number", field=name) from None


def text_of(value: Any) -> str:
    """A value as the text of its setting: equal devices as one number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return text_of(value[0]) if len(set(value)) == 1 else ",".join(map(text_of, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def values_of(network: Network) -> dict[str, Any]:
    """Every setting of a network by its name; those of another scheme are not among them."""
    found = dict[str, Any]()
    for name, (table, key) in KEYS.items():
        holder = getattr(network, table) if table else network
        if hasattr(holder, key):
            found[name] = getattr(holder, key)
    return found


def _target(name: str, value: float) -> float:
    low, high = _EPSILONS
    if not low <= value <= high:
        raise AskedError(f"{name}={value:g} must be from {low:g} to {high:g} here", field=name)
    return value


def _between(name: str, value: float) -> float:
    if not 0 < value < 1:
        raise AskedError(f"{name}={value:g} must be > 0 and < 1", field=name)
    return value


# Errors of the library


_NAMES = {(f"{table}." if table else "") + key: name for name, (table, key) in KEYS.items()}
_NAMES |= {"channel.access": "access", "access": "access", "power_dbm": "power_dbm", "gamma": "gamma"}


def refused(error: Exception, otherwise: str | None = None) -> AskedError:
    """An error of the library with the name that the page gives the setting. otherwise: where it names none."""
    text = str(error)
    found = re.match(r"(?:unknown key )?([a-z_]+(?:\.[a-z_]+)?)(?=[ =;]|$)", text)
    if found and (name := _NAMES.get(found[1])):
        return AskedError(name + text[found.end() :], field=name)
    return AskedError(text, field=otherwise)


def _first_of(given: Mapping[str, Any], error: Exception) -> AskedError:
    """The error of an access or a scheme that there is not."""
    if isinstance(error, NetworkError):
        return refused(error, "scheme")
    return AskedError(f"access={given['access'][:60]!r} must be one of superposed, orthogonal, secure", field="access")
