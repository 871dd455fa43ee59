"""The scene: one object before the devices, one inference of it, and many. All of it is `airpool.infer`."""

from typing import Any

import torch
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from airpool.account.guesses import in_words, percent
from airpool.account.report import PrivacyReport
from airpool.account.words import number
from airpool.models.cameras import cameras
from airpool.models.pretrained import infer
from airpool.models.vision.views import Cameras
from airpool.protocol.inference import Inference, Simulation, centralised
from airpool.protocol.server import NO_ANSWER
from airpool.radio.link import level
from airpool.web import copies, meshes, objects, png, silence
from airpool.web.asked import AskedError, answered, body, computed, fields, reply
from airpool.web.jobs import Jobs
from airpool.web.leakage import report_of
from airpool.web.objects import OWN, Looked, Remembered, Scenery
from airpool.web.settings import LOOK, AskedNetwork, asked_network, read

MOST_TRIALS = 200
MOST_SEED = 2**53 - 1
TOP = 5
_THUMBNAIL = 2  # pixels of a view for one of its picture, along each side


class SceneState:
    """State of the scene: objects, and the process that reads meshes."""

    def __init__(self) -> None:
        self.scenery, self.jobs = Scenery(), Jobs()

    def close(self) -> None:
        self.jobs.close()


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
    asked = await computed(_asked, request, given)
    return reply(request, await computed(objects.listed, asked.model, asked.codec))


async def _shape(request: Request) -> Response:
    name, scenery = request.path_params["name"], _state(request).scenery
    found = scenery.mesh(name) if name.startswith(OWN) else objects.shape(name)
    content = await computed(objects.geometry, found.vertices, found.faces)
    return reply(request, {"name": name, "title": found.name, **content})


async def _mesh(request: Request) -> Response:
    """Keeps a mesh; the reply has its geometry, and `object`, the name by which it is asked for."""
    name = meshes.file_name(request.headers.get("x-name"))
    data = await body(request, meshes.LIMITS.num_bytes)
    state = _state(request)
    found, mesh = await meshes.read(state.jobs, data, name)
    state.scenery.meshes.put(found, mesh, mesh.size)
    content = await computed(objects.geometry, mesh.vertices, mesh.faces)
    counts = {"num_vertices": len(mesh.vertices), "num_faces": len(mesh.faces)}
    return reply(request, {"id": found, "object": OWN + found, "name": name, "title": name, **counts, **content})


async def _views(request: Request) -> Response:
    given = await fields(request)
    settings, model = _settings(given), request.app.state.options.model
    return reply(request, await computed(views, _state(request).scenery, _object(given), settings, model))


async def _infer(request: Request) -> Response:
    given = await fields(request)
    name, seed, trials = _object(given), _whole(given, "seed", 0, MOST_SEED), _whole(given, "trials", 1, MOST_TRIALS)
    several = "trials" in given
    function = many if several else once
    options = (seed, trials) if several else (seed,)
    made = function, _state(request).scenery, name, _later(request, given), *options
    return reply(request, await computed(*made, lane="scene"))


def _state(request: Request) -> SceneState:
    return request.app.state.scene


def _asked(request: Request, given: dict[str, Any]) -> AskedNetwork:
    return asked_network(given, request.app.state.options.model)


def _later(request: Request, given: dict[str, Any]) -> Any:
    """The network that was asked for, made when it is called: its noise may have to be searched for."""
    settings = _settings(given)
    return lambda: _asked(request, settings)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in LOOK}


def _object(given: dict[str, Any]) -> str:
    name = given.get("object")
    if not isinstance(name, str) or not 0 < len(name) <= 80:
        raise AskedError("object must be the name of a shape, a sample, or a mesh that was given", field="object")
    return name


def _whole(given: dict[str, Any], name: str, least: int, most: int) -> int:
    value = given.get(name, least)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise AskedError(f"{name} must be a whole number from {least} to {most}", field=name)
    return value


# In a thread


def views(scenery: Scenery, name: str, settings: dict[str, Any], model: str) -> dict[str, Any]:
    """Pictures of the views of each device, where there are any, and where the cameras stand: whatever the noise."""
    asked = read(settings, model)
    count = asked.network.devices.count
    looked = scenery.look(name, asked)
    around = Cameras()
    used = cameras(count, asked.model.num_devices)
    pictures = list[str]()
    if looked.views is not None:
        small = torch.nn.functional.avg_pool2d(looked.views[0], _THUMBNAIL).numpy()
        there = torch.nn.functional.avg_pool2d((looked.views[0, :, 1:] > 0).float(), _THUMBNAIL).numpy()[:, 0]
        bright = small[:, 0] / there.clip(1e-6)  # shading where there is an object, which the edge is a part of
        pictures = [png.address(grey, alpha) for grey, alpha in zip(bright, there, strict=True)]
    return {
        "object": name,
        "truth": looked.truth,
        "devices": count,
        "views": pictures,
        "azimuths": [360 * k / asked.model.num_devices for k in used] if pictures else _spread(count),
        "elevation": around.elevation_deg,
        "note": looked.note,
    }


def _spread(count: int) -> list[float]:
    return [360 * k / count for k in range(count)]


def once(scenery: Scenery, name: str, make: Any, seed: int) -> dict[str, Any]:
    """One inference: the same as `airpool.infer` with a generator of this seed."""
    asked: AskedNetwork = make()
    network, looked = asked.network, scenery.look(name, asked)
    out = inferred(asked, looked, seed)
    used = int(out.slots[0, 0])
    public = level(network.one_slot, participation=asked.model.participation(network, codec=asked.codec)).of_mean(used)
    probabilities = out.logits[0, 0].softmax(-1)
    label, report = _label(out, asked), out.report
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
        "devices": silence.devices(network, out),
        "received": out.estimate[0, 0].tolist(),
        "ideal": centralised(out.latents, network.one_slot).estimate[0, 0].tolist(),
        "noise_std": public.noise_std,
        "slots": {"used": used, "most": network.slots.count, "sure": bool(out.sure[0, 0])},
        "epsilon": number(report.worst),
        "epsilon_object": number(report.epsilon_object),
        "delta": network.delta,
        "inferences": network.inferences,
        "odds": in_words(report.odds),
        "guess": None if not report.odds else _guess(report),
        "server_sees": silence.server_sees(network, out, public.noise_std),
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
    how = Simulation(trials, report=report_of(asked.network))
    rng, model = torch.Generator().manual_seed(seed), Remembered(asked.model, looked.encoded())
    return infer(model, looked.views, network=asked.network, rng=rng, codec=asked.codec, simulation=how)


def _guess(report: PrivacyReport) -> str:
    """The odds of a yes-or-no question about one device, in a short sentence."""
    even = report.odds[0]
    most, prior = percent(even.worst), percent(even.prior)
    return f"A yes-or-no guess about what one device alone sees is right at most {most} of the time instead of {prior}."


def _label(out: Inference, asked: AskedNetwork) -> str | None:
    found = int(out.label[0, 0])
    return None if found == NO_ANSWER else asked.model.classes[found]


def _no_answer(out: Inference) -> str:
    if not bool((out.received.alignment[0, 0] != 0).any()):
        return "No device is on the air: noise alone is never decoded."
    return "The server is not sure after the last slot, and abstains."
