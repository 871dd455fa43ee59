"""The adversary on the page: the bounds of its positions, and the audit, a game that may refute a claim.

Pictures that it paints are in `painting`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from airpool._support.files import jsonable
from airpool._support.threads import single_thread
from airpool.account.guarantee import guarantee, paper_claim
from airpool.account.guesses import REPORTED
from airpool.account.odds import odds
from airpool.evaluation.attacks.positions import POSITIONS, heard_of
from airpool.evaluation.audit.adversary import audited
from airpool.evaluation.audit.energy import claimed_by_the_paper, removed
from airpool.evaluation.audit.looks import Play, sizes, watched
from airpool.web.apart import apart
from airpool.web.asked import AskedError, answered, computed, fields, lines
from airpool.web.jobs import Tell
from airpool.web.settings import asked_network, read

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
    ]


def whole(given: dict[str, Any], name: str, default: int, most: int) -> int:
    """Takes a whole number from 0 to `most` out of what was asked."""
    value = given.pop(name, default)
    text = "" if isinstance(value, bool) else str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= most):
        raise AskedError(f"{name}={text[:40]!r} must be a whole number from 0 to {most:,}", field=name)
    return int(text)


# Bounds


async def _bounds(request: Request) -> Response:
    """The largest share of right guesses at every position."""
    given, model = await fields(request), request.app.state.options.model
    asked = await computed(read, given, model)
    return lines(request, apart(request, asked.bare, bounds, given, model))


@single_thread()
def bounds(settings: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Bounds of the worst device, of a yes-or-no question and of one of 40, at every position that the network has."""
    network, rows = asked_network(settings, model).network, list[dict[str, Any]]()
    for name in _SHOWN:
        place = POSITIONS[name]
        try:
            found = odds(heard_of(network, place), REPORTED)
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
    network = asked_network(settings, model).network
    notes = list[str]()
    if network.inferences > 1 or network.slots.count > 1:
        notes.append("The game is about one inference of one slot, and so is the claim beside it.")
    if network.dropouts:
        notes.append("No device drops out in the game, which makes it weaker than the claim allows.")
    network = replace(network.one_slot, inferences=1)
    found = guarantee(network)
    claims = {"sum": found.epsilon, "link": found.epsilon_local, "antennas": found.epsilon_eavesdropper}
    if (epsilon := claims[against]) is None:
        raise AskedError(
            "nobody listens with antennas elsewhere: set the eavesdropper's antennas first", field="antennas"
        )
    k = int(np.argmax(epsilon)) if device is None else device
    if k >= network.devices.count:
        raise AskedError(f"device={k} must be from 0 to {network.devices.count - 1}", field="device")
    claimed = float(epsilon[k])
    how: Any = {"claimed_epsilon": claimed, "elsewhere": against == "antennas", "alone": against == "link"}
    if against == "link":
        notes.append("The adversary knows what all other devices have sent, and that this one takes part.")
    claim = {
        "target": "exact",
        "epsilon": claimed,
        "device": k,
        "delta": network.delta,
        "neighbours": str(network.neighbours),
    }
    paper = float(found.paper.epsilon[k]) if against == "sum" else None
    claim |= {"paper": paper, "paper_delta": float(found.paper.delta[k]), "notes": notes}
    return claim, partial(audited, network, k, **how), network.devices.count * network.coordinates


def _paper() -> tuple[dict[str, Any], Play, int]:
    """The game that the paper's Theorem 1 loses, on the paper's own network."""
    network = claimed_by_the_paper(PAPER_CLAIM)
    said = paper_claim(network)
    epsilon, delta = float(said.epsilon[0]), float(said.delta[0])
    exact = guarantee(replace(network, neighbours="remove"), delta=delta).worst
    notes = [
        "This is the paper's network, not yours: 12 devices that take part with probability 0.9 and send 784 numbers, "
        f"with the noise at which its Theorem 1 claims ε = {PAPER_CLAIM:g} against the removal of a device.",
        "The adversary adds up the received energy and knows nothing else: a device that is away takes its noise away.",
        "The exact ε of the same network and the same removal is airpool's own number for it.",
    ]
    claim = {"epsilon": exact, "paper": epsilon, "paper_delta": delta, "delta": delta, "device": 0, "notes": notes}
    play = partial(removed, network, claimed_epsilon=epsilon, delta=delta)
    return claim | {"target": "paper", "neighbours": "remove"}, play, network.devices.count * network.dimension
