"""Honest networks at random, with every setting that the audit knows."""

from typing import Any

import numpy as np

from airpool.network import Channel, Claim, Devices, Network, named_scheme


def honest(seed: int, *, playable: bool = False) -> tuple[Network, Claim]:
    """A network of 2 to 5 unlike devices, and a claim. playable: with channels known, as the games ask for."""
    rng = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    count = int(rng.integers(2, 6))

    def column(low: float, high: float) -> tuple[float, ...]:
        return tuple(rng.uniform(low, high, count).tolist())

    scheme = one_of("1", "1", "2.1", "2.2")
    access = one_of("superposed", "superposed", "superposed", "secure" if playable else "orthogonal")
    channel = {
        "fading": one_of("none", "rician", "rayleigh"),
        "noise_std": one_of(0.0, 0.2),
        "power_rule": "truncate" if playable else one_of("truncate", "truncate", "backoff", "paper"),
        "outage": float(rng.uniform(0.01, 0.4)),
    }
    if scheme == "1" and access == "superposed" and not playable:
        channel |= {"csi_error_std": one_of(0.0, 0.0, 0.1), "phase_error_std": one_of(0.0, 0.0, 0.3)}
        channel |= {"antennas": one_of(1, 1, 3)}
    secure = access == "secure"
    parts = {
        "devices": Devices(
            count,
            weight=column(0.1, 1.0),
            clip_norm=column(0.3, 2.0),
            noise_std=tuple(np.where(rng.random(count) < 0.1, 0.0, column(0.3, 3.0)).tolist()),
            participation=column(0.2, 1.0),
        ),
        "channel": Channel(access="secure") if secure else Channel(access=access, **channel),
        "scheme": named_scheme(scheme, score_noise_std=one_of(0.5, 2.0), threshold=0.6, num_selected=count - 1),
        "dimension": int(rng.integers(1, 12)),
    }
    claim = Claim(delta=0.01, neighbours=one_of("zero-out", "replace"))
    cover = bool(one_of(False, True)) and scheme != "2.2"
    return Network(**parts, cover_noise=cover, colluders=0 if secure else one_of(0, 1)), claim
