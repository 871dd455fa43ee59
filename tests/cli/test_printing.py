"""What people read: no number is cut or rounded to the wrong side, however narrow the terminal."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import airpool
from airpool import Claim, Devices, EncodedObjects, Network, cli, guarantee
from airpool._support.rounding import down, full, shown, shown_below, up
from airpool._support.table import TextTable
from airpool.account import assumptions
from airpool.account.odds import table as odds_table
from airpool.account.report import table
from airpool.evaluation.audit.claims import Evidence
from airpool_runtime.keys import authority
from airpool_runtime.ledger.backup import content
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.ledger.fleet import Fleet
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism

NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*\d|\d")
MIXED = Network(devices=Devices(count=3, noise_std=(0.05, 0.1, 0.2), participation=0.9))
CLAIM = Claim(delta=1.23456789e-5)


def numbers(text: str) -> list[str]:
    return sorted(NUMBER.findall(text))


def rendered(what, width: int) -> str:
    from io import StringIO

    from rich.console import Console

    file = StringIO()
    Console(file=file, width=width).print(what)
    return file.getvalue()


@pytest.mark.parametrize("width", [24, 40, 60, 80, 120])
def test_a_report_shows_the_same_numbers_at_every_width(width):
    report = guarantee(MIXED, CLAIM)
    for what in (table(report), odds_table(report.odds[0])):
        text = rendered(what, width)
        assert numbers(text) == numbers(rendered(what, 200))
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= width
    assert "1.23456789e-05" in rendered(table(report), 200)


@pytest.mark.parametrize("width", [1, 8, 20, 33, 40, 57, 80, 200])
def test_a_table_of_any_width_keeps_every_word(width):
    rng = np.random.default_rng(width)
    header = ("device", "ε of the sum", "why it is so", "last refusal")
    rows = [
        (str(k), shown(rng.exponential(5)), "a colluder knows its own feature " * int(rng.integers(1, 4)), "–")
        for k in range(5)
    ]
    text = TextTable(header, rows).text(width)
    words = [word for row in rows for cell in row for word in cell.split()]
    assert all(word in text.split() for word in words)
    assert max(map(len, text.splitlines())) <= max(width, max(map(len, words)) + 4)


def test_names_and_values_without_headings_stay_together():
    text = TextTable(("", ""), [("accuracy", "0.9 (0.8 to 1.0)"), ("ε of the worst device", "1.910")]).text(10)
    assert text.split() == ["accuracy", "0.9", "(0.8", "to", "1.0)", "ε", "of", "the", "worst", "device", "1.910"]
    assert TextTable(("a", "b"), []).text(80).splitlines()[0] == "a  b"


def piped(words: str, columns: str | None) -> str:
    """What a command prints into a pipe. columns: what COLUMNS says; None: it is not set."""
    done = CliRunner(env={"COLUMNS": columns}).invoke(cli.app, words.split())
    assert done.exit_code == 0, done.output
    return done.stdout


THREE = "--devices 3 --noise-std 0.05,0.1,0.2 --dimension 4 --participation 0.9"
TABLES = (
    f"epsilon {THREE}",
    f"calibrate {THREE} --epsilon 1.23456789",
    "report {folder}/net.toml --text",
    "ledger show {folder}/ledger.db",
    "ledger fleet sqlite:///{folder}/fleet.db",
    "keys show --keys {folder}/keys",
    "evaluate --trials 1 --noise-std 0.3",
    "theory --devices 3 --noise-std 0.3 --objects 5 --trials 2",
    "audit --devices 3 --noise-std 0.4 --runs 300",
    "design weights --epsilon 2",
    "design clipping --devices 3 --epsilon 2",
    "radio evaluate --noise-std 0.3",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A network file, and keys, ledger and fleet view of a device."""
    folder = tmp_path_factory.mktemp("printing")
    airpool.write_network(MIXED, folder / "net.toml", CLAIM)
    authority.create(folder / "keys")
    authority.add(folder / "keys", "device-0")
    key = folder / "keys" / "device-0" / "identity.key"
    with Ledger(folder / "ledger.db", key, device="device-0", budgets=[Budget(123.456789)]) as ledger:
        for noise_std in (0.1, 0.2):
            ledger.charge(f"at {noise_std}", mechanism(Network.uniform(num_devices=3, noise_std=noise_std), device=0))
    view = Fleet(f"sqlite:///{folder / 'fleet.db'}")
    view.take(content(folder / "ledger.db"))
    view.close()
    return folder


@pytest.mark.parametrize("words", TABLES, ids=lambda words: " ".join(words.split()[:2]))
def test_commands_print_every_number_whole_into_a_pipe(words, folder):
    words = words.format(folder=folder)
    wide = piped(words, "200")
    assert wide
    for columns in ("40", "80", None):
        said = piped(words, columns)
        assert "…" not in said
        assert Counter(numbers(wide)) - Counter(numbers(said)) == Counter()
        assert set(numbers(said)) == set(numbers(wide))


def test_another_process_prints_what_the_report_has():
    exact = guarantee(replace(MIXED, dimension=4))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "airpool", *f"epsilon {THREE}".split()]
    said = subprocess.run(command, check=True, env=env, capture_output=True, text=True).stdout
    for value in (*exact.epsilon, *exact.epsilon_local, exact.epsilon_object):
        assert shown(value) in said


def test_bounds_are_rounded_to_the_safe_side_and_claims_are_shown_whole():
    rng = np.random.default_rng(0)
    for value in rng.exponential(3, size=300):
        assert value - 1e-3 <= float(shown_below(value)) <= value <= float(shown(value)) <= value + 1e-3
        assert float(down(value)) <= value <= float(up(value))
        assert float(full(value)) == value
    assert shown(-1e-9) == "0.000"
    assert shown_below(-0.0) == "0.000"
    claim = Evidence("own noise", 3, "standard deviation", 0.0512345, 0.04, 0.0, 0.045, "every ε")
    assert "claimed 0.0512345" in str(claim)


def test_a_refuted_claim_is_printed_with_all_digits():
    found = airpool.audit(Network.uniform(num_devices=3, noise_std=0.4), runs=200)
    game = replace(found.games[0], epsilon_lower=1.90935, claimed_epsilon=1.90932)
    assert str(game).startswith("ε ≥ 1.90935 with")
    assert "claimed 1.90932: VIOLATED" in str(game)


def test_a_library_call_takes_numpy_and_torch_alike():
    rng = np.random.default_rng(1)
    std: Any = torch.tensor(0.3)
    net = Network(devices=Devices(count=3, noise_std=std), dimension=4)
    assert net == Network(devices=Devices(count=3, noise_std=np.float64(std.item())), dimension=4)
    latents, labels = rng.normal(size=(20, 3, 4)).astype(np.float32), np.arange(20) % 4
    both: Any = ((latents, labels), (torch.from_numpy(latents), torch.from_numpy(labels)))
    found = [
        airpool.evaluate(EncodedObjects(z, y, lambda level: lambda estimate: estimate), net, trials=2) for z, y in both
    ]
    assert found[0].record() == found[1].record()
    error = found[0].mse_error
    assert error is not None
    assert 0 < error < found[0].mse


def test_plans_and_audits_print_as_a_few_lines():
    net = Network.uniform(num_devices=3, noise_std=0.4)
    found = airpool.audit(net, runs=200)
    for each in (found, found.games[0]):
        assert len(repr(each).splitlines()) <= 10
        assert "<table" in each._repr_html_()
    from airpool.evaluation.plan.candidates import PAPER
    from airpool.evaluation.plan.search import Option, Plan

    objects = EncodedObjects(torch.zeros(4, 3, 40), torch.arange(4), lambda level: lambda estimate: estimate)
    option = Option(PAPER, net, airpool.evaluate(objects, replace(net, dimension=40), trials=1))
    for each in (option, Plan(option, (option,) * 30, option, (), 0)):
        assert len(repr(each).splitlines()) <= 10
        assert "<table" in each._repr_html_()


def test_folders_of_files_to_write_are_made(tmp_path):
    from airpool._support import files

    files.write(tmp_path / "a" / "b" / "net.toml", "x")
    assert (tmp_path / "a" / "b" / "net.toml").read_text() == "x"
    path = tmp_path / "c" / "net.json"
    airpool.write_network(MIXED, path, CLAIM)
    assert (airpool.read_network(path), airpool.read_claim(path)) == (MIXED, CLAIM)
    assert json.dumps(guarantee(MIXED).to_json())


def test_evaluate_says_why_an_epsilon_is_infinite():
    said = piped("evaluate --trials 1 --noise-std 0.3 --colluders 1", "200")
    assert f"ε of the object             inf ({assumptions.COLLUDER})\n" in said
    assert said.count("inf (") == 1


def test_a_terminal_without_unicode_gets_every_number():
    def said(encoding: str) -> str:
        words = [sys.executable, "-m", "airpool", "epsilon", "--devices", "3", "--noise-std", "0.3"]
        environment = os.environ | {"PYTHONIOENCODING": encoding, "COLUMNS": "200"}
        return subprocess.run(words, capture_output=True, check=True, env=environment).stdout.decode(encoding)

    plain, whole = said("ascii"), said("utf-8")
    assert numbers(plain) == numbers(whole)
    assert "eps device" in plain
    assert "?" not in plain
