"""The controls of air and slots, and all controls in their groups: `KNOBS` and `GROUPS`."""

from airpool.web import knobs as k
from airpool.web.knobs import Knob

_AIR = {
    "access": Knob(
        "How signals reach the server",
        "The air adds them up, each is received by itself, or a secure sum over an ordinary network.",
        "choice",
        default="superposed",
        choices=(
            k.KnobChoice(
                "superposed", "all at once, on the air", "The server receives the sum: all noise protects each."
            ),
            k.KnobChoice(
                "orthogonal", "one after the other", "The server receives each device: only its own noise counts."
            ),
            k.KnobChoice(
                "secure", "a secure sum, no radio", "Masked numbers over a network; the server opens the sum only."
            ),
        ),
    ),
    "fading": Knob(
        "Fading",
        "How the strength of a link varies.",
        "choice",
        default="none",
        choices=(
            k.KnobChoice("none", "none", "Every link is as strong as its mean."),
            k.KnobChoice("rician", "Rician", "A line of sight and echoes."),
            k.KnobChoice("rayleigh", "Rayleigh", "Echoes alone."),
            k.KnobChoice("nakagami:m=2", "Nakagami, m = 2", "Between the two."),
            k.KnobChoice("log-normal:std_db=4", "log-normal, 4 dB", "Shadowing."),
        ),
    ),
    "k_factor_db": Knob(
        "Rician K factor",
        "Power of the line of sight over that of the echoes.",
        default="4.8",
        low=-10,
        high=20,
        step=0.1,
        unit="dB",
        ends=("echoes", "line of sight"),
    ),
    "power_dbm": Knob(
        "Power of a device",
        "Peak power. One number, or one for each device.",
        symbol="P",
        default="30",
        low=0,
        high=40,
        step=0.5,
        unit="dBm",
        per_device=True,
    ),
    "path_loss_db": Knob(
        "Path loss",
        "Loss on the way to the server. One number, or one for each device.",
        default="0",
        low=0,
        high=40,
        step=0.5,
        unit="dB",
        per_device=True,
    ),
    "receiver_noise_std": Knob(
        "Noise of the receiver",
        "It costs accuracy. ε does not count on it: an eavesdropper may have a better receiver.",
        symbol="σₘ",
        default="0",
        low=0,
        high=5,
        step=0.01,
        unit="√mW",
    ),
    "outage": Knob(
        "Largest outage",
        "A device whose link is too weak stays silent, with at most this probability.",
        default="0.01",
        low=1e-4,
        high=0.5,
        scale="log",
    ),
    "power_rule": Knob(
        "Power control",
        "What a device does whose link is too weak for its share.",
        "choice",
        default="truncate",
        choices=(
            k.KnobChoice("truncate", "stay silent", ""),
            k.KnobChoice("backoff", "send more weakly", ""),
            k.KnobChoice("paper", "the paper's rule", "At the power limit it reveals whether there is a feature."),
        ),
    ),
    "gamma": Knob(
        "Alignment",
        "Strength at which all signals arrive: auto, or a number.",
        "text",
        symbol="γ",
        default="auto",
    ),
    "csi_error_std": Knob(
        "Error of the channel estimate",
        "Devices align by an estimate of their channel; the sum blurs where it is wrong.",
        default="0",
        low=0,
        high=0.5,
        step=0.01,
    ),
    "phase_error_std": Knob(
        "Error of the phase",
        "Clocks and oscillators that are not quite in step.",
        default="0",
        low=0,
        high=1,
        step=0.01,
        unit="rad",
    ),
    "server_antennas": Knob(
        "Antennas of the server",
        "It receives by one public beam. More than one takes half a minute to account for.",
        "whole",
        default="1",
        low=1,
        high=8,
        step=1,
    ),
    "redrawn": Knob(
        "New channel in each inference",
        "Else one draw of gains and errors serves all of them.",
        "switch",
        default="true",
    ),
}
_SLOTS = {
    "slots": Knob(
        "Slots of an inference",
        "The same features may be sent so often, with fresh noise, until the server is sure. ε is that of all slots.",
        "whole",
        symbol="N",
        default="1",
        low=1,
        high=16,
        step=1,
    ),
    "sure": Knob(
        "How sure the server must be",
        "Probability at which it stops asking.",
        default="0.99",
        low=0.5,
        high=0.999,
        step=0.001,
        ends=("stops early", "asks on"),
    ),
    "slots_redrawn": Knob(
        "New draw in each slot", "Of coins, scores and channel; else once.", "switch", default="true"
    ),
    "abstain": Knob("No answer if unsure", "After the last slot.", "switch", default="false"),
}

GROUPS: dict[str, tuple[str, bool, dict[str, Knob]]] = {
    "ask": ("What you ask for", True, k.ASK),
    "who": ("Devices and task", True, k.WHO),
    "threat": ("Who might look, and how often", True, k.THREAT),
    "turns": ("Who takes part", False, k.TURNS),
    "air": ("The air", False, _AIR),
    "slots": ("Slots", False, _SLOTS),
}
KNOBS: dict[str, Knob] = {name: knob for _, _, of in GROUPS.values() for name, knob in of.items()}
