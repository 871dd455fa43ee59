"""Laws that hold whatever options come together: access, power rules, schemes, colluders, neighbours, baselines, ..."""

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from airpool.account.guarantee import guarantee
from airpool.network import (
    AccessName,
    Channel,
    Claim,
    Coin,
    Devices,
    Neighbours,
    Network,
    NetworkError,
    PowerRule,
    named_scheme,
)
from airpool.protocol.inference import Baseline, Simulation, infer_features, transmitted
from airpool.radio.link import link_of
from airpool.schemes.scores import Uncertainty

pytestmark = pytest.mark.usefixtures("few_draws", "few_cells")

R, CLASSES = 3, 4


@st.composite
def asked(draw: st.DrawFn) -> tuple[Network, Claim]:
    """A few unlike devices, some without noise, weight or participation, and a claim, with every option there is."""
    count = draw(st.integers(1, 4))

    def column(*values: float) -> tuple[float, ...]:
        return tuple(draw(st.lists(st.sampled_from(values), min_size=count, max_size=count)))

    devices = Devices(
        count=count,
        weight=column(0.0, 0.1, 0.5, 1.0),
        clip_norm=column(0.5, 1.0, 2.0),
        noise_std=column(0.0, 0.3, 1.0, 3.0),
        participation=column(0.0, 0.01, 0.5, 0.9, 1.0),
        power_dbm=column(20.0, 30.0),
    )
    access = draw(st.sampled_from(get_args(AccessName)))
    assume(access != "secure" or count > 1)
    channel = (
        Channel(access="secure")
        if access == "secure"
        else Channel(
            fading=draw(st.sampled_from(["none", "rician", "rayleigh"])),
            noise_std=draw(st.sampled_from([0.0, 1.0])),
            access=access,
            power_rule=draw(st.sampled_from(get_args(PowerRule))),
            outage=draw(st.sampled_from([0.01, 0.3])),
            csi_error_std=draw(st.sampled_from([0.0, 0.0, 0.1])),
            phase_error_std=draw(st.sampled_from([0.0, 0.0, 0.1])),
        )
    )
    name = draw(st.sampled_from(["1", "1", "2.1", "2.2"]))
    scheme = named_scheme(
        name,  # pyright: ignore[reportArgumentType]
        score_noise_std=draw(st.sampled_from([0.0, 0.3, 1.0])),
        threshold=draw(st.sampled_from([-1.0, 0.5])),
        num_selected=draw(st.integers(1, count)),
    )
    neighbours = draw(st.sampled_from(list(Neighbours)))
    assume(name == "1" or neighbours != "remove")
    colluders, dropouts = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
    assume(access != "secure" or 2 * dropouts + colluders < count)
    delta, cover_noise = draw(st.sampled_from([1e-6, 1e-3, 0.1])), draw(st.booleans())
    network = Network(
        devices=devices,
        channel=channel,
        scheme=scheme,
        dimension=R,
        cover_noise=cover_noise,
        colluders=colluders,
        dropouts=dropouts,
    )
    return network, Claim(delta=delta, neighbours=neighbours)


def bare_outcome(network: Network) -> np.ndarray:
    """A lower bound on the probability that each device's feature arrives with nobody's noise, in one inference."""
    d = network.devices
    w, std, p = (np.array(d.column(name)) for name in ("weight", "noise_std", "participation"))
    if not isinstance(network.scheme, Coin):
        return np.zeros(d.count)
    heard = p if network.channel.power_rule != "truncate" else p * (1 - link_of(network).outage)
    exposed = np.where((w > 0) & (std == 0), heard, 0.0)
    if network.channel.access == "orthogonal":
        return exposed
    sounding = np.ones(d.count) if network.cover_noise else p
    quiet = np.where(std > 0, 1 - sounding, 1.0)
    return exposed * np.array([np.prod(np.delete(quiet, k)) for k in range(d.count)])


def at_most(smaller: Any, larger: Any) -> bool:
    """Elementwise, with inf ≤ inf; two searches may round differently."""
    return bool(np.all((smaller <= larger * (1 + 1e-9) + 1e-9) | np.isinf(larger)))


@settings(max_examples=150)
@given(asked(), st.sampled_from([2, 7]))
def test_what_always_holds(asked, inferences):
    network, claim = asked
    once, often = guarantee(network, claim), guarantee(network, replace(claim, inferences=inferences))
    for report, times in ((once, 1), (often, inferences)):
        for found in (report.epsilon, report.epsilon_local, np.array(report.epsilon_object)):
            assert not np.isnan(found).any()
            assert (found >= 0).all()
        assert at_most(report.epsilon, report.epsilon_local)
        bare = -np.expm1(times * np.log1p(-np.minimum(bare_outcome(network), 1 - 1e-16)))
        assert np.isinf(report.epsilon[bare > claim.delta * (1 + 1e-9)]).all()
        if network.colluders:
            assert report.epsilon_object == math.inf
    assert at_most(once.epsilon, often.epsilon)
    assert at_most(once.epsilon_local, often.epsilon_local)
    assert at_most(once.epsilon_object, often.epsilon_object)


@settings(max_examples=100)
@given(asked(), st.sampled_from([None, *get_args(Baseline)]), st.integers(0, 2**32))
def test_report_and_transmission_are_of_the_same_network(asked, baseline, seed):
    (network, claim), rng = asked, np.random.default_rng(seed)
    scores = rng.uniform(0, 2, (1, network.devices.count)) if not isinstance(network.scheme, Coin) else None
    out = infer_features(
        rng.standard_normal((1, network.devices.count, R)),
        network,
        claim,
        server=rng.standard_normal((CLASSES, R)),
        rng=rng,
        uncertainty=Uncertainty(scores=scores),
        simulation=Simulation(trials=3, baseline=baseline),
    )
    sender = transmitted(network, baseline)
    assert out.report.network == sender
    assert out.report.claim == claim
    np.testing.assert_array_equal(out.report.epsilon, guarantee(sender, claim).epsilon)
    weights = np.array(sender.devices.column("weight"))
    if baseline == "centralised":
        assert np.isinf(out.report.epsilon[weights > 0]).all()
        assert out.received.taking_part.all()
    elif isinstance(sender.scheme, Coin) and not sender.cover_noise:
        # Nobody transmits whom the report says to be silent.
        silent = np.array(sender.devices.column("participation")) == 0
        assert not out.received.alignment[..., silent].any()


@settings(max_examples=60)
@given(asked())
def test_live_noise_is_never_promised_more_than_mathematical_noise(asked):
    network, claim = asked
    assume(network.channel.power_rule != "paper")
    ideal = guarantee(network, claim)
    try:
        live = guarantee(network, replace(claim, live=True))
    except ValueError as error:
        assert "noise_std" in str(error)  # noqa: PT017
        assert min(network.devices.column("noise_std")) == 0
        return
    assert at_most(ideal.epsilon, live.epsilon)
    assert at_most(ideal.epsilon_local, live.epsilon_local)
    whole = ideal.epsilon_object
    if network.channel.access == "superposed":
        # Live, own noise may be all that counts; then it does not matter whose noise is there, and ε may be smaller.
        apart = replace(network, channel=replace(network.channel, access="orthogonal"))
        whole = min(whole, guarantee(apart, claim).epsilon_object)
    assert at_most(whole, live.epsilon_object)


def test_a_network_beyond_its_power_is_refused_with_or_without_a_baseline():
    network = replace(Network.uniform(num_devices=2, dimension=R), channel=Channel(gamma=1e9))
    for baseline in (None, "orthogonal", "best-device"):
        with pytest.raises(NetworkError, match="beyond the power"):
            guarantee(transmitted(network, baseline))
    assert np.isinf(guarantee(transmitted(network, "centralised")).epsilon).all()
