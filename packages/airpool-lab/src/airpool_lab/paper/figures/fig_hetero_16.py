"""Half of the devices sensitive, q = 16: uniform, weights by privacy, clip norms by privacy.

Every other device asks for a strict ε, the others for 10. Each design meets every device's own target with as little
noise as it can; the paper does not say how it sets the noise. By two accounts:

    theorem 1   p = 0.9. The largest signal that Theorem 1 allows: w_k = w_max,k (Σ w = 1), or w_k C_k = w_max,k.
    exact       p = 1, zero-out, δ = 1e-5: design.heterogeneous, weights and clip norms by the validation objects.

`without` is not in the paper: the sensitive devices send their noise and nothing else.

q = 512 is the same from a codec trained and measured on a GPU. By Theorem 1's account only uniform was measured there.
Weights and clip norms were designed on the validation latents of q = 16: they meet every ε, but need not be the best
for this codec.
"""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from airpool._support.arrays import Floats
from airpool.account import theorem1
from airpool.account.calibration import calibrate, with_column
from airpool.evaluation.design import clipping, weights
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import held_out
from airpool.models.pretrained import load
from airpool.network import Claim, Network
from airpool_lab.paper.figures.description import (
    BY,
    GPU_RUN,
    Judgement,
    Result,
    Rows,
    column,
    gains,
    span,
    tested,
    where,
)
from airpool_lab.paper.formulas.weights import largest_weight
from airpool_lab.sweep import grid

Way = Literal["uniform", "weights", "clipping", "without"]
WAYS: tuple[Way, ...] = get_args(Way)
Booleans = NDArray[np.bool_]


def designed(
    way: Way, network: Network, calibration: Floats, claim: Claim = Claim(), *, targets: Floats, sensitive: Booleans
) -> Network:
    """The network of one way, which meets every target. calibration: latents of objects that are not classified."""
    if way not in WAYS:
        raise ValueError(f"way={way!r} must be one of {', '.join(WAYS)}")
    sharing = ~sensitive if way == "without" else np.ones_like(sensitive)
    weight = np.where(sharing, 1 / max(int(np.sum(sharing)), 1), 0.0)
    uniform = calibrate(with_column(network, "weight", weight), claim, epsilon=targets.tolist())
    if way == "weights":
        return weights.design(uniform, calibration, claim, normalise="free").network
    return clipping.design(uniform, calibration, claim).network if way == "clipping" else uniform


Account = Literal["theorem 1", "exact"]
ACCOUNTS: tuple[Account, ...] = ("theorem 1", "exact")
STRICT, LOOSE = (1.0, 2.0, 3.98, 6.31, 10.0), 10.0
K, TRIALS = 12, 5
SENSITIVE = np.arange(K) % 2 == 0
DESIGNS = {"weights": "optimised weights", "clipping": "refined clip norms"}
NEAR = 0.01


def row(*, account: Account, way: Way, epsilon: float, seed: int) -> dict[str, Any]:
    """Accuracy on the test objects, mean and standard deviation over TRIALS draws of the noise; and the exact ε."""
    targets = np.where(SENSITIVE, epsilon, LOOSE)
    if account == "exact":
        plain = Network.uniform(num_devices=K, dimension=784)
        known = load().held_out("validation", codec="q16").latents.double().numpy()
        network = designed(way, plain, known, targets=targets, sensitive=SENSITIVE)
    else:
        network = claimed(way, targets)
    found = evaluate(held_out(load(), network, codec="q16"), network, trials=TRIALS, seed=seed)
    size = np.array(network.devices.column("weight")) * np.array(network.devices.column("clip_norm"))
    return {
        "accuracy": found.accuracy_mean,
        **{name: getattr(found, name) for name in ("accuracy_std", "trials", "objects")},
        "epsilon_strict_exact": float(found.report.epsilon[SENSITIVE].max()),
        "epsilon_loose_exact": float(found.report.epsilon[~SENSITIVE].max()),
        "strict_to_loose": float(size[SENSITIVE].mean() / size[~SENSITIVE].mean()),
    }


def claimed(way: Way, targets: Floats) -> Network:
    """The network of one design whose targets are met by Theorem 1's account, with p = 0.9.

    ε_k depends only on w_k C_k over the noise, so the limits grow with σ, and σ follows from Σ w = 1 or max C = 1.
    """
    plain = Network.uniform(num_devices=K, dimension=784, participation=0.9)
    strictest = theorem1.calibrate(plain, epsilon=float(targets.min()))
    if way == "uniform":
        return strictest
    std = strictest.devices.column("noise_std")[0]
    limit = largest_weight(targets, clip_norm=1.0, noise_std=np.full(K, std), participation=0.9, delta=Claim().delta)
    if way == "without":
        limit = np.where(SENSITIVE, 0.0, limit)
    if way == "clipping":
        clipped = with_column(plain, "clip_norm", limit / limit.max())
        return with_column(clipped, "noise_std", np.full(K, std / (K * limit.max())))
    weighted = with_column(plain, "weight", limit / limit.sum())
    return with_column(weighted, "noise_std", np.full(K, std / limit.sum()))


def judge(table: Rows) -> Judgement:
    """Each design against uniform at the strictest ε, and at the largest, by both accounts."""
    tests = []
    for account, by in BY.items():
        rows = where(table, account=account)
        numbers: dict[str, Any] = {"by": by, "ways": ", ".join(sorted(set(column(rows, "way")))), "near": NEAR}
        over = [gains(where(rows, way=way), where(rows, way="uniform")) for way in DESIGNS]
        if not all(over):
            tests += [tested("beats", None, design=design, **numbers) for design in DESIGNS.values()]
            tests.append(tested("near", None, **numbers))
            continue
        strict, loose = ([some[at] for some in over] for at in (0, -1))
        for design, first in zip(DESIGNS.values(), strict, strict=True):
            numbers |= {"epsilon": STRICT[0], "gains": span([first])}
            tests.append(tested("beats", first.interval()[0] > 0, design=design, **numbers))
        apart = all(each.interval(len(DESIGNS))[0] > NEAR for each in strict)
        together = all(low > -NEAR and high < NEAR for low, high in (each.interval(len(DESIGNS)) for each in loose))
        numbers |= {"epsilon": STRICT[-1], "gains": span(loose)}
        tests.append(tested("near", apart and together, **numbers))
    without = ", ".join(
        f"{row['accuracy']:.3f} at ε = {row['epsilon']:g} by the {row['account']} account"
        for row in where(table, way="without", epsilon=STRICT[0])
    )
    return tests, {"without": without}


POINTS = grid(account=ACCOUNTS, way=WAYS, epsilon=STRICT)
RESULT = Result("fig-hetero-16", (row, POINTS), judge)
RESULT_512 = Result("fig-hetero-512", GPU_RUN, judge)
