"""Accuracy of a network on encoded objects, with error bars, beside its guarantee and beside the vote's."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from airpool._support import figures, notebook
from airpool._support.arrays import require, require_array
from airpool._support.brief import Brief
from airpool._support.files import jsonable
from airpool._support.progress import automatic
from airpool._support.rounding import because, full, shown, spread
from airpool._support.threads import single_thread
from airpool._support.version import __version__
from airpool.account.guarantee import PrivacyReport
from airpool.evaluation.inferences import SAMPLED, Carrier, SlotUse, draws_of, inferences_of, slot_use
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.models.latents import check_labels
from airpool.models.model import Model
from airpool.network import Claim, Network, require_network, require_one_slot
from airpool.protocol.inference import Baseline, centralised, report_of, transmitted
from airpool.protocol.medium import channel_uses
from airpool.protocol.ring import ring_of
from airpool.protocol.simulation import check_latents, has_shortcut, in_batches
from airpool.protocol.slots import Asked
from airpool.protocol.traffic import traffic

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
        record = self.record() | {"reasons": dict(self.report.reasons)}
        drawn = [
            notebook.Dot("accuracy, 95 % interval", self.accuracy_mean, f"{self.accuracy_mean:.4f}", self.accuracy_ci)
        ]
        if (vote := self.vote_accuracy) is not None:
            drawn.append(notebook.Dot("vote, the same noise", vote, f"{vote:.4f}", colour=figures.GREY))
        title = f"Accuracy of scheme {record['scheme']}, {record['access']} access"
        return notebook.shown(title, notebook.dots(drawn, ends=(0.0, 1.0)), notebook.facts(facts(record).items()))

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
            "neighbours": report.claim.neighbours,
            "claimed_by": report.claimed_by,
            "delta": report.claim.delta,
            "inferences": report.claim.inferences,
            "version": __version__,
        }
        return jsonable(data)


@single_thread()
def evaluate(
    model: Model | EncodedObjects,
    network: Network,
    claim: Claim = Claim(),
    *,
    trials: int = 20,
    seed: int = 0,
    instead: Baseline | Carrier | None = None,
    report: PrivacyReport | None = None,
    on_inferences: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Accuracy of a network over `trials` inferences of each object.

    model: its test objects by its default codec; another choice is `objects.held_out`. Objects of your own are
        `EncodedObjects(latents, labels, server)`.
    instead: a baseline (`protocol.inference.transmitted`); or the samples of a waveform instead of symbols, for Scheme
        1 and a channel without fading and errors. The report is then that of the samples (`Waveform.report`).
    report: the network's, if it is known already; its claim then counts.
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
    carrier, baseline = (None, instead) if instead is None or isinstance(instead, str) else (instead, None)
    slots = network.slots
    if instead is not None:
        require_one_slot(network, "a baseline or a waveform is one slot")
    if carrier is not None and report is not None:
        raise ValueError("report is that of symbols, and a waveform's samples tell more: leave report or waveform out")
    sender = transmitted(network, baseline)
    report = report_of(sender, claim, report) if carrier is None else carrier.report(sender, claim)

    def answers(rows: slice, got: Asked, *, abstain: bool = slots.abstain) -> Tensor:
        """Mask of the correct labels, (n, t)."""
        found = got.labels(abstain=abstain).reshape(rows.stop - rows.start, -1)
        return (found == targets[rows, None]).cpu()

    own = inferences_of(objects, network, instead)
    voted = None if vote is None else inferences_of(objects, network, instead, vote=True)
    draws = draws_of(latents.device, seed)
    right, vote_right = torch.zeros(2, len(latents), trials, dtype=torch.bool)
    used, probability, best_right = torch.zeros(3, len(latents), trials)
    away = torch.zeros(len(latents), dtype=torch.float64)
    silent, square, energy, done = 0, 0.0, 0.0, dict.fromkeys(range(len(latents)), 0)
    # Where every device's noise is drawn by itself, there are as many signals as devices.
    signals = 1 if has_shortcut(network) else network.devices.count
    batch = max(1, _BATCH // (network.dimension * signals)) if carrier is None else SAMPLED
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
    inferences, rules = len(latents) * trials, sender.channel.rules
    receptions = network.devices.count if rules.separate and baseline != "best-device" else 1
    return Evaluation(
        **_accuracy(right, targets.cpu()),
        **({} if vote is None else _against(right, vote_right)),
        no_answer=silent / inferences,
        mse=square / inferences,
        mse_error=float(away.std(correction=1)) / trials / len(away) ** 0.5 if len(away) > 1 else None,
        energy=energy / inferences if rules.radio else 0.0,
        channel_uses=channel_uses(network.dimension, num_devices=receptions) if rules.radio else 0,
        slots=None
        if slots.count == 1
        else slot_use(
            network, report.claim, used=used, probability=probability, right=best_right > 0, targets=targets.cpu()
        ),
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


def facts(record: Mapping[str, Any]) -> dict[str, str]:
    """Names and values of a record (`Evaluation.record`) with the report's `reasons`; every ε is rounded up."""

    def worst(name: str) -> str:
        """Largest ε, rounded up, so that the printed ε is a valid bound too; the reason of an infinite one."""
        values = record[name] if isinstance(record[name], list) else [record[name]]
        return shown(max(map(float, values))) + because(record["reasons"], name)

    low, high = record["accuracy_ci"]
    std = record["accuracy_std"]
    # Two trials that agree by chance say nothing about the others.
    over = "" if not std else f"; standard deviation over trials {spread(std)}"
    rows = {
        "accuracy": f"{record['accuracy_mean']:.4f} (95 % interval {low:.4f} to {high:.4f}{over})",
        "mean over classes": f"{record['class_mean']:.4f}",
        "no answer": f"{record['no_answer']:.4%}",
        "ε of the worst device": f"{worst('epsilon')}  ({record['neighbours']}, δ = {full(record['delta'])})",
        "ε, no other device trusted": worst("epsilon_local"),
        "ε of the object": worst("epsilon_object"),
        "the paper's claim": worst("epsilon_paper"),
        "mean square error": f"{record['mse']:.4g}",
        **_costs(record),
        **_slots(record),
        "objects × trials": f"{record['objects']} × {record['trials']}, seed {record['seed']}",
    }
    if record["vote_accuracy"] is not None:
        error = record["against_vote_error"]
        error = "" if error is None else f", standard error {spread(error)}"
        beside = f"{record['vote_accuracy']:.4f} on the same noise; difference {record['against_vote']:+z.4f}{error}"
        rows = {"accuracy": rows.pop("accuracy"), "accuracy of the vote": beside, **rows}
    return rows


def _costs(record: Mapping[str, Any]) -> dict[str, str]:
    """Cost of an inference on the air, or over a network; with several slots, the mean beside the most."""
    uses, used = record["channel_uses"], record.get("slots")
    if record["bytes_per_device"] is not None:
        sent, received = record["bytes_per_device"]
        return {"traffic of a device": f"{sent:,} bytes sent, {received:,} received"}
    channel = str(uses) if used is None else f"{uses * used['mean']:.1f} on average, {uses * used['cap']} at most"
    return {"energy": f"{record['energy']:.4g} mW · channel uses", "channel uses": channel}


def _slots(record: Mapping[str, Any]) -> dict[str, str]:
    """Slots that inferences used, beside the cap that is promised."""
    if (used := record.get("slots")) is None:
        return {}
    spent = f"ε = {shown(float(used['mean_epsilon']))}: a mean after the fact, promised to no inference"
    return {"slots": f"{used['mean']:.2f} on average of at most {used['cap']}", "spent on average": spent}
