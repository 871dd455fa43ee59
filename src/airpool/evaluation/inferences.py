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
from airpool.network import Network, Slots, scheme_rules
from airpool.protocol.inference import Baseline, transmitted
from airpool.protocol.simulation import Drawn, check_latents
from airpool.protocol.slots import Again, Asked, Decode, SlotEstimate, until_sure
from airpool.protocol.waveform import Waveform
from airpool.radio.link import Link, link_of
from airpool.schemes.scores import Uncertainty

Server = DecoderFor | tuple[Sequence[DecoderFor], Tensor]


@dataclass(frozen=True, eq=False)
class Inferences:
    """Latents (N, K, r) on their way to the server. frames: of the slots after the first, (N, F, K, r), or None.

    network: of one slot. decoders: of each server, for the mean over 1 to N slots. which: of them (N,) decodes an
    object; None: the first decodes all. scores: raw, in bits, (N, K), and the number of classes behind them.
    """

    network: Network
    slots: Slots
    link: Link | None
    latents: Tensor
    frames: Tensor | None
    decoders: list[list[Callable[[Tensor], Tensor]]]
    which: Tensor | None
    scores: tuple[Tensor | None, int | None]
    instead: Baseline | Waveform | None
    most_label: int

    def asked(self, rows: slice, count: int, draws: Draws) -> Asked:
        """`count` inferences of each of these objects, in a row."""
        first, again, decode = self._stations(rows, count, draws)
        return until_sure(first, self.slots, again, decode)

    def to_the_cap(self, count: int, draws: Draws) -> Tensor:
        """Logits (N, m, L) after each of N slots of `count` inferences of every object, m in all, whatever the rule.

        Thresholds are chosen by them (`evaluation.slots`). Edge case: a probability that rounds to one ends an
        inference; its logits stay.
        """
        first, again, decode = self._stations(slice(0, len(self.latents)), count, draws)
        after: list[Tensor] = []

        def next_slot(pending: Tensor) -> SlotEstimate:
            after.append(after[-1].clone())
            return again(pending)

        def watched(mean: Tensor, number: int, these: Tensor) -> Tensor:
            logits = decode(mean, number, these)
            if after:
                after[-1][these] = logits
            else:  # of all inferences
                after.append(logits.clone())
            return logits

        with torch.no_grad():
            until_sure(first, replace(self.slots, sure=1.0), next_slot, watched)
        return torch.stack(after + after[-1:] * (self.slots.count - len(after)))

    def _stations(self, rows: slice, count: int, draws: Draws) -> tuple[SlotEstimate, Again, Decode]:
        """The first slot of `count` inferences of each of these objects, another slot of some, and the server."""
        objects = torch.arange(rows.start, rows.stop, device=self.latents.device).repeat_interleave(count)
        frames = iter(() if self.frames is None else self.frames.unbind(1))

        def heard(latents: Tensor, these: slice | Tensor, trials: int, drawn: Drawn | None = None) -> Trials:
            bits, classes = self.scores
            scores = None if bits is None else bits[these], classes
            how: Any = {"instead": self.instead, "link": self.link, "scores": scores}
            return trial.heard(latents[these], self.network, draws._replace(drawn=drawn), trials=trials, **how)

        def again(pending: Tensor) -> SlotEstimate:
            drawn = None if self.slots.redrawn or first.drawn is None else first.drawn.of(pending)
            return _flat(heard(next(frames, self.latents), objects[pending], 1, drawn))

        first = heard(self.latents, rows, count)
        return _flat(first), again, lambda mean, n, these: self._decoded(mean, n, objects[these])

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
        frames=_frames(objects, network),
        decoders=[[each(level) for level in levels] for each in servers],
        which=which,
        scores=Uncertainty(objects.posteriors, objects.scores, objects.num_classes).raw(network.scheme),
        instead=instead,
        most_label=int(objects.labels.max()),
    )


def _frames(objects: EncodedObjects, network: Network) -> Tensor | None:
    """Latents of the slots after the first, checked; None where all slots send the same."""
    frames, scored = objects.frames, scheme_rules(network.scheme).scored
    if frames is None:
        return None
    count, *rest = objects.latents.shape
    if frames.ndim != 4 or (len(frames), *frames.shape[2:]) != (count, *rest):
        raise ValueError(f"frames is {tuple(frames.shape)}, must be ({count}, F, {', '.join(map(str, rest))})")
    if frames.shape[1] < network.slots.count - 1:
        most = frames.shape[1] + 1
        raise ValueError(f"slots.count={network.slots.count} must be <= {most}, the number of frames of each object")
    if not network.slots.redrawn:
        raise ValueError(
            "slots.redrawn=false must be true for frames: the cap of one draw is proven for one latent alone"
        )
    if scored or objects.vote is not None:
        raise ValueError("frames are for schemes without scores, and without a vote beside: leave scheme or vote out")
    return frames


def _flat(got: Trials) -> SlotEstimate:
    """Trials (n, t, ...) as one row for each inference."""
    return SlotEstimate(got.estimate.flatten(0, 1), got.any_signal.flatten(), got.energy.flatten())
