"""Accuracy against what inferences spend until the server is sure: `python -m studies.slots_figures [--fresh]`.

Draws docs/figures/slots{,-budget,-classes}.{svg,png} from results/slots{,-classes}.json in seconds; --fresh measures
them again, in ten minutes, and resumes where it was stopped. Twelve cameras, the shipped vote on the test objects, 20
trials (5 along thresholds), δ = 1e-5, zero-out neighbours. The promise is the cap; spending is a mean after the fact,
Σμ² as if no device were ever in an outage. Rows whose `sure` is 0 take the largest threshold whose spending on
validation objects, decoded by votes that were fitted to others, is at most 95 % of `most_mu_square`.
"""

from dataclasses import replace

from matplotlib.axes import Axes

from airpool import Channel, Network, calibrate, evaluate
from airpool._support.figures import BLACK, BLUE, GREEN, GREY, ORANGE, RED
from airpool.account.lifetime import lifetime, one_slot_mu
from airpool.evaluation.evaluate import Evaluation
from airpool.evaluation.inferences import largest_sure, traces
from airpool.evaluation.objects import held_out
from airpool.models.pretrained import load
from airpool.network import Slots
from airpool_lab.sweep import grid, run
from studies.tables import FIGURES, RESULTS, column, draw_or_measure, rows, save

NAME, CLASSES = "slots", "slots-classes"
COMMAND = "python -m studies.slots_figures --fresh"
CACHE = FIGURES.parents[1] / "out" / "studies"
TRIALS, FEWER, SHARE, BUDGET = 20, 5, 0.95, 8.0
CHANNELS = {"ideal": Channel(), "rician": Channel(fading="rician")}
ONE_SLOT = (0.7, 0.85, 1.0, 1.1, 1.25, 1.375, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
SURE = (0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
SEVERAL = ((2.0, 4), (2.0, 16), (2.0, 64), (4.0, 64))
# Cap, slots, and the mean Σμ² that may be spent.
BARS = ((2.0, 16, 0.0719), (2.0, 16, 0.120), (4.0, 64, 0.130), (2.0, 64, 0.0719), (2.0, 64, 0.120))
LOOKS = {1: (BLACK, "o--"), 4: (ORANGE, "^-"), 16: (BLUE, "s-"), 64: (GREEN, "d-")}


def network(epsilon: float, slots: Slots, channel: str = "ideal") -> Network:
    """The network of least noise whose cap is ε."""
    return calibrate(
        Network.uniform(num_devices=12, dimension=40, slots=slots, channel=CHANNELS[channel]), epsilon=epsilon
    )


def threshold(net: Network, most_mu_square: float) -> float:
    """The largest threshold that spends at most SHARE of this on validation objects which the server does not know."""
    mu = one_slot_mu(replace(net, channel=Channel()))
    assert mu is not None
    objects = held_out(load("modelnet40"), net, split="validation", unseen=True)
    return largest_sure(traces(objects, net, trials=4, seed=1).probability, SHARE * most_mu_square / mu**2)


def evaluated(net: Network, sure: float, *, trials: int, seed: int) -> Evaluation:
    """On the test objects, with this threshold."""
    net = replace(net, slots=replace(net.slots, sure=sure))
    return evaluate(load("modelnet40"), net, trials=trials, seed=seed)


def measured(
    *, seed: int, epsilon: float, slots: int, sure: float, channel: str, trials: int, most_mu_square: float = 0.0
) -> dict[str, float]:
    """Accuracy and spending on the test objects, and inferences within BUDGET: on average, and if all go to the cap.

    sure = 0: the threshold for `most_mu_square`.
    """
    net = network(epsilon, Slots(slots), channel)
    sure = sure or threshold(net, most_mu_square)
    found = evaluated(net, sure, trials=trials, seed=seed)
    mu = one_slot_mu(replace(net, channel=Channel()))
    mean = 1.0 if found.slots is None else found.slots.mean
    life = lifetime(net, epsilon=BUDGET, mean_slots=mean)
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
        "inferences_at_least": life.at_least,
        "inferences_on_average": life.on_average or 0.0,
    }


def points() -> list[dict[str, float | str]]:
    plain = [{"epsilon": e, "slots": 1, "sure": 0.99} for e in ONE_SLOT]
    bars = [{"epsilon": e, "slots": n, "sure": 0.0, "most_mu_square": most} for e, n, most in BARS]
    several = [{"epsilon": e, "slots": n, "sure": s, "trials": FEWER} for e, n in SEVERAL for s in SURE]
    ideal, rician = ({"channel": name, "trials": TRIALS, "most_mu_square": 0.0} for name in CHANNELS)
    return [*(ideal | each for each in plain + bars + several), *(rician | each for each in plain + bars[:3])]


def by_class(*, seed: int, epsilon: float, slots: int, sure: float) -> dict[str, list[float] | list[str]]:
    """Mean slots and number of test objects of each class."""
    found, model = evaluated(network(epsilon, Slots(slots)), sure, trials=FEWER, seed=seed), load("modelnet40")
    assert found.slots is not None
    counts = model.held_out("test").labels.bincount(minlength=len(model.classes)).tolist()
    return {"class": list(model.classes), "mean_slots": list(found.slots.of_class), "objects": counts}


def measure() -> None:
    save(run(measured, points(), cache=CACHE, command=COMMAND), RESULTS / f"{NAME}.json")
    save(run(by_class, grid(epsilon=2.0, slots=16, sure=0.99), command=COMMAND), RESULTS / f"{CLASSES}.json")


def curves(axes: Axes, x: str, y: str) -> None:
    """A curve over thresholds for each number of slots, beside single slots over ε."""
    for slots, cap in ((1, None), *((n, cap) for cap, n in SEVERAL)):
        chosen = {"slots": slots, "channel": "ideal"} | ({} if cap is None else {"epsilon": cap})
        mine = [row for row in rows(RESULTS / f"{NAME}.json", **chosen) if row["sure"]]
        colour, look = (RED, "v-") if (slots, cap) == (64, 2.0) else LOOKS[slots]
        label = "one slot" if cap is None else f"up to {slots} slots, cap ε = {cap:g}"
        axes.plot(column(mine, x), column(mine, y), look, color=colour, label=label, markersize=4)


def paint(axes: Axes) -> None:
    curves(axes, "mu_square", "accuracy")
    axes.set(xlabel="mean Σμ² spent by an inference (a figure; promised is the cap)", ylabel="accuracy")
    axes.set(xlim=(0.03, 0.9), ylim=(0.7, 0.94), xscale="log")
    axes.set_xticks([0.05, 0.1, 0.2, 0.5], labels=["0.05", "0.1", "0.2", "0.5"])
    axes.minorticks_off()
    axes.legend(loc="lower right")


def paint_budget(axes: Axes) -> None:
    """Inferences against accuracy: at equal accuracy, one slot is the cheapest that reaches it."""
    curves(axes, "accuracy", "inferences_on_average")
    axes.set(xlabel="accuracy, test objects", ylabel=f"inferences until ε = {BUDGET:g} is spent, on average")
    axes.set(xlim=(0.8, 0.93), ylim=(0, 50))
    axes.legend(loc="lower left")


def paint_classes(axes: Axes) -> None:
    """Mean slots of each class, the hardest first."""
    (found,) = rows(RESULTS / f"{CLASSES}.json")
    order = sorted(range(len(found["class"])), key=lambda k: -found["mean_slots"][k])
    axes.set_axisbelow(True)
    axes.bar(range(len(order)), [found["mean_slots"][k] for k in order], color=BLUE)
    weights = [found["objects"][k] for k in order]
    mean = sum(w * found["mean_slots"][k] for w, k in zip(weights, order, strict=True)) / sum(weights)
    axes.axhline(mean, color=GREY, linewidth=1)
    axes.annotate(f"all objects: {mean:.1f}", (len(order) - 1, mean), (0, 3), textcoords="offset points", ha="right")
    axes.set_xticks(range(len(order)), [found["class"][k] for k in order], rotation=90, fontsize=7)
    axes.set(xlabel="class", ylabel=f"mean slots, of at most {found['slots']}", ylim=(0, found["slots"]))
    axes.grid(False, axis="x")


if __name__ == "__main__":
    pictures = {"slots": paint, "slots-budget": paint_budget, "slots-classes": paint_classes}
    draw_or_measure(__doc__, [NAME], pictures, measure=measure)
