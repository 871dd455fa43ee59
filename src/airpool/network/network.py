"""A network: devices, channel and scheme as plain frozen data, checked once, when it is made.

    >>> net = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, participation=0.9, dimension=64)
    >>> net.devices.weight[0]
    0.08333333333333333

Every number has a range (`Rule`): wide enough for any use, narrow enough that no square, product or ratio overflows.
"""

import math
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal, Self

from airpool._support.brief import Brief
from airpool.network.access import ACCESSES, Access, AccessRules
from airpool.network.neighbours import Neighbours
from airpool.network.rules import NetworkError, PerDevice, Rule, check, checked, rules_of, whole
from airpool.network.scheme import PluginScheme, rules_and_settings, scheme_rules
from airpool.network.slots import Slots

PowerRule = Literal["truncate", "backoff", "paper", "exact"]
Symbols = Literal["complex", "real"]
Score = Literal["shannon", "min"]
ScoreRule = Literal["clip", "scale"]

# airpool's own; a plug-in adds others (network/fading.py).
FADING = ("none", "rician", "rayleigh", "nakagami:M", "log-normal:STD_DB", "sionna:MODEL")


def require_network(value: object) -> None:
    """Raises a TypeError unless `value` is a Network."""
    if not isinstance(value, Network):
        raise TypeError(f"network is of type {type(value).__name__}, must be a Network (read_network reads a file)")


_POSITIVE = Rule("must be > 0 and finite", lambda x: 0 < x < math.inf)
_NOT_NEGATIVE = Rule("must be >= 0 and finite", lambda x: 0 <= x < math.inf)
_PROBABILITY = Rule("must be between 0 and 1", lambda x: 0 <= x <= 1)
_BETWEEN = Rule("must be > 0 and < 1", lambda x: 0 < x < 1)
_FINITE = Rule("must be finite", math.isfinite)
# Features may be arbitrarily small; divisors may not. Noise has a wider range, for the factors that calibration tries.
_SIZE, _LENGTH = (rule._replace(most=1e30) for rule in (_NOT_NEGATIVE, _POSITIVE))
_SCALE, _ERROR = (rule._replace(least=1e-30, most=1e30) for rule in (_POSITIVE, _NOT_NEGATIVE))
_STD = _NOT_NEGATIVE._replace(least=1e-50, most=1e50)
_DECIBEL, _SCORE = _FINITE._replace(most=300.0), _FINITE._replace(most=1e30)
_MANY = range(1, 10**7 + 1)


@dataclass(frozen=True, repr=False)
class Devices(Brief):
    """One value per device; a single number stands for all of them.

    `noise_std` is a standard deviation per coordinate (the paper's σ² = 0.1 is a variance). `path_loss_db` is that of
    each link: its mean square gain is 10^(−path_loss_db/10). `epsilon` is an optional target for calibration and plans.
    """

    count: Annotated[int, _MANY]
    weight: Annotated[PerDevice | float | None, _SIZE] = None
    clip_norm: Annotated[PerDevice | float, _LENGTH] = 1.0
    noise_std: Annotated[PerDevice | float, _STD] = 0.05
    participation: Annotated[PerDevice | float, _PROBABILITY] = 1.0
    power_dbm: Annotated[PerDevice | float, _DECIBEL] = 30.0
    path_loss_db: Annotated[PerDevice | float, _DECIBEL] = 0.0
    epsilon: Annotated[PerDevice | float | None, _POSITIVE] = None

    def __post_init__(self) -> None:
        count = checked("devices.count", self.count, _MANY)
        if self.weight is None:
            object.__setattr__(self, "weight", 1 / count)
        check(self, "devices.", but=("epsilon",) if self.epsilon is None else (), count=count)

    def column(self, name: str) -> PerDevice:
        """A field as one value per device; the constructor has expanded single numbers."""
        return getattr(self, name)


@dataclass(frozen=True)
class Channel:
    """The channel from devices to server. `noise_std` is the receiver's, per real coordinate, in the unit of √mW.

    access: superposed (the radio adds up), orthogonal (one after the other), or secure: no radio at all, a secure sum
        over an ordinary network; power, path loss and outage play no part, and no other setting may be given.
    symbols: two real coordinates in each complex symbol, or one in each use; they differ where channels are not known
        exactly. csi_error_std: √E|e|² of the whole complex error. redrawn: gains and errors are new in every inference,
        else one draw serves all of them (a ledger counts how often it is drawn again). antennas: of the server, which
        receives by one public beam and keeps them all.
    """

    fading: str = "none"
    k_factor_db: Annotated[float, _DECIBEL] = 4.8
    noise_std: Annotated[float, _STD] = 0.0
    access: Access = "superposed"
    power_rule: PowerRule = "truncate"
    gamma: Annotated[float | Literal["auto"], _SCALE] = "auto"
    outage: Annotated[float, _BETWEEN._replace(least=1e-30)] = 0.01
    csi_error_std: Annotated[float, _ERROR] = 0.0
    phase_error_std: Annotated[float, _ERROR] = 0.0
    symbols: Symbols = "complex"
    redrawn: bool = True
    antennas: Annotated[int, range(1, 257)] = 1

    @property
    def rules(self) -> AccessRules:
        """The rules of its access."""
        return ACCESSES[self.access]

    @property
    def known(self) -> bool:
        """Whether devices know gains and phases exactly."""
        return not (self.csi_error_std or self.phase_error_std)

    def __post_init__(self) -> None:
        if self.fading not in ("none", "rician", "rayleigh"):  # the others have settings, or come from plug-ins
            from airpool.network.fading import law_named

            law_named(self.fading)
        check(self, "channel.", but=("gamma",) if self.gamma == "auto" else ())
        if not self.rules.radio:
            for name in ("fading", "noise_std", "power_rule", "gamma", "csi_error_std", "phase_error_std", "antennas"):
                if (value := getattr(self, name)) != (default := getattr(Channel, name)):
                    raise NetworkError(
                        f"channel.{name}={value!r} must be {default!r}: access = {self.access} has no radio"
                    )


@dataclass(frozen=True)
class Adversary:
    """An eavesdropper that is not at the server. antennas: its number of antennas; 0: its ε is not asked for."""

    antennas: Annotated[int, range(257)] = 0

    def __post_init__(self) -> None:
        check(self, "adversary.")


@dataclass(frozen=True)
class Coin:
    """Scheme 1: each device transmits with its own probability, `devices.participation`."""

    name: ClassVar[str] = "1"


@dataclass(frozen=True)
class _Scored:
    """Settings of the schemes with an uncertainty score in bits: how it is computed, bounded and noised."""

    score: Score = "shannon"
    score_rule: ScoreRule = "clip"
    score_bound: Annotated[float, _SCALE] = 1.0
    score_noise_std: Annotated[float, _STD] = 0.3162

    def __post_init__(self) -> None:
        check(self, "scheme.")


@dataclass(frozen=True)
class Threshold(_Scored):
    """Scheme 2.1: a device transmits if its own noisy score is at most the threshold."""

    threshold: Annotated[float, _SCORE] = 0.5
    name: ClassVar[str] = "2.1"


@dataclass(frozen=True)
class Ranking(_Scored):
    """Scheme 2.2: the devices with the lowest noisy scores transmit, chosen by a ranking server."""

    num_selected: Annotated[int, _MANY] = 11
    name: ClassVar[str] = "2.2"


Scored = Threshold | Ranking
Scheme = Coin | Scored | PluginScheme
_SCHEME_RULES = rules_of(Threshold) | rules_of(Ranking)
SCHEME_SETTINGS = tuple(_SCHEME_RULES)


def scored(scheme: Scheme) -> Scored:
    """The scheme, if devices are chosen by their scores; else an error."""
    if not isinstance(scheme, Scored):
        raise ValueError(f"scheme {scheme.name} has no scores: a coin decides who transmits")
    return scheme


def named_scheme(name: str = "1", **settings: Any) -> Scheme:
    """A scheme by its name in a network file. Settings of the other schemes are checked and left out.

    >>> named_scheme("2.1", threshold=0.4, num_selected=3)
    Threshold(score='shannon', score_rule='clip', score_bound=1.0, score_noise_std=0.3162, threshold=0.4)
    """
    rules, given = rules_and_settings(name)
    for setting, value in settings.items():
        if setting in _SCHEME_RULES:
            checked(f"scheme.{setting}", value, _SCHEME_RULES[setting])
        elif setting not in rules.options:
            known = dict.fromkeys(("name", *rules.options, *_SCHEME_RULES))
            raise NetworkError(f"unknown key scheme.{setting}; known are {', '.join(known)}")
    own = {key: value for key, value in settings.items() if key in rules.options}
    try:
        return rules.settings(**own, **given)
    except NetworkError:
        raise
    except (TypeError, ValueError) as error:
        raise NetworkError(f"scheme.name={name!r}: {error}") from None


@dataclass(frozen=True, repr=False)
class Network(Brief):
    """Everything that determines leakage and accuracy; `colluders` and `dropouts` are numbers of devices.

    Secure access implies cover noise. Its sum is opened for `survivors` devices or more, which must be more than half
    of all devices and colluders: else a server could have two sums opened. The scheme of a plug-in sets the devices'
    participation.
    """

    devices: Devices
    channel: Channel = field(default_factory=Channel)
    scheme: Scheme = field(default_factory=Coin)
    adversary: Adversary = field(default_factory=Adversary)
    slots: Slots = field(default_factory=Slots)
    dimension: Annotated[int, range(1, 10**9 + 1)] = 64
    delta: Annotated[float, _BETWEEN._replace(least=1e-300)] = 1e-5
    neighbours: Neighbours = Neighbours.ZERO_OUT
    cover_noise: bool = False
    colluders: int = 0
    dropouts: int = 0
    inferences: Annotated[int, range(1, 10**12 + 1)] = 1

    def __post_init__(self) -> None:
        check(self)
        limit = self.devices.count - 1
        for name in ("colluders", "dropouts"):
            allowed = f"must be a whole number from 0 to {limit}"
            whole(name, getattr(self, name), least=0, most=limit, allowed=allowed)
        rules = scheme_rules(self.scheme)
        rules.check(self)
        if rules.coins is not None:
            d = self.devices
            public = Devices(count=d.count, power_dbm=d.power_dbm, path_loss_db=d.path_loss_db)
            p = rules.coins(self.scheme, Network(public, self.channel, dimension=self.dimension))
            object.__setattr__(self, "devices", replace(d, participation=p))
        access = self.channel.rules
        access.check(self)
        object.__setattr__(self, "cover_noise", self.cover_noise or access.cover_noise)

    def _repr_html_(self) -> str:
        return import_module("airpool.network.in_words").html(self)

    @property
    def survivors(self) -> int:
        """Least number of devices that are left: all but the dropouts."""
        return self.devices.count - self.dropouts

    @property
    def uses(self) -> int:
        """Uses of the mechanism that ε composes: every slot, or every inference where one draw serves its slots."""
        return self.inferences * (self.slots.count if self.slots.redrawn else 1)

    @property
    def one_slot(self) -> "Network":
        """The network of a single slot, which devices, medium and ledger go by."""
        return self if self.slots == Slots() else replace(self, slots=Slots())

    @property
    def coordinates(self) -> int:
        """Real coordinates that a device sends: r; r + 1 where a symbol that may be turned has room for one more."""
        several = self.channel.antennas > 1 or self.adversary.antennas > 0
        padded = self.channel.symbols == "complex" and (several or not self.channel.known)
        return self.dimension + self.dimension % 2 if padded else self.dimension

    @classmethod
    def uniform(cls, *, num_devices: int, **settings: Any) -> Self:
        """A network of identical devices. settings: any other fields of Devices and of Network.

        >>> Network.uniform(num_devices=2, path_loss_db=3, epsilon=2.0, delta=1e-6).devices.epsilon
        (2.0, 2.0)
        """
        of_devices = {each.name for each in fields(Devices)} - {"count"}
        known = of_devices | {each.name for each in fields(cls)} - {"devices"}
        for name in settings:
            if name not in known:
                raise TypeError(f"Network.uniform has no setting {name!r}; it has {', '.join(sorted(known))}")
        devices = Devices(num_devices, **{name: settings.pop(name) for name in of_devices & settings.keys()})
        return cls(devices, **settings)

    @classmethod
    def paper(cls) -> Self:
        """The paper's own defaults: K = 12, C = 100, σ² = 0.1, p = 0.9, w = 1/12, γ = 1 (theory/air.md), q = 16."""
        return cls.uniform(
            num_devices=12,
            clip_norm=100.0,
            noise_std=math.sqrt(0.1),
            participation=0.9,
            dimension=16 * 49,
            channel=Channel(noise_std=math.sqrt(0.1), gamma=1.0),
        )
