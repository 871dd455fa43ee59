"""Object-inferences a second over the air, next to the ceiling that matrix products and random numbers alone set.

Runs on the CPU as part of `make bench`, and on a CUDA device as `python -m benchmarks.air --device cuda`, which needs
torch, NumPy and array-api-compat only: the radio is given, not computed.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from airpool.network import Channel, Network
from airpool.protocol.simulation import Path, in_batches, receive
from airpool.radio.fading import Fading
from airpool.radio.link import Link
from airpool.radio.power import Transmitters

from . import Row

OBJECTS, DEVICES, DIMENSION, HIDDEN, CLASSES = 2468, 12, 64, 512, 40


def network(num_devices: int = DEVICES, dimension: int = DIMENSION) -> Network:
    """Rician fading, receiver noise, participation 0.9: everything that an evaluation simulates."""
    channel = Channel(fading="rician", noise_std=0.3162)
    return Network.uniform(
        num_devices=num_devices, noise_std=0.05, participation=0.9, dimension=dimension, channel=channel
    )


def link(net: Network) -> Link:
    """γ and margin of an outage near 1 %, written down so that no SciPy is needed to find them."""
    count, r = net.devices.count, net.dimension
    feature = np.full(count, 1 / count)
    noise_std = np.array(net.devices.column("noise_std"))
    transmitters = Transmitters(feature, noise_std, np.full(count, 1000.0), r, margin=0.279)
    gamma = float(transmitters.reach.min() * 0.208)
    return Link(Fading("rician", 4.8), transmitters, gamma, np.full(count, 0.01))


def server(device: str) -> Callable[[Any], Any]:
    """A decoder 64→512→40 with random weights: its speed does not depend on them."""
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Linear(DIMENSION, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES)
    ).to(device)
    return layers.requires_grad_(False)


def run(device: str, trials: int, batch: int) -> dict[str, float]:
    """Inferences a second of the whole, and of its unavoidable parts, in one run on one device."""
    import torch

    net = network()
    radio, decode = link(net), server(device)
    rng = torch.Generator(device=device).manual_seed(0)
    latents = torch.randn(OBJECTS, DEVICES, DIMENSION, generator=rng, device=device)
    label = torch.arange(OBJECTS, device=device) % CLASSES

    def whole() -> None:
        correct = torch.zeros((), device=device)
        for rows, times in in_batches(latents, trials=trials, batch=batch):
            heard = receive(latents[rows], net, rng=rng, trials=times, link=radio)
            best = decode(heard.estimate).argmax(-1)
            correct += ((best == label[rows, None]) & heard.any_signal).sum()
        correct.item()

    def products() -> None:
        for rows, times in in_batches(latents, trials=trials, batch=batch):
            x = latents[rows, :1, :].expand(-1, times, -1).contiguous()
            decode(x).argmax(-1)
        _wait(device)

    def numbers() -> None:
        for rows, times in in_batches(latents, trials=trials, batch=batch):
            n = rows.stop - rows.start
            torch.randn((n, times, DIMENSION), generator=rng, device=device)
            torch.randn((2, n, times, DEVICES), generator=rng, device=device)
            torch.rand((n, times, DEVICES), generator=rng, device=device)
        _wait(device)

    count = OBJECTS * trials
    seconds = _shortest({"whole": whole, "products": products, "numbers": numbers}, device)
    ceiling = count / (seconds["products"] + seconds["numbers"])
    reached = count / seconds["whole"]
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0.0
    return {"per_second": reached, "ceiling": ceiling, "fraction": reached / ceiling, "peak_mib": peak, **seconds}


def plain(trials: int = 100, threads: int = 2) -> dict[str, float]:
    """Seconds of the fast path and of six lines of torch that draw the same law, r = 40; the shortest of five each."""
    import torch

    net = network(dimension=40)
    known, rng = link(net), torch.Generator().manual_seed(0)
    latents = torch.nn.functional.normalize(torch.randn(OBJECTS, DEVICES, 40, generator=rng), dim=-1)
    factor = 10 ** (net.channel.k_factor_db / 10)
    least = float((known.gamma / known.transmitters.reach)[0])

    def six_lines(z: Any, t: int) -> Any:
        scattered = torch.randn((2, len(z), t, DEVICES), generator=rng) * math.sqrt(1 / (2 * (factor + 1)))
        h = torch.hypot(scattered[0] + math.sqrt(factor / (factor + 1)), scattered[1])
        tau = ((h >= least) & (torch.rand((len(z), t, DEVICES), generator=rng) < 0.9)).float()
        std = (tau.sum(-1, keepdim=True) * 0.05**2 + (net.channel.noise_std / known.gamma) ** 2).sqrt()
        return tau @ (z / DEVICES) + std * torch.randn((len(z), t, 40), generator=rng)

    def in_turn(each: Callable[[Any, int], Any]) -> Callable[[], None]:
        def job() -> None:
            for rows, times in in_batches(latents, trials=trials):
                each(latents[rows], times)

        return job

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours = in_turn(lambda z, t: receive(z, net, rng=rng, trials=t, link=known))
        return _shortest({"plain": in_turn(six_lines), "ours": ours}, "cpu", 5)
    finally:
        torch.set_num_threads(before)


def _wait(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def _shortest(jobs: dict[str, Callable[[], None]], device: str, rounds: int = 7) -> dict[str, float]:
    """The shortest time of each job, in turns: on a machine with neighbours all of them meet the same quiet moments."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            _wait(device)
            start = time.perf_counter()
            job()
            _wait(device)
            times[name].append(time.perf_counter() - start)
    return {name: min(found) for name, found in times.items()}


def growth(device: str) -> list[tuple[int, int, float]]:
    """(K, r, µs per inference) for growing K and r: linear in both."""
    import torch

    out: list[tuple[int, int, float]] = []
    for count, r in ((12, 64), (100, 64), (1000, 64), (10_000, 64), (12, 784), (12, 6272)):
        net = network(count, r)
        radio = link(net)
        rng = torch.Generator(device=device).manual_seed(0)
        latents = torch.randn(8, count, r, generator=rng, device=device)
        trials = max(1, 2**22 // (8 * (count + r)))

        def job(z: Any = latents, n: Network = net, l: Link = radio, t: int = trials, g: Any = rng) -> None:  # noqa: E741
            receive(z, n, rng=g, trials=t, link=l)

        out.append((count, r, _shortest({"job": job}, device, 4)["job"] / (8 * trials) * 1e6))
    return out


def tenfold(path: Path) -> tuple[float, float]:
    """How much longer ten times the devices take, and ten times the coordinates; 10 is linear."""

    def job(count: int, r: int) -> Callable[[], None]:
        net = Network.uniform(num_devices=count, dimension=r, participation=0.9)
        latents, known = np.random.default_rng(7).standard_normal((1, count, r)), link(net)
        # Enough on the fast path to be out of the processor's caches from the start.
        trials = 4_000 if path == "fast" else 500

        def once() -> None:
            receive(latents, net, rng=np.random.default_rng(26), trials=trials, path=path, link=known)

        return once

    jobs = {"one": job(16, 64), "devices": job(160, 64), "coordinates": job(16, 640)}
    took = _shortest(jobs, "cpu", 6)
    return took["devices"] / took["one"], took["coordinates"] / took["one"]


def rows() -> list[Row]:
    found, beside = run("cpu", trials=256, batch=2**11), plain()
    what = f"{OBJECTS * 256:,} inferences, {DEVICES} devices, r = {DIMENSION}, on the CPU"
    note = f"{found['per_second']:,.0f} a second; on an H200: benchmarks/results/air-h200.json"
    parts = found["products"] + found["numbers"]
    growth = [
        Row("air", f"ten times the {grown}, {path} path", ratio, "times the time", "10 is linear", limit=20.0)
        for path in ("fast", "full")
        for grown, ratio in zip(("devices", "coordinates"), tenfold(path), strict=True)
    ]
    return [
        Row("air", what, found["whole"], "s", note, 2 * parts, parts, "its matrix products and random numbers alone"),
        Row(
            "air",
            "fast path, K = 12, r = 40, 2 threads",
            beside["ours"],
            "s",
            limit=1.25 * beside["plain"],
            rival=beside["plain"],
            beside="six lines of torch that draw the same law",
        ),
        *growth,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--batch", type=int, default=2**11)
    parser.add_argument("--tf32", action="store_true", help="matrix products in TF32, as training on CUDA does")
    parser.add_argument("--json", default=None)
    args = parser.parse_args()
    if args.tf32:
        import torch

        torch.set_float32_matmul_precision("high")
    result: dict[str, Any] = {"device": args.device, "trials": args.trials, "batch": args.batch, "tf32": args.tf32}
    result |= run(args.device, args.trials, args.batch)
    result["growth"] = growth(args.device)
    print(json.dumps(result, indent=1))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
