"""Accuracy of a network on encoded objects, with error bars, beside its guarantee and beside the vote's."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from airpool._support.arrays import require, require_array
from airpool._support.brief import Brief
from airpool._support.files import jsonable
from airpool._support.progress import automatic
from airpool._support.threads import single_thread
from airpool._support.version import __version__
from airpool.account.guarantee import PrivacyReport
from airpool.evaluation import trial
from airpool.evaluation.inferences import inferences_of
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.evaluation.slots import SlotUse, slot_use
from airpool.models.latents import check_labels
from airpool.models.model import Model
from airpool.network import Network, require_network, require_one_slot
from airpool.protocol.inference import Baseline, centralised, report_of, transmitted
from airpool.protocol.medium import channel_uses
from airpool.protocol.simulation import check_latents, has_shortcut, in_batches
from airpool.protocol.slots import Asked
from airpool.protocol.waveform import Waveform, waveform_report
from airpool.runtime.secure.messages import traffic
from airpool.runtime.secure.ring import ring_of

_BATCH = 2**22  # coordinates of estimates per batch: 16 MB
_QUANTILE = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Brief):
    """Averages over all objects and trials.

    accuracy_std: standard deviation over the trials, each of all objects once. accuracy_ci: of the mean, for the noise
    and for the choice of objects. class_mean: accuracy averaged over classes. no_answer: fraction of inferences without
    an answer, which count as wrong. mse: E‖ẑ − Σ w z‖², z of the first slot; mse_error: its standard error, for the
    noise and for the choice of objects. energy: of all devices in all slots used, in mW · channel uses. channel_uses:
    complex, per slot; secure access has neither. slots: used by inferences that may have several; else None.
    vote_accuracy: of the vote on the same noise; against_vote: accuracy_mean minus that; against_vote_error: its
    standard error for the noise and for the choice of objects; None where there is no vote to compare with.
    trials: of each of the objects. baseline: by its name, None for the network itself. report: the guarantee.

    >>> from airpool import load
    >>> found = evaluate(load("modelnet40"), Network.uniform(num_devices=12, dimension=40, noise_std=0.05), trials=1)
    >>> low, high = found.accuracy_ci
    >>> low < found.accuracy_mean < high, found.objects, found.row()["trials"], found.bytes_per_device
    (True, 2468, 1, None)
    >>> found.record()["epsilon"] == found.report.epsilon.tolist()
    True
    """

    accuracy_mean: float
    accuracy_std: float | None
    accuracy_ci: tuple[float, float]
    class_mean: float
    no_answer: float
    mse: float
    energy: float
    channel_uses: int
    trials: int
    objects: int
    seed: int
    baseline: Baseline | None
    report: PrivacyReport
    slots: SlotUse | None = None
    vote_accuracy: float | None = None
    against_vote: float | None = None
    against_vote_error: float | None = None
    mse_error: float | None = None

    @property
    def bytes_per_device(self) -> tuple[int, int] | None:
        """Sent and received in one inference; None where devices transmit by radio. Slots: the mean, rounded up."""
        network = self.report.network
        if network.channel.rules.radio:
            return None
        held = 1 if self.slots is None else math.ceil(self.slots.mean)
        residues = network.dimension * ring_of(network).wire.itemsize
        return traffic(network.devices.count, residues, network.slots.count, held)

    def row(self) -> dict[str, Any]:
        """The measurements, one number per column."""
        low, high = self.accuracy_ci
        names = ["class_mean", "no_answer", "mse", "energy", "channel_uses", "trials", "objects"]
        more = {} if self.slots is None else self.slots.row()
        if self.vote_accuracy is not None:
            names += ["vote_accuracy", "against_vote", "against_vote_error"]
        return {
            "accuracy_mean": self.accuracy_mean,
            "accuracy_std": self.accuracy_std,
            "accuracy_low": low,
            "accuracy_high": high,
            **{name: getattr(self, name) for name in names},
            **more,
        }

    def _repr_html_(self) -> str:
        from airpool.evaluation.in_words import html

        return html(self.record() | {"reasons": dict(self.report.reasons)})

    def record(self) -> dict[str, Any]:
        """The evaluation as plain data; an infinite ε is the string "inf"."""
        network, report = self.report.network, self.report
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("report", "slots")}
        own |= {} if self.slots is None else {"slots": asdict(self.slots)}
        data = {
            "scheme": network.scheme.name,
            "access": network.channel.access,
            "bytes_per_device": self.bytes_per_device,
            **own,
            "epsilon": report.epsilon,
            "epsilon_local": report.epsilon_local,
            "epsilon_object": report.epsilon_object,
            "epsilon_paper": report.paper.epsilon,
            "neighbours": network.neighbours,
            "claimed_by": report.claimed_by,
            "delta": network.delta,
            "inferences": network.inferences,
            "version": __version__,
        }
        return jsonable(data)


@single_thread()
def evaluate(
    model: Model | EncodedObjects,
    network: Network,
    *,
    trials: int = 20,
    seed: int = 0,
    instead: Baseline | Waveform | None = None,
    report: PrivacyReport | None = None,
    on_inferences: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Accuracy of a network over `trials` inferences of each object.

    model: its test objects by its default codec; another choice is `objects.held_out`. Objects of your own are
        `EncodedObjects(latents, labels, server)`.
    instead: a baseline (`protocol.inference.transmitted`); or the samples of a waveform instead of symbols, for Scheme
        1 and a channel without fading and errors. The report is then that of the samples (`waveform_report`).
    report: the network's, if it is known already.
    Holds for: the same seed, torch and machine give the same record; other machines agree within the interval.

    Where the objects have a vote of L classes to compare with, it goes through the same network, of dimension L, from
    the same state of the generator at every batch: the same gains, participation and scores, and the same noise where
    r = L; where not, the noise has the same σ. Its ε is the network's (zero-out and replace, γ auto), or smaller where
    L < r. Nothing else in the record depends on it.

    >>> from airpool import EncodedObjects
    >>> labels = torch.arange(60) % 3
    >>> latents = torch.eye(3)[labels][:, None].repeat(1, 4, 1)               # (N, K, r): four devices see the class
    >>> own = EncodedObjects(latents, labels, lambda level: lambda estimate: estimate)
    >>> evaluate(own, Network.uniform(num_devices=4, dimension=3, noise_std=0.01), trials=2).accuracy_mean
    1.0
    """
    objects = _checked(model, network)
    latents, targets, vote = objects.latents, objects.labels, objects.vote
    if type(seed) is not int or seed < 0:
        raise ValueError(f"seed={seed!r} must be a whole number >= 0")
    if trials < 1:
        raise ValueError(f"trials={trials} must be >= 1")
    waveform, baseline = (instead, None) if isinstance(instead, Waveform) else (None, instead)
    slots = network.slots
    if instead is not None:
        require_one_slot(network, "a baseline or a waveform is one slot")
    if waveform is not None and report is not None:
        raise ValueError("report is that of symbols, and a waveform's samples tell more: leave report or waveform out")
    sender = transmitted(network, baseline)
    report = report_of(sender, report) if waveform is None else waveform_report(sender, waveform)

    def answers(rows: slice, got: Asked, *, abstain: bool = slots.abstain) -> Tensor:
        """Mask of the correct labels, (n, t)."""
        found = got.labels(abstain=abstain).reshape(rows.stop - rows.start, -1)
        return (found == targets[rows, None]).cpu()

    own = inferences_of(objects, network, instead)
    voted = None if vote is None else inferences_of(objects, network, instead, vote=True)
    draws = trial.draws(latents.device, seed)
    right, vote_right = torch.zeros(2, len(latents), trials, dtype=torch.bool)
    used, probability, best_right = torch.zeros(3, len(latents), trials)
    away = torch.zeros(len(latents), dtype=torch.float64)
    silent, square, energy, done = 0, 0.0, 0.0, dict.fromkeys(range(len(latents)), 0)
    # Where every device's noise is drawn by itself, there are as many signals as devices.
    signals = 1 if has_shortcut(network) else network.devices.count
    batch = max(1, _BATCH // (network.dimension * signals)) if waveform is None else trial.SAMPLED
    with torch.no_grad(), automatic("transmitting", len(latents) * trials) as advance:
        for rows, count in in_batches(latents, trials=trials, batch=batch):
            here = rows, slice(done[rows.start], done[rows.start] + count)
            done[rows.start] += count
            if voted is not None:
                vote_right[here] = answers(rows, voted.asked(rows, count, draws.again()))
            got = own.asked(rows, count, draws)
            right[here] = answers(rows, got)
            used[here], probability[here] = (x.reshape(-1, count).float().cpu() for x in (got.slots, got.probability))
            best_right[here] = (answers(rows, got, abstain=False) if slots.abstain else right[here]).float()
            answered = got.any_signal & got.sure if slots.abstain else got.any_signal
            silent += int((~answered).sum())
            estimate = got.estimate.unflatten(0, (-1, count))
            off = (estimate - centralised(latents[rows], network).estimate).square()
            square += float(off.sum())
            away[rows] += off.sum((1, 2)).double().cpu()
            energy += float(got.energy.sum())
            for tell in (advance, on_inferences):
                tell((rows.stop - rows.start) * count)
    inferences = len(latents) * trials
    return Evaluation(
        **_accuracy(right, targets.cpu()),
        **({} if vote is None else _against(right, vote_right)),
        no_answer=silent / inferences,
        mse=square / inferences,
        mse_error=float(away.std(correction=1)) / trials / len(away) ** 0.5 if len(away) > 1 else None,
        energy=energy / inferences if sender.channel.rules.radio else 0.0,
        channel_uses=_channel_uses(sender, baseline),
        slots=None if slots.count == 1 else slot_use(network, used, probability, best_right > 0, targets.cpu()),
        trials=trials,
        objects=len(latents),
        seed=seed,
        baseline=baseline,
        report=report,
    )


def _checked(model: Model | EncodedObjects, network: Network) -> EncodedObjects:
    """The objects to transmit; an error names what does not fit the network."""
    if not isinstance(model, EncodedObjects | Model):
        wanted = "a model (airpool.load, airpool.fit) or airpool.EncodedObjects(latents, labels, server)"
        raise TypeError(f"model is of type {type(model).__name__}, must be {wanted}")
    require_network(network)
    objects = model if isinstance(model, EncodedObjects) else held_out(model, network)
    for name in ("latents", "labels"):
        require_array(name, getattr(objects, name), torch=True)
    check_latents(objects.latents, network)
    check_labels(objects.labels, objects=len(objects.latents))
    finite = {name: getattr(objects, name) for name in ("latents", "posteriors", "scores", "frames")}
    for name, values in (finite | {"vote": objects.vote and objects.vote[0]}).items():
        if values is not None:
            require(name, values, "must be finite", ok=torch.isfinite)
    return objects


def _channel_uses(network: Network, baseline: Baseline | None) -> int:
    access = network.channel.rules
    if not access.radio:
        return 0
    alone = access.separate and baseline != "best-device"
    return channel_uses(network.dimension, num_devices=network.devices.count if alone else 1)


def _accuracy(right: Tensor, targets: Tensor) -> dict[str, Any]:
    """Mean, standard deviation over trials, and 95 % confidence interval, from (N, trials) bool."""
    per_object, per_trial = right.double().mean(1), right.double().mean(0)
    mean = float(per_object.mean())
    # The spread of the objects' means includes both their choice and the noise. Rule of three where all agree.
    error = float(per_object.std(correction=1)) / len(right) ** 0.5 if len(right) > 1 else 1.0
    reach = _QUANTILE * error if error else 3 / len(right)
    per_class = [float(per_object[targets == c].mean()) for c in targets.unique()]
    return {
        "accuracy_mean": mean,
        "accuracy_std": float(per_trial.std(correction=1)) if right.shape[1] > 1 else None,
        "accuracy_ci": (max(0.0, mean - reach), min(1.0, mean + reach)),
        "class_mean": sum(per_class) / len(per_class),
    }


def _against(right: Tensor, vote_right: Tensor) -> dict[str, Any]:
    """The vote's accuracy, and the difference object by object: noise and objects are shared, and so cancel."""
    mine, votes = (each.double().mean(1) for each in (right, vote_right))
    error = float((mine - votes).std(correction=1)) / len(mine) ** 0.5 if len(mine) > 1 else None
    difference = float((mine - votes).mean())
    return {"vote_accuracy": float(votes.mean()), "against_vote": difference, "against_vote_error": error}
