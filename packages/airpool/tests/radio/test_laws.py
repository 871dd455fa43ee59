"""Fading laws: Nakagami and log-normal against SciPy, laws of plug-ins, and what is wrong with bad ones."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.special import ndtri
from scipy.stats import kstest, lognorm, nakagami

import airpool
from airpool import Channel, Network, NetworkError
from airpool._support import plugins
from airpool.network import file as network_file
from airpool.network.fading import law_named
from airpool.radio.fading import Fading, cdf, quantile, sample_gains
from airpool.radio.laws import require_law

CHANCE = 1e-3
DRAWS = 20_000


def shadowing(std_db):
    s = std_db * math.log(10) / 20
    return lognorm(s, scale=math.exp(-(s**2)))


LAWS_OF_SCIPY = {
    "nakagami:m=0.5": nakagami(0.5),
    "nakagami:2": nakagami(2.0),
    "nakagami:m=40": nakagami(40.0),
    "log-normal:std_db=3": shadowing(3.0),
    "log-normal": shadowing(8.0),
}


@pytest.mark.parametrize(("model", "law"), LAWS_OF_SCIPY.items())
def test_a_law_is_scipys_and_has_mean_power_one(model, law):
    gain = np.linspace(0.01, 4, 60)
    np.testing.assert_allclose(cdf(Fading(model), gain), law.cdf(gain), rtol=1e-9, atol=1e-14)
    for p in (1e-9, 0.01, 0.5, 0.999):
        assert quantile(Fading(model), p) == pytest.approx(law.ppf(p), rel=1e-8)
    assert law.moment(2) == pytest.approx(1, rel=1e-9)
    require_law(model, law_named(model))


@pytest.mark.parametrize("model", ["rayleigh", "rician", "nakagami:m=0.5", "nakagami:2", "log-normal:std_db=4"])
def test_airpools_own_laws_and_draws_pass_the_check_of_a_plug_in(model):
    @dataclass(frozen=True)
    class Given:
        cdf = staticmethod(Fading(model).law.cdf)
        quantile = staticmethod(Fading(model).law.quantile)

    class Drawn(Given):
        def sample(self, shape, rng, dtype=None):
            return sample_gains(Fading(model), shape, rng, dtype=dtype)

    assert require_law(model, Given()).least <= 1e-150
    assert require_law(model, Drawn()) == (512 / 2**22, 2**22)


@pytest.mark.parametrize(("model", "law"), LAWS_OF_SCIPY.items())
@pytest.mark.parametrize("rng", [np.random.default_rng(1), torch.Generator().manual_seed(1)], ids=["numpy", "torch"])
def test_draws_follow_the_law(model, law, rng):
    gain = sample_gains(Fading(model), (DRAWS,), rng)
    assert kstest(np.asarray(gain, dtype=np.float64), law.cdf).pvalue > CHANCE


def test_nakagami_of_one_is_rayleigh_everywhere():
    """ε, outage, γ and error of a network are those of Rayleigh's, which have formulas of their own."""
    from airpool.radio.link import alignment, link_of

    nets = [
        Network.uniform(num_devices=4, noise_std=0.3, channel=Channel(fading=model, outage=0.1, power_rule=rule))
        for rule in ("truncate", "backoff")
        for model in ("rayleigh", "nakagami:m=1")
    ]
    for ours, theirs in zip(nets[::2], nets[1::2], strict=True):
        np.testing.assert_allclose(airpool.guarantee(theirs).epsilon, airpool.guarantee(ours).epsilon, rtol=1e-9)
        assert link_of(theirs).gamma == pytest.approx(link_of(ours).gamma, rel=1e-9)
        for name in ("mean", "mean_square", "inverse_square"):
            a, b = (getattr(alignment(net, link_of(net)), name) for net in (theirs, ours))
            np.testing.assert_allclose(a, b, rtol=2e-4)


def test_a_law_and_its_settings_survive_the_network_file():
    net = Network.uniform(num_devices=3, channel=Channel(fading="nakagami:m=2.5"))
    assert network_file.parse(network_file.dump(net)) == net


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("weibull", "channel.fading='weibull' must be one of none, rician, rayleigh, nakagami"),
        ("nakagami:k=2", "channel.fading='nakagami:k=2' has no setting 'k'; nakagami has: m"),
        ("nakagami:m=0.1", "channel.fading='nakagami:m=0.1': m=0.1 must be a number from 0.5 to 1e+06"),
        ("nakagami:m=wide", "m=wide must be a number"),
        ("log-normal:1,2", "has no setting '2'"),
        (3, "channel.fading=3 must be text"),
    ],
)
def test_bad_settings_are_named(model, message):
    with pytest.raises(NetworkError) as caught:
        Channel(fading=model)
    assert message in str(caught.value)


@dataclass(frozen=True)
class Weibull:
    """c = (E/Γ(1 + 2/k))^…: c^k is exponential, scaled to mean power 1."""

    k: float = 2.0

    def _scale(self):
        return math.gamma(1 + 2 / self.k) ** -0.5

    def cdf(self, gain):
        return -np.expm1(-((gain / self._scale()) ** self.k))

    def quantile(self, probability):
        return self._scale() * (-np.log1p(-probability)) ** (1 / self.k)


@dataclass(frozen=True)
class Loud(Weibull):
    def _scale(self):
        return 3.0


@dataclass(frozen=True)
class Torn(Weibull):
    def cdf(self, gain):
        return super().cdf(gain) ** 2


@dataclass(frozen=True)
class Broken(Weibull):
    def quantile(self, probability):
        raise RuntimeError("no table of quantiles")


@dataclass(frozen=True)
class Weaker(Weibull):
    """Draws gains that are too weak more often than its cdf says: others' noise that ε counts on is missing."""

    def sample(self, shape, rng, dtype=None):
        return np.where(rng.random(shape) < 0.2, 0.01, self.quantile(rng.random(shape)))


@dataclass(frozen=True)
class Flat(Weibull):
    def sample(self, shape, rng, dtype=None):
        return self.quantile(rng.random(shape[:-1]))


@dataclass(frozen=True)
class Shaken(Weibull):
    """Right at the nodes of any table of normal scores, and wrong between them."""

    def cdf(self, gain):
        p = super().cdf(gain)
        away = ndtri(p) * 100
        return np.where(np.abs(away - np.round(away)) > 0.1, p / 20, p)


@pytest.fixture
def registered():
    return lambda name, law: plugins.register("fading", name)(law)


def test_a_registered_law_is_rayleigh_where_it_should_be(registered):
    registered("weibull", Weibull)
    ours, theirs = (
        Network.uniform(num_devices=4, noise_std=0.3, channel=Channel(fading=model, outage=0.1))
        for model in ("rayleigh", "weibull:k=2")
    )
    np.testing.assert_allclose(airpool.guarantee(theirs).epsilon, airpool.guarantee(ours).epsilon, rtol=1e-9)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (Loud, "has mean power 9, must be 1"),
        (Torn, "must be the same"),
        (Weaker, "its sample does not follow its cdf"),
        (Shaken, "cdf must increase from 0 to 1"),
        (Flat, "sample((1024, 1024), rng) gives shape (1024,)"),
        (Broken, "RuntimeError: no table of quantiles"),
    ],
)
def test_a_law_that_answers_nonsense_is_refused_by_name(registered, law, message):
    name = f"bad-{law.__name__.lower()}"
    registered(name, law)
    net = Network.uniform(num_devices=3, channel=Channel(fading=name))
    with pytest.raises(NetworkError) as caught:
        airpool.guarantee(net)
    assert name in str(caught.value)
    assert message in str(caught.value)


def test_an_incomplete_law_is_refused_when_it_is_registered(registered):
    with pytest.raises(plugins.PluginError, match=r"fading 'half' .* lacks quantile"):
        registered("half", type("Half", (), {"cdf": None}))
