"""`airpool keys` and `airpool ledger`."""

import json
import sqlite3

import pytest
from typer.testing import CliRunner

from airpool import Claim, Network, Threshold, guarantee
from airpool.account.assumptions import GRID
from airpool.cli import app
from airpool.network import Neighbours
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism


def run(*arguments, code=0):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done.stdout


@pytest.fixture
def keys(tmp_path):
    run("keys", "init", "--keys", tmp_path / "keys")
    run("keys", "device", "device-3", "--keys", tmp_path / "keys")
    return tmp_path / "keys"


@pytest.fixture
def ledger(tmp_path, keys):
    net = Network.uniform(num_devices=12, participation=0.9)
    with Ledger(tmp_path / "ledger.db", keys / "device-3" / "identity.key", device="device-3") as opened:
        for i in range(5):
            opened.charge(f"{i}", mechanism(net, device=3))
    return tmp_path / "ledger.db"


def test_keys_are_made_listed_rotated_and_revoked(keys):
    run("keys", "rotate", "device-3", "--keys", keys)
    assert "device-3 is revoked" in run("keys", "revoke", "device-3", "--keys", keys)
    found = json.loads(run("keys", "show", "--keys", keys, "--json"))["issued"]
    assert [each["revoked"] for each in found if each["name"] == "device-3"] == [True] * 4
    assert {each["name"] for each in found} == {"server", "air", "ranking", "device-3"}
    assert "revoked" in run("keys", "show", "--keys", keys)


def test_no_command_prints_a_private_key(keys, ledger):
    said = run("keys", "show", "--keys", keys, "--json") + run("ledger", "show", ledger, "--json")
    for path in keys.rglob("*.key"):
        assert path.read_text().splitlines()[1] not in said


def test_show_prints_what_was_spent(ledger):
    found = json.loads(run("ledger", "show", ledger, "--json"))
    net = Network.uniform(num_devices=12, participation=0.9)
    assert found["inferences"] == 5
    assert found["epsilon"] == pytest.approx(float(guarantee(net, Claim(inferences=5, live=True)).epsilon[3]))
    assert "5 inferences" in run("ledger", "show", ledger)


def test_show_and_verify_print_spending_against_every_budget(ledger, keys):
    assert "spent: no budget set" in run("ledger", "show", ledger)
    budgets = [Budget(20.0), Budget(40.0, window_s=86400)]
    with Ledger(ledger, keys / "device-3" / "identity.key", budgets=budgets):
        pass
    whole, day = json.loads(run("ledger", "show", ledger, "--json"))["budgets"]
    assert (whole["epsilon"], whole["covers"], day["covers"]) == (20.0, "all inferences", "any 24 h")
    assert 0 < whole["more_inferences"] < day["more_inferences"]
    for command in ("show", "verify"):
        text = run("ledger", command, ledger)
        assert f"of 20 for all inferences, about {whole['more_inferences']} more inferences" in text
        assert f"of 40 for any 24 h, about {day['more_inferences']} more inferences now" in text


def test_what_cannot_be_held_against_a_budget_is_said_and_the_file_is_checked_all_the_same(tmp_path, keys):
    net, path = Network.uniform(num_devices=3, scheme=Threshold(score_noise_std=1.0)), tmp_path / "scored.db"
    how = {"head": tmp_path / "head"}
    with Ledger(path, keys / "device-3" / "identity.key", **how) as opened:
        opened.charge("a", mechanism(net, device=0))
    with Ledger(path, keys / "device-3" / "identity.key", budgets=[Budget(4.0, neighbours=Neighbours.REMOVE)], **how):
        pass
    for command in ("show", "verify"):
        assert "spent: not computed: " in run("ledger", command, path)


def test_an_infinite_total_comes_with_its_reason(tmp_path, keys):
    net = Network.uniform(num_devices=3, noise_std=1e-4)
    how = {"device": "device-3", "head": tmp_path / "head"}
    with Ledger(tmp_path / "loud.db", keys / "device-3" / "identity.key", **how) as opened:
        opened.charge("a", mechanism(net, device=0))
    assert f"ε = inf ({GRID})" in run("ledger", "show", tmp_path / "loud.db")
    run("ledger", "export", tmp_path / "loud.db", "--out", tmp_path / "rows.jsonl")
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    assert f"device-3: ε is inf ({GRID})" in run("ledger", "fleet", url, "--take", tmp_path / "rows.jsonl")
    assert json.loads(run("ledger", "fleet", url, "--json"))["devices"][0]["reason"] == GRID


def test_a_file_that_is_no_key_is_named(ledger, tmp_path, refused):
    (tmp_path / "net.toml").write_text("version = 3\n")
    text = refused("ledger", "verify", ledger, "--key", tmp_path / "net.toml")
    assert "net.toml holds neither a key nor a certificate: give identity.key or identity.crt" in text


def test_verify_finds_what_is_wrong(ledger, keys):
    key = keys / "device-3" / "identity.key"
    assert "5 rows, no faults." in run("ledger", "verify", ledger, "--key", key)
    assert "5 rows, no faults." in run("ledger", "verify", ledger, "--key", key.with_suffix(".crt"))
    assert "Not checked: the end (--head) and whose it is (--key)" in run("ledger", "verify", ledger)
    base = sqlite3.connect(ledger)
    base.executescript("DROP TRIGGER no_delete; DELETE FROM charge WHERE seq > 3;")
    base.close()
    found = json.loads(run("ledger", "verify", ledger, "--key", key, "--json", code=1))
    assert found["faults"] == ["cut off: the ledger ends with row 3, but 5 rows were written"]
    assert run("ledger", "verify", ledger)


def test_export_backup_rebuild_and_fleet(ledger, keys, tmp_path):
    run("ledger", "export", ledger, "--out", tmp_path / "rows.jsonl")
    run("ledger", "backup", ledger, "--out", tmp_path / "copy.db")
    run("ledger", "rebuild", tmp_path / "rows.jsonl", "--out", tmp_path / "new.db")
    for path in ("copy.db", "new.db"):
        assert "5 rows, no faults" in run("ledger", "verify", tmp_path / path)
    url = f"sqlite:///{tmp_path}/fleet.db"
    found = json.loads(run("ledger", "fleet", url, "--take", tmp_path / "rows.jsonl", "--json"))
    assert (found["taken"], found["devices"][0]["inferences"]) == (5, 5)
    assert "device-3" in run("ledger", "fleet", url)
    for given in ("device-3", found["devices"][0]["key"][:10]):
        out = tmp_path / f"{given}.jsonl"
        run("ledger", "fleet", url, "--of", given, "--out", out)
        assert out.read_text() == (tmp_path / "rows.jsonl").read_text()
    run("ledger", "rebuild", tmp_path / "device-3.jsonl", "--out", tmp_path / "restored.db")
    head, key = keys / "device-3" / "identity.head", keys / "device-3" / "identity.crt"
    assert "5 rows, no faults" in run("ledger", "verify", tmp_path / "restored.db", "--head", head, "--key", key)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--of", "device-4", "--out", "x"), "device device-4 must be one"), (("--of", "device-3"), "together")],
)
def test_the_fleet_view_exports_a_ledger_that_it_knows(arguments, said, refused, tmp_path):
    assert said in refused("ledger", "fleet", f"sqlite:///{tmp_path}/fleet.db", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("ledger", "show", "none.db"),
        ("ledger", "verify", "rubbish.db"),
        ("ledger", "backup", "none.db", "--out", "x.db"),
        ("ledger", "rebuild", "rubbish.db", "--out", "x.db"),
        ("ledger", "fleet", "nothing"),
        ("ledger", "fleet", "sqlite:///no/such/folder/fleet.db"),
        ("keys", "show", "--keys", "none"),
        ("keys", "device", "../x", "--keys", "none"),
    ],
)
def test_bad_input_is_an_error_of_one_line(arguments, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rubbish.db").write_text("rubbish" * 100)
    assert refused(*arguments).count("\n") == 1
