"""Channels and networks at random, for tests that compare a formula with transmissions."""

from hypothesis import strategies as st

from airpool.network import Channel, Devices, Network


@st.composite
def channels(draw: st.DrawFn) -> Channel:
    """Any fading, access, power rule, outage and error for which the alignment does not depend on the noise."""
    return Channel(
        fading=draw(st.sampled_from(["none", "rician", "rayleigh"])),
        noise_std=draw(st.floats(0.0, 5.0)),
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

    def column(low: float, high: float) -> tuple[float, ...]:
        return tuple(draw(st.lists(st.floats(low, high), min_size=count, max_size=count)))

    devices = Devices(
        count=count,
        weight=column(0.0, 1.0),
        clip_norm=column(0.3, 3.0),
        noise_std=column(0.0, 0.3),
        participation=column(0.0, 1.0),
        power_dbm=column(20.0, 30.0),
    )
    return Network(devices=devices, channel=draw(channels()), dimension=dimension, cover_noise=draw(st.booleans()))
