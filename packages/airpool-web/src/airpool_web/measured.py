"""The parts "mse", "cost", "accuracy" and "curve" of an answer: by theory where there is one, else by simulation.

Accuracy is that of `airpool evaluate` on the model's test objects. Every curve draws the same noise at each ε.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from time import monotonic
from typing import Any

import numpy as np

from airpool.evaluation import mse
from airpool.evaluation.evaluate import Evaluation, evaluate
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.models.model import Model
from airpool.network import Claim, Network
from airpool_lab.paper.formulas.theorem2 import TABLE_2
from airpool_web.copies import SEED
from airpool_web.leakage import report_of
from airpool_web.settings import AskedNetwork, met

EPSILONS = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.3, 10.0, 20.0)
_CELLS = 1_500_000  # of latents in float64 that an error is averaged over, within some 20 ms
_LEAST_OBJECTS = 64
_TELL_SECONDS, _CURVE_SECONDS = 0.1, 20.0
_ERROR = {
    "bias": "Devices that are silent or too weak are missing from the sum on average.",
    "participation": "Who takes part, and how well signals are aligned, differs each time.",
    "privacy_noise": "The noise that devices add for privacy.",
    "channel_noise": "The noise of the server's receiver.",
    "unsure": "What a proven upper bound adds, where devices fade together.",
}
_DATA = {
    "modelnet40": "ModelNet40 test set (renders of the CAD models)",
    "photos": "ETH-80, the 16 test objects of fold 0 (photographs)",
    "wearables": "Daily and Sports Activities (UCI), test subject 8",
}


@lru_cache(maxsize=8)
def _encoded(model: Model, codec: str, devices: int) -> EncodedObjects:
    """Test objects of a model, for coins; latents are shared, so few are kept."""
    return held_out(model, Network.uniform(num_devices=devices), codec=codec, against_vote=True)


def _objects_of(network: Network, model: Model, codec: str) -> EncodedObjects:
    """The test objects as the devices of a network see them, beside the vote."""
    if network.scheme.needs_posteriors:
        return held_out(model, network, codec=codec, against_vote=True)
    return _encoded(model, codec, network.devices.count)


# Error


def error_objects(asked: AskedNetwork) -> int | None:
    """The number of objects that the error is averaged over; None where the theory does not cover the network."""
    try:
        mse.check_network(asked.network)
    except ValueError:
        return None
    count = len(asked.model.held_out("test"))  # the same objects for every codec
    per_object = asked.network.devices.count * asked.network.dimension
    return min(count, max(_LEAST_OBJECTS, _CELLS // per_object))


def error_part(asked: AskedNetwork, objects: int) -> dict[str, Any]:
    """The exact mean square error in its parts, over evenly spaced test objects."""
    encoded = _objects_of(asked.network, asked.model, asked.codec)
    rows = np.linspace(0, len(encoded.labels) - 1, objects).round().astype(int)
    found = mse.error(encoded.latents[rows].double().numpy(), asked.network).mean
    names = [name for name in _ERROR if name != "unsure" or found.unsure > 0]
    every = "" if objects == len(encoded.labels) else f"{objects} evenly spaced ones of "
    return {
        "part": "mse",
        "total": float(found.total),
        "parts": [{"name": name, "value": _finite(getattr(found, name)), "help": _ERROR[name]} for name in names],
        "exact": True,
        "objects": objects,
        "note": f"Exact, averaged over {every}the {len(encoded.labels):,} test objects.",
    }


def _finite(value: Any) -> float | str:
    return float(value) if np.isfinite(value) else "inf"


def measured_error(found: Evaluation) -> dict[str, Any]:
    """The measured error, where there is no theory of its parts."""
    note = f"Measured over {found.objects:,} test objects × {found.trials} trials; its parts are known for one slot "
    note += "of scheme 1, with power control “stay silent” or “send more weakly”."
    return {"part": "mse", "total": found.mse, "parts": [], "exact": False, "objects": found.objects, "note": note}


# Cost and accuracy


@lru_cache(maxsize=64)
def measured(network: Network, claim: Claim, model: Model, codec: str, trials: int) -> Evaluation:
    """The evaluation on the test objects, as `airpool evaluate` makes it with this number of trials."""
    objects = _objects_of(network, model, codec)
    return evaluate(objects, network, claim, trials=trials, seed=SEED, report=report_of(network, claim))


def cost_part(found: Evaluation) -> dict[str, Any]:
    """Energy and channel uses of an inference, or the traffic of a secure sum."""
    network, used, traffic = found.report.network, found.slots, found.bytes_per_device
    slots = 1.0 if used is None else used.mean
    part: dict[str, Any] = {"part": "cost", "channel_uses": found.channel_uses, "slots": slots}
    if traffic is not None:
        sent, received = traffic
        words = [f"No radio: each device sends {sent:,} bytes and receives {received:,} in an inference."]
        return part | {
            "energy": None,
            "energy_unit": "",
            "bytes_sent": sent,
            "bytes_received": received,
            "sentences": words,
        }
    count = network.devices.count
    words = [
        f"All {count} devices together spend {found.energy:.4g} mW · channel uses in an inference (measured over "
        f"{found.objects:,} objects × {found.trials} trials).",
        f"A slot takes {found.channel_uses} channel uses, {network.channel.rules.turns}.",
    ]
    if used is not None:
        words.append(
            f"{used.mean:.2f} slots on average, at most {used.cap}. A mean after the fact, promised to nobody."
        )
    return part | {"energy": found.energy, "energy_unit": "mW · channel uses", "sentences": words}


def accuracy_part(asked: AskedNetwork, found: Evaluation) -> dict[str, Any]:
    """Accuracy with its interval, beside the vote on the same noise, without noise, and by chance."""
    low, high = found.accuracy_ci
    vote = None
    if found.vote_accuracy is not None:
        vote = {"mean": found.vote_accuracy, "difference": found.against_vote, "error": found.against_vote_error}
    note = asked.model.held_out("test", codec=asked.codec).fitted(asked.network.devices.count).note
    d = asked.network.devices
    quiet = _no_noise(asked.model, asked.codec, d.count, d.column("weight"), d.column("clip_norm"))
    return {
        "part": "accuracy",
        "mean": found.accuracy_mean,
        "std": found.accuracy_std,
        "low": low,
        "high": high,
        "confidence": 0.95,
        "no_answer": found.no_answer,
        "trials": found.trials,
        "objects": found.objects,
        "seed": found.seed,
        "data": _DATA.get(asked.source, f"test objects of {asked.model.name}"),
        "vote": vote,
        "no_noise": quiet,
        "chance": 1 / len(asked.model.classes),
        "note": note,
    }


@lru_cache(maxsize=64)
def _no_noise(model: Model, codec: str, count: int, weight: tuple[float, ...], clip: tuple[float, ...]) -> float:
    """Accuracy where everybody is received without noise."""
    dimension = model.codec(codec).dimension
    plain = Network.uniform(num_devices=count, weight=weight, clip_norm=clip, dimension=dimension)
    objects = replace(_encoded(model, codec, count), vote=None)
    return evaluate(objects, plain, trials=1, instead="centralised").accuracy_mean


def unavailable(why: str) -> Iterator[dict[str, Any]]:
    """The parts of a network that cannot be simulated: without numbers, with the reason."""
    note = f"Not simulated: {why}."
    yield {"part": "mse", "total": None, "parts": [], "exact": False, "objects": 0, "note": note}
    yield {"part": "cost", "channel_uses": None, "slots": None, "energy": None, "energy_unit": "", "sentences": [note]}
    none = dict.fromkeys(("mean", "std", "low", "high", "no_answer", "vote", "no_noise", "chance"))
    yield {"part": "accuracy", **none, "trials": 0, "objects": 0, "seed": SEED, "confidence": 0.95} | {
        "data": "",
        "note": note,
    }


# Curve


def curve(asked: AskedNetwork, here: Evaluation) -> Iterator[dict[str, Any]]:
    """The part "curve" again and again while it fills: this setting at every ε, beside the paper's printed points."""
    d = asked.bare.devices
    std = d.column("noise_std")
    # The curve does not depend on the noise in force, so its points are those of another one.
    plain = len(set(std)) == 1
    bare = replace(asked.bare, devices=replace(d, noise_std=0.05)) if plain else asked.bare
    ours, vote = list[Any](), list[Any]()
    paper = TABLE_2.get(asked.network.scheme.name, {}) if asked.source == "modelnet40" else {}
    began = told = monotonic()
    for number, epsilon in enumerate(EPSILONS, 1):
        late = monotonic() - began > _CURVE_SECONDS
        point = None if late else _point(bare, asked.claim, asked.share, asked.model, asked.codec, epsilon)
        ours.append(None if point is None else point[0])
        vote.append(None if point is None else point[1])
        if number < len(EPSILONS) and monotonic() - told < _TELL_SECONDS:
            continue
        told = monotonic()
        yield {
            "part": "curve",
            "epsilon": list(EPSILONS[:number]),
            "ours": list(ours),
            "vote": list(vote),
            "paper": [
                {"epsilon": at, "accuracy": cell.mean, "std": cell.std, "label": f"the paper, scheme {name}"}
                for name in [asked.network.scheme.name]
                for at, cell in paper.items()
            ],
            "here": {"epsilon": _finite(here.report.worst), "accuracy": here.accuracy_mean},
            "progress": number / len(EPSILONS),
            "note": f"Cut short after {_CURVE_SECONDS:g} s." if late else "",
        }


@lru_cache(maxsize=512)
def _point(
    bare: Network, claim: Claim, share: float | None, model: Model, codec: str, epsilon: float
) -> tuple[dict[str, float], float | None] | None:
    """Accuracy with its interval, and the vote's, at an ε; None where no noise meets it."""
    try:
        network = met(bare, claim, epsilon, share)
    except ValueError:
        return None
    found = measured(network, claim, model, codec, 1)
    low, high = found.accuracy_ci
    return {"mean": found.accuracy_mean, "low": low, "high": high}, found.vote_accuracy
