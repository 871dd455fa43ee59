"""Proven and measured accuracy of the shipped codecs against ε: measured for docs/theory/accuracy.md, and drawn.

Run by studies/theory_figures.py. Test objects. The vote has a linear server, the compact codec a network.
"""

from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.ticker import FixedLocator, NullLocator
from torch import Tensor

from airpool import Channel, Network, calibrate, load
from airpool._support.arrays import Floats
from airpool._support.figures import BLACK, BLUE, GREEN, GREY, PAPER, PURPLE, RED, SKY, canvas, figure, space_by_error
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.mse import pooled
from airpool.evaluation.objects import EncodedObjects
from airpool.models.codecs.codec import matrices
from airpool.protocol.simulation import receive
from airpool.radio.link import Level, level
from airpool_lab.paper.formulas.theorem2 import frobenius_margin
from airpool_lab.sweep import grid, run
from airpool_lab.theory.prediction import lipschitz_constants, margin, predict
from airpool_lab.theory.server import LayeredServer, scores
from studies.attack import attack
from studies.smoothing import proven, radius
from studies.tables import column, copy_as_csv, rows, save

CODECS = ("compact", "vote")
EPSILONS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0)
CHANNELS = {"ideal": {}, "p = 0.9": {"participation": 0.9}, "rician": {"channel": Channel("rician", noise_std=0.3162)}}
TRIALS, RUNS = 10, 500
NAMES = ("certificates", "margins", "lying-cameras")
BOUNDS = ("ideal", "margin", "margin_paper", "paper", "chebyshev", "ball", "half_spaces", "ceiling")


def network(epsilon: float, channel: str = "ideal") -> Network:
    return calibrate(Network.uniform(num_devices=12, dimension=40, **CHANNELS[channel]), epsilon=epsilon)


@cache
def objects(codec: str) -> tuple[Floats, np.ndarray]:
    held = load().held_out("test", codec=codec)
    return held.latents.double().numpy(), held.labels.numpy()


@cache
def _slopes() -> tuple[float, Floats]:
    """Of the codec's server at any level: its first matrix only changes by a factor, which is the signal's."""
    server = LayeredServer(matrices(load().codec("compact"), level(network(1.0))))
    return float(np.linalg.norm(server.matrices[0])), lipschitz_constants(server)


def constants(server: LayeredServer) -> Floats:
    if len(server.layers) == 1:
        return lipschitz_constants(server)
    size, slopes = _slopes()
    return slopes * (float(np.linalg.norm(server.matrices[0])) / size)


def server_of(codec: str, at: Level) -> LayeredServer:
    return LayeredServer(matrices(load().codec(codec), at))


def certificate_row(*, epsilon: float, channel: str, seed: int) -> dict[str, Any]:
    """Bounds and measured accuracies of both servers at one ε."""
    net, out = network(epsilon, channel), dict[str, Any]()
    for codec in CODECS:
        bounds = predict(net, *objects(codec), server=partial(server_of, codec), constants=constants).server
        held = load().held_out("test", codec=codec)
        measured = evaluate(
            EncodedObjects(held.latents, held.labels, load().codec(codec).server), net, trials=TRIALS, seed=seed
        )
        out |= {f"{codec}_{key}": getattr(bounds, key) for key in BOUNDS}
        out |= {f"{codec}_measured": measured.accuracy_mean, f"{codec}_std": measured.accuracy_std}
    return out


def margin_row(*, server: str, seed: int) -> dict[str, Any]:
    """Quantiles of the margin, from below and above, over the test objects that are named rightly (ε = 10)."""
    net = network(10.0)
    latents, labels = objects(server)
    served = server_of(server, level(net))
    x = pooled(latents, 1 / 12)
    right = np.argmax(scores(served, x), axis=1) == labels
    picked = np.flatnonzero(right)[:: 1 if server == "vote" else 5]
    x, labels = x[picked], labels[picked]
    kinds = {
        "frobenius": frobenius_margin(scores(served, x), labels, matrices=served.matrices),
        "spectral": margin(served, x, labels),
        "semidefinite": margin(served, x, labels, constants=constants(served)),
        "attack": attack(served, x, labels, competitors=3),
    }
    deciles = {
        f"{name}_{q}": float(np.quantile(each, q / 100)) for name, each in kinds.items() for q in range(5, 100, 5)
    }
    return {"objects": len(picked), **deciles}


def lying_row(*, epsilon: float, seed: int) -> dict[str, Any]:
    """Share of test objects whose most frequent answer is proven to stay right while so many cameras send anything."""
    net, held = network(epsilon), load().held_out("test")
    serve, rng = load().codec().server(level(net)), torch.Generator().manual_seed(seed)
    right: list[Tensor] = []
    with torch.no_grad():
        for some, labels in zip(held.latents.split(16), held.labels.split(16), strict=True):
            heard = receive(some, net, rng=rng, trials=RUNS)
            right.append((serve(heard.estimate).argmax(-1) == labels[:, None]).sum(1))
    counts = torch.cat(right).numpy()
    # One camera replaces its clipped latent by any other: the sum moves by 2wC at most.
    reach = radius(proven(counts, RUNS, confidence=0.999), noise_std=level(net).noise_std) / (2 / 12)
    share = {f"lying_{n}": float(np.mean((reach >= n) & (counts > RUNS / 2))) for n in range(7)}
    return {"accuracy": float(counts.mean() / RUNS), "majority": float(np.mean(counts > RUNS / 2)), **share}


def measure(results: Path, *, azimuths: Path | None = None, command: str = "") -> None:
    points = grid(epsilon=EPSILONS, channel=["ideal"]) + grid(epsilon=[2.0, 4.0, 10.0], channel=["p = 0.9", "rician"])
    save(run(certificate_row, points, command=command), results / "certificates.json")
    save(run(margin_row, grid(server=CODECS), command=command), results / "margins.json")
    save(run(lying_row, grid(epsilon=[1.0, 2.0, 4.0]), command=command), results / "lying-cameras.json")


def draw(results: Path, figures: Path) -> None:
    copy_as_csv(NAMES, results, figures)
    table = rows(results / "certificates.json", channel="ideal")
    paths = [figures / f"certificates.{kind}" for kind in ("png", "svg")]
    with figure(*paths, width=6.4, height=5.0) as (_, axes):
        eps = column(table, "epsilon")
        for name, colour, text in (("compact", BLUE, "compact"), ("vote", SKY, "the vote")):
            axes.plot(eps, column(table, f"{name}_measured"), color=colour, marker="o", ms=4, label=f"measured, {text}")
            axes.plot(
                eps, column(table, f"{name}_half_spaces"), "--", color=colour, label=f"proven, {text}: half-spaces"
            )
        axes.plot(eps, column(table, "vote_ball"), ":", color=GREEN, label="proven, the vote: ball")
        axes.plot(
            eps, column(table, "vote_chebyshev"), "-.", color=PURPLE, label="proven, the vote: Chebyshev by object"
        )
        axes.plot(eps, column(table, "compact_paper"), color=PAPER, label="Theorem 2 as printed (0 everywhere)")
        space_by_error(axes)
        axes.set(xscale="log", xlabel="device ε (δ = 1e-5, zero-out)", ylabel="accuracy", ylim=(-0.02, 0.94))
        axes.xaxis.set_major_locator(FixedLocator(eps))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([f"{e:g}" for e in eps])
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
        axes.set_title("Accuracy, proven and measured")
    _draw_margins(results, figures)
    _draw_lying(results, figures)


def _draw_margins(results: Path, figures: Path) -> None:
    with canvas(*(figures / f"margins.{kind}" for kind in ("png", "svg")), width=7.2, height=4.2) as fig:
        both = fig.subplots(1, 2, sharey=True, sharex=True)
        share = list(range(5, 100, 5))
        styles = (
            ("frobenius", PAPER, "the paper's lemma (Frobenius)"),
            ("spectral", SKY, "spectral norms"),
            ("semidefinite", BLUE, "semidefinite bound"),
            ("attack", BLACK, "attack: the truth is below"),
        )
        for axes, server in zip(both, CODECS, strict=True):
            (row,) = rows(results / "margins.json", server=server)
            for name, colour, text in styles:
                if server == "vote" and name == "semidefinite":
                    continue
                shown = "spectral norms: exact" if (server, name) == ("vote", "spectral") else text
                style = "--" if name == "attack" else "-"
                axes.plot([row[f"{name}_{q}"] for q in share], share, style, color=colour, label=shown)
            axes.set(xscale="log", xlabel="margin Δ in ẑ, where ‖Σwz‖ ≈ 1", title=f"server of {server}")
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22))
        both[0].set_ylabel("% of objects below")


def _draw_lying(results: Path, figures: Path) -> None:
    with figure(*(figures / f"lying-cameras.{kind}" for kind in ("png", "svg"))) as (_, axes):
        for row, colour in zip(rows(results / "lying-cameras.json"), (RED, PURPLE, BLUE), strict=True):
            counts = [n for n in range(7) if f"lying_{n}" in row]
            axes.plot(
                counts,
                [row[f"lying_{n}"] for n in counts],
                marker="o",
                color=colour,
                label=f"ε = {row['epsilon']:g}: {row['accuracy']:.3f} in one run",
            )
        axes.set(xlabel="cameras of 12 that send anything they like", ylabel="proven share of objects", ylim=(0, 1))
        axes.axhline(0, color=GREY, lw=0.5)
        axes.set_title("Right by majority over many inferences, proven")
        axes.legend()
