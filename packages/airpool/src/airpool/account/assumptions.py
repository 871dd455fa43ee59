"""The assumptions under which a privacy report holds, as sentences."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from airpool._support.arrays import Floats
from airpool._support.rounding import up
from airpool.account import eavesdropper
from airpool.account.errors import why_local
from airpool.account.views import GONE, MANY_KINDS, SCORES, Situation
from airpool.account.whatif import averages
from airpool.network import Claim, Network, NetworkError, network_plugins
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.leak import OverTime, why_unbounded
from airpool.protocol.ring import MOST_WRAPS, ring_of
from airpool.radio.fading import Fading


def assumptions(situation: Situation) -> tuple[str, ...]:
    """One sentence per assumption, in the order of printing."""
    network, claim, received, uses = situation.network, situation.claim, situation.here, situation.uses
    lines = [
        f"Neighbours: {claim.neighbours.words}",
        "Every latent is clipped to its clip_norm, and the noise is Gaussian, fresh and independent each time.",
    ]
    access = network.channel.rules
    if access.separate:
        lines.append(access.assumption)
    elif received.alone and access.majority:
        lines.append("Enough collude that the server could have two sums opened: only own noise counts (the local ε).")
    elif received.alone:
        why = why_local(network) or "live noise that arrives unaligned needs a receiver noise of 2^-17 of it (case c)"
        lines.append(f"Signals need not arrive aligned, so only own noise counts (the local ε): {why}.")
    elif received.absent or received.colluding:
        named = (
            f", with devices {', '.join(map(str, received.colluding))} known to collude" if received.colluding else ""
        )
        lines.append(
            f"Up to {received.absent} other devices collude with the adversary or drop out, whichever they are{named}; "
            "all others add their noise."
        )
        lines += _not_jammed(network, claim, received)
    else:
        lines.append("All other devices are honest and add their noise; none colludes or drops out.")
    if access.majority:
        lines += _secure_sum(network, claim)
    elif not received.alone:
        lines.append(
            "The adversary has one antenna, where the signals arrive aligned; otherwise the local ε holds."
            if network.channel.antennas == 1
            else f"The server keeps all its {network.channel.antennas} antennas; the channels to them are independent."
        )
    lines += [*_radio(situation), *said_of_plugins(network)]
    if np.any(received.presence < 1):
        worst = float(np.max(1 - received.presence))
        weak = (
            "counts as aligned, its noise does not count" if received.weakened else "is silent, which anybody may see"
        )
        lines.append(f"A device whose channel is too weak (up to {up(worst, 2)} of the time) {weak}.")
    if claim.live:
        lines.append(
            "The noise is drawn live, on a public grid, from the operating system's entropy; δ includes the cost of "
            "grid and coins."
        )
    if network.channel.power_rule == "paper" and np.any(received.failure > 0):
        limited = float(np.max(received.misses)) * uses
        why = "at the power limit the paper's power rule reveals whether there is a feature"
        lines.append(
            f"ε is infinite: {why}."
            if limited >= claim.delta
            else f"δ includes (1 + e^ε)·{up(limited, 2)}: {why}, which happens that often at most."
        )
    scheme = network.scheme
    if network.cover_noise and not scheme.independent:
        lines.append("Silent devices still transmit their noise; the adversary may know who they are.")
    elif network.cover_noise:
        lines.append("Silent devices still transmit their noise, and the adversary does not learn who took part.")
    elif scheme.independent and claim.neighbours.keeps_noise:
        lines.append("The adversary sees who takes part; ε is over the draw of participation (ex ante).")
    elif scheme.independent:
        lines.append("The adversary sees who of the others takes part, but not whether the device itself does.")
    if scheme.assumption:
        lines.append(scheme.assumption)
    if access.radio:
        credited = "The receiver's noise is counted" if received.extra else "The receiver's noise is not counted"
        lines.append(f"{credited}.")
    if claim.inferences > 1:
        lines.append(f"ε covers {claim.inferences} inferences together.")
    lines += _slots(network)
    lines.append("A device's ε does not protect the object: see the object's ε.")
    return tuple(lines)


def _slots(network: Network) -> list[str]:
    """The sentence about an inference of several slots."""
    slots = network.slots
    if slots.count == 1:
        return []
    drawn = "drawn anew in each" if slots.redrawn else "the same in all slots of an inference"
    return [
        f"ε is the cap: all {slots.count} slots of an inference, however early the server stops. Coins, scores and "
        f"channel are {drawn}. A second inference on the same view has a second cap."
    ]


def _not_jammed(network: Network, claim: Claim, received: Aggregate) -> list[str]:
    """The assumption on who drops out, where the adversary sees who takes part, or whose noise shields a device."""
    if not network.dropouts:
        return []
    lines: list[str] = []
    if not received.cover_noise and bool(np.any(received.participation < 1) or np.any(received.presence < 1)):
        lines.append("Who drops out of a slot does not depend on who takes part in it: nobody jams by that.")
    elsewhere = network.adversary.antennas > 0 and eavesdropper.why_local(network, claim) is None
    if elsewhere or (received.strength is not None and not received.alone):
        lines.append("Who drops out does not depend on gains, errors or anybody's antennas: nobody jams by those.")
    return lines


def _secure_sum(network: Network, claim: Claim) -> list[str]:
    """Trust of a secure sum, and the integers it works on (docs/howto/secure-sum.md)."""
    count, t = network.devices.count, network.survivors
    lines = [
        f"A secure sum, opened for at least {t} of {count} devices; the server may lie, and chooses which.",
        f"Devices that collude with the server: at most {network.colluders}. It does not issue their identities, "
        "and X25519, Ed25519, HKDF, ChaCha20-Poly1305 and SHA-256 hold. Whoever breaks this gets the local ε.",
    ]
    try:
        ring = ring_of(network)
        lines.append(
            f"Values are integers modulo 2^{ring.bits} on a grid of {ring.step:.3g}. The sum wraps around with "
            f"probability below {MOST_WRAPS:g}, which costs accuracy, never ε."
        )
    except NetworkError as error:
        lines.append(f"The network cannot run: {error}.")
    if not claim.neighbours.keeps_noise:
        lines.append("ε is infinite: the server sees which devices send.")
    return lines


def _radio(situation: Situation) -> list[str]:
    """Of errors, streams and eavesdroppers."""
    network, claim, received, uses = situation.network, situation.claim, situation.here, situation.uses
    lines: list[str] = []
    if not network.channel.known and not received.alone:
        lines.append(
            "The adversary may know all gains and errors; they are independent of data and noise (honest pilots)."
        )
        lines.append("Symbols are complex, so errors of the phase cost no privacy.")
        if claim.live:
            lines.append(
                "The receiver's noise is at least 2^-17 of the privacy noise (case c of the live-noise theorem)."
            )
    use = "slot" if uses > claim.inferences else "inference"
    if uses > 1 and network.channel.redrawn and received.varies:
        lines.append(
            f"The channel (gains, errors, who is too weak) is drawn anew in every {use}. One that stays as it is "
            "over all of them has an ε of its own, larger or smaller: epsilon_if_static."
        )
    if uses > 1 and not network.channel.redrawn:
        lines.append(
            f"One draw of the channel for all {uses} {use}s: an air that restarts or a device that "
            "moves draws again, which ε does not cover here. A ledger counts such epochs."
        )
        lines += _still(situation)
    if averages(network, received):
        lines.append(
            "Requests do not depend on the channel: the server does not choose its moments by gains, errors or outages."
        )
        lines.append("Gains and errors of different devices are independent: nothing weakens several of them at once.")
    if network.adversary.antennas:
        why = eavesdropper.why_local(network, claim)
        over = f", and all channels stay the same or are all drawn anew in each {use} (the larger of the two)"
        server = "s count" if network.channel.antennas > 1 else " counts"
        knows = "does not learn the answer and"
        if claim.knows_answer:
            knows = f"may learn the answer, so the server's antenna{server} among its own; it"
        lines.append(
            f"An eavesdropper elsewhere gets the local ε: {why}."
            if why
            else f"An eavesdropper elsewhere {knows} has Rayleigh channels, independent and equally strong on average "
            f"from all devices{over * (uses > 1)}; one that may choose its place, or the moments, gets the "
            "local ε."
        )
    return lines


def _still(situation: Situation) -> list[str]:
    """The sentence about what is not accounted for over one draw of the channel."""
    network, claim, received = situation.network, situation.claim, situation.here
    if not received.varies:
        return []
    if not network.scheme.independent or not claim.neighbours.keeps_noise:
        return ["Over such a stream scores and removal are not accounted for: only own noise counts (the local ε)."]
    if np.all(received.participation == 1) or received.alone:
        return []
    if received.strength is not None:
        return [
            "Over such a stream of gains that vary, participation below 1 leaves own noise alone (see the local ε)."
        ]
    if situation.given_who_is_heard is None:
        return [f"Only own noise counts (the local ε): {MANY_KINDS}."]
    return ["Who is too weak is drawn once; who takes part, in each of them."]


def said_of_plugins(network: Network) -> list[str]:
    """A sentence about each plug-in that ε rests on; none where all is airpool's own."""
    claims = {
        "scheme": "how often devices take part does not depend on the features",
        "fading": "gains follow this law, by which outage and γ are computed" + _checked(network),
    }
    return [
        f"Claimed by the plug-in {each.name} ({' '.join(filter(None, (each.source, each.version)))}, SHA-256 "
        f"{each.sha256[:12]}): {claims[each.what]}."
        for each in network_plugins(network)
    ]


def _checked(network: Network) -> str:
    """What airpool has checked itself of a plug-in's fading law."""
    checked = Fading(network.channel.fading, k_factor_db=network.channel.k_factor_db).checked
    if checked is None:
        return ""
    by = f"{checked.draws:,} of its own draws" if checked.draws else "its quantiles, of which gains are drawn"
    return f"; checked here: its distribution function against {by}, down to a probability of {up(checked.least, 2)}"


COLLUDER = "a colluder knows its own feature: the object is not protected"
REMOVED = "removal of all devices leaves no noise"
NO_NOISE = "no noise"
NO_OWN_NOISE = "no noise of its own"
POWER_LIMIT = "at the power limit the paper's power rule reveals whether there is a feature"
SENDERS_SEEN = "the server knows who sends, so that a device's removal is seen"
GRID_REMOVED = "live noise lies on a grid, which shows a removal unless the receiver's noise covers it"
ALONE = "live noise that arrives unaligned protects its own device alone unless the receiver's noise covers its grid"
GRID = "at so large an ε the grid of live noise costs more than δ"
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


def reasons(situation: Situation, leaks: Mapping[str, OverTime], epsilons: Mapping[str, Any]) -> dict[str, str]:
    """The reason of each infinite ε by its name, of the first device for which it is; none where all are finite.

    leaks: what each ε is computed from.
    """
    found, network, claim, received = {}, situation.network, situation.claim, situation.here
    for name, values in epsilons.items():
        infinite = [] if values is None else np.flatnonzero(np.isinf(np.atleast_1d(values))).tolist()
        if infinite and name == "epsilon_object":
            found[name] = _object(network, claim, received)
        elif infinite:
            why, own = why_unbounded(leaks[name]), name == "epsilon_local"
            found[name] = _device(network, claim, received, infinite[0], why, own=own)
    return found


def _object(network: Network, claim: Claim, received: Aggregate) -> str:
    if not network.scheme.independent:
        return SCORES
    if not claim.neighbours.keeps_noise:
        return REMOVED
    if received.colluders or received.colluding:
        return COLLUDER
    shown = _beyond_the_law(network, claim, received.failure.sum())
    silent = (received.variance == 0) & (received.shift > 0)
    return NO_NOISE if bool(np.all(received.variance == 0)) else NO_OWN_NOISE if bool(np.any(silent)) else shown


def _device(network: Network, claim: Claim, received: Aggregate, k: int, why: str, *, own: bool) -> str:
    """why: nothing is proven of its leak, which comes after what its settings say."""
    if not network.scheme.independent and not getattr(network.scheme, "score_noise_std", 1.0):
        return BARE_SCORES
    if not claim.neighbours.keeps_noise:
        if network.channel.rules.senders_seen:
            return SENDERS_SEEN
        if received.failure[k] >= 1 and claim.live:
            return GRID_REMOVED
        if own or received.alone:
            return GONE
    if (own or received.alone) and received.variance[k] == 0:
        return NO_OWN_NOISE
    if not np.any(_counted(received, k)) and received.extra == 0:
        return NO_NOISE
    shown = why or _beyond_the_law(network, claim, received.failure[k])
    return OTHERS_SILENT if shown == SHOWN and received.variance[k] == 0 else shown


def _counted(received: Aggregate, k: int) -> Floats:
    """Noise that protects a device: its own, and that of others who neither collude nor are missing."""
    others = np.delete(received.variance, [k, *(j for j in received.colluding if j != k)])
    return np.append(np.sort(others)[: max(len(others) - received.absent, 0)], received.variance[k])


def _beyond_the_law(network: Network, claim: Claim, failure: float) -> str:
    if network.channel.power_rule == "paper" and failure * network.uses(claim) >= claim.delta:
        return POWER_LIMIT
    return GRID if claim.live else SHOWN
