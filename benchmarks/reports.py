"""How long a privacy report takes: the radios that were slow, and random networks over all options.

`python -m benchmarks.reports FIRST LAST` lists the random networks between two seeds that take longest.
"""

import sys
import time
from typing import Any

import numpy as np

from airpool.account.guarantee import guarantee
from airpool.network import Adversary, Channel, Claim, Devices, Network, named_scheme
from airpool_lab.waveform.frame import Frame
from airpool_lab.waveform.reception import waveform_epsilon
from airpool_lab.waveform.uplink import Impairments, Uplink, uplink

from . import Row
from .privacy import timed

# Seeds of the random networks in the table.
_SEEDS = 12


def heterogeneous(num_devices: int, **channel: Any) -> Network:
    """Devices with noise, participation and so outage of their own, in Rayleigh fading."""
    rng = np.random.default_rng(0)
    devices = Devices(
        count=num_devices,
        weight=1 / num_devices,
        noise_std=tuple(np.exp(rng.uniform(np.log(0.02), np.log(0.2), num_devices)).tolist()),
        participation=tuple(rng.uniform(0.6, 1.0, num_devices).tolist()),
    )
    return Network(devices=devices, channel=Channel(fading="rayleigh", outage=0.05, **channel), dimension=40)


def random_network(seed: int) -> tuple[Network, Claim]:
    """Up to 100 devices, alike or not, and every option of network and radio."""
    rng = np.random.default_rng([28, seed])
    count = int(rng.choice([2, 5, 12, 30, 64, 100]))

    def one(*options: Any) -> Any:
        return options[rng.integers(len(options))]

    def column(low: float, high: float) -> tuple[float, ...]:
        values = np.exp(rng.uniform(np.log(low), np.log(high), count))
        kinds = one(1, 3, count)  # how many different devices
        return tuple(values[np.arange(count) % kinds].tolist())

    scheme = one("1", "1", "2.1", "2.2")
    loss = one((0.0,) * count, column(1.0, 15.0))
    devices = Devices(
        count=count,
        weight=1 / count,
        noise_std=column(0.02, 0.5),
        participation=one((1.0,) * count, column(0.3, 1.0)),
        path_loss_db=loss,
    )
    channel = Channel(
        fading=one("none", "rician", "rayleigh"),
        outage=float(np.exp(rng.uniform(np.log(1e-4), np.log(0.5)))),
        power_rule=one("truncate", "truncate", "backoff"),
        access=one("superposed", "superposed", "superposed", "orthogonal"),
        csi_error_std=one(0.0, float(rng.uniform(0.02, 0.2)) * 10 ** (-max(loss) / 20)),
        phase_error_std=one(0.0, 0.2),
        antennas=one(1, 1, 2, 4),
        redrawn=one(True, False),
    )
    chosen = named_scheme(
        name=scheme,
        score_noise_std=float(rng.uniform(0.2, 2.0)),
        threshold=float(rng.uniform(-0.5, 1.5)),
        num_selected=int(rng.integers(1, count + 1)),
    )
    dimension, inferences = one(1, 40, 784), one(1, 1, 100, 2**20)
    claim = Claim(
        delta=float(10 ** rng.uniform(-12 if inferences == 1 else -10, -3)),
        neighbours=one("zero-out", "replace", "remove") if scheme == "1" else one("zero-out", "replace"),
        inferences=inferences,
    )
    network = Network(
        devices=devices,
        channel=channel,
        scheme=chosen,
        dimension=dimension,
        cover_noise=one(True, False, False),
        colluders=one(0, 0, 1),
        dropouts=one(0, 0, 1),
        adversary=Adversary(antennas=one(0, 0, 1, 3)),
    )
    return network, claim


def random_waveform(seed: int) -> tuple[Network, Claim, Uplink]:
    """Up to 100 devices over one draw of an OFDM uplink with paths and offsets of their own."""
    rng = np.random.default_rng([28, seed, 1])
    count, dimension = int(rng.choice([2, 5, 12, 30, 64, 100])), int(rng.choice([1, 40, 784]))
    noise = tuple(np.exp(rng.uniform(np.log(0.02), np.log(0.5), count)).tolist())
    devices = Devices(count=count, weight=1 / count, noise_std=noise)
    network, claim = Network(devices=devices, dimension=dimension), Claim(inferences=int(rng.choice([1, 100])))
    imperfect = Impairments(num_taps=3, direct=0.7, pilot_noise_std=0.05, timing=1, carrier_std=0.01)
    return network, claim, uplink((1, count), -(-dimension // 2), Frame(), imperfect, rng)


def rows() -> list[Row]:
    uniform = Network.uniform(num_devices=12, noise_std=0.05, channel=Channel(fading="rayleigh", antennas=2))
    cases = (
        ("12 like devices, Rayleigh, 2 server antennas", uniform),
        ("12 heterogeneous devices, Rayleigh, 2 server antennas", heterogeneous(12, antennas=2)),
        ("40 heterogeneous devices, CSI errors", heterogeneous(40, csi_error_std=0.1)),
        ("160 heterogeneous devices, CSI errors", heterogeneous(160, csi_error_std=0.1)),
    )
    out = [Row("reports", what, timed(lambda net=net: guarantee(net))[0], "s", "once", 10.0) for what, net in cases]
    shares = {what: odds_share(*each) for what, each in _of_odds().items()}
    what = max(shares, key=lambda each: shares[each])
    named = f"odds, share of a report's time: largest of {len(shares)} ({what})"
    out.append(Row("reports", named, 100 * shares[what], "%", "", 20.0))
    slowest = max(timed(lambda seed=seed: guarantee(*random_network(seed)))[0] for seed in range(_SEEDS))
    return [*out, Row("reports", f"slowest of {_SEEDS} random networks, all options", slowest, "s", "", 10.0)]


def _of_odds() -> dict[str, tuple[Network, Claim]]:
    """Kinds of networks, and of claims on them, whose odds are computed in different ways."""
    twelve: dict[str, Any] = {"num_devices": 12, "noise_std": 0.05}
    coins: dict[str, Any] = twelve | {"participation": 0.5}
    hundred, once = (
        Claim(inferences=100),
        {
            "Gaussian": Network.uniform(**twelve),
            "coins": Network.uniform(**coins),
            "cover noise": Network.uniform(**coins, cover_noise=True),
            "2.1": Network.uniform(**twelve, scheme=named_scheme("2.1", score_noise_std=1.0)),
            "2.2": Network.uniform(**twelve, scheme=named_scheme("2.2")),
            "eavesdropper": Network.uniform(**twelve, adversary=Adversary(antennas=2)),
            "CSI errors": Network.uniform(**twelve, channel=Channel(fading="rayleigh", csi_error_std=0.1)),
            "40 heterogeneous devices": heterogeneous(40),
        },
    )
    often = {
        "coins": once["coins"],
        "cover noise": once["cover noise"],
        "2.1": Network.uniform(**twelve, scheme=named_scheme("2.1", score_noise_std=5.0)),
        "heterogeneous": heterogeneous(12),
    }
    return {what: (net, Claim()) for what, net in once.items()} | {
        f"{what}, 100 inferences": (net, hundred) for what, net in often.items()
    }


def odds_share(network: Network, claim: Claim, times: int = 3) -> float:
    """Share of the odds in the CPU time of a report as JSON, the least of a few."""

    def once() -> tuple[float, float]:
        start = time.process_time()
        report = guarantee(network, claim)
        before = time.process_time()
        _ = report.odds
        after = time.process_time()
        report.to_json()
        return after - before, time.process_time() - start

    odds, whole = (min(each) for each in zip(*(once() for _ in range(times)), strict=True))
    return odds / whole


def _listed(first: int, last: int) -> None:
    """CPU time of every report, and what kind of network took long."""
    for seed in range(first, last):
        (network, claim), start = random_network(seed), time.process_time()
        report = guarantee(network, claim)
        took = time.process_time() - start
        print(f"{seed} {took:.1f} s, K = {network.devices.count}, worst ε {report.worst:.4g}", flush=True)
        network, claim, link = random_waveform(seed)
        start = time.process_time()
        worst = float(np.max(waveform_epsilon(network, link, claim)))
        what = f"waveform, K = {network.devices.count}, r = {network.dimension}, worst ε {worst:.4g}"
        print(f"{seed} {time.process_time() - start:.1f} s, {what}", flush=True)


if __name__ == "__main__":
    _listed(*(int(each) for each in sys.argv[1:3]))
