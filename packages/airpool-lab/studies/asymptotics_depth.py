"""The error of a noisy estimate against the depth of the server's network: measured for theory/accuracy.md, and drawn.

Run by studies/theory_figures.py. Three kinds of network: random ReLU networks of every depth, and networks trained for
every depth, both on the mean view of real objects as twelve devices at device ε = 2 let the server hear it; and the
shipped trunk, cut after each of its blocks, where the noise comes in.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor, nn

from airpool import Network, calibrate, load
from airpool._support.figures import BLUE, GREEN, GREY, PAPER, PURPLE, RED, SKY, canvas, write_csv
from airpool.models.vision import lite, shapes
from airpool.models.vision.views import Cameras, views
from airpool.radio.link import level
from airpool_lab.sweep import grid, run
from studies.depth import DepthError, convolution_norm, norm_bound, propagation, random_weights, relu_layers
from studies.depth_networks import trained
from studies.tables import Rows, column, copy_as_csv, rows, save
from studies.trends import Form, trend

EPSILON, COPIES = 2.0, 10
RANDOM_DEPTHS, RANDOM_NETS, RANDOM_WIDTH = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), 10, 256
TRAINED_DEPTHS, TRAINED_NETS = (1, 2, 3, 4, 6, 8, 12, 16), 5
SHARE = 0.1  # noise power put into the trunk, relative to what is there
GROUPS, GROUP = 6, 8  # of our own shapes, for the trunk's error bars
NAMES = ("asymptotics-depth", "asymptotics-split")
ERRORS = ("error", "to_signal", "to_spread", "spectral_bound", "frobenius_bound")
FORMS: tuple[Form, ...] = ("constant", "linear", "power", "exponential")
FAMILIES = ("random, gaussian", "random, orthogonal", "trained without noise", "trained with noise")


@cache
def noise_std() -> float:
    """Of each coordinate of ẑ: twelve devices at device ε, p = 1, no channel noise."""
    return level(calibrate(Network.uniform(num_devices=12, dimension=40), epsilon=EPSILON)).noise_std


@cache
def held_back() -> tuple[Tensor, Tensor]:
    """Latents (n, 12, r) and labels of the validation objects that no network was trained on: every other one."""
    objects = load().held_out("validation")
    return objects.latents[1::2], objects.labels[1::2]


def depth_row(*, family: str, depth: int, net: int, seed: int) -> dict[str, Any]:
    """One network, drawn or trained by itself, with `depth` hidden layers (a trained one has its classes on top)."""
    rng = np.random.default_rng([seed, net])
    latents, labels = held_back()
    clean = latents.double().mean(1).numpy()
    noisy = clean[:, None] + noise_std() * rng.standard_normal((len(clean), COPIES, clean.shape[1]))
    if family.startswith("random"):
        kind = "gaussian" if family.endswith("gaussian") else "orthogonal"
        weights = random_weights(depth, RANDOM_WIDTH, inputs=clean.shape[1], rng=rng, kind=kind)
        found = propagation(relu_layers(weights), clean, noisy)[-1]
        return _cells(found, weights, clean, noisy)
    met = noise_std() if family == "trained with noise" else 0.0
    layers = trained(depth, noise_std=met, seed=int(rng.integers(2**31)))
    weights, biases = [A for A, _ in layers], [b for _, b in layers]
    hidden = relu_layers(weights[:-1], biases[:-1])
    found = propagation([*hidden, lambda h: h @ weights[-1].T + biases[-1]], clean, noisy)[-1]

    def right(x: np.ndarray) -> float:
        for layer in hidden:
            x = layer(x)
        named = np.argmax(x @ weights[-1].T + biases[-1], axis=-1)
        return float(np.mean(named == labels.numpy().reshape(-1, *[1] * (named.ndim - 1))))

    return _cells(found, weights, clean, noisy) | {"accuracy_clean": right(clean), "accuracy_noisy": right(noisy)}


def _cells(found: DepthError, weights: list[np.ndarray], clean: np.ndarray, noisy: np.ndarray) -> dict[str, Any]:
    start = float(np.mean(np.sum((noisy - clean[:, None]) ** 2, axis=-1)))
    bound, frobenius = (float(norm_bound(weights, start, norm=norm)[-1]) for norm in ("spectral", "frobenius"))
    return {
        "input_error": start,
        "error": found.error,
        "to_signal": found.to_signal,
        "to_spread": found.to_spread,
        "spectral_bound": bound,
        "frobenius_bound": frobenius,
        "accuracy_clean": None,
        "accuracy_noisy": None,
    }


# The trunk


@cache
def stages() -> list[nn.Sequential]:
    """The trunk's blocks, batch norm folded in: a convolution, inverted bottlenecks, a convolution."""
    found: list[nn.Sequential] = []
    for module in lite.folded(load().trunk.features):
        if isinstance(module, nn.Conv2d | lite.Block):
            found.append(nn.Sequential())
        found[-1].append(module)
    return found


@cache
def images(group: int) -> Tensor:
    """One view, another azimuth for each, of GROUP of our own shapes: (GROUP, 2, 224, 224)."""
    chosen, side = shapes.all()[group::14][:GROUP], load().trunk.architecture.resolution
    cameras = [Cameras(num_views=1, first_azimuth_deg=30.0 * k, resolution=side) for k in range(GROUP)]
    return torch.cat([views([(s.vertices, s.faces)], c)[0] for s, c in zip(chosen, cameras, strict=True)])


@torch.no_grad()
def split_row(*, after: int, group: int, seed: int) -> dict[str, float]:
    """Noise of a tenth of the power after a block (0: on the image), and what is left of it at the end.

    Error relative to the signal of the last map, of its average over places, and of the latent.
    """
    rng = torch.Generator().manual_seed(seed)
    clean = images(group)
    for stage in stages()[:after]:
        clean = stage(clean)
    power = clean.square().mean((1, 2, 3), keepdim=True)[:, None]
    noise = torch.randn((len(clean), 4, *clean.shape[1:]), generator=rng)
    noisy = clean[:, None] + (SHARE * power).sqrt() * noise
    encoder = load().codec("compact").encoder
    way = [*stages()[after:], lambda h: h.mean((-2, -1)), encoder]
    found = propagation(way, clean, noisy)
    entered, left = found[0], found[-3]
    norms = [norm**2 for norm in operator_norms()[after:]]
    return {
        "depth": len(stages()) - after,
        "share": SHARE,
        "map": left.to_signal,
        "pooled": found[-2].to_signal,
        "latent": found[-1].to_signal,
        "spectral_bound": entered.error * float(np.prod(norms)) / left.signal,
    }


@cache
@torch.no_grad()
def operator_norms() -> list[float]:
    """A Lipschitz constant of each block, from above: the product of ‖W‖₂ of its convolutions, 1 more with a residual.

    On maps of the block's own size; beyond a stride they are smaller, and so are the norms.
    """
    found, h = [], images(0)[:1]
    for stage in stages():
        convolutions = [module for module in stage.modules() if isinstance(module, nn.Conv2d)]
        product = float(np.prod([_norm(each, side=h.shape[-1]) for each in convolutions]))
        found.append(product + any(getattr(module, "residual", False) for module in stage))
        h = stage(h)
    return found


def _norm(convolution: nn.Conv2d, *, side: int) -> float:
    """‖W‖₂ from above: a kernel of 1 × 1 is a matrix, and one for each channel is as large as the largest of them."""
    kernel = convolution.weight.double().numpy()
    parts = np.split(kernel, convolution.groups)
    return max(convolution_norm(part, side=side if kernel.shape[-1] > 1 else 1) for part in parts)


# Tables, laws and the figure


def measure(results: Path, *, azimuths: Path | None, command: str) -> None:
    """Both tables; azimuths have no part in them."""
    random = grid(family=FAMILIES[:2], depth=RANDOM_DEPTHS, net=range(RANDOM_NETS))
    learnt = grid(family=FAMILIES[2:], depth=TRAINED_DEPTHS, net=range(TRAINED_NETS))
    save(run(depth_row, random + learnt, command=command), results / f"{NAMES[0]}.json")
    save(
        run(split_row, grid(after=range(len(stages()) + 1), group=range(GROUPS)), command=command),
        results / f"{NAMES[1]}.json",
    )


def averaged(table: Rows, name: str) -> tuple[list[int], list[float], list[float]]:
    """Depths, and the mean of a column over the networks of each with its standard error."""
    depths = sorted(set(column(table, "depth")))
    values = [[row[name] for row in table if row["depth"] == depth] for depth in depths]
    means = [float(np.mean(v)) for v in values]
    return depths, means, [float(np.std(v, ddof=1) / len(v) ** 0.5) for v in values]


def over_networks(table: Rows, y: str, form: Form) -> tuple[float, float]:
    """The rate of a law, fitted to each network's own curve: its mean over the networks, and its standard error.

    Networks of different depths share no more than a number; it is as good a way as any to sort them into curves.
    """
    which = "net" if "net" in table[0] else "group"
    curves = [[row for row in table if row[which] == one] for one in sorted(set(column(table, which)))]
    rates = [trend(column(curve, "depth"), column(curve, y), form=form).rate for curve in curves]
    return round(float(np.mean(rates)), 4), round(float(np.std(rates, ddof=1) / len(rates) ** 0.5), 4)


def laws(results: Path) -> Rows:
    """Of every family and measure: its power of L beside the paper's 1, its rate per layer, and how each law fits.

    The misfits are of the means over the networks, all depths alike.
    """
    measures: list[tuple[str, str | None, str]] = [(NAMES[0], family, y) for family in FAMILIES for y in ERRORS]
    measures += [(NAMES[1], None, y) for y in ("map", "pooled", "latent", "spectral_bound")]
    found = []
    for name, family, y in measures:
        table = rows(results / f"{name}.json", **({} if family is None else {"family": family}))
        deep = [row for row in table if row["depth"] > 0]
        depths, means, _ = averaged(deep, y)
        row = {"family": family or "trunk", "measure": y}
        rates: tuple[tuple[Form, str], ...] = (("power", "exponent"), ("exponential", "rate per layer"))
        for form, label in rates:
            row |= dict(zip((label, f"{label}_se"), over_networks(deep, y, form), strict=True))
        misfits = {f"misfit, {form}": trend(depths, means, form=form).misfit for form in FORMS}
        found.append(row | {name: round(value, 4) for name, value in misfits.items()} | {"paper's exponent": 1})
    return found


def draw(results: Path, figures: Path) -> None:
    copy_as_csv(NAMES, results, figures)
    found = laws(results)
    columns = {name: column(found, name) for name in found[0]}
    write_csv(
        figures / "asymptotics-depth-laws.csv",
        columns,
        comment="L >= 1; standard errors over networks (trunk: over objects)",
    )
    with canvas(*(figures / f"{NAMES[0]}.{ending}" for ending in ("png", "svg")), width=8.4, height=9.4) as fig:
        (first, second), (third, fourth) = fig.subplots(2, 2)
        by_family = {family: rows(results / f"{NAMES[0]}.json", family=family) for family in FAMILIES}
        _paint_growth(first, by_family, found)
        _paint_spread(second, by_family)
        trunk = rows(results / f"{NAMES[1]}.json")
        _paint_bound(third, by_family, trunk)
        _paint_trunk(fourth, trunk)


STYLES: dict[str, tuple[str, str]] = dict(
    zip(FAMILIES, ((BLUE, "o"), (SKY, "s"), (RED, "^"), (GREEN, "D")), strict=True)
)

Families = dict[str, Rows]


def _plot(axes: Axes, curve: tuple[list[int], list[float], list[float]], colour: str, marker: str, label: str) -> None:
    depths, means, se = curve
    axes.errorbar(depths, means, [2 * x for x in se], color=colour, marker=marker, markersize=3.5, label=label)


def _relative(curve: tuple[list[int], list[float], list[float]]) -> tuple[list[int], list[float], list[float]]:
    """To its first mean."""
    depths, means, se = curve
    return depths, [x / means[0] for x in means], [x / means[0] for x in se]


def _paint_growth(axes: Axes, by_family: Families, found: Rows) -> None:
    exponent = {row["family"]: row["exponent"] for row in found if row["measure"] == "error"}
    for family, table in by_family.items():
        label = f"{family}: $L^{{{exponent[family]:+.2f}}}$"
        _plot(axes, _relative(averaged(table, "error")), *STYLES[family], label)
    axes.plot([1, 32], [1, 32], ":", color=PAPER, label="the paper: $L^{+1}$")
    axes.set(xscale="log", yscale="log", xlabel="L, hidden layers", ylabel="E‖h(ẑ) − h(z̄)‖² relative to L = 1")
    axes.set_ylim(0.1, 60)
    axes.set_title("the error itself")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _paint_spread(axes: Axes, by_family: Families) -> None:
    for family, table in by_family.items():
        _plot(axes, averaged(table, "to_spread"), *STYLES[family], family)
    axes.set(xscale="log", yscale="log", xlabel="L, hidden layers", ylabel="E‖h(ẑ) − h(z̄)‖² / spread of h(z̄)")
    axes.set_title("the error beside what tells objects apart")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _paint_bound(axes: Axes, by_family: Families, trunk: Rows) -> None:
    tables = {**{family: (table, "error") for family, table in by_family.items()}, "trunk, last map": (trunk, "map")}
    for family, (table, error) in tables.items():
        loose = [row | {"loose": row["spectral_bound"] / row[error]} for row in table]
        _plot(axes, averaged(loose, "loose"), *STYLES.get(family, (PURPLE, "v")), family)
    axes.set(yscale="log", xlabel="L, layers", ylabel="∏‖W‖₂² E‖ẑ − z̄‖² / error")
    axes.set_title("how far the product of norms is off")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _paint_trunk(axes: Axes, table: Rows) -> None:
    for y, colour, marker, label in (
        ("map", BLUE, "o", "last map"),
        ("pooled", GREEN, "s", "its average over places"),
        ("latent", PURPLE, "v", "latent"),
    ):
        _plot(axes, averaged(table, y), colour, marker, label)
    depths, means, _ = averaged(table, "map")
    axes.plot(depths[1:], [means[1] * L for L in depths[1:]], ":", color=PAPER, label="the paper: $L^{+1}$")
    axes.axhline(SHARE, color=GREY, linewidth=0.8, label="what came in")
    axes.set_ylim(2e-4, 3)
    last = f"L, blocks between noise and end ({depths[-1]}: on the image)"
    axes.set(yscale="log", xlabel=last, ylabel="relative error")
    axes.set_title(f"EfficientNet-Lite2, noise of {SHARE:.0%} of the power")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
