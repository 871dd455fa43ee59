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
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_args, get_origin, get_type_hints

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
_LARGEST_INT = 10**300  # well within the range of a float


class Rule(NamedTuple):
    """A check of a number: the text of its error, the test, and the magnitudes allowed for values other than 0."""

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


def _whole(where: str, value: Any, *, least: int = 1, most: int, allowed: str = "") -> int:
    if isinstance(value, int) and abs(value) > _LARGEST_INT:
        raise NetworkError(f"{where} has more than 300 digits, must be at most {most}")
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (allowed and value > most):
        raise NetworkError(f"{where}={value!r} {allowed or f'must be a whole number >= {least}'}")
    if value > most:
        raise NetworkError(f"{where}={value} is too large: it must be at most {most}")
    return value


def _checked(where: str, value: Any, rule: Rule | range | Sequence[str], count: int | None = None) -> Any:
    """The checked value: a number (with `count`, one per device), a whole number within a range, or a listed word."""
    if isinstance(rule, Rule):
        return _number(where, value, rule) if count is None else _per_device(where, value, count, rule)
    if isinstance(rule, range):
        return _whole(where, value, least=rule[0], most=rule[-1])
    if value not in rule:
        raise NetworkError(f"{where}={value!r} must be one of {', '.join(rule)}")
    return value


def require_network(value: object) -> None:
    """Raises a TypeError unless `value` is a Network."""
    if not isinstance(value, Network):
        raise TypeError(f"network is of type {type(value).__name__}, must be a Network (read_network reads a file)")


@cache
def _rules(kind: type) -> dict[str, Any]:
    """The rules of a class's fields: what they are annotated with, or the words of a Literal."""
    hints = get_type_hints(kind, include_extras=True)
    annotated = {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}
    return annotated | {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


def _check(obj: Any, where: str = "", *, but: Sequence[str] = (), count: int | None = None) -> None:
    """Checks the fields that have a rule and stores numbers as floats; with a count, one per device."""
    for name, rule in _rules(type(obj)).items():
        if name not in but:
            object.__setattr__(obj, name, _checked(f"{where}{name}", getattr(obj, name), rule, count))


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


@dataclass(frozen=True)
class Devices:
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
        count = _checked("devices.count", self.count, _MANY)
        if self.weight is None:
            object.__setattr__(self, "weight", 1 / count)
        _check(self, "devices.", but=("epsilon",) if self.epsilon is None else (), count=count)

    def column(self, name: str) -> PerDevice:
        """A field as one value per device; the constructor has expanded single numbers."""
        return getattr(self, name)


@dataclass(frozen=True)
class Channel:
    """How the signals reach the server. `noise_std` is the receiver's, per real coordinate, in the unit of √mW."""

    fading: str = "none"
    k_factor_db: Annotated[float, _DECIBEL] = 4.8
    noise_std: Annotated[float, _STD] = 0.0
    access: Access = "superposed"
    power_rule: PowerRule = "truncate"
    gamma: Annotated[float | Literal["auto"], _SCALE] = "auto"
    outage: Annotated[float, _BETWEEN._replace(least=1e-30)] = 0.01
    csi_error_std: Annotated[float, _ERROR] = 0.0
    phase_error_std: Annotated[float, _ERROR] = 0.0

    def __post_init__(self) -> None:
        if not (self.fading in FADING or str(self.fading).startswith("sionna:")):
            raise NetworkError(f"channel.fading={self.fading!r} must be one of {', '.join(FADING)} or sionna:MODEL")
        _check(self, "channel.", but=("gamma",) if self.gamma == "auto" else ())


@dataclass(frozen=True)
class Coin:
    """Scheme 1: each device transmits with its own probability, `devices.participation`."""

    name: ClassVar[SchemeName] = "1"


@dataclass(frozen=True)
class _Scored:
    """Settings of the schemes with an uncertainty score in bits: how it is computed, bounded and noised."""

    score: Score = "shannon"
    score_rule: ScoreRule = "clip"
    score_bound: Annotated[float, _SCALE] = 1.0
    score_noise_std: Annotated[float, _STD] = 0.3162

    def __post_init__(self) -> None:
        _check(self, "scheme.")


@dataclass(frozen=True)
class Threshold(_Scored):
    """Scheme 2.1: a device transmits if its own noisy score is at most the threshold."""

    threshold: Annotated[float, _SCORE] = 0.5
    name: ClassVar[SchemeName] = "2.1"


@dataclass(frozen=True)
class Ranking(_Scored):
    """Scheme 2.2: the devices with the lowest noisy scores transmit, chosen by a ranking server."""

    num_selected: Annotated[int, _MANY] = 11
    name: ClassVar[SchemeName] = "2.2"


Scored = Threshold | Ranking
Scheme = Coin | Threshold | Ranking
SCHEMES: dict[str, type[Coin | Threshold | Ranking]] = {kind.name: kind for kind in (Coin, Threshold, Ranking)}
_SCHEME_RULES = _rules(Threshold) | _rules(Ranking)
SCHEME_SETTINGS = tuple(_SCHEME_RULES)


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
    _checked("scheme.name", name, tuple(SCHEMES))
    for setting, value in settings.items():
        _checked(f"scheme.{setting}", value, _SCHEME_RULES[setting])
    kind = SCHEMES[name]
    return kind(**{key: value for key, value in settings.items() if key in {f.name for f in fields(kind)}})


@dataclass(frozen=True)
class Network:
    """Everything that determines leakage and accuracy; `colluders` and `dropouts` are numbers of devices."""

    devices: Devices
    channel: Channel = field(default_factory=Channel)
    scheme: Scheme = field(default_factory=Coin)
    dimension: Annotated[int, range(1, 10**9 + 1)] = 64
    delta: Annotated[float, _BETWEEN._replace(least=1e-300)] = 1e-5
    neighbours: Neighbours = "zero-out"
    cover_noise: bool = False
    colluders: int = 0
    dropouts: int = 0
    inferences: Annotated[int, range(1, 10**12 + 1)] = 1

    def __post_init__(self) -> None:
        _check(self)
        if not isinstance(self.cover_noise, bool):
            raise NetworkError(f"cover_noise={self.cover_noise!r} must be true or false")
        limit = self.devices.count - 1
        for name in ("colluders", "dropouts"):
            allowed = f"must be a whole number from 0 to {limit}"
            _whole(name, getattr(self, name), least=0, most=limit, allowed=allowed)
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
        """A network of identical devices; `rest` are the other fields of Network."""
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
