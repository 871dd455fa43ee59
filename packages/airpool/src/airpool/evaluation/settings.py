"""ε and accuracy of a network from plain settings, as `airpool sweep` measures them."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import Parameter, signature
from typing import Any, Literal

from airpool.network import Adversary, Channel, Claim, Devices, Network, Ranking, Threshold
from airpool.network import file as network_file
from airpool.schemes.scheme import scheme_settings

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
    **{name: ("claim", name) for name in ("delta", "neighbours", "inferences", "knows_answer")},
    "scheme": ("scheme", "name"),
    **{name: ("scheme", name) for name in scheme_settings()},
}


def network_of(**settings: Any) -> Network:
    """The network with these settings; what is left out has its default, and there are 12 devices.

    A scheme may be a number, for which a command line takes 2.1.

    >>> network_of(participation=0.9, fading="rician").channel.fading
    'rician'
    """
    return network_file.build(_tables(settings))


def claim_of(**settings: Any) -> Claim:
    """The claim with these settings, of those of a network and of a claim.

    >>> claim_of(participation=0.9, delta=1e-6).delta
    1e-06
    """
    return network_file.build_claim(_tables(settings))


def _tables(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a network file with these settings."""
    data: dict[str, Any] = {"version": network_file.VERSION, "devices": {"count": 12}}
    for name, value in settings.items():
        word = name == "scheme" and not isinstance(value, str)
        put(data, name, f"{value:g}" if word else value)
    return data


def put(data: dict[str, Any], name: str, value: Any) -> None:
    """Puts a setting where it stands in the data of a network file."""
    table, key = KEYS[name]
    (data.setdefault(table, {}) if table else data)[key] = value


def default_of(name: str) -> Any:
    """Default of a setting, by any scheme that has it; of a single device."""
    network, (table, key) = Network(Devices(1)), KEYS[name]
    tables = {"scheme": (network.scheme, Threshold(), Ranking()), "claim": (Claim(),)}.get(
        table, (getattr(network, table, network),)
    )
    value = next(getattr(each, key) for each in tables if hasattr(each, key))
    return value[0] if isinstance(value, tuple) else value


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

    return _epsilons(guarantee(network_of(**settings), claim_of(**settings)), "epsilon")


def _epsilons(report: Any, worst: str) -> dict[str, float]:
    local, whole = float(report.epsilon_local.max()), report.epsilon_object
    return {worst: report.worst, "epsilon_local": local, "epsilon_object": whole}


def scaled(
    network: Network, claim: Claim, *, epsilon: float, accounting: str = "exact", share: float | None = None
) -> Network:
    """The network with its noise scaled to this ε of the worst device.

    accounting: exact, or theorem1 (the paper's claim). share: as in `calibrate`, with exact accounting.
    """
    from airpool.account import theorem1
    from airpool.account.calibration import calibrate

    if accounting not in ("exact", "theorem1"):
        raise ValueError(f"accounting={accounting!r} must be exact or theorem1")
    if accounting == "exact":
        return calibrate(network, claim, epsilon=epsilon, share=share)
    if claim.live or share is not None:
        raise ValueError(
            "accounting='theorem1' must be exact for live noise and a share: the paper's claim has neither"
        )
    return theorem1.calibrate(network, epsilon=epsilon, delta=claim.delta)


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
    accounting, share: as in `scaled`. codec: left out, the model's default; beside the others' accuracy stands the
    vote's on the same noise.
    """
    from airpool.evaluation.evaluate import evaluate
    from airpool.evaluation.objects import held_out
    from airpool.models.pretrained import load

    known = load(model)
    network, claim = network_of(**(known.wanted(codec) | settings)), claim_of(**settings)
    network = scaled(network, claim, epsilon=epsilon, accounting=accounting, share=share)
    objects = held_out(known, network, codec=codec, split=split, against_vote=True)
    found = evaluate(objects, network, claim, trials=trials, seed=seed)
    note = known.held_out(split, codec=codec).fitted(network.devices.count).note
    return {
        **{name: value for name, value in found.row().items() if name not in ("trials", "objects")},
        **_epsilons(found.report, "epsilon_device"),
        "epsilon_paper": float(found.report.paper.epsilon.max()),
        **({} if note is None else {"cameras": note}),
    }


FUNCTIONS: dict[str, Callable[..., Any]] = {"epsilon": epsilon, "evaluate": evaluate}
