"""One private inference, end to end (Algorithms 1, 2 and 3 of the paper): features in, label and guarantee out.

    device   z ← W f, guarded and clipped;  z̃ = w z + n;  x = (α/p) z̃ with probability p,
             or by its noisy score: if it is at most η (Scheme 2.1), or among the k̃ lowest (2.2)
    air      y = Σ h x + m
    server   ẑ = y/γ,  label = argmax J(D ẑ)

Written once for NumPy and torch, CPU and CUDA, for any number of objects, devices, coordinates and trials. Encoder,
decoder and classifier are functions, torch modules or matrices; no model is imported here.

This is a simulation: noise comes from the generator that is passed in and protects nobody. A device that is really on
the air sends with airpool.protocol.live, which cannot be seeded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from airpool.account.guarantee import PrivacyReport, guarantee
from airpool.arrays import Array, like, require, require_array
from airpool.draws import Generator
from airpool.network import Channel, Coin, Network
from airpool.protocol.air import Path, Received, check_latents, clipped, receive
from airpool.protocol.link import alignment, radio
from airpool.selection.scores import raw
from airpool.wireless.power import Transmission

Map = Callable[[Array], Array] | Array  # a function, a torch module, or a matrix that multiplies from the left
Baseline = Literal["orthogonal", "best-device", "centralised"]

NO_ANSWER = -1

# Of the search for unbiased weights; a handful suffice unless power is about to run out.
_ROUNDS = 200


@dataclass(frozen=True, eq=False)
class Inference:
    """Labels with everything that led to them. NO_ANSWER (−1) where nobody transmitted: noise is never decoded."""

    label: Array
    logits: Array
    received: Received
    report: PrivacyReport
    simulated: bool = True


def infer(
    features: Array,
    network: Network,
    *,
    classifier: Map,
    rng: Generator,
    encoder: Map | Sequence[Map] | None = None,
    decoder: Map | None = None,
    trials: int = 1,
    path: Path = "fast",
    posteriors: Array | None = None,
    scores: Array | None = None,
    num_classes: int | None = None,
    baseline: Baseline | None = None,
    report: PrivacyReport | None = None,
) -> Inference:
    """Labels of n objects from the features (n, K, d) of their views, `trials` times each.

    encoder: left out, the features are the latents; a sequence gives every device its own.
    path: "full" draws each device's noise from a generator of its own; "fast" draws the sum's noise at once, which has
        the same law where no power rule looks at the noise (truncate, backoff).
    posteriors: (n, K, L), what each device's own classifier thinks; or scores, (n, K), the uncertainty in bits made of
        them (with num_classes where the score rule is `scale`). Schemes 2.1 and 2.2 need one of the two.
    baseline: "orthogonal", every device is received by itself; "best-device", only the strongest channel transmits,
        with weight 1; "centralised", no noise and no channel.
    report: that of the network that transmits (`transmitted(network, baseline)`), if it is known already.
    """
    latents = encode(features, encoder)
    check_latents(latents, network)
    sender = transmitted(network, baseline)
    report = report_of(sender, report)
    if baseline == "centralised":
        received = centralised(latents, network, trials)
    else:
        bits, num_classes = raw(network.scheme, scores=scores, posteriors=posteriors, num_classes=num_classes)
        received = receive(
            latents,
            sender,
            rng=rng,
            trials=trials,
            path=path,
            scores=bits,
            num_classes=num_classes,
            only_best=baseline == "best-device",
        )
    decoded = received.estimate if decoder is None else apply(decoder, received.estimate, name="decoder")
    logits = apply(classifier, decoded, name="classifier")
    return Inference(labels(logits, received.heard), logits, received, report)


def transmitted(network: Network, baseline: Baseline | None = None) -> Network:
    """The network that is really on the air where a baseline takes the network's place: the one to account for.

    best-device: whoever has the strongest channel transmits alone, with weight 1; only its own noise protects it.
    centralised: everybody's feature as it is, with no noise, no coin or score, and no channel.
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
    """The report of the network that transmits; a known one is taken if it is of that network, else refused.

    What a report may choose for itself (δ, neighbours, number of inferences, targets) may differ.
    """
    if known is None:
        return guarantee(sender)
    chosen = {name: getattr(known.network, name) for name in ("delta", "neighbours", "inferences")}
    aimed = replace(sender.devices, epsilon=known.network.devices.epsilon)
    if replace(sender, devices=aimed, **chosen) != known.network:
        raise ValueError("report is of another network than the one that transmits: leave it out, or make it of that")
    return known


def labels(logits: Array, heard: Array) -> Array:
    """The class of the largest logit; NO_ANSWER where nobody was heard."""
    xp = array_namespace(logits)
    if bool(xp.any(xp.isnan(logits))):
        raise ValueError("the classifier or decoder gives logits that are NaN: its parameters must be finite")
    best = xp.argmax(logits, axis=-1)
    return xp.where(heard, best, xp.full_like(best, NO_ANSWER))


def apply(function: Map, x: Array, *, name: str = "function") -> Array:
    """f(x) along the last axis; a matrix (out, in) multiplies from the left."""
    if callable(function):
        return function(x)
    if not any(is_one(function) and is_one(x) for is_one in (is_numpy_array, is_torch_array)):
        library = "torch" if is_torch_array(x) else "NumPy"
        wanted = f"a function, a torch module or a {library} matrix"
        raise TypeError(f"{name} is of type {type(function).__name__}, must be {wanted}")
    if function.ndim != 2 or function.shape[1] != x.shape[-1]:
        raise ValueError(f"{name} has shape {tuple(function.shape)}, must be a matrix (*, {x.shape[-1]})")
    xp = array_namespace(x)
    # What is trusted is checked; features never are.
    require(name, function, "must be finite", ok=xp.isfinite)
    if is_torch_array(x) and (function.dtype != x.dtype or function.device != x.device):
        raise ValueError(f"{name} is {function.dtype} on {function.device}, must be {x.dtype} on {x.device}, as x is")
    # Features that are too large or not finite are the guard's business: a warning would leak them.
    with np.errstate(all="ignore"):
        return xp.matmul(x, function.T)


def encode(features: Array, encoder: Map | Sequence[Map] | None) -> Array:
    """z = W f of every device: (n, K, d) → (n, K, r)."""
    require_array("features", features)
    if features.ndim != 3:
        raise ValueError(f"features has shape {np.shape(features)}, must be (objects, devices, coordinates)")
    if encoder is None:
        return features
    if isinstance(encoder, list | tuple):
        if len(encoder) != features.shape[1]:
            raise ValueError(f"encoder has {len(encoder)} entries for {features.shape[1]} devices")
        xp = array_namespace(features)
        return xp.stack(
            [apply(each, features[:, k, :], name=f"encoder[{k}]") for k, each in enumerate(encoder)], axis=1
        )
    return apply(encoder, features, name="encoder")  # pyright: ignore[reportArgumentType]


def centralised(latents: Array, network: Network, trials: int = 1) -> Received:
    """Everybody's clipped latent, weighted, without noise, channel or silence: what could be had without privacy."""
    if trials < 1:
        raise ValueError(f"trials={trials} must be >= 1")
    xp = array_namespace(latents)
    z = clipped(latents, network.devices.column("clip_norm"))
    weight = like(network.devices.column("weight"), latents)
    once = xp.matmul(xp.broadcast_to(weight, (latents.shape[0], 1, latents.shape[1])), z)
    total = xp.broadcast_to(once, (latents.shape[0], trials, latents.shape[2]))
    ones = xp.ones_like(xp.broadcast_to(z[:, None, :, 0], (latents.shape[0], trials, latents.shape[1])))
    everybody = xp.astype(ones, xp.bool)
    nothing_sent = Transmission(0 * ones, ones, 1.0, ones, ones)
    return Received(total, everybody, ones, ones, nothing_sent, 0 * ones, xp.any(everybody, axis=-1))


def unbiased(network: Network) -> Network:
    """The same network with weights w/(p·E[g]), so that ẑ is Σ w z on average; the sensitivity grows with them.

    The paper's 1/p cancels against the p in its α, so its ẑ is biased towards 0 by the participation (spec §2). Louder
    weights change who is too weak, and so E[g]: a fixed point, found in a few rounds.
    Holds for: truncate and backoff, where the alignment does not depend on the noise.
    """
    d, channel = network.devices, network.channel
    if min(d.column("participation")) <= 0:
        weak = int(np.argmin(d.column("participation")))
        raise ValueError(f"participation of device {weak} is 0: it cannot be made unbiased")
    changed = network
    for _ in range(_ROUNDS):
        moments = alignment(changed, radio(changed))
        weight = np.array(d.column("weight")) / (np.array(d.column("participation")) * moments.mean)
        settled = np.allclose(weight, changed.devices.column("weight"), rtol=1e-12, atol=0.0)
        changed = replace(network, devices=replace(d, weight=tuple(weight.tolist())))
        if settled:
            return changed
    raise ValueError(f"channel.gamma={channel.gamma} leaves no power for unbiased weights; lower it, or say auto")
