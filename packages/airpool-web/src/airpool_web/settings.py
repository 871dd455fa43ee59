"""The page's settings, a flat table of texts, as a checked network: `asked_network`.

Names are those of the command line's options, with _ for -. Besides them: `way` (which number is asked for: epsilon,
noise or accuracy), `epsilon`, `accuracy`, `model`, `codec` and `share`. What does not apply is greyed
on the page and left out of the network: `greyed` decides both, so that a grey control never changes a number.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil, floor, log10
from typing import Any, Literal, get_args

from airpool.account.calibration import calibrate
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import held_out
from airpool.evaluation.settings import KEYS, default_of, put
from airpool.models import stored
from airpool.models.cameras import cameras
from airpool.models.model import Model
from airpool.models.pretrained import load
from airpool.network import ACCESSES, Claim, Network, NetworkError
from airpool.network import file as network_file
from airpool.schemes.scheme import scheme_and_settings
from airpool_web.asked import AskedError
from airpool_web.knobs import KNOBS, text_of

# The grid of the search for an ε, and what is drawn at each step.
_TRIALS, _SEED = 3, 0
_STEPS = 48  # of ε in a factor of ten: 4.9 % each
FIRST, LAST = ceil(log10(0.02) * _STEPS), floor(log10(50) * _STEPS)


def grid(step: int) -> float:
    """ε of a step, rounded to three digits."""
    return float(f"{10 ** (step / _STEPS):.3g}")


@lru_cache(maxsize=256)
def met(bare: Network, claim: Claim, epsilon: float, share: float | None) -> Network:
    """The network with the least noise that meets an ε."""
    return calibrate(bare, claim, epsilon=epsilon, share=share)


@lru_cache(maxsize=1024)
def validated(bare: Network, claim: Claim, share: float | None, model: Model, codec: str, epsilon: float) -> float:
    """Accuracy on the validation objects with the least noise that meets ε; 0 where none does."""
    try:
        network = met(bare, claim, epsilon, share)
    except ValueError:
        return 0.0
    objects = held_out(model, network, codec=codec, split="validation", unseen=True)
    return evaluate(objects, network, claim, trials=_TRIALS, seed=_SEED).accuracy_mean


SLOTS = ("sure", "slots_redrawn", "abstain")
RADIO = (
    *("fading", "k_factor_db", "receiver_noise_std", "power_dbm", "path_loss_db", "power_rule", "gamma", "outage"),
    *("csi_error_std", "phase_error_std", "redrawn", "server_antennas", "antennas", "knows_answer"),
)
_FOUND_FROM = {
    "epsilon": "found from the target ε: the least noise that meets it",
    "accuracy": "found from the target accuracy: the least ε that reaches it",
}


def greyed(given: Mapping[str, Any]) -> dict[str, str]:
    """Name → reason, for every setting that does not apply to what is given; what is left out has its default."""

    def get(name: str, default: Any) -> Any:
        return given.get(name, default)

    found = {"dimension": "the codec sets the length of what a device sends"}
    way, access = get("way", "epsilon"), ACCESSES[get("access", "superposed")]
    scheme, p = scheme_and_settings(get("scheme", "1"))[0], get("participation", 1.0)
    if way != "noise":
        found["noise_std"] = _FOUND_FROM[way]
    if way != "epsilon":
        found["epsilon"] = "it follows from the noise" if way == "noise" else _FOUND_FROM["accuracy"]
    if way != "accuracy":
        found["accuracy"] = "it follows: choose “an accuracy” to ask for one"
    found |= scheme.unused()
    if "share" not in found and way == "noise":
        found["share"] = "both noises are given: ε is not shared out"
    elif "share" not in found:
        found["score_noise_std"] = "found from the score's share of ε"
    if get("slots", 1) == 1:
        found |= dict.fromkeys(SLOTS, "an inference is one slot: allow more slots first")
    if get("fading", "none") != "rician":
        found["k_factor_db"] = "only Rician fading has a K factor"
    if get("fading", "none") == "none":
        found["outage"] = "without fading no device is ever too weak"
    if get("gamma", "auto") != "auto":
        found["outage"] = "γ is given, and the outage follows from it"
    if get("slots", 1) * get("inferences", 1) == 1:
        found["redrawn"] = "it matters over several inferences or slots"
    if get("antennas", 0) == 0:
        found["knows_answer"] = "nobody listens elsewhere: set the eavesdropper's antennas first"
    if not access.radio:
        found |= dict.fromkeys(RADIO, "a secure sum has no radio")
        found["cover_noise"] = "in a secure sum every device always adds its noise"
    elif "participation" not in found and set(p if isinstance(p, list) else [p]) == {1}:
        found["cover_noise"] = "every device takes part every time, so nobody is silent by choice"
    return found


Way = Literal["epsilon", "noise", "accuracy"]
WAYS: tuple[Way, ...] = get_args(Way)
EPSILON, ACCURACY, SHARE = 2.0, 0.9, 0.1
# Settings that are neither of the network nor of the claim; those that only say what is looked at are passed over.
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
    claim: what its ε is about. source: name or file of the model. epsilon: the target, found or given; None for way
    "noise". accuracy: the target; None for the other ways.
    share: of the scores; None where there are none, or noise is given. given: the settings that apply, as values.
    greyed: the reasons of those that do not. notes: sentences about what was left out.
    """

    network: Network
    bare: Network
    claim: Claim
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
    """Steps of the search for the least ε whose accuracy reaches the target, on the validation objects.

    Each is the progress from 0 to 1, and at the last step the ε; an error where none reaches it. The steps lie on a
    grid of ε and draw the same noise at each, so that accuracy rises with ε up to little; what was simulated for one
    target serves the next. The test objects are not looked at.
    """
    target = wanted.accuracy
    assert target is not None

    def reached(step: int) -> float:
        return validated(wanted.bare, wanted.claim, wanted.share, wanted.model, wanted.codec, grid(step))

    low, high = FIRST - 1, LAST
    yield 0.0, None
    if (best := reached(high)) < target:
        raise AskedError(
            f"accuracy={target:g} is not reached: even ε = {grid(high):g} gives {best:.3f} on the validation "
            "objects. Ask for less, or change the network",
            field="accuracy",
        )
    first = high - low
    while high - low > 1:
        yield 1 - (high - low) / first, None
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) >= target else (middle, high)
    yield 1.0, grid(high)


def with_epsilon(wanted: AskedNetwork, epsilon: float) -> AskedNetwork:
    """The same with the noise that meets an ε."""
    try:
        network = met(wanted.bare, wanted.claim, epsilon, wanted.share)
    except ValueError as error:
        raise refused(error, wanted.way) from None
    return replace(wanted, network=network, epsilon=epsilon)


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
    try:
        grey = greyed(given)
    except (KeyError, ValueError) as error:
        raise _first_of(given, error) from None
    applied = {name: value for name, value in given.items() if name not in grey or _profile(name, value)}
    left_out = [name for name in given if name not in (*applied, *OWN, "noise_std")]
    if "num_selected" not in grey:
        if count > _RANKED:
            raise AskedError(f"devices={count} is too many with scheme 2.2: at most {_RANKED} here", field="devices")
        applied.setdefault("num_selected", max(1, count - 1))  # as of the paper's 12
    if _profile("noise_std", applied.get("noise_std")) and way != "noise":
        notes.append("The noise keeps the proportions of the list that was given; its size is found.")
    share = _between("share", applied.get("share", SHARE)) if "share" not in grey else None
    bare, claim = _described(wanted | {name: value for name, value in applied.items() if name in KEYS})
    return AskedNetwork(
        network=bare,
        bare=bare,
        claim=claim,
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


def _described(settings: Mapping[str, Any]) -> tuple[Network, Claim]:
    """The network and the claim of settings; an AskedError where they do not go together."""
    data: dict[str, Any] = {"version": network_file.VERSION, "devices": {}}
    for name, value in settings.items():
        put(data, name, value)
    try:
        network, claim = network_file.build(data), network_file.build_claim(data)
    except ValueError as error:
        raise refused(error) from None
    if not network.scheme.independent and not claim.neighbours.keeps_noise:
        raise AskedError("removal is accounted for with scheme 1 only: choose zero-out or replace", field="neighbours")
    return network, claim


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
    if name not in KNOBS:
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


def values_of(network: Network, claim: Claim) -> dict[str, Any]:
    """The page's settings of a network and its claim by name; those of another scheme are not among them."""
    found = dict[str, Any]()
    for name, (table, key) in KEYS.items():
        holder = claim if table == "claim" else getattr(network, table) if table else network
        if name in KNOBS and hasattr(holder, key):
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
_NAMES |= {key: name for name, (table, key) in KEYS.items() if table == "claim"}
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


def flat(network: Network, claim: Claim, *, model: str, codec: str) -> dict[str, str]:
    """Settings of a network and its claim with the noise as it is; what has its default is left out.

    Holds for: networks that `model` and `codec` fit; targets of ε are no settings.

    >>> flat(Network.uniform(num_devices=2, noise_std=(0.1, 0.2)), Claim(), model="modelnet40", codec="vote")
    {'model': 'modelnet40', 'codec': 'vote', 'way': 'noise', 'devices': '2', 'noise_std': '0.1,0.2'}
    """
    left_out = {"dimension"}  # the codec's
    if network.scheme.sets_participation:
        left_out.add("participation")  # the scheme's
    found = {"model": model, "codec": codec, "way": "noise"}
    for name, value in values_of(network, claim).items():
        always = name in ("devices", "noise_std")
        if always or not (value is None or name in left_out or _usual(network, name, value)):
            found[name] = text_of(value)
    return found


def _usual(network: Network, name: str, value: Any) -> bool:
    """Whether a setting has its default; weights have 1/K."""
    usual = 1 / network.devices.count if name == "weight" else default_of(name)
    return value == usual or (isinstance(value, tuple) and set(value) == {usual})
