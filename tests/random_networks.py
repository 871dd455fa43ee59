"""Channels at random, for tests that compare a formula with transmissions."""

from hypothesis import strategies as st

from airpool.network import Channel


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
