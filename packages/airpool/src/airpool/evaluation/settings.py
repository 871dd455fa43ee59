"""ε and accuracy of a network from plain settings, as `airpool sweep` measures them."""

from collections.abc import Callable
from dataclasses import fields
from inspect import Parameter, signature
from typing import Any, Literal

from airpool.network import SCHEME_SETTINGS, Adversary, Channel, Devices, Network
from airpool.network import file as network_file

# Setting → table and key of the network file.
KEYS: dict[str, tuple[str, str]] = {
    "devices": ("devices", "count"),
    **{f.name: ("devices", f.name) for f in fields(Devices) if f.name not in ("count", "epsilon")},
    **{
        f.name: ("", f.name)
        for f in fields(Network)
        if f.name not in ("devices", "channel", "scheme", "adversary", "slots")
    },
    "slots": ("slots", "count"),
    "sure": ("slots", "sure"),
    "slots_redrawn": ("slots", "redrawn"),
    "abstain": ("slots", "abstain"),
    "receiver_noise_std": ("channel", "noise_std"),
    "server_antennas": ("channel", "antennas"),
    **{f.name: ("channel", f.name) for f in fields(Channel) if f.name not in ("noise_std", "antennas")},
    **{f.name: ("adversary", f.name) for f in fields(Adversary)},
    "scheme": ("scheme", "name"),
    **{name: ("scheme", name) for name in SCHEME_SETTINGS},
}


def network_of(**settings: Any) -> Network:
    """The network with these settings; what is left out has its default, and there are 12 devices.

    A scheme may be a number, for which a command line takes 2.1.

    >>> network_of(participation=0.9, fading="rician").channel.fading
    'rician'
    """
    data: dict[str, Any] = {"version": network_file.VERSION, "devices": {"count": 12}}
    for name, value in settings.items():
        word = name == "scheme" and not isinstance(value, str)
        put(data, name, f"{value:g}" if word else value)
    return network_file.build(data)


def put(data: dict[str, Any], name: str, value: Any) -> None:
    """Puts a setting where it stands in the data of a network file."""
    table, key = KEYS[name]
    (data.setdefault(table, {}) if table else data)[key] = value


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its settings named in its signature, so that a misspelt one is found before any work."""
    own = [p for p in signature(function).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in KEYS]
    function.__signature__ = signature(function).replace(parameters=own + more)  # pyright: ignore
    return function


@_named
def epsilon(**settings: Any) -> dict[str, float]:
    """The exact ε of a network: of its worst device, without trust in the others, and of the object.

    >>> epsilon(participation=0.9)["epsilon"].__round__(4)
    2.0639
    """
    from airpool.account.guarantee import guarantee

    return _epsilons(guarantee(network_of(**settings)), "epsilon")


def _epsilons(report: Any, worst: str) -> dict[str, float]:
    local, whole = float(report.epsilon_local.max()), report.epsilon_object
    return {worst: report.worst, "epsilon_local": local, "epsilon_object": whole}


@_named
def evaluate(
    *,
    seed: int,
    epsilon: float = 2.0,
    accounting: Literal["exact", "theorem1"] = "exact",
    share: float | None = None,
    model: str = "modelnet40",
    codec: str | None = None,
    split: Literal["test", "validation"] = "test",
    trials: int = 5,
    **settings: Any,
) -> dict[str, float | str | None]:
    """Accuracy of a model on its held-out objects, with the noise calibrated to ε.

    model: a shipped one by name, or a file. settings: unless there are as many devices as it has sensors, the column
    `cameras` says which were left out or repeated.
    accounting, share: as in `account.budget.calibrated`. codec: left out, the model's default; beside the
    others' accuracy stands the vote's on the same noise.
    """
    from airpool.account.budget import calibrated
    from airpool.evaluation.evaluate import evaluate
    from airpool.evaluation.objects import held_out
    from airpool.models.pretrained import load

    known = load(model)
    network = network_of(**(known.wanted(codec) | settings))
    network = calibrated(network, epsilon=epsilon, accounting=accounting, share=share)
    objects = held_out(known, network, codec=codec, split=split, against_vote=True)
    found = evaluate(objects, network, trials=trials, seed=seed)
    note = known.held_out(split, codec=codec).fitted(network.devices.count).note
    return {
        **{name: value for name, value in found.row().items() if name not in ("trials", "objects")},
        **_epsilons(found.report, "epsilon_device"),
        "epsilon_paper": float(found.report.paper.epsilon.max()),
        **({} if note is None else {"cameras": note}),
    }


FUNCTIONS: dict[str, Callable[..., Any]] = {"epsilon": epsilon, "evaluate": evaluate}
