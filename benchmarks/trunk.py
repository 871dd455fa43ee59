"""Views rendered a second, and views a second through the trunk: in float32 by torch, in int8 by OpenVINO.

Runs on the CPU as part of `make bench`, and on a CUDA device as `python -m benchmarks.trunk --device cuda`, which needs
torch alone. Objects and weights are made up: neither changes the speed. What int8 costs in accuracy is measured by
`python -m benchmarks.int8`.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from airpool.data.views import object_views
from airpool.models.vgg import Architecture, trunk

from . import Row

VIEWS, SIDE = 12, 30
MISSING = "not installed: pip install 'airpool[int8]'"


def objects(count: int, device: str = "cpu") -> Tensor:
    """Ellipsoids (count, 12, 30, 30, 30), each turned into twelve poses."""
    ticks = torch.linspace(-1.25, 1.25, SIDE, device=device)
    x, y, z = torch.meshgrid(ticks, ticks, ticks, indexing="ij")
    angle = torch.arange(VIEWS, device=device)[:, None, None, None] * (2 * torch.pi / VIEWS)
    along, across = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
    width = torch.linspace(0.3, 0.9, count, device=device)[:, None, None, None, None]
    return along**2 + (across / width) ** 2 + (z / 0.7) ** 2 < 1


def made(device: str = "cpu") -> nn.Sequential:
    """The trunk of the default architecture with random weights, fit to run."""
    torch.manual_seed(0)
    network = trunk(Architecture()).eval().requires_grad_(False).to(device)
    return network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]


def rows() -> list[Row]:
    """On the CPU: one object's views at a time, as a row of devices sees it, and one view alone, as one device does."""
    some = objects(4)
    views = object_views(some[:1])[0]
    batch, alone = (each.contiguous(memory_format=torch.channels_last) for each in (views, views[:1]))
    plain = made()
    jobs: dict[str, Callable[[], object]] = {
        "one object": partial(object_views, some[:1]),
        "several": partial(object_views, some),
        "plain": partial(plain, batch),
        "plain alone": partial(plain, alone),
    }
    if find_spec("openvino"):
        from airpool.models.int8 import quantise

        whole = quantise(plain, views)
        jobs |= {"int8": partial(whole, batch), "int8 alone": partial(whole, alone)}
    took = medians(jobs)

    def row(what: str, value: float | None, unit: str, note: str = "", limit: float | None = None) -> Row:
        return Row("trunk", what, value, unit, note, limit)

    threads = f"{torch.get_num_threads()} threads"
    found = [
        row("views rendered, 112 px", VIEWS * len(some) / took["several"], "/s", threads),
        row(f"- all {VIEWS} of one object", took["one object"], "s", limit=1.0),
        row("views through the trunk, torch, float32", VIEWS / took["plain"], "/s", f"{VIEWS} at a time; {threads}"),
        row("- one alone", took["plain alone"], "s"),
    ]
    if "int8" not in jobs:
        return [*found, row("views through the trunk, OpenVINO, int8", None, "/s", MISSING)]
    return [
        *found,
        row("views through the trunk, OpenVINO, int8", VIEWS / took["int8"], "/s", "its accuracy: docs/models.md"),
        row("- one alone", took["int8 alone"], "s"),
        row("- as many times torch's float32", took["plain"] / took["int8"], "times", "in the same run"),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--objects", type=int, default=None, help="at once; 64 on CUDA, 4 on the CPU")
    parser.add_argument("--json", default=None)
    args = parser.parse_args()
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
