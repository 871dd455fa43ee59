"""Draws every figure of docs/theory/guarantee.md: `python -m studies.guarantee_figures`, in about half a minute.

Each figure is one function; it computes its columns, writes them as CSV and paints them as SVG and PNG.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from scipy.stats import binom

from airpool import Network
from airpool._support.arrays import Floats
from airpool._support.figures import BLACK, BLUE, GREEN, GREY, OURS, PAPER, PURPLE, RED, SKY, figure, write_csv
from airpool._support.version import __version__
from airpool.account import theorem1
from airpool.evaluation.audit import bound
from airpool.evaluation.audit.adversary import mechanism
from airpool.evaluation.audit.bound import audit
from airpool.evaluation.audit.release import log_likelihood_ratio, release, worst_pair
from airpool.privacy import compose, device, gaussian
from airpool.privacy.device import Aggregate, of_object
from airpool.privacy.leak import ends
from studies.tables import FIGURES

DELTA = 1e-5
NETWORK = "K = 12, w = 1/12, C = 1, sigma = 0.05, p = 0.9, delta = 1e-5"

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]


def main() -> None:
    for draw in (
        removal_against_dimension,
        mean_noise_against_exact,
        tails_of_theorem_1,
        claim_against_gamma,
        claim_against_truth,
        device_local_object,
        stream,
        audit_picture,
    ):
        draw()
        print(f"drew {draw.__name__}")


def twelve(*, feature: float = 1.0, participation: float = 0.9, std: float = 0.05, **rest: Any) -> Aggregate:
    """Twelve like devices of weight 1/12 whose features are at most `feature` long."""
    each = np.ones(12)
    return Aggregate(feature / 12 * each, std**2 * each, participation * each, **rest)


def epsilon(aggregate: Aggregate, neighbours: str = "zero-out", delta: float = DELTA) -> float:
    """ε of device 0."""
    return float(device.epsilon(aggregate, delta, neighbours=neighbours).upper[0])


def claimed(
    std: float, *, feature: float = 1.0, gamma: float = 1.0, tail: theorem1.Tail = "quadratic"
) -> theorem1.PaperClaim:
    """What Theorem 1 says of twelve devices with p = 0.9."""
    return theorem1.claim(
        weight=np.full(12, gamma / 12),
        clip_norm=feature,
        noise_std=std,
        participation=0.9,
        delta=DELTA,
        tail=tail,
    )


def saved(
    name: str,
    columns: Columns,
    comment: str,
    paint: Callable[[Figure, Axes], None],
    *,
    width: float = 5.6,
    height: float = 3.6,
) -> None:
    write_data(name, columns, comment)
    for ending in ("svg", "png"):
        with figure(FIGURES / f"{name}.{ending}", width=width, height=height) as (fig, axes):
            paint(fig, axes)


def write_data(name: str, columns: Columns, comment: str) -> None:
    rows = {column: np.asarray(values).tolist() for column, values in columns.items()}
    write_csv(FIGURES / f"{name}.csv", rows, comment=f"airpool {__version__}; {comment}")


def legend_below(axes: Axes) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def removal_against_dimension() -> None:
    r = np.unique(np.rint(np.geomspace(1, 25_088, 33)).astype(int))
    full = [epsilon(twelve(dimension=int(n)), "remove") for n in r]
    empty = [epsilon(twelve(feature=0.0, participation=1.0, dimension=int(n)), "remove") for n in r]
    zero_out, claim = epsilon(twelve()), float(claimed(0.05).epsilon[0])
    columns = {
        "dimension": r,
        "remove": full,
        "remove a device without a feature, p = 1": empty,
        "zero-out": np.full(len(r), zero_out),
        "theorem 1 (quadratic)": np.full(len(r), claim),
    }

    def paint(_: Figure, axes: Axes) -> None:
        axes.plot(r, full, color=RED, label="true: remove, p = 0.9")
        axes.plot(r, empty, "-.", color=PURPLE, label="true: remove, feature = 0, p = 1")
        axes.axhline(claim, color=PAPER, linestyle="--", label="Theorem 1 on removal (quadratic slack), p = 0.9")
        axes.axhline(zero_out, color=OURS, label="true: zero-out, p = 0.9")
        for at, text in ((784, "q = 16"), (25_088, "q = 512")):
            axes.axvline(at, color=GREY, linewidth=0.8, linestyle=":")
            axes.annotate(text, (at, 0.62), xytext=(-3, 0), textcoords="offset points", ha="right", color=GREY)
        axes.set(xscale="log", yscale="log", ylim=(0.5, 600))
        axes.set(xlabel="r, real dimensions of the latent", ylabel="ε of one device at δ = 1e-5")
        legend_below(axes)

    saved("removal", columns, f"removal against r; {NETWORK}", paint, height=4.4)


def mean_noise_against_exact() -> None:
    p = np.linspace(0.3, 1.0, 36)

    def pair(num_devices: int) -> tuple[list[float], Floats]:
        each = np.ones(num_devices)
        exact = [
            # Given that device 0 takes part: its own probability is 1.
            epsilon(Aggregate(each, each, np.where(np.arange(num_devices) == 0, 1.0, q)), "replace")
            for q in p
        ]
        return exact, gaussian.epsilon(2 / np.sqrt(1 + (num_devices - 1) * p), DELTA)

    exact5, mean5 = pair(5)
    exact20, mean20 = pair(20)
    columns = {"participation": p, "exact K=5": exact5, "mean K=5": mean5, "exact K=20": exact20, "mean K=20": mean20}
    at = int(np.argmin(np.abs(p - 0.9)))

    def paint(_: Figure, axes: Axes) -> None:
        axes.plot(p, exact5, color=BLUE, label="K = 5, exact law of the noise")
        axes.plot(p, mean5, "--", color=SKY, label="K = 5, mean noise")
        axes.plot(p, exact20, color=RED, label="K = 20, exact law of the noise")
        axes.plot(p, mean20, "--", color=PURPLE, label="K = 20, mean noise")
        for value, offset in ((exact5[at], (15, 6)), (float(mean5[at]), (-6, -14))):
            axes.plot(p[at], value, "o", color=BLACK, markersize=3.5)
            axes.annotate(
                f"{value:.3f}", (p[at], value), xytext=offset, textcoords="offset points", ha="center", fontsize=8
            )
        axes.set(xlabel="p, participation of every other device", ylabel="ε at δ = 1e-5, given that the device speaks")
        axes.set(ylim=(0, 11.5))
        axes.legend(loc="upper right")

    saved("mean-noise", columns, "w = C = sigma = 1, replace, delta = 1e-5, device k takes part", paint)


def needed_slack(num_devices: int, participation: float, delta_prime: float) -> float:
    """The smallest t/σ² with Pr(|Σ(τ−p)| ≥ t) ≤ δ′ for like devices: what the proof really needs."""
    mean = num_devices * participation
    count = np.arange(num_devices + 1)
    distance = np.abs(count - mean)
    order = np.argsort(-distance)
    outside = np.cumsum(binom.pmf(count, num_devices, participation)[order])
    # The farthest distance at which the outcomes that far or farther are already too likely; t lies just beyond it.
    return float(distance[order][np.argmax(outside > delta_prime)])


def tails_of_theorem_1() -> None:
    tails = get_args(theorem1.Tail)
    style = {
        "statement": (PAPER, "-."),
        "appendix": (PAPER, ":"),
        "quadratic": (GREEN, "--"),
        "bernstein": (PURPLE, "-"),
    }
    K = np.unique(np.rint(np.geomspace(2, 3000, 60)).astype(int))
    variance = np.geomspace(1e-3, 30, 60)

    def relative(num_devices: int, noise_var: float, tail: theorem1.Tail) -> float:
        p = np.full(num_devices, 0.9)
        return theorem1.slack(np.full(num_devices, noise_var), p, DELTA, tail) / (0.9 * num_devices * noise_var)

    by_devices = {tail: [relative(int(n), 0.1, tail) for n in K] for tail in tails}
    needed = [needed_slack(int(n), 0.9, DELTA) / (0.9 * n) for n in K]
    by_variance = {tail: [relative(12, v, tail) for v in variance] for tail in tails}
    needed12 = needed_slack(12, 0.9, DELTA) / (0.9 * 12)

    def paint(fig: Figure, axes: Axes) -> None:
        axes.remove()
        left, right = fig.subplots(1, 2, sharey=True)
        for tail, (colour, line) in style.items():
            left.plot(K, by_devices[tail], line, color=colour, label=tail)
            right.plot(variance, by_variance[tail], line, color=colour)
        left.plot(K, needed, color=OURS, linewidth=2.2, label="what δ′ needs")
        right.axhline(needed12, color=OURS, linewidth=2.2)
        for panel, where in ((left, 3000), (right, 28)):
            panel.axhspan(1, 12, color=GREY, alpha=0.18, linewidth=0)
            panel.text(where, 8.6, "t > μ̄: ε undefined", fontsize=8, color="#444444", va="center", ha="right")
            panel.set(xscale="log", yscale="log", ylim=(0.03, 12))
        left.set(xlabel="K, number of devices (σ² = 0.1)", ylabel="slack t, relative to the mean noise μ̄")
        right.set(xlim=(1e-3, 30))
        right.set(xlabel="σ², noise variance per coordinate (K = 12)")
        right.axvline(0.1, color=GREY, linewidth=0.8, linestyle=":")
        right.annotate("the paper's σ²", (0.1, 0.04), xytext=(3, 0), textcoords="offset points", fontsize=8, color=GREY)
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5)

    what = "t over the mean noise, p = 0.9, delta' = 1e-5"
    write_data("tails-variance", {"noise_var": variance, **by_variance}, f"{what}, K = 12")
    saved("tails", {"devices": K, **by_devices, "needed": needed}, f"{what}, sigma^2 = 0.1", paint, width=7.2)


def claim_against_gamma() -> None:
    gammas = np.geomspace(0.05, 20, 41)
    claim = [float(claimed(0.05, gamma=g).epsilon[0]) for g in gammas]
    truth = epsilon(twelve())
    # A receiver noise as strong as all the privacy noise together at γ = 1.
    credited = [epsilon(twelve(extra=12 * 0.05**2 / g**2)) for g in gammas]
    columns = {"gamma": gammas, "theorem 1 (quadratic)": claim, "zero-out": np.full(len(gammas), truth)}
    columns["zero-out, receiver noise credited"] = np.array(credited)

    def paint(_: Figure, axes: Axes) -> None:
        axes.plot(gammas, claim, "--", color=PAPER, label="Theorem 1 (quadratic slack)")
        axes.axhline(truth, color=OURS, label="true: zero-out")
        axes.plot(gammas, credited, "-.", color=GREEN, label="true: zero-out, receiver noise credited")
        axes.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", yscale="log", ylim=(0.05, 120))
        axes.set(xlabel="γ, alignment constant", ylabel="ε of one device at δ = 1e-5")
        legend_below(axes)

    saved("gamma", columns, f"{NETWORK}; receiver noise of variance 12 sigma^2 where credited", paint, height=4.0)


def claim_against_truth() -> None:
    """At equal δ: the theorem's ε is for δ̃ = δ′ + pδ/(1−δ′), so the truth is taken there too."""
    std = np.geomspace(0.12, 100, 61)
    at = float(claimed(1.0).delta[0])
    truth = [epsilon(twelve(feature=100.0, std=s), delta=at) for s in std]
    removed = [epsilon(twelve(feature=100.0, std=s, dimension=784), "remove", delta=at) for s in std]
    ratio: dict[str, Floats] = {}
    pairs: tuple[tuple[theorem1.Tail, list[float], str], ...] = (
        ("bernstein", truth, "bernstein over zero-out"),
        ("quadratic", truth, "quadratic over zero-out"),
        ("quadratic", removed, "quadratic over remove, r = 784"),
    )
    for tail, true, name in pairs:
        claims = [float(claimed(s, feature=100.0, tail=tail).epsilon[0]) for s in std]
        ratio[name] = np.array(claims) / np.array(true)
    columns = {"noise_std": std, "zero-out": truth, "remove": removed, **ratio}
    style = {
        "bernstein over zero-out": (PAPER, ":", "Bernstein's slack, against zero-out"),
        "quadratic over zero-out": (PAPER, "--", "quadratic slack, against zero-out"),
        "quadratic over remove, r = 784": (RED, "-", "quadratic slack, against removal, r = 784"),
    }

    def paint(_: Figure, axes: Axes) -> None:
        for name, (colour, line, label) in style.items():
            axes.plot(std, ratio[name], line, color=colour, label=label)
        axes.axhspan(0.005, 1, color=RED, alpha=0.08, linewidth=0)
        axes.axhline(1, color=RED, linewidth=0.8)
        axes.text(90, 0.5, "claim below the truth: false", fontsize=8, color="#8a3a00", va="top", ha="right")
        axes.text(90, 4.2, "claim above the truth: loose", fontsize=8, color="#444444", va="bottom", ha="right")
        axes.axvline(np.sqrt(0.1), color=GREY, linewidth=0.8, linestyle=":")
        axes.annotate(
            "the paper's σ", (np.sqrt(0.1), 0.0065), xytext=(5, 0), textcoords="offset points", fontsize=8, color=GREY
        )
        axes.set(xscale="log", yscale="log", ylim=(0.005, 30), xlim=(0.12, 100))
        axes.set(xlabel="σ, noise per coordinate (C = 100)", ylabel="claimed ε / true ε, both at δ̃")
        legend_below(axes)

    saved("claim", columns, f"the paper's network at C = 100, both at delta = {at:.4g}", paint, height=4.0)


def device_local_object() -> None:
    """w = 1/K, everybody always takes part, σ such that the device's ε is 1."""
    K = np.unique(np.rint(np.geomspace(1, 200, 40)).astype(int))
    rows: list[tuple[float, float, float]] = []
    for n in K:
        each = np.ones(n)
        std = float(gaussian.noise_multiplier(1.0, DELTA)) / n / np.sqrt(n)
        all_views = Aggregate(each / n, std**2 * each, each)
        local = float(gaussian.epsilon(1 / n / std, DELTA))
        rows.append((epsilon(all_views), local, float(ends(of_object(all_views), DELTA).upper[0])))
    one, local, whole = zip(*rows, strict=True)
    columns = {"devices": K, "device": one, "local": local, "object": whole}

    def paint(_: Figure, axes: Axes) -> None:
        axes.plot(K, whole, "-.", color=RED, label="object: all views change")
        axes.plot(K, local, "--", color=PURPLE, label="local: nobody else trusted")
        axes.plot(K, one, color=BLUE, label="device: everybody else's noise helps")
        at = int(np.argmin(np.abs(K - 12)))
        for value in (one[at], local[at], whole[at]):
            axes.plot(K[at], value, "o", color=BLACK, markersize=3.5)
            axes.annotate(f"{value:.3g}", (K[at], value), xytext=(5, -10), textcoords="offset points", fontsize=8)
        axes.set(xscale="log", yscale="log", ylim=(0.55, 3e3))
        axes.set(xlabel="K, number of devices", ylabel="ε at δ = 1e-5")
        axes.legend(loc="upper left")

    saved("device-local-object", columns, "w = 1/K, p = 1, sigma calibrated to a device epsilon of 1, zero-out", paint)


def stream() -> None:
    times = np.unique(np.rint(np.geomspace(1, 1000, 25)).astype(int))
    leaks = {
        "visible participation": device.by_coin(twelve(), "zero-out"),
        "cover noise": device.by_coin(twelve(cover_noise=True), "zero-out"),
    }
    columns: dict[str, Any] = {"inferences": times}
    for name, leak in leaks.items():
        one = compose.stream(leak)
        columns[name] = [one.repeated(int(n)).epsilon(DELTA) for n in times]
    # The same δ in all, shared out evenly: the textbook rule.
    columns["sum of ε"] = [int(n) * epsilon(twelve(), delta=DELTA / int(n)) for n in times]

    def paint(_: Figure, axes: Axes) -> None:
        axes.plot(times, columns["sum of ε"], "--", color=GREY, label="adding ε up, each at δ/T")
        axes.plot(times, columns["visible participation"], color=BLUE, label="composed, participation visible")
        axes.plot(times, columns["cover noise"], "-.", color=GREEN, label="composed, cover noise")
        axes.set(xscale="log", yscale="log", xlabel="T, number of inferences", ylabel="ε of one device at δ = 1e-5")
        axes.legend(loc="upper left")

    saved("stream", columns, f"zero-out; {NETWORK}", paint)


def audit_picture() -> None:
    """The game on the full path: the same network as it is, and with half the noise that it promises.

    One dimension: the score looks at ⟨y, z⟩ and who took part, so more dimensions would change nothing but the time.
    """
    promise = epsilon(twelve())
    for name, std in (("audit", 0.05), ("audit-half-noise", 0.025)):
        honest = release(12, clip_norm=1.0, noise_std=0.05, participation=0.9)
        played = Network.uniform(num_devices=12, noise_std=std, participation=0.9, dimension=1)
        features, neighbour = worst_pair(honest, 0, dimension=1)
        report = audit(
            mechanism(played),
            features,
            neighbour,
            runs=500_000,
            rng=np.random.default_rng(0),
            delta=DELTA,
            score=log_likelihood_ratio(honest, features, neighbour),
            claimed_epsilon=promise,
        )
        print(f"{name}: {report}")
        picture = FIGURES / f"{name}.png"
        bound.plot(report, picture)
        # A palette takes a third of the bytes and looks the same.
        Image.open(picture).convert("RGB").quantize(128).save(picture, optimize=True)
        write_data(name, {"false alarm rate": report.false_alarm_rates, "miss rate": report.miss_rates}, str(report))


if __name__ == "__main__":
    main()
