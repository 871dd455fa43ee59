"""The planner on the page: the best design for the devices and the channel in the address, and its frontier.

Every design comes with the settings that make the same network, so that the page can load it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from airpool._support.files import jsonable
from airpool.evaluation.plan import plan, smallest_epsilon
from airpool.evaluation.plan.candidates import brought, candidates
from airpool.evaluation.plan.search import FACTORS, Option, Plan, frontier
from airpool.network import Claim
from airpool_web.asked import AskedError, answered, computed, fields, lines, whole
from airpool_web.jobs import Tell
from airpool_web.leakage import report_of
from airpool_web.settings import AskedNetwork, flat, read

MOST_DEVICES = 60  # more take minutes: the command line goes on


def routes() -> Sequence[BaseRoute]:
    return [Route("/api/plan", answered(_plan), methods=["POST"])]


async def _plan(request: Request) -> Response:
    """The best design, the others, and the frontier."""
    given, options = await fields(request), request.app.state.options
    seed = whole(given, "seed", 0, 10**9)
    for name in ("object", "tab"):
        given.pop(name, None)
    checked(await computed(read, given, options.model))
    return lines(request, request.app.state.jobs.run(planned, given, options.model, seed))


def checked(asked: AskedNetwork) -> AskedNetwork:
    """The same, or an error where the page plans nothing."""
    if asked.network.devices.count > MOST_DEVICES:
        raise AskedError(
            f"devices={asked.network.devices.count} is too many to plan for here: at most {MOST_DEVICES}; "
            "`airpool plan` takes more",
            field="devices",
        )
    return asked


def planned(tell: Tell, settings: Mapping[str, Any], model: str, seed: int) -> None:
    """A job: what is asked for, the plan, and every point of its frontier as it comes."""
    asked = checked(read(settings, model))
    tell({"part": "progress", "text": "Building the candidates", "done": 0, "total": 0})
    found = _found(tell, asked, seed)
    name, claim = asked.given.get("model", model), asked.claim

    def design(option: Option, kind: str) -> dict[str, Any]:
        return _design(option, claim, kind, name)

    tell(
        jsonable(
            {
                "part": "plan",
                "delta": claim.delta,
                "neighbours": str(claim.neighbours),
                "inferences": claim.inferences,
                "devices": found.best.network.devices.count,
                "seed": seed,
                "best": design(found.best, "best"),
                "others": [design(each, "other") for each in found.others],
                "paper": None if found.paper is None else design(found.paper, "paper"),
                "impossible": [{"words": each.words, "why": why} for each, why in found.impossible],
                "cameras": found.cameras,
            }
        )
    )
    for done, factor in enumerate(FACTORS):
        tell({"part": "progress", "text": "Following the frontier", "done": done, "total": len(FACTORS)})
        at = frontier(found, model=asked.model, factors=(factor,))
        for kind, options in (("ours", at.options), ("paper", at.paper)):
            for option in options:
                tell(jsonable({"part": "point", **design(option, kind)}))
    tell({"part": "done"})


def _found(tell: Tell, asked: AskedNetwork, seed: int) -> Plan:
    given, claim, model = asked.bare, asked.claim, asked.model
    if asked.way == "accuracy":
        assert asked.accuracy is not None
        tell({"part": "progress", "text": f"Finding the smallest ε for {asked.accuracy:g}", "done": 0, "total": 0})
        return smallest_epsilon(given, claim, model=model, accuracy=asked.accuracy, seed=seed)[1]
    target = asked.epsilon if asked.way == "epsilon" else report_of(asked.network, claim).worst
    if target is None or not np.isfinite(target):
        raise AskedError("the network in the address has no finite ε to plan for: set one", field="epsilon")
    covered = given.channel.rules.cover_noise
    tried = (*candidates(given.devices.count, model.deployable, heterogeneous=False, covered=covered),)
    tried, built = (*tried, *brought(given, model.deployable)), 0

    def advance(_: Any) -> None:
        nonlocal built
        built += 1
        text = "Building the candidates" if built < len(tried) else "Simulating the candidates on validation objects"
        tell({"part": "progress", "text": text, "done": built, "total": len(tried)})

    return plan(given, claim, model=model, epsilon=float(target), seed=seed, choice=tried, on_candidate=advance)


def _design(option: Option, claim: Claim, kind: str, model: str) -> dict[str, Any]:
    """One design as plain data, with the settings that make it."""
    row, run = option.row(), option.evaluation
    names = ("codec", "scheme", "participation", "cover_noise", "energy", "channel_uses", "trials", "objects")
    return {
        "kind": kind,
        "words": row["candidate"],
        **{name: row[name] for name in (*names, "epsilon", "epsilon_local", "epsilon_object")},
        "accuracy": row["accuracy_mean"],
        "low": row["accuracy_low"],
        "high": row["accuracy_high"],
        "bytes": run.bytes_per_device,
        "settings": flat(option.network, claim, model=model, codec=option.candidate.codec),
    }
