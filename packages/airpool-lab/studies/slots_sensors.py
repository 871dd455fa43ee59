"""Slots until sure with the shipped wearables and photographs: `python -m studies.slots_sensors [--fresh]`.

Draws docs/figures/slots-sensors.{svg,png} from results/slots-sensors.json in seconds; --fresh measures it again, in 3
minutes. Test objects of the shipped fold (subject 8, 20 trials; fold 0 of ETH-80, 16 objects, 500 trials), the vote,
ideal channel, δ = 1e-5, zero-out neighbours. Thresholds .9, .99 and .999 were fixed beforehand. Rows whose `sure` is 0
take the smallest threshold that reaches, on the validation subject, the accuracy of going to the cap less half a point;
the photographs have one validation object of each class, too few to choose by.
"""

from dataclasses import replace

from matplotlib.axes import Axes

from airpool import Network, calibrate, evaluate
from airpool._support.figures import BLACK, BLUE
from airpool.account.lifetime import one_slot_mu
from airpool.evaluation.inferences import traces
from airpool.evaluation.objects import held_out
from airpool.models.pretrained import load
from airpool.network import Slots
from airpool_lab.sweep import grid, run
from studies.tables import RESULTS, column, draw_or_measure, rows, save

NAME = "slots-sensors"
TRIALS = {"wearables": 20, "photos": 500}
ONE_SLOT = {"wearables": (2.0, 3.0, 4.0, 5.0, 6.0, 8.0), "photos": (0.5, 0.75, 1.0, 1.5, 2.0)}
CAPS = {"wearables": (4.0, 8.0), "photos": (1.0, 2.0)}
SURE = (0.9, 0.99, 0.999)
COUNT, LOSS = 16, 0.005


def measured(*, seed: int, model: str, epsilon: float, slots: int, sure: float) -> dict[str, float]:
    """Accuracy and spending on the test objects."""
    known = load(model)
    bare = Network.uniform(num_devices=known.num_devices, dimension=known.codec().dimension, slots=Slots(slots))
    net = calibrate(bare, epsilon=epsilon)
    if not sure:
        seen = traces(held_out(known, net, split="validation"), net, seed=1)
        sure = seen.smallest_sure(float(seen.right[-1].mean()) - LOSS) or 1.0
    net = replace(net, slots=Slots(slots, sure=sure))
    found, mu = evaluate(known, net, trials=TRIALS[model], seed=seed), one_slot_mu(net)
    assert mu is not None
    mean = 1.0 if found.slots is None else found.slots.mean
    low, high = found.accuracy_ci
    return {
        "threshold": sure,
        "accuracy": found.accuracy_mean,
        "accuracy_low": low,
        "accuracy_high": high,
        "slots_mean": mean,
        "mu_square": mean * mu**2,
        "cap": found.report.worst,
    }


def measure() -> None:
    points = [
        point
        for model in TRIALS
        for point in (
            *grid(model=model, epsilon=ONE_SLOT[model], slots=1, sure=1.0),
            *grid(model=model, epsilon=CAPS[model], slots=COUNT, sure=SURE + ((0.0,) if model == "wearables" else ())),
        )
    ]
    save(run(measured, points, command="python -m studies.slots_sensors --fresh"), RESULTS / f"{NAME}.json")


def paint(axes: Axes) -> None:
    for model, colour in (("wearables", BLUE), ("photos", BLACK)):
        once = rows(RESULTS / f"{NAME}.json", model=model, slots=1)
        axes.plot(column(once, "mu_square"), column(once, "accuracy"), "o--", color=colour, label=f"{model}, one slot")
        for cap, look in zip(CAPS[model], ("s", "d"), strict=True):
            mine = [row for row in rows(RESULTS / f"{NAME}.json", model=model, slots=COUNT, epsilon=cap) if row["sure"]]
            label = f"{model}, up to {COUNT} slots, cap ε = {cap:g}"
            x, y = column(mine, "mu_square"), column(mine, "accuracy")
            axes.plot(x, y, f"{look}-", color=colour, markerfacecolor="white", label=label)
    axes.set(xlabel="mean Σμ² spent by an inference (a figure; promised is the cap)", ylabel="accuracy, test objects")
    axes.set(xscale="log", ylim=(0.6, 1.0), xlim=(0.015, 4))
    axes.set_xticks([0.02, 0.1, 0.5, 2], labels=["0.02", "0.1", "0.5", "2"])
    axes.minorticks_off()
    axes.legend(loc="lower left")


if __name__ == "__main__":
    draw_or_measure(__doc__, [NAME], {"slots-sensors": paint}, measure=measure)
