"""A network to take away: as commands, as Python and as TOML that give the numbers of the page."""

import shlex
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from airpool.evaluation.settings import KEYS
from airpool.network import Network, named_scheme
from airpool_web.settings import AskedNetwork

TRIALS, SEED = 5, 0  # of the accuracy


def simulated(network: Network) -> bool:
    """Whether an accuracy is simulated: not where power control looks at the noise that is drawn."""
    return network.channel.power_rule in ("truncate", "backoff")


def command(asked: AskedNetwork, objects: int | None) -> list[str]:
    """Lines for a shell: accuracy with every ε; the report with its odds; and the parts of the error, where known.

    objects: that the error was averaged over; None where the theory has none.
    """
    given = {name: value for name, value in asked.given.items() if name in KEYS}
    target = {} if asked.way == "noise" else {"epsilon": asked.epsilon}
    shares = {} if asked.share is None else {"share": asked.share}
    found = given | {"devices": asked.network.devices.count, "dimension": asked.network.dimension}
    found |= _noise(asked.network)
    model = {} if asked.source == "modelnet40" else {"model": asked.source}
    evaluated = model | {"codec": asked.codec} | target | shares | given | {"trials": TRIALS, "seed": SEED}
    lines = [("evaluate", evaluated)] if simulated(asked.network) else []
    lines.append(("epsilon", found))
    if objects is not None and not model:
        lines.append(("theory", {"codec": asked.codec, "objects": objects, "trials": 0} | found))
    return [f"airpool {name}{''.join(_option(*each) for each in options.items())}" for name, options in lines]


def _noise(network: Network) -> dict[str, Any]:
    """Noise in force, as options."""
    std = list(network.devices.column("noise_std"))
    found: dict[str, Any] = {"noise_std": std[0] if len(set(std)) == 1 else std}
    if "score_noise_std" in network.scheme.options():
        found["score_noise_std"] = getattr(network.scheme, "score_noise_std", None)
    return found


def _option(name: str, value: Any) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f" --{flag}" if value else f" --no-{flag}"
    text = ",".join(map(repr, value)) if isinstance(value, list) else value if isinstance(value, str) else repr(value)
    return f" --{flag}={shlex.quote(text)}" if text.startswith("-") else f" --{flag} {shlex.quote(text)}"


def python(asked: AskedNetwork, objects: int | None) -> str:
    """A program that prints the numbers of the page."""
    lines = ["import airpool", ""]
    if objects is not None:
        lines[1:1] = ["import numpy as np", "from airpool.evaluation import mse"]
    lines += [
        *_made(asked),
        "",
        "report = airpool.guarantee(network, claim)",
        "print(report.worst, max(report.epsilon_local), report.epsilon_object, max(report.paper.epsilon))",
        "print([(odds.prior, odds.worst, odds.object) for odds in report.odds])",
    ]
    if not simulated(asked.network):
        return "\n".join(lines) + "\n"
    lines += [
        "",
        f'objects = airpool.held_out(model, network, codec="{asked.codec}", against_vote=True)',
    ]
    if objects is not None:
        lines += [
            f"rows = np.linspace(0, len(objects.labels) - 1, {objects}).round().astype(int)",
            "error = mse.error(objects.latents[rows].double().numpy(), network).mean",
            "print(error.total, error.bias, error.participation, error.privacy_noise, error.channel_noise)",
        ]
    lines += [
        f"result = airpool.evaluate(objects, network, claim, trials={TRIALS}, seed={SEED}, report=report)",
        "print(result.accuracy_mean, result.accuracy_ci, result.vote_accuracy, result.mse, result.energy)",
    ]
    return "\n".join(lines) + "\n"


def inference(asked: AskedNetwork, mesh: list[str], *, cameras: list[int], seed: int) -> str:
    """A program that makes one inference of the scene. mesh: lines that make `mesh`, vertices and faces."""
    lines = [
        "import torch",
        "import airpool",
        "from airpool.models.vision.views import views",
        *mesh,
        f"seen = views([mesh])[:, {cameras}]" if cameras != list(range(12)) else "seen = views([mesh])",
        *_made(asked),
        f"rng = torch.Generator().manual_seed({seed})",
        f'out = airpool.infer(model, seen, network=network, claim=claim, rng=rng, codec="{asked.codec}")',
        "label = int(out.label)  # -1: no answer",
        'print("no answer" if label < 0 else model.classes[label], float(out.probability), out.report.worst)',
    ]
    return "\n".join(lines) + "\n"


def _made(asked: AskedNetwork) -> list[str]:
    """Lines that make the model, the claim, and the network with its noise."""
    lines = [f"model = airpool.load({asked.source!r})", *_network(asked.bare)]
    lines.append(f"claim = airpool.Claim({_arguments(_changed(asked.claim))})")
    if asked.way != "noise":
        share = "" if asked.share is None else f", share={asked.share!r}"
        lines.append(f"network = airpool.calibrate(network, claim, epsilon={asked.epsilon!r}{share})")
    return lines


def _network(network: Network) -> list[str]:
    """The network as calls of its constructors, with what is not the default."""
    d, inner = network.devices, list[str]()
    own = network.scheme.sets_participation  # then participation is the scheme's
    columns = {
        f.name: values[0] if len(set(values := d.column(f.name))) == 1 else values
        for f in fields(d)
        if f.name not in ("count", "epsilon") and not (own and f.name == "participation")
    }
    even = 1 / d.count
    columns = {n: v for n, v in columns.items() if v != (even if n == "weight" else _default(d, n))}
    inner.append(f"    devices=airpool.Devices({_arguments({'count': d.count} | columns)}),")
    if changed := _changed(network.channel):
        inner.append(f"    channel=airpool.Channel({_arguments(changed)}),")
    if network.scheme != named_scheme():
        kind = ("" if own else "airpool.") + type(network.scheme).__name__
        inner.append(f"    scheme={kind}({_arguments(_changed(network.scheme))}),")
    if network.adversary.antennas:
        inner.append(f"    adversary=airpool.Adversary({_arguments(_changed(network.adversary))}),")
    before = list[str]()
    if changed := _changed(network.slots):
        before = ["from airpool.network import Slots"]
        inner.append(f"    slots=Slots({_arguments(changed)}),")
    inner += [f"    {name}={value!r}," for name, value in _changed(network).items()]
    return [*before, "network = airpool.Network(", *inner, ")"]


def _changed(table: Any) -> dict[str, Any]:
    """Fields of a table that have another value than their default, but for its own tables."""
    found = {f.name: getattr(table, f.name) for f in fields(table) if f.default is not MISSING}
    return {n: str(v) if isinstance(v, str) else v for n, v in found.items() if v != _default(table, n)}


def _default(table: Any, name: str) -> Any:
    return next(f.default for f in fields(table) if f.name == name)


def _arguments(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
