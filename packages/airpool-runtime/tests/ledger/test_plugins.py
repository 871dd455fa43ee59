"""Rows of a network with plug-ins name them and the hash of their source; a source that has changed is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airpool import Channel, Network
from airpool._support import plugins
from airpool.cli import app
from airpool.network import named_scheme
from airpool.network.fading import LAWS
from airpool.schemes.scheme import SCHEMES
from airpool_runtime.ledger.backup import content
from airpool_runtime.ledger.mechanism import _uses, _with_leaks, mechanism, parse
from airpool_runtime.ledger.refused import SpendingError
from airpool_runtime.ledger.spending import why_infinite

EXAMPLES = Path(__file__).parents[4] / "examples" / "plugins"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads an example as a file of its own, with a line added to it."""

    def loaded(name, line=""):
        monkeypatch.setattr(plugins, "_loaded", {})
        for registry in (LAWS, SCHEMES):
            registry._added.clear()
        path = tmp_path / f"{name}.py"
        path.write_text((EXAMPLES / f"{name}.py").read_text("utf-8") + line, "utf-8")
        plugins.load_file(path)
        return path

    return loaded


def with_law():
    return Network.uniform(num_devices=4, noise_std=0.5, channel=Channel(fading="weibull", noise_std=0.1))


def with_scheme():
    return Network.uniform(num_devices=4, noise_std=0.5, scheme=named_scheme("energy-aware", budget_mw=500))


@pytest.mark.parametrize(("name", "network"), [("fading", with_law), ("scheme", with_scheme)])
def test_a_changed_source_is_refused_until_it_is_accepted_once(load, device, name, network):
    load(name)
    first = mechanism(network(), device=3)
    (plugin,) = first.plugins
    assert (plugin.what, len(plugin.sha256)) == (name, 64)
    with device.open() as ledger:
        ledger.charge("a", first)
        before = ledger.epsilon(1e-5)
    load(name, "# another line\n")
    second = mechanism(network(), device=3)
    assert second.digest != first.digest
    changed = second.plugins[0].sha256
    with pytest.raises(SpendingError, match=f"--accept-plugin {changed}"), device.open() as ledger:
        ledger.charge("b", second)
    with device.open(accepted=[changed]) as ledger:
        assert ledger.epsilon(1e-5) == before
        ledger.prepare(second)
        assert ledger.charge("b", second).new
    with device.open() as ledger:  # the row says that it was accepted
        assert ledger.charge("c", second).new
        assert ledger.epsilon(1e-5) == pytest.approx(_three(device, first), rel=1e-12)
    load(name, "# a third source\n")
    with pytest.raises(SpendingError, match="is not the one that rows were charged with"), device.open() as ledger:
        ledger.prepare(mechanism(network(), device=3))


def _three(device, one):
    from airpool_runtime.ledger.spending import Use, total

    return total({one: Use(3, 3)}, 1e-5)


def test_preparing_a_changed_source_does_not_accept_it(load, device):
    load("scheme")
    first = mechanism(with_scheme(), device=3)
    with device.open() as ledger:
        ledger.charge("a", first)
        load("scheme", "# another line\n")
        second = mechanism(with_scheme(), device=3)
        for _ in range(2):
            with pytest.raises(SpendingError):
                ledger.prepare(second)
            with pytest.raises(SpendingError):
                ledger.charge("b", second)


@pytest.mark.parametrize(("name", "network"), [("fading", with_law), ("scheme", with_scheme)])
def test_show_names_the_plugins_that_rows_were_charged_with(load, device, name, network):
    load(name)
    with device.open() as ledger:
        ledger.charge("a", mechanism(network(), device=3))
    (plugin,) = mechanism(network(), device=3).plugins
    said = CliRunner().invoke(app, ["ledger", "show", str(device.path)]).output
    assert f"plug-in {plugin.words}" in said
    found = json.loads(CliRunner().invoke(app, ["ledger", "show", str(device.path), "--json"]).output)
    assert found["mechanisms"][0]["plugins"] == [plugin._asdict()]
    load(name, "# another line\n")
    said = CliRunner().invoke(app, ["ledger", "show", str(device.path)]).output
    assert f"plug-in {plugin.words}" in said  # whatever is loaded now: the leak is stored


def test_a_ledger_of_a_law_that_is_gone_adds_up(load, device):
    load("fading")
    with device.open() as ledger:
        ledger.charge("a", mechanism(replace(with_law(), channel=Channel(fading="weibull")), device=3))
        before = ledger.epsilon(1e-5)
    LAWS._added.clear()
    for cached in (_uses, _with_leaks, parse):
        cached.cache_clear()
    with device.open() as ledger:
        assert ledger.epsilon(1e-5) == before
        assert ledger.charge("b", mechanism(Network.uniform(num_devices=4, noise_std=0.5), device=3)).new
    counts = content(device.path).counts
    assert "weibull" in why_infinite(counts, 1e-5, "remove")
    assert "ε = " in CliRunner().invoke(app, ["ledger", "show", str(device.path)]).output
