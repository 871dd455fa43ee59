"""Views rendered a second, and views a second through the trunk: in float32 by torch, in int8 by ONNX Runtime.

Runs on the CPU as part of `make bench`, and on a CUDA device as `python -m benchmarks.trunk --device cuda`, which needs
torch alone. Objects and weights are made up: neither changes the speed. What int8 costs in accuracy is measured by
`python -m benchmarks.int8`. The trunks side by side, with the record of each file of weights if some are named:

    python -m benchmarks.trunk --table [WEIGHTS.safetensors ...]
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from airpool._support import extras
from airpool.models.vision.mvcnn import MVCNN, Architecture
from airpool.models.vision.views import Cameras, Triangles, placed, render

from . import Row

VIEWS = 12
RESOLUTION = Architecture().resolution
MISSING = f"not installed: {extras.install('airpool-lab[bundle]')}"


def objects(count: int, device: str = "cpu") -> Triangles:
    """Ellipsoids of 2,048 faces each."""
    steps = torch.arange(33) / 32 * torch.pi
    up, around = torch.meshgrid(steps, 2 * steps, indexing="ij")
    ball = torch.stack((up.sin() * around.cos(), up.sin() * around.sin(), up.cos()), -1).flatten(0, 1)
    first = (torch.arange(32)[:, None] * 33 + torch.arange(32)).reshape(-1, 1)
    faces = torch.cat((first + torch.tensor([0, 1, 33]), first + torch.tensor([1, 34, 33])))
    widths = torch.linspace(0.3, 0.9, count).tolist()
    return placed([(ball * torch.tensor([1.0, width, 0.7]), faces) for width in widths], 30.0, device=device)


def object_views(some: Triangles) -> Tensor:
    return render(some, Cameras(resolution=RESOLUTION))


def made(device: str = "cpu", trunk: str = Architecture().trunk) -> nn.Sequential:
    """A trunk of this name with random weights, fit to run."""
    torch.manual_seed(0)
    network = MVCNN(Architecture(trunk)).features.eval().requires_grad_(False).to(device)
    return network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]


def rows() -> list[Row]:
    """On the CPU: one object's views at a time, as a row of devices sees it, and one view alone, as one device does."""
    one, some = objects(1), objects(4)
    views = object_views(one)[0]
    batch, alone = (each.contiguous(memory_format=torch.channels_last) for each in (views, views[:1]))
    plain = made()
    jobs: dict[str, Callable[[], object]] = {
        "one object": partial(object_views, one),
        "several": partial(object_views, some),
        "plain": partial(plain, batch),
        "plain alone": partial(plain, alone),
    }
    if find_spec("onnx") and find_spec("onnxruntime"):
        from airpool_lab.vision.quantisation import quantise

        whole = quantise(plain, views, threads=torch.get_num_threads())
        jobs |= {"int8": partial(whole, views.numpy()), "int8 alone": partial(whole, views[:1].numpy())}
    took = medians(jobs)

    def row(what: str, value: float | None, unit: str, note: str = "", limit: float | None = None) -> Row:
        return Row("trunk", what, value, unit, note, limit)

    threads = f"{torch.get_num_threads()} threads"
    found = [
        row(f"views rendered, {RESOLUTION} px", VIEWS * some.num_meshes / took["several"], "/s", threads),
        row(f"- all {VIEWS} of one object", took["one object"], "s", limit=1.0),
        row("views through the trunk, torch, float32", VIEWS / took["plain"], "/s", f"{VIEWS} at a time; {threads}"),
        row("- one alone", took["plain alone"], "s"),
    ]
    if "int8" not in jobs:
        return [*found, row("views through the trunk, ONNX Runtime, int8", None, "/s", MISSING)]
    return [
        *found,
        Row(
            "trunk",
            f"{VIEWS} views through the trunk, ONNX Runtime, int8",
            took["int8"],
            "s",
            f"{VIEWS / took['int8']:.1f} a second; its accuracy: docs/results/models.md",
            rival=took["plain"],
            beside="torch, float32",
        ),
        Row("trunk", "- one alone", took["int8 alone"], "s", rival=took["plain alone"], beside="torch, float32"),
    ]


def medians(jobs: dict[str, Callable[[], object]], *, device: str = "cpu", rounds: int = 9) -> dict[str, float]:
    """The median time of each job, in turns, after one round that does not count."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(1 + rounds):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - start)
    return {name: median(found[1:]) for name, found in times.items()}


@torch.no_grad()
def bulk(device: str, *, count: int) -> dict[str, Any]:
    """Views a second of `count` objects at once: rendered, and through the trunk in float32, TF32 and bfloat16."""
    some = objects(count, device)
    views = object_views(some).flatten(0, 1).contiguous(memory_format=torch.channels_last)
    network = made(device)

    def through(*, tf32: bool = False, half: bool = False) -> None:
        torch.backends.cudnn.allow_tf32 = tf32
        with torch.autocast(device, torch.bfloat16, enabled=half):
            network(views)

    jobs: dict[str, Callable[[], object]] = {
        "rendered": partial(object_views, some),
        "float32": through,
        "tf32": partial(through, tf32=True),
        "bfloat16": partial(through, half=True),
    }
    if device == "cpu":
        jobs = {name: jobs[name] for name in ("rendered", "float32")}
    took = medians(jobs, device=device)
    found: dict[str, Any] = {f"{name}_per_second": len(views) / seconds for name, seconds in took.items()}
    return {"views": len(views), **found, "gflop_per_view": gflop(network, views[:1])}


def gflop(network: nn.Module, view: Tensor) -> float:
    """Multiplications and additions of one view, in 10⁹."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        network(view)
    return counter.get_total_flops() / 1e9


def compared(name: str) -> dict[str, float]:
    """One trunk at its first resolution: size, work, and time of a view, twelve at a time, in float32 and in int8."""
    from airpool.models import weights
    from airpool.models.vision import int8
    from airpool_lab.vision.quantisation import quantise

    plain, side = made(trunk=name), Architecture(name).resolution
    views = render(objects(1), Cameras(resolution=side))[0]
    whole = quantise(plain, views, threads=torch.get_num_threads())
    batch = views.contiguous(memory_format=torch.channels_last)
    took = medians({"float32": partial(plain, batch), "int8": partial(whole, views.numpy())})
    with TemporaryDirectory() as folder:
        stored, rounded = Path(folder, "float16"), Path(folder, "int8")
        weights.write(stored, plain.state_dict(), {})
        int8.save(rounded, whole)
        sizes = [path.stat().st_size / 1e6 for path in (stored, rounded)]
    return {
        "pixels": side,
        "parameters, million": sum(each.numel() for each in plain.parameters()) / 1e6,
        "multiply-adds a view, million": gflop(plain, batch[:1]) * 500,
        "ms a view, float32 (torch)": 1e3 * took["float32"] / VIEWS,
        "ms a view, int8 (ONNX Runtime)": 1e3 * took["int8"] / VIEWS,
        "views a second, int8": VIEWS / took["int8"],
        "times faster in int8": took["float32"] / took["int8"],
        "MB stored, float16": sizes[0],
        "MB stored, int8": sizes[1],
    }


def print_trunks(names: Sequence[str], files: Sequence[Path]) -> None:
    """The trunks side by side, and what the header of each file says."""
    from airpool.models import weights

    found = [compared(name) for name in names]
    print(f"{f'{torch.get_num_threads()} threads':32}", *(f"{name:>10}" for name in names))
    for what in found[0]:
        print(f"{what:32}", *(f"{each[what]:10.4g}" for each in found))
    for file in files:
        print(f"{file.name}:", json.dumps(weights.read(file)[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--objects", type=int, default=None, help="at once; 64 on CUDA, 4 on the CPU")
    parser.add_argument("--json", default=None)
    parser.add_argument("--table", type=Path, nargs="*", metavar="WEIGHTS", help="VGG11, Lite0 and Lite2 side by side")
    args = parser.parse_args()
    if args.table is not None:
        return print_trunks(("vgg11", "lite0", "lite2"), args.table)
    torch.backends.cudnn.benchmark = True
    result: dict[str, Any] = {"device": args.device, "torch": torch.__version__}
    if args.device == "cuda":
        result["name"] = torch.cuda.get_device_name()
    result |= bulk(args.device, count=args.objects or (64 if args.device == "cuda" else 4))
    if args.device == "cuda":
        result["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
    print(json.dumps(result, indent=1))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
