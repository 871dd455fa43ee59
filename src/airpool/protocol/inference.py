"""One private inference, end to end: features in, label and guarantee out. Also the baselines.

Encoder and server are functions, torch modules or matrices; no model is imported here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from array_api_compat import array_namespace

from airpool._support.arrays import Array, like
from airpool._support.draws import Generator
from airpool.account.guarantee import PrivacyReport, guarantee
from airpool.network import Channel, Coin, Network
from airpool.protocol import device
from airpool.protocol import server as stations
from airpool.protocol.maps import Map
from airpool.protocol.simulation import Drawn, Path, Received, check_latents, receive
from airpool.radio.power import Transmission
from airpool.schemes.scores import Uncertainty

Baseline = Literal["orthogonal", "best-device", "centralised"]


@dataclass(frozen=True, eq=False)
class Simulation:
    """Options of a simulated inference.

    trials: independent transmissions of each object. path: "full" goes through every device; "fast", for truncate and
    backoff, draws the sum's noise at once. baseline: see `transmitted`.
    report: that of the network that transmits (`transmitted(network, baseline)`), if already computed.
    """

    trials: int = 1
    path: Path = "full"
    baseline: Baseline | None = None
    report: PrivacyReport | None = None


@dataclass(frozen=True, eq=False)
class Inference:
    """Labels with everything that led to them. server.NO_ANSWER (−1) where no device transmitted.

    latents: z of each device before it is clipped, (n, K, r), known to a simulator alone.
    """

    label: Array
    logits: Array
    received: Received
    report: PrivacyReport
    latents: Array
    simulated: bool = True


def infer_features(
    features: Array,
    network: Network,
    *,
    server: Map | Sequence[Map],
    rng: Generator,
    encoder: Map | Sequence[Map] | None = None,
    uncertainty: Uncertainty | None = None,
    simulation: Simulation | None = None,
) -> Inference:
    """Labels of n objects from the features (n, K, d) of their views.

    server: from estimates (..., r) to logits (..., L); a sequence is applied in turn, such as decoder and classifier.
    encoder: left out, the features are the latents; a sequence gives every device its own.
    uncertainty: of each device's own classifier; Schemes 2.1 and 2.2 need it.
    """
    how = simulation or Simulation()
    latents = device.encode(features, encoder)
    check_latents(latents, network)
    sender = transmitted(network, how.baseline)
    report = report_of(sender, how.report)
    if how.baseline == "centralised":
        received = centralised(latents, network, how.trials)
    else:
        bits, num_classes = (uncertainty or Uncertainty()).raw(network.scheme)
        received = receive(
            latents,
            sender,
            rng=rng,
            trials=how.trials,
            path=how.path,
            scores=bits,
            num_classes=num_classes,
            only_best=how.baseline == "best-device",
        )
    logits = stations.decode(received.estimate, server)
    return Inference(stations.labels(logits, received.any_signal), logits, received, report, latents)


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


def report_of(sender: Network, known: PrivacyReport | None = None) -> PrivacyReport:
    """The report of the network that transmits; a known one is checked to be of that network.

    The report's own choices (δ, neighbours, number of inferences, targets) may differ.
    """
    if known is None:
        return guarantee(sender)
    chosen = {name: getattr(known.network, name) for name in ("delta", "neighbours", "inferences")}
    aimed = replace(sender.devices, epsilon=known.network.devices.epsilon)
    if replace(sender, devices=aimed, **chosen) != known.network:
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
    return Received(xp.broadcast_to(once[:, None], (n, trials, r)), nothing_sent, lambda: 0 * ones, everybody)
