"""The server's posterior until it is sure: `python -m studies.slots_posterior [--fresh]`.

Draws docs/figures/slots-{reliability,risk}.{svg,png} from results/slots-{reliability,rules,risk}.json in seconds;
--fresh measures them again, in 3 minutes. Twelve cameras, the shipped vote, ideal channel, cap ε = 2 over 16 slots,
δ = 1e-5, zero-out neighbours. Validation objects are decoded by votes that were fitted to others, test objects by the
shipped one. Temperatures and thresholds come from validation objects.
"""

from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from airpool._support.figures import BLACK, BLUE, GREEN, GREY, ORANGE, RED
from airpool.account.lifetime import one_slot_mu
from airpool.evaluation.inferences import Traces, draws_of, inferences_of, largest_sure
from airpool.evaluation.objects import held_out
from airpool.models.pretrained import load
from airpool.network import Slots
from airpool_lab.sweep import grid, run
from studies.slots_figures import network
from studies.tables import RESULTS, draw_or_measure, rows, save

RELIABILITY, RULES, RISK = "slots-reliability", "slots-rules", "slots-risk"
COMMAND = "python -m studies.slots_posterior --fresh"
CAP, COUNT, TRIALS, BINS = 2.0, 16, 8, 10
NUMBERS = (1, 2, 4, 8, 16)
TEMPERATURES = np.geomspace(0.5, 4.0, 85)
Split = Literal["validation", "test"]


@cache
def decoded(split: Split, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits (N, m, L) after each slot, and labels (m,)."""
    net = network(CAP, Slots(COUNT))
    objects = held_out(load("modelnet40"), net, split=split, unseen=split == "validation")
    logits = inferences_of(objects, net).to_the_cap(TRIALS, draws_of(torch.device("cpu"), seed))
    return logits, objects.labels.repeat_interleave(TRIALS)


@cache
def temperature(slots: int) -> float:
    """The divisor of the logits after so many slots at which validation labels are likeliest."""
    logits, labels = decoded("validation")
    return min(
        map(float, TEMPERATURES), key=lambda t: float(torch.nn.functional.cross_entropy(logits[slots - 1] / t, labels))
    )


def binned(best: Tensor, right: Tensor) -> dict[str, Any]:
    """Confidence, accuracy and share of inferences by bins of confidence, and the expected calibration error."""
    place = (best * BINS).long().clamp(max=BINS - 1)
    count = place.bincount(minlength=BINS).double()
    mean = [torch.zeros(BINS).double().index_add_(0, place, x.double()) / count.clamp(min=1) for x in (best, right)]
    error = float((count / count.sum() * (mean[0] - mean[1]).abs()).sum())
    names = ("confidence", "accuracy", "share")
    return {"ece": error} | dict(zip(names, (each.tolist() for each in (*mean, count / count.sum())), strict=True))


def reliability(*, split: Split, slots: int) -> dict[str, Any]:
    """Calibration of the posterior after so many slots of inferences that go on, and with validation's temperature."""
    logits, labels = decoded(split)
    warm, after = temperature(slots), logits[slots - 1]
    (best, answer), (cooled, _) = after.softmax(-1).max(-1), (after / warm).softmax(-1).max(-1)
    right = answer == labels
    return binned(best, right) | {"temperature": warm, "ece_recalibrated": binned(cooled, right)["ece"]}


def score(rule: str, logits: Tensor) -> Tensor:
    """Of each slot, (N, m): the server stops at the first that reaches a threshold."""
    if rule == "recalibrated":
        logits = torch.stack([each / temperature(n) for n, each in enumerate(logits, 1)])
    first, second = logits.softmax(-1).topk(2, -1).values.double().unbind(-1)
    return first - second if rule == "margin" else first


def rule_of(*, rule: str, most_mu_square: float) -> dict[str, float]:
    """Accuracy of a stopping rule at equal mean spending, on the validation objects, with its paired standard error.

    ahead: of the posterior's, on the same noise; error: of that, over objects.
    """
    (logits, labels), mu = decoded("validation"), one_slot_mu(network(CAP, Slots(COUNT)))
    assert mu is not None
    right = (logits.argmax(-1) == labels).double().numpy()

    def answered(name: str) -> tuple[np.ndarray, float, float]:
        traced = Traces(score(name, logits).numpy(), right)
        # Scores beyond one are a rule's own; their order is all that counts.
        scaled = Traces(np.argsort(np.argsort(traced.probability, axis=None)).reshape(right.shape) / right.size, right)
        sure = largest_sure(scaled.probability, most_mu_square / mu**2)
        used = scaled.used(sure)
        return right[used - 1, np.arange(len(used))], float(used.mean() * mu**2), sure

    own, spent, _ = answered(rule)
    by_object = (own - answered("posterior")[0]).reshape(-1, TRIALS).mean(1)
    return {
        "accuracy": float(own.mean()),
        "mu_square": spent,
        "ahead": float(by_object.mean()),
        "error": float(by_object.std(ddof=1) / len(by_object) ** 0.5),
    }


def risk(*, sure: float) -> dict[str, Any]:
    """Risk and coverage on the test objects of a server that abstains below a confidence; sure = 2: all go to the cap.

    abstaining: coverage and risk of `--abstain`, which gives no answer where the server is not sure after the cap.
    """
    logits, labels = decoded("test")
    best, answer = logits.softmax(-1).max(-1)
    right = (answer == labels).double().numpy()
    traced = Traces(best.double().numpy(), right)
    used = traced.used(sure)
    here = used - 1, np.arange(len(used))
    order = np.argsort(-traced.probability[here], kind="stable")
    wrong = np.cumsum(1 - right[here][order]) / np.arange(1, len(order) + 1)
    at = np.linspace(0.5, 1.0, 51)
    answers = traced.probability[here] >= sure
    return {
        "slots_mean": float(used.mean()),
        "coverage": at.tolist(),
        "risk": [float(wrong[int(np.ceil(each * len(order))) - 1]) for each in at],
        "abstaining_coverage": float(answers.mean()),
        "abstaining_risk": float(1 - right[here][answers].mean()) if answers.any() else 0.0,
    }


def measure() -> None:
    made = {
        RELIABILITY: run(reliability, grid(split=["validation", "test"], slots=list(NUMBERS)), command=COMMAND),
        RULES: run(
            rule_of,
            grid(rule=["posterior", "margin", "recalibrated"], most_mu_square=[0.0683, 0.114]),
            command=COMMAND,
        ),
        RISK: run(risk, grid(sure=[0.9, 0.95, 0.99, 2.0]), command=COMMAND),
    }
    for name, table in made.items():
        save(table, RESULTS / f"{name}.json")


def paint_reliability(axes: Axes) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    looks = zip(NUMBERS, (RED, ORANGE, BLACK, GREEN, BLUE), ("v", "^", "o", "d", "s"), strict=True)
    for slots, colour, marker in looks:
        (found,) = rows(RESULTS / f"{RELIABILITY}.json", split="test", slots=slots)
        kept = [k for k, share in enumerate(found["share"]) if share >= 0.002]
        x, y = ([found[name][k] for k in kept] for name in ("confidence", "accuracy"))
        label = f"after {slots} slots" if slots > 1 else "after 1 slot"
        axes.plot(x, y, f"{marker}-", color=colour, markersize=4, label=f"{label}: error {found['ece']:.3f}")
    axes.set(xlabel="the server's probability of its answer", ylabel="answers that are right, test objects")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.legend(loc="upper left")


def paint_risk(axes: Axes) -> None:
    for sure, colour in ((0.9, ORANGE), (0.95, GREEN), (0.99, BLUE), (2.0, BLACK)):
        (found,) = rows(RESULTS / f"{RISK}.json", sure=sure)
        mean = f"{found['slots_mean']:.1f} slots on average"
        label = f"all to the cap, {COUNT} slots" if sure > 1 else f"until {sure:g} sure, {mean}"
        axes.plot(found["coverage"], found["risk"], color=colour, label=label)
        if sure < 1:
            axes.plot(found["abstaining_coverage"], found["abstaining_risk"], "o", color=colour)
    axes.set(xlabel="coverage: inferences that are answered", ylabel="risk: answers that are wrong")
    axes.set(xlim=(0.5, 1.0), ylim=(0, 0.16))
    axes.legend(loc="upper left", title="points: --abstain")


if __name__ == "__main__":
    pictures = {"slots-reliability": paint_reliability, "slots-risk": paint_risk}
    draw_or_measure(__doc__, [RULES], pictures, measure=measure)
