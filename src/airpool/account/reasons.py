"""The reason why an ε is infinite, for each ε of a report that is."""

from typing import Any

import numpy as np

from airpool._support.arrays import Floats
from airpool.network import Network, scheme_rules
from airpool.privacy.aggregate import Aggregate

COLLUDER = "a colluder knows its own feature: the object is not protected"
SCORES = "the scores of all devices may change at once, and no finite bound is known"
REMOVED = "removal of all devices leaves no noise"
NO_NOISE = "no noise"
NO_OWN_NOISE = "no noise of its own"
POWER_LIMIT = "at the power limit the paper's power rule reveals whether there is a feature"
SENDERS_SEEN = "the server knows who sends, so that a device's removal is seen"
GRID_REMOVED = "live noise lies on a grid, which shows a removal unless the receiver's noise covers it"
ALONE = "live noise that arrives unaligned protects its own device alone unless the receiver's noise covers its grid"
GRID = "at so large an ε the grid of live noise costs more than δ"
GONE = "next to a device that is removed nothing is received"
OTHERS_SILENT = "no noise of its own, and all others may be silent at once"
SHOWN = "with a probability above δ, what is received shows it beyond doubt"
BARE_SCORES = "devices are chosen by scores without noise"

_PLAIN = {
    COLLUDER: "a device that works with the adversary knows its own view of it",
    SCORES: "all scores change with it, and no bound is claimed for them",
    REMOVED: "ε is asked for the removal of all devices, and their noise goes with them",
    NO_NOISE: "no device adds noise, so the signals show the features as they are",
    NO_OWN_NOISE: "there is a device that adds no noise of its own",
    SENDERS_SEEN: "ε is asked for the removal of a whole device, and the server sees which devices send (the odds are "
    "about what a device sees, not about whether it is there)",
    GONE: "ε is asked for the removal of a whole device, next to which nothing is received (the odds are about what a "
    "device sees, not about whether it is there)",
    OTHERS_SILENT: "there is a device that adds no noise of its own, and all others may be silent at once",
    BARE_SCORES: "devices are chosen by scores without noise, so who sends shows what a device sees",
}


def in_plain_words(reason: str) -> str:
    """A reason for non-experts."""
    return _PLAIN.get(reason, reason)


def reasons(network: Network, received: Aggregate, *, live: bool, **epsilons: Any) -> dict[str, str]:
    """The reason of each infinite ε by its name, of the first device for which it is; none where all are finite."""
    found = {}
    for name, values in epsilons.items():
        infinite = [] if values is None else np.flatnonzero(np.isinf(np.atleast_1d(values))).tolist()
        if infinite:
            found[name] = _object(network, received, live=live) if name == "epsilon_object" else ""
            found[name] = found[name] or _device(network, received, infinite[0], own=name == "epsilon_local", live=live)
    return found


def _object(network: Network, received: Aggregate, *, live: bool) -> str:
    if scheme_rules(network.scheme).scored:
        return SCORES
    if not network.neighbours.keeps_noise:
        return REMOVED
    if received.colluders or received.colluding:
        return COLLUDER
    shown = _beyond_the_law(network, received.failure.sum(), live=live)
    silent = (received.variance == 0) & (received.shift > 0)
    return NO_NOISE if bool(np.all(received.variance == 0)) else NO_OWN_NOISE if bool(np.any(silent)) else shown


def _device(network: Network, received: Aggregate, k: int, *, own: bool, live: bool) -> str:
    if scheme_rules(network.scheme).scored and not getattr(network.scheme, "score_noise_std", 1.0):
        return BARE_SCORES
    if not network.neighbours.keeps_noise:
        if network.channel.rules.senders_seen:
            return SENDERS_SEEN
        if received.failure[k] >= 1 and live:
            return GRID_REMOVED
        if own or received.alone:
            return GONE
    if (own or received.alone) and received.variance[k] == 0:
        return NO_OWN_NOISE
    if not np.any(_counted(received, k)) and received.extra == 0:
        return NO_NOISE
    shown = _beyond_the_law(network, received.failure[k], live=live)
    return OTHERS_SILENT if shown == SHOWN and received.variance[k] == 0 else shown


def _counted(received: Aggregate, k: int) -> Floats:
    """Noise that protects a device: its own, and that of others who neither collude nor are missing."""
    others = np.delete(received.variance, [k, *(j for j in received.colluding if j != k)])
    return np.append(np.sort(others)[: max(len(others) - received.absent, 0)], received.variance[k])


def _beyond_the_law(network: Network, failure: float, *, live: bool) -> str:
    if network.channel.power_rule == "paper" and failure * network.uses >= network.delta:
        return POWER_LIMIT
    return GRID if live else SHOWN
