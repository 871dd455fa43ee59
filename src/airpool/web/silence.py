"""Words for one inference: what each device did in its first slot and why, and what the server sees of it."""

from typing import Any

from airpool.account.words import number
from airpool.network import Network, scheme_rules
from airpool.protocol.inference import Inference
from airpool.radio.link import link_of
from airpool.radio.power import threshold

_WEAKER = 0.999  # aimed at, of the full strength


def devices(network: Network, out: Inference) -> list[dict[str, Any]]:
    """Record of each device in the first slot of the first trial.

    state: sends, weak (at its power limit), noise (cover noise alone) or silent. reason: in words.
    """
    one, got = network.one_slot, out.received
    link = link_of(one)
    needed = threshold(link.transmitters, gamma=link.gamma)
    first = {
        "gain": got.gain[0, 0].tolist(),
        "took_part": got.taking_part[0, 0].tolist(),
        "on_the_air": (got.alignment[0, 0] != 0).tolist(),
        "aim": got.sent.aim[0, 0].tolist(),
        "known": got.sent.known[0, 0].tolist(),
    }
    scores = None if got.noisy_scores is None else got.noisy_scores[0, 0].tolist()
    found = list[dict[str, Any]]()
    for k, values in enumerate(zip(*first.values(), strict=True)):
        gain, took_part, on_the_air, aim, known = values
        if not took_part:
            state, reason = "silent", _did_not(one, k, None if scores is None else scores[k])
            if on_the_air:
                state, reason = "noise", f"{reason} It sends noise alone, so that nobody can tell (cover noise)."
        elif not on_the_air:
            state = "silent"
            reason = f"Its channel is too weak: the gain is {known:.3g}, its power needs {needed[k]:.3g} (outage)."
        elif aim < _WEAKER:
            state, reason = "weak", f"Its channel is weak: at its power limit {aim:.0%} of its strength arrives."
        else:
            state, reason = "sends", "It sends its clipped feature with noise on every number."
        found.append(
            {"device": k, "state": state, "on_the_air": on_the_air, "took_part": took_part, "gain": gain}
            | {"epsilon": number(out.report.epsilon[k]), "reason": reason}
            | {"epsilon_local": number(out.report.epsilon_local[k])}
        )
    return found


def _did_not(network: Network, k: int, noisy_score: float | None) -> str:
    """The reason for which a device takes no part."""
    rules, scheme = scheme_rules(network.scheme), network.scheme
    if not rules.scored:
        p = network.devices.column("participation")[k]
        return f"It did not draw participation: its coin says yes with probability {p:.3g}."
    score = "Its noisy score" if noisy_score is None else f"Its noisy score, {noisy_score:.3g} bit,"
    if rules.ranked:
        return f"It was not selected: {score[0].lower()}{score[1:]} is not among the {rules.selects(scheme)} lowest."
    limit: float = getattr(scheme, "threshold")  # noqa: B009  (the one scheme that decides by itself has it)
    return f"It is too unsure of what it sees: {score[0].lower()}{score[1:]} is above the threshold {limit:.3g}."


def server_sees(network: Network, out: Inference, noise_std: float) -> list[str]:
    """All that reaches the server, in sentences."""
    r, count, rules = network.dimension, network.devices.count, network.channel.rules
    used = int(out.slots[0, 0])
    slots = f" in each of {used} slots; their mean is drawn" if used > 1 else ""
    noise = f"noise of standard deviation {noise_std:.3g} lies on each"
    if rules.separate:
        said = [
            f"The server receives {r} numbers from each of {count} devices by itself{slots}: only a device's own noise "
            f"protects it. Their sum is drawn; {noise} of its numbers."
        ]
    elif not rules.radio:
        said = [
            f"The server opens these {r} numbers, the noisy sum of {count} devices, and nothing else{slots}: the masks "
            f"of the secure sum hide every single feature; {noise}."
        ]
    else:
        said = [
            f"The server receives these {r} numbers, the noisy sum of all devices on the air, and nothing else of what "
            f"they see{slots}. No feature arrives by itself; {noise}."
        ]
    if scheme_rules(network.scheme).ranked:
        said.append("The ranking server also sees every device's noisy score.")
    if scheme_rules(network.scheme).ranked and network.cover_noise:
        said.append("It chooses who takes part; the others send noise (cover noise), so that nobody else can tell.")
    elif rules.senders_seen:
        said.append("It also sees which devices send, but not whose feature is in the sum: the others add noise alone.")
    elif not network.cover_noise:
        said.append("It also sees which devices are on the air.")
    else:
        said.append("Who takes part is hidden: those that do not, send noise (cover noise).")
    if network.channel.antennas > 1:
        said.append(f"It has {network.channel.antennas} antennas and keeps what each receives; one beam is decoded.")
    return said
