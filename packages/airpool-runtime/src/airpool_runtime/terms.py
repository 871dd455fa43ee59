"""Terms of a network: the settings on which all roles must agree, and their digest.

Noise, clip norm, weight and participation are the device's own: no number of the server's reaches its signal. So a
device takes part only in the very network that it was set up for. Weaker noise would cost it more; stronger noise it
would not send, and the server would promise what does not hold. What is asked of the network may differ: a claim,
targets, an eavesdropper; and what the server chooses: when it is sure.

One network has one text in every version (network.file.dump), so its terms have one digest.
"""

import hashlib
import re
import tomllib
from dataclasses import replace
from functools import lru_cache

from airpool.network import Adversary, Network, Slots
from airpool.network import file as network_file
from airpool_runtime.messages import StatedTerms

LONGEST = 64 * 2**10
_KEY = r"[A-Za-z0-9_-]{1,60}"
# Flat TOML, as `dump` writes it: no dotted key and no nesting, on which a parser may spend minutes.
_FLAT = re.compile(rf'(\[{_KEY}\]|{_KEY} = ([-+.\w]{{1,100}}|"[^"\\]{{0,200}}"|\[[-+.\w, ]*\]))?')


@lru_cache(maxsize=64)
def stated(network: Network) -> StatedTerms:
    """A network's terms, as a role states them to another one."""
    return StatedTerms(hashlib.sha256(_text(network).encode()).hexdigest(), network_file.dump(network))


def difference(own: Network, theirs: StatedTerms, *, they: str, own_side: str) -> str | None:
    """The first setting in which a peer's terms differ from a role's own; None where they agree.

    they, own_side: words of the message, as in "the server asks for" and "this air is set to".
    """
    if theirs.digest == stated(own).digest or theirs.text == stated(own).text:
        return None
    if not theirs.text or len(theirs.text) > LONGEST:
        return f"{they} another network file: digest {theirs.digest[:12]!r}, {own_side} {stated(own).digest[:12]!r}"
    return _difference(own, theirs.text, they, own_side)


@lru_cache(maxsize=64)
def _difference(own: Network, text: str, they: str, own_side: str) -> str | None:
    try:
        if not all(_FLAT.fullmatch(line) for line in text.splitlines()):
            raise ValueError("not written as `airpool` writes it")
        data = tomllib.loads(text)
        devices = data.get("devices")
        # Before a number for every device is made of it.
        count = devices.get("count") if isinstance(devices, dict) else None
        if count != own.devices.count:
            return f"{they} {str(count)[:20]} devices, {own_side} {own.devices.count}"
        theirs = _text(network_file.build(data)).splitlines()
    except (ValueError, RecursionError) as error:  # tomllib's own for a number of thousands of digits is a bare one
        return f"{they} a network file that is not valid: {str(error)[:200]}"
    ours = _text(own).splitlines()
    if theirs == ours:
        return None
    first = next((pair for pair in zip(theirs, ours, strict=False) if len(set(pair)) > 1), (theirs[-1], ours[-1]))
    return f"{they} {first[0][:200]}, {own_side} {first[1][:200]}"


def _text(network: Network) -> str:
    """The network file without what is asked and what the server chooses."""
    devices, slots = replace(network.devices, epsilon=None), Slots(network.slots.count, redrawn=network.slots.redrawn)
    return network_file.dump(replace(network, devices=devices, adversary=Adversary(), slots=slots))
