"""Channels and networks at random, for tests that compare a formula with transmissions or with another formula."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from airpool.network import Channel, Claim, Devices, Network, named_scheme
from airpool.radio.link import link_of


def stds(most: float) -> st.SearchStrategy[float]:
    """Standard deviations that a network may have: none, or not too small for its square."""
    return st.just(0.0) | st.floats(1e-30, most)


@st.composite
def channels(draw: st.DrawFn) -> Channel:
    """Any fading, access, power rule, outage and error for which the alignment does not depend on the noise."""
    return Channel(
        fading=draw(st.sampled_from(["none", "rician", "rayleigh"])),
        noise_std=draw(stds(5.0)),
        access=draw(st.sampled_from(["superposed", "orthogonal"])),
        power_rule=draw(st.sampled_from(["truncate", "backoff"])),
        outage=draw(st.floats(0.05, 0.6)),
        csi_error_std=draw(st.sampled_from([0.0, 0.1])),
        phase_error_std=draw(st.sampled_from([0.0, 0.4])),
    )


@st.composite
def networks(draw: st.DrawFn, dimension: int) -> Network:
    """A few unlike devices, any channel, cover noise or not."""
    count = draw(st.integers(1, 4))

    def column(values: st.SearchStrategy[float]) -> tuple[float, ...]:
        return tuple(draw(st.lists(values, min_size=count, max_size=count)))

    devices = Devices(
        count=count,
        weight=column(stds(1.0)),
        clip_norm=column(st.floats(0.3, 3.0)),
        noise_std=column(stds(0.3)),
        participation=column(st.floats(0.0, 1.0)),
        power_dbm=column(st.floats(20.0, 30.0)),
    )
    return Network(devices=devices, channel=draw(channels()), dimension=dimension, cover_noise=draw(st.booleans()))


def powers_of_ten(low: float, high: float) -> st.SearchStrategy[float]:
    """Log-uniform, both ends among them."""
    return st.floats(low, high).map(lambda x: 10.0**x) | st.sampled_from([10.0**low, 10.0**high])


@st.composite
def extreme_networks(draw: st.DrawFn) -> tuple[Network, Claim]:
    """Any network that can be made, and a claim of one inference: numbers log-uniform over their ranges, 0 included."""
    count = draw(st.integers(1, 4))
    shares = st.floats(0, 1) | powers_of_ten(-300, 0) | powers_of_ten(-16, 0).map(lambda x: 1 - x)
    decibels = st.floats(-300, 300)
    nothing = st.just(0.0)
    spreads = nothing | powers_of_ten(-30, 30) | powers_of_ten(-50, 50)

    def column(values: st.SearchStrategy[float]) -> tuple[float, ...]:
        return tuple(draw(st.lists(values, min_size=count, max_size=count)))

    scheme: Any = draw(st.sampled_from(["1", "1", "2.1", "2.2"]))
    gamma: Any = draw(st.just("auto") | powers_of_ten(-30, 30))
    fading = draw(st.sampled_from(["none", "rician", "rayleigh"]))
    neighbours: list[Any] = ["zero-out", "replace", "remove"]
    network = Network(
        devices=Devices(
            count=count,
            weight=column(nothing | powers_of_ten(-30, 30) | powers_of_ten(-320, 30)),
            clip_norm=column(powers_of_ten(-30, 30) | powers_of_ten(-320, 30)),
            noise_std=column(spreads),
            participation=column(shares),
            power_dbm=column(decibels),
        ),
        channel=Channel(
            fading=fading,
            k_factor_db=draw(decibels) if fading == "rician" else Channel.k_factor_db,
            noise_std=draw(spreads),
            access=draw(st.sampled_from(["superposed", "orthogonal"])),
            power_rule=draw(st.sampled_from(["truncate", "backoff", "paper"])),
            gamma=gamma,
            outage=draw(powers_of_ten(-30, -1e-9)),
            csi_error_std=draw(nothing | powers_of_ten(-30, 30)),
            phase_error_std=draw(nothing | powers_of_ten(-30, 30)),
        ),
        scheme=named_scheme(
            name=scheme,
            score_bound=draw(powers_of_ten(-30, 30)),
            score_noise_std=draw(spreads),
            threshold=draw(powers_of_ten(-30, 30)) * draw(st.sampled_from([-1, 1])),
            num_selected=draw(st.integers(1, count)),
        ),
        dimension=draw(st.sampled_from([1, 2, 64, 784, 10**9]) | st.integers(1, 10**9)),
        cover_noise=draw(st.booleans()),
        colluders=draw(st.integers(0, count - 1)),
        dropouts=draw(st.integers(0, count - 1)),
    )
    relations = neighbours if scheme == "1" else neighbours[:2]
    return network, Claim(delta=draw(powers_of_ten(-300, -1e-9)), neighbours=draw(st.sampled_from(relations)))


def any_network(rng: np.random.Generator) -> tuple[Network, Claim]:
    """A small network and a claim over all options together that one inference has; the rule "paper" is left out."""
    count = int(rng.choice([1, 2, 3, 4, 5, 6], p=[0.05, 0.2, 0.3, 0.25, 0.15, 0.05]))

    def one(*options: Any, p: list[float] | None = None) -> Any:
        return options[rng.choice(len(options), p=p)]

    def column(low: float, high: float, *often: float) -> tuple[float, ...]:
        """Uniform in logarithms, sometimes the same for all devices, and now and then one of the special values."""
        values = np.exp(rng.uniform(np.log(low), np.log(high), count))
        values = np.full(count, values[0]) if rng.random() < 0.3 else values
        special = rng.random(count) < 0.15 * bool(often)
        return tuple(float(rng.choice(often)) if s else float(v) for s, v in zip(special, values, strict=True))

    scheme = one("1", "2.1", "2.2", p=[0.6, 0.2, 0.2])
    neighbours = (
        one("zero-out", "replace", "remove", p=[0.4, 0.4, 0.2]) if scheme == "1" else one("zero-out", "replace")
    )
    fading, decibels = one("none", "rician", "rayleigh"), float(rng.uniform(-3, 12))
    faded = Channel(
        fading=fading,
        k_factor_db=decibels if fading == "rician" else Channel.k_factor_db,
        access=one("superposed", "orthogonal", p=[0.8, 0.2]),
        power_rule=one("truncate", "backoff", p=[0.7, 0.3]),
        outage=float(np.exp(rng.uniform(np.log(1e-4), np.log(0.5)))),
        csi_error_std=one(0.0, float(rng.uniform(0.05, 0.3)), p=[0.85, 0.15]),
        phase_error_std=one(0.0, 0.3, p=[0.9, 0.1]),
    )
    absent = rng.multinomial(int(rng.choice([0, 1, 2], p=[0.6, 0.3, 0.1])), [0.5, 0.5])
    devices = Devices(
        count=count,
        weight=column(0.05, 2.0, 0.0),
        clip_norm=column(0.3, 3.0),
        noise_std=column(0.1, 3.0, 0.0),
        participation=column(0.2, 1.0, 0.0, 1.0, 1.0, 0.999, 1e-6),
        power_dbm=tuple(float(x) for x in rng.uniform(20, 30, count)),
    )
    chosen = named_scheme(
        name=scheme,
        score_rule=one("clip", "scale"),
        score_bound=float(rng.uniform(0.05, 2.0)),
        score_noise_std=float(rng.uniform(0.2, 2.0)),
        threshold=float(rng.uniform(-1.0, 2.0)),
        num_selected=int(rng.integers(1, count + 1)),
    )
    dimension, delta = int(rng.choice([1, 2, 4, 16, 64])), float(10 ** rng.uniform(-9, -1.5))
    network = Network(
        devices=devices,
        channel=faded,
        scheme=chosen,
        dimension=dimension,
        cover_noise=bool(rng.random() < 0.3),
        colluders=int(min(absent[0], count - 1)),
        dropouts=int(min(absent[1], count - 1)),
    )
    gamma = link_of(network).gamma
    if rng.random() < 0.4:
        # A fixed γ around what the powers allow; under truncate nobody may be out of reach.
        steady = faded.fading == "none" and faded.power_rule == "truncate"
        gamma *= float(rng.uniform(0.3, 1.0 if steady else 3.0))
        faded = replace(faded, gamma=gamma)
    # Of the order of the devices' own noise, once the server has divided by γ.
    network = replace(network, channel=replace(faded, noise_std=gamma * float(rng.uniform(0, 1.5))))
    return network, Claim(delta=delta, neighbours=neighbours)
