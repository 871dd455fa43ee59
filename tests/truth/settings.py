"""Every setting of a network and of a claim, each with both before and after it is changed, where it matters.

`devices.noise_std` is a field; `channel.access=secure` is a field that is one of a few words, each of which has a row.
"""

from dataclasses import fields, replace
from enum import StrEnum
from typing import Any, get_args, get_type_hints

from airpool.network import SCHEMES, Adversary, Channel, Claim, Devices, Network, Ranking, Slots, Threshold
from airpool.network.fading import LAWS

BASE = Network(
    devices=Devices(count=3, weight=0.5, clip_norm=1.0, noise_std=0.5, participation=0.8),
    channel=Channel(noise_std=0.3),
    adversary=Adversary(1),
    dimension=2,
)
CLAIM = Claim(delta=1e-2)
FADED = replace(BASE, channel=replace(BASE.channel, fading="rayleigh", outage=0.1))
RICIAN = replace(BASE, channel=replace(BASE.channel, fading="rician", outage=0.05))
STEADY = replace(FADED, devices=replace(FADED.devices, participation=1.0))
FULL = replace(BASE, devices=replace(BASE.devices, participation=1.0))
BEAM = replace(FADED, devices=Devices(count=2, weight=0.5, noise_std=0.1))
QUIET = replace(BASE, channel=Channel(), adversary=Adversary(0))
SCORED = replace(BASE, scheme=Threshold(score_noise_std=1.0))
SLOTTED = replace(BASE, slots=Slots(4, sure=0.7))
RANKED = replace(BASE, scheme=Ranking(num_selected=2, score_noise_std=1.0))


def asked(row: str) -> tuple[tuple[Network, Claim], tuple[Network, Claim]]:
    """The network and its claim, before the change of a row and after it."""
    network, part, change = SETTINGS[row]
    claim = replace(CLAIM, inferences=5) if network is STEADY else CLAIM
    if part == "claim":
        return (network, claim), (network, replace(claim, **change))
    after = change if part == "network" else {part: replace(getattr(network, part), **change)}
    return (network, claim), (replace(network, **after), claim)


# Row → (network before, part, change).
SETTINGS: dict[str, tuple[Network, str, dict[str, Any]]] = {
    "devices.count": (BASE, "network", {"devices": Devices(count=4, weight=0.5, noise_std=0.5, participation=0.8)}),
    "devices.weight": (BASE, "devices", {"weight": 0.6}),
    "devices.clip_norm": (BASE, "devices", {"clip_norm": 1.2}),
    "devices.noise_std": (BASE, "devices", {"noise_std": 0.6}),
    "devices.participation": (BASE, "devices", {"participation": 0.9}),
    "devices.power_dbm": (BASE, "devices", {"power_dbm": 20.0}),
    "devices.path_loss_db": (BASE, "devices", {"path_loss_db": 10.0}),
    "devices.epsilon": (BASE, "devices", {"epsilon": 1.0}),
    "channel.fading=rician": (BASE, "channel", {"fading": "rician", "outage": 0.05}),
    "channel.fading=rayleigh": (BASE, "channel", {"fading": "rayleigh", "outage": 0.05}),
    "channel.fading=nakagami": (BASE, "channel", {"fading": "nakagami:m=2", "outage": 0.05}),
    "channel.fading=log-normal": (BASE, "channel", {"fading": "log-normal:std_db=4", "outage": 0.05}),
    "channel.k_factor_db": (RICIAN, "channel", {"k_factor_db": 0.0}),
    "channel.noise_std": (BASE, "channel", {"noise_std": 0.6}),
    "channel.access=orthogonal": (BASE, "channel", {"access": "orthogonal"}),
    "channel.access=secure": (QUIET, "channel", {"access": "secure"}),
    "channel.power_rule=backoff": (FADED, "channel", {"power_rule": "backoff"}),
    "channel.power_rule=paper": (BASE, "channel", {"power_rule": "paper"}),
    "channel.gamma": (BASE, "channel", {"gamma": 3.0}),
    "channel.outage": (FADED, "channel", {"outage": 0.3}),
    "channel.csi_error_std": (BASE, "channel", {"csi_error_std": 0.2}),
    "channel.phase_error_std": (BASE, "channel", {"phase_error_std": 0.4}),
    "channel.redrawn": (STEADY, "channel", {"redrawn": False}),
    "channel.antennas": (BASE, "channel", {"antennas": 2}),
    "channel.antennas, faded": (BEAM, "channel", {"antennas": 4}),
    "adversary.antennas": (BASE, "adversary", {"antennas": 2}),
    "scheme=2.1": (BASE, "network", {"scheme": Threshold(score_noise_std=1.0)}),
    "scheme=2.2": (BASE, "network", {"scheme": Ranking(num_selected=2, score_noise_std=1.0)}),
    "scheme.score": (SCORED, "scheme", {"score": "min"}),
    "scheme.score_rule": (SCORED, "scheme", {"score_rule": "scale"}),
    "scheme.score_bound": (SCORED, "scheme", {"score_bound": 2.0}),
    "scheme.score_noise_std": (SCORED, "scheme", {"score_noise_std": 2.0}),
    "scheme.threshold": (SCORED, "scheme", {"threshold": 1.5}),
    "scheme.num_selected": (RANKED, "scheme", {"num_selected": 3}),
    "dimension": (BASE, "network", {"dimension": 4}),
    "cover_noise": (BASE, "network", {"cover_noise": True}),
    "colluders": (BASE, "network", {"colluders": 1}),
    "dropouts": (BASE, "network", {"dropouts": 1}),
    "slots.count": (BASE, "slots", {"count": 4}),
    "slots.sure": (SLOTTED, "slots", {"sure": 0.999}),
    "slots.redrawn": (SLOTTED, "slots", {"redrawn": False}),
    "slots.abstain": (SLOTTED, "slots", {"abstain": True}),
    "claim.delta": (BASE, "claim", {"delta": 1e-3}),
    "claim.neighbours=replace": (BASE, "claim", {"neighbours": "replace"}),
    "claim.neighbours=remove": (FULL, "claim", {"neighbours": "remove"}),
    "claim.inferences": (BASE, "claim", {"inferences": 5}),
    "claim.colluding": (BASE, "claim", {"colluding": (1,)}),
    "claim.credit_channel_noise": (BASE, "claim", {"credit_channel_noise": True}),
    "claim.live": (BASE, "claim", {"live": True}),
    "claim.per_event": (BASE, "claim", {"per_event": 5}),
    "claim.knows_answer": (BASE, "claim", {"knows_answer": False}),
}


def every_setting() -> set[str]:
    """All rows that there must be: every field of every part, and every word that a field may be."""
    out: set[str] = set()
    default = {"superposed", "truncate", "complex", "zero-out", "posterior"}  # every other word is a change from these
    parts: dict[str, tuple[type[Any], ...]] = {
        "": (Network,), "devices.": (Devices,), "channel.": (Channel,), "adversary.": (Adversary,), "slots.": (Slots,),
        "claim.": (Claim,),
        "scheme.": tuple(SCHEMES.get(name) for name in SCHEMES.builtin),
    }  # fmt: skip
    for prefix, kinds in parts.items():
        for kind in kinds:
            hints = get_type_hints(kind)
            for each in fields(kind):
                hint = hints[each.name]
                closed = list(hint) if isinstance(hint, type) and issubclass(hint, StrEnum) else get_args(hint)
                words = [str(word) for word in closed if isinstance(word, str)]
                if prefix == "" and each.name in ("devices", "channel", "adversary", "scheme", "slots"):
                    continue  # these are the parts
                named = len(words) > 1 and prefix != "scheme."
                out |= (
                    {f"{prefix}{each.name}={w}" for w in words if w not in default} if named else {prefix + each.name}
                )
    out = (out - {"channel.fading"}) | {
        f"channel.fading={law}" for law in LAWS.builtin if law not in ("none", "sionna")
    }
    return out | {f"scheme={name}" for name in SCHEMES.builtin if name != "1"}
