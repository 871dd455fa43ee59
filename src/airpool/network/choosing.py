"""Schemes 1, 2.1 and 2.2 as plain frozen data: who transmits. What follows from them is `SchemeRules` (scheme.py)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from airpool.network.rules import MANY, SCALE, SCORE, STD, NetworkError, check, checked, rules_of
from airpool.network.scheme import PluginScheme, rules_and_settings

Score = Literal["shannon", "min"]
ScoreRule = Literal["clip", "scale"]


@dataclass(frozen=True)
class Coin:
    """Scheme 1: each device transmits with its own probability, `devices.participation`.

    >>> Coin().name
    '1'
    """

    name: ClassVar[str] = "1"


@dataclass(frozen=True)
class _Scored:
    """Settings of the schemes with an uncertainty score in bits: how it is computed, bounded and noised."""

    score: Score = "shannon"
    score_rule: ScoreRule = "clip"
    score_bound: Annotated[float, SCALE] = 1.0
    score_noise_std: Annotated[float, STD] = 0.3162

    def __post_init__(self) -> None:
        check(self, "scheme.")


@dataclass(frozen=True)
class Threshold(_Scored):
    """Scheme 2.1: a device transmits if its own noisy score is at most the threshold, in bits.

    score: uncertainty of the local posterior, Shannon's or min-entropy. score_rule: how it is bounded, clip or scale
    (theory/selection.md §1). score_bound: Γ, its bound, in bits. score_noise_std: of the noise that is added to it.

    >>> Threshold(threshold=1.5, score_noise_std=0.5).name
    '2.1'
    """

    threshold: Annotated[float, SCORE] = 0.5
    name: ClassVar[str] = "2.1"


@dataclass(frozen=True)
class Ranking(_Scored):
    """Scheme 2.2: the devices with the lowest noisy scores transmit, chosen by a ranking server.

    num_selected: k̃, how many. The others: as of `Threshold`.

    >>> Ranking(num_selected=6).name
    '2.2'
    """

    num_selected: Annotated[int, MANY] = 11
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
