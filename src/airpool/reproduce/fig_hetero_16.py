"""Half of the devices sensitive, q = 16: uniform, weights by privacy, clip norms by privacy.

Every other device asks for a strict ε, the others for 10. Each way meets every device's own target with as little noise
as it can; the paper does not say how it sets the noise. By two accounts:

    theorem 1   p = 0.9. As loud as Theorem 1 allows: w_k = w_max,k (Σ w = 1), or C_k with w_k C_k = w_max,k.
    exact       p = 1, zero-out, δ = 1e-5: design.heterogeneous, weights and clip norms by the validation objects.

`without` is not in the paper: the sensitive devices send their noise and nothing else.
"""

from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes

from airpool.account.calibration import calibrate_claim, with_column
from airpool.account.guarantee import guarantee
from airpool.arrays import Floats
from airpool.design.heterogeneous import WAYS, Way, designed
from airpool.evaluate import evaluate
from airpool.figures import BLUE, GREEN, GREY, RED, canvas
from airpool.models.pretrained import load
from airpool.network import Network
from airpool.paper.weights import largest_weight
from airpool.reproduce.results import IDEAL, RENDERS, OnStep, Rows, as_csv, both, column, measured, unheard, where
from airpool.reproduce.verdicts import BY, TEXT, Check, Finding, Gain, gain, span
from airpool.sweep import Table, grid

ID = "fig-hetero-16"
TITLE = "Half of the devices sensitive, q = 16"
PAPER = (
    "Accuracy against ε with half of the devices sensitive: uniform (w = 1/K, C_k = C), optimised weights, refined "
    "clip norms; q = 16 (r = 784). No numbers are printed."
)
SETTING = f"{RENDERS} {IDEAL}"
FRESH = True

Account = Literal["theorem 1", "exact"]
ACCOUNTS: tuple[Account, ...] = ("theorem 1", "exact")
STRICT, LOOSE = (1.0, 2.0, 3.98, 6.31, 10.0), 10.0
K, TRIALS = 12, 5
SENSITIVE = np.arange(K) % 2 == 0
DESIGNS = {"weights": "optimised weights", "clipping": "refined clip norms"}
NEAR = 0.01
LOOKS: dict[str, tuple[str, str]] = {
    "uniform": (RED, "o-"),
    "weights": (BLUE, "s-"),
    "clipping": (GREEN, "^--"),
    "without": (GREY, "d:"),
}


def row(*, account: Account, way: Way, epsilon: float, seed: int) -> dict[str, Any]:
    """Accuracy on the test objects, mean and standard deviation over TRIALS draws of the noise; and the exact ε."""
    targets = np.where(SENSITIVE, epsilon, LOOSE)
    if account == "exact":
        plain = Network.uniform(num_devices=K, dimension=784)
        network = designed(way, plain, _known(), targets=targets, sensitive=SENSITIVE)
    else:
        network = claimed(way, targets)
    objects, report = load().held_out("test", codec="q16"), guarantee(network)
    found = evaluate(
        network,
        objects.latents,
        objects.labels,
        server=load().codec("q16").server,
        trials=TRIALS,
        seed=seed,
        report=report,
    )
    loud = np.array(network.devices.column("weight")) * np.array(network.devices.column("clip_norm"))
    return {
        "accuracy": found.accuracy_mean,
        "accuracy_std": found.accuracy_std,
        "trials": TRIALS,
        "objects": found.objects,
        "epsilon_strict_exact": float(report.epsilon[SENSITIVE].max()),
        "epsilon_loose_exact": float(report.epsilon[~SENSITIVE].max()),
        "strict_to_loose": float(loud[SENSITIVE].mean() / loud[~SENSITIVE].mean()),
    }


@cache
def _known() -> Floats:
    return load().held_out("validation", codec="q16").latents.double().numpy()


def claimed(way: Way, targets: Floats) -> Network:
    """The network of one way whose targets are met by Theorem 1's account, with p = 0.9.

    ε_k depends on w_k C_k over the noise alone, so the limits grow with σ, and σ follows from Σ w = 1 or max C = 1.
    """
    plain = Network.uniform(num_devices=K, dimension=784, participation=0.9)
    strictest = calibrate_claim(plain, epsilon=float(targets.min()))
    if way == "uniform":
        return strictest
    std = strictest.devices.column("noise_std")[0]
    limit = largest_weight(
        epsilon=targets, clip_norm=1.0, noise_std=np.full(K, std), participation=0.9, delta=plain.delta
    )
    if way == "without":
        limit = np.where(SENSITIVE, 0.0, limit)
    if way == "clipping":
        clipped = with_column(plain, "clip_norm", limit / limit.max())
        return with_column(clipped, "noise_std", np.full(K, std / (K * limit.max())))
    weighted = with_column(plain, "weight", limit / limit.sum())
    return with_column(weighted, "noise_std", np.full(K, std / limit.sum()))


def compute(*, seed: int = 0, on_step: OnStep = unheard) -> Table:
    points = grid(account=ACCOUNTS, way=WAYS, epsilon=STRICT)
    return measured(row, points, result=ID, seed=seed, on_step=on_step)


def draw(table: Rows, folder: Path) -> list[Path]:
    return drawing(table, folder, ID)


def drawing(table: Rows, folder: Path, name: str) -> list[Path]:
    """Accuracy against the strict ε, one panel for each account."""
    data = as_csv(table, folder / f"{name}.csv")
    paths = both(folder, name)
    titles = {"theorem 1": "the paper's account: Theorem 1, p = 0.9", "exact": "exact account, p = 1"}
    with canvas(*paths, width=8.0, height=3.8) as fig:
        for axes, account in zip(fig.subplots(1, 2, sharey=True), ACCOUNTS, strict=True):
            _paint(axes, where(table, account=account))
            axes.set_title(titles[account])
        fig.axes[0].set_ylabel("accuracy on test objects")
        fig.axes[1].legend(loc="lower right")
    return [*paths, data]


def _paint(axes: Axes, rows: Rows) -> None:
    for way, (colour, line) in LOOKS.items():
        some = where(rows, way=way)
        if some:
            x, y, bars = (column(some, name) for name in ("epsilon", "accuracy", "accuracy_std"))
            axes.errorbar(x, y, bars, fmt=line, color=colour, markersize=4, capsize=2, label=way)
    axes.set(xscale="log", xlabel=f"ε of the sensitive half (others {LOOSE:g})", ylim=(0, 0.95))
    axes.set_xticks([1, 2, 4, 6, 10], ["1", "2", "4", "6", "10"])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)


INSTEAD = (
    "Give weights by design.weights. Where the others' ε is as loose as here, the sensitive devices hardly need to "
    "send their features at all (fig-hetero-16, without): their noise is what they are worth."
)


def finding(table: Rows) -> Finding:
    apart = ", ".join(
        f"{row['accuracy']:.3f} at ε = {row['epsilon']:g} by the {row['account']} account"
        for row in where(table, way="without", epsilon=STRICT[0])
    )
    return Finding(checks(table), f"Sensitive devices that send noise alone: {apart}.", INSTEAD)


def checks(table: Rows) -> list[Check]:
    """Each design against uniform at the strictest ε, and at the largest, by both accounts."""
    out = []
    for account, by in BY.items():
        gains = {way: _gains(where(table, account=account), way) for way in DESIGNS}
        for way, words in DESIGNS.items():
            found, held = _lacking(table, account), None
            if gains[way]:
                low, _ = gains[way][0].interval()
                held, found = low > 0, f"At ε = {STRICT[0]:g} they gain {span(gains[way][:1])}."
            out.append(Check(f"{words} beat uniform where privacy is strict ({by})", TEXT, held, found))
        found, held = _lacking(table, account), None
        if all(gains.values()):
            ends = [[some[at].interval(len(DESIGNS)) for some in gains.values()] for at in (0, -1)]
            held = all(low > NEAR for low, _ in ends[0]) and all(low > -NEAR and high < NEAR for low, high in ends[1])
            loose = [some[-1] for some in gains.values()]
            found = f"At ε = {STRICT[-1]:g} the designs gain {span(loose)}; near: within {NEAR:g}."
        out.append(Check(f"uniform comes near only where ε is large ({by})", TEXT, held, found))
    return out


def _gains(rows: Rows, way: str) -> list[Gain]:
    """Of a design over uniform, at each ε; none where the table lacks it."""
    return [gain(each, where(rows, way="uniform", epsilon=each["epsilon"])[0]) for each in where(rows, way=way)]


def _lacking(table: Rows, account: str) -> str:
    ways = sorted({row["way"] for row in where(table, account=account)})
    return f"Not measured: by this account the table has {', '.join(ways)} only."
