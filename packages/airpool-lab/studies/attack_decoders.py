"""Attacks on views of ModelNet40's CAD models through the shipped trunk: reconstruction and identification.

    PYTHONPATH=src python -m studies.attack_decoders settings SETTINGS.json                   # here, where SciPy is
    PYTHONPATH=src python -m studies.attack_decoders run MESHES.npz.xz --settings SETTINGS.json --out DIR \
        --seconds 540

The second needs torch, NumPy, safetensors and array-api-compat only, and one GPU (or a CPU with --objects for a trial).
For each codec and each ε it trains a decoder on training objects at that noise and measures it on test objects that
have no twin; it identifies test objects in galleries, and on a link it optimises through the trunk. It writes to DIR
POSITION.json, the numbers, and POSITION.safetensors, reconstructions of a few of our own shapes; both after every
decoder. Nothing that is rendered from ModelNet is written. The time that is left is divided by SHARES.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airpool._support import files
from airpool._support.version import __version__
from airpool.models import assets, local, weights
from airpool.models.codecs import codec as codecs
from airpool.models.vision import shapes
from airpool.models.vision.views import Cameras, views
from airpool_lab.attacks import likeness, targets
from airpool_lab.attacks.reconstruct import Decoder, train
from airpool_lab.attacks.targets import Scenes, alone, mean_pictures, scenes
from airpool_lab.vision import runs
from airpool_lab.vision.renders import renders
from studies.attack_signals import Attacked, attacked_at, batch, nearest, paint

EPSILONS = (math.inf, 10.0, 4.0, 2.0, 1.0)
CODECS = ("map", "q16", "compact", "vote")
POSITIONS = ("link", "sum")
DEVICES = 12
PICKED = ("airplane_0", "bottle_0", "car_0", "chair_0", "guitar_0", "lamp_0", "sofa_0", "table_0")
SHOWN = 1  # the camera of the pictures: 30° to the side
# Of time, for a decoder without noise; with it: 1.
SHARES = {
    "link": {"map": 6.0, "q16": 4.0, "compact": 2.0, "vote": 2.0},
    "sum": {"map": 3.0, "q16": 2.0, "compact": 2.0, "vote": 2.0},
}
MOVED = (10.0, 5.0)  # degrees, azimuth and elevation, of the moved camera
OPTIMISED_AT = (math.inf, 10.0, 4.0)
EXACT = 0.01  # standard deviation that is assumed where there is no noise: the trunk computes in finite precision


def settings(path: Path) -> None:
    """Writes the noise in units of the clip norm, 1/μ, for the ε of each position: a link's local, the sum's."""
    import airpool

    net = airpool.Network.uniform(num_devices=DEVICES, clip_norm=1.0, noise_std=0.05)
    networks = {"link": replace(net, channel=airpool.Channel(access="orthogonal")), "sum": net}
    found: dict[str, dict[str, float]] = {}
    for position, network in networks.items():
        together = 1 if position == "link" else DEVICES
        found[position] = {
            f"{e:g}": airpool.calibrate(network, epsilon=e).devices.column("noise_std")[0] * DEVICES * together**0.5
            if e < math.inf
            else 0.0
            for e in EPSILONS
        }
    record = {"version": __version__, "delta": airpool.Claim().delta, "devices": DEVICES, "noise_std": found}
    files.write(path, json.dumps(record, indent=1) + "\n")


@dataclass(frozen=True, eq=False)
class Data:
    """Trunk, senders of each codec, scenes: training, test, test by a moved camera, our own shapes."""

    trunk: nn.Sequential
    senders: dict[str, Any]
    training: Scenes
    test: Scenes
    moved: Scenes
    own: Scenes
    names: list[str]  # of our own shapes
    mean: Tensor  # picture of each camera, of training objects
    of_class: Tensor


def gathered(args: argparse.Namespace, device: torch.device) -> Data:
    folder = assets.folder("the attack") / "modelnet40"
    model, _ = weights.load(folder / "trunk.safetensors", device=device)
    head, _ = local.load(folder / "head.safetensors", device=device)
    source = runs.source(args.meshes, limit=args.objects)
    rows = alone(source)
    labels = torch.from_numpy(source.meshes.label[rows].astype(np.int64)).to(device)
    seen = source.images("train", resolution=224, torch_device=device)
    made = partial(scenes, model.features, side=args.side)
    training = made(seen.views, seen.labels)
    test = made(renders(source.meshes, rows, Cameras(), torch_device=device), labels)
    moved = made(renders(source.meshes, rows, Cameras(1, 30 + MOVED[1], MOVED[0]), torch_device=device), labels)
    every = shapes.all()
    ours = views([(each.vertices, each.faces) for each in every], device=device, dtype=torch.uint8)
    own = made(ours, torch.tensor([source.classes.index(each.label) for each in every], device=device))
    senders: dict[str, Any] = dict(zip(("map", "q16"), targets.channels(training.maps.split(64)), strict=True))
    for name in ("compact", "vote"):
        senders[name] = targets.CodecSignals(codecs.load(folder / f"{name}.safetensors", device=device)[0], head)
    names, means = [each.name for each in every], mean_pictures(training, len(source.classes))
    return Data(model.features, senders, training, test, moved, own, names, *means)


@dataclass(eq=False)
class Run:
    """One position: the attacks on each codec at each ε, and their results."""

    args: argparse.Namespace
    position: str
    device: torch.device
    data: Data
    out: dict[str, Any]
    begin: float
    pictures: dict[str, Tensor] = field(default_factory=dict)

    def say(self, text: str) -> None:
        print(f"{time.perf_counter() - self.begin:6.1f} s  {text}", flush=True)

    def left(self) -> float:
        return self.args.seconds - (time.perf_counter() - self.begin)

    def keep(self) -> None:
        name = self.position + ("" if tuple(self.args.codec) == CODECS else "-" + "-".join(self.args.codec))
        files.write(self.args.out / f"{name}.json", json.dumps(files.jsonable(self.out), indent=1) + "\n")
        files.write_tensors(self.args.out / f"{name}.safetensors", self.pictures)

    def attack(self, attacked: Attacked, codec: str, epsilon: float, seconds: float) -> None:
        """Identification, a decoder, and on a link optimisation through the trunk, at one ε."""
        args, data, out = self.args, self.data, self.out
        std = out["settings"]["noise_std"][self.position][f"{epsilon:g}"]
        about = {"codec": codec, "epsilon": epsilon, "noise_std": std}
        out["identification"] += [{**about, **each} for each in identification(attacked, data, std, codec, args)]
        dimension, channels = attacked.space.directions.shape[1], 0 if std else attacked.channels
        start = data.mean if args.start == "mean" else torch.full_like(data.mean, 0.5)
        decoder = Decoder(dimension, start, width=args.width, channels=channels).to(self.device)
        steps = train(decoder, partial(batch, attacked, data.training, std), seconds=seconds, learning_rate=args.rate)
        rng = torch.Generator(self.device).manual_seed(args.seed + 1)
        camera = of_each(data.test)
        painted = paint(decoder, attacked, attacked.test, camera, (std, rng))
        ours = paint(decoder, attacked, attacked.own, torch.full_like(data.own.labels, SHOWN), (std, rng))
        target = data.own.pictures[:, SHOWN].float() / 255
        record = {
            **about,
            "start": args.start,
            "learning_rate": args.rate,
            "steps": steps,
            "seconds": seconds,
            "recovered": attacked.space.recovered(std),
            **measured(data, painted),
            "own_shapes": {"psnr": summary(likeness.psnr(ours, target, likeness.foreground(target)))},
        }
        out["decoders"].append(record)
        picked = [i for i, name in enumerate(data.names) if name in PICKED]
        self.pictures[f"{codec}/{epsilon:g}"] = ours[picked].mul(255).round().byte()
        self.say(
            f"  ε = {epsilon:g}: {steps} steps, PSNR {record['psnr']['mean']:.2f} SSIM {record['ssim']['mean']:.3f}"
        )
        if self.position == "link" and epsilon in OPTIMISED_AT and self.left() > 12:
            out["inversion"].append({**about, **inversion(decoder, attacked, data, data.senders[codec], std, args)})
            found = out["inversion"][-1]
            change = {name: round(e["mean"] - found["before"][name]["mean"], 3) for name, e in found["after"].items()}
            self.say(f"  optimised: {change}")


def attack(args: argparse.Namespace) -> None:
    begin, device = time.perf_counter(), torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    data = gathered(args, device)
    todo = [(place, codec, epsilon) for place in args.position for codec in args.codec for epsilon in EPSILONS]
    for place in args.position:
        run = Run(args, place, device, data, described(args, place, data, device), begin)
        run.say(f"{place}: {len(data.training)} training, {len(data.test)} test objects on {device}")
        for codec in args.codec:
            attacked = attacked_at(data.senders[codec], (data.training, data.test, data.own), place)
            run.say(f"{codec}: r = {attacked.train.whole.shape[-1]}, {attacked.space.directions.shape[1]} coordinates")
            for epsilon in EPSILONS:
                share = [SHARES[p][c] if e == math.inf else 1.0 for p, c, e in todo]
                reserve = 10 + args.inversion * sum(p == "link" and e in OPTIMISED_AT for p, _, e in todo)
                todo.pop(0)
                seconds = max(run.left() - reserve, 1.0) * share[0] / sum(share) - args.measuring
                run.attack(attacked, codec, epsilon, max(seconds, 0.5))
                run.keep()
                if run.left() < 5:
                    run.say("out of time")
                    return


def described(args: argparse.Namespace, place: str, data: Data, device: torch.device) -> dict[str, Any]:
    """All that made the results, and what is painted without a signal."""
    camera = of_each(data.test)
    shown = likeness.foreground(data.training.pictures)
    inside = (data.training.pictures.float() * shown).sum(0) / shown.sum(0).clamp(min=1) / 255
    without = {
        "mean": data.mean[camera],
        "class_mean": data.of_class[data.test.labels, camera],
        "foreground_mean": inside[camera],  # of the pixels where there is an object
    }
    return {
        "command": "studies.attack_decoders",
        "version": __version__,
        "torch": torch.__version__,
        "device": str(device),
        "seed": args.seed,
        "position": place,
        "settings": json.loads(args.settings.read_text("utf-8")),
        "objects": {"train": len(data.training), "test": len(data.test), "own_shapes": len(data.own)},
        "parameters": {"side": args.side, "width": args.width, "moved": MOVED, "cameras": DEVICES},
        "without_signal": {name: measured(data, each) for name, each in without.items()},
        "shapes": [name for name in data.names if name in PICKED],
        "camera_shown": SHOWN,
        "decoders": [],
        "identification": [],
        "inversion": [],
    }


def of_each(test: Scenes) -> Tensor:
    """The camera whose view of each object is attacked: all of them in turn."""
    return torch.arange(len(test), device=test.labels.device) % DEVICES


def measured(data: Data, painted: Tensor) -> dict[str, Any]:
    """PSNR on foreground pixels and overall, SSIM and perceptual distance of pictures of the test objects."""
    camera = of_each(data.test)
    originals = data.test.originals(torch.arange(len(camera), device=camera.device), camera)
    pairs = list(zip(painted.split(128), originals.split(128), strict=True))
    found = {
        "psnr": likeness.psnr(painted, originals, likeness.foreground(originals)),
        "psnr_whole": likeness.psnr(painted, originals),
        "ssim": torch.cat([likeness.ssim(a, b) for a, b in pairs]),
        "perceptual": torch.cat([likeness.perceptual(data.trunk, a, b, resolution=224) for a, b in pairs]),
    }
    return {name: summary(each) for name, each in found.items()}


def summary(values: Tensor) -> dict[str, float]:
    finite = values.double()[values.isfinite()]
    return {"mean": float(finite.mean()), "standard_error": float(finite.std() / math.sqrt(len(finite)))}


@torch.no_grad()
def identification(
    attacked: Attacked, data: Data, std: float, codec: str, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Rates at which test objects are found in a gallery of all of them: with the attacked render (camera 0; of the
    sum, all renders), with the next camera's, with a moved camera's."""
    latents = attacked.test.whole
    rng = torch.Generator(latents.device).manual_seed(args.seed + 2)
    galleries = {"attacked": latents[:, 0]}
    if attacked.train.whole.shape[1] > 1:
        first = torch.zeros(1, dtype=torch.long, device=latents.device)
        moved = [data.senders[codec].encode(some, first)[:, 0] for some in data.moved.maps.split(64)]
        galleries |= {"next camera": latents[:, 1], "moved camera": torch.cat(moved)}
    rows, right = torch.arange(len(latents), device=latents.device), dict.fromkeys(galleries, 0)
    trials = args.trials if std else 1
    for some in [some for _ in range(trials) for some in rows.split(256)]:
        sent = latents[some, 0].float()
        received = sent + std * torch.randn(sent.shape, device=sent.device, generator=rng)
        for name, entries in galleries.items():
            right[name] += int((nearest(received, entries) == some).sum())
    total = trials * len(latents)
    return [{"gallery": name, "size": len(latents), "trials": total, "rate": n / total} for name, n in right.items()]


def inverted(
    sketch: Tensor,
    signals: Tensor,
    draw: Callable[[Tensor], Tensor],
    encode: Callable[[Tensor], Tensor],
    *,
    noise_std: float,
    steps: int = 100,
    learning_rate: float = 0.02,
) -> Tensor:
    """Sketches (B, ...) near the given ones whose views make the signals (B, r) likelier, by Adam.

        ‖y − z(x(h))‖²/2σ² + ½ Σ ((h − h₀)/s)²,   s: standard deviation of h over the batch

    Pixels that are free would fit the signal by patterns that no object shows. So the decoder's sketch is free, the
    first layer that has places, and its later layers draw: they paint views alone.

    draw: sketches to views, encode: views to latents, both differentiable. Steps are in units of s.
    """
    start = sketch.detach()
    spread = float(start.std())
    moved = torch.zeros_like(start).requires_grad_()
    optimizer = torch.optim.Adam([moved], lr=learning_rate)
    noise = max(noise_std, EXACT)
    for _ in range(steps):
        misfit = (encode(draw(start + spread * moved)) - signals).square().sum(1) / (2 * noise**2)
        loss = misfit.sum() + moved.square().sum() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (start + spread * moved).detach()


def inversion(
    decoder: Decoder, attacked: Attacked, data: Data, sender: Any, std: float, args: argparse.Namespace
) -> dict[str, Any]:
    """Likeness before and after optimisation through the trunk, over a few test views, and the signal's misfit."""
    decoder.requires_grad_(False)
    data.trunk.requires_grad_(False)
    camera = of_each(data.test)
    rows = torch.linspace(0, len(camera) - 1, min(args.inverted, len(camera)), device=camera.device).long()
    camera = camera[rows]
    latents, rng = attacked.test.whole[rows, camera].float(), torch.Generator(camera.device).manual_seed(args.seed + 3)
    received = latents + std * torch.randn(latents.shape, device=camera.device, generator=rng)
    originals = data.test.originals(rows, camera)
    projected = attacked.space.scaled(attacked.space.project(received), std)
    with torch.no_grad():
        sketch = decoder.sketch(projected, camera, None if std else attacked.as_map(received))

    def draw(sketch: Tensor) -> Tensor:
        return F.interpolate(decoder.drawn(sketch, camera), size=(224, 224), mode="bilinear", align_corners=False)

    def encode(seen: Tensor) -> Tensor:
        return sender.encode(data.trunk(seen)[:, None], camera[:, None])[:, 0]

    better = inverted(sketch, received, draw, encode, noise_std=std, steps=args.inversion_steps)
    out: dict[str, Any] = {"views": len(rows), "steps": args.inversion_steps}
    for name, each in (("before", sketch), ("after", better)):
        with torch.no_grad():
            painted = decoder.drawn(each, camera)
            misfit = (encode(draw(each)) - received).square().sum(1).sqrt()
        out[name] = {
            "psnr": summary(likeness.psnr(painted, originals, likeness.foreground(originals))),
            "ssim": summary(likeness.ssim(painted, originals)),
            "perceptual": summary(likeness.perceptual(data.trunk, painted, originals, resolution=224)),
            "misfit": summary(misfit),
        }
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("settings").add_argument("path", type=Path)
    run = commands.add_parser("run")
    run.add_argument("meshes", type=Path)
    run.add_argument("--settings", type=Path, required=True)
    run.add_argument("--position", nargs="+", choices=POSITIONS, default=list(POSITIONS))
    run.add_argument("--codec", nargs="+", choices=CODECS, default=list(CODECS))
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--seconds", type=float, default=540.0, help="from the start of this command")
    run.add_argument("--objects", type=int, default=None, help="use at most N objects of each split")
    run.add_argument("--side", type=int, default=112)
    run.add_argument("--width", type=int, default=64)
    run.add_argument("--start", choices=("mean", "grey"), default="mean", help="picture that training starts from")
    run.add_argument("--rate", type=float, default=2e-3, help="learning rate")
    run.add_argument("--trials", type=int, default=4, help="signals of each object in identification")
    run.add_argument(
        "--inversion", type=float, default=4.0, help="seconds kept for each optimisation through the trunk"
    )
    run.add_argument("--measuring", type=float, default=3.0, help="seconds kept for measuring each decoder")
    run.add_argument("--inverted", type=int, default=48, help="views that are optimised")
    run.add_argument("--inversion-steps", type=int, default=100)
    run.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    if args.command == "settings":
        settings(args.path)
    else:
        attack(args)


if __name__ == "__main__":
    main()
