"""Schemes by name: the open set that `scheme.name` names a member of, and the rules of each member.

    scheme = "2.1"                           a name
    scheme = "energy-aware:budget_mw=500"    a plug-in's name and its settings

Settings are plain frozen data (network.py). What follows from them is one `SchemeRules` for each scheme: airpool's are
in schemes/coin.py, threshold.py and ranking.py; those of a plug-in, whose coins do not depend on the features, are made
here (docs/howto/plugins.md). What a scheme leaks is account/games.py, `game`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from typing import Any, NoReturn, Protocol

import numpy as np

from airpool._support.arrays import Array, Floats
from airpool._support.plugins import PluginError, PluginOrigin, Registry
from airpool.network.rules import NetworkError, number_or_word


class PluginScheme(Protocol):
    """A scheme of a plug-in: a frozen dataclass whose fields are its settings.

    Each device transmits by a coin of its own that does not depend on the features, and that airpool tosses. The
    probabilities become the network's `devices.participation`, which everything else reads.

    >>> from typing import ClassVar
    >>> @dataclass(frozen=True)
    ... class Alternate:
    ...     share: float = 0.5
    ...     name: ClassVar[str] = "alternate"
    ...     def participation(self, network):
    ...         return [1.0 if k % 2 else self.share for k in range(network.devices.count)]
    >>> from airpool import Network
    >>> Alternate(0.25).participation(Network.uniform(num_devices=4))          # register it, and name it in a network
    [0.25, 1.0, 0.25, 1.0]
    """

    @property
    def name(self) -> str:
        """The name that it is registered by."""
        ...

    def participation(self, network: Any, /) -> Any:
        """Probability that each device transmits, (K,) in [0, 1].

        network: what is public before any calibration: count, power and path loss of the devices, channel, dimension;
        everything else has its default. A function of that and of the settings alone: no clock, no battery, no draw.
        """
        ...


def _no_scores(scheme: Any, scores: Any) -> NoReturn:
    raise ValueError(f"scheme {scheme.name} has no scores: a coin decides who transmits")


@dataclass(frozen=True, kw_only=True)
class SchemeRules:
    """The rules of one scheme.

    settings: its frozen dataclass. assumption: a sentence of every report; "": none.
    scored: devices are chosen by scores made of their features; else by coins of probability `devices.participation`.
    ranked: the noisy scores leave the devices, and a ranking server chooses; else each decides itself.
    expected: network → how often devices take part, (K,) or one number; None: calibration data is needed.
    participation: settings, bounded scores (..., K) → the probability of each device to take part.
    chosen: settings, noisy scores (..., K) → who takes part, for NumPy and torch.
    selects: settings → how many devices a ranking server selects; None where there is none.
    words: settings → a few words for a table. coin_bias: how far a live device's coin is from its probability.
    coins: settings, public network → the probabilities that become `devices.participation`; None: it is a setting.
    check: network → raises NetworkError where the settings do not fit it.
    """

    settings: type[Any]
    scored: bool = False
    ranked: bool = False
    assumption: str = ""
    expected: Callable[[Any], Any]
    participation: Callable[[Any, Floats], Floats] = _no_scores
    chosen: Callable[[Any, Array], Array] = _no_scores
    selects: Callable[[Any], int | None] = lambda scheme: None
    words: Callable[[Any], str]
    coins: Callable[[Any, Any], tuple[float, ...]] | None = None
    coin_bias: float = 0.0
    check: Callable[[Any], None] = lambda network: None

    @property
    def options(self) -> tuple[str, ...]:
        """Names of its settings, in a file and on the command line."""
        return tuple(field.name for field in fields(self.settings))


SCHEMES: Registry[Any] = Registry(
    what="scheme",
    group="airpool.schemes",
    builtin={
        "1": "airpool.schemes.coin:RULES",
        "2.1": "airpool.schemes.threshold:RULES",
        "2.2": "airpool.schemes.ranking:RULES",
    },
    needs=("name", "participation"),
)


def rules_named(name: str) -> SchemeRules:
    """The rules of the scheme of this name."""
    try:
        member = SCHEMES.get(name)
        return member if isinstance(member, SchemeRules) else _of_plugin(name, member)
    except (PluginError, TypeError) as error:
        if name in SCHEMES.names():
            raise NetworkError(f"scheme.name={name!r}: {error}") from None
    known = ", ".join(SCHEMES.names())
    raise NetworkError(f"scheme.name={name!r} must be one of {known} or a plug-in's (airpool --plugin FILE.py)")


def rules_and_settings(text: str) -> tuple[SchemeRules, dict[str, Any]]:
    """The rules of "name" or "name:key=value,key=value", and the settings that the text gives."""
    name, _, given = text.partition(":") if isinstance(text, str) else (text, "", "")
    rules, values = rules_named(name), dict[str, Any]()
    for part in filter(None, given.split(",")):
        key, _, value = part.partition("=")
        if key not in rules.options:
            known = ", ".join(rules.options) or "none"
            raise NetworkError(f"scheme.name={text!r} has no setting {key!r}; {name} has: {known}")
        values[key] = number_or_word(value)
    return rules, values


def scheme_rules(scheme: Any) -> SchemeRules:
    """The rules of a scheme, by its type; an error where it is none that is registered."""
    if (name := getattr(scheme, "name", None)) is not None:
        rules = rules_named(name)
        if type(scheme) is rules.settings:
            return rules
    raise NetworkError(f"scheme={scheme!r} is not registered: airpool.register('scheme', NAME) its class")


def scheme_origin(scheme: Any) -> PluginOrigin | None:
    """The plug-in that a scheme comes from; None for airpool's own."""
    return SCHEMES.origin(scheme.name)


@cache
def _of_plugin(name: str, kind: Any) -> SchemeRules:
    frozen = is_dataclass(kind) and getattr(kind, "__dataclass_params__").frozen  # noqa: B009
    if not isinstance(kind, type) or not frozen:
        raise PluginError(f"scheme {name!r} must be a frozen dataclass, whose fields are its settings")
    if getattr(kind, "name", None) != name:
        raise PluginError(f"scheme {name!r}: its class must say name: ClassVar[str] = {name!r}")
    return SchemeRules(
        settings=kind,
        coins=partial(_same_coins, {}),
        expected=lambda network: network.devices.participation,
        words=lambda scheme: f"scheme {name}",
    )


def _same_coins(drawn: dict[Any, tuple[float, ...]], scheme: PluginScheme, network: Any) -> tuple[float, ...]:
    """The participation that a plug-in has given for these settings and this network; an error where it now differs.

    drawn: by settings and network, what the plug-in gave first. Report, ledger, simulator and devices all go by that.
    """
    try:
        before = drawn.get((scheme, network))
    except TypeError as error:
        raise NetworkError(f"scheme {scheme.name!r}: {error}; settings must be hashable (no lists)") from None
    if before is None:
        before = drawn.setdefault((scheme, network), _probabilities(scheme, network))
    require_same_coins(scheme.name, before, _probabilities(scheme, network))
    return before


def require_same_coins(name: str, before: tuple[float, ...], now: tuple[float, ...]) -> None:
    """Raises NetworkError unless a plug-in gives the participation that it gave before."""
    if before != now:
        k = next((k for k, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]), 0)
        raise NetworkError(
            f"scheme {name!r}: its participation(network) gave device {k} {before[k]} and now gives it "
            f"{now[k]}. It must be a function of its arguments alone (no clock, battery or random number): ε "
            "counts on the coins that were drawn first"
        )


def _probabilities(scheme: PluginScheme, network: Any) -> tuple[float, ...]:
    """The participation that a plug-in gives; an error that names it where that is none."""
    count, this = network.devices.count, f"scheme {scheme.name!r}: its participation(network)"
    try:
        found = np.array(scheme.participation(network), dtype=np.float64)
    except Exception as error:
        raise NetworkError(f"{this} fails: {type(error).__name__}: {error}") from error
    if found.shape != (count,):
        raise NetworkError(f"{this} gives shape {found.shape}, must be ({count},), one number for each device")
    if not np.all((found >= 0) & (found <= 1)):
        raise NetworkError(f"{this} gives {found.tolist()}, must be between 0 and 1")
    return tuple(found.tolist())
