"""POST /api/answer: everything about the network that the settings describe, part by part; GET /api/knobs.

The quick parts come first. A network that is `costly` to account for is answered by the process for jobs,
without a curve.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from threading import Event
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from airpool.network import Network, scheme_rules
from airpool.network import file as network_file
from airpool.web import asked as http
from airpool.web import copies, measured, presets, settings
from airpool.web.jobs import Jobs, Tell
from airpool.web.leakage import first_leakage, leakage
from airpool.web.radio_knobs import KNOBS
from airpool.web.settings import AskedNetwork

Part = dict[str, Any]
_MOST_UNLIKE = 12  # devices, each of which an eavesdropper hears in its own way


def warm(model: str, stop: Event) -> None:
    """Computes the first answer up to its accuracy before it is asked for, so that models are loaded by then."""
    presets.knobs_record(model)
    for part in parts(settings.read({}, model)):
        if stop.is_set() or part["part"] == "accuracy":
            return


def routes() -> list[Route]:
    """Routes of the knobs."""
    return [
        Route("/api/knobs", http.answered(_knobs)),
        Route("/api/answer", http.answered(_answer), methods=["POST"]),
    ]


async def _knobs(request: Request) -> Response:
    return http.reply(request, await http.computed(presets.knobs_record, request.app.state.options.model))


async def _answer(request: Request) -> Response:
    given, model = await http.fields(request), request.app.state.options.model
    wanted = await http.computed(settings.read, given, model)  # a mistake is an ordinary reply
    if costly(wanted.bare):
        jobs: Jobs = request.app.state.jobs
        return http.lines(request, _beside(jobs, given, model))
    found = parts(wanted)
    found = quick_parts(found) if "quick" in request.query_params else found
    return http.lines(request, _in_threads(found, "search" if wanted.way == "accuracy" else http.QUICK))


async def _in_threads(found: Iterator[Part], lane: str) -> AsyncGenerator[Part, None]:
    """The parts, each computed in a thread: quick ones never wait behind slow ones. lane: of the first."""
    after = {"search": "search", "network": http.QUICK}
    while (part := await http.computed(_next, found, lane=lane)) is not None:
        yield part
        lane = after.get(part["part"], "slow")


def _next(found: Iterator[Part]) -> Part | None:
    return next(found, None)


def costly(network: Network) -> bool:
    """Whether ε takes many seconds: its law is drawn, or integrated over errors of the channel or for many devices."""
    channel, d = network.channel, network.devices
    hard = ":" in channel.fading or scheme_rules(network.scheme).scored
    unlike = len(set(zip(d.column("weight"), d.column("clip_norm"), d.column("noise_std"), strict=True)))
    elsewhere = network.adversary.antennas > 0 and unlike > _MOST_UNLIKE
    return channel.rules.radio and (channel.antennas > 1 or elsewhere or (hard and not channel.known))


async def _beside(jobs: Jobs, given: Mapping[str, Any], model: str) -> AsyncGenerator[Part, None]:
    """The parts by the process for jobs, after one that says that they take their time."""
    yield {"part": "search", "text": "This radio takes its time: up to a minute.", "progress": None}
    async with aclosing(jobs.run(_job, given, model)) as found:
        async for part in found:
            yield part


def _job(tell: Tell, given: Mapping[str, Any], model: str) -> None:
    for part in parts(settings.read(given, model)):
        tell(part)


def parts(wanted: AskedNetwork) -> Iterator[Part]:
    """All parts of an answer in their order; the last of each name counts."""
    if wanted.way == "accuracy":
        for progress, epsilon in settings.search(wanted):
            if epsilon is None:
                text = "Searching for the least ε on the validation objects"
                yield {"part": "search", "text": text, "progress": progress}
            else:
                note = (
                    f"ε = {epsilon:g} is the least that reaches {wanted.accuracy:g} on the validation objects, to 5 %. "
                    "The accuracy shown is that of the test objects, which the search has not seen."
                )
                wanted = replace(settings.with_epsilon(wanted, epsilon), notes=(*wanted.notes, note))
    elif wanted.epsilon is not None:
        wanted = settings.with_epsilon(wanted, wanted.epsilon)
    objects = measured.error_objects(wanted)
    yield network_part(wanted, objects)
    if (first := first_leakage(wanted.network)) is not None:
        yield first
    yield leakage(wanted.network)
    if objects is not None:
        yield measured.error_part(wanted, objects)
    if not copies.simulated(wanted.network):
        yield from measured.unavailable("its power control follows the noise that is drawn")
        return
    try:
        for trials in (1, copies.TRIALS):
            found = measured.measured(wanted, trials)
            if objects is None:
                yield measured.measured_error(found)
            yield measured.cost_part(found)
            yield measured.accuracy_part(wanted, found)
    except ValueError as error:
        yield from measured.unavailable(str(error))
        return
    if not costly(wanted.network):
        yield from measured.curve(wanted, found)


def quick_parts(found: Iterator[Part]) -> Iterator[Part]:
    """The parts up to every ε: what a page asks for (?quick) while a slider moves."""
    for part in found:
        yield part
        if part["part"] == "leakage" and not part["pending"]:
            return


def network_part(asked: AskedNetwork, objects: int | None) -> Part:
    """The network in force: every setting as a text, the reasons of those that are greyed, and copies to take away."""
    std = asked.network.devices.column("noise_std")
    return {
        "part": "network",
        "way": asked.way,
        "epsilon": asked.epsilon,
        "noise_std": std[0] if len(set(std)) == 1 else list(std),
        "settings": in_force(asked),
        "greyed": dict(asked.greyed),
        "notes": list(asked.notes),
        "toml": network_file.dump(asked.network),
        "command": copies.command(asked, objects),
        "python": copies.python(asked, objects),
        "trials": copies.TRIALS,
        "seed": copies.SEED,
    }


def in_force(asked: AskedNetwork) -> dict[str, str]:
    """Every setting as its text in force."""
    data = settings.values_of(asked.network)
    own: dict[str, Any] = {"way": asked.way, "model": asked.source, "codec": asked.codec}
    own |= {"epsilon": asked.epsilon, "accuracy": asked.accuracy, "share": asked.share}
    found = {name: settings.text_of(value) for name, value in (data | own).items() if value is not None}
    return {name: found.get(name, knob.default) for name, knob in KNOBS.items()}
