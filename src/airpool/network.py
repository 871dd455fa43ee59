"""A network: devices, channel and scheme as plain frozen data, checked once, when it is made.

    >>> net = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, participation=0.9, dimension=64)
    >>> net.devices.weight[0]
    0.08333333333333333

Every number has a range (`Rule`), wide enough for any use and narrow enough that no square, product or ratio overflows:
a network that can be made has an ε, a number or inf. The file format is network_file.py.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

Neighbours = Literal["zero-out", "replace", "remove"]
Access = Literal["superposed", "orthogonal"]
PowerRule = Literal["truncate", "backoff", "paper", "exact"]
SchemeName = Literal["1", "2.1", "2.2"]
Score = Literal["shannon", "min"]
ScoreRule = Literal["clip", "scale"]

FADING = ("none", "rician", "rayleigh")


class NetworkError(ValueError):
    """A value that a network cannot have; the message names the field, the value and what is allowed."""


PerDevice = tuple[float, ...]
_LARGEST_INT = 10**300  # that a float can hold


class Rule(NamedTuple):
    """What a number must be, in words and as a test; and, unless it is 0, how small and how large it may be."""

    allowed: str
    ok: Callable[[float], bool]
    least: float = 0.0
    most: float = math.inf


def _number(where: str, value: Any, rule: Rule) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NetworkError(f"{where}={value!r} must be a number")
    if isinstance(value, int) and abs(value) > _LARGEST_INT:
        raise NetworkError(f"{where} has more than 300 digits, must be at most {min(rule.most, 1e300):g}")
    if math.isnan(value) or not rule.ok(float(value)):
        raise NetworkError(f"{where}={value} {rule.allowed}")
    if abs(value) > rule.most:
        below = f"from {-rule.most:g} to" if rule.ok(-1.0) else "at most"
        raise NetworkError(f"{where}={value} is too large: it must be {below} {rule.most:g}")
    if 0 < abs(value) < rule.least:
        raise NetworkError(f"{where}={value} is too small: it must be {'0 or ' * rule.ok(0.0)}at least {rule.least:g}")
    return float(value)


def _per_device(name: str, value: Any, count: int, rule: Rule) -> PerDevice:
    """One value for each device from a number, which stands for all, or from a sequence."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (_number(name, value, rule),) * count
    values: list[Any] = [v.item() if hasattr(v, "item") else v for v in value]
    if len(values) != count:
        raise NetworkError(f"{name} has {len(values)} values for {count} devices; give one number or {count}")
    return tuple(_number(f"{name} of device {k}", v, rule) for k, v in enumerate(values))


def _whole(where: str, value: Any, allowed: str, ok: Callable[[int], bool], most: int = 10**7) -> int:
    if isinstance(value, int) and abs(value) > _LARGEST_INT:
        raise NetworkError(f"{where} has more than 300 digits, must be at most {most}")
    if isinstance(value, bool) or not isinstance(value, int) or not ok(value):
        raise NetworkError(f"{where}={value!r} {allowed}")
    if value > most:
        raise NetworkError(f"{where}={value} is too large: it must be at most {most}")
    return value


def _choice(where: str, value: Any, options: Sequence[str]) -> None:
    if value not in options:
        raise NetworkError(f"{where}={value!r} must be one of {', '.join(options)}")


def require_network(value: object) -> None:
    """An error that says what to do, where anything but a network was given."""
    if not isinstance(value, Network):
        raise TypeError(f"network is of type {type(value).__name__}, must be a Network (read_network reads a file)")


def _set(obj: Any, **values: Any) -> None:
    """Frozen dataclasses normalise their fields once, in __post_init__."""
    for name, value in values.items():
        object.__setattr__(obj, name, value)


_POSITIVE = Rule("must be > 0 and finite", lambda x: 0 < x < math.inf)
_NOT_NEGATIVE = Rule("must be >= 0 and finite", lambda x: 0 <= x < math.inf)
_PROBABILITY = Rule("must be between 0 and 1", lambda x: 0 <= x <= 1)
_BETWEEN = Rule("must be > 0 and < 1", lambda x: 0 < x < 1)
_FINITE = Rule("must be finite", math.isfinite)
# A feature may be as small as it likes; what divides may not. Noise has room for the factors that calibration tries.
_SIZE, _LENGTH = (rule._replace(most=1e30) for rule in (_NOT_NEGATIVE, _POSITIVE))
_SCALE, _ERROR = (rule._replace(least=1e-30, most=1e30) for rule in (_POSITIVE, _NOT_NEGATIVE))
_STD = _NOT_NEGATIVE._replace(least=1e-50, most=1e50)
_DECIBEL, _SCORE = _FINITE._replace(most=300.0), _FINITE._replace(most=1e30)


@dataclass(frozen=True)
class Devices:
    """One value per device; a single number stands for all of them.

    `noise_std` is a standard deviation per coordinate (the paper's σ² = 0.1 is a variance); `epsilon` is an optional
    target for calibration and planning.
    """

    count: int
    weight: PerDevice | float | None = None
    clip_norm: PerDevice | float = 1.0
    noise_std: PerDevice | float = 0.05
    participation: PerDevice | float = 1.0
    power_dbm: PerDevice | float = 30.0
    epsilon: PerDevice | float | None = None

    def __post_init__(self) -> None:
        count = _whole("devices.count", self.count, "must be a whole number >= 1", lambda n: n >= 1)

        def column(name: str, rule: Rule) -> PerDevice:
            return _per_device(f"devices.{name}", getattr(self, name), count, rule)

        _set(
            self,
            weight=(1 / count,) * count if self.weight is None else column("weight", _SIZE),
            clip_norm=column("clip_norm", _LENGTH),
            noise_std=column("noise_std", _STD),
            participation=column("participation", _PROBABILITY),
            power_dbm=column("power_dbm", _DECIBEL),
            epsilon=None if self.epsilon is None else column("epsilon", _POSITIVE),
        )

    def column(self, name: str) -> PerDevice:
        """A field as one value per device, which it always is once the devices are made."""
        return getattr(self, name)


@dataclass(frozen=True)
class Channel:
    """How the signals reach the server. `noise_std` is the receiver's, per real coordinate, in the unit of √mW."""

    fading: str = "none"
    k_factor_db: float = 4.8
    noise_std: float = 0.0
    access: Access = "superposed"
    power_rule: PowerRule = "truncate"
    gamma: float | Literal["auto"] = "auto"
    outage: float = 0.01
    csi_error_std: float = 0.0
    phase_error_std: float = 0.0

    def __post_init__(self) -> None:
        if not (self.fading in FADING or str(self.fading).startswith("sionna:")):
            raise NetworkError(f"channel.fading={self.fading!r} must be one of {', '.join(FADING)} or sionna:MODEL")
        _choice("channel.access", self.access, get_args(Access))
        _choice("channel.power_rule", self.power_rule, get_args(PowerRule))
        _set(
            self,
            k_factor_db=_number("channel.k_factor_db", self.k_factor_db, _DECIBEL),
            noise_std=_number("channel.noise_std", self.noise_std, _STD),
            gamma="auto" if self.gamma == "auto" else _number("channel.gamma", self.gamma, _SCALE),
            outage=_number("channel.outage", self.outage, _BETWEEN._replace(least=1e-30)),
            csi_error_std=_number("channel.csi_error_std", self.csi_error_std, _ERROR),
            phase_error_std=_number("channel.phase_error_std", self.phase_error_std, _ERROR),
        )


@dataclass(frozen=True)
class Coin:
    """Scheme 1: each device transmits with its own probability, `devices.participation`."""

    name: ClassVar[SchemeName] = "1"


@dataclass(frozen=True)
class _Scored:
    """What schemes share that go by an uncertainty score in bits: how it is computed, bounded and made noisy."""

    score: Score = "shannon"
    score_rule: ScoreRule = "clip"
    score_bound: float = 1.0
    score_noise_std: float = 0.3162

    def __post_init__(self) -> None:
        for name in ("score", "score_rule"):
            _choice(f"scheme.{name}", getattr(self, name), _SCHEME_CHOICES[name])
        for name in ("score_bound", "score_noise_std"):
            _set(self, **{name: _scheme_number(name, getattr(self, name))})


@dataclass(frozen=True)
class Threshold(_Scored):
    """Scheme 2.1: a device transmits if its own noisy score is at most the threshold."""

    threshold: float = 0.5
    name: ClassVar[SchemeName] = "2.1"

    def __post_init__(self) -> None:
        super().__post_init__()
        _set(self, threshold=_scheme_number("threshold", self.threshold))


@dataclass(frozen=True)
class Ranking(_Scored):
    """Scheme 2.2: the devices with the lowest noisy scores transmit, chosen by a ranking server."""

    num_selected: int = 11
    name: ClassVar[SchemeName] = "2.2"

    def __post_init__(self) -> None:
        super().__post_init__()
        _set(self, num_selected=_scheme_number("num_selected", self.num_selected))


Scored = Threshold | Ranking
Scheme = Coin | Threshold | Ranking
SCHEMES: dict[str, type[Coin | Threshold | Ranking]] = {kind.name: kind for kind in (Coin, Threshold, Ranking)}
_SCHEME_CHOICES = {"score": get_args(Score), "score_rule": get_args(ScoreRule)}
_SCHEME_RULES = {"score_bound": _SCALE, "score_noise_std": _STD, "threshold": _SCORE}
SCHEME_SETTINGS = (*_SCHEME_CHOICES, *_SCHEME_RULES, "num_selected")


def scored(scheme: Scheme) -> Scored:
    """The scheme, if devices are chosen by their scores; else an error."""
    if isinstance(scheme, Coin):
        raise ValueError("scheme 1 has no scores: a coin decides who transmits")
    return scheme


def named_scheme(name: str = "1", **settings: Any) -> Scheme:
    """A scheme by its name in a network file. Settings of the other schemes are checked and left out.

    >>> named_scheme("2.1", threshold=0.4, num_selected=3)
    Threshold(score='shannon', score_rule='clip', score_bound=1.0, score_noise_std=0.3162, threshold=0.4)
    """
    _choice("scheme.name", name, tuple(SCHEMES))
    for setting, value in settings.items():
        if setting in _SCHEME_CHOICES:
            _choice(f"scheme.{setting}", value, _SCHEME_CHOICES[setting])
        else:
            _scheme_number(setting, value)
    kind = SCHEMES[name]
    return kind(**{key: value for key, value in settings.items() if key in {f.name for f in fields(kind)}})


def _scheme_number(name: str, value: Any) -> Any:
    if name == "num_selected":
        return _whole("scheme.num_selected", value, "must be a whole number >= 1", lambda n: n >= 1)
    return _number(f"scheme.{name}", value, _SCHEME_RULES[name])


@dataclass(frozen=True)
class Network:
    """Everything that decides what is leaked and what is heard; `colluders` and `dropouts` are numbers of devices."""

    devices: Devices
    channel: Channel = field(default_factory=Channel)
    scheme: Scheme = field(default_factory=Coin)
    dimension: int = 64
    delta: float = 1e-5
    neighbours: Neighbours = "zero-out"
    cover_noise: bool = False
    colluders: int = 0
    dropouts: int = 0
    inferences: int = 1

    def __post_init__(self) -> None:
        _whole("dimension", self.dimension, "must be a whole number >= 1", lambda n: n >= 1, most=10**9)
        _choice("neighbours", self.neighbours, get_args(Neighbours))
        if not isinstance(self.cover_noise, bool):
            raise NetworkError(f"cover_noise={self.cover_noise!r} must be true or false")
        limit = self.devices.count - 1
        for name in ("colluders", "dropouts"):
            _whole(name, getattr(self, name), f"must be a whole number from 0 to {limit}", lambda n: 0 <= n <= limit)
        _whole("inferences", self.inferences, "must be a whole number >= 1", lambda n: n >= 1, most=10**12)
        _set(self, delta=_number("delta", self.delta, _BETWEEN._replace(least=1e-300)))
        if isinstance(self.scheme, Ranking) and self.scheme.num_selected > self.devices.count:
            raise NetworkError(
                f"scheme.num_selected={self.scheme.num_selected} must not exceed the {self.devices.count} devices"
            )

    @classmethod
    def uniform(
        cls,
        *,
        num_devices: int,
        clip_norm: float = 1.0,
        noise_std: float = 0.05,
        participation: float = 1.0,
        weight: float | None = None,
        power_dbm: float = 30.0,
        **rest: Any,
    ) -> Self:
        """A network of like devices; `rest` are the other fields of Network."""
        devices = Devices(
            count=num_devices,
            weight=weight,
            clip_norm=clip_norm,
            noise_std=noise_std,
            participation=participation,
            power_dbm=power_dbm,
        )
        return cls(devices=devices, **rest)

    @classmethod
    def paper(cls) -> Self:
        """The paper's own defaults: K = 12, C = 100, σ² = 0.1, p = 0.9, w = 1/12, γ = 1 (spec §2), q = 16."""
        return cls.uniform(
            num_devices=12,
            clip_norm=100.0,
            noise_std=math.sqrt(0.1),
            participation=0.9,
            dimension=16 * 49,
            channel=Channel(noise_std=math.sqrt(0.1), gamma=1.0),
        )
