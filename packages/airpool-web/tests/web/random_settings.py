"""Settings of the page at random, as a browser sends them."""

import json

from tests.web.asking import asked

from airpool_web.answers import costly
from airpool_web.knobs import KNOBS
from airpool_web.settings import read

WORDS = {
    name: [choice.value for choice in knob.choices if choice.value != "paper"]
    for name, knob in KNOBS.items()
    if knob.kind == "choice"
} | {"model": ["modelnet40", "wearables"], "codec": ["vote", "compact"], "neighbours": ["zero-out", "replace"]}
# Ranges within which nothing takes long and every combination has a network.
WHOLE = {
    "devices": (4, 12),
    "colluders": (0, 1),
    "dropouts": (0, 1),
    "antennas": (0, 0),
    "inferences": (1, 30),
    "slots": (1, 3),
    "server_antennas": (1, 1),
    "num_selected": (1, 4),
}
NUMBERS = {
    "accuracy": (0.2, 0.5),
    "epsilon": (0.5, 10),
    "noise_std": (0.02, 0.5),
    "delta": (1e-7, 1e-3),
    "clip_norm": (0.5, 2),
    "participation": (0.5, 1),
    "share": (0.05, 0.5),
    "threshold": (0.3, 1.5),
    "score_bound": (0.5, 2),
    "score_noise_std": (0.5, 5),
    "k_factor_db": (0, 10),
    "power_dbm": (20, 35),
    "path_loss_db": (0, 10),
    "receiver_noise_std": (0, 1),
    "outage": (0.005, 0.2),
    "csi_error_std": (0, 0.2),
    "phase_error_std": (0, 0.3),
    "sure": (0.6, 0.99),
}


def text_for(rng, name):
    """A text that a control may have."""
    if name in WORDS:
        return str(rng.choice(WORDS[name]))
    if KNOBS[name].kind == "switch":
        return str(rng.choice(["true", "false"]))
    if name in WHOLE:
        low, high = WHOLE[name]
        return str(rng.integers(low, high + 1))
    if name in NUMBERS:
        low, high = NUMBERS[name]
        return repr(round(float(rng.uniform(low, high)), 6))
    return {"gamma": "auto", "weight": "0.1", "dimension": "7"}[name]


def settings_at_random(rng, *, share=0.35):
    """Settings with every control moved with this probability; none that takes a minute."""
    found = {name: text_for(rng, name) for name in KNOBS if rng.random() < share}
    found["way"] = str(rng.choice(["epsilon", "noise"]))
    if costly(read(found).bare):
        found |= {"csi_error_std": "0", "phase_error_std": "0"}
    return found


def answers_to(*settings):
    """Of each of the settings, the last part of every name."""
    replies = asked(*(("POST", "/api/answer", {"json": each}) for each in settings))
    found = []
    for reply in replies:
        lines = [json.loads(line) for line in reply.text.splitlines()]
        found.append({line.get("part", "error"): line for line in lines})
    return found
