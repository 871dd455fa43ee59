"""POST /api/answer: everything about the network that the settings describe, part by part; GET /api/knobs.

The quick parts come first. A network that is `costly` to account for is answered by the process for jobs,
without a curve.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, replace
from functools import cache
from threading import Event
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from airpool.models import stored
from airpool.models.stored import StoredModel
from airpool.network import SCHEMES, Network
from airpool.network import file as network_file
from airpool_lab.demo.comparison import RECEIVER_STD, network
from airpool_web import asked as http
from airpool_web import copies, measured, settings
from airpool_web.jobs import Jobs, Tell
from airpool_web.knobs import GROUPS, KNOBS, text_of
from airpool_web.leakage import first_leakage, leakage
from airpool_web.settings import AskedNetwork

Part = dict[str, Any]
_MOST_UNLIKE = 12  # devices, each of which an eavesdropper hears in its own way


def warm(model: str, stop: Event) -> None:
    """Computes the first answer up to its accuracy before it is asked for, so that models are loaded by then."""
    knobs_record(model)
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
    return http.reply(request, await http.computed(knobs_record, request.app.state.options.model))


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
    hard = ":" in channel.fading or not network.scheme.independent
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
    if (first := first_leakage(wanted.network, wanted.claim)) is not None:
        yield first
    yield leakage(wanted.network, wanted.claim)
    if objects is not None:
        yield measured.error_part(wanted, objects)
    if not copies.simulated(wanted.network):
        yield from measured.unavailable("its power control follows the noise that is drawn")
        return
    try:
        for trials in (1, copies.TRIALS):
            found = measured.measured(wanted.network, wanted.claim, wanted.model, wanted.codec, trials)
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
        "toml": network_file.dump(asked.network, asked.claim),
        "command": copies.command(asked, objects),
        "python": copies.python(asked, objects),
        "trials": copies.TRIALS,
        "seed": copies.SEED,
    }


def in_force(asked: AskedNetwork) -> dict[str, str]:
    """Every setting as its text in force."""
    data = settings.values_of(asked.network, asked.claim)
    own: dict[str, Any] = {"way": asked.way, "model": asked.source, "codec": asked.codec}
    own |= {"epsilon": asked.epsilon, "accuracy": asked.accuracy, "share": asked.share}
    found = {name: text_of(value) for name, value in (data | own).items() if value is not None}
    return {name: found.get(name, knob.default) for name, knob in KNOBS.items()}


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


async def apart(
    request: Request, network: Network, function: Callable[..., Part], *given: Any
) -> AsyncGenerator[Part, None]:
    """The one part that a function of a module gives. network: decides where it is computed."""
    if not costly(network):
        yield await http.computed(function, *given, lane="apart")
        return
    async with aclosing(request.app.state.jobs.run(_told, function, *given)) as parts:
        async for part in parts:
            yield part


def _told(tell: Tell, function: Callable[..., Part], *given: Any) -> None:
    tell(function(*given))
