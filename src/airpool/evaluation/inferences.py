"""Inferences of encoded objects over a network in bulk, each slot by slot until the server is sure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from airpool.evaluation import trial
from airpool.evaluation.objects import DecoderFor, EncodedObjects
from airpool.evaluation.trial import Draws, Trials
from airpool.models.latents import check_labels
from airpool.network import Network, Slots
from airpool.protocol.inference import Baseline, transmitted
from airpool.protocol.simulation import Drawn, check_latents
from airpool.protocol.slots import Asked, SlotEstimate, until_sure
from airpool.protocol.waveform import Waveform
from airpool.radio.link import Link, link_of
from airpool.schemes.scores import Uncertainty

Server = DecoderFor | tuple[Sequence[DecoderFor], Tensor]


@dataclass(frozen=True, eq=False)
class Inferences:
    """Latents (N, K, r) on their way to the server.

    network: of one slot. decoders: of each server, for the mean over 1 to N slots. which: of them (N,) decodes an
    object; None: the first decodes all. scores: raw, in bits, (N, K), and the number of classes behind them.
    """

    network: Network
    slots: Slots
    link: Link | None
    latents: Tensor
    decoders: list[list[Callable[[Tensor], Tensor]]]
    which: Tensor | None
    scores: tuple[Tensor | None, int | None]
    instead: Baseline | Waveform | None
    most_label: int

    def asked(self, rows: slice, count: int, draws: Draws) -> Asked:
        """`count` inferences of each of these objects, in a row."""
        objects = torch.arange(rows.start, rows.stop, device=self.latents.device).repeat_interleave(count)

        def heard(these: slice | Tensor, trials: int, drawn: Drawn | None = None) -> Trials:
            bits, classes = self.scores
            scores = None if bits is None else bits[these], classes
            how: Any = {"instead": self.instead, "link": self.link, "scores": scores}
            return trial.heard(self.latents[these], self.network, draws._replace(drawn=drawn), trials=trials, **how)

        def again(pending: Tensor) -> SlotEstimate:
            drawn = None if self.slots.redrawn or first.drawn is None else first.drawn.of(pending)
            return _flat(heard(objects[pending], 1, drawn))

        first = heard(rows, count)
        return until_sure(
            _flat(first), self.slots, again, lambda mean, n, these: self._decoded(mean, n, objects[these])
        )

    def _decoded(self, mean: Tensor, number: int, objects: Tensor) -> Tensor:
        logits, *more = [each[number - 1](mean) for each in self.decoders]
        if self.which is not None:
            logits = torch.stack((logits, *more))[self.which[objects], torch.arange(len(logits))]
        if self.most_label >= (classes := logits.shape[-1]):
            raise ValueError(
                f"labels has {self.most_label}, must be below {classes}, the number of the server's classes"
            )
        return logits


def inferences_of(
    objects: EncodedObjects, network: Network, instead: Baseline | Waveform | None = None, *, vote: bool = False
) -> Inferences:
    """Inferences of these objects over a network, or over what a baseline makes of it.

    vote: of the objects' vote instead of their codec.
    """
    sender = transmitted(network, None if isinstance(instead, Waveform) else instead)
    latents, server = (objects.latents, objects.server) if not vote or objects.vote is None else objects.vote
    one = replace(sender.one_slot, dimension=latents.shape[-1])
    check_latents(latents, one)
    check_labels(objects.labels, objects=len(latents))
    at = trial.level_of(one, instead, objects.participation)
    levels = [at.of_mean(n) for n in range(1, sender.slots.count + 1)]
    servers, which = server if isinstance(server, tuple) else ([server], None)
    return Inferences(
        network=one,
        slots=sender.slots,
        link=None if instead == "centralised" else link_of(one),
        latents=latents,
        decoders=[[each(level) for level in levels] for each in servers],
        which=which,
        scores=Uncertainty(objects.posteriors, objects.scores, objects.num_classes).raw(network.scheme),
        instead=instead,
        most_label=int(objects.labels.max()),
    )


def _flat(got: Trials) -> SlotEstimate:
    """Trials (n, t, ...) as one row for each inference."""
    return SlotEstimate(got.estimate.flatten(0, 1), got.any_signal.flatten(), got.energy.flatten())
