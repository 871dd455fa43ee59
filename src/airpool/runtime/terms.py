"""Check of the network that a server asks for against the device's own network file.

Noise, clip norm, weight and participation are the device's own: no number of the server's reaches its signal. So the
device takes part only in the very network that it was set up for. Weaker noise would cost it more; stronger noise it
would not send, and the server would promise what does not hold.
"""

import tomllib
from dataclasses import replace
from functools import lru_cache

from airpool.network import Network
from airpool.network import file as network_file
from airpool.runtime.charge import NotSentError


def require_same(own: Network, asked: str) -> None:
    """Raises NotSentError unless the network file that the server goes by asks for what the device does.

    What a report chooses may differ: δ, neighbours, the number of inferences, targets, an eavesdropper.
    """
    difference = _difference(own, asked)
    if difference:
        raise NotSentError(difference)


@lru_cache(maxsize=64)
def _difference(own: Network, asked: str) -> str | None:
    if asked == network_file.dump(own):
        return None
    try:
        data = tomllib.loads(asked)
        devices = data.get("devices")
        # Before a number for every device is made of it.
        count = devices.get("count") if isinstance(devices, dict) else None
        if count != own.devices.count:
            return f"the server asks for {count!r} devices, this device is one of {own.devices.count}"
        theirs = network_file.build(data)
    except (ValueError, RecursionError) as error:  # tomllib's own for a number of thousands of digits is a bare one
        return f"the server's network file is not valid: {str(error)[:200]}"
    chosen = {name: getattr(own, name) for name in ("delta", "neighbours", "inferences", "adversary")}
    theirs = replace(theirs, devices=replace(theirs.devices, epsilon=own.devices.epsilon), **chosen)
    ours, other = (network_file.dump(each).splitlines() for each in (own, theirs))
    if ours == other:
        return None
    first = next((pair for pair in zip(other, ours, strict=False) if len(set(pair)) > 1), (other[-1], ours[-1]))
    return "the server asks for {:.200}, this device is set to {:.200}".format(*first)
