"""Encoded objects of your own: latents, or views of a model's cameras."""

from functools import partial
from typing import Any

from torch import Tensor

from airpool.evaluation.objects import DecoderFor, EncodedObjects
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.vote import unfitted
from airpool.models.latents import Latents
from airpool.models.model import Model
from airpool.network import Network, scheme_rules


def of_latents(objects: Latents, network: Network, server: DecoderFor, *, participation: Any = None) -> EncodedObjects:
    """Latents as they are, beside the vote that needs no fit where they come with posteriors.

    participation: how often devices are expected to transmit, in Scheme 2.1.
    """
    rules, name, posteriors = scheme_rules(network.scheme), network.scheme.name, objects.posteriors
    if rules.scored and posteriors is None:
        raise ValueError(f"scheme {name} chooses by scores: a file of latents must hold posteriors (N, K, L) as well")
    if participation is None and rules.expected(network) is None:
        raise ValueError(
            f"scheme {name} with --latents needs --participation, how often devices are expected to transmit"
        )
    vote = None
    if posteriors is not None and posteriors.shape[-1] > int(objects.labels.max()):
        own = unfitted(posteriors.shape[-1])
        vote = own.encoder(posteriors), own.server
    scored = {"posteriors": posteriors, "participation": participation} if rules.scored else {}
    return EncodedObjects(objects.latents, objects.labels, server, vote=vote, **scored)


def of_views(
    views: Tensor, labels: Tensor, network: Network, model: Model, *, codec: str | None = None
) -> EncodedObjects:
    """Views (N, K, C, H, H), encoded by a model's codec, beside the model's vote."""
    latents, posteriors = model.seen(views, codec=codec)
    return EncodedObjects(
        latents,
        labels,
        partial(codecs.decoder, model.codec(codec)),
        posteriors=posteriors if scheme_rules(network.scheme).scored else None,
        participation=model.participation(network, codec=codec),
        vote=model.vote(posteriors, codec=codec) if posteriors.shape[-1] > int(labels.max()) else None,
    )
