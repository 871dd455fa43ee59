"""Pictures that an adversary paints of one camera's view, by a gallery of our own shapes (evaluation.attacks.gallery).

The gallery has one shape of every kind. Views and latents of a shape are made once, in the process of the jobs, and
kept here; the attack itself takes a moment at any setting.
"""

from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from airpool._support.arrays import Floats
from airpool._support.files import jsonable
from airpool._support.threads import single_thread
from airpool.account.reconstruction import reconstruction
from airpool.evaluation.attacks import likeness
from airpool.evaluation.attacks.gallery import Beliefs, beliefs, named
from airpool.evaluation.attacks.hearing import quiet
from airpool.evaluation.attacks.positions import POSITIONS, Position
from airpool.models.cameras import cameras
from airpool.models.pretrained import load
from airpool.network import Network, scheme_rules
from airpool.web import objects
from airpool.web.adversary import whole
from airpool.web.apart import apart
from airpool.web.asked import AskedError, answered, computed, fields, lines
from airpool.web.jobs import Tell
from airpool.web.settings import AskedNetwork, asked_network, read

SIDE, TRIALS = 112, 40
MOST_NUMBERS = 2**26  # that the signals of all guesses have
MOST_SUMS = 200  # of one view
HELD = ("holds", "others")  # the gallery holds the attacked shape, or another one of its kind


@dataclass(frozen=True, eq=False)
class SeenShape:
    """A shape as the cameras see it: shading (K, side, side) as bytes, and latents (K, r) by codec."""

    pictures: np.ndarray
    latents: Mapping[str, Floats]


def routes() -> Sequence[BaseRoute]:
    return [Route("/api/reconstruct", answered(_reconstruct), methods=["POST"])]


def gallery_of(name: str, held: str) -> tuple[list[str], int]:
    """Names of one shape of every kind, and which of them is of the attacked one's kind.

    held: "holds": of its kind it is the attacked shape itself; "others": the first other one.
    """
    every, attacked = objects.known(), objects.known()[name]
    first = {label: f"{label}_0" for label in sorted({each.label for each in every.values()})}
    first[attacked.label] = name
    if held == "others":
        first[attacked.label] = next(n for n, each in every.items() if each.label == attacked.label and n != name)
    return list(first.values()), list(first).index(attacked.label)


async def _reconstruct(request: Request) -> Response:
    """Pictures of one view, from every position."""
    given, options = await fields(request), request.app.state.options
    name, seed = str(given.pop("object", "") or "chair_0"), whole(given, "seed", 0, 10**9)
    device = whole(given, "device", 0, 10**6)
    if name not in objects.known():
        raise AskedError("the attack is on our own shapes: choose one of them", field="object")
    asked = await computed(read, given, options.model)
    checked(asked, device)
    return lines(request, _parts(request, asked, (given, options.model), name, device, seed))


def checked(asked: AskedNetwork, device: int) -> None:
    """An error where nothing can be painted at this setting."""
    if not asked.model.view_shape:
        raise AskedError("only the cameras of modelnet40 have views to paint: choose that model", field="model")
    if not objects.takes_views(asked.model, asked.codec):
        known = " or ".join(asked.model.deployable)
        raise AskedError(
            f"codec {asked.codec} stands on a trunk whose weights do not ship, so that no shape can be seen through "
            f"it: choose {known}",
            field="codec",
        )
    if scheme_rules(asked.bare.scheme).scored:
        raise AskedError("pictures are painted in scheme 1, where nobody is chosen by a score", field="scheme")
    if not asked.bare.channel.known:
        name = "csi_error_std" if asked.bare.channel.csi_error_std else "phase_error_std"
        raise AskedError("pictures are painted where devices know their channels: set the errors to 0", field=name)
    if device >= asked.network.devices.count:
        raise AskedError(f"device={device} must be from 0 to {asked.network.devices.count - 1}", field="device")
    cameras(asked.network.devices.count, asked.model.num_devices)


async def _parts(
    request: Request, asked: AskedNetwork, given: tuple[Mapping[str, Any], str], name: str, device: int, seed: int
) -> AsyncGenerator[Mapping[str, Any]]:
    state = request.app.state
    known: dict[str, SeenShape] = state.seen_shapes
    wanted = dict.fromkeys(each for held in HELD for each in gallery_of(name, held)[0])
    missing = [each for each in wanted if each not in known]
    if missing:
        yield {"part": "progress", "done": 0, "total": len(missing)}
        async with aclosing(state.jobs.run(see, missing, state.options.model)) as parts:
            async for part in parts:
                if part["part"] == "seen":
                    known[part["name"]] = part["shape"]
                    yield {"part": "progress", "done": sum(each in known for each in missing), "total": len(missing)}
                else:
                    yield part
    gallery = {each: known[each] for each in wanted}
    async with aclosing(apart(request, asked.bare, painted, *given, gallery, name, device, seed)) as parts:
        async for part in parts:
            yield part


@single_thread()
def see(tell: Tell, names: Sequence[str], model: str) -> None:
    """A job: views of shapes, through the trunk, and what every codec on it sends of them."""
    from airpool.evaluation.attacks.scenes import scenes
    from airpool.evaluation.attacks.signals import sender
    from airpool.models.vision.views import views

    known: Any = load(model)
    for name in names:
        shape = objects.known()[name]
        seen = views([(shape.vertices, shape.faces)], dtype=torch.uint8)
        found = scenes(known.trunk.features, seen, torch.zeros(1), side=SIDE)
        with torch.no_grad():
            latents = {
                codec: sender(codec, known, found.maps).encode(found.maps)[0].double().numpy()
                for codec in known.deployable
            }
        tell({"part": "seen", "name": name, "shape": SeenShape(found.pictures[0, :, 0].numpy(), latents)})


@single_thread()
def painted(
    settings: Mapping[str, Any], model: str, known: Mapping[str, SeenShape], name: str, device: int, seed: int
) -> dict[str, Any]:
    """The pictures of every position, their likeness, and how often the object is named, beside the bounds."""
    asked = asked_network(settings, model)
    checked(asked, device)
    network, cams = asked.network, cameras(asked.network.devices.count, asked.model.num_devices)

    def latents(names: Sequence[str]) -> Floats:
        return np.stack([known[each].latents[asked.codec][cams] for each in names])

    original = known[name].pictures[cams[device]] / 255
    galleries = dict[str, Any]()
    for held in HELD:
        names, at = gallery_of(name, held)
        pictures = np.stack([known[each].pictures[cams[device]] for each in names]) / 255
        blind = Beliefs(np.full((1, 1, len(names)), 1 / len(names)), np.ones((1, 1), dtype=bool))
        rows = [_row("none", blind, pictures, original, at)]
        for key, place, heard in _places(network):
            rng = np.random.default_rng(seed)
            found = beliefs(heard, place, latents([name]), latents(names), rng=rng, device=device)
            rows.append(_row(key, found, pictures, original, at))
        galleries[held] = rows
    names, _ = gallery_of(name, "holds")
    return jsonable(
        {
            "part": "painted",
            "object": name,
            "device": device,
            "seed": seed,
            "side": SIDE,
            "original": _bytes(original),
            "shapes": len(names),
            "galleries": galleries,
            "guesses": [
                _guess(heard, place, key, latents(names), device, seed) for key, place, heard in _places(network)
            ],
            "estimate": _estimate(network, device),
        }
    )


def _places(network: Network) -> list[tuple[str, Position, Network]]:
    """Name on the page, position, and network that is heard: without noise, alone, in the sum, and in several sums."""
    link, total = POSITIONS["link"], POSITIONS["sum"]
    found = [("clean", link, quiet(network)), ("link", link, network), ("sum", total, network)]
    if 1 < network.inferences * network.slots.count <= MOST_SUMS:
        found.append(("repeated", POSITIONS["repeated"], network))
    return found


def _row(key: str, found: Beliefs, pictures: Floats, original: Floats, at: int) -> dict[str, Any]:
    picture = found.painted(pictures)[0, 0]
    pair = (torch.from_numpy(each)[None] for each in (picture, original))
    return {
        "position": key,
        "picture": _bytes(picture),
        "ssim": float(likeness.ssim(*pair)),
        "belief": float(found.weight[0, 0, at]),
        "heard": bool(found.present[0, 0]),
    }


def _guess(network: Network, place: Position, key: str, latents: Floats, device: int, seed: int) -> dict[str, Any]:
    """The share of right guesses of the shape, and the bound."""
    times = network.inferences * network.slots.count if place.repeated else 1
    most = MOST_NUMBERS // (latents.size * times)
    if key == "clean":
        most = 1
    elif most < 1:
        return {"position": key, "success": None}
    result = named(network, place, latents, seed=seed, device=device, trials=min(TRIALS, most))
    return {
        "position": key,
        "success": result.success,
        "error": result.standard_error,
        "trials": result.trials,
        "prior": result.prior,
        "bound": result.bound,
        "exceeds": result.exceeds,
        "protected": result.protected,
    }


def _estimate(network: Network, device: int) -> dict[str, float] | None:
    """Least error of any estimate of the feature, as a share of a blind guess's; None where none is known."""
    try:
        found = reconstruction(replace(network, inferences=1).one_slot)
    except ValueError:
        return None
    return {"sum": float(found.device[device]), "link": float(found.local[device])}


def _bytes(picture: Floats) -> str:
    return b64encode(np.round(picture * 255).astype(np.uint8).tobytes()).decode()
