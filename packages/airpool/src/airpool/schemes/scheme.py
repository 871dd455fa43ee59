"""A scheme: who transmits, and how often. Its base class, and the open set of schemes by name.

    scheme = "2.1"                           a name
    scheme = "energy-aware:budget_mw=500"    a plug-in's name and its settings

airpool's own are coin.py, threshold.py and ranking.py. A plug-in's coins do not depend on the features
(docs/howto/plugins.md). What a scheme leaks is account/views.py, `in_one_use`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar

import numpy as np

from airpool._support.plugins import PluginError, Registry
from airpool._support.rules import NetworkError, PerDevice, checked, number_or_word, rules_of


@dataclass(frozen=True)
class Scheme(ABC):
    """Who transmits, as a frozen dataclass whose fields are its settings.

    A plug-in subclasses it and says how often each device transmits (`participation`), whatever its feature is. airpool
    tosses the coins; the probabilities become the network's `devices.participation`, which everything else reads.

    name: that it is registered by. assumption: a sentence of every report; "": none.

    >>> @dataclass(frozen=True)
    ... class Alternate(Scheme):
    ...     share: float = 0.5
    ...     name: ClassVar[str] = "alternate"
    ...     def participation(self, network):
    ...         return [1.0 if k % 2 else self.share for k in range(network.devices.count)]
    >>> from airpool import Network
    >>> scheme, network = Alternate(0.25), Network.uniform(num_devices=4)  # register it, and name it in a network
    >>> scheme.participation(network), scheme.check(network)
    ([0.25, 1.0, 0.25, 1.0], None)
    """

    name: ClassVar[str]
    assumption: ClassVar[str] = ""
    # Whether who transmits is independent of the features, by coins of probability `devices.participation`.
    independent: ClassVar[bool] = True
    # Whether a device decides by the posterior of its own classifier.
    needs_posteriors: ClassVar[bool] = False
    # Whether noisy scores leave the devices for a ranking server, which chooses.
    needs_ranking_server: ClassVar[bool] = False
    # Whether `devices.participation` is the scheme's to say, and no setting.
    sets_participation: ClassVar[bool] = True
    # How far the coin of a live device is from its probability.
    coin_bias: ClassVar[float] = 0.0
    # For choices: what it is called, and a sentence.
    title: ClassVar[str] = ""
    about: ClassVar[str] = ""

    @abstractmethod
    def participation(self, network: Any, /) -> Any:
        """How often each device transmits, (K,) in [0, 1]; None where that needs calibration data.

        network: what is public before any calibration: count, power and path loss of the devices, channel, dimension;
        everything else has its default. A function of that and of the settings alone: no clock, no battery, no draw.
        """

    def expected_participation(self, network: Any) -> PerDevice | None:
        """How often the devices of this network take part; None where that needs calibration data."""
        return network.devices.column("participation") if self.sets_participation else self.participation(network)

    def most_senders(self, network: Any) -> int:
        """The most devices that transmit at once."""
        return network.devices.count

    def check(self, network: Any) -> None:  # noqa: B027  (most fit every network)
        """Raises a NetworkError where the settings do not fit the network."""

    def require_coins(self, why: str) -> None:
        """Raises a ValueError that says why, unless who transmits is independent of the features."""
        if not self.independent:
            raise ValueError(why)

    @property
    def words(self) -> str:
        """A few words for a table."""
        return f"scheme {self.name}"

    def why_silent(self, participation: float, noisy_score: float | None) -> str:
        """A sentence: why a device of this participation, or of this noisy score, takes no part."""
        return f"It did not draw participation: its coin says yes with probability {participation:.3g}."

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Names of its settings, in a file and on the command line."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def unused(cls) -> dict[str, str]:
        """Settings of other schemes that play no part here, each with the reason."""
        found = dict.fromkeys((*scheme_settings(), "share"), "nobody is chosen by a score: schemes 2.1 and 2.2 do that")
        return found | ({"participation": f"the plug-in scheme {cls.name} sets it"} if cls.sets_participation else {})


SCHEMES: Registry[type[Scheme]] = Registry(
    what="scheme",
    group="airpool.schemes",
    builtin={
        "1": "airpool.schemes.coin:Coin",
        "2.1": "airpool.schemes.threshold:Threshold",
        "2.2": "airpool.schemes.ranking:Ranking",
    },
    needs=("name", "participation"),
)


def scheme_named(name: str) -> type[Scheme]:
    """The class of the scheme of this name."""
    try:
        return _checked(name, SCHEMES.get(name))
    except (PluginError, TypeError) as error:
        if name in SCHEMES.names():
            raise NetworkError(f"scheme.name={name!r}: {error}") from None
    known = ", ".join(SCHEMES.names())
    raise NetworkError(f"scheme.name={name!r} must be one of {known} or a plug-in's (airpool --plugin FILE.py)")


@cache
def _checked(name: str, kind: Any) -> type[Scheme]:
    if not (isinstance(kind, type) and issubclass(kind, Scheme) and "__dataclass_params__" in vars(kind)):
        wanted = "a frozen dataclass, whose fields are its settings, and a subclass of airpool.Scheme"
        raise PluginError(f"scheme {name!r} must be {wanted}")
    if name not in SCHEMES.builtin and not (kind.independent and kind.sets_participation):
        raise PluginError(f"scheme {name!r} must subclass airpool.Scheme itself: a plug-in's coins are its own")
    if fixed := {"independent", "sets_participation", "coin_bias"} & set(kind.options()):
        raise PluginError(f"scheme {name!r}: {sorted(fixed)[0]} is of the class, no setting: write it as a ClassVar")
    if not 0 <= kind.coin_bias <= 1:
        raise PluginError(f"scheme {name!r}: coin_bias={kind.coin_bias} must be between 0 and 1")
    if getattr(kind, "name", None) != name:
        raise PluginError(f"scheme {name!r}: its class must say name: ClassVar[str] = {name!r}")
    return kind


def require_registered(scheme: Any) -> None:
    """Raises a NetworkError unless a scheme's class is registered by its name."""
    if (name := getattr(scheme, "name", None)) is None or type(scheme) is not scheme_named(name):
        raise NetworkError(f"scheme={scheme!r} is not registered: airpool.register('scheme', NAME) its class")


@cache
def scheme_settings() -> dict[str, Any]:
    """The settings of airpool's own schemes, each with its rule."""
    return {setting: rule for name in SCHEMES.builtin for setting, rule in rules_of(SCHEMES.get(name)).items()}


def scheme_and_settings(text: str) -> tuple[type[Scheme], dict[str, Any]]:
    """The class of "name" or "name:key=value,key=value", and the settings that the text gives."""
    name, _, given = text.partition(":") if isinstance(text, str) else (text, "", "")
    kind, values = scheme_named(name), dict[str, Any]()
    for part in filter(None, given.split(",")):
        key, _, value = part.partition("=")
        if key not in kind.options():
            known = ", ".join(kind.options()) or "none"
            raise NetworkError(f"scheme.name={text!r} has no setting {key!r}; {name} has: {known}")
        values[key] = number_or_word(value)
    return kind, values


def named_scheme(name: str = "1", **settings: Any) -> Scheme:
    """A scheme by its name in a network file. Settings of the other schemes are checked and left out.

    >>> named_scheme("2.1", threshold=0.4, num_selected=3)
    Threshold(score='shannon', score_rule='clip', score_bound=1.0, score_noise_std=0.3162, threshold=0.4)
    """
    kind, given = scheme_and_settings(name)
    for setting, value in settings.items():
        if setting in scheme_settings():
            checked(f"scheme.{setting}", value, scheme_settings()[setting])
        elif setting not in kind.options():
            known = dict.fromkeys(("name", *kind.options(), *scheme_settings()))
            raise NetworkError(f"unknown key scheme.{setting}; known are {', '.join(known)}")
    own = {key: value for key, value in settings.items() if key in kind.options()}
    try:
        return kind(**own, **given)
    except NetworkError:
        raise
    except (TypeError, ValueError) as error:
        raise NetworkError(f"scheme.name={name!r}: {error}") from None


# By scheme and public network, the participation that a plug-in gave first.
_drawn: dict[tuple[Scheme, Any], PerDevice] = {}


def participation_of(scheme: Scheme, public: Any) -> PerDevice:
    """The participation that a plug-in has given for these settings and this network; an error where it now differs.

    public: the network as the plug-in sees it. Report, ledger, simulator and devices all go by what it gave first.
    """
    try:
        before = _drawn.get((scheme, public))
    except TypeError as error:
        raise NetworkError(f"scheme {scheme.name!r}: {error}; settings must be hashable (no lists)") from None
    if before is None:
        before = _drawn.setdefault((scheme, public), _probabilities(scheme, public))
    require_same_coins(scheme.name, before, _probabilities(scheme, public))
    return before


def require_same_coins(name: str, before: PerDevice, now: PerDevice) -> None:
    """Raises NetworkError unless a plug-in gives the participation that it gave before."""
    if before != now:
        k = next((k for k, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]), 0)
        raise NetworkError(
            f"scheme {name!r}: its participation(network) gave device {k} {before[k]} and now gives it "
            f"{now[k]}. It must be a function of its arguments alone (no clock, battery or random number): ε "
            "counts on the coins that were drawn first"
        )


def _probabilities(scheme: Scheme, public: Any) -> PerDevice:
    """The participation that a plug-in gives; an error that names it where that is none."""
    count, this = public.devices.count, f"scheme {scheme.name!r}: its participation(network)"
    try:
        found = np.array(scheme.participation(public), dtype=np.float64)
    except Exception as error:
        raise NetworkError(f"{this} fails: {type(error).__name__}: {error}") from error
    if found.shape != (count,):
        raise NetworkError(f"{this} gives shape {found.shape}, must be ({count},), one number for each device")
    if not np.all((found >= 0) & (found <= 1)):
        raise NetworkError(f"{this} gives {found.tolist()}, must be between 0 and 1")
    return tuple(found.tolist())
