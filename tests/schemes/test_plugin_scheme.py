"""A scheme of a stranger, examples/plugins/scheme.py: account, simulator, live device, audit, file and ledger."""

import copy
import json
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

import airpool
from airpool._support import plugins
from airpool._support.plugins import PluginError
from airpool.cli import app
from airpool.evaluation.audit.adversary import audited
from airpool.evaluation.audit.claims import measure
from airpool.evaluation.plan.candidates import brought, built
from airpool.evaluation.settings import epsilon
from airpool.network import (
    SCHEMES,
    Channel,
    Claim,
    Coin,
    Devices,
    Neighbours,
    Network,
    NetworkError,
    Scheme,
    file,
    named_scheme,
)
from airpool.protocol import alone, live
from airpool.protocol.device import Seeded
from airpool.protocol.inference import Simulation, infer_features
from airpool.protocol.simulation import receive
from airpool.schemes.scheme import _drawn
from airpool_lab.sweep import version_of
from airpool_lab.waveform.reception import Waveform, waveform_report
from airpool_lab.waveform.uplink import Impairments
from airpool_runtime import terms
from airpool_runtime.ledger.mechanism import mechanism, parse
from airpool_runtime.ledger.spending import total

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "scheme.py"
POWER_DBM = (20.0, 30.0, 33.0)
OFTEN = (1.0, 0.5, 500 / 10**3.3)


@pytest.fixture(autouse=True, scope="module")
def _loaded():
    before = dict(SCHEMES._added)
    plugins.load_file(EXAMPLE)
    yield
    SCHEMES._added.clear()
    SCHEMES._added.update(before)
    plugins._loaded.pop(EXAMPLE, None)


def devices(**more: Any) -> Devices:
    return Devices(count=3, power_dbm=POWER_DBM, noise_std=0.2, **more)


def network(**more: Any) -> Network:
    return Network(devices(), scheme=named_scheme("energy-aware"), dimension=4, **more)


def coins(**more: Any) -> Network:
    """The network that has the same probabilities as a setting."""
    return Network(devices(participation=OFTEN), dimension=4, **more)


def test_the_example_is_one_short_file():
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 80


def test_it_sets_how_often_devices_take_part():
    assert network().devices.column("participation") == pytest.approx(OFTEN)
    other = replace(network(), scheme=named_scheme("energy-aware:budget_mw=1000"))
    assert other.devices.column("participation") == pytest.approx((1.0, 1.0, 1000 / 10**3.3))


@pytest.mark.parametrize(
    ("more", "claim"),
    [
        ({}, Claim()),
        ({"cover_noise": True}, Claim()),
        ({}, Claim(inferences=100)),
        ({}, Claim(neighbours=Neighbours.REPLACE)),
    ],
)
def test_it_is_accounted_for_as_independent_coins(more, claim):
    ours, same = airpool.guarantee(network(**more), claim), airpool.guarantee(coins(**more), claim)
    np.testing.assert_array_equal(ours.epsilon, same.epsilon)
    assert any("Claimed by the plug-in energy-aware" in line for line in ours.assumptions)


def test_calibration_does_not_change_who_transmits():
    met = airpool.calibrate(network(), epsilon=1.0)
    assert met.devices.column("participation") == pytest.approx(OFTEN)
    assert airpool.guarantee(met).worst <= 1


def test_the_simulator_tosses_its_coins():
    got = receive(np.zeros((1, 3, 4)), network(), rng=np.random.default_rng(0), trials=20_000, path="full")
    # Five standard deviations of a mean of 20,000 coins.
    np.testing.assert_allclose(np.asarray(got.taking_part)[0].mean(axis=0), OFTEN, atol=2.5 / 20_000**0.5)


def test_a_live_and_a_seeded_device_toss_their_own():
    net, runs = network(), 400
    for source in (live.LIVE, Seeded([np.random.default_rng(0)])):
        sends = [alone.signal(np.ones(4), net, source, device=2, gain=1.0).sends for _ in range(runs)]
        assert abs(np.mean(sends) - OFTEN[2]) < 5 * 0.5 / runs**0.5


@pytest.mark.parametrize("alone", [False, True])
def test_the_audit_attacks_it(alone):
    net, half = (replace(network(), devices=replace(devices(), noise_std=std)) for std in (0.4, 0.2))
    report = airpool.guarantee(net, claim := Claim(delta=0.02))
    claimed = float((report.epsilon_local if alone else report.epsilon)[1])
    right = audited(net, claim, 1, claimed_epsilon=claimed, runs=20_000, seed=1, alone=alone)
    planted = audited(half, claim, 1, claimed_epsilon=claimed, runs=20_000, seed=1, alone=alone)
    assert 0 < right.epsilon_lower <= claimed
    assert planted.violated


def test_a_file_names_it_and_reads_back():
    text = file.dump(network())
    assert 'name = "energy-aware"' in text
    assert file.parse(text) == network()
    for other in ("[1.0, 0.4, 0.2]", "1.0"):
        changed = re.sub(r"participation = .*", f"participation = {other}", text)
        with pytest.raises(NetworkError, match=r"devices\.participation is not what the scheme energy-aware gives"):
            file.parse(changed)


def test_a_ledger_row_carries_its_name_version_and_source_and_needs_it_no_more(monkeypatch):
    row = mechanism(network(), device=2)
    assert row.network == mechanism(coins(), device=2).network
    assert total({row: 5}, delta=1e-5) == total({mechanism(coins(), device=2): 5}, delta=1e-5)
    origin = SCHEMES.origin("energy-aware")
    assert origin is not None
    settings = "EnergyAware(budget_mw=500.0)"
    assert json.loads(row.text)["plugin"] == ["energy-aware", settings, "1.0", origin.sha256]
    assert "plugin" not in json.loads(mechanism(coins(), device=2).text)
    monkeypatch.delitem(SCHEMES._added, "energy-aware")
    assert parse(row.text) == row


def test_the_command_line_takes_it():
    words = ["epsilon", "--scheme", "energy-aware:budget_mw=500", "--devices", "3", "--power-dbm", "20,30,33"]
    done = CliRunner().invoke(app, ["--plugin", str(EXAMPLE), *words, "--noise-std", "0.2", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["scheme"] == "energy-aware"


def test_a_sweep_measures_it_in_its_worker_processes_and_not_again_unless_it_changes(tmp_path, monkeypatch):
    before, own = version_of(epsilon), tmp_path / "own.py"
    words = ["sweep", "epsilon", "--set", "scheme=energy-aware:budget_mw=300", "--backend", "pool", "--no-cache"]
    done = CliRunner().invoke(app, ["--plugin", str(EXAMPLE), *words, "--json"])
    assert done.exit_code == 0, done.output
    own.write_text("x = 1", "utf-8")
    monkeypatch.setitem(plugins._loaded, own, None)
    assert version_of(epsilon) != before


def made(given: Any, name: str = "test-scheme") -> Any:
    @dataclass(frozen=True)
    class Given(Scheme):
        name: ClassVar[str] = "test-scheme"

        def participation(self, network: Network) -> Any:
            return given(network)

    SCHEMES.register(name, Given)
    return Given()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda net: [0.5], r"'test-scheme': its participation\(network\) gives shape \(1,\), must be \(3,\)"),
        (lambda net: [0.5, 1.5, 0], r"gives \[0.5, 1.5, 0.0\], must be between 0 and 1"),
        (lambda net: [0.5, np.nan, 0], r"gives .*nan.*, must be between 0 and 1"),
        (lambda net: np.random.default_rng().random(3), r"gave device 0 0\.\d+ and now gives it 0\.\d+\. It must be"),
        (lambda net: net.nonsense, r"'test-scheme': its participation\(network\) fails: AttributeError"),
    ],
)
def test_nonsense_is_an_error_that_names_the_plug_in(given, message):
    with pytest.raises(NetworkError, match=message):
        Network(devices(), scheme=made(given))


@pytest.fixture
def battery():
    """A network whose scheme reads a battery that the test discharges, and the battery."""
    level = [0.05]
    return Network(devices(), scheme=made(lambda net: level * 3), dimension=4), level


def test_what_follows_from_a_network_goes_by_the_coins_that_were_drawn_first(battery):
    net, level = battery
    same = replace(coins(), devices=devices(participation=0.05))
    np.testing.assert_array_equal(airpool.guarantee(net).epsilon, airpool.guarantee(same).epsilon)
    assert total({mechanism(net, device=2): 10}, delta=1e-5) == total({mechanism(same, device=2): 10}, delta=1e-5)
    level[0] = 1.0
    assert net.devices.column("participation") == (0.05,) * 3
    got = receive(np.zeros((1, 3, 4)), net, rng=np.random.default_rng(0), trials=20_000, path="full")
    np.testing.assert_allclose(np.asarray(got.taking_part)[0].mean(axis=0), 0.05, atol=5 * 0.05**0.5 / 20_000**0.5)
    with pytest.raises(NetworkError, match="must be a function of its arguments alone"):
        alone.signal(np.ones(4), net, live.LIVE, device=2, gain=1.0)


@pytest.mark.parametrize(
    "derived",
    [
        lambda net: replace(net, dimension=3),
        lambda net: replace(net, devices=replace(net.devices, weight=0.1)),
        lambda net: airpool.calibrate(net, epsilon=1.0),
        lambda net: mechanism(net, device=2),
        lambda net: mechanism(replace(net, colluders=1), device=2),
        lambda net: replace(net, slots=airpool.Slots(3)).one_slot,
        copy.deepcopy,
        lambda net: Network(devices(), scheme=type(net.scheme)(), dimension=4, colluders=1),
        lambda net: file.parse(file.dump(net)),
        lambda net: file.parse(re.sub(r"participation = .*", "", file.dump(net))),
    ],
)
@pytest.mark.parametrize(("before", "now"), [(0.05, 1.0), (1.0, 0.05)])
def test_coins_that_are_others_later_are_an_error_wherever_a_network_follows(battery, derived, before, now):
    _, level = battery
    level[0] = before
    net = Network(devices(), scheme=made(lambda net: level * 3), dimension=4)
    assert derived(net) is not None
    level[0] = now
    said = rf"'test-scheme'.* gave device 0 {before} and now gives it {now}\. It must be"
    with pytest.raises(NetworkError, match=said):
        derived(net)


def test_an_inference_reports_the_coins_that_it_tosses_or_fails(battery):
    net, level = battery

    def inferred(report: Any = None) -> Any:
        how = Simulation(trials=5_000, path="full", report=report)
        return infer_features(np.zeros((1, 3, 4)), net, server=np.eye(4), rng=np.random.default_rng(0), simulation=how)

    out = inferred()
    assert np.mean(np.asarray(out.received.taking_part)) < 0.06
    np.testing.assert_array_equal(out.report.epsilon, airpool.guarantee(net).epsilon)
    level[0] = 1.0
    for report in (None, out.report):
        with pytest.raises(NetworkError, match="must be a function of its arguments alone"):
            inferred(report)


@dataclass(frozen=True)
class Clock(Scheme):
    """A scheme of a module, as another process finds it."""

    p: ClassVar[float] = 0.05
    name: ClassVar[str] = "clock"

    def participation(self, network: Network) -> Any:
        return [Clock.p] * network.devices.count


def test_a_network_in_another_process_has_its_coins_or_is_an_error(monkeypatch):
    SCHEMES.register("clock", Clock)
    sent = pickle.dumps(net := Network(devices(), scheme=named_scheme("clock")))
    assert pickle.loads(sent) == net
    _drawn.clear()  # as in a process that has drawn nothing yet
    monkeypatch.setattr(Clock, "p", 1.0)
    with pytest.raises(NetworkError, match=r"scheme 'clock'.* gave device 0 0\.05 and now gives it 1\.0"):
        pickle.loads(sent)
    _drawn.clear()


def test_a_process_that_sees_other_coins_is_refused_by_the_others(battery):
    """Two processes: their own networks, as the terms that they state."""
    net, _ = battery
    theirs = terms.stated(Network(devices(), scheme=Coin(), dimension=4))
    text = file.dump(net).replace("participation = 0.05", "participation = 1.0")
    why = terms.difference(net, replace(theirs, text=text), they="the server asks for", own_side="here it is")
    assert why is not None
    assert "participation is not what the scheme test-scheme gives (device 0: 1.0 in the file, 0.05 here)" in why


def test_a_scheme_that_is_registered_anew_is_asked_anew():
    for p in (0.3, 0.6):
        net = Network(devices(), scheme=made(lambda net, p=p: [p] * 3))
        assert replace(net, colluders=1).devices.column("participation") == (p,) * 3


def by_channel(net: Network) -> list[float]:
    """Coins that depend on what a waveform or an attack changes of the network: public, and allowed."""
    c = net.channel
    usual = (c.access, c.gamma, c.noise_std > 0, net.dimension % 2) == ("superposed", "auto", True, 1)
    return [0.3 if usual else 1.0] * net.devices.count


@pytest.mark.parametrize("impairments", [Impairments(), Impairments(timing=1)])
def test_what_changes_the_channel_keeps_the_coins(impairments):
    net = Network(devices(), Channel(noise_std=0.1), scheme=made(by_channel), dimension=3)
    same = replace(net, scheme=Coin())
    assert net.devices.participation == same.devices.participation == (0.3,) * 3
    waveform = Waveform(impairments=impairments)
    ours, theirs = waveform_report(net, waveform), waveform_report(same, waveform)
    np.testing.assert_array_equal(ours.epsilon, theirs.epsilon)
    assert any("Claimed by the plug-in test-scheme" in line for line in ours.assumptions)
    got = waveform.receive(np.zeros((1, 3, 3)), net, rng=np.random.default_rng(0), trials=400)
    assert np.mean(got.transmitting) < 0.3 + 5 * 0.5 / 1200**0.5
    found = audited(net, Claim(), 0, claimed_epsilon=airpool.guarantee(net).worst, runs=2_000, seed=0)
    measured = measure(net, runs=200, rng=np.random.default_rng(0), confidence=0.999)
    assert not any(each.contradicted for each in measured)
    assert not found.violated


def test_settings_that_cannot_be_compared_are_an_error():
    @dataclass(frozen=True)
    class Listed(Scheme):
        levels: Any = ()
        name: ClassVar[str] = "listed"

        def participation(self, network: Network) -> Any:
            return [1.0] * network.devices.count

    SCHEMES.register("listed", Listed)
    assert Network(devices(), scheme=named_scheme("listed", levels=(1, 2))).devices.participation == (1.0,) * 3
    with pytest.raises(NetworkError, match=r"scheme 'listed': unhashable type: 'list'; settings must be hashable"):
        Network(devices(), scheme=named_scheme("listed", levels=[1, 2]))


def test_it_sees_nothing_that_calibration_changes():
    seen = []
    scheme = made(lambda net: seen.append(net) or [1.0, 1.0, 1.0])
    for std in (0.1, 0.4):
        Network(replace(devices(), noise_std=std, weight=std, epsilon=std), scheme=scheme, colluders=1)
    assert seen[0] == seen[1]
    assert seen[0].scheme == Coin()


def test_a_class_without_a_name_or_settings_is_refused():
    with pytest.raises(PluginError, match="lacks name, participation"):
        SCHEMES.register("half", replace)  # pyright: ignore[reportArgumentType]
    made(lambda net: [1.0] * 3, name="other")
    with pytest.raises(NetworkError, match=r"its class must say name: ClassVar\[str\] = 'other'"):
        named_scheme("other")


@dataclass(frozen=True)
class Plain:
    name: ClassVar[str] = "test-scheme"

    def participation(self, network: Network) -> Any:
        return [1.0] * network.devices.count


class Undecorated(Scheme):
    name: ClassVar[str] = "test-scheme"

    def participation(self, network: Network) -> Any:
        return [1.0] * network.devices.count


@dataclass(frozen=True)
class Loaded(Coin):  # pyright: ignore[reportGeneralTypeIssues]
    name: ClassVar[str] = "test-scheme"


@dataclass(frozen=True)
class Abstract(Scheme):
    name: ClassVar[str] = "test-scheme"


@dataclass(frozen=True)
class OfTwo(Scheme):
    name: ClassVar[str] = "test-scheme"

    def participation(self, network: Network) -> Any:
        return [1.0] * network.devices.count

    def check(self, network: Network) -> None:
        if network.devices.count != 2:
            raise NetworkError("test-scheme is for two")


@dataclass(frozen=True)
class Biased(OfTwo):
    coin_bias: ClassVar[float] = -1e-3


@dataclass(frozen=True)
class Either(OfTwo):
    independent: bool = True  # pyright: ignore[reportIncompatibleVariableOverride]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Biased, "coin_bias=-0.001 must be between 0 and 1"),
        (Either, "independent is of the class, no setting"),
        (Plain, "must be a frozen dataclass, whose fields are its settings, and a subclass of airpool.Scheme"),
        (Undecorated, "must be a frozen dataclass"),
        (Loaded, "must subclass airpool.Scheme itself"),
        (Abstract, "abstract .*participation"),
        (OfTwo, "test-scheme is for two"),
    ],
)
def test_a_class_must_be_a_scheme_and_may_refuse_a_network(kind, message):
    SCHEMES.register("test-scheme", kind)
    with pytest.raises(NetworkError, match=message):
        Network(devices(), scheme=named_scheme("test-scheme"))


def test_a_setting_that_it_does_not_have_is_an_error():
    with pytest.raises(NetworkError, match="has no setting 'colour'; energy-aware has: budget_mw"):
        named_scheme("energy-aware:colour=3")
    with pytest.raises(NetworkError, match=r"unknown key scheme.colour; known are name, budget_mw"):
        named_scheme("energy-aware", colour=3)
    with pytest.raises(NetworkError, match=r"energy-aware.*scheme\.budget_mw=-1.0 must be > 0"):
        named_scheme("energy-aware", budget_mw=-1.0)
    assert named_scheme("energy-aware", budget_mw=3.0).options() == ("budget_mw",)


def test_a_plan_tries_it_beside_the_others():
    net = Network.uniform(num_devices=12, scheme=named_scheme("energy-aware"))
    model = airpool.load("modelnet40")
    (found,) = brought(net, ("vote",))
    assert found.words == "vote, scheme energy-aware"
    built_net = built(found, net, Claim(), np.full(12, 2.0), model)
    assert built_net.scheme == net.scheme
    assert built_net.devices.participation == net.devices.participation
    assert airpool.guarantee(built_net).worst <= 2
    assert brought(Network.uniform(num_devices=12), ("vote",)) == ()


@pytest.mark.check
def test_running_devices_take_it_over_grpc():
    words = ["up", "--plugin", str(EXAMPLE), "--scheme", "energy-aware:budget_mw=500", "--devices", "3"]
    command = [sys.executable, "-m", "airpool", *words, "--epsilon", "8", "--inferences", "3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sum(found["statuses"].get(status, 0) for status in ("answered", "no answer")) == 3  # all may be silent
    assert found["epsilon"]["device"] <= 8


@pytest.mark.check
def test_running_processes_that_see_other_coins_do_not_start(tmp_path):
    own = tmp_path / "there.py"
    own.write_text(
        "import sys\n"
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "import airpool\n\n\n"
        '@airpool.register("scheme", "there")\n'
        "@dataclass(frozen=True)\n"
        "class There(airpool.Scheme):\n"
        '    name: ClassVar[str] = "there"\n\n'
        "    def participation(self, network):\n"
        '        return [1.0 if "up" in sys.argv else 0.05] * network.devices.count\n',
        "utf-8",
    )
    words = ["up", "--plugin", str(own), "--scheme", "there", "--devices", "3", "--epsilon", "8", "--inferences", "3"]
    command = [sys.executable, "-m", "airpool", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "is not what the scheme there gives (device 0: 1.0 in the file, 0.05 here)" in done.stderr
