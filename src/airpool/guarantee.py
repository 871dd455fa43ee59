"""Network in, privacy report out: where the channel (who is heard, and how loud) and the privacy core meet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .network import Network, NetworkError
from .paper import theorem1
from .privacy import compose, device, leakage
from .privacy.arrays import Floats
from .privacy.device import Aggregate
from .privacy.game import Game, solve
from .privacy.object import object_game
from .units import dbm_to_mw

# Cells of a noise law where a whole curve is composed; rounded to the safe side, it costs about 0.1 % of ε.
_COMPOSED_CELLS = 256
# Up to this many devices a report also says what colluders and dropouts would cost.
_ABSENT_UP_TO = 64


@dataclass(frozen=True)
class PrivacyReport:
    """What each device of a network leaks, and under which assumptions.

    epsilon: per device, the promise: all honest devices' noise protects one feature.
    epsilon_lower: a proven lower end, equal to `epsilon` where the law is exact; None for a stream of inferences.
    epsilon_local: per device, nobody else trusted.
    epsilon_object: all views change at once; feature privacy does not protect the object.
    epsilon_if_absent: the worst device's ε if so many others collude or drop out, for 0, 1, 2, ...
    paper: what the paper's Theorem 1 claims for one inference of the same network.
    """

    network: Network
    epsilon: Floats
    epsilon_lower: Floats | None
    epsilon_local: Floats
    epsilon_object: float
    epsilon_if_absent: tuple[float, ...]
    paper: theorem1.Claim
    assumptions: tuple[str, ...]

    @property
    def worst(self) -> float:
        return float(np.max(self.epsilon))

    def to_json(self) -> dict[str, Any]:
        from .report import to_json

        return to_json(self)

    def plot(self, path: str) -> None:
        from .report import plot

        plot(self, path)


def guarantee(
    network: Network,
    *,
    delta: float | None = None,
    neighbours: device.Neighbours | None = None,
    inferences: int | None = None,
    colluding: Sequence[int] = (),
    credit_channel_noise: bool = False,
    tail: theorem1.Tail = "quadratic",
) -> PrivacyReport:
    """The exact (ε, δ) of every device, beside the paper's claim. What is not given is taken from the network.

    colluding: devices known to collude, by index, on top of the network's number of colluders (whichever they are).
    credit_channel_noise: count the receiver's noise too; an eavesdropper may have a better receiver, so the default
        does not.

    >>> net = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, participation=0.9)
    >>> float(guarantee(net).epsilon[0].round(4))
    2.0639
    """
    given = {"delta": delta, "neighbours": neighbours, "inferences": inferences}
    network = replace(network, **{name: value for name, value in given.items() if value is not None})
    heard = aggregate(network, colluding=colluding, credit_channel_noise=credit_channel_noise)
    bounds = _bounds(network, heard)
    return PrivacyReport(
        network=network,
        epsilon=bounds[1],
        epsilon_lower=bounds[0],
        epsilon_local=device.local_epsilon(
            heard, network.delta, neighbours=network.neighbours, inferences=network.inferences
        ),
        epsilon_object=_object_epsilon(network, heard),
        epsilon_if_absent=_if_absent(network, heard, float(np.max(bounds[1]))),
        paper=paper_claim(network, tail),
        assumptions=_assumptions(network, heard),
    )


def aggregate(network: Network, *, colluding: Sequence[int] = (), credit_channel_noise: bool = False) -> Aggregate:
    """What the adversary hears of this network, for the privacy core."""
    gamma = _alignment_constant(network)
    d = network.devices
    weight, clip_norm, std = (np.array(d.column(name)) for name in ("weight", "clip_norm", "noise_std"))
    bad = [k for k in colluding if not 0 <= k < d.count]
    if bad:
        raise NetworkError(f"colluding device {bad[0]} must be from 0 to {d.count - 1}")
    return Aggregate(
        shift=weight * clip_norm,
        variance=std**2,
        participation=np.array(d.participation),
        extra=(network.channel.noise_std / gamma) ** 2 if credit_channel_noise else 0.0,
        dimension=network.dimension,
        cover_noise=network.cover_noise,
        absent=min(network.colluders + network.dropouts, d.count - 1),
        colluding=tuple(colluding),
        alone=network.channel.access == "orthogonal",
    )


def _alignment_constant(network: Network) -> float:
    """γ, where every device can reach it within its power: then everybody arrives aligned, g = 1.

    Without fading the largest common γ is √P/√(w²C² + rσ²) of the weakest device.
    """
    channel, d = network.channel, network.devices
    if channel.fading != "none" or channel.csi_error_std or channel.phase_error_std:
        raise NetworkError(
            f"channel.fading={channel.fading!r}, csi_error_std={channel.csi_error_std} and phase_error_std="
            f"{channel.phase_error_std}: outage and misalignment are not accounted for in this version; use an ideal "
            'channel (fading = "none", no errors)'
        )
    feature, std, power = signal(network)
    with np.errstate(divide="ignore"):
        reach = np.sqrt(power / (feature**2 + network.dimension * std**2))
    if channel.gamma == "auto":
        return float(np.min(reach))
    weak = int(np.argmin(reach))
    if channel.gamma > reach[weak]:
        raise NetworkError(
            f"channel.gamma={channel.gamma:g} is beyond the power of device {weak}: with power_dbm="
            f'{d.column("power_dbm")[weak]:g} it reaches {reach[weak]:.4g}; lower gamma or write gamma = "auto"'
        )
    return channel.gamma


def signal(network: Network) -> tuple[Floats, Floats, Floats]:
    """Per device: the largest weighted feature, the noise per coordinate, and the power in mW."""
    d = network.devices
    power = np.array([dbm_to_mw(p) for p in d.column("power_dbm")])
    return np.array(d.column("weight")) * np.array(d.column("clip_norm")), np.array(d.column("noise_std")), power


def game(network: Network, heard: Aggregate) -> Game:
    """What the adversary has to tell apart in one inference of this network."""
    cells = None if network.inferences == 1 else _COMPOSED_CELLS
    scheme = network.scheme
    if scheme.name == "1":
        return device.game(heard, network.neighbours, cells=cells)
    # A score lies in [0, Γ] after clipping, and in [0, Γ/2] after the paper's scaling.
    high = scheme.score_bound if scheme.score_rule == "clip" else scheme.score_bound / 2
    if scheme.name == "2.1":
        chosen = leakage.Threshold(np.zeros(()), np.asarray(high), np.asarray(scheme.score_noise_std), scheme.threshold)
        return leakage.threshold_game(heard, chosen, network.neighbours, cells=cells)
    return leakage.ranking_game(
        heard,
        score_range=np.asarray(high),
        score_noise_std=np.asarray(scheme.score_noise_std),
        num_selected=scheme.num_selected,
        neighbours=network.neighbours,
    )


def _bounds(network: Network, heard: Aggregate) -> tuple[Floats | None, Floats]:
    played = game(network, heard)
    if network.inferences == 1:
        found = solve(played, network.delta)
        return found.lower, found.upper
    return None, compose.epsilon(played, network.delta, network.inferences)


def epsilon(network: Network, heard: Aggregate) -> Floats:
    """The proven ε of each device, without the rest of the report."""
    return _bounds(network, heard)[1]


def _object_epsilon(network: Network, heard: Aggregate) -> float:
    if network.scheme.name != "1":
        # Everybody's score may change as well: nothing better than all local releases at once is claimed.
        return float("inf")
    return float(compose.epsilon(object_game(heard, network.neighbours), network.delta, network.inferences)[0])


def _if_absent(network: Network, heard: Aggregate, worst: float) -> tuple[float, ...]:
    if heard.num_devices > _ABSENT_UP_TO or heard.absent or heard.colluding or heard.alone or network.inferences > 1:
        return (worst,)
    more = [float(np.max(epsilon(network, replace(heard, absent=n)))) for n in range(1, min(3, heard.num_devices))]
    return (worst, *more)


def paper_claim(network: Network, tail: theorem1.Tail) -> theorem1.Claim:
    """What the paper's Theorem 1 says of this network, for one inference."""
    d, gamma = network.devices, network.channel.gamma
    return theorem1.claim(
        weight=d.column("weight"),
        clip_norm=d.column("clip_norm"),
        noise_std=d.column("noise_std"),
        participation=d.column("participation"),
        delta=network.delta,
        gamma=1.0 if gamma == "auto" else gamma,
        tail=tail,
    )


def _assumptions(network: Network, heard: Aggregate) -> tuple[str, ...]:
    neighbours = {
        "zero-out": "Neighbours: the device's feature is replaced by zero, the device still behaves as a device.",
        "replace": "Neighbours: the device's feature is replaced by any other one.",
        "remove": "Neighbours: the device vanishes, and its noise with it.",
    }
    lines = [
        neighbours[network.neighbours],
        "Every latent is clipped to its clip_norm, and the noise is Gaussian, fresh and independent each time.",
    ]
    if heard.alone:
        lines.append("Every device is heard by itself, so only its own noise protects it.")
    elif heard.absent or heard.colluding:
        named = f", with devices {', '.join(map(str, heard.colluding))} known to collude" if heard.colluding else ""
        lines.append(
            f"Up to {heard.absent} other devices collude with the adversary or drop out, whichever they are{named}; "
            "all others add their noise."
        )
    else:
        lines.append("All other devices are honest and add their noise; nobody colludes or drops out.")
    if not heard.alone:
        lines.append("The receiver has one antenna, and the signals arrive aligned at it; others get the local ε.")
    if network.cover_noise:
        lines.append("Silent devices send their noise all the same, and who took part never becomes known.")
    elif network.scheme.name == "1" and network.neighbours != "remove":
        lines.append("The adversary sees who takes part; ε is over the draw of participation (ex ante).")
    elif network.scheme.name == "1":
        lines.append("The adversary sees who of the others takes part, but not whether the device itself does.")
    if network.scheme.name == "2.1":
        lines.append("A changed feature may have any score; the others take part as rarely as their scores allow.")
    if network.scheme.name == "2.2":
        lines.append("The ranking server's noisy scores are visible; the selection leaves the least noise it can.")
    credited = "The receiver's noise is counted" if heard.extra else "The receiver's noise is not counted"
    lines.append(f"{credited}.")
    if network.inferences > 1:
        lines.append(f"ε covers {network.inferences} inferences together.")
    lines.append("The object itself is not protected by a device's ε: see the object's own.")
    return tuple(lines)
