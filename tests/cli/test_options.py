"""What all commands share: the options for a network, progress, tables, and conversions."""

import inspect
import io
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from airpool import cli
from airpool._support import progress
from airpool.cli import options, output
from airpool.evaluation import settings
from airpool.models.sensors import fitting as sensors
from airpool.network import Adversary, Channel, Claim, Devices, Network, Ranking, Slots, Threshold
from airpool.network.file import read, write
from tests.commands import leaves

ON_NETWORKS = (
    ["epsilon"],
    ["calibrate"],
    ["evaluate"],
    ["plan"],
    ["theory"],
    ["audit"],
    ["design", "weights"],
    ["design", "clipping"],
    ["train", "codec"],
    ["train", "all"],
)


def found(*path):
    """The command of this name."""
    command: Any = typer.main.get_command(cli.app)
    for name in path:
        command = command.get_command(None, name)
    return command


def flags(command):
    return {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("path", ON_NETWORKS, ids=" ".join)
def test_every_command_on_a_network_takes_the_same_options_for_it(path):
    expected = {"--network", "--no-cover-noise", *(f"--{name.replace('_', '-')}" for name in options._NETWORK)}
    assert expected <= flags(found(*path))


def test_every_field_of_a_network_file_has_an_option():
    kinds = {"devices": Devices, "channel": Channel, "adversary": Adversary, "slots": Slots, "claim": Claim}
    tables: dict[str, Any] = {"": Network} | kinds
    fields = {(table, name) for table, kind in tables.items() for name in inspect.signature(kind).parameters}
    fields |= {("scheme", name) for kind in (Ranking, Threshold) for name in ("name", *asdict(kind()))}
    fields -= {("", name) for name in ("devices", "channel", "scheme", "adversary", "slots")}
    fields -= {("devices", "epsilon")}  # --epsilon is the target
    # Flags of some commands; devices that collude are named by --colluders.
    fields -= {("claim", name) for name in ("live", "credit_channel_noise", "per_event", "colluding")}
    assert {settings.KEYS[name] for name in options._NETWORK} == fields


def test_a_claim_is_that_of_the_file_and_the_command_line_says_otherwise(tmp_path):
    path = tmp_path / "net.toml"
    write(Network.uniform(num_devices=4), path, Claim(delta=1e-6, inferences=5, live=True))
    assert options.NetworkOptions(path, {}).claim() == Claim(delta=1e-6, inferences=5, live=True)
    found = options.NetworkOptions(path, {"inferences": 7, "noise_std": 0.1}, (2,)).claim(per_event=3)
    assert found == Claim(delta=1e-6, inferences=7, live=True, colluding=(2,), per_event=3)
    assert options.NetworkOptions(None, {}).claim(credit_channel_noise=True) == Claim(credit_channel_noise=True)


def test_every_command_prints_json_and_a_device_is_an_index():
    commands = dict(leaves())
    assert len(commands) == 45
    for path, command in commands.items():
        assert "--json" in flags(command), path
        assert ("--device" in flags(command)) == (path in (("attack",), ("audit",), ("device",), ("radio", "transmit")))
        assert {"--channel-noise-std"}.isdisjoint(flags(command))


def test_a_command_is_the_module_of_its_name():
    for name in cli.COMMANDS:
        assert isinstance(cli.load_command(name), typer.Typer)


def test_channel_and_scheme_come_from_options_too(tmp_path):
    path, out = tmp_path / "net.toml", tmp_path / "out.toml"
    write(Network(Devices(3, power_dbm=(20.0, 21.0, 22.0)), scheme=Threshold(threshold=0.4)), path)
    arguments = ["--network", path, "--epsilon", 20, "--fading", "rician", "--receiver-noise-std", 0.3, "--gamma", 2]
    arguments += ["--scheme", "2.2", "--num-selected", 2, "--score-noise-std", 50, "--out", out]
    done = CliRunner().invoke(cli.app, ["calibrate", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    network = read(out)
    assert network.channel == Channel(fading="rician", noise_std=0.3, gamma=2.0)
    assert network.scheme == Ranking(num_selected=2, score_noise_std=50.0)
    assert network.devices.power_dbm == (20.0, 21.0, 22.0)


def test_what_a_plan_decides_cannot_be_given(refused):
    assert "--weight cannot be given here: the plan decides it" in refused("plan", "--epsilon", 2, "--weight", 0.1)
    message = "--colluders takes a number here"
    assert message in refused("plan", "--epsilon", 2, "--colluders", "#1")


def test_piped_work_says_now_and_then_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_LINE_AFTER", 0.01)
    with output.progress("measuring", total=7) as advance:
        advance(3)
        time.sleep(0.3)
    assert "measuring: 3 of 7, 0 s" in capsys.readouterr().err
    with output.progress("measuring"):
        time.sleep(0.3)
    assert capsys.readouterr().err == "measuring: 0 s\n"


def test_quick_work_says_nothing(capsys):
    with output.progress("measuring", total=7) as advance:
        advance(3)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(progress, "_BAR_AFTER", 0.01)
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with output.progress("measuring", total=7) as advance:
        advance(3)
        time.sleep(0.5)
    assert "measuring" in terminal.getvalue()


def test_a_call_of_the_library_shows_progress_where_somebody_looks(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert inspect.signature(sensors.fit).parameters["progress"].default is progress.automatic
    monkeypatch.setattr(progress, "_BAR_AFTER", 0.01)
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with progress.automatic("local heads", 7), progress.automatic("within"):
        time.sleep(0.5)
    assert "local heads" in terminal.getvalue()
    assert "within" not in terminal.getvalue()


def test_a_notebook_shows_one_bar_with_the_time_left_which_is_gone_at_the_end(monkeypatch, capsys):
    class Shown:
        def update(self, data, *, raw):
            assert raw
            states.append(data)

    def display(data, *, raw, display_id):
        assert raw
        assert display_id
        states.append(data)
        return Shown()

    states = []
    monkeypatch.setitem(sys.modules, "ipykernel", None)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    for name in ("_NOTEBOOK_AFTER", "_NOTEBOOK_EVERY"):
        monkeypatch.setattr(progress, name, 0.05)
    with suppress(KeyboardInterrupt), progress.automatic("<codec>", 8) as advance:
        advance(2)
        time.sleep(0.5)
        raise KeyboardInterrupt
    assert states[0]["text/plain"].startswith("<codec>: 2 of 8, 0 s, about ")
    assert states[0]["text/html"].startswith('<progress value="2" max="8"></progress> &lt;codec&gt;: 2 of 8')
    assert states[-1] == {"text/plain": "", "text/html": ""}
    assert capsys.readouterr() == ("", "")


def test_a_library_in_a_pipe_says_nothing(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_LINE_AFTER", 0.01)
    with progress.automatic("codec"):
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("wrapped", [None, ImportError("numpy failed: KeyboardInterrupt"), ValueError("no tensor")])
def test_ctrl_c_ends_with_130_whatever_a_library_makes_of_it(wrapped, monkeypatch, capsys):
    def interrupted(_):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            if wrapped is None:
                raise
            raise wrapped from None

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_tables_fit_80_columns_without_cutting_words(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    header = ("device", "weight", "clip norm", "noise std", "participation", "ε device", "ε local", "paper's claim")
    row = ("0 to 11", "0.08333", "1", "0.05", "0.9", "2.064", "8.004", "undefined")
    output.print_table(header, [row], title="A title")
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert all(word in text for word in " ".join((*header, *row)).split())
    assert "…" not in text


def test_a_report_has_a_short_repr_a_notebook_table_and_80_columns(monkeypatch):
    from rich.console import Console

    import airpool
    from airpool.account.report import table

    report = airpool.guarantee(
        Network(Devices(3, noise_std=(0.1, 0.1, 0.123456)), cover_noise=True), airpool.Claim(inferences=2)
    )
    assert repr(report).startswith("PrivacyReport(3 devices: epsilon <= ")
    assert len(repr(report)) < 120
    html = report._repr_html_()
    assert html.count("<tr>") == 3  # the heading, two equal devices, one other
    assert ">0 to 1</td>" in html
    Console(width=80, file=(file := io.StringIO())).print(table(report))
    assert "participation" in file.getvalue()
    assert "…" not in file.getvalue()
