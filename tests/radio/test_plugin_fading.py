"""A stranger's fading law, from one file outside the package, through everything that takes one."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest, weibull_min

import airpool
from airpool import Channel, Network
from airpool._support import plugins
from airpool.evaluation.audit.adversary import audited
from airpool.network import network_plugins
from airpool.network.fading import LAWS
from airpool.radio.fading import Fading, sample_gains
from airpool.radio.link import link_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "fading.py"


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
    found = audited(net, 0, claimed_epsilon=report.worst, runs=4_000, seed=0)
    assert found.epsilon_lower <= report.worst


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
