"""Fading laws by name: the open set that `channel.fading` names a member of.

    fading = "rician"            a name
    fading = "nakagami:m=2"      a name and its settings
    fading = "sionna:tdl-a"      the first setting needs no name

A law is a frozen dataclass whose fields are its settings, with two methods: `cdf` and `quantile` (`FadingLaw`).
airpool's are in radio/laws.py; a plug-in registers its own by `airpool.register("fading", NAME)` (howto/plugins.md).
"""

from dataclasses import fields
from typing import Any, Protocol

from airpool._support.arrays import Floats
from airpool._support.plugins import PluginError, PluginOrigin, Registry
from airpool._support.rules import NetworkError, number_or_word

# Laws with a scattered part in closed form, which have no settings here (`radio.laws.Rice`).
RICE = ("none", "rician", "rayleigh")


class FadingLaw(Protocol):
    """The distribution of a gain c ≥ 0 of mean power 1, E[c²] = 1.

    >>> import numpy as np
    >>> law = law_named("nakagami:m=2")
    >>> law.cdf(law.quantile(np.array([0.1, 0.5]))).round(6).tolist()
    [0.1, 0.5]
    """

    def cdf(self, gain: Floats) -> Floats:
        """Pr(c < gain), elementwise."""
        ...

    def quantile(self, probability: Floats) -> Floats:
        """The inverse of `cdf` at probabilities in (0, 1), elementwise."""
        ...


LAWS: Registry[Any] = Registry(
    what="fading",
    group="airpool.fading",
    builtin={
        "none": "airpool.radio.laws:steady",
        "rician": "airpool.radio.laws:rician",
        "rayleigh": "airpool.radio.laws:rayleigh",
        "nakagami": "airpool.radio.laws:Nakagami",
        "log-normal": "airpool.radio.laws:LogNormal",
        "sionna": "airpool_lab.sionna_models:Sionna",
    },
    needs=("cdf", "quantile"),
)


def law_named(text: str) -> FadingLaw:
    """The law that `channel.fading` describes. Raises NetworkError where its name or a setting is wrong."""
    if not isinstance(text, str):
        raise NetworkError(f"channel.fading={text!r} must be text: the name of a law")
    name, _, given = text.partition(":")
    if name not in LAWS.names():
        known = ", ".join(LAWS.names())
        raise NetworkError(f"channel.fading={text!r} must be one of {known} or a plug-in's (airpool --plugin FILE.py)")
    kind: Any
    try:
        kind = LAWS.get(name)
    except PluginError as error:
        raise NetworkError(f"channel.fading={text!r}: {error}") from None
    settings = [field.name for field in fields(kind)] if hasattr(kind, "__dataclass_fields__") else []
    values: dict[str, float | str] = {}
    for place, part in enumerate(filter(None, given.split(","))):
        key, equals, value = part.partition("=")
        if not equals and place < len(settings):
            key, value = settings[place], part
        if name == "rician":
            write = f'fading = "rician" and k_factor_db = {value or key}'
            raise NetworkError(f"channel.fading={text!r}: the K factor is a setting of the channel; write {write}")
        if key not in settings:
            known = ", ".join(settings) or "none"
            raise NetworkError(f"channel.fading={text!r} has no setting {key!r}; {name} has: {known}")
        values[key] = number_or_word(value)
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise NetworkError(f"channel.fading={text!r}: {error}") from None


def origin_of(text: str) -> PluginOrigin | None:
    """The plug-in that the law comes from; None for airpool's own."""
    return LAWS.origin(text.partition(":")[0])
