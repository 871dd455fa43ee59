"""A network: devices, channel and scheme as plain frozen data, checked once, when it is made.

    >>> net = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, participation=0.9, dimension=64)
    >>> net.devices.weight[0]
    0.08333333333333333

Every number has a range (`Rule`): wide enough for any use, narrow enough that no square, product or ratio overflows.
"""

import math
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Annotated, Any, Literal, NamedTuple, Self

from airpool._support.brief import Brief
from airpool._support.rounding import full
from airpool._support.rules import (
    BETWEEN,
    DECIBEL,
    ERROR,
    LENGTH,
    MANY,
    POSITIVE,
    PROBABILITY,
    SCALE,
    SIZE,
    STD,
    NetworkError,
    PerDevice,
    Rule,
    check,
    checked,
    whole,
)
from airpool.network.access import ACCESSES, Access, AccessName
from airpool.network.claim import Claim
from airpool.network.fading import RICE, law_named, origin_of
from airpool.schemes.coin import Coin
from airpool.schemes.scheme import SCHEMES, Scheme, participation_of, require_registered, require_same_coins

MOST_SLOTS = 4096


@dataclass(frozen=True)
class Slots:
    """The slots of one inference: how many there may be, and when the server stops asking (howto/slots.md).

    count: N, the most slots of an inference; ε of an inference is that of all N, however early the server stops.
    sure: how probable the server's best class must be for it to stop before the last slot.
    redrawn: coins, scores and gains are drawn anew in each slot, else once for all slots of an inference.
    abstain: where the server is not sure after the last slot, it gives no answer instead of its best one.

    >>> Slots(count=4, sure=0.95, abstain=True).count
    4
    """

    count: Annotated[int, range(1, MOST_SLOTS + 1)] = 1
    sure: Annotated[float, Rule("must be > 0 and <= 1", lambda x: 0 < x <= 1)] = 0.99
    redrawn: bool = True
    abstain: bool = False

    def __post_init__(self) -> None:
        check(self, "slots.")


def require_one_slot(network: Any, what: str) -> None:
    """Raises a NetworkError if an inference may have several slots. what: the thing that is one slot."""
    if network.slots.count > 1:
        raise NetworkError(
            f"slots.count={network.slots.count} must be 1: {what}; take --slots 1 (network.one_slot), or `evaluate`, "
            "which asks slot after slot"
        )


PowerRule = Literal["truncate", "backoff", "paper"]


def require_network(value: object) -> None:
    """Raises a TypeError unless `value` is a Network."""
    if not isinstance(value, Network):
        raise TypeError(f"network is of type {type(value).__name__}, must be a Network (read_network reads a file)")


@dataclass(frozen=True, repr=False)
class Devices(Brief):
    """One value per device; a single number stands for all of them.

    `noise_std` is a standard deviation per coordinate (the paper's σ² = 0.1 is a variance). `path_loss_db` is that of
    each link: its mean square gain is 10^(−path_loss_db/10). `epsilon` is an optional target for calibration and plans.

    count: K. weight: w_k, 1/K by default. clip_norm: C_k, the longest feature that is sent, in the unit of the latents.
    participation: probability to transmit. power_dbm: the most that a device may transmit with.

    >>> devices = Devices(count=3, noise_std=[0.05, 0.05, 0.1])
    >>> devices.noise_std, devices.column("clip_norm")
    ((0.05, 0.05, 0.1), (1.0, 1.0, 1.0))
    """

    count: Annotated[int, MANY]
    weight: Annotated[PerDevice | float | None, SIZE] = None
    clip_norm: Annotated[PerDevice | float, LENGTH] = 1.0
    noise_std: Annotated[PerDevice | float, STD] = 0.05
    participation: Annotated[PerDevice | float, PROBABILITY] = 1.0
    power_dbm: Annotated[PerDevice | float, DECIBEL] = 30.0
    path_loss_db: Annotated[PerDevice | float, DECIBEL] = 0.0
    epsilon: Annotated[PerDevice | float | None, POSITIVE] = None

    def __post_init__(self) -> None:
        count = checked("devices.count", self.count, MANY)
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
    csi_error_std: √E|e|² of the whole complex error. redrawn: gains and errors are new in every inference,
        else one draw serves all of them (a ledger counts how often it is drawn again). antennas: of the server, which
        receives by one public beam and keeps them all.
    fading: the law of the gains, by name (`airpool.network.fading`). k_factor_db: in dB, of rician alone.
        power_rule: what a device does whose channel is too weak: with truncate it is silent; with backoff or paper
        it arrives weaker (theory/air.md §3). gamma: γ, the received scale; "auto": the largest that power and
        outage allow. outage: share of inferences in which a channel may be too weak. phase_error_std: in radians.

    >>> Channel(fading="rician", k_factor_db=6.0, outage=0.05).known, Channel(csi_error_std=0.1).known
    (True, False)
    >>> Channel(fading="rician").aligned, Channel(fading="rician", antennas=2).aligned
    (True, False)
    """

    fading: str = "none"
    k_factor_db: Annotated[float, DECIBEL] = 4.8
    noise_std: Annotated[float, STD] = 0.0
    access: AccessName = "superposed"
    power_rule: PowerRule = "truncate"
    gamma: Annotated[float | Literal["auto"], SCALE] = "auto"
    outage: Annotated[float, BETWEEN._replace(least=1e-30)] = 0.01
    csi_error_std: Annotated[float, ERROR] = 0.0
    phase_error_std: Annotated[float, ERROR] = 0.0
    redrawn: bool = True
    antennas: Annotated[int, range(1, 257)] = 1

    @property
    def rules(self) -> Access:
        """What follows from its access."""
        return ACCESSES[self.access]

    @property
    def known(self) -> bool:
        """Whether devices know gains and phases exactly."""
        return not (self.csi_error_std or self.phase_error_std)

    @property
    def aligned(self) -> bool:
        """Whether a signal arrives aligned where its power suffices: gains and phases are known, at one antenna."""
        return self.known and self.antennas == 1

    def __post_init__(self) -> None:
        if self.fading not in RICE:  # the others have settings, or come from plug-ins
            law_named(self.fading)
        check(self, "channel.", but=("gamma",) if self.gamma == "auto" else ())
        if self.k_factor_db != Channel.k_factor_db and self.fading != "rician":
            raise NetworkError(
                f'channel.k_factor_db={self.k_factor_db} is of fading = "rician" alone, and channel.fading is '
                f"{self.fading!r}: leave k_factor_db out (its default is {Channel.k_factor_db}), or choose rician"
            )
        if not self.rules.radio:
            for name in ("fading", "noise_std", "power_rule", "gamma", "csi_error_std", "phase_error_std", "antennas"):
                if (value := getattr(self, name)) != (default := getattr(Channel, name)):
                    raise NetworkError(
                        f"channel.{name}={value!r} must be {default!r}: access = {self.access} has no radio"
                    )


def with_its_coins(network: "Network") -> "Network":
    """The network with a plug-in's coins as those of Scheme 1: the same ones are tossed over another channel."""
    return replace(network, scheme=Coin()) if network.scheme.sets_participation else network


@dataclass(frozen=True)
class Adversary:
    """An eavesdropper that is not at the server.

    antennas: its number of antennas; 0: no eavesdropper is considered.

    >>> net = Network.uniform(num_devices=3, adversary=Adversary(antennas=4), channel=Channel(fading="rayleigh"))
    >>> net.adversary.antennas
    4
    """

    antennas: Annotated[int, range(257)] = 0

    def __post_init__(self) -> None:
        check(self, "adversary.")


@dataclass(frozen=True, repr=False)
class Network(Brief):
    """Everything that determines leakage and accuracy; `colluders` and `dropouts` are numbers of devices.

    Secure access implies cover noise. Its sum is opened for `survivors` devices or more; `survivors` must exceed half
    of (devices + colluders), otherwise a lying server could have two sums opened. The scheme of a plug-in sets the
    devices' participation.

    devices, channel, scheme: its parts. dimension: r, numbers in a latent. cover_noise: silent devices send noise.
    adversary: antennas elsewhere. slots: of one inference. What is asked about it: `Claim`.

    >>> net = Network(Devices(12, noise_std=0.05), Channel(fading="rician"), dropouts=2, dimension=40)
    >>> net.survivors, net.uses(Claim(inferences=100)), net.coordinates, net.one_slot == net
    (10, 100, 40, True)
    >>> net.outnumbered(colluders=8), net.require_same_coins()  # only a secure sum is; only a plug-in's may differ
    (False, None)
    """

    devices: Devices
    channel: Channel = field(default_factory=Channel)
    scheme: Scheme = field(default_factory=Coin)
    adversary: Adversary = field(default_factory=Adversary)
    slots: Slots = field(default_factory=Slots)
    dimension: Annotated[int, range(1, 10**9 + 1)] = 64
    cover_noise: bool = False
    colluders: int = 0
    dropouts: int = 0

    def __post_init__(self) -> None:
        check(self)
        limit = self.devices.count - 1
        for name in ("colluders", "dropouts"):
            allowed = f"must be a whole number from 0 to {limit}"
            object.__setattr__(self, name, whole(name, getattr(self, name), least=0, most=limit, allowed=allowed))
        require_registered(self.scheme)
        self.scheme.check(self)
        if (coins := self._coins_of_plugin()) is not None:
            object.__setattr__(self, "devices", replace(self.devices, participation=coins))
        access = self.channel.rules
        access.check(self)
        object.__setattr__(self, "cover_noise", self.cover_noise or access.cover_noise)

    def _coins_of_plugin(self) -> PerDevice | None:
        """The participation that a plug-in's scheme gives here; None where it is a setting."""
        if not self.scheme.sets_participation:
            return None
        d = self.devices
        public = Devices(count=d.count, power_dbm=d.power_dbm, path_loss_db=d.path_loss_db)
        return participation_of(self.scheme, Network(public, self.channel, dimension=self.dimension))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy, maybe from another process: an error where a plug-in's scheme gives other coins here than there."""
        self.__dict__.update(state)
        self.require_same_coins()

    def require_same_coins(self) -> None:
        """Raises NetworkError where a plug-in's scheme gives other coins by now than those of this network."""
        if (coins := self._coins_of_plugin()) is not None:
            require_same_coins(self.scheme.name, self.devices.column("participation"), coins)

    def _repr_html_(self) -> str:
        from airpool._support.notebook import facts, rows_of, shown
        from airpool._support.table import runs_of

        d, scheme = self.devices, self.scheme
        names = [name for name in _COLUMNS if getattr(d, name) is not None]
        lines = list(zip(*([f"{value:.4g}" for value in d.column(name)] for name in names), strict=True))
        rows = [(label, *line) for label, line in runs_of(lines)]
        more = {
            "scheme": ", ".join([str(scheme.name), *_changed(scheme)]),
            "channel": ", ".join([self.channel.access, *_changed(self.channel, but=("access",))]),
            "numbers sent by each device": str(self.dimension),
            **{name: str(getattr(self, name)) for name in ("colluders", "dropouts") if getattr(self, name)},
            **{name: ", ".join(_changed(getattr(self, name))) for name in ("adversary", "slots")},
            "cover noise": "silent devices send their noise" if self.cover_noise else "",
        }
        table = rows_of(("device", *(_COLUMNS[name] for name in names)), rows)
        kept = [(name, text) for name, text in more.items() if text]
        return shown(f"Network of {d.count} device{'s' * (d.count > 1)}", table, facts(kept))

    @property
    def survivors(self) -> int:
        """Fewest devices that remain: all but the dropouts."""
        return self.devices.count - self.dropouts

    def outnumbered(self, colluders: int) -> bool:
        """Whether enough devices collude that a lying server could have two lists of survivors signed."""
        return self.channel.rules.majority and 2 * self.survivors <= self.devices.count + colluders

    def uses(self, claim: Claim) -> int:
        """Uses of the mechanism that ε composes: every slot, or every inference where one draw serves its slots."""
        return claim.inferences * (self.slots.count if self.slots.redrawn else 1)

    @property
    def one_slot(self) -> "Network":
        """The network of a single slot, which devices, medium and ledger go by."""
        return self if self.slots == Slots() else replace(self, slots=Slots())

    @property
    def coordinates(self) -> int:
        """Real coordinates that a device sends: r; r + 1 where a symbol that may be turned has room for one more."""
        several = self.channel.antennas > 1 or self.adversary.antennas > 0
        return self.dimension + self.dimension % 2 if several or not self.channel.known else self.dimension

    @classmethod
    def uniform(cls, *, num_devices: int, **settings: Any) -> Self:
        """A network of identical devices. settings: any other fields of Devices and of Network.

        >>> Network.uniform(num_devices=2, path_loss_db=3, epsilon=2.0).devices.epsilon
        (2.0, 2.0)
        """
        of_devices = {each.name for each in fields(Devices)} - {"count"}
        known = of_devices | {each.name for each in fields(cls)} - {"devices"}
        for name in settings:
            if name not in known:
                claimed = name in (each.name for each in fields(Claim))
                where = f"it belongs to Claim({name}=...)" if claimed else f"it has {', '.join(sorted(known))}"
                raise TypeError(f"Network.uniform has no setting {name!r}; {where}")
        devices = Devices(num_devices, **{name: settings.pop(name) for name in of_devices & settings.keys()})
        return cls(devices, **settings)

    @classmethod
    def paper(cls) -> Self:
        """The paper's own defaults: K = 12, C = 100, σ² = 0.1, p = 0.9, w = 1/12, γ = 1 (theory/air.md), q = 16.

        >>> Network.paper().devices.count, Network.paper().dimension
        (12, 784)
        """
        return cls.uniform(
            num_devices=12,
            clip_norm=100.0,
            noise_std=math.sqrt(0.1),
            participation=0.9,
            dimension=16 * 49,
            channel=Channel(noise_std=math.sqrt(0.1), gamma=1.0),
        )


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


def _changed(settings: Any, but: tuple[str, ...] = ()) -> list[str]:
    """Settings that are not at their defaults, as words."""
    values = {each: getattr(settings, each.name) for each in fields(settings) if each.name not in but}
    changed = {each.name: value for each, value in values.items() if each.default is MISSING or value != each.default}
    return [f"{name.replace('_', ' ')} {full(x) if type(x) is float else x}" for name, x in changed.items()]


class NetworkPlugin(NamedTuple):
    """A plug-in that a network names, and its origin.

    settings: as the network gives them. source: its file or package. sha256: of its source; "": unknown.
    """

    what: Literal["scheme", "fading"]
    name: str
    settings: str
    source: str
    version: str
    sha256: str


def network_plugins(network: Network) -> tuple[NetworkPlugin, ...]:
    """Every plug-in that ε of this network rests on, for reports and ledger rows; none: all of it is airpool's own.

    A codec is none of them: ε does not depend on it.
    """
    scheme, fading = network.scheme, network.channel.fading
    found: list[NetworkPlugin] = []
    if (origin := SCHEMES.origin(scheme.name)) is not None:
        found.append(NetworkPlugin("scheme", scheme.name, repr(scheme), origin.source, origin.version, origin.sha256))
    if (origin := origin_of(fading)) is not None:
        name = fading.partition(":")[0]
        found.append(NetworkPlugin("fading", name, fading, origin.source, origin.version, origin.sha256))
    return tuple(found)
