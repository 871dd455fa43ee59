"""A stranger's fading law, from one file outside the package, through everything that takes one."""

import hashlib
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest, weibull_min

import airpool
from airpool import Channel, Network, NetworkError
from airpool._support import plugins
from airpool.evaluation.audit.adversary import audited
from airpool.network import network_plugins
from airpool.network.fading import LAWS
from airpool.radio.fading import Fading, sample_gains
from airpool.radio.link import link_of

EXAMPLE = Path(__file__).parents[4] / "examples" / "plugins" / "fading.py"


@pytest.fixture(autouse=True)
def loaded():
    plugins.load_file(EXAMPLE)


def test_the_example_is_short():
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 80


def test_gains_follow_the_strangers_law():
    law = weibull_min(1.5, scale=LAWS.get("weibull")(1.5).scale)
    gain = sample_gains(Fading("weibull:k=1.5"), (20_000,), np.random.default_rng(1))
    assert kstest(np.asarray(law.cdf(gain)), "uniform").pvalue > 1e-3


def test_account_simulator_and_audit_take_it():
    net = Network.uniform(
        num_devices=6, noise_std=0.3, dimension=4, channel=Channel(fading="weibull:k=1.5", outage=0.1)
    )
    report = airpool.guarantee(net)
    assert np.all(report.epsilon_local >= report.epsilon)
    assert any("Claimed by the plug-in weibull" in line and "fading.py" in line for line in report.assumptions)
    assert report.claimed_by == ("weibull",)
    assert report.to_json()["claimed_by"] == ["weibull"]
    assert "claimed by the plug-in weibull" in report._repr_html_()
    assert link_of(net).outage == pytest.approx(0.1)
    found = audited(net, report.claim, 0, claimed_epsilon=report.worst, runs=4_000, seed=0)
    assert found.epsilon_lower <= report.worst


@dataclass(frozen=True)
class Bent:
    """Draws of Rayleigh's law, and a distribution function of it that is wrong by a factor below a level."""

    factor: float = 20.0
    level: float = 0.01

    def _points(self):
        low = 1e-200
        true = [low, self.level / 2, self.level, 1.0]
        return np.log(true), np.log([low / self.factor, self.level / 2 / self.factor, self.level, 1.0])

    def cdf(self, gain):
        true, told = self._points()
        with np.errstate(divide="ignore"):
            p = np.log(-np.expm1(-(np.asarray(gain) ** 2)))
        return np.exp(np.interp(p, true, told))

    def quantile(self, probability):
        true, told = self._points()
        return np.sqrt(-np.log1p(-np.exp(np.interp(np.log(probability), told, true))))

    def sample(self, shape, rng, dtype=None):
        return np.sqrt(rng.exponential(size=shape))


@dataclass(frozen=True)
class Drawn(Bent):
    """Rayleigh's law as it is."""

    factor: float = 1.0


@dataclass(frozen=True)
class Coarse:
    """Rayleigh's law, with a distribution function that is a difference of like numbers."""

    def cdf(self, gain):
        return 1 - np.exp(-(np.asarray(gain) ** 2))

    def quantile(self, probability):
        return np.sqrt(-np.log1p(-probability))


@dataclass(frozen=True)
class Shadowed(Drawn):
    """Rayleigh's law, of which `group` neighbours have one draw: neighbouring devices, or inferences in a row."""

    group: int = 4
    axis: int = 1

    def sample(self, shape, rng, dtype=None):
        axis, group = int(self.axis), int(self.group)
        once = super().sample(shape, rng)
        return np.take(once, np.arange(shape[axis]) // group, axis=axis)


@pytest.fixture(autouse=True, scope="module")
def _registered():
    before = dict(LAWS._added)
    for name, law in (("bent", Bent), ("drawn", Drawn), ("coarse", Coarse), ("shadowed", Shadowed)):
        plugins.register("fading", name)(law)
    yield
    LAWS._added.clear()
    LAWS._added.update(before)


def faded(model, outage=0.005, **more):
    channel = Channel(fading=model, outage=outage)
    return Network.uniform(num_devices=4, noise_std=0.3, dimension=4, channel=channel, **more)


@pytest.mark.parametrize(
    ("model", "outage"),
    [
        ("bent:factor=20,level=0.01", 0.0002),
        ("bent:factor=20,level=0.002", 0.05),  # wrong where this network does not look, all the same
        ("bent:factor=2,level=0.001", 0.05),
        ("bent:factor=1.2,level=0.3", 0.05),
    ],
)
def test_a_tail_that_its_draws_do_not_have_is_refused(model, outage):
    with pytest.raises(NetworkError, match=r"its sample does not follow its cdf: .* of 4,194,304 draws are below"):
        airpool.guarantee(faded(model, outage))


@pytest.mark.parametrize(("axis", "between"), [(0, "inferences"), (1, "devices")])
@pytest.mark.parametrize("group", [2, 4, 12])
def test_draws_that_neighbours_share_are_refused(group, axis, between):
    # Twelve devices in groups of four, σ = .05, outage .1: ε = 2.502; independent outages say 2.064.
    with pytest.raises(NetworkError, match=f"its sample is not independent between {between}: .* both below"):
        airpool.guarantee(faded(f"shadowed:group={group},axis={axis}", 0.1))


def test_reports_that_average_over_gains_assume_them_independent():
    said = "Gains and errors of different devices are independent: nothing weakens several of them at once."
    assert said in airpool.guarantee(faded("rayleigh")).assumptions
    assert said not in airpool.guarantee(faded("none")).assumptions


def test_draws_that_follow_the_law_are_rayleighs():
    ours, theirs = airpool.guarantee(faded("drawn")), airpool.guarantee(faded("rayleigh"))
    np.testing.assert_allclose(ours.epsilon, theirs.epsilon, rtol=1e-6)
    said = "its distribution function against 4,194,304 of its own draws, down to a probability of 0.00013."
    assert any(said in line for line in ours.assumptions)
    assert not any("checked here" in line for line in theirs.assumptions)


@pytest.mark.parametrize(("rule", "outage"), [("truncate", 1e-4), ("backoff", 1e-4), ("paper", 1e-6)])
def test_an_outage_below_what_was_checked_is_refused_with_what_to_do(rule, outage):
    net = faded("drawn", outage)
    net = replace(net, channel=replace(net.channel, power_rule=rule))
    said = r"'drawn': device 0 has an outage of \S+, .* only down to 0\.000122 its sample .* leave `sample` out"
    with pytest.raises(NetworkError, match=said):
        airpool.guarantee(net)
    near = faded("drawn", 0.01, path_loss_db=[20.0, 20.0, 0.0, 20.0])
    with pytest.raises(NetworkError, match=r"'drawn': device 2 has an outage of 0\.0001,"):
        airpool.guarantee(near)
    assert np.all(airpool.guarantee(faded("weibull:k=2", 1e-9)).epsilon > 0)  # drawn from its quantile
    with pytest.raises(NetworkError, match=r"'coarse': .* only down to \S+ its cdf and quantile agree .*np\.expm1"):
        airpool.guarantee(faded("coarse", 1e-13))
    assert np.all(airpool.guarantee(faded("coarse", 1e-6)).epsilon > 0)


def test_network_plugins_lists_the_law_with_version_and_hash():
    assert network_plugins(Network.uniform(num_devices=6)) == ()
    assert network_plugins(Network.uniform(num_devices=6, channel=Channel(fading="nakagami:2"))) == ()
    (found,) = network_plugins(Network.uniform(num_devices=6, channel=Channel(fading="weibull:k=1.5")))
    digest = hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()
    assert (found.what, found.name, found.settings, found.sha256) == ("fading", "weibull", "weibull:k=1.5", digest)
    assert Path(found.source) == EXAMPLE.resolve()


def test_the_command_line_takes_it_with_the_option_alone(capsys, monkeypatch):
    from airpool.cli import main

    options = ["--devices", "12", "--noise-std", "0.1", "--fading", "weibull:k=1.5", "--outage", "0.1"]
    monkeypatch.setattr(sys, "argv", ["airpool", "epsilon", "--plugin", str(EXAMPLE), *options, "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    told = json.loads(capsys.readouterr().out)
    net = Network.uniform(num_devices=12, noise_std=0.1, channel=Channel(fading="weibull:k=1.5", outage=0.1))
    assert told["epsilon"] == pytest.approx(airpool.guarantee(net).epsilon.tolist())
