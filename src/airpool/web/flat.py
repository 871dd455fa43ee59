"""A network as the page's settings: the flat texts that `settings.asked_network` makes the same network of."""

from dataclasses import MISSING, fields
from typing import Any

from airpool.evaluation.settings import KEYS
from airpool.network import Network, scheme_rules
from airpool.web.settings import text_of, values_of


def flat(network: Network, *, model: str, codec: str) -> dict[str, str]:
    """Settings of a network with its noise as it is; what has its default is left out.

    Holds for: networks that `model` and `codec` fit; targets of ε are no settings.

    >>> flat(Network.uniform(num_devices=2, noise_std=(0.1, 0.2)), model="modelnet40", codec="vote")
    {'model': 'modelnet40', 'codec': 'vote', 'way': 'noise', 'devices': '2', 'noise_std': '0.1,0.2'}
    """
    left_out = {"dimension"}  # the codec's
    if scheme_rules(network.scheme).coins is not None:
        left_out.add("participation")  # the scheme's
    found = {"model": model, "codec": codec, "way": "noise"}
    for name, value in values_of(network).items():
        always = name in ("devices", "noise_std")
        if always or not (value is None or name in left_out or _usual(network, name, value)):
            found[name] = text_of(value)
    return found


def _usual(network: Network, name: str, value: Any) -> bool:
    """Whether a setting has its default; weights have 1/K."""
    table, key = KEYS[name]
    if name in ("scheme", "weight"):
        return value == "1" if name == "scheme" else set(value) == {1 / network.devices.count}
    (field,) = (each for each in fields(getattr(network, table) if table else network) if each.name == key)
    usual = None if field.default is MISSING else field.default
    return value == usual or (isinstance(value, tuple) and set(value) == {usual})
