"""Figures of results/attacks.md on reconstruction and identification: `python -m studies.attack_figures [DIR ...]`.

Draws docs/figures/attack-curves.{svg,png,csv} and attack-grid.png from results/attack-link.json, attack-sum.json and
attack-pictures.png. Of several decoders for one setting the best counts, by each measure; the table has all. DIR:
results of runs of studies.attack_decoders, which are taken over first: decoders of all, everything else of the first.
"""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from airpool import Claim, Network
from airpool._support import figures, files
from airpool.models.vision import shapes
from airpool.models.vision.views import Cameras, views
from airpool_lab.attacks.positions import POSITIONS, bound
from studies.attack_decoders import CODECS, EPSILONS

RESULTS, FIGURES = Path(__file__).parent / "results", Path(__file__).parents[3] / "docs" / "figures"
PLACES = ("link", "sum")
GRID = ("airplane_0", "chair_0", "guitar_0", "table_0")
COLOURS = dict(zip(CODECS, (figures.BLUE, figures.PURPLE, figures.GREEN, figures.RED), strict=True))
NAMES = {"map": "whole map", "q16": "q = 16", "compact": "compact", "vote": "vote"}
MEASURES = {"psnr": "PSNR of the object, dB", "ssim": "SSIM", "perceptual": "perceptual distance"}
HEARD = {"link": "one link", "sum": "the sum"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="results of studies.attack_decoders")
    args = parser.parse_args(arguments)
    if args.folders:
        take_over(args.folders)
    found = {place: json.loads((RESULTS / f"attack-{place}.json").read_text("utf-8")) for place in PLACES}
    draw_curves(found)
    draw_grid(found["link"])


def take_over(folders: Sequence[Path]) -> None:
    """Copies the numbers, and shading by the decoders of highest PSNR on one sheet: a row a shape, five ε a codec."""
    from PIL import Image

    for place in PLACES:
        every = [json.loads((folder / f"{place}.json").read_text("utf-8")) for folder in folders]
        whole = every[0] | {"decoders": [each for found in every for each in found["decoders"]]}
        files.write(RESULTS / f"attack-{place}.json", json.dumps(whole, indent=1) + "\n")
    found = json.loads((RESULTS / "attack-link.json").read_text("utf-8"))
    pictures = [files.read_tensors(folder / "link.safetensors")[0] for folder in folders]
    columns = []
    for codec, epsilon in [(codec, epsilon) for codec in CODECS for epsilon in EPSILONS]:
        own = decoders(found, codec, epsilon)
        best = max(range(len(own)), key=lambda i: own[i]["psnr"]["mean"])
        columns.append(pictures[best][f"{codec}/{epsilon:g}"][:, 0])
    sheet = torch.cat([torch.cat(tuple(each), 0) for each in columns], 1).numpy()
    Image.fromarray(sheet).save(RESULTS / "attack-pictures.png", optimize=True)


def decoders(results: dict[str, Any], codec: str, epsilon: float) -> list[dict[str, Any]]:
    """All decoders of one setting, in the order of the runs."""
    return [e for e in results["decoders"] if e["codec"] == codec and float(e["epsilon"]) == epsilon]


def best(results: dict[str, Any], codec: str, epsilon: float, measure: str) -> dict[str, float]:
    """The best of a setting's decoders by one measure: its mean and standard error."""
    sign = -1 if measure == "perceptual" else 1
    return max((e[measure] for e in decoders(results, codec, epsilon)), key=lambda value: sign * value["mean"])


def limit(place: str, noise_std: float, size: int) -> float:
    """B(1/size) of identification: of a view on a link, of the object in the sum."""
    if not noise_std:
        return 1.0
    own = noise_std / 12 if place == "link" else noise_std / 12**1.5
    net = Network.uniform(num_devices=12, clip_norm=1.0, noise_std=own)
    return bound(net, Claim(), POSITIONS[place], "view" if place == "link" else "object", prior=1 / size)


def draw_curves(found: dict[str, dict[str, Any]]) -> None:
    at = list(range(len(EPSILONS)))[::-1]  # ε = 1 on the left
    table: list[tuple[Any, ...]] = []
    paths = [FIGURES / f"attack-curves.{kind}" for kind in ("svg", "png")]
    with figures.canvas(*paths, width=8.4, height=5.8) as fig:
        axes = fig.subplots(2, 4)
        for place, row in zip(PLACES, axes, strict=True):
            results = found[place]
            for (measure, label), axis in zip(MEASURES.items(), row, strict=False):
                for codec in CODECS:
                    values = [best(results, codec, epsilon, measure)["mean"] for epsilon in EPSILONS]
                    axis.plot(at, values, "o-", color=COLOURS[codec], markersize=3, label=NAMES[codec])
                for each in results["decoders"]:
                    value, run = each[measure], f"from {each['start']}"
                    table.append(
                        (
                            place,
                            each["codec"],
                            each["epsilon"],
                            measure,
                            run,
                            value["mean"],
                            value["standard_error"],
                            "",
                        )
                    )
                for name, style in (("mean", ":"), ("class_mean", "--")):
                    value = results["without_signal"][name][measure]
                    axis.axhline(
                        value["mean"], color=figures.GREY, linestyle=style, label=f"no signal: {name.replace('_', ' ')}"
                    )
                    table.append((place, name, "", measure, "", value["mean"], value["standard_error"], ""))
                axis.set_ylabel(label)
            table += identification(row[-1], place, results, at)
            for axis in row:
                axis.set_xticks(at, [f"{e:g}".replace("inf", "∞") for e in EPSILONS])
                axis.set_xlabel(f"ε of {'the link (local)' if place == 'link' else 'a device in the sum'}")
            row[0].set_title(f"From {HEARD[place]}", loc="left")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=6)
    header = ("position", "codec", "epsilon", "measure", "run", "value", "standard_error", "bound")
    columns: dict[str, list[Any]] = {name: [row[i] for row in table] for i, name in enumerate(header)}
    origin = found["link"]
    comment = f"studies.attack_figures, airpool {origin['version']}, seed {origin['seed']}, {origin['objects']}"
    figures.write_csv(FIGURES / "attack-curves.csv", columns, comment=comment)


def identification(axis: Any, place: str, results: dict[str, Any], at: list[int]) -> list[tuple[Any, ...]]:
    """Draws identification rates and their bound; returns the rows of the table."""
    rows: list[tuple[Any, ...]] = []
    for codec in CODECS:
        own = [e for e in results["identification"] if e["codec"] == codec and e["gallery"] == "attacked"]
        axis.plot(at[: len(own)], [each["rate"] for each in own], "o-", color=COLOURS[codec], markersize=3)
    limits = [
        limit(place, results["settings"]["noise_std"][place][f"{e:g}"], results["objects"]["test"]) for e in EPSILONS
    ]
    axis.plot(at, limits, color=figures.BOUND, label="bound")
    for each in results["identification"]:
        error = math.sqrt(each["rate"] * (1 - each["rate"]) / each["trials"])
        highest = limit(place, each["noise_std"], each["size"])
        rows.append(
            (place, each["codec"], each["epsilon"], f"identified, {each['gallery']}", "", each["rate"], error, highest)
        )
    axis.set_yscale("log")
    axis.set_ylabel("identified, black: bound")
    return rows


def draw_grid(results: dict[str, Any]) -> None:
    from matplotlib.image import imread

    sheet = imread(RESULTS / "attack-pictures.png")
    side, names = sheet.shape[0] // len(results["shapes"]), results["shapes"]
    original, mean, of_class = own_pictures(results["camera_shown"], side)
    titles = ["original", *(f"ε = {e:g}".replace("inf", "∞") for e in EPSILONS), "mean", "class\nmean"]
    with figures.canvas(FIGURES / "attack-grid.png", width=10.4, height=6.4) as fig:
        panels: Any = fig.subfigures(2, 2)
        for number, (panel, codec) in enumerate(zip(panels.flat, CODECS, strict=True)):
            panel.suptitle(NAMES[codec], fontsize=13)
            axes = panel.subplots(len(GRID), len(titles))
            for name, row in zip(GRID, axes, strict=True):
                top = names.index(name) * side
                first = number * len(EPSILONS)
                cells = [
                    sheet[top : top + side, c * side : (c + 1) * side] for c in range(first, first + len(EPSILONS))
                ]
                for axis, picture in zip(row, [original[name], *cells, mean[name], of_class[name]], strict=True):
                    axis.imshow(picture, cmap="gray", vmin=0, vmax=1)
                    axis.set_axis_off()
            for axis, title in zip(axes[0], titles, strict=True):
                axis.set_title(title, fontsize=11)


def own_pictures(camera: int, side: int) -> tuple[dict[str, NDArray[Any]], ...]:
    """Shading of our shapes, by name, and the means over all other shapes, and over the others of the class."""
    every = shapes.all()
    seen = views([(each.vertices, each.faces) for each in every], Cameras(resolution=2 * side).alone(camera))[:, 0, 0]
    small = torch.nn.functional.avg_pool2d(seen, 2).numpy()
    labels = np.array([each.label for each in every])
    original, mean, of_class = {}, {}, {}
    for i, each in enumerate(every):
        if each.name in GRID:
            others = np.arange(len(every)) != i
            original[each.name], mean[each.name] = small[i], small[others].mean(axis=0)
            of_class[each.name] = small[others & (labels == each.label)].mean(axis=0)
    return original, mean, of_class


if __name__ == "__main__":
    main()
