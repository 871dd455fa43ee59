"""Admission to a hub: the devices that may connect, and those that are ready."""

from airpool.network import Network
from airpool.runtime import logs, terms
from airpool.runtime.medium import Hub
from airpool.runtime.messages import RejectedError, StatedTerms
from airpool.runtime.standing import Standing


def require(network: Network, standing: Standing, device: int, stated: StatedTerms | None, *, secure: bool) -> None:
    """Raises RejectedError unless this device may connect to the hub of this network.

    stated: its terms, which must be the hub's own; None: it is of version 0. secure: the hub takes a secure sum.
    """
    if not 0 <= device < network.devices.count:
        raise RejectedError(f"device {device} must be from 0 to {network.devices.count - 1}")
    if device in standing.connected:
        raise RejectedError(f"device {device} is connected already")
    if stated is None and (secure or network.slots.count > 1):
        raise RejectedError(f"device {device} is of an older version: upgrade all devices of a secure sum together")
    if stated is None:
        logs.event("old version", device=device, reason="it states no terms; upgrade it")
        return
    words = {"they": f"device {device} is set to", "own_side": "this air is set to"}
    if why := terms.difference(network, stated, **words):
        if standing.refused(device, why):  # it tries again every second: said once
            logs.event("rejected", device=device, reason=why)
        raise RejectedError(why)


def admit(
    hub: Hub, standing: Standing, device: int, advert: bytes | None, *, inferences: int, left: int | None
) -> None:
    """Marks a connected device as ready for one turn of at most `inferences`; raises RejectedError for its advert.

    left: slots that its budget covers, where an inference has several.
    """
    if (it := standing.connected.get(device)) is None:
        return
    others = [each.advert for k, each in standing.connected.items() if k != device and each.inferences]
    try:
        if advert is not None or not it.advert:  # else its last one is good for the next inference still
            hub.admit(device, advert, others)
    except RejectedError as why:
        it.inferences = 0
        if standing.noted(device, f"its advert was rejected: {why}"):
            logs.event("rejected", device=device, reason=str(why))
        raise
    it.inferences, it.advert, it.stalled, it.left = inferences, advert or it.advert, False, left
