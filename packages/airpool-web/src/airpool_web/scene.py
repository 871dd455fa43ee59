"""The scene: one object before the devices, one inference of it, and many. All of it is `airpool.infer`.

Beside the numbers stand words: what each device did in its first slot and why, and what the server sees of it.
"""

from base64 import b64encode
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from PIL import Image
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from airpool._support.rounding import number
from airpool.account.odds import in_words, percent
from airpool.account.report import PrivacyReport
from airpool.models.cameras import cameras
from airpool.models.pretrained import infer_encoded
from airpool.models.vision.views import Cameras
from airpool.network import Network
from airpool.protocol.inference import Inference, Simulation, centralised
from airpool.protocol.server import NO_ANSWER
from airpool.radio.link import level, link_of
from airpool.radio.power import threshold
from airpool_web import copies, meshes, objects
from airpool_web.asked import AskedError, answered, body, computed, fields, reply, whole
from airpool_web.leakage import report_of
from airpool_web.objects import OWN, Looked, Scenery
from airpool_web.settings import LOOK, AskedNetwork, asked_network, read

MOST_TRIALS = 200
MOST_SEED = 2**53 - 1
TOP = 5
_THUMBNAIL = 2  # pixels of a view for one of its picture, along each side


def routes() -> list[BaseRoute]:
    return [
        Route("/api/shapes", answered(_shapes)),
        Route("/api/shape/{name}", answered(_shape)),
        Route("/api/mesh", answered(_mesh), methods=["POST"]),
        Route("/api/views", answered(_views), methods=["POST"]),
        Route("/api/infer", answered(_infer), methods=["POST"]),
    ]


async def _shapes(request: Request) -> Response:
    """The objects to choose from with the model and codec of the query."""
    given = {name: request.query_params[name] for name in ("model", "codec") if name in request.query_params}
    asked = await computed(asked_network, given, request.app.state.options.model)
    return reply(request, await computed(objects.listed, asked.model, asked.codec))


async def _shape(request: Request) -> Response:
    name, scenery = request.path_params["name"], _scenery(request)
    found = scenery.mesh(name) if name.startswith(OWN) else objects.shape(name)
    content = await computed(objects.geometry, found.vertices, found.faces)
    return reply(request, {"name": name, "title": found.name, **content})


async def _mesh(request: Request) -> Response:
    """Keeps a mesh; the reply has its geometry, and `object`, the name by which it is asked for."""
    name = meshes.file_name(request.headers.get("x-name"))
    data = await body(request, meshes.LIMITS.num_bytes)
    scenery = _scenery(request)
    found, mesh = await meshes.read(scenery.jobs, data, name)
    scenery.meshes.put(found, mesh, mesh.size)
    content = await computed(objects.geometry, mesh.vertices, mesh.faces)
    counts = {"num_vertices": len(mesh.vertices), "num_faces": len(mesh.faces)}
    return reply(request, {"id": found, "object": OWN + found, "name": name, "title": name, **counts, **content})


async def _views(request: Request) -> Response:
    given = await fields(request)
    settings, model = _settings(given), request.app.state.options.model
    return reply(request, await computed(views, _scenery(request), _object(given), settings, model))


async def _infer(request: Request) -> Response:
    given = await fields(request)
    several = "trials" in given
    name, seed = _object(given), whole(given, "seed", 0, MOST_SEED)
    trials = whole(given, "trials", 1, MOST_TRIALS, least=1)
    function = many if several else once
    options = (seed, trials) if several else (seed,)
    # Made when it is called: its noise may have to be searched for.
    make = partial(asked_network, _settings(given), request.app.state.options.model)
    return reply(request, await computed(function, _scenery(request), name, make, *options, lane="scene"))


def _scenery(request: Request) -> Scenery:
    return request.app.state.scenery


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in LOOK}


def _object(given: dict[str, Any]) -> str:
    name = given.get("object")
    if not isinstance(name, str) or not 0 < len(name) <= 80:
        raise AskedError("object must be the name of a shape, a sample, or a mesh that was given", field="object")
    return name


# In a thread


def views(scenery: Scenery, name: str, settings: dict[str, Any], model: str) -> dict[str, Any]:
    """Pictures of the views of each device, where there are any, and where the cameras stand: whatever the noise."""
    asked = read(settings, model)
    count = asked.network.devices.count
    looked = scenery.look(name, asked)
    around = Cameras()
    used = cameras(count, asked.model.num_devices)
    pictures, spread = list[str](), [360 * k / count for k in range(count)]
    if looked.views is not None:
        small = torch.nn.functional.avg_pool2d(looked.views[0], _THUMBNAIL).numpy()
        there = torch.nn.functional.avg_pool2d((looked.views[0, :, 1:] > 0).float(), _THUMBNAIL).numpy()[:, 0]
        bright = small[:, 0] / there.clip(1e-6)  # shading where there is an object, which the edge is a part of
        pictures = [picture_address(grey, alpha) for grey, alpha in zip(bright, there, strict=True)]
    return {
        "object": name,
        "truth": looked.truth,
        "devices": count,
        "views": pictures,
        "azimuths": [360 * k / asked.model.num_devices for k in used] if pictures else spread,
        "elevation": around.elevation_deg,
        "note": looked.note,
    }


def once(scenery: Scenery, name: str, make: Any, seed: int) -> dict[str, Any]:
    """One inference: the same as `airpool.infer` with a generator of this seed."""
    asked: AskedNetwork = make()
    network, looked = asked.network, scenery.look(name, asked)
    out = inferred(asked, looked, seed)
    used = int(out.slots[0, 0])
    public = level(network.one_slot, participation=asked.model.participation(network, codec=asked.codec)).of_mean(used)
    probabilities = out.logits[0, 0].softmax(-1)
    found, report = int(out.label[0, 0]), out.report
    label = None if found == NO_ANSWER else asked.model.classes[found]
    order = probabilities.argsort(descending=True)[:TOP].tolist()
    return {
        "object": name,
        "seed": seed,
        "label": label,
        "truth": looked.truth,
        "right": None if looked.truth is None or label is None else label == looked.truth,
        "no_answer": None if label is not None else _no_answer(out),
        "top": [{"label": asked.model.classes[c], "probability": float(probabilities[c])} for c in order],
        "probabilities": probabilities.tolist(),
        "devices": devices_of(network, out),
        "received": out.estimate[0, 0].tolist(),
        "ideal": centralised(out.latents, network.one_slot).estimate[0, 0].tolist(),
        "noise_std": public.noise_std,
        "slots": {"used": used, "most": network.slots.count, "sure": bool(out.sure[0, 0])},
        "epsilon": number(report.worst),
        "epsilon_object": number(report.epsilon_object),
        "delta": asked.claim.delta,
        "inferences": asked.claim.inferences,
        "odds": in_words(report.odds),
        "guess": None if not report.odds else _guess(report),
        "server_sees": server_sees(network, out, public.noise_std),
        "note": looked.note,
        "python": _program(scenery, name, asked, seed) if looked.views is not None else None,
    }


def _program(scenery: Scenery, name: str, asked: AskedNetwork, seed: int) -> str:
    """The same inference in Python; a mesh that was given is read from its file."""
    if name.startswith(OWN):
        file = f"read(Path({scenery.mesh(name).name!r}))"
        mesh = ["from pathlib import Path", "from airpool.models.vision.meshes import read", "", f"own = {file}"]
        mesh += ["mesh = own.vertices, own.faces"]
    else:
        found = f"next(each for each in shapes.all() if each.name == {name!r})"
        mesh = [
            "from airpool.models.vision import shapes",
            "",
            f"shape = {found}",
            "mesh = shape.vertices, shape.faces",
        ]
    which = cameras(asked.network.devices.count, asked.model.num_devices)
    return copies.inference(asked, mesh, cameras=which, seed=seed)


def many(scenery: Scenery, name: str, make: Any, seed: int, trials: int) -> dict[str, Any]:
    """Frequency of each class in `trials` independent inferences of one object; no answer is one, too."""
    asked: AskedNetwork = make()
    looked = scenery.look(name, asked)
    out = inferred(asked, looked, seed, trials)
    found, count = out.label[0].unique(return_counts=True)
    ordered = sorted(zip(count.tolist(), found.tolist(), strict=True), key=lambda pair: (-pair[0], pair[1]))
    names = {NO_ANSWER: None} | dict(enumerate(asked.model.classes))
    slots = out.slots[0].double()
    return {
        "object": name,
        "seed": seed,
        "trials": trials,
        "truth": looked.truth,
        "frequency": [{"label": names[c], "share": n / trials, "count": n} for n, c in ordered],
        "slots": {"mean": float(slots.mean()), "most": asked.network.slots.count},
    }


def inferred(asked: AskedNetwork, looked: Looked, seed: int, trials: int = 1) -> Inference:
    """`airpool.infer` of an object whose encoding is known."""
    report, rng = report_of(asked.network, asked.claim), torch.Generator().manual_seed(seed)
    return infer_encoded(
        asked.model,
        *looked.encoded(),
        network=asked.network,
        claim=asked.claim,
        rng=rng,
        codec=asked.codec,
        simulation=Simulation(trials, report=report),
    )


def _guess(report: PrivacyReport) -> str:
    """The odds of a yes-or-no question about one device, in a short sentence."""
    even = report.odds[0]
    most, prior = percent(even.worst), percent(even.prior)
    return f"A yes-or-no guess about what one device alone sees is right at most {most} of the time instead of {prior}."


def _no_answer(out: Inference) -> str:
    if not bool((out.received.alignment[0, 0] != 0).any()):
        return "No device is on the air: noise alone is never decoded."
    return "The server is not sure after the last slot, and abstains."


def picture_address(grey: ArrayLike, alpha: ArrayLike) -> str:
    """A picture as a data: address. grey, alpha: (H, W) in [0, 1].

    >>> picture_address(np.zeros((2, 3)), np.ones((2, 3)))[:26]
    'data:image/png;base64,iVBO'
    """
    planes, packed = np.stack([np.asarray(grey), np.asarray(alpha)], axis=-1), BytesIO()
    Image.fromarray(np.rint(255 * planes.clip(0, 1)).astype(np.uint8)).save(packed, "PNG")
    return "data:image/png;base64," + b64encode(packed.getvalue()).decode("ascii")


_WEAKER = 0.999  # aimed at, of the full strength


def devices_of(network: Network, out: Inference) -> list[dict[str, Any]]:
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
            state, p = "silent", one.devices.column("participation")[k]
            reason = one.scheme.why_silent(p, None if scores is None else scores[k])
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


def server_sees(network: Network, out: Inference, noise_std: float) -> list[str]:
    """All that reaches the server, in sentences."""
    used, rules = int(out.slots[0, 0]), network.channel.rules
    slots = f" in each of {used} slots; their mean is drawn" if used > 1 else ""
    said = [rules.received(network, slots, f"noise of standard deviation {noise_std:.3g} lies on each")]
    if network.scheme.needs_ranking_server:
        said.append("The ranking server also sees every device's noisy score.")
    if network.scheme.needs_ranking_server and network.cover_noise:
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
