"""The registry of attacks: an attack is an object with three members, in one file (docs/howto/plugins.md).

@airpool.register("attack", "guess")       in a file that `airpool --plugin FILE.py` loads, or in a script
[project.entry-points."airpool.attacks"]   in an installed package: guess = "package.module:GUESS"
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from airpool._support.plugins import PluginError, Registry
from airpool._support.progress import Progress, silent
from airpool.network import Claim, Network, require_network
from airpool_lab.attacks.positions import POSITIONS, Position, Scope, bound, heard_of
from airpool_lab.attacks.result import AttackResult

_SWITCH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, eq=False)
class AttackSetting:
    """The attacked network and device, the adversary's position, and the size of the attack.

    trials: number of guesses, approximately. options: of the attack, by name. out: a folder for pictures; None: none
    are drawn. position: what the adversary hears, of `POSITIONS`. device: its index. claim: the one whose bound counts.

    >>> AttackSetting(Network.uniform(num_devices=3), POSITIONS["sum"], device=2).position.name
    'sum'
    """

    network: Network
    position: Position = POSITIONS["link"]
    device: int = 0
    trials: int = 10_000
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    out: Path | None = None
    progress: Progress = silent
    claim: Claim = field(default_factory=Claim)

    def __post_init__(self) -> None:
        require_network(self.network)
        heard_of(self.network, self.claim, self.position)  # an error where the network has no such position
        if not 0 <= self.device < self.network.devices.count:
            raise ValueError(f"device={self.device} must be from 0 to {self.network.devices.count - 1}")
        if self.trials < 1:
            raise ValueError(f"trials={self.trials} must be >= 1")


class Attack(Protocol):
    """An attack on the signals of a network, airpool's own or a plug-in's.

    about: one line for the list of attacks. options: the default of each option, of the option's type.

    >>> net = Network.uniform(num_devices=3, noise_std=0.3, dimension=4)
    >>> (found,) = attacked("antipodal", AttackSetting(net, trials=500))
    >>> ATTACKS.get("antipodal").about[-1], 0.5 < found.success < found.bound + 0.1
    ('.', True)
    """

    @property
    def about(self) -> str:
        """One line of text."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Its own options and their defaults."""
        ...

    def run(self, setting: AttackSetting, /) -> Sequence[AttackResult]:
        """Results of the attack; `setting.options` has all options."""
        ...


def result_of(
    setting: AttackSetting,
    attack: str,
    secret: str,
    of: Scope,
    *,
    trials: int,
    right: int,
    prior: float,
    numbers: Mapping[str, Any],
    picture: Path | None = None,
) -> AttackResult:
    """Guesses of an attack, beside the bound of its position; no trials: no guesses, and no bound."""
    network, claim, place, k = setting.network, setting.claim, setting.position, setting.device
    limit = bound(network, claim, place, of, prior=prior, device=k) if trials else None
    guesses = trials, right if trials else None, prior, limit, setting.seed, k
    return AttackResult(attack, place, network, secret, of, *guesses, numbers, picture, claim)


ATTACKS: Registry[Attack] = Registry(
    "attack",
    "airpool.attacks",
    {
        "antipodal": "airpool_lab.attacks.antipodal:ANTIPODAL",
        "attribute": "airpool_lab.attacks.attribute:ATTRIBUTE",
        "identify": "airpool_lab.attacks.identify:IDENTIFY",
        "reconstruct": "airpool_lab.attacks.reconstruct:RECONSTRUCT",
    },
    needs=("about", "options", "run"),
)


def attacked(name: str, setting: AttackSetting) -> list[AttackResult]:
    """Results of the attack of this name."""
    found = ATTACKS.get(name)
    results: Any = found.run(replace(setting, options=options_of(name, setting.options)))
    if not isinstance(results, Sequence) or any(not isinstance(each, AttackResult) for each in results):
        raise PluginError(f"attack {name!r}: `run` must give a sequence of AttackResults")
    return list(results)


def options_of(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of an attack: those that are given, each as the type of its default, and defaults."""
    options = dict(ATTACKS.get(name).options)
    for key, value in given.items():
        if key not in options:
            raise ValueError(f"attack {name!r} has no option {key!r}; it has {', '.join(options) or 'none'}")
        kind = type(options[key])
        try:
            options[key] = _SWITCH[str(value).lower()] if kind is bool else kind(value)
        except (KeyError, TypeError, ValueError):
            allowed = "true or false" if kind is bool else f"a {kind.__name__}"
            raise ValueError(f"option {key}={value!r} of attack {name!r} must be {allowed}") from None
    return options
