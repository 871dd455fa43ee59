"""The adversary on the page: the bounds of its positions, the audit, a game that may refute a claim, and pictures.

Pictures are painted of one camera's view by a gallery of our own shapes (lab: attacks.attackers), one of every kind.
Views and latents of a shape are made once, in the process of the jobs, and kept here; the attack itself takes a moment
at any setting.
"""

from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any

import numpy as np
import torch
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from airpool._support.arrays import Floats
from airpool._support.files import jsonable
from airpool._support.threads import single_thread
from airpool.account.guarantee import guarantee
from airpool.account.odds import REPORTED, odds
from airpool.account.reconstruction import reconstruction
from airpool.account.theorem1 import paper_claim
from airpool.evaluation.audit.adversary import audited
from airpool.models.cameras import cameras
from airpool.models.pretrained import load
from airpool.network import Claim, Neighbours, Network
from airpool_lab.attacks import likeness
from airpool_lab.attacks.attackers import Beliefs, beliefs, named
from airpool_lab.attacks.hearing import quiet
from airpool_lab.attacks.positions import POSITIONS, Position, heard_of
from airpool_lab.audit.energy import Play, claimed_by_the_paper, removed, sizes, watched
from airpool_web import objects
from airpool_web.answers import apart
from airpool_web.asked import AskedError, answered, computed, fields, lines, whole
from airpool_web.jobs import Tell
from airpool_web.settings import AskedNetwork, asked_network, read

AGAINST = ("sum", "link", "antennas", "paper")
CONFIDENCE = 0.95
PAPER_CLAIM = 2.0  # ε that Theorem 1 claims where it is attacked
MOST_NUMBERS = 2**27  # that one look draws
_SHOWN = ("sum", "link", "colluding", "antennas", "repeated")
_EVERY = 0.1  # seconds between two lines of progress


def routes() -> Sequence[BaseRoute]:
    return [
        Route("/api/bounds", answered(_bounds), methods=["POST"]),
        Route("/api/audit", answered(_audit), methods=["POST"]),
        Route("/api/reconstruct", answered(_reconstruct), methods=["POST"]),
    ]


# Bounds


async def _bounds(request: Request) -> Response:
    """The largest share of right guesses at every position."""
    given, model = await fields(request), request.app.state.options.model
    asked = await computed(read, given, model)
    return lines(request, apart(request, asked.bare, bounds, given, model))


@single_thread()
def bounds(settings: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Bounds of the worst device, of a yes-or-no question and of one of 40, at every position that the network has."""
    asked, rows = asked_network(settings, model), list[dict[str, Any]]()
    for name in _SHOWN:
        place = POSITIONS[name]
        try:
            found = odds(*heard_of(asked.network, asked.claim, place), prior=REPORTED)
        except ValueError:  # no such position
            continue
        columns = {"view": place.view, "object": place.object}
        worst = {
            of: [1.0 if curve is None else float(np.max(getattr(each, curve))) for each in found]
            for of, curve in columns.items()
        }
        rows.append({"position": name, "hears": place.hears, "claimed": place.object is not None, **worst})
    return {"part": "bounds", "priors": list(REPORTED), "rows": rows}


# The audit


async def _audit(request: Request) -> Response:
    """Games against one claim, look by look."""
    given, options = await fields(request), request.app.state.options
    against, seed = given.pop("against", "sum"), whole(given, "seed", 0, 10**9)
    if against not in AGAINST:
        raise AskedError(f"against={str(against)[:40]!r} must be one of {', '.join(AGAINST)}", field="against")
    device = None if given.get("device") in (None, "") else whole(given, "device", 0, 10**6)
    given.pop("device", None)
    await computed(read, given, options.model)  # a mistake is told at once
    return lines(request, request.app.state.jobs.run(audit, given, options.model, against, device, seed))


def audit(tell: Tell, settings: Mapping[str, Any], model: str, against: str, device: int | None, seed: int) -> None:
    """A job: the claim, every look, and at the end the verdict."""
    claim, play, numbers = _game(settings, model, against, device)
    runs = sizes(numbers, most=MOST_NUMBERS)
    total = sum(2 * each for each in runs)
    tell(jsonable({"part": "claim", "against": against, "confidence": CONFIDENCE, "runs": runs, "seed": seed, **claim}))
    done, said, looks, look = 0, monotonic(), 0, None

    def advance(n: int) -> None:
        nonlocal done, said
        done += n
        if monotonic() - said > _EVERY:
            said = monotonic()
            tell({"part": "progress", "done": done, "total": total})

    with single_thread():
        for look in watched(play, runs, seed=seed, confidence=CONFIDENCE, on_batch=advance):
            looks += 1
            report = look.report
            shown = {name: getattr(report, name) for name in ("runs", "ceiling", "evaluated", "false_alarms", "misses")}
            shown |= {"lower": report.epsilon_lower, "best": look.best, "refuted": look.refuted, "seed": look.seed}
            tell(jsonable({"part": "look", "number": looks, **shown}))
    assert look is not None
    tell(jsonable({"part": "done", "best": look.best, "refuted": look.refuted, "looks": looks, "played": done}))


def _game(
    settings: Mapping[str, Any], model: str, against: str, device: int | None
) -> tuple[dict[str, Any], Play, int]:
    """The claim, the game against it, and the numbers that one run draws."""
    if against == "paper":
        return _paper()
    asked = asked_network(settings, model)
    network, notes = asked.network.one_slot, list[str]()
    if asked.claim.inferences > 1 or asked.network.slots.count > 1:
        notes.append("The game is about one inference of one slot, and so is the claim beside it.")
    if network.dropouts:
        notes.append("No device drops out in the game, which makes it weaker than the claim allows.")
    claim = replace(asked.claim, inferences=1)
    found = guarantee(network, claim)
    claims = {"sum": found.epsilon, "link": found.epsilon_local, "antennas": found.epsilon_eavesdropper}
    if (epsilon := claims[against]) is None:
        raise AskedError(
            "nobody listens with antennas elsewhere: set the eavesdropper's antennas first", field="antennas"
        )
    k = int(np.argmax(epsilon)) if device is None else device
    if k >= network.devices.count:
        raise AskedError(f"device={k} must be from 0 to {network.devices.count - 1}", field="device")
    claimed = float(epsilon[k])
    if against == "link":
        notes.append("The adversary knows what all other devices have sent, and that this one takes part.")
    record = {
        "target": "exact",
        "epsilon": claimed,
        "device": k,
        "delta": claim.delta,
        "neighbours": str(claim.neighbours),
    }
    paper = float(found.paper.epsilon[k]) if against == "sum" else None
    record |= {"paper": paper, "paper_delta": float(found.paper.delta[k]), "notes": notes}
    play = partial(
        audited, network, claim, k, claimed_epsilon=claimed, elsewhere=against == "antennas", alone=against == "link"
    )
    return record, play, network.devices.count * network.coordinates


def _paper() -> tuple[dict[str, Any], Play, int]:
    """The game that the paper's Theorem 1 loses, on the paper's own network."""
    network = claimed_by_the_paper(PAPER_CLAIM)
    said = paper_claim(network)
    epsilon, delta = float(said.epsilon[0]), float(said.delta[0])
    exact = guarantee(network, Claim(delta, Neighbours.REMOVE)).worst
    notes = [
        "This is the paper's network, not yours: 12 devices that take part with probability 0.9 and send 784 numbers, "
        f"with the noise at which its Theorem 1 claims ε = {PAPER_CLAIM:g} against the removal of a device.",
        "The adversary adds up the received energy and knows nothing else: a device that is away takes its noise away.",
        "The exact ε of the same network and the same removal is airpool's own number for it.",
    ]
    record = {"epsilon": exact, "paper": epsilon, "paper_delta": delta, "delta": delta, "device": 0, "notes": notes}
    play = partial(removed, network, claimed_epsilon=epsilon, delta=delta)
    return record | {"target": "paper", "neighbours": "remove"}, play, network.devices.count * network.dimension


SIDE, TRIALS = 112, 40
MOST_PAINTED = 2**26  # that the signals of all guesses have
MOST_SUMS = 200  # of one view
HELD = ("holds", "others")  # the gallery holds the attacked shape, or another one of its kind


@dataclass(frozen=True, eq=False)
class SeenShape:
    """A shape as the cameras see it: shading (K, side, side) as bytes, and latents (K, r) by codec."""

    pictures: np.ndarray
    latents: Mapping[str, Floats]


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
    if not asked.bare.scheme.independent:
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
    from airpool.models.vision.views import views
    from airpool_lab.attacks.targets import scenes, sender

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
        for key, place, heard, claim in _places(network, asked.claim):
            rng = np.random.default_rng(seed)
            found = beliefs(heard, claim, place, latents([name]), latents(names), rng=rng, device=device)
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
                _guess(heard, claim, place, key, latents(names), device, seed)
                for key, place, heard, claim in _places(network, asked.claim)
            ],
            "estimate": _estimate(network, asked.claim, device),
        }
    )


def _places(network: Network, claim: Claim) -> list[tuple[str, Position, Network, Claim]]:
    """Name on the page, position, what is heard, and its claim: without noise, alone, in the sum, in several sums."""
    link, total = POSITIONS["link"], POSITIONS["sum"]
    found = [("clean", link, *quiet(network, claim)), ("link", link, network, claim), ("sum", total, network, claim)]
    if 1 < claim.inferences * network.slots.count <= MOST_SUMS:
        found.append(("repeated", POSITIONS["repeated"], network, claim))
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


def _guess(
    network: Network, claim: Claim, place: Position, key: str, latents: Floats, device: int, seed: int
) -> dict[str, Any]:
    """The share of right guesses of the shape, and the bound."""
    times = claim.inferences * network.slots.count if place.repeated else 1
    most = MOST_PAINTED // (latents.size * times)
    if key == "clean":
        most = 1
    elif most < 1:
        return {"position": key, "success": None}
    result = named(network, claim, place, latents, seed=seed, device=device, trials=min(TRIALS, most))
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


def _estimate(network: Network, claim: Claim, device: int) -> dict[str, float] | None:
    """Least error of any estimate of the feature, as a share of a blind guess's; None where none is known."""
    try:
        found = reconstruction(network.one_slot, replace(claim, inferences=1))
    except ValueError:
        return None
    return {"sum": float(found.device[device]), "link": float(found.local[device])}


def _bytes(picture: Floats) -> str:
    return b64encode(np.round(picture * 255).astype(np.uint8).tobytes()).decode()
