"""Inferences of encoded objects over a network in bulk, each slot by slot until the server is sure."""

import copy
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airpool._support.arrays import Floats
from airpool._support.rounding import up
from airpool.account.lifetime import mean_epsilon, one_slot_mu
from airpool.account.report import PrivacyReport
from airpool.evaluation.objects import EncodedObjects
from airpool.models.latents import check_labels
from airpool.network import Channel, Claim, Network, Slots
from airpool.protocol.inference import Baseline, centralised, level_of, transmitted
from airpool.protocol.simulation import Drawn, check_latents, receive
from airpool.protocol.slots import Again, Asked, Decode, SlotEstimate, until_sure
from airpool.radio.link import ALWAYS_STRONG, Level, Link, level, link_of
from airpool.schemes.scores import Uncertainty

SAMPLED = 2**9  # inferences per batch over another carrier


class Carried(Protocol):
    """Estimates (n, t, r), who took part (n, t, K), and the energy of all devices (n, t)."""

    @property
    def estimate(self) -> Floats: ...
    @property
    def transmitting(self) -> NDArray[np.bool_]: ...
    @property
    def energy(self) -> Floats: ...


class Carrier(Protocol):
    """Carrier of features in the place of symbols, such as a waveform's samples, with the report of what it leaks."""

    def receive(self, latents: Floats, network: Network, *, rng: np.random.Generator, trials: int) -> Carried: ...
    def report(self, network: Network, claim: Claim) -> PrivacyReport: ...


class Draws(NamedTuple):
    """Generators of the random draws: for symbols, and for samples."""

    symbols: torch.Generator
    samples: np.random.Generator

    def again(self) -> "Draws":
        """The same draws once more."""
        return Draws(self.symbols.clone_state(), copy.deepcopy(self.samples))


def draws_of(device: torch.device, seed: int) -> Draws:
    return Draws(torch.Generator(device).manual_seed(seed), np.random.default_rng(seed))


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
    instead: Baseline | Carrier | None
    most_label: int

    def asked(self, rows: slice, count: int, draws: Draws) -> Asked:
        """`count` inferences of each of these objects, in a row."""
        first, again, decode = self._stations(rows, count, draws)
        return until_sure(first, self.slots, again, decode)

    def to_the_cap(self, count: int, draws: Draws) -> Tensor:
        """Logits (N, m, L) after each of N slots of `count` inferences of every object, m in all, whatever the rule.

        Thresholds are chosen by them (`traces`). Edge case: a probability that rounds to one ends an
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

        def again(pending: Tensor) -> SlotEstimate:
            kept = None if self.slots.redrawn or drawn is None else drawn.of(pending)
            return self._slot(next(frames, self.latents), objects[pending], 1, draws, kept)[0]

        first, drawn = self._slot(self.latents, rows, count, draws)
        return first, again, lambda mean, n, these: self._decoded(mean, n, objects[these])

    def _slot(
        self, latents: Tensor, these: slice | Tensor, trials: int, draws: Draws, drawn: Drawn | None = None
    ) -> tuple[SlotEstimate, Drawn | None]:
        """A slot of these objects, `trials` rows for each, and over symbols its coins, scores and channel."""
        sent, instead = latents[these], self.instead
        if instead is not None and not isinstance(instead, str):
            got = instead.receive(sent.double().cpu().numpy(), self.network, rng=draws.samples, trials=trials)
            parts = (got.estimate, got.transmitting.any(-1), got.energy)
            estimate, signal, energy = (torch.from_numpy(part).to(sent.device).flatten(0, 1) for part in parts)
            return SlotEstimate(estimate.to(sent.dtype), signal, energy), None
        if instead == "centralised":
            received = centralised(sent, self.network, trials)
        else:
            bits, classes = self.scores
            received = receive(
                sent,
                self.network,
                rng=draws.symbols,
                trials=trials,
                scores=None if bits is None else bits[these],
                num_classes=classes,
                link=self.link,
                only_best=instead == "best-device",
                drawn=drawn,
            )
        rows = (received.estimate, received.any_signal, received.energy)
        return SlotEstimate(*(each.flatten(0, 1) for each in rows)), received.drawn

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
    objects: EncodedObjects, network: Network, instead: Baseline | Carrier | None = None, *, vote: bool = False
) -> Inferences:
    """Inferences of these objects over a network, or over what a baseline makes of it.

    vote: of the objects' vote instead of their codec.
    """
    sender = transmitted(network, instead if isinstance(instead, str) else None)
    latents, server = (objects.latents, objects.server) if not vote or objects.vote is None else objects.vote
    one = replace(sender.one_slot, dimension=latents.shape[-1])
    check_latents(latents, one)
    check_labels(objects.labels, objects=len(latents))
    if instead is None or isinstance(instead, str):
        at = level_of(one, instead, participation=objects.participation)
    else:  # received over γ = 1
        of_devices = level(replace(one, channel=Channel(gamma=ALWAYS_STRONG)))
        at = Level(of_devices.signal, float(np.hypot(of_devices.noise_std, one.channel.noise_std)))
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
    if (frames := objects.frames) is None:
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
    if network.scheme.needs_posteriors or objects.vote is not None:
        raise ValueError("frames are for schemes without scores, and without a vote beside: leave scheme or vote out")
    return frames


@dataclass(frozen=True)
class SlotUse:
    """Slots of inferences of at most `cap` slots. The guarantee is the cap; all of this is known after the fact.

    mean: slots of an inference on average. counts: inferences that used 1, 2, ..., cap slots. of_class: mean by class.
    mean_epsilon: ε that a stream of the mean number of slots has, rounded up to whole slots; no inference is promised
    it. mean_mu_square: Σμ² of the worst device on average, where all noise is Gaussian and fixed; else None.
    coverage, risk: fraction of inferences whose best answer has at least each `confidence`, and of these the wrong.
    """

    cap: int
    mean: float
    counts: tuple[int, ...]
    of_class: tuple[float, ...]
    mean_epsilon: float
    mean_mu_square: float | None
    confidence: tuple[float, ...]
    coverage: tuple[float, ...]
    risk: tuple[float, ...]

    def row(self) -> dict[str, Any]:
        """Its numbers, one per column."""
        names = ("mean", "mean_epsilon", "mean_mu_square")
        return {"slots_cap": self.cap, **{f"slots_{name}": getattr(self, name) for name in names}}


_CONFIDENCE = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)


def slot_use(
    network: Network, claim: Claim, *, used: Tensor, probability: Tensor, right: Tensor, targets: Tensor
) -> SlotUse:
    """From slots, the server's probability of its answer, and whether its best one is right, (N, trials)."""
    cap, mean = network.slots.count, float(used.double().mean())
    mu, paid = one_slot_mu(network, claim), mean if network.slots.redrawn else cap
    at_least = [probability >= each for each in _CONFIDENCE]
    return SlotUse(
        cap=cap,
        mean=mean,
        counts=tuple(used.long().flatten().bincount(minlength=cap + 1)[1:].tolist()),
        of_class=tuple(float(used[targets == each].double().mean()) for each in targets.unique()),
        mean_epsilon=mean_epsilon(network, replace(claim, inferences=1), mean),
        mean_mu_square=None if mu is None else paid * mu**2,
        confidence=_CONFIDENCE,
        coverage=tuple(float(each.double().mean()) for each in at_least),
        risk=tuple(float((~right)[each].double().mean()) if each.any() else 0.0 for each in at_least),
    )


@dataclass(frozen=True, eq=False)
class Traces:
    """Probability of the likeliest class, and whether it is right, after each of N slots of m inferences, (N, m).

    None of them stopped early, so that they tell what any threshold on the posterior would have used and given. Choose
    one on validation objects that the server was not fitted to (`held_out(..., split="validation", unseen=True)`).
    """

    probability: Floats
    right: Floats

    def used(self, sure: float) -> NDArray[np.intp]:
        """Slots of each inference with this threshold, (m,)."""
        # The first slot that reaches a threshold is that of the running maximum.
        return 1 + np.sum(np.maximum.accumulate(self.probability, axis=0)[:-1] < sure, axis=0)

    def accuracy(self, sure: float) -> float:
        used = self.used(sure)
        return float(np.mean(self.right[used - 1, np.arange(len(used))]))

    def smallest_sure(self, accuracy: float) -> float | None:
        """The smallest threshold of a grid that reaches this accuracy; None where not even the cap does."""
        reaching = (each for each in _SURE if self.accuracy(each) >= accuracy)
        return next(reaching, None)


# Thresholds by even steps of their odds' logarithm, up to 0.9999.
_SURE = tuple(float(each) for each in 1 / (1 + np.exp(-np.linspace(-3.0, 9.2, 123))))


def traces(objects: EncodedObjects, network: Network, *, trials: int = 4, seed: int = 0) -> Traces:
    """Of `trials` inferences of each object, over a network of N slots."""
    found = inferences_of(objects, network)
    logits = found.to_the_cap(trials, draws_of(found.latents.device, seed))
    best, answer = logits.softmax(-1).max(-1)
    right = answer == objects.labels.repeat_interleave(trials)
    return Traces(best.double().cpu().numpy(), right.double().cpu().numpy())


def largest_sure(probability: Sequence[Tensor] | Floats, most_slots: float) -> float:
    """The largest threshold on the posterior with which at most so many slots are used on average.

    probability: of the likeliest class after 1, 2, ..., N slots, (m,) each, of inferences that went to the cap
    (`Traces.probability`).
    """
    best = np.stack([np.asarray(each, dtype=np.float64) for each in probability])
    found = Traces(best, best)
    thresholds = np.unique(np.maximum.accumulate(best, axis=0)[:-1]).tolist()

    def mean(threshold: float) -> float:
        return float(np.mean(found.used(threshold)))

    if mean(1.0) <= most_slots:
        return 1.0
    few = bisect_right(thresholds, most_slots, key=mean)  # the mean grows with the threshold
    if few == 0:
        raise ValueError(f"most_slots={most_slots:g} must be at least {up(mean(thresholds[0]))}")
    return thresholds[few - 1]
