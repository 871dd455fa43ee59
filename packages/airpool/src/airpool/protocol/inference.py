"""One private inference, end to end: features in, label and guarantee out. Also the baselines.

Encoder and server are functions, torch modules or matrices; no model is imported here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from airpool._support.arrays import Array, like
from airpool._support.brief import Brief
from airpool._support.draws import Generator
from airpool._support.rounding import full, shown
from airpool.account.guarantee import PrivacyReport, guarantee
from airpool.network import Channel, Claim, Coin, Network, require_one_slot
from airpool.protocol import device
from airpool.protocol import server as stations
from airpool.protocol.device import Map
from airpool.protocol.simulation import Drawn, Path, Received, check_latents, receive
from airpool.protocol.slots import SlotEstimate, until_sure
from airpool.radio.link import Level, level
from airpool.radio.power import Transmission
from airpool.schemes.scores import Uncertainty

Baseline = Literal["orthogonal", "best-device", "centralised"]
_SHOWN = 10  # answers in a notebook


@dataclass(frozen=True, eq=False)
class Simulation:
    """Options of a simulated inference.

    trials: independent transmissions of each object. path: as of `simulation.receive`. baseline: see `transmitted`.
    report: that of the network that transmits (`transmitted(network, baseline)`), if already computed.
    """

    trials: int = 1
    path: Path = "fast"
    baseline: Baseline | None = None
    report: PrivacyReport | None = None


@dataclass(frozen=True)
class BySlots:
    """A server that decodes the mean over n slots by a map of its own: `of(n)`, for noise of level σ/√n."""

    of: Callable[[int], Map]


Servers = Map | Sequence[Map] | BySlots


@dataclass(frozen=True, eq=False, repr=False)
class Inference(Brief):
    """Labels with everything that led to them, (n, t). server.NO_ANSWER (−1) where no device transmitted, and under
    `abstain` where the server is not sure.

    estimate: mean over the slots used, (n, t, r). probability: of the likeliest class. slots: number used; sure:
    whether the stopping rule is met. energy: of all devices in all slots used. received: the first slot.
    report: the guarantee of all slots, however few were used.
    latents: z of each device before it is clipped, (n, K, r), known to a simulator alone.
    logits: (n, t, L). simulated: whether noise and channel were drawn by a simulator.

    >>> import numpy as np
    >>> net = Network.uniform(num_devices=4, dimension=3, noise_std=0.01)
    >>> features = np.eye(3)[:, None].repeat(4, axis=1)                  # three objects, seen by four devices
    >>> found = infer_features(features, net, server=np.eye(3), rng=np.random.default_rng(0))
    >>> found.label.ravel().tolist(), found.estimate.shape, found.slots.ravel().tolist()
    ([0, 1, 2], (3, 1, 3), [1.0, 1.0, 1.0])
    """

    label: Array
    logits: Array
    estimate: Array
    probability: Array
    slots: Array
    sure: Array
    energy: Array
    received: Received
    report: PrivacyReport
    latents: Array
    simulated: bool = True

    def _repr_html_(self) -> str:
        from airpool._support import notebook

        names = ("label", "probability", "slots", "sure")
        columns = [np.asarray(getattr(self, name)).reshape(-1).tolist() for name in names]
        lines = [
            (
                str(number),
                "no answer" if label == stations.NO_ANSWER else str(label),
                f"{p:.3f}",
                str(slots),
                "yes" if sure else "no",
            )
            for number, (label, p, slots, sure) in enumerate(zip(*columns, strict=True))
        ]
        count, worst = len(lines), self.report.worst
        rest = [f"… {count} answers in all."] if count > _SHOWN else []
        spent = f"ε = {shown(worst)} of the worst device at δ = {full(self.report.claim.delta)}, for all slots."
        table = notebook.rows_of(("inference", *names), lines[:_SHOWN])
        return notebook.shown(f"{count} answer{'s' * (count > 1)}", table, notebook.sentences([*rest, spent]))


def infer_features(
    features: Array,
    network: Network,
    claim: Claim = Claim(),
    *,
    server: Servers,
    rng: Generator,
    encoder: Map | Sequence[Map] | None = None,
    uncertainty: Uncertainty | None = None,
    simulation: Simulation | None = None,
) -> Inference:
    """Labels of n objects from the features (n, K, d) of their views.

    server: from estimates (..., r) to logits (..., L); a sequence is applied in turn, such as decoder and classifier;
        `BySlots` has one for the mean over each number of slots.
    encoder: left out, the features are the latents; a sequence gives every device its own.
    uncertainty: of each device's own classifier; Schemes 2.1 and 2.2 need it.
    Up to network.slots.count slots are sent, until the server is sure.
    """
    how = simulation or Simulation()
    latents = device.encode(features, encoder)
    check_latents(latents, network)
    if how.baseline is not None:
        require_one_slot(network, "a baseline is one slot")
    sender = transmitted(network, how.baseline)
    report, one = report_of(sender, claim, how.report), sender.one_slot
    bits, num_classes = (None, None)
    if how.baseline != "centralised":
        bits, num_classes = (uncertainty or Uncertainty()).raw(network.scheme)

    def slot(these: Array | slice, trials: int, drawn: Drawn | None = None) -> Received:
        if how.baseline == "centralised":
            return centralised(latents, network, trials)
        return receive(
            latents[these],
            one,
            rng=rng,
            trials=trials,
            path=how.path,
            scores=None if bits is None else bits[these],
            num_classes=num_classes,
            only_best=how.baseline == "best-device",
            drawn=drawn,
        )

    def again(pending: Array) -> SlotEstimate:
        drawn = None if network.slots.redrawn else first.drawn.of(pending)
        return _flat(slot(pending // how.trials, 1, drawn))

    def decode(mean: Array, number: int, _: Array) -> Array:
        return stations.decode(mean, server.of(number) if isinstance(server, BySlots) else server)

    first = slot(slice(None), how.trials)
    asked = until_sure(_flat(first), network.slots, again, decode)

    def shaped(values: Array) -> Array:
        return values.reshape((latents.shape[0], how.trials, *values.shape[1:]))

    label = asked.labels(abstain=network.slots.abstain)
    found = (label, asked.logits, asked.estimate, asked.probability, asked.slots, asked.sure, asked.energy)
    return Inference(*map(shaped, found), received=first, report=report, latents=latents)


def _flat(got: Received) -> SlotEstimate:
    """A slot of n objects in t trials as one row for each inference."""
    return SlotEstimate(
        got.estimate.reshape((-1, got.estimate.shape[-1])), *(x.reshape(-1) for x in (got.any_signal, got.energy))
    )


def transmitted(network: Network, baseline: Baseline | None = None) -> Network:
    """The network that transmits under a baseline: the one to account for.

    orthogonal: every device is received by itself.
    best-device: the device with the strongest channel transmits alone, with weight 1; only its own noise protects it.
    centralised: all features as they are, with no noise, no coin or score, and no channel.
    """
    devices, channel = network.devices, network.channel
    match baseline:
        case None:
            return network
        case "orthogonal":
            return replace(network, channel=replace(channel, access="orthogonal"))
        case "best-device":
            return replace(network, devices=replace(devices, weight=1.0), channel=replace(channel, access="orthogonal"))
        case "centralised":
            bare = replace(devices, noise_std=0.0, participation=1.0)
            return replace(network, devices=bare, channel=Channel(), scheme=Coin(), cover_noise=False)
        case _:
            raise ValueError(f"baseline={baseline!r} must be {', '.join(get_args(Baseline))} or None")


def level_of(network: Network, baseline: Baseline | None = None, *, participation: ArrayLike | None = None) -> Level:
    """The public level of one slot's estimate under a baseline, which the decoder goes by.

    participation: as of `radio.link.level`.

    >>> net = Network.uniform(num_devices=4, noise_std=0.1)
    >>> level_of(net), level_of(net, "best-device"), level_of(net, "centralised")
    (Level(signal=1.0, noise_std=0.2), Level(signal=1.0, noise_std=0.1), Level(signal=1.0, noise_std=0.0))
    """
    sender = transmitted(network, baseline).one_slot
    if baseline == "centralised":
        d = sender.devices
        return Level(sum(w * c for w, c in zip(d.column("weight"), d.column("clip_norm"), strict=True)), 0.0)
    of_all = level(sender, participation=participation)
    if baseline == "best-device":  # one device and one receiver noise; in 2.2 one of those selected
        of = sender.scheme.most_senders(sender)
        return Level(of_all.signal / of, of_all.noise_std / of**0.5)
    return of_all


def report_of(sender: Network, claim: Claim, known: PrivacyReport | None = None) -> PrivacyReport:
    """The report of the network that transmits; a known one is checked to be of that network.

    Its claim and its targets may differ.
    """
    if known is None:
        return guarantee(sender, claim)
    of = known.network
    if replace(sender, devices=replace(sender.devices, epsilon=of.devices.epsilon)) != of:
        raise ValueError("report is of another network than the one that transmits: leave it out, or give that one's")
    return known


def centralised(latents: Array, network: Network, trials: int = 1) -> Received:
    """Σ w z of all clipped latents, without noise or channel: the baseline without privacy."""
    if trials < 1:
        raise ValueError(f"trials={trials} must be >= 1")
    xp = array_namespace(latents)
    n, num_devices, r = latents.shape
    z = device.clipped(latents, network.devices.column("clip_norm"))
    once = xp.sum(like(network.devices.column("weight"), z)[:, None] * z, axis=1)
    ones = xp.ones_like(xp.broadcast_to(z[:, None, :, 0], (n, trials, num_devices)))
    nothing_sent = Transmission(0 * ones, ones, 1.0, ones)
    everybody = Drawn(ones, None, ones > 0, None)
    squares = partial(xp.zeros_like, ones)
    return Received(xp.broadcast_to(once[:, None], (n, trials, r)), nothing_sent, squares, everybody)
