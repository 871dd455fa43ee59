"""Accuracy against what inferences spend until the server is sure: `python -m studies.slots_figures [--fresh]`.

Draws docs/figures/slots.{svg,png} from results/slots.json in seconds; --fresh measures it again, in minutes. Twelve
cameras, the shipped vote on the test objects, 20 trials, δ = 1e-5, zero-out neighbours. The promise is the cap;
spending is a mean after the fact, Σμ² as if no device were ever in an outage. Rows whose `sure` is 0 take the largest
threshold whose spending on validation objects, decoded by votes that were fitted to others, is at most 95 % of
`most_mu_square`.
"""

from dataclasses import replace

import torch
from matplotlib.axes import Axes

from airpool import Channel, Network, calibrate, evaluate
from airpool._support.figures import BLACK, BLUE, GREEN, ORANGE
from airpool.evaluation.inferences import inferences_of
from airpool.evaluation.objects import held_out
from airpool.account.lifetime import one_slot_mu
from airpool.evaluation.slots import largest_sure
from airpool.evaluation.sweep import run
from airpool.evaluation.trial import draws
from airpool.models.pretrained import load
from airpool.network import Slots
from studies.tables import RESULTS, column, draw_or_measure, rows, save

NAME = "slots"
TRIALS, SHARE = 20, 0.95
CHANNELS = {"ideal": Channel(), "rician": Channel(fading="rician")}
ONE_SLOT = (0.7, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
SURE = (0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
# Cap, slots, and the mean Σμ² that may be spent.
BARS = ((2.0, 16, 0.0719), (2.0, 16, 0.120), (4.0, 64, 0.130))


def network(epsilon: float, slots: Slots, channel: str) -> Network:
    """The network of least noise whose cap is ε."""
    return calibrate(
        Network.uniform(num_devices=12, dimension=40, slots=slots, channel=CHANNELS[channel]), epsilon=epsilon
    )


def threshold(net: Network, most_mu_square: float) -> float:
    """The largest threshold that spends at most SHARE of this on validation objects which the server does not know."""
    mu = one_slot_mu(replace(net, channel=Channel()))
    assert mu is not None
    never = replace(net, slots=replace(net.slots, sure=1.0))
    found = inferences_of(held_out(load("modelnet40"), net, split="validation", unseen=True), never)
    best: list[torch.Tensor] = []
    for count in range(1, net.slots.count + 1):
        part = replace(found, slots=replace(never.slots, count=count))
        best.append(part.asked(slice(0, len(found.latents)), 4, draws(torch.device("cpu"), 1)).probability)
    return largest_sure(best, SHARE * most_mu_square / mu**2)


def measured(
    *, seed: int, epsilon: float, slots: int, sure: float, channel: str, most_mu_square: float = 0.0
) -> dict[str, float]:
    """Accuracy and spending on the test objects. sure = 0: the threshold for `most_mu_square`."""
    net = network(epsilon, Slots(slots), channel)
    sure = sure or threshold(net, most_mu_square)
    net = replace(net, slots=replace(net.slots, sure=sure))
    found = evaluate(load("modelnet40"), net, trials=TRIALS, seed=seed)
    mu = one_slot_mu(replace(net, channel=Channel()))
    mean = 1.0 if found.slots is None else found.slots.mean
    low, high = found.accuracy_ci
    return {
        "threshold": sure,
        "accuracy": found.accuracy_mean,
        "accuracy_std": found.accuracy_std or 0.0,
        "accuracy_low": low,
        "accuracy_high": high,
        "slots_mean": mean,
        "mu_square": float("nan") if mu is None else mean * mu**2,
        "cap": found.report.worst,
        "energy": found.energy,
        "channel_uses": found.channel_uses * mean,
    }


def points() -> list[dict[str, float | str]]:
    plain = [{"epsilon": e, "slots": 1, "sure": 0.99} for e in ONE_SLOT]
    several = [{"epsilon": e, "slots": n, "sure": s} for e, n in ((2.0, 4), (2.0, 16), (4.0, 64)) for s in SURE]
    bars = [{"epsilon": e, "slots": n, "sure": 0.0, "most_mu_square": most} for e, n, most in BARS]
    return [
        {"channel": channel, "most_mu_square": 0.0} | each for channel in CHANNELS for each in plain + several + bars
    ]


def measure() -> None:
    save(run(measured, points(), command="python -m studies.slots_figures --fresh"), RESULTS / f"{NAME}.json")


def paint(axes: Axes) -> None:
    looks = ((1, 0.0, BLACK, "o--"), (4, 2.0, ORANGE, "^-"), (16, 2.0, BLUE, "s-"), (64, 4.0, GREEN, "d-"))
    for slots, cap, colour, look in looks:
        mine = [row for row in rows(RESULTS / f"{NAME}.json", slots=slots, channel="ideal") if row["sure"]]
        label = "one slot" if slots == 1 else f"up to {slots} slots, cap ε = {cap:g}"
        axes.plot(column(mine, "mu_square"), column(mine, "accuracy"), look, color=colour, label=label)
    axes.set(xlabel="mean Σμ² spent by an inference", ylabel="accuracy", xlim=(0.03, 0.9), ylim=(0.7, 0.94))
    axes.set_xscale("log")
    axes.set_xticks([0.05, 0.1, 0.2, 0.5], labels=["0.05", "0.1", "0.2", "0.5"])
    axes.minorticks_off()
    axes.legend(loc="lower right")


if __name__ == "__main__":
    draw_or_measure(__doc__, NAME, "slots", measure=measure, paint=paint)
