"""Channels and networks at random, for tests that compare a formula with transmissions."""

from typing import Any

from hypothesis import strategies as st

from airpool.network import Channel, Devices, Network, Scheme


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
        weight=column(st.floats(0.0, 1.0)),
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
def extreme_networks(draw: st.DrawFn) -> Network:
    """One inference of any network that can be made: every number log-uniform over its whole range, 0 included."""
    count = draw(st.integers(1, 4))
    shares = st.floats(0, 1) | powers_of_ten(-300, 0) | powers_of_ten(-16, 0).map(lambda x: 1 - x)
    decibels = st.floats(-300, 300)
    nothing = st.just(0.0)
    spreads = nothing | powers_of_ten(-30, 30) | powers_of_ten(-50, 50)

    def column(values: st.SearchStrategy[float]) -> tuple[float, ...]:
        return tuple(draw(st.lists(values, min_size=count, max_size=count)))

    scheme: Any = draw(st.sampled_from(["1", "1", "2.1", "2.2"]))
    gamma: Any = draw(st.just("auto") | powers_of_ten(-30, 30))
    neighbours: list[Any] = ["zero-out", "replace", "remove"]
    return Network(
        devices=Devices(
            count=count,
            weight=column(nothing | powers_of_ten(-30, 30) | powers_of_ten(-320, 30)),
            clip_norm=column(powers_of_ten(-30, 30) | powers_of_ten(-320, 30)),
            noise_std=column(spreads),
            participation=column(shares),
            power_dbm=column(decibels),
        ),
        channel=Channel(
            fading=draw(st.sampled_from(["none", "rician", "rayleigh"])),
            k_factor_db=draw(decibels),
            noise_std=draw(spreads),
            access=draw(st.sampled_from(["superposed", "orthogonal"])),
            power_rule=draw(st.sampled_from(["truncate", "backoff", "paper", "exact"])),
            gamma=gamma,
            outage=draw(powers_of_ten(-30, -1e-9)),
            csi_error_std=draw(nothing | powers_of_ten(-30, 30)),
            phase_error_std=draw(nothing | powers_of_ten(-30, 30)),
        ),
        scheme=Scheme(
            name=scheme,
            score_bound=draw(powers_of_ten(-30, 30)),
            score_noise_std=draw(spreads),
            threshold=draw(powers_of_ten(-30, 30)) * draw(st.sampled_from([-1, 1])),
            num_selected=draw(st.integers(1, count)),
        ),
        dimension=draw(st.sampled_from([1, 2, 64, 784, 10**9]) | st.integers(1, 10**9)),
        delta=draw(powers_of_ten(-300, -1e-9)),
        neighbours=draw(st.sampled_from(neighbours if scheme == "1" else neighbours[:2])),
        cover_noise=draw(st.booleans()),
        colluders=draw(st.integers(0, count - 1)),
        dropouts=draw(st.integers(0, count - 1)),
    )
