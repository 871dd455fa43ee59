"""Every number that is promised or measured of a network, and how each is checked against something else.

A column computes one number of a network. Its check says what is wrong with that number, compared with the oracle (ε)
or with transmissions, step by step, of the simulator (errors and certificates); an empty text where nothing is.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch

from airpool.account.guarantee import guarantee, realised_epsilon, score_epsilon
from airpool.evaluation import mse
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects
from airpool.network import Channel, Claim, Coin, Network, Threshold
from airpool.protocol.inference import Simulation, infer_features
from airpool.protocol.simulation import receive
from airpool.radio.beam import beam
from airpool.radio.link import level, link_of
from airpool.schemes.scores import Uncertainty
from airpool_lab.theory import prediction
from airpool_lab.theory.prediction import law, predict
from airpool_lab.theory.server import LayeredServer
from airpool_lab.waveform.frame import Frame
from airpool_lab.waveform.reception import waveform_epsilon
from airpool_lab.waveform.uplink import Impairments, uplink
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.spending import total

from .oracle import Oracle, Picked
from .radio import Radio

TRIALS, CLASSES = 4000, 3
# Standard errors by which a simulation may be off: one in 1e7.
FAR = 5.3


def latents(network: Network) -> np.ndarray:
    """Two objects of classes 0 and 1, as (2, K, r): devices that mostly agree, some beyond the clip norm."""
    rng = np.random.default_rng(28)
    centre = np.zeros((2, 1, network.dimension))
    centre[0, 0, 0], centre[1, 0, -1] = 1.5, 1.5
    return centre + 0.3 * rng.standard_normal((2, network.devices.count, network.dimension))


def server(network: Network) -> LayeredServer:
    """A linear one, whose classes point along the first, the last and no axis."""
    rows = np.zeros((CLASSES, network.dimension))
    rows[0, 0], rows[1, -1] = 1.0, 1.0
    return LayeredServer(((rows, np.array([0.0, 0.0, 0.2])),))


def scores(network: Network) -> np.ndarray | None:
    return None if isinstance(network.scheme, Coin) else np.full((2, network.devices.count), 0.5)


@dataclass(frozen=True)
class Seen:
    """Of many transmissions: squared errors (2, t), whether right (2, t), whether nobody was received (2, t)."""

    square: np.ndarray
    right: np.ndarray
    silent: np.ndarray
    estimate: np.ndarray


@lru_cache(maxsize=128)
def seen(network: Network) -> Seen:
    z = latents(network)
    got = receive(
        z, network, rng=np.random.default_rng(1), trials=TRIALS, path="full", scores=scores(network), num_classes=40
    )
    silent = ~np.any(got.alignment != 0, axis=-1)
    clipped = z * np.minimum(
        1, np.array(network.devices.clip_norm)[:, None] / np.linalg.norm(z, axis=-1, keepdims=True)
    )
    ideal = np.einsum("nkr,k->nr", clipped, np.array(network.devices.weight))
    ((A, b),) = server(network).layers
    right = (np.argmax(got.estimate @ A.T + b, axis=-1) == np.arange(2)[:, None]) & ~silent
    return Seen(np.sum((got.estimate - ideal[:, None]) ** 2, axis=-1), right, silent, got.estimate)


def near(value: float, sample: np.ndarray, what: str) -> str:
    error = FAR * float(np.std(sample)) / np.sqrt(sample.size) + 5 / sample.size * float(np.max(np.abs(sample)))
    mean = float(np.mean(sample))
    return "" if abs(value - mean) <= error else f"{what} {value:.5g}, simulated {mean:.5g} ± {error:.2g}"


def below(value: float, sample: np.ndarray, what: str) -> str:
    error = FAR * float(np.std(sample)) / np.sqrt(sample.size) + 5 / sample.size
    mean = float(np.mean(sample))
    return "" if value <= mean + error else f"{what} {value:.5g} is above what is simulated, {mean:.5g} ± {error:.2g}"


@lru_cache(maxsize=128)
def report(network: Network, claim: Claim):
    return guarantee(network, claim)


@lru_cache(maxsize=128)
def oracle(network: Network, claim: Claim) -> Oracle:
    return Oracle(Radio(network, link_of(network).gamma, beam), claim, seed=1)


def refuted(claim: Claim, epsilon: float, delta: float) -> str:
    return f"ε = {epsilon:.5g}, but δ ≥ {delta:.4g} > {claim.delta:g}" if delta > claim.delta * (1 + 1e-6) else ""


def device_holds(network: Network, claim: Claim, epsilon: float) -> str:
    """Also where a channel that stands still is drawn again."""
    found = oracle(network, claim).delta(0, epsilon * (1 + 1e-6))
    if not network.channel.redrawn and claim.inferences > 1:
        again = Oracle(Radio(network, link_of(network).gamma, beam), claim, seed=1, redrawn=True)
        found = max(found, again.delta(0, epsilon * (1 + 1e-6)))
    return refuted(claim, epsilon, found)


def local_holds(network: Network, claim: Claim, epsilon: float) -> str:
    coin = isinstance(network.scheme, Coin) and claim.neighbours != "remove"
    return refuted(claim, epsilon, oracle(network, claim).local_delta(0, epsilon * (1 + 1e-6)) if coin else 0.0)


def object_holds(network: Network, claim: Claim, epsilon: float) -> str:
    skip = claim.neighbours == "remove" or network.channel.access == "orthogonal"
    return refuted(claim, epsilon, 0.0 if skip else oracle(network, claim).object_delta(epsilon * (1 + 1e-6)))


def overheard(network: Network, claim: Claim) -> float:
    """0 where nobody listens elsewhere."""
    found = report(network, claim).epsilon_eavesdropper
    return 0.0 if found is None else float(found[0])


def overheard_holds(network: Network, claim: Claim, epsilon: float) -> str:
    coin = isinstance(network.scheme, Coin) and claim.neighbours != "remove" and network.adversary.antennas
    return refuted(claim, epsilon, oracle(network, claim).overheard_delta(0, epsilon * (1 + 1e-6)) if coin else 0.0)


def faded(network: Network) -> Network:
    """With a channel to choose moments by."""
    if network.channel.fading != "none" or network.channel.access == "secure":
        return network
    return replace(network, channel=replace(network.channel, fading="rayleigh", outage=0.01))


def selected(network: Network, claim: Claim) -> float:
    """0 where no draw of the channel enters ε."""
    found = report(faded(network), claim).epsilon_if_selected
    return 0.0 if found is None else float(found[0])


def selected_holds(network: Network, claim: Claim, epsilon: float) -> str:
    network = faded(network)
    found = report(network, claim)
    if found.epsilon_if_selected is None:
        return ""
    radio = Radio(network, link_of(network).gamma, beam)
    picked = Picked(radio, claim, seed=1, outages=found.outages_if_selected)
    return refuted(claim, epsilon, picked.picked_delta(0, epsilon * (1 + 1e-6)))


def realised(network: Network, claim: Claim) -> float:
    return float(np.max(realised_epsilon(network, np.ones(network.devices.count), claim)))


def realised_holds(network: Network, claim: Claim, epsilon: float) -> str:
    """Everybody was received: no less than where everybody always is."""
    always = replace(network, devices=replace(network.devices, participation=1.0))
    always = replace(always, channel=replace(network.channel, fading="none", k_factor_db=Channel.k_factor_db))
    return device_holds(always, claim, epsilon)


def over_samples(network: Network, claim: Claim) -> float:
    """Everybody takes part, which is what samples are accounted for with; a participation of .9 is left as it is."""
    if set(network.devices.column("participation")) == {0.8}:
        network = replace(network, devices=replace(network.devices, participation=1.0))
    symbols = -(-network.dimension // 2)
    shape = (1, network.devices.count)
    link = uplink(shape, symbols, Frame(), Impairments(pilot_noise_std=0.1), np.random.default_rng(2))
    return float(np.max(waveform_epsilon(network, link, claim)))


def booked(network: Network, claim: Claim) -> float:
    uses = {mechanism(network, device=0, live=claim.live): claim.inferences}
    return total(uses, claim.delta, claim.neighbours)


def booked_holds(network: Network, claim: Claim, epsilon: float) -> str:
    """A ledger's colluders are those of the network."""
    return device_holds(network, replace(claim, colluding=()), epsilon)


def scored(network: Network, claim: Claim) -> float:
    """What scores cost; where a coin decides, as if they did."""
    coin = isinstance(network.scheme, Coin)
    scores = replace(network, scheme=Threshold(score_noise_std=1.0)) if coin else network
    return float(score_epsilon(scores, claim)[0])


def certificate(network: Network, kind: Callable[..., np.ndarray]) -> float:
    return float(np.mean(kind(server(network), law(network), latents(network), np.arange(2))))


def quiet(network: Network) -> Network:
    """With a tenth of all noise: elsewhere Chebyshev's bound says nothing."""
    std = tuple(0.1 * s for s in network.devices.column("noise_std"))
    channel = replace(network.channel, noise_std=0.1 * network.channel.noise_std)
    return replace(network, devices=replace(network.devices, noise_std=std), channel=channel)


def chebyshev(network: Network) -> float:
    found = predict(network, latents(network), np.arange(2), server=lambda _: server(network))
    return found.server.chebyshev


def evaluated(network: Network, claim: Claim) -> float:
    z = torch.as_tensor(latents(network))
    bits = scores(network)
    ((A, b),) = server(network).layers
    found = evaluate(
        EncodedObjects(
            z,
            torch.arange(2),
            lambda _: lambda estimate: estimate @ torch.as_tensor(A.T) + torch.as_tensor(b),
            scores=None if bits is None else torch.as_tensor(bits),
            num_classes=40,
            participation=0.5 if network.scheme.name == "2.1" else None,
        ),
        network,
        claim,
        trials=TRIALS,
    )
    assert np.array_equal(found.report.epsilon, report(network, claim).epsilon)
    return found.mse


def inferred(network: Network, claim: Claim) -> float:
    rng = np.random.default_rng(3)
    classifier = rng.standard_normal((CLASSES, network.dimension))
    out = infer_features(
        latents(network),
        network,
        claim,
        server=classifier,
        rng=rng,
        uncertainty=Uncertainty(scores=scores(network), num_classes=40),
        simulation=Simulation(),
    )
    return out.report.worst


def public_noise(network: Network) -> float:
    return level(network, participation=0.5 if network.scheme.name == "2.1" else None).noise_std


def measured_holds(network: Network, claim: Claim, value: float) -> str:
    """The error of one slot; that of a mean over several is smaller."""
    if network.slots.count == 1:
        return near(value, seen(network).square, "measured square error")
    return below(value, seen(network.one_slot).square, "measured square error")


@dataclass(frozen=True)
class Column:
    """walks: names of the public functions that the number comes from."""

    walks: tuple[str, ...]
    number: Callable[[Network, Claim], float]
    holds: Callable[[Network, Claim, float], str] = lambda network, claim, value: ""


def transmitted(
    walks: tuple[str, ...],
    number: Callable[[Network], float],
    holds: Callable[[Network, float], str] = lambda network, value: "",
) -> Column:
    """A number of what is transmitted, whatever is claimed of it."""
    return Column(walks, lambda net, claim: number(net), lambda net, claim, value: holds(net, value))


COLUMNS: dict[str, Column] = {
    "epsilon": Column(("guarantee",), lambda *asked: float(report(*asked).epsilon[0]), device_holds),
    "local": Column(("guarantee",), lambda *asked: float(report(*asked).epsilon_local[0]), local_holds),
    "object": Column(("guarantee",), lambda *asked: report(*asked).epsilon_object, object_holds),
    "eaves": Column(
        ("guarantee", "elsewhere"),
        overheard,
        overheard_holds,
    ),
    "selected": Column(("guarantee",), selected, selected_holds),
    "realised": Column(("realised_epsilon",), realised, realised_holds),
    "waveform": Column(("waveform_epsilon",), over_samples),
    "booked": Column(("total", "mechanism"), booked, booked_holds),
    "scores": Column(("score_epsilon",), scored),
    "inferred": Column(("infer_features", "report_of"), inferred, device_holds),
    "error": transmitted(
        ("error",),
        lambda net: float(mse.error(latents(net), net).total.mean()),
        lambda net, value: near(value, seen(net).square, "mean square error"),
    ),
    "expected": transmitted(
        ("expected",),
        lambda net: float(mse.expected(latents(net), net)[0, 0]),
        lambda net, value: near(value, seen(net).estimate[0, :, 0], "expected estimate"),
    ),
    "silent": transmitted(
        ("no_answer",),
        prediction.no_answer,
        lambda net, value: near(value, seen(net).silent.astype(np.float64), "no answer"),
    ),
    "halves": transmitted(
        ("half_spaces", "law"),
        lambda net: certificate(net, prediction.half_spaces),
        lambda net, value: below(value, seen(net).right.astype(np.float64), "half-spaces"),
    ),
    "ball": transmitted(
        ("ball", "law"),
        lambda net: certificate(net, prediction.ball),
        lambda net, value: below(value, seen(net).right.astype(np.float64), "ball"),
    ),
    "ceiling": transmitted(
        ("ceiling", "law"),
        lambda net: certificate(net, prediction.ceiling),
        lambda net, value: below(-value, -seen(net).right.astype(np.float64), "ceiling"),
    ),
    "chebyshev": transmitted(
        ("predict", "chebyshev"),
        lambda net: chebyshev(quiet(net)),
        lambda net, value: below(value, seen(quiet(net)).right.astype(np.float64), "Chebyshev"),
    ),
    "level": transmitted(("level", "level_of"), public_noise),
    "measured": Column(("evaluate",), evaluated, measured_holds),
}
