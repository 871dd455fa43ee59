"""Network in, privacy report out: where the channel (who is heard, and how loud) and the privacy core meet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .network import Network, NetworkError, require_network
from .paper import theorem1
from .privacy import compose, device, gaussian, leakage
from .privacy.arrays import Floats
from .privacy.device import Aggregate
from .privacy.game import Game, solve
from .privacy.object import object_game
from .radio import Radio, radio
from .selection.scores import score_range

# Cells of a noise law where a whole curve is composed; rounded to the safe side, it costs about 0.1 % of ε.
_COMPOSED_CELLS = 256
# Share of δ below which the paper's power-limited outcomes are left out of account.
_NEGLIGIBLE = 1e-3
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
    require_network(network)
    given = {"delta": delta, "neighbours": neighbours, "inferences": inferences}
    network = replace(network, **{name: value for name, value in given.items() if value is not None})
    heard = aggregate(network, colluding=colluding, credit_channel_noise=credit_channel_noise)
    bounds = _bounds(network, heard)
    return PrivacyReport(
        network=network,
        epsilon=bounds[1],
        epsilon_lower=bounds[0],
        epsilon_local=_local_epsilon(network, heard),
        epsilon_object=_object_epsilon(network, heard),
        epsilon_if_absent=_if_absent(network, heard, float(np.max(bounds[1]))),
        paper=paper_claim(network, tail),
        assumptions=_assumptions(network, heard),
    )


def aggregate(network: Network, *, colluding: Sequence[int] = (), credit_channel_noise: bool = False) -> Aggregate:
    """What the adversary hears of this network, for the privacy core (spec §2, power rules).

    truncate: g ∈ {0, 1}; a device in outage is silent, for itself and as noise for the others.
    backoff: g ≤ 1. A weak device leaks less than an aligned one, so it counts as aligned; its noise does not count.
    exact, or gains and phases that are not known exactly: only the device's own noise is sure to protect it.
    paper: everybody arrives aligned where power never limits. Where it does, a full feature exceeds the limit and a
        zero one never, for whoever listens: no noise counts, so every ε is inf.
    """
    d, channel = network.devices, network.channel
    for k in colluding:
        if not (isinstance(k, int | np.integer) and 0 <= k < d.count):
            raise NetworkError(f"colluding device {k} must be from 0 to {d.count - 1}")
    heard = radio(network)
    unsure = bool(channel.csi_error_std or channel.phase_error_std) or channel.power_rule == "exact"
    told = _tells_by_power(network, heard)
    return Aggregate(
        shift=heard.transmitters.feature_norm,
        variance=np.zeros(d.count) if told else heard.transmitters.noise_std**2,
        participation=np.array(d.column("participation")),
        presence=np.ones(d.count) if channel.power_rule == "paper" else 1 - heard.outage,
        weakened=channel.power_rule in ("backoff", "exact"),
        extra=(channel.noise_std / heard.gamma) ** 2 if credit_channel_noise and not (unsure or told) else 0.0,
        dimension=network.dimension,
        cover_noise=network.cover_noise,
        absent=min(network.colluders + network.dropouts, d.count - 1),
        colluding=tuple(colluding),
        alone=channel.access == "orthogonal" or unsure,
    )


def _tells_by_power(network: Network, heard: Radio) -> bool:
    """Whether the paper's rule limits a device often enough to matter."""
    # Where scores choose, `participation` says nothing: anybody may speak.
    often = np.array(network.devices.column("participation")) if network.scheme.name == "1" else 1.0
    limited = often * heard.outage
    return network.channel.power_rule == "paper" and bool(np.max(limited) > _NEGLIGIBLE * network.delta)


def realised_epsilon(network: Network, alignment: ArrayLike) -> Floats:
    """ε of each device given how the signals really arrived: alignments (..., K), 0 for who was silent.

    The worst over the inferences given, with who was heard known: above the report's ε, which is over that draw, where
    few were heard, and below it where all were. Colluders, dropouts and access count as in the report.
    Holds for: one inference of Scheme 1, zero-out or replace, alignments that do not depend on the noise.
    """
    g = np.atleast_2d(np.asarray(alignment, dtype=np.float64))
    count, rule = network.devices.count, network.channel.power_rule
    if g.shape[-1] != count:
        raise ValueError(f"alignment has shape {g.shape}, must end with the {count} devices")
    if network.neighbours == "remove" or network.scheme.name != "1":
        raise ValueError(
            f"neighbours={network.neighbours!r} and scheme {network.scheme.name}: what was realised is accounted for "
            "with zero-out or replace and Scheme 1"
        )
    if rule in ("paper", "exact"):
        raise ValueError(f"channel.power_rule={rule!r} lets the alignment depend on the noise, so it cannot be given")
    heard = aggregate(network)
    worst = np.zeros(count)
    for once in np.unique(np.abs(g).reshape(-1, count), axis=0):
        there = replace(heard, shift=once * heard.shift, variance=once**2 * heard.variance)
        worst = np.maximum(worst, device.ratio(there.distance(network.neighbours), np.sqrt(there.fixed_variance())))
    return gaussian.epsilon(worst, network.delta)


def game(network: Network, heard: Aggregate) -> Game:
    """What the adversary has to tell apart in one inference of this network."""
    cells = None if network.inferences == 1 else _COMPOSED_CELLS
    scheme = network.scheme
    if scheme.name == "1":
        return device.game(heard, network.neighbours, cells=cells)
    low, high = map(np.asarray, score_range(scheme))
    if scheme.name == "2.1":
        chosen = leakage.Threshold(low, high, np.asarray(scheme.score_noise_std), scheme.threshold)
        return leakage.threshold_game(heard, chosen, network.neighbours, cells=cells)
    return leakage.ranking_game(
        heard,
        score_range=high - low,
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


def score_epsilon(network: Network) -> Floats:
    """What the score (2.2) or the decision made of it (2.1) costs each device if the features cost nothing.

    The smallest ε that noise on the features can reach.

    >>> from airpool import Network, Scheme
    >>> net = Network.uniform(num_devices=12, scheme=Scheme("2.1", score_noise_std=0.5, threshold=0.5))
    >>> float(score_epsilon(net)[0].round(4))
    1.6683
    """
    nothing = np.zeros(network.devices.count)
    if network.scheme.name == "1":
        return nothing
    return epsilon(network, Aggregate(shift=nothing, variance=nothing, participation=nothing))


def _local_epsilon(network: Network, heard: Aggregate) -> Floats:
    """Own noise alone; with a score, what the score and the decision tell besides."""
    if network.scheme.name == "1":
        return device.local_epsilon(heard, network.delta, neighbours=network.neighbours, inferences=network.inferences)
    played = game(network, replace(heard, alone=True, extra=0.0))
    return compose.epsilon(played, network.delta, network.inferences)


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
    if network.channel.access == "orthogonal":
        lines.append("Every device is heard by itself, so only its own noise protects it.")
    elif heard.alone:
        lines.append("Signals need not arrive aligned (CSI or phase errors, exact power), so only own noise counts.")
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
    if np.any(heard.presence < 1):
        worst = float(np.max(1 - heard.presence))
        weak = "counts as aligned, its noise does not count" if heard.weakened else "is silent, which anybody may see"
        lines.append(f"A device whose channel is too weak (up to {worst:.2g} of the time) {weak}.")
    if _tells_by_power(network, radio(network)):
        lines.append(
            "ε is infinite: the paper's power rule tells a full feature from none where power limits a device."
        )
    if network.cover_noise and network.scheme.name != "1":
        lines.append("Silent devices send their noise all the same; the adversary may know who they are.")
    elif network.cover_noise:
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
