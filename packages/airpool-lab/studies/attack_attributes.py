"""Success of attacks on attributes against ε: `python -m studies.attack_attributes [--fresh]`.

Draws docs/figures/attack-attributes.{svg,png} from results/attack-attributes.json in seconds; --fresh measures it
again, in ten minutes. Twelve cameras, shipped latents, attackers trained on the validation objects and judged on the
test objects, two transmissions each, δ = 1e-5. ε is that of a device in the sum, for the same noise at both positions;
inf: no noise at all.
"""

import argparse
import math

from matplotlib.axes import Axes

from airpool import Network, calibrate
from airpool._support.figures import BLUE, BOUND, GREEN, GREY, canvas
from airpool.account.guarantee import guarantee
from airpool.models.pretrained import load
from airpool_lab.attacks.attack import AttackSetting, attacked
from airpool_lab.attacks.positions import position as place_named
from airpool_lab.sweep import run
from studies.tables import FIGURES, RESULTS, column, copy_as_csv, rows, save

NAME = "attack-attributes"
EPSILON = (0.5, 1.0, 2.0, 4.0, 8.0, math.inf)
CODECS = {"vote": BLUE, "compact": GREEN}
SECRETS = {"side": "side of the object (1 of 12)", "class": "class (1 of 40)", "rare": "rare class or not"}
POSITIONS = {"link": "one camera's link", "sum": "the sum of twelve"}


def network(codec: str, epsilon: float) -> Network:
    """Twelve devices whose noise gives each of them this ε in the sum; inf: without noise."""
    model = load("modelnet40")
    net = Network.uniform(num_devices=12, dimension=model.codec(codec).dimension, noise_std=0.0)
    return net if math.isinf(epsilon) else calibrate(net, epsilon=epsilon)


def measured(*, seed: int, codec: str, position: str, secret: str, epsilon: float) -> dict[str, float | str]:
    net = network(codec, epsilon)
    options = {"codec": codec, "secret": secret}  # of modelnet40
    setting = AttackSetting(net, place_named(position), trials=2 * 2468, seed=seed, options=options)
    (found,) = attacked("attribute", setting)
    assert found.success is not None
    return {
        "epsilon_local": float(guarantee(net).epsilon_local[0]) if net.devices.column("noise_std")[0] else math.inf,
        "trials": found.trials,
        "success": found.success,
        "standard_error": found.standard_error or 0.0,
        "prior": found.prior or 0.0,
        "bound": found.bound or 1.0,
        "exceeds": float(found.exceeds),
        "protected": float(found.protected),
        "attacker": str(found.numbers["attacker"]),
        "without_share": float(found.numbers.get("without this device's share", math.nan)),
    }


def measure() -> None:
    points = [
        {"codec": codec, "position": position, "secret": secret, "epsilon": epsilon}
        for codec in CODECS
        for position in POSITIONS
        for secret in SECRETS
        for epsilon in EPSILON
    ]
    found = run(measured, points, command="python -m studies.attack_attributes --fresh")
    save(found, RESULTS / f"{NAME}.json")


def paint(axes: Axes, position: str, secret: str) -> None:
    """Success of each codec's best attacker, and the bound, which is the same for all codecs."""
    at = list(range(len(EPSILON)))
    for codec, colour in CODECS.items():
        mine = rows(RESULTS / f"{NAME}.json", codec=codec, position=position, secret=secret)
        axes.errorbar(
            at, column(mine, "success"), column(mine, "standard_error"), color=colour, marker="o", ms=3, label=codec
        )
    mine = rows(RESULTS / f"{NAME}.json", codec="vote", position=position, secret=secret)
    axes.plot(at, column(mine, "bound"), color=BOUND, label="bound")
    axes.axhline(float(column(mine, "prior")[0]), color=GREY, ls=":", label="without the signal")
    axes.set_xticks(at, ["∞" if math.isinf(e) else f"{e:g}" for e in EPSILON])
    axes.set_ylim(0, 1.03)


def draw() -> None:
    copy_as_csv([NAME], RESULTS, FIGURES)
    paths = [FIGURES / f"{NAME}.{ending}" for ending in ("svg", "png")]
    with canvas(*paths, width=8.4, height=5.0) as fig:
        grid = fig.subplots(2, 3, sharex=True, sharey=True)
        for i, (position, place) in enumerate(POSITIONS.items()):
            for j, (secret, words) in enumerate(SECRETS.items()):
                axes = grid[i, j]
                paint(axes, position, secret)
                exposed = position == "sum" and secret != "side"
                axes.set_title(f"{words}, {place}" + ("\n(object: not protected)" if exposed else ""), fontsize=8)
        for axes in grid[:, 0]:
            axes.set_ylabel("right guesses")
        for axes in grid[1]:
            axes.set_xlabel("ε of a device in the sum")
        fig.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="measure again")
    if parser.parse_args().fresh:
        measure()
    draw()
