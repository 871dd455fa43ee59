"""Options that several commands share: those that describe a network, the same for every command that takes one."""

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from airpool.cli.output import file_to_write
from airpool.evaluation.settings import put
from airpool.network import SCHEMES, Claim, Network, ScoreRule
from airpool.network import file as network_file
from airpool.network.fading import LAWS

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Plot = Annotated[Path | None, typer.Option(help="Write a figure (PNG, SVG or PDF).", callback=file_to_write)]
OutNetwork = Annotated[
    Path | None, typer.Option("--out", help="Write the resulting network file (TOML).", callback=file_to_write)
]
_CREDIT = "Also count the receiver's noise; unsafe if an eavesdropper may have a better receiver."
CreditNoise = Annotated[bool, typer.Option("--credit-channel-noise", help=_CREDIT)]
Live = Annotated[bool, typer.Option("--live", help="Account for noise as live devices draw it.")]
MetLive = Annotated[
    bool, typer.Option("--live", help="Meet the target with noise as live devices draw it, as for `airpool up`.")
]
Split = Annotated[str, typer.Option(help="Held-out objects: test or validation.")]
Model = Annotated[str, typer.Option("--model", help="A shipped model by name, or the file of your own.")]


def per_device(text: str) -> Any:
    """A number for all devices, or a comma-separated list with one for each."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} must be a number, or numbers separated by commas") from None
    return values[0] if len(values) == 1 else values


Prior = Annotated[
    float | None, typer.Option(help="Probability of the best guess without the signals, for --odds (default: 0.5).")
]
EVENT = "a stay in front of the cameras of at most this many inferences in a row."
PerEvent = Annotated[int | None, typer.Option(help=f"Also ε of an event: {EVENT}")]
Stay = Annotated[str | None, typer.Option(help="An event by its length, as in 5min; needs --every.", metavar="TIME")]
Every = Annotated[
    str | None, typer.Option(help="The least time between two inferences, as in 1s, for --stay.", metavar="TIME")
]
Target = Annotated[
    Any,
    typer.Option(
        "--epsilon", help="Target ε for all devices, or one each: 1,2,3.", parser=per_device, metavar="NUMBER"
    ),
]


def seed(text: str) -> Any:
    """An option --seed, once or repeated, within the range of every generator."""
    return typer.Option("--seed", help=text, callback=_checked_seed)


def _checked_seed(given: Any) -> Any:
    for number in given if isinstance(given, list) else [given]:
        if number is not None and not 0 <= number <= 2**40:
            raise ValueError(f"--seed {number} must be ≥ 0 and at most {2**40}")
    return given


Seed = Annotated[int, seed("Seed of the simulation.")]


def at_least(least: int, **numbers: int | None) -> None:
    """Raises an error unless every given number is large enough; None is not checked."""
    for name, value in numbers.items():
        if value is not None and value < least:
            flag = name.replace("_", "-")
            raise ValueError(f"--{flag} {value} must be ≥ {least}")


def value(text: str) -> Any:
    """A whole number, a number, true or false, a TOML list; anything else is text.

    >>> [value(text) for text in ("3", ".5", "true", "[1, 2]", "zero-out")]
    [3, 0.5, True, [1, 2], 'zero-out']
    """
    for read in (int, float, lambda text: tomllib.loads(f"value = {text}")["value"]):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _gamma(text: str) -> Any:
    try:
        return "auto" if text == "auto" else float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} must be auto or a number") from None


# Group in --help → option → type, help. Where each stands in the network file: settings.KEYS.
_GROUPS: dict[str, dict[str, tuple[Any, str]]] = {
    "Devices (a number for all, or 1,2,3)": {
        "devices": (int, "Number of devices K."),
        "weight": (per_device, "Weight w."),
        "clip_norm": (per_device, "Clip norm C."),
        "noise_std": (per_device, "Standard deviation σ of the noise, per coordinate."),
        "participation": (per_device, "Probability p of transmitting."),
        "power_dbm": (per_device, "Peak power P in dBm."),
        "path_loss_db": (per_device, "Path loss of the link in dB."),
        "dimension": (int, "Length r of the latent."),
    },
    "Channel": {
        "fading": (
            str,
            f"Fading: {', '.join(LAWS.builtin)}, or a plug-in's law. Settings follow a colon: nakagami:m=2, "
            "log-normal:std_db=8, sionna:tdl-a.",
        ),
        "k_factor_db": (float, "Rician K factor in dB, with --fading rician alone."),
        "receiver_noise_std": (float, "Receiver noise σ_m per real coordinate, in √mW."),
        "access": (
            str,
            "How signals reach the server: superposed (the radio adds them), orthogonal (one after the other), "
            "secure (a cryptographic sum, no radio).",
        ),
        "power_rule": (
            str,
            "If a device's channel is too weak: truncate (it is silent), or backoff, paper "
            "(it arrives weaker; docs/theory/air.md).",
        ),
        "gamma": (_gamma, "Alignment constant γ, or auto."),
        "outage": (float, "Largest probability that a channel is too weak to transmit; γ = auto is chosen to meet it."),
        "csi_error_std": (float, "Std of the channel estimate's error."),
        "phase_error_std": (float, "Std of the phase error, in radians."),
        "redrawn": (bool, "Gains and errors are new in every inference."),
        "server_antennas": (int, "Antennas of the server, which receives by one public beam."),
    },
    "Scheme": {
        "scheme": (str, f"Who transmits: {', '.join(SCHEMES.builtin)}, or a plug-in's scheme."),
        "score": (str, "Uncertainty score: shannon (entropy) or min (min-entropy)."),
        "score_rule": (str, f"How the score is bounded: {', '.join(get_args(ScoreRule))} (docs/theory/selection.md)."),
        "score_bound": (float, "Bound Γ on the score, in bits."),
        "score_noise_std": (float, "Standard deviation of the score's noise."),
        "threshold": (float, "Scheme 2.1: largest noisy score that transmits."),
        "num_selected": (int, "Scheme 2.2: number of devices that transmit."),
        "cover_noise": (bool, "Silent devices still transmit noise."),
    },
    "Slots": {
        "slots": (int, "Most slots of an inference; ε is that of all of them."),
        "sure": (float, "Probability at which the server stops asking."),
        "slots_redrawn": (bool, "Coins, scores and channel are new in each slot, else once an inference."),
        "abstain": (bool, "No answer where the server is not sure after the last slot."),
    },
    "Guarantee and adversary": {
        "delta": (float, "δ of the guarantee."),
        "neighbours": (
            str,
            "What ε hides: whether there is a feature (zero-out), which feature (replace), "
            "whether there is a device (remove).",
        ),
        "inferences": (int, "Number of inferences that share the ε."),
        "colluders": (str, "Number of other devices that collude, or which ones: '#3,#7'."),
        "dropouts": (int, "Number of other devices that may drop out."),
        "antennas": (
            int,
            "Antennas of an eavesdropper elsewhere (adds a fourth ε); the server's are --server-antennas.",
        ),
        "knows_answer": (
            bool,
            "That eavesdropper may learn the answer, so the server's antennas count among its own; else it is assumed "
            "never to.",
        ),
    },
}
_NETWORK = {name: each for group in _GROUPS.values() for name, each in group.items()}


def _flag(group: str, name: str, kind: Any, text: str) -> Any:
    how: dict[str, Any] = {"help": text, "rich_help_panel": group}
    if kind in (per_device, _gamma):
        return Annotated[Any, typer.Option("--" + name.replace("_", "-"), parser=kind, metavar="NUMBER", **how)]
    return Annotated[kind | None, typer.Option(**how)]


@dataclass(frozen=True)
class NetworkOptions:
    """A network and a claim on the command line: a file, options that override it, and devices known to collude."""

    path: Path | None
    given: Mapping[str, Any]
    colluding: tuple[int, ...] = ()

    def network(self, **default: Any) -> Network:
        """The network. `default`: options that hold where neither the command line nor a file says otherwise."""
        data: dict[str, Any] = {"version": network_file.VERSION, "devices": {}}
        given = {**default, **self.given}
        if self.path is not None:
            base, given = network_file.read(self.path), self.given
            if given.get("devices", base.devices.count) != base.devices.count:
                raise ValueError(
                    f"--devices {given['devices']} contradicts the {base.devices.count} devices of {self.path}"
                )
            data = tomllib.loads(self.path.read_text("utf-8"))
        for name, value in given.items():
            put(data, name, value)
        lengths = {len(value) for value in self.given.values() if isinstance(value, list)}
        if self.path is None and "devices" not in self.given and lengths:
            data["devices"]["count"] = lengths.pop()
        if "count" not in data["devices"]:
            raise ValueError("give --devices K or --network FILE")
        return network_file.build(data)

    def claim(self, *, live: bool = False, credit_channel_noise: bool = False, per_event: int | None = None) -> Claim:
        """What is asked of the network: the file's claim, and what the command line says otherwise."""
        base = Claim() if self.path is None else network_file.read_claim(self.path)
        more = {"live": live, "credit_channel_noise": credit_channel_noise, "colluding": self.colluding}
        given = {f.name: self.given[f.name] for f in fields(Claim) if f.name in self.given}
        given |= {name: value for name, value in more.items() if value}
        return replace(base, **given, **({} if per_event is None else {"per_event": per_event}))

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Raises an error if an option is given that the command cannot honour."""
        if unwanted := [name for name in names if name in self.given]:
            raise ValueError(f"--{unwanted[0].replace('_', '-')} cannot be given here: {why}")

    def refuse_named_colluders(self) -> None:
        if self.claim().colluding:
            raise ValueError("--colluders takes a number here: the result holds whichever devices collude")

    def check_dimension(self, net: Network, needed: int, by: str) -> None:
        """Raises an error unless the network transmits latents of the dimension that `by` needs."""
        if net.dimension != needed:
            raise ValueError(
                f"{self.path or 'the network'} has dimension {net.dimension}, {by} needs {needed}: calibrate with "
                f"--dimension {needed}, or write dimension = {needed}"
            )


def grouped(group: type, make: Callable[..., Any] | None = None) -> Callable[[Any], Callable[..., None]]:
    """Gives a command the fields of a dataclass as options, and takes them as one object: its last positional argument.

    make: the object from the fields' values; by default, the dataclass. Typer reads the signature that is made here.
    """
    empty, keyword = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    flags = [
        inspect.Parameter(f.name, keyword, default=empty if f.default is MISSING else f.default, annotation=f.type)
        for f in fields(group)
    ]

    def decorate(command: Any) -> Callable[..., None]:
        def run(*first: Any, **values: Any) -> None:
            command(*first, (make or group)(**{flag.name: values.pop(flag.name) for flag in flags}), **values)

        parameters = list(inspect.signature(command).parameters.values())
        positional = [p for p in parameters if p.kind is not keyword][:-1]
        taken = [*positional, *flags, *(p for p in parameters if p.kind is keyword)]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(taken)  # pyright: ignore[reportFunctionMemberAccess]
        run.__annotations__ = {p.name: p.annotation for p in taken}
        return run

    return decorate


def _network_options(network: Path | None, colluders: str | None, **values: Any) -> NetworkOptions:
    given = {name: value for name, value in values.items() if value is not None}
    if colluders is None:
        return NetworkOptions(network, given)
    try:
        if colluders.lstrip().startswith("#"):
            known = tuple(int(part.strip().removeprefix("#")) for part in colluders.split(","))
            return NetworkOptions(network, given, known)
        return NetworkOptions(network, given | {"colluders": int(colluders)})
    except ValueError:
        raise ValueError(f"--colluders {colluders!r} must be a number, or devices such as '#3,#7'") from None


_FILE = typer.Option(help="Network file (TOML); options override it.", rich_help_panel=next(iter(_GROUPS)))
_FLAGS: dict[str, Any] = {"network": Annotated[Path | None, _FILE]}
_FLAGS |= {name: _flag(group, name, *each) for group, of in _GROUPS.items() for name, each in of.items()}
_Flags = make_dataclass("_Flags", [(name, kind, field(default=None)) for name, kind in _FLAGS.items()])
on_network = grouped(_Flags, _network_options)
