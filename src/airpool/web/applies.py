"""Settings that do not apply, and the reason of each: greyed on the page, and left out of the network.

One table decides both, so that a control that is grey never changes a number.
"""

from collections.abc import Mapping
from typing import Any

from airpool.network import ACCESSES
from airpool.network.scheme import rules_and_settings

SCORE = ("score", "score_rule", "score_bound", "score_noise_std")
SLOTS = ("sure", "slots_redrawn", "abstain")
RADIO = (
    *("fading", "k_factor_db", "receiver_noise_std", "power_dbm", "path_loss_db", "power_rule", "gamma", "outage"),
    *("csi_error_std", "phase_error_std", "redrawn", "server_antennas", "antennas", "knows_answer"),
)
_WAYS = {
    "epsilon": "found from the target ε: the least noise that meets it",
    "accuracy": "found from the target accuracy: the least ε that reaches it",
}


def greyed(given: Mapping[str, Any]) -> dict[str, str]:
    """Name → reason, for every setting that does not apply to what is given; what is left out has its default."""

    def get(name: str, default: Any) -> Any:
        return given.get(name, default)

    found = {"dimension": "the codec sets the length of what a device sends"}
    way, access, name = get("way", "epsilon"), ACCESSES[get("access", "superposed")], get("scheme", "1")
    rules = rules_and_settings(name)[0]
    if way != "noise":
        found["noise_std"] = _WAYS[way]
    if way != "epsilon":
        found["epsilon"] = "it follows from the noise" if way == "noise" else _WAYS["accuracy"]
    if way != "accuracy":
        found["accuracy"] = "it follows: choose “an accuracy” to ask for one"
    if not rules.scored:
        why = "nobody is chosen by a score: schemes 2.1 and 2.2 do that"
        found |= dict.fromkeys((*SCORE, "threshold", "num_selected", "share"), why)
        if rules.coins is not None:
            found["participation"] = f"the plug-in scheme {name} sets it"
    else:
        found["participation"] = "a device takes part by its score, not by a coin"
        if way == "noise":
            found["share"] = "both noises are given: ε is not shared out"
        else:
            found["score_noise_std"] = "found from the score's share of ε"
        if rules.ranked:
            found["threshold"] = "scheme 2.1 has a threshold; 2.2 chooses a number of devices"
        else:
            found["num_selected"] = "scheme 2.2 chooses a number of devices; 2.1 has a threshold"
    if get("slots", 1) == 1:
        found |= dict.fromkeys(SLOTS, "an inference is one slot: allow more slots first")
    if get("fading", "none") != "rician":
        found["k_factor_db"] = "only Rician fading has a K factor"
    if get("fading", "none") == "none":
        found["outage"] = "without fading no device is ever too weak"
    if get("gamma", "auto") != "auto":
        found["outage"] = "γ is given, and the outage follows from it"
    if get("slots", 1) * get("inferences", 1) == 1:
        found["redrawn"] = "it matters over several inferences or slots"
    if get("antennas", 0) == 0:
        found["knows_answer"] = "nobody listens elsewhere: set the eavesdropper's antennas first"
    if not access.radio:
        found |= dict.fromkeys(RADIO, "a secure sum has no radio")
        found["cover_noise"] = "in a secure sum every device always adds its noise"
    elif not rules.scored and "participation" not in found and _always(get("participation", 1.0)):
        found["cover_noise"] = "every device takes part every time, so nobody is silent by choice"
    return found


def _always(participation: Any) -> bool:
    values = participation if isinstance(participation, list) else [participation]
    return all(value == 1 for value in values)
