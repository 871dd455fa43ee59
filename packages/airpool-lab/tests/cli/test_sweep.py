"""`airpool sweep`: what it prints and writes, how it refuses bad input, and that a kill costs nothing."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airpool import cli
from airpool.network import Network

AIRPOOL = Path(sys.executable).with_name("airpool")

EXPERIMENT = """
import os, time

def slow(n, rng):
    while n >= 8 and not os.path.exists("open"):  # so that whoever stops the sweep is never too late
        time.sleep(0.01)
    with open("calls", "a") as file:
        file.write(f"{n} {os.getpid()}\\n")
    return {"draw": rng.random(), "square": n * n}

def picky(n):
    print("out of the way")
    if n > 1:
        raise ValueError(f"n={n} is too large")
    return n
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "experiment.py").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield tmp_path
    sys.modules.pop("experiment", None)


def sweep(*arguments, status=0):
    done = CliRunner().invoke(cli.app, ["sweep", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done


@pytest.fixture
def refused(refused):
    """The one line that a command is refused with."""

    def said(*arguments):
        err = refused("sweep", *arguments)
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    return said


def test_epsilon_over_a_grid_is_what_the_library_says(folder):
    grid = ["--set", "devices=4,12", "--set", "noise_std=0.05,0", "--set", "participation=0.9"]
    data = json.loads(sweep("epsilon", *grid, "--backend", "serial", "--json").stdout, parse_constant=pytest.fail)
    columns = data["columns"]
    assert columns["devices"] == [4, 4, 12, 12]
    assert columns["epsilon"][3] == columns["epsilon_object"][1] == "inf"
    from airpool.account.guarantee import guarantee

    report = guarantee(Network.uniform(num_devices=12, noise_std=0.05, participation=0.9))
    assert columns["epsilon"][2] == report.worst
    assert columns["epsilon_local"][2] == report.epsilon_local[0]
    assert columns["epsilon_object"][2] == report.epsilon_object
    assert data["parameters"] == ["devices", "noise_std", "participation"]
    assert data["seed"] == 0


def test_a_table_for_people_rounds_epsilon_up_and_says_what_was_kept(folder):
    flags = ["epsilon", "--set", "participation=0.9", "--backend", "serial"]
    text = sweep(*flags, "--out", "table.csv").stdout
    assert "2.064" in text  # 2.0639...
    assert "1 point measured" in text
    assert "Table: table.csv" in text
    assert "1 kept from before" in sweep(*flags).stdout
    assert [path.suffix for path in Path("out/sweep").iterdir()] == [".jsonl"]


def test_failures_are_listed_and_the_exit_status_is_1(folder):
    flags = ["experiment:picky", "--set", "n=1,2,3", "--no-cache", "--workers", 2]
    done = sweep(*flags, "--json", status=1)
    data = json.loads(done.stdout)
    assert data["columns"]["value"] == [1]
    assert [failure["parameters"]["n"] for failure in data["failures"]] == [2, 3]
    assert "error: 2 points failed, and will be tried again by the next run:\n" in done.stderr
    assert "n=3: ValueError: n=3 is too large (experiment.py:" in done.stderr
    assert not Path("out").exists()


def test_what_a_function_prints_does_not_come_between_the_lines(folder):
    done = sweep("experiment:picky", "--set", "n=0,1", "--backend", "serial", "--json")
    assert json.loads(done.stdout)["columns"]["value"] == [0, 1]
    assert "out of the way" in done.stderr


def test_values_are_numbers_where_they_can_be(folder):
    from airpool_lab.cli.sweep import _axes

    assert _axes(["a=1,2.5,1e-5", "b=true,false,x", "c=zero-out, inf"]) == {
        "a": [1, 2.5, 1e-5],
        "b": [True, False, "x"],
        "c": ["zero-out", float("inf")],
    }
    assert isinstance(_axes(["a=1"])["a"][0], int)


def test_a_long_table_is_cut_for_people_alone(folder):
    flags = ["experiment:picky", "--set", f"n={','.join(map(str, range(-70, 0)))}", "--backend", "serial"]
    assert "... and 10 points more: --out FILE writes them all" in sweep(*flags, "--out", "t.csv").stdout
    assert len(Path("t.csv").read_text().splitlines()) == 72


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "'nothing' must be one of epsilon, evaluate, or module:function"),
        (["nothing:at_all"], "nothing:at_all: the module cannot be loaded: ModuleNotFoundError"),
        (["experiment:nothing"], "experiment:nothing: the module has no such function"),
        (["experiment:"], "'experiment:' must be module:function"),
        (["epsilon", "--set", "devices"], "--set 'devices' must be NAME=V1,V2,..."),
        (["epsilon", "--set", "devices="], "--set 'devices=' must be NAME=V1,V2,..."),
        (["epsilon", "--set", "devices=1", "--set", "devices=2"], "--set devices is given twice"),
        (["epsilon", "--set", "colour=1"], "epsilon: got an unexpected keyword argument 'colour'; its parameters are"),
        (["experiment:picky"], "picky: missing a required argument: 'n'; its parameters are n"),
        (["epsilon", "--set", "delta=nan"], "delta=nan must be a number"),
        (["epsilon", "--backend", "cloud"], "--backend cloud must be one of serial, pool, ray"),
        (["epsilon", "--workers", "0"], "--workers 0 must be at least 1"),
        (["epsilon", "--address", "auto"], "--address auto needs backend='ray'"),
        (["epsilon", "--seed", "-1"], "--seed -1 must be ≥ 0"),
        (["epsilon", "--out", "table.xls"], "a table's name must end in .csv, .json, .parquet"),
        (["epsilon", "--cache", "experiment.py"], "experiment.py"),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line_that_names_it(folder, refused, arguments, message):
    assert message in refused(*arguments)
    assert not Path("out").exists()


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def until(condition, what):
    """Waits for what must come; gives up after ten minutes, on the busiest of machines."""
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def test_after_kill_9_the_table_is_the_same_and_no_finished_point_is_measured_twice(tmp_path):
    command = [AIRPOOL, "sweep", "experiment:slow", "--set", f"n={','.join(map(str, range(14)))}", "--seed", "3"]
    command += ["--workers", "2", "--cache", "cache", "--out", "table.csv"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for folder in (killed, whole):
        folder.mkdir()
        (folder / "experiment.py").write_text(EXPERIMENT)

    def kept():
        return [line for file in (killed / "cache").glob("*.jsonl") for line in lines(file) if '"parameters"' in line]

    sink = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=killed, stdout=sink, stderr=sink)
    until(lambda: len(kept()) >= 4, "nothing was kept")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "table.csv").exists()
    finished = {json.loads(line.split(" ", 1)[1])["parameters"]["n"] for line in kept()}
    assert 4 <= len(finished) < 14
    pids = {int(line.split()[1]) for line in lines(killed / "calls")}
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "a worker lives on")

    calls_before = len(lines(killed / "calls"))
    for folder in (killed, whole):
        (folder / "open").touch()
        subprocess.run(command, cwd=folder, check=True, stdout=sink)
    assert (killed / "table.csv").read_bytes() == (whole / "table.csv").read_bytes()
    rows = list(csv.DictReader(lines(whole / "table.csv")[1:]))
    assert [int(row["n"]) for row in rows] == list(range(14))
    resumed = {int(line.split()[0]) for line in lines(killed / "calls")[calls_before:]}
    assert resumed == set(range(14)) - finished


def interruptible(command, folder):
    return subprocess.Popen(
        command,
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a shell's background job ignores it
    )


@pytest.mark.parametrize("wait", [0.0, 0.1, 0.3, 0.6])
def test_ctrl_c_while_workers_start_is_one_line(tmp_path, wait):
    (tmp_path / "experiment.py").write_text(EXPERIMENT)
    process = interruptible(
        [AIRPOOL, "sweep", "experiment:slow", "--set", f"n={','.join(map(str, range(20)))}"], tmp_path
    )
    started = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: len(started.read_text().split()) >= 2, "no worker was started")
    time.sleep(wait)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=600)[1].splitlines()[-1:] == ["interrupted"]
    assert process.returncode == 130


def test_ctrl_c_stops_the_workers_and_keeps_what_is_done(tmp_path):
    (tmp_path / "experiment.py").write_text(EXPERIMENT)
    command = [AIRPOOL, "sweep", "experiment:slow", "--set", f"n={','.join(map(str, range(20)))}", "--cache", "cache"]
    process = interruptible(command, tmp_path)
    until(lambda: len(lines(tmp_path / "calls")) >= 3, "no point was measured")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in err
    pids = {int(line.split()[1]) for line in lines(tmp_path / "calls")}
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "a worker lives on")
    assert any((tmp_path / "cache").iterdir())
