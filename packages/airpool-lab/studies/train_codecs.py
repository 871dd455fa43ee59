"""Trains codecs on a trunk's features of ModelNet40's CAD models, through noise: the runs behind results/models.md.

    PYTHONPATH=src python -m studies.train_codecs settings FILE.json --dimension 40 784       # here, where SciPy is
    PYTHONPATH=src python -m studies.train_codecs train MESHES.npz.xz --trunk A B --settings FILE.json \
        --out DIR --runs RUNS.json

The second needs torch, NumPy, safetensors and array-api-compat only, and one GPU (or a CPU with --objects for a trial).
A run: fields of CodecShape or CodecRecipe; "train": names of the settings it is trained for; "seeds": a list. All are
measured on validation. A "final" run is one whose shape and recipe are fixed, or the "best_of" earlier runs by name, on
validation; it alone reads the test set, and the weights and quantised latents of its first seed are kept.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from airpool._support import files
from airpool._support.version import __version__
from airpool.models import weights
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.codec import Codec, quantised
from airpool.models.codecs.dense import CodecShape
from airpool.models.codecs.training import CodecRecipe, Setting, decoded, encoded, fit
from airpool.network import Neighbours
from airpool.network import file as network_file
from airpool.radio.fading import Fading
from airpool.radio.link import Level, Link
from airpool.radio.power import Transmitters
from airpool_lab.training.work import Splits
from airpool_lab.vision import runs as trunk_runs
from airpool_lab.vision.cad import SPLITS

if TYPE_CHECKING:
    from airpool.network import Network

ZERO_OUT = {f"z{e:g}": e for e in (0.5, 1, 2, 3.98, 6.31, 10)}
TRIALS = 20
STRICT, LOOSE = (1.0, 2.0, 3.98, 6.31, 10.0), 10.0  # ε of every other device, and of the rest
MEASURED = ("z1", "z2", "z3.98", "z10")  # what a compact codec is chosen by: one for all budgets


def settings(dimension: int, *, unlike: bool = False) -> dict[str, Any]:
    """zE: exact zero-out ε = E, p = 1, ideal channel; r3.98: replace; f2: zero-out 2 over Rician fading;
    oE: as zE, but p = .9; tE: the noise for which Theorem 1 claims E (p = .9); quiet: p = .9, as good as no noise."""
    import airpool
    from airpool.account import theorem1
    from airpool.models.codecs.training import setting

    net = airpool.Network.uniform(num_devices=12, clip_norm=1.0, noise_std=0.05, dimension=dimension)
    nets = {name: airpool.calibrate(net, epsilon=e) for name, e in ZERO_OUT.items()}
    nets["r3.98"] = airpool.calibrate(net, airpool.Claim(neighbours=Neighbours.REPLACE), epsilon=3.98)
    channel = airpool.Channel(fading="rician", k_factor_db=4.8, noise_std=0.1**0.5)
    nets["f2"] = airpool.calibrate(replace(net, channel=channel), epsilon=2.0)
    often = replace(net, devices=replace(net.devices, participation=0.9))
    nets |= {f"o{e:g}": airpool.calibrate(often, epsilon=e) for e in (1, 2)}
    nets |= {f"t{e:g}": theorem1.calibrate(often, epsilon=e) for e in (1, 2, 3.98, 6.31, 10.0)}
    nets["quiet"] = replace(often, devices=replace(often.devices, noise_std=1e-6))
    if unlike:
        nets |= _unlike(net)
    return {name: packed(setting(network)) for name, network in nets.items()}


def _unlike(net: "Network") -> "dict[str, Network]":
    """hWAY-E: every other device at a strict ε = E, the others at 10, served by uniform noise, weights or clip norms.

    Weights and clip norms by the trunk's votes on validation: they need not fit another codec, but meet every ε.
    """
    from airpool import load
    from airpool_lab.paper.figures.fig_hetero_16 import designed

    known = load("modelnet40").held_out("validation", codec="vote-vgg11").latents.double().numpy()
    sensitive = np.arange(net.devices.count) % 2 == 0
    out: dict[str, Network] = {}
    for strict in STRICT:
        targets = np.where(sensitive, strict, LOOSE)
        for way in ("uniform", "weights", "clipping"):
            small = replace(net, dimension=known.shape[2])
            made = designed(way, small, known, targets=targets, sensitive=sensitive)
            out[f"h{way}-{strict:g}"] = replace(made, dimension=net.dimension)
    return out


def packed(setting: Setting) -> dict[str, Any]:
    """A setting as plain data, to be taken to a machine without SciPy."""
    link = setting.link
    return {
        "network": network_file.dump(setting.network),
        "gamma": link.gamma,
        "margin": link.transmitters.margin,
        "outage": link.outage.tolist(),
        "level": asdict(setting.level),
    }


def unpacked(data: dict[str, Any]) -> Setting:
    """What `packed` made plain."""
    network = network_file.parse(data["network"])
    d, channel = network.devices, network.channel
    transmitters = Transmitters.of(
        **{name: d.column(name) for name in ("weight", "clip_norm", "noise_std", "power_dbm")},
        dimension=network.dimension,
        margin=data["margin"],
    )
    fading = Fading(channel.fading, k_factor_db=channel.k_factor_db)
    link = Link(fading, transmitters, data["gamma"], np.array(data["outage"]))
    return Setting(network, link, Level(**data["level"]))


@torch.no_grad()
def accuracy(codec: Codec, latents: torch.Tensor, labels: torch.Tensor, here: Setting, seed: int = 1) -> list[float]:
    """Of objects and of classes, over TRIALS draws of the noise."""
    rng = torch.Generator(latents.device).manual_seed(seed)
    right = torch.cat(
        [
            (decoded(codec, some, here, rng, trials=TRIALS).argmax(-1) == own[:, None]).float()
            for some, own in zip(latents.split(128), labels.split(128), strict=True)
        ]
    ).mean(1)
    return [float(right.mean()), float(torch.stack([right[labels == c].mean() for c in labels.unique()]).mean())]


def keep(path: Path, codec: Codec, latents: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
    """Weights, and latents as bytes in files of at most 15 MB."""
    from safetensors.torch import save

    codecs.save(path.with_suffix(".safetensors"), codec, about)
    for part, each in latents.items():
        pieces = quantised(each)[0].cpu().chunk(-(-each.numel() // 15_000_000))
        for number, piece in enumerate(pieces):
            name = path.with_name(f"{path.name}-{part}{number}.safetensors")
            files.write(name, save({"latents": piece.contiguous(), "scale": quantised(each)[1].cpu()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("settings")
    make.add_argument("file", type=Path)
    make.add_argument("--dimension", type=int, nargs="+", default=[40])
    make.add_argument("--unlike", type=int, nargs="*", default=[], help="dimensions for which devices differ, too")
    run = commands.add_parser("train")
    run.add_argument("meshes", type=Path)
    run.add_argument("--trunk", type=Path, nargs="+", required=True)
    run.add_argument("--settings", type=Path, required=True)
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--runs", required=True, help="JSON list, or a file that holds one")
    run.add_argument("--seconds", type=float, default=float("inf"))
    run.add_argument("--objects", type=int, default=None, help="use at most N objects, for a trial", metavar="N")
    args = parser.parse_args()
    if args.command == "settings":
        made = {r: settings(r, unlike=r in args.unlike) for r in args.dimension}
        files.write(args.file, json.dumps(made, indent=1))
    else:
        train(args)


def train(args: argparse.Namespace) -> None:
    begin = time.perf_counter()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    args.out.mkdir(parents=True, exist_ok=True)
    runs = json.loads(args.runs if args.runs.lstrip().startswith("[") else Path(args.runs).read_text())
    known = json.loads(args.settings.read_text())
    model, _ = weights.load(args.trunk, device=device)
    channels, *_ = model.architecture.map_shape
    source = trunk_runs.source(args.meshes, limit=args.objects)
    splits = Splits(source, model.architecture.resolution, torch_device=device)
    both = {part: splits.features(model, part, "codec", whole=True) for part in SPLITS}
    seen, labels = ({part: each[k] for part, each in both.items()} for k in (0, 1))
    average = {part: each.unflatten(-1, (channels, -1)).mean(-1, dtype=torch.float32) for part, each in seen.items()}
    print(f"features in {time.perf_counter() - begin:.1f} s", flush=True)

    results: list[dict[str, Any]] = []
    for wanted in runs:
        run = best(results, wanted["best_of"], wanted.get("by", MEASURED)) | wanted if "best_of" in wanted else wanted
        given: dict[str, Any] = {"features": channels, **run}
        shape = CodecShape(**{f.name: given[f.name] for f in fields(CodecShape) if f.name in given})
        features = seen if shape.kind == "map" else average
        here = {name: unpacked(each) for name, each in known[str(shape.dimension)].items()}
        here = {name: here[name] for name in run.get("measure", here)}
        for seed in run.get("seeds", [0]):
            if time.perf_counter() - begin > args.seconds and not run.get("final"):
                print(f"{run['name']} {seed}: left out, no time", flush=True)
                continue
            start = time.perf_counter()
            recipe = CodecRecipe(**{f.name: run[f.name] for f in fields(CodecRecipe) if f.name in run} | {"seed": seed})
            chosen = [here[name] for name in run["train"]]
            codec = fit(recipe, shape, features["train"], labels["train"], settings=chosen)
            latents = {part: encoded(codec, features[part]) for part in ("validation", "test")}
            found = {name: accuracy(codec, latents["validation"], labels["validation"], here[name]) for name in here}
            result = {**run, "seed": seed, "seconds": time.perf_counter() - start, "version": __version__}
            result["validation"] = found
            if run.get("final"):
                kept = seed == run["seeds"][0] and run.get("keep", True)
                for kind, each in (("test", latents["test"]), ("test_quantised", restored(latents["test"])))[
                    : 1 + kept
                ]:
                    result[kind] = {
                        name: [accuracy(codec, each, labels["test"], here[name], noise) for noise in (11, 12, 13)]
                        for name in here
                    }
                if kept:
                    keep(args.out / run["name"], codec, latents, {"run": run, "seed": seed})
            results.append(result)
            files.write(args.out / "results.json", json.dumps(results))
            shown = result.get("test", {})
            for title, rows in (
                ("validation", found),
                *((("test", {k: v[0] for k, v in shown.items()}),) * bool(shown)),
            ):
                about = " ".join(f"{name}={a:.3f}/{b:.3f}" for name, (a, b) in rows.items())
                print(f"{run['name']} {seed} {title}: {about} {result['seconds']:.1f} s", flush=True)


def best(results: list[dict[str, Any]], names: list[str], by: Sequence[str]) -> dict[str, Any]:
    """The run, of these, that does best on validation: mean over its seeds, over the settings it is judged by, and over
    objects and classes, since nobody knows how often a class will come."""

    def score(name: str) -> float:
        own = [each["validation"] for each in results if each["name"] == name]
        return float(np.mean([each[s] for each in own for s in by])) if own else 0.0

    winner = max(names, key=score)
    print("best:", {name: round(score(name), 4) for name in sorted(names, key=score, reverse=True)[:12]}, flush=True)
    return next(each for each in results if each["name"] == winner)


def restored(latents: torch.Tensor) -> torch.Tensor:
    steps, scale = quantised(latents)
    return steps * scale


if __name__ == "__main__":
    main()
