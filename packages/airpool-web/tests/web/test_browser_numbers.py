"""The numbers on the page are the library's, and what is copied from it makes them again."""

import json
import random
import shlex
import subprocess
import sys

import pytest

import airpool
from airpool.cli import app as cli
from airpool_web.copies import TRIALS

from . import looking

pytestmark = pytest.mark.check


def some_settings(rng):
    """A network at random, by options that the page and the command line have in common."""
    found = {"devices": str(rng.randrange(4, 13)), "delta": f"{10 ** rng.uniform(-7, -3):.3g}"}
    choices = {
        "clip_norm": lambda: f"{rng.uniform(0.5, 2):.3f}",
        "participation": lambda: f"{rng.uniform(0.5, 1):.3f}",
        "neighbours": lambda: rng.choice(["zero-out", "replace"]),
        "colluders": lambda: str(rng.randrange(3)),
        "dropouts": lambda: str(rng.randrange(2)),
        "inferences": lambda: str(rng.randrange(1, 50)),
        "fading": lambda: rng.choice(["rician", "rayleigh"]),
        "power_dbm": lambda: f"{rng.uniform(20, 40):.1f}",
        "receiver_noise_std": lambda: f"{rng.uniform(0, 1):.3f}",
        "access": lambda: rng.choice(["superposed", "orthogonal", "secure"]),
    }
    found |= {name: make() for name, make in choices.items() if rng.random() < 0.4}
    if found.get("access") == "secure":  # it has no radio
        found = {
            name: value for name, value in found.items() if name not in ("fading", "power_dbm", "receiver_noise_std")
        }
    way = {"noise_std": f"{10 ** rng.uniform(-1.7, -0.3):.4f}", "way": "noise"}
    return found | (way if rng.random() < 0.5 else {"epsilon": f"{10 ** rng.uniform(-0.5, 1):.3f}"})


def by_command(settings):
    """The same numbers, by `airpool epsilon` or `airpool calibrate`."""
    from typer.testing import CliRunner

    dimension = airpool.load("modelnet40").codec("vote").dimension
    command = "epsilon" if settings.get("way") == "noise" else "calibrate"
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items() if name != "way"]
    done = CliRunner().invoke(cli, [command, *options, f"--dimension={dimension}", "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    found = json.loads(done.stdout)
    return {"device": max(found["epsilon"]), "local": max(found["epsilon_local"]), "object": found["epsilon_object"]}


def number(text):
    return float("inf") if text == "inf" else float(text)


def test_twenty_networks_have_the_numbers_of_the_library(opened):
    rng = random.Random(35)
    tab = opened("#").tab
    looking.answered(tab)
    default = tab.evaluate("fetch('/api/knobs').then(found => found.json()).then(found => found.defaults.codec)")
    assert default == "vote"
    for _ in range(20):
        settings = some_settings(rng)
        before = looking.answers(tab)
        tab.evaluate("state => { location.hash = new URLSearchParams(state).toString() }", settings)
        looking.answered(tab, before)
        assert looking.faults(tab) == [], settings
        shown, wanted = looking.numbers(tab), by_command(settings)
        for name, value in wanted.items():
            assert number(shown[name]) == pytest.approx(number(value), rel=1e-6), (settings, name)


@pytest.fixture
def copied(opened):
    """What a button puts on the clipboard."""

    def text(address, button):
        watched = opened(address, permissions=["clipboard-read", "clipboard-write"])
        tab = watched.tab
        looking.done(tab)
        looking.all_groups_open(tab)
        tab.click(button)
        tab.wait_for_function("() => document.querySelector('.share .told').textContent.startsWith('Copied')")
        return tab, tab.evaluate("navigator.clipboard.readText()")

    return text


ADDRESSES = ["#epsilon=1.5&devices=8", "#way=noise&noise_std=0.08&devices=6&participation=0.9"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_copied_command_gives_the_numbers_of_the_page(copied, address):
    tab, text = copied(address, "#copy-command")
    shown, found = looking.numbers(tab), {}
    for line in text.splitlines():
        words = shlex.split(line)
        assert words[0] == "airpool"
        done = subprocess.run(
            [sys.executable, "-m", *words, "--json"], capture_output=True, text=True, check=True, timeout=300
        )
        found[words[1]] = json.loads(done.stdout)
    assert max(found["epsilon"]["epsilon"]) == pytest.approx(number(shown["device"]), rel=1e-6)
    assert found["epsilon"]["epsilon_object"] == pytest.approx(number(shown["object"]), rel=1e-6)
    assert f"--trials {TRIALS}" in text
    assert found["evaluate"]["accuracy_mean"] == pytest.approx(number(shown["accuracy"]), abs=1e-9)


def test_a_copied_program_gives_the_numbers_of_the_page(copied, tmp_path):
    tab, text = copied(ADDRESSES[0], "#copy-python")
    shown = looking.numbers(tab)
    (tmp_path / "copied.py").write_text(text)
    done = subprocess.run(
        [sys.executable, tmp_path / "copied.py"], capture_output=True, text=True, check=True, timeout=300
    )
    printed = done.stdout.split("\n")[0].split()
    assert [float(each) for each in printed] == pytest.approx(
        [number(shown[name]) for name in ("device", "local", "object", "paper")], rel=1e-6
    )


def test_what_is_downloaded_describes_the_same_network(opened, tmp_path):
    tab = opened("#tab=numbers&epsilon=1.5&devices=8").tab
    looking.done(tab)
    looking.all_groups_open(tab)
    tab.wait_for_function("() => !document.querySelector('#download-png').disabled")
    for kind in ("toml", "csv", "svg", "png"):
        with tab.expect_download() as found:
            tab.click(f"#download-{kind}")
        found.value.save_as(tmp_path / f"it.{kind}")
    file = tmp_path / "it.toml"
    report = airpool.guarantee(airpool.read_network(file), airpool.read_claim(file))
    assert report.worst == pytest.approx(number(looking.numbers(tab)["device"]), rel=1e-6)
    assert "airpool" in (tmp_path / "it.csv").read_text()
    assert (tmp_path / "it.svg").read_text().startswith("<svg")
    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")


def test_a_network_without_a_curve_does_not_show_that_of_the_one_before(opened):
    tab = opened("#tab=numbers&model=wearables").tab
    tab.wait_for_selector("#curve svg")
    tab.wait_for_selector("#download-svg:enabled")
    tab.evaluate("location.hash = '#tab=numbers&model=wearables&way=noise&power_rule=paper'")  # it is not simulated
    tab.wait_for_function("() => document.querySelector('#curve').textContent.includes('There is no curve')")
    assert tab.query_selector("#curve svg") is None
    assert tab.is_disabled("#download-svg")
    assert tab.is_enabled("#download-csv")


def test_a_list_of_many_devices_survives_in_the_address(opened):
    stds = ",".join(f"0.0512345678901234{k % 10}" for k in range(30))
    tab = opened(f"#way=noise&devices=30&noise_std={stds}").tab
    looking.answered(tab)
    assert tab.input_value("#knob-noise_std") == stds
