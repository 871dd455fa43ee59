"""The page's controls as data: label, kind, range, words at both ends; and their groups.

A name is that of the command line's option, with _ for -. `private_end` says at which end of a slider less leaks.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from airpool.evaluation.settings import KEYS, default_of
from airpool.network import ACCESSES, Coin, Ranking, Threshold

Kind = Literal["number", "whole", "choice", "switch", "text"]


@dataclass(frozen=True)
class KnobChoice:
    """One value of a choice."""

    value: str
    label: str
    help: str = ""


@dataclass(frozen=True)
class Knob:
    """One control. default: the text in force where nothing is given; left out, that of the network, if it has one.
    low, high: range of the slider; what is typed may go beyond it. per_device: a list, one number for each device, will
    do."""

    label: str
    help: str
    kind: Kind = "number"
    symbol: str = ""
    default: str = ""
    low: float | None = None
    high: float | None = None
    step: float | None = None
    scale: Literal["linear", "log"] = "linear"
    unit: str = ""
    choices: tuple[KnobChoice, ...] = ()
    private_end: Literal["low", "high"] | None = None
    ends: tuple[str, str] = ("", "")
    per_device: bool = False


def _choices(*of: tuple[str, str, str]) -> tuple[KnobChoice, ...]:
    return tuple(KnobChoice(*each) for each in of)


_MORE = ("more private", "more accurate")

ASK = {
    "way": Knob(
        "You set",
        "Say what you need, and the page finds the noise; or set the noise yourself.",
        "choice",
        default="epsilon",
        choices=_choices(
            ("accuracy", "an accuracy", "The least ε that reaches it is found on the validation objects."),
            ("epsilon", "ε", "The least noise that keeps the promise is found."),
            ("noise", "the noise σ", "ε and accuracy follow from it."),
        ),
    ),
    "accuracy": Knob(
        "Accuracy to reach",
        "Share of objects that the server names rightly. The least ε that reaches it is searched for.",
        default="0.9",
        low=0.05,
        high=0.95,
        step=0.005,
        private_end="low",
        ends=_MORE,
    ),
    "epsilon": Knob(
        "Privacy of each device",
        "ε of the worst device: how well the noise of all devices hides what one of them sees. 0 would tell nothing; "
        "up to about 1 tells little; above 10 next to nothing is hidden.",
        symbol="ε",
        default="2",
        low=0.1,
        high=20,
        scale="log",
        private_end="low",
        ends=_MORE,
    ),
    "noise_std": Knob(
        "Noise of each device",
        "Standard deviation of the noise that a device adds to each number before it sends.",
        symbol="σ",
        low=0.005,
        high=1,
        scale="log",
        private_end="high",
        ends=("more accurate", "more private"),
        per_device=True,
    ),
    "delta": Knob(
        "Probability that ε may fail",
        "Every ε comes with its δ: the promise may be broken with about this probability.",
        symbol="δ",
        low=1e-9,
        high=1e-2,
        scale="log",
        private_end="low",
        ends=("stricter", "laxer"),
    ),
}
WHO = {
    "model": Knob("Sensors and task", "A shipped model: what the devices see, and what the server names.", "choice"),
    "codec": Knob(
        "What a device sends",
        "The summary of its view. The vote is what a device believes about every class; the others are trained.",
        "choice",
    ),
    "devices": Knob(
        "Devices",
        "The noise of all devices adds up and protects each of them.",
        "whole",
        symbol="K",
        low=1,
        high=24,
        step=1,
        private_end="high",
        ends=("fewer", "more private: more noise adds up"),
    ),
    "weight": Knob(
        "Weight",
        "Share of a device in the sum; left empty, 1/K for all. One number, or one for each device.",
        "text",
        symbol="w",
        per_device=True,
    ),
    "clip_norm": Knob(
        "Size limit",
        "Largest length of what a device sends, before noise. One number, or one for each device.",
        "text",
        symbol="C",
        per_device=True,
    ),
    "dimension": Knob("Numbers sent", "Length of what a device sends. The codec sets it.", "whole", symbol="r"),
}
THREAT = {
    "neighbours": Knob(
        "What is hidden",
        "The change to one device that the signals must not show.",
        "choice",
        choices=_choices(
            ("zero-out", "what it sees, against nothing", "Its feature is replaced by zero; its noise stays."),
            ("replace", "what it sees, against anything else", "Its feature is replaced by any other one."),
            ("remove", "whether it is there at all", "The device is removed, and its noise with it."),
        ),
    ),
    "colluders": Knob(
        "Devices on the adversary's side",
        "So many others may tell the adversary their noise, whichever they are. Theirs then does not count.",
        "whole",
        low=0,
        high=11,
        step=1,
        ends=("all honest", "many collude"),
    ),
    "dropouts": Knob(
        "Devices that may be missing",
        "So many others may drop out, whichever they are. ε holds without their noise.",
        "whole",
        low=0,
        high=11,
        step=1,
        ends=("all there", "many missing"),
    ),
    "antennas": Knob(
        "Antennas of an eavesdropper",
        "Somebody elsewhere who listens with so many antennas gets an ε of their own. 0: it is not asked for.",
        "whole",
        low=0,
        high=8,
        step=1,
        ends=("nobody", "many antennas"),
    ),
    "knows_answer": Knob(
        "The eavesdropper may learn the answer",
        "The answer is made of what the server's antenna receives, so it counts among theirs. Off: an assumption.",
        "switch",
    ),
    "inferences": Knob(
        "Inferences that share the ε",
        "What shows in every one of them leaks each time; ε is that of all together.",
        "whole",
        symbol="T",
        low=1,
        high=10_000,
        scale="log",
        private_end="low",
        ends=("more private: asked once", "asked often"),
    ),
}
TURNS = {
    "scheme": Knob(
        "Who takes part",
        "A coin for each device, or a score of how sure it is of what it sees.",
        "choice",
        choices=_choices(
            *((each.name, f"{each.name}: {each.title}", each.about) for each in (Coin, Threshold, Ranking))
        ),
    ),
    "participation": Knob(
        "How often a device takes part",
        "Probability of its coin. One number, or one for each device.",
        symbol="p",
        low=0.05,
        high=1,
        step=0.01,
        ends=("seldom", "always"),
        per_device=True,
    ),
    "cover_noise": Knob("Cover noise", "Silent devices still send noise, so that nobody sees who took part.", "switch"),
    "share": Knob(
        "Share of ε for the score",
        "The score that decides who takes part spends this share of ε; the rest is for the features.",
        default="0.1",
        low=0.01,
        high=0.9,
        step=0.01,
        ends=("features", "scores"),
    ),
    "threshold": Knob(
        "Threshold",
        "A device transmits if its noisy score is at most this.",
        symbol="η",
        low=-1,
        high=2,
        step=0.05,
        unit="bits",
        ends=("few are sure enough", "most take part"),
    ),
    "num_selected": Knob(
        "Devices chosen",
        "So many devices with the lowest noisy scores transmit. Left empty: all but one.",
        "whole",
        low=1,
        high=24,
        step=1,
    ),
    "score": Knob(
        "Score",
        "Uncertainty of a device about what it sees.",
        "choice",
        choices=_choices(("shannon", "Shannon entropy", ""), ("min", "min-entropy", "")),
    ),
    "score_rule": Knob(
        "How the score is bounded",
        "Cut off at the bound, or scaled to it.",
        "choice",
        choices=_choices(("clip", "cut off", ""), ("scale", "scaled", "")),
    ),
    "score_bound": Knob(
        "Bound of the score",
        "Largest score. The smaller it is, the less noise hides it.",
        symbol="Γ",
        low=0.05,
        high=5,
        scale="log",
        unit="bits",
    ),
    "score_noise_std": Knob(
        "Noise of the score",
        "Standard deviation of the noise on the score.",
        symbol="σ₀",
        low=0.05,
        high=20,
        scale="log",
        private_end="high",
        ends=("better choice", "more private"),
    ),
}


_AIR = {
    "access": Knob(
        "How signals reach the server",
        "The air adds them up, each is received by itself, or a secure sum over an ordinary network.",
        "choice",
        choices=_choices(*((name, each.label, each.about) for name, each in ACCESSES.items())),
    ),
    "fading": Knob(
        "Fading",
        "How the strength of a link varies.",
        "choice",
        choices=_choices(
            ("none", "none", "Every link is as strong as its mean."),
            ("rician", "Rician", "A line of sight and echoes."),
            ("rayleigh", "Rayleigh", "Echoes alone."),
            ("nakagami:m=2", "Nakagami, m = 2", "Between the two."),
            ("log-normal:std_db=4", "log-normal, 4 dB", "Shadowing."),
        ),
    ),
    "k_factor_db": Knob(
        "Rician K factor",
        "Power of the line of sight over that of the echoes.",
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
        low=0,
        high=40,
        step=0.5,
        unit="dBm",
        per_device=True,
    ),
    "path_loss_db": Knob(
        "Path loss",
        "Loss on the way to the server. One number, or one for each device.",
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
        low=0,
        high=5,
        step=0.01,
        unit="√mW",
    ),
    "outage": Knob(
        "Largest outage",
        "A device whose link is too weak stays silent, with at most this probability.",
        low=1e-4,
        high=0.5,
        scale="log",
    ),
    "power_rule": Knob(
        "Power control",
        "What a device does whose link is too weak for its share.",
        "choice",
        choices=_choices(
            ("truncate", "stay silent", ""),
            ("backoff", "send more weakly", ""),
            ("paper", "the paper's rule", "At the power limit it reveals whether there is a feature."),
        ),
    ),
    "gamma": Knob(
        "Alignment",
        "Strength at which all signals arrive: auto, or a number.",
        "text",
        symbol="γ",
    ),
    "csi_error_std": Knob(
        "Error of the channel estimate",
        "Devices align by an estimate of their channel; the sum blurs where it is wrong.",
        low=0,
        high=0.5,
        step=0.01,
    ),
    "phase_error_std": Knob(
        "Error of the phase",
        "Clocks and oscillators that are not quite in step.",
        low=0,
        high=1,
        step=0.01,
        unit="rad",
    ),
    "server_antennas": Knob(
        "Antennas of the server",
        "It receives by one public beam. More than one takes half a minute to account for.",
        "whole",
        low=1,
        high=8,
        step=1,
    ),
    "redrawn": Knob(
        "New channel in each inference",
        "Else one draw of gains and errors serves all of them.",
        "switch",
    ),
}
_SLOTS = {
    "slots": Knob(
        "Slots of an inference",
        "The same features may be sent so often, with fresh noise, until the server is sure. ε is that of all slots.",
        "whole",
        symbol="N",
        low=1,
        high=16,
        step=1,
    ),
    "sure": Knob(
        "How sure the server must be",
        "Probability at which it stops asking.",
        low=0.5,
        high=0.999,
        step=0.001,
        ends=("stops early", "asks on"),
    ),
    "slots_redrawn": Knob("New draw in each slot", "Of coins, scores and channel; else once.", "switch"),
    "abstain": Knob("No answer if unsure", "After the last slot.", "switch"),
}

GROUPS: dict[str, tuple[str, bool, dict[str, Knob]]] = {
    "ask": ("What you ask for", True, ASK),
    "who": ("Devices and task", True, WHO),
    "threat": ("Who might look, and how often", True, THREAT),
    "turns": ("Who takes part", False, TURNS),
    "air": ("The air", False, _AIR),
    "slots": ("Slots", False, _SLOTS),
}
_OPEN = ("devices", "dimension", "weight", "num_selected")  # by the model, or the number of devices


def text_of(value: Any) -> str:
    """A value as the text of its setting: equal devices as one number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return text_of(value[0]) if len(set(value)) == 1 else ",".join(map(text_of, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


KNOBS: dict[str, Knob] = {
    name: replace(knob, default=text_of(default_of(name))) if name in KEYS and name not in _OPEN else knob
    for _, _, of in GROUPS.values()
    for name, knob in of.items()
}
