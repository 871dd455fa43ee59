"""The answer to /api/knobs: controls, models, presets and defaults, all as data."""

from dataclasses import asdict
from functools import cache
from typing import Any

from airpool.evaluation.demo.comparison import RECEIVER_STD, network
from airpool.models import stored
from airpool.models.stored import StoredModel
from airpool.network import SCHEMES
from airpool.web.radio_knobs import GROUPS, KNOBS

_CLAIMED = 10.0  # the ε that the paper claims for its network
_TITLES = {
    "modelnet40": "12 cameras around an object (ModelNet40, 40 classes)",
    "photos": "16 photographs of an object (ETH-80, 8 classes)",
    "wearables": "5 motion sensors on a body (19 activities)",
}
_CODECS = {
    "vote": "the vote: what each device believes",
    "compact": "compact: trained through the noise",
    "q16": "q16: the paper's, 784 numbers",
    "vote-vgg11": "the vote of the paper's trunk",
}


@cache
def knobs_record(model: str) -> dict[str, Any]:
    """Controls in their groups, models, presets, and the texts in force where nothing is given."""
    models = [_model(name) for name in dict.fromkeys((model, *stored.shipped()))]
    knobs = {name: _knob(name) for name in KNOBS}
    knobs["model"]["choices"] = [{"value": one["name"], "label": one["title"], "help": ""} for one in models]
    codecs = dict.fromkeys(codec for one in models for codec in one["codecs"])
    knobs["codec"]["choices"] = [{"value": name, "label": _CODECS.get(name, name), "help": ""} for name in codecs]
    plugins = [name for name in SCHEMES.names() if name not in SCHEMES.builtin]
    knobs["scheme"]["choices"] += [{"value": name, "label": f"{name} (plug-in)", "help": ""} for name in plugins]
    defaults = {name: knob.default for name, knob in KNOBS.items()}
    first = models[0]
    defaults |= {"model": model, "codec": first["codecs"][0], "devices": str(first["devices"])}
    return {
        "groups": [
            {"name": name, "title": title, "open": opened, "knobs": list(of)}
            for name, (title, opened, of) in GROUPS.items()
        ],
        "knobs": {name: knob | {"default": defaults[name]} for name, knob in knobs.items()},
        "presets": _presets(),
        "models": models,
        "defaults": defaults,
    }


def _knob(name: str) -> dict[str, Any]:
    record = asdict(KNOBS[name])
    low_text, high_text = record.pop("ends")
    record |= {"low_text": low_text, "high_text": high_text, "option": f"--{name.replace('_', '-')}"}
    record |= {"min": record.pop("low"), "max": record.pop("high"), "choices": list(record["choices"])}
    if name == "way":
        record["option"] = None  # it is which option is given
    return record


def _model(name: str) -> dict[str, Any]:
    found: StoredModel = stored.found(name)
    devices = int(found.objects("validation")["posteriors"].shape[1])
    title = _TITLES.get(name, f"{found.name}: {devices} sensors, {len(found.classes)} classes")
    return {"name": name, "title": title, "codecs": list(found.trunks), "devices": devices}


def _presets() -> list[dict[str, Any]]:
    """Four networks to begin with. The first two are those of `airpool demo`."""
    dimension = stored.found("modelnet40").codec("q16").dimension
    claimed = network("paper", _CLAIMED, dimension=dimension).devices.column("noise_std")[0]
    paper = {"codec": "q16", "participation": "0.9", "way": "noise", "noise_std": repr(claimed)}
    return [
        {
            "name": "paper",
            "title": "The paper's network",
            "text": f"Codec q16, an ideal channel, coins of 0.9, and the noise for which the paper claims ε = "
            f"{_CLAIMED:g}. Beside it stands the exact ε.",
            "settings": paper,
        },
        {
            "name": "ours",
            "title": "Ours",
            "text": "The vote over Rician fading and receiver noise, everybody takes part, the least noise for ε = 2.",
            "settings": {"epsilon": "2", "fading": "rician", "receiver_noise_std": repr(RECEIVER_STD)},
        },
        {
            "name": "wearables",
            "title": "Wearables",
            "text": "Five motion sensors on one body say which of 19 activities it is. Fewer devices share the noise.",
            "settings": {"model": "wearables", "epsilon": "4"},
        },
        {
            "name": "hostile",
            "title": "A hostile radio",
            "text": "Rayleigh fading, wrong channel estimates and phases, two colluders, one device missing, and an "
            "eavesdropper with four antennas.",
            "settings": {
                "epsilon": "2",
                "fading": "rayleigh",
                "receiver_noise_std": repr(RECEIVER_STD),
                "csi_error_std": "0.1",
                "phase_error_std": "0.2",
                "colluders": "2",
                "dropouts": "1",
                "antennas": "4",
            },
        },
    ]
