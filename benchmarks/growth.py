"""How costs grow: with devices, inferences, coordinates, rows of a ledger; each curve beside its simplest rival."""

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from airpool import Network
from airpool.privacy import compose, device
from airpool.privacy.leak import PerDevice
from airpool.protocol.simulation import receive
from airpool_runtime.keys import authority
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism

from . import Curve, privacy, secure
from .privacy import heterogeneous, like, peer_losses, peer_mixture, plain_mixture

_LONG = 4.0  # seconds after which the next, larger point of a line is left out


def curves() -> list[Curve]:
    return [_devices(), _inferences(), *_air(), _ledger(), _secure()]


def line(points: Sequence[Callable[[], object]], repeat: int = 3) -> tuple[float | None, ...]:
    """Median milliseconds of each point, smallest first; None after one that took too long."""
    found: list[float | None] = []
    for point in points:
        if found and (found[-1] is None or found[-1] > 1e3 * _LONG):
            found.append(None)
            continue
        first = privacy.timed(point)[0]
        took = [privacy.timed(point)[0] for _ in range(repeat if first < 1 else 0)] or [first]
        found.append(1e3 * median(took))
    return tuple(found)


def _devices() -> Curve:
    sizes = (2, 4, 8, 12, 16, 20, 50, 200, 1_000, 10_000)
    ours = [partial(device.epsilon, heterogeneous(n), 1e-5) for n in sizes]
    few = [n for n in sizes if n <= 20]
    pad = (None,) * (len(sizes) - len(few))
    return Curve(
        "devices",
        "ε of all devices, no two alike",
        "devices K",
        "ms",
        sizes,
        {
            "airpool": line(ours),
            "fifteen lines of SciPy": line([partial(plain_mixture, heterogeneous(n)) for n in few]) + pad,
            "dp-accounting, one device": line([partial(peer_mixture, heterogeneous(n), 0) for n in few]) + pad,
        },
        "The rivals sum over all 2^(K − 1) patterns of who takes part; airpool does up to 16 devices, then a grid with "
        "both ends known.",
    )


def _inferences() -> Curve:
    counts, leak = (1, 10, 100, 1_000, 10_000, 100_000), device.by_coin(like(12), "zero-out")
    # Both start from the law of one inference, which is made once.
    losses = peer_losses(like(12), 0)
    return Curve(
        "inferences",
        "ε of a stream, 12 like devices, p = 0.9",
        "inferences T",
        "ms",
        counts,
        {
            "airpool, with the first curve": line([partial(_streamed, leak, count) for count in counts]),
            "dp-accounting, without": line(
                [lambda t=count: losses.self_compose(t).get_epsilon_for_delta(1e-5) for count in counts]
            ),
        },
    )


def _streamed(leak: PerDevice, count: int) -> float:
    return compose.stream(leak).repeated(count).epsilon(1e-5)


def _air() -> list[Curve]:
    def job(count: int, r: int, trials: int, path: str) -> Callable[[], object]:
        net = Network.uniform(num_devices=count, dimension=r, participation=0.9)
        z = np.random.default_rng(7).standard_normal((1, count, r))
        return lambda: receive(z, net, rng=np.random.default_rng(1), trials=trials, path=path)  # pyright: ignore[reportArgumentType]

    def plain(count: int, r: int, trials: int) -> Callable[[], object]:
        z = np.random.default_rng(7).standard_normal((count, r))
        z /= np.maximum(1, np.linalg.norm(z, axis=-1, keepdims=True))

        def once() -> object:
            rng = np.random.default_rng(1)
            speaks = rng.random((trials, count)) < 0.9
            return np.einsum("nk,nkr->nr", speaks, z / count + rng.normal(0, 0.05, (trials, count, r)))

        return once

    def curve(name: str, title: str, axis: str, sizes: Sequence[tuple[int, int]]) -> Curve:
        x = tuple(k if name == "air-devices" else r for k, r in sizes)
        lines = {
            "fast path": line([job(*size, 500, "fast") for size in sizes]),
            "full path, every signal": line([job(*size, 500, "full") for size in sizes]),
            "every signal in four lines of NumPy": line([plain(*size, 500) for size in sizes]),
        }
        return Curve(name, title, axis, "ms", x, lines)

    return [
        curve("air-devices", "500 inferences, r = 40", "devices K", [(k, 40) for k in (4, 12, 40, 120, 400, 1_200)]),
        curve(
            "air-coordinates",
            "500 inferences, 12 devices",
            "coordinates r",
            [(12, r) for r in (8, 40, 200, 784, 4_000)],
        ),
    ]


def _ledger() -> Curve:
    """Milliseconds of a charge, and of appending a line, after so many rows."""
    sizes, each = (1, 100, 1_000, 10_000), 50
    one = mechanism(Network.uniform(num_devices=12, noise_std=0.5), device=3)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        keys, took, sent = Path(folder) / "keys", [], 0
        authority.create(keys)
        key = authority.add(keys, "device-3") / "identity.key"
        with Ledger(Path(folder) / "ledger.db", key, budgets=[Budget(1e6)]) as ledger:
            ledger.prepare(one)
            for size in sizes:
                for sent in range(sent + 1, size):  # noqa: B020
                    ledger.charge(f"inference {sent}", one)
                times = []
                for sent in range(sent + 1, sent + 1 + each):  # noqa: B020
                    begin = time.perf_counter()
                    ledger.charge(f"inference {sent}", one)
                    times.append(time.perf_counter() - begin)
                took.append(1e3 * median(times))
    return Curve("ledger", "a charge in a ledger", "rows before it", "ms", sizes, {"airpool": tuple(took)})


def _secure() -> Curve:
    sizes = (3, 6, 12, 25, 50, 100)
    rng = np.random.default_rng(0)
    values = {n: rng.normal(0, 0.1, (n, 40)) for n in sizes}
    return Curve(
        "secure",
        "a secure sum, r = 40, a third may drop out",
        "devices K",
        "ms",
        sizes,
        {
            "airpool, CPU time of all devices": tuple(1e3 * secure.alone(n, 40, n // 3, 2)[0] for n in sizes),
            "a plain sum: the server sees all": line([partial(np.sum, values[n], axis=0) for n in sizes], repeat=99),
        },
        "Every device agrees on a key with every other: the work of one grows with K, that of all with K².",
    )
