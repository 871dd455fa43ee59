"""The command line: what it prints for machines and people, and how it refuses bad input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airpool import cli
from airpool._support.version import __version__
from airpool.account.guarantee import guarantee
from airpool.network import Claim, Devices, Network, Threshold
from airpool.network.file import read, write

TWELVE = ["--devices", "12", "--clip-norm", "1", "--noise-std", "0.05", "--participation", "0.9", "--delta", "1e-5"]


def run(*arguments):
    """Output of a command that must succeed."""
    done = CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def run_json(*arguments):
    return json.loads(run(*arguments, "--json"), parse_constant=pytest.fail)


def is_one_line(err):
    return err.startswith("error: ") and err.endswith("\n") and err.count("\n") == 1


# airpool epsilon


def test_epsilon_as_json_has_what_is_promised():
    data = run_json("epsilon", *TWELVE)
    assert data["epsilon"] == pytest.approx([2.063924225] * 12, rel=1e-8)
    assert len(data["epsilon_local"]) == 12
    assert isinstance(data["epsilon_object"], float)
    assert data["delta"] == 1e-5
    assert data["neighbours"] == "zero-out"
    assert data["cover_noise"] is False
    assert data["inferences"] == 1
    assert len(data["assumptions"]) > 3
    assert all(isinstance(line, str) and line.endswith(".") for line in data["assumptions"])
    assert set(data["paper"]) >= {"epsilon", "delta"}
    assert len(data["paper"]["epsilon"]) == 12


def test_infinity_is_the_string_inf():
    data = run_json("epsilon", "--devices", 2, "--noise-std", 0)
    assert data["epsilon"] == data["epsilon_local"] == data["paper"]["epsilon"] == ["inf", "inf"]
    assert data["epsilon_object"] == "inf"


def test_epsilon_for_people_is_a_table_with_its_assumptions():
    text = run("epsilon", *TWELVE)
    assert "2.064" in text
    assert "Holds if:" in text


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--neighbours", "replace"], 4.578183579),
        (["--cover-noise"], 1.808281125),
        (["--neighbours", "remove", "--dimension", "1"], 3.036466269),
        (["--neighbours", "remove", "--dimension", "784"], 15.28500108),
    ],
)
def test_flags_reach_the_library(flags, expected):
    assert run_json("epsilon", *TWELVE, *flags)["epsilon"][0] == pytest.approx(expected, rel=1e-8)


def test_one_value_per_device_comes_with_commas_and_gives_the_number_of_devices():
    data = run_json(
        "epsilon",
        *("--weight", "0.1,0.2,0.3,0.15,0.25"),
        *("--clip-norm", "1,0.5,1,2,1"),
        *("--noise-std", "0.3,0.2,0.5,0.4,0.1"),
        *("--participation", "0.9,0.5,1,0.7,0.3"),
    )
    assert data["epsilon"] == pytest.approx(
        [0.5435240259, 0.5137881454, 1.933530653, 1.621840596, 1.411887136], rel=1e-8
    )


def test_colluders_are_a_number_or_devices_by_name():
    flags = ["--weight", "0.1,0.1,0.1", "--noise-std", "0.1,1.0,0.9486832981", "--participation", "1,0.1,1"]
    anyone = run_json("epsilon", *flags, "--colluders", 1)
    assert anyone["epsilon"][0] == pytest.approx(4.352517046, rel=1e-8)
    assert anyone["colluders"] == 1
    named = run_json("epsilon", *flags, "--colluders", "#2")
    assert named["epsilon"][0] == pytest.approx(4.352517046, rel=1e-8)
    harmless = run_json("epsilon", *flags, "--colluders", "#1")
    assert harmless["epsilon"][0] < anyone["epsilon"][0]
    dropped = run_json("epsilon", *flags, "--dropouts", 1)
    assert dropped["epsilon"] == anyone["epsilon"]


def test_epsilon_with_others_absent_is_computed_for_heterogeneous_devices_only_if_asked_for():
    flags = ["--devices", 3, "--participation", 0.9, "--noise-std", "0.05,0.06,0.07"]
    assert run_json("epsilon", *flags)["epsilon_if_absent"] is None
    assert "colluders or dropouts" not in run("epsilon", *flags)
    asked = run_json("epsilon", *flags, "--absent")["epsilon_if_absent"]
    report = guarantee(Network(Devices(3, participation=0.9, noise_std=(0.05, 0.06, 0.07))))
    assert asked == list(report.epsilon_if_absent)
    assert "colluders or dropouts" in run("epsilon", *flags, "--absent")
    assert len(run_json("epsilon", *TWELVE)["epsilon_if_absent"]) == 3
    assert run_json("epsilon", *TWELVE, "--no-absent")["epsilon_if_absent"] is None


def test_inferences_are_composed():
    data = run_json("epsilon", "--devices", 12, "--inferences", 100)
    assert data["inferences"] == 100
    assert data["epsilon"] == pytest.approx(
        guarantee(Network.uniform(num_devices=12), Claim(inferences=100)).epsilon.tolist()
    )


def test_a_network_file_is_read_and_flags_override_it(tmp_path):
    path = tmp_path / "net.toml"
    write(Network.uniform(num_devices=12, noise_std=0.05, participation=0.9), path)
    assert run_json("epsilon", "--network", path)["epsilon"][0] == pytest.approx(2.063924225, rel=1e-8)
    assert run_json("epsilon", "--network", path, "--noise-std", 0.02)["epsilon"][0] == pytest.approx(
        5.969285149, rel=1e-8
    )
    assert run_json("epsilon", "--network", path, "--neighbours", "replace")["neighbours"] == "replace"


def test_a_picture_is_written_where_it_is_asked_for(tmp_path):
    run("epsilon", *TWELVE, "--plot", tmp_path / "epsilon.png")
    assert (tmp_path / "epsilon.png").read_bytes().startswith(b"\x89PNG")


# airpool calibrate


def test_calibrate_meets_the_target_and_writes_the_network(tmp_path):
    path = tmp_path / "net.toml"
    data = run_json("calibrate", "--epsilon", 2, "--devices", 12, "--participation", 0.9, "--out", path)
    assert max(data["epsilon"]) <= 2
    assert data["target"] == [2.0] * 12
    network = read(path)
    assert list(network.devices.column("noise_std")) == data["noise_std"]
    assert guarantee(network).epsilon.tolist() == data["epsilon"]
    assert network.devices.epsilon == (2.0,) * 12


def test_calibrate_turns_the_knob_that_is_asked_for():
    flags = ["calibrate", "--epsilon", "1,2", "--devices", 2]
    by_weight = run_json(*flags, "--adjust", "weight")
    assert by_weight["noise_std"] == [0.05, 0.05]
    assert by_weight["weight"][0] < by_weight["weight"][1] < 0.5
    by_clip = run_json(*flags, "--adjust", "clip")
    assert by_clip["clip_norm"][0] == pytest.approx(2 * by_weight["weight"][0], rel=1e-9)
    shared = run_json(*flags, "--per-device")
    assert shared["noise_std"][0] > shared["noise_std"][1]
    often = run_json("calibrate", "--epsilon", 5, "--devices", 2, "--noise-std", 2, "--adjust", "inferences")
    assert often["inferences"] > 1
    assert max(often["epsilon"]) <= 5


def test_calibrate_takes_streams_in_which_a_device_is_not_always_there():
    flags = ["--devices", 2, "--participation", "1,0.9", "--inferences", 5]
    assert 1.99 < max(run_json("calibrate", "--epsilon", 2, *flags)["epsilon"]) <= 2


def test_calibrate_takes_its_target_from_the_file(tmp_path):
    path = tmp_path / "net.toml"
    write(Network(devices=Devices(count=3, epsilon=1.5)), path)
    assert max(run_json("calibrate", "--network", path)["epsilon"]) <= 1.5
    assert "Network file" in run("calibrate", "--network", path, "--out", tmp_path / "met.toml")


# airpool audit


def test_odds_are_printed_for_people_and_as_json():
    text = run("epsilon", "--devices", "12", "--noise-std", "0.0897552", "--odds")
    assert "60.6 %" in text
    assert "82.4 %" in text
    assert "not protected: 99.94 %" in " ".join(text.split())
    found = run_json("epsilon", "--devices", "3", "--odds", "--prior", "0.1")
    assert found["prior"] == 0.1
    assert len(found["device"]) == len(found["reconstruction"]["device"]) == 3


def test_calibrate_meets_target_odds():
    found = run_json("calibrate", "--devices", "12", "--odds", "0.55")
    assert 0.5499 < max(found["odds"][0]["device"]) <= 0.55


def test_audit_stays_below_the_claim_and_says_what_it_did(tmp_path):
    flags = ["audit", "--devices", 3, "--noise-std", 0.3, "--dimension", 4, "--runs", 4000, "--seed", 1]
    data = run_json(*flags)
    assert 0 <= data["epsilon_lower"] <= data["claimed_epsilon"]
    assert (data["seed"], data["runs"], data["violated"]) == (1, 4000, False)
    text = run(*flags, "--plot", tmp_path / "audit.png")
    assert "4000 runs" in text
    assert (tmp_path / "audit.png").exists()


# airpool itself


def test_the_version_is_printed():
    assert run("--version").strip() == __version__


def test_every_command_has_help():
    for command in ("demo", "epsilon", "calibrate", "audit"):
        assert "--json" in run(command, "--help")


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["epsilon"], "give --devices K or --network FILE"),
        (["epsilon", "--devices", "0"], "--devices 0 must be a whole number >= 1"),
        (["epsilon", "--devices", "2", "--noise-std", "nan"], "--noise-std nan must be >= 0 and finite"),
        (["epsilon", "--devices", "2", "--noise-std", "-1"], "--noise-std -1 must be >= 0 and finite"),
        (["epsilon", "--devices", "2", "--clip-norm", "-1"], "--clip-norm -1 must be > 0 and finite"),
        (["epsilon", "--devices", "2", "--participation", "1.5"], "--participation 1.5 must be between 0 and 1"),
        (["epsilon", "--devices", "2", "--weight", "1,2,3"], "--weight has 3 values for 2 devices"),
        (["epsilon", "--devices", "2", "--delta", "0"], "--delta 0 must be > 0 and < 1"),
        (["epsilon", "--devices", "2", "--delta", "1"], "--delta 1 must be > 0 and < 1"),
        (["epsilon", "--devices", "2", "--delta", "nan"], "--delta nan must be > 0 and < 1"),
        (["epsilon", "--devices", "2", "--neighbours", "swap"], "--neighbours swap must be one of zero-out, replace"),
        (["epsilon", "--devices", "2", "--inferences", "0"], "--inferences 0 must be a whole number >= 1"),
        (
            ["epsilon", "--devices", "2", "--participation", "0.5", "--inferences", "2", "--delta", "1e-12"],
            "--delta 1e-12",
        ),
        (["epsilon", "--devices", "2", "--colluders", "2"], "--colluders 2 must be a whole number from 0 to 1"),
        (["epsilon", "--devices", "2", "--colluders", "#5"], "colluding device 5 must be from 0 to 1"),
        (
            ["epsilon", "--devices", "2", "--colluders", "some"],
            "--colluders 'some' must be a number, or devices such as",
        ),
        (["epsilon", "--devices", "2", "--dropouts", "-1"], "--dropouts -1 must be a whole number from 0 to 1"),
        (["epsilon", "--devices", "2", "--dimension", "0"], "--dimension 0 must be a whole number >= 1"),
        (["epsilon", "--devices", "2", "--plot", "picture.gif"], "a figure's name must end in .png, .svg or .pdf"),
        (["calibrate", "--devices", "2"], "no target: give --epsilon"),
        (["epsilon", "--devices", "2", "--odds", "--prior", "1"], "--prior 1 must be > 0 and < 1"),
        (["calibrate", "--devices", "2", "--odds", "0.4"], "--odds 0.4 must be > prior=0.5 and < 1"),
        (["calibrate", "--devices", "2", "--odds", "0.6", "--adjust", "clip"], "--odds sets one factor on the noise"),
        (["calibrate", "--devices", "2", "--epsilon", "nan"], "--epsilon nan must be > 0 and finite"),
        (["calibrate", "--devices", "2", "--epsilon", "0"], "--epsilon 0 must be > 0 and finite"),
        (["calibrate", "--devices", "2", "--epsilon", "1", "--adjust", "volume"], "--adjust volume must be one of"),
        (
            ["calibrate", "--devices", "12", "--epsilon", "2", "--neighbours", "remove"],
            "the smallest ε that can is 2.518",
        ),
        (["audit", "--devices", "2", "--neighbours", "remove"], "audit zero-out or replace"),
        (["audit", "--devices", "2", "--device", "5"], "--device 5 must be from 0 to 1"),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line_that_names_it(refused, arguments, message):
    err = refused(*arguments)
    assert message in err
    assert is_one_line(err)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = 2\n[devices]\ncount = 2", "version=2 is not known here"),
        ("[devices]\ncount = 2", "the key version is missing"),
        ("version = 3\n[devices]\ncount = 2\ncolour = 3", "unknown key devices.colour"),
        ("version = 3\n[devices]\ncount = 0", "devices.count=0"),
        ("version = 3\n[devices]\ncount = 2\nnoise_std = [0.1]", "devices.noise_std has 1 values for 2 devices"),
        ("not toml at all", "not valid TOML"),
    ],
)
def test_a_bad_network_file_ends_with_status_2_and_one_line_that_names_it(refused, tmp_path, text, message):
    path = tmp_path / "net.toml"
    path.write_text(text)
    err = refused("epsilon", "--network", path)
    assert message in err
    assert "net.toml" in err
    assert is_one_line(err)


def test_a_file_that_cannot_be_read_or_written_ends_with_status_2(refused, tmp_path):
    assert is_one_line(refused("epsilon", "--network", tmp_path / "missing.toml"))
    assert is_one_line(refused("epsilon", "--network", tmp_path))
    (tmp_path / "file").touch()  # a folder that is missing is made
    assert is_one_line(refused("calibrate", "--devices", 2, "--epsilon", 1, "--out", tmp_path / "file" / "net.toml"))


def test_a_number_of_devices_that_contradicts_the_file_is_refused(refused, tmp_path):
    path = tmp_path / "net.toml"
    write(Network.uniform(num_devices=3), path)
    assert "--devices 4 contradicts the 3 devices of" in refused("epsilon", "--network", path, "--devices", 4)


@pytest.mark.parametrize(
    "arguments",
    [
        ["epsilon", "--devices", "many"],
        ["epsilon", "--devices", "2", "--noise-std", "a,b"],
        ["epsilon", "--loud"],
        ["shout"],
    ],
)
def test_what_cannot_be_parsed_ends_with_status_2(refused, arguments):
    assert "Usage: airpool" in refused(*arguments)


def test_schemes_2_1_and_2_2_come_from_the_file(tmp_path):
    path = tmp_path / "net.toml"
    scheme = Threshold(score_bound=0.5, score_noise_std=0.316227766, threshold=0.3)
    write(Network.uniform(num_devices=12, noise_std=0.05, scheme=scheme), path)
    data = run_json("epsilon", "--network", path)
    assert data["scheme"] == "2.1"
    assert data["epsilon"][0] == pytest.approx(7.644042567, rel=1e-8)


# The installed program, a few times only: each start takes a second


def test_the_installed_program_prints_json_and_nothing_else():
    done = subprocess.run(
        [Path(sys.executable).with_name("airpool"), "epsilon", *TWELVE, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["epsilon"][0] == pytest.approx(2.063924225, rel=1e-8)
    assert done.stderr == ""


def test_the_installed_program_refuses_bad_input_with_status_2():
    done = subprocess.run(
        [Path(sys.executable).with_name("airpool"), "epsilon", "--devices", "2", "--delta", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: --delta 2 must be > 0 and < 1\n")


def test_epsilon_of_an_event_is_printed_and_calibrated_for(tmp_path):
    found = run_json("epsilon", *TWELVE, "--stay", "1min", "--every", "2s")
    assert found["event"]["inferences"] == 31
    alone = run_json("epsilon", *TWELVE, "--inferences", "31")
    assert (found["event"]["epsilon"], found["inferences"]) == (alone["epsilon"], 1)
    assert "An event of 31 inferences in a row" in run("epsilon", *TWELVE, "--per-event", "31")
    path = tmp_path / "net.toml"
    run("calibrate", "--devices", "12", "--epsilon", "2", "--per-event", "31", "--out", path)
    again = run_json("epsilon", "--network", path)
    assert (again["inferences"], again["event"]["inferences"]) == (1, 31)
    assert max(again["event"]["epsilon"]) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["epsilon", *TWELVE, "--stay", "5min"], "--stay and --every go together"),
        (["epsilon", *TWELVE, "--stay", "soon", "--every", "1s"], "'soon' must be a length of time"),
        (["epsilon", *TWELVE, "--per-event", "0"], "--per-event 0 must be ≥ 1"),
        (["epsilon", *TWELVE, "--per-event", "3", "--stay", "1s", "--every", "1s"], "give one of them"),
        (["epsilon", *TWELVE, "--per-event", "3", "--odds"], "leave out"),
        (["calibrate", *TWELVE, "--epsilon", "2", "--per-event", "3", "--inferences", "3"], "--inferences cannot be"),
        (
            ["calibrate", *TWELVE, "--epsilon", "2", "--per-event", "3", "--adjust", "inferences"],
            "leave out --per-event",
        ),
        (
            ["calibrate", *TWELVE, "--epsilon", "2", "--access", "secure", "--slots", "4096"],
            "a secure sum of 12 devices has 1 to 2730 slots an inference, not 4096",
        ),
    ],
)
def test_events_that_cannot_be_are_refused(refused, arguments, message):
    assert message in refused(*arguments)
