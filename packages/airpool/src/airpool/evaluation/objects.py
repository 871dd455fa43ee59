"""Encoded objects of known class, which a network is judged by: of a model, or your own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from airpool._support.brief import Brief
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.vote import Vote, crossed, unfitted
from airpool.models.latents import Latents
from airpool.models.model import Model
from airpool.models.stored import HeldOut
from airpool.network import Network
from airpool.radio.link import Level

# From the public level of signal and noise to a decoder of estimates (..., r) into logits (..., C).
DecoderFor = Callable[[Level], Callable[[Tensor], Tensor]]


@dataclass(frozen=True, eq=False, repr=False)
class EncodedObjects(Brief):
    """Latents (N, K, r) of objects, their classes (N,), and the server that decodes them. NumPy arrays become tensors.

    server: `codec.server`, or `lambda level: decoder` for a decoder that ignores the level; or several of them, and
        which one (N,) decodes each object (`models.codecs.vote.crossed`).
    posteriors: (N, K, L) of each device's own classifier, or scores (N, K), their uncertainty in bits (with
        num_classes for the score rule `scale`): for Schemes 2.1 and 2.2. All must be finite, as latents must: a
        device sends 0 where they are not, and an accuracy of that would say nothing about the network.
    participation: expected participation of each device, from calibration data; `level` needs it in Scheme 2.1.
    vote: latents (N, K, L) and server of the vote to compare with, `(vote.encoder(posteriors), vote.server)`.
    frames: latents (N, F, K, r) of the slots after the first, where the slots of an inference are frames of one scene;
        left out, all slots send the same latents.

    >>> own = EncodedObjects(np.zeros((5, 4, 3)), np.arange(5) % 3, lambda level: lambda estimate: estimate)
    >>> own.latents.shape, own.labels.tolist()
    (torch.Size([5, 4, 3]), [0, 1, 2, 0, 1])
    """

    latents: Tensor
    labels: Tensor
    server: DecoderFor | tuple[Sequence[DecoderFor], Tensor]
    posteriors: Tensor | None = None
    scores: Tensor | None = None
    num_classes: int | None = None
    participation: ArrayLike | None = None
    vote: tuple[Tensor, DecoderFor] | None = None
    frames: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("latents", "labels", "posteriors", "scores", "frames"):
            if isinstance(value := getattr(self, name), np.ndarray):
                object.__setattr__(self, name, torch.from_numpy(np.ascontiguousarray(value)))


def held_out(
    model: Model,
    network: Network,
    *,
    codec: str | None = None,
    split: HeldOut = "test",
    against_vote: bool = False,
    unseen: bool = False,
) -> EncodedObjects:
    """The held-out objects of a model, as the network's devices see them.

    codec: left out, the model's default. split: "test", or "validation", on which choices are made.
    against_vote: beside the model's vote, if it has one. unseen: where the codec is a vote, which was fitted to these
    objects, each is decoded by one fitted to others.

    >>> from airpool import evaluate, load
    >>> net = Network.uniform(num_devices=6, dimension=40, noise_std=0.02)
    >>> objects = held_out(load("modelnet40"), net, split="validation")
    >>> objects.latents.shape[1:], evaluate(objects, net, trials=1).accuracy_mean > 0.8
    (torch.Size([6, 40]), True)
    """
    held, chosen = model.held_out(split, codec=codec), model.codec(codec)
    objects = held.fitted(network.devices.count)
    return EncodedObjects(
        objects.latents,
        objects.labels,
        crossed(chosen, held.latents, held.labels)
        if unseen and isinstance(chosen, Vote)
        else partial(codecs.decoder, chosen),
        posteriors=objects.posteriors if network.scheme.needs_posteriors else None,
        participation=model.participation(network, codec=codec),
        vote=model.vote(objects.posteriors, codec=codec) if against_vote else None,
    )


def of_latents(objects: Latents, network: Network, server: DecoderFor, *, participation: Any = None) -> EncodedObjects:
    """Latents as they are, beside the vote that needs no fit where they come with posteriors.

    participation: how often devices are expected to transmit, in Scheme 2.1.
    """
    scheme, posteriors = network.scheme, objects.posteriors
    if scheme.needs_posteriors and posteriors is None:
        raise ValueError(
            f"scheme {scheme.name} chooses by scores: a file of latents must hold posteriors (N, K, L) as well"
        )
    if participation is None and scheme.expected_participation(network) is None:
        raise ValueError(
            f"scheme {scheme.name} with --latents needs --participation, how often devices are expected to transmit"
        )
    vote = None
    if posteriors is not None and posteriors.shape[-1] > int(objects.labels.max()):
        own = unfitted(posteriors.shape[-1])
        vote = own.encoder(posteriors), own.server
    if not scheme.needs_posteriors:
        posteriors = participation = None
    return EncodedObjects(
        objects.latents, objects.labels, server, posteriors=posteriors, participation=participation, vote=vote
    )


def of_views(
    views: Tensor, labels: Tensor, network: Network, model: Model, *, codec: str | None = None
) -> EncodedObjects:
    """Views (N, K, C, H, H), encoded by a model's codec, beside the model's vote."""
    latents, posteriors = model.seen(views, codec=codec)
    return EncodedObjects(
        latents,
        labels,
        partial(codecs.decoder, model.codec(codec)),
        posteriors=posteriors if network.scheme.needs_posteriors else None,
        participation=model.participation(network, codec=codec),
        vote=model.vote(posteriors, codec=codec) if posteriors.shape[-1] > int(labels.max()) else None,
    )
