"""Accuracy of a network on given latents, with error bars, beside its guarantee."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from airpool.account.budget import split
from airpool.account.calibration import calibrate, calibrate_claim
from airpool.account.guarantee import PrivacyReport
from airpool.arrays import require_array
from airpool.data.latents_file import check_labels
from airpool.files import jsonable
from airpool.network import Coin, Network, Ranking
from airpool.protocol.inference import Baseline, centralised, report_of, transmitted
from airpool.protocol.link import Level, level, link_of
from airpool.protocol.medium import channel_uses
from airpool.protocol.server import labels
from airpool.protocol.simulation import check_latents, in_batches, receive
from airpool.selection.scores import raw
from airpool.version import __version__

if TYPE_CHECKING:
    from airpool.models.pretrained import HeldOut, Pretrained

# From the public level of signal and noise to a decoder of estimates (..., r) into logits (..., C).
DecoderFor = Callable[[Level], Callable[[Tensor], Tensor]]

_BATCH = 2**22  # coordinates of estimates per batch: 16 MB
_QUANTILE = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Averages over all objects and trials.

    accuracy_std: standard deviation over the trials, each of all objects once. accuracy_ci: of the mean, for the noise
    and for the choice of objects. class_mean: accuracy averaged over classes. no_answer: fraction of inferences without
    an answer, which count as wrong. mse: E‖ẑ − Σ w z‖². energy: of all devices, in mW · channel uses. channel_uses:
    complex, per inference.
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

    def row(self) -> dict[str, Any]:
        """The measurements, one number per column."""
        low, high = self.accuracy_ci
        names = ("class_mean", "no_answer", "mse", "energy", "channel_uses", "trials", "objects")
        return {
            "accuracy_mean": self.accuracy_mean,
            "accuracy_std": self.accuracy_std,
            "accuracy_low": low,
            "accuracy_high": high,
            **{name: getattr(self, name) for name in names},
        }

    def record(self) -> dict[str, Any]:
        """As plain data; an infinite ε is the string "inf"."""
        network, report = self.report.network, self.report
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "report"}
        data = {
            "scheme": network.scheme.name,
            **own,
            "epsilon": report.epsilon,
            "epsilon_local": report.epsilon_local,
            "epsilon_object": report.epsilon_object,
            "epsilon_paper": report.paper.epsilon,
            "neighbours": network.neighbours,
            "delta": network.delta,
            "inferences": network.inferences,
            "version": __version__,
        }
        return jsonable(data)


def evaluate(
    network: Network,
    latents: Tensor,
    targets: Tensor,
    *,
    server: DecoderFor,
    trials: int = 20,
    seed: int = 0,
    posteriors: Tensor | None = None,
    scores: Tensor | None = None,
    num_classes: int | None = None,
    participation: ArrayLike | None = None,
    baseline: Baseline | None = None,
    report: PrivacyReport | None = None,
    on_inferences: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Accuracy over `trials` inferences of each object, from latents (N, K, r) and classes `targets` (N,).

    server: `codec.server`, or `lambda level: decoder` for a decoder that ignores the level.
    posteriors: (N, K, L) of each device's own classifier, or scores (N, K), their uncertainty in bits (with
        num_classes for the score rule `scale`): needed by Schemes 2.1 and 2.2.
    participation: expected participation of each device, from calibration data; `level` needs it in Scheme 2.1.
    Holds for: the same seed, torch and machine give the same record; other machines agree within the interval.
    """
    require_array("latents", latents, torch=True)
    require_array("targets", targets, torch=True)
    check_latents(latents, network)
    check_labels(targets, objects=len(latents))
    if type(seed) is not int or seed < 0:
        raise ValueError(f"seed={seed!r} must be a whole number >= 0")
    if trials < 1:
        raise ValueError(f"trials={trials} must be >= 1")
    sender = transmitted(network, baseline)
    report = report_of(sender, report)
    link = link_of(sender)
    bits, num_classes = raw(network.scheme, scores=scores, posteriors=posteriors, num_classes=num_classes)
    decoder = server(_level(sender, baseline, participation))
    rng = torch.Generator(latents.device).manual_seed(seed)
    right = torch.zeros(len(latents), trials, dtype=torch.bool)
    most = int(targets.max())
    silent, square, energy = 0, 0.0, 0.0
    done = dict.fromkeys(range(len(latents)), 0)
    with torch.no_grad():
        for rows, count in in_batches(latents, trials=trials, batch=max(1, _BATCH // network.dimension)):
            some = latents[rows]
            ideal = centralised(some, network).estimate
            if baseline == "centralised":
                received = centralised(some, network, count)
            else:
                received = receive(
                    some,
                    sender,
                    rng=rng,
                    trials=count,
                    scores=None if bits is None else bits[rows],
                    num_classes=num_classes,
                    link=link,
                    only_best=baseline == "best-device",
                )
            logits = decoder(received.estimate)
            if most >= (classes := logits.shape[-1]):
                raise ValueError(f"labels has {most}, must be below {classes}, the number of the server's classes")
            found = labels(logits, received.any_signal)
            first = done[rows.start]
            right[rows, first : first + count] = (found == targets[rows, None]).cpu()
            done[rows.start] += count
            silent += int((~received.any_signal).sum())
            square += float((received.estimate - ideal).square().sum())
            energy += float(received.energy.sum())
            on_inferences(len(some) * count)
    inferences = len(latents) * trials
    return Evaluation(
        **_accuracy(right, targets.cpu()),
        no_answer=silent / inferences,
        mse=square / inferences,
        energy=energy / inferences,
        channel_uses=_channel_uses(sender, baseline),
        trials=trials,
        objects=len(latents),
        seed=seed,
        baseline=baseline,
        report=report,
    )


def calibrated(
    network: Network,
    *,
    epsilon: float,
    accounting: str = "exact",
    share: float | None = None,
    colluding: tuple[int, ...] = (),
) -> Network:
    """The network with its noise scaled to this ε of the worst device.

    accounting: exact, or theorem1 (the paper's claim). share: Schemes 2.1 and 2.2, the scores' share of ε, which sets
    their noise too. colluding: as in `guarantee`.
    """
    if accounting not in ("exact", "theorem1"):
        raise ValueError(f"accounting={accounting!r} must be exact or theorem1")
    if share is not None:
        return split(network, epsilon=epsilon, share=share)
    if accounting == "theorem1":
        return calibrate_claim(network, epsilon=epsilon)
    return calibrate(network, epsilon=epsilon, colluding=colluding)


def evaluate_model(
    model: "Pretrained",
    network: Network,
    *,
    codec: str = "compact",
    split: "HeldOut" = "test",
    trials: int = 20,
    seed: int = 0,
    report: PrivacyReport | None = None,
) -> Evaluation:
    """The network's evaluation on the held-out objects of a shipped model, as its devices see them.

    report: the network's, if it is known already.
    """
    objects = model.held_out(split, codec=codec).fitted(network.devices.count)
    return evaluate(
        network,
        objects.latents,
        objects.labels,
        server=model.codec(codec).server,
        trials=trials,
        seed=seed,
        posteriors=None if isinstance(network.scheme, Coin) else objects.posteriors,
        participation=model.participation(network),
        report=report,
    )


def _level(network: Network, baseline: Baseline | None, participation: ArrayLike | None) -> Level:
    if baseline == "centralised":
        d = network.devices
        return Level(sum(w * c for w, c in zip(d.column("weight"), d.column("clip_norm"), strict=True)), 0.0)
    of_all = level(network, participation=participation)
    if baseline == "best-device":  # one device and one receiver noise; in 2.2 one of those selected
        of = network.scheme.num_selected if isinstance(network.scheme, Ranking) else network.devices.count
        return Level(of_all.signal / of, of_all.noise_std / of**0.5)
    return of_all


def _channel_uses(network: Network, baseline: Baseline | None) -> int:
    alone = network.channel.access == "orthogonal" and baseline != "best-device"
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
