"""Ledgers, keys and network files of a release: this version and later ones go on with them, at the same ε."""

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.ledger.golden.make import BUDGETS, DEVICE, NETWORKS, identity, tls_keys

from airpool.network import NetworkError
from airpool.network import file as network_file
from airpool_runtime import terms
from airpool_runtime.keys import credentials, secret
from airpool_runtime.ledger.backup import content, faults
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism, parse, parse_all
from airpool_runtime.ledger.refused import SpendingError
from airpool_runtime.ledger.spending import total
from airpool_runtime.messages import StatedTerms

GOLDEN = Path(__file__).parent / "golden"
RELEASES = sorted(path.parent.name for path in GOLDEN.glob("*/expected.json"))
KINDS = [(release, kind) for release in RELEASES for kind in NETWORKS]
LATER = Path(__file__).with_name("later.py")


@pytest.fixture
def golden(tmp_path, request):
    """A copy of a release's files, and what it expects of one kind."""
    release, kind = request.param
    folder = tmp_path / release
    shutil.copytree(GOLDEN / release, folder)
    for head in folder.glob("*.head"):
        head.chmod(0o600)
    return folder, kind, json.loads((folder / "expected.json").read_text("utf-8"))[kind]


def opened(folder, kind):
    return Ledger(folder / f"{kind}.db", identity(), budgets=BUDGETS)


def later(folder, kind, *more):
    done = subprocess.run(
        [sys.executable, LATER, folder, kind, *more], capture_output=True, text=True, check=True, timeout=120
    )
    return json.loads(done.stdout)


def test_there_is_a_release():
    assert "0.1.0-dev" in RELEASES


@pytest.mark.parametrize("golden", KINDS, indirect=True, ids="-".join)
def test_a_golden_ledger_is_whole_costs_the_same_and_goes_on(golden):
    folder, kind, expected = golden
    path = folder / f"{kind}.db"
    found = content(path)
    key = identity().public_key().public_bytes_raw().hex()
    assert list(faults(found, head=path.with_suffix(".head"), key=key)) == []
    assert (len(found.rows), found.rows[-1].hash) == (expected["rows"], expected["hash"])
    for relation, epsilon in expected["epsilon"].items():
        assert total(found.counts, 1e-5, relation) == pytest.approx(epsilon, rel=1e-12)
    network = network_file.read(folder / f"{kind}.toml")
    assert network == NETWORKS[kind]
    assert network_file.dump(network) == (folder / f"{kind}.toml").read_text("utf-8")
    one = mechanism(network, device=DEVICE)
    (stored,) = found.counts
    assert (stored.digest, stored.described) == (expected["mechanism"], one.described)
    for relation, epsilon in expected["epsilon"].items():  # or `mechanism.VERSION` must rise
        assert total({one: found.counts[stored]}, 1e-5, relation) == pytest.approx(epsilon, rel=1e-9)
    with opened(folder, kind) as ledger:
        assert not ledger.charge(f"{kind} 0", one).new
        new = ledger.charge("the next one", one, epoch="autumn")
        assert (new.new, new.row.mechanism) == (True, expected["mechanism"])
        assert ledger.epsilon(1e-5) > expected["epsilon"]["zero-out"]
    assert list(faults(content(path), head=path.with_suffix(".head"), key=key)) == []


@pytest.mark.parametrize("golden", [(RELEASES[0], kind) for kind in NETWORKS], indirect=True, ids="-".join)
def test_a_later_version_with_new_settings_goes_on_with_an_old_ledger(golden):
    folder, kind, expected = golden
    said = later(folder, kind)
    assert said["epsilon"] == pytest.approx(expected["epsilon"]["zero-out"], rel=1e-12)
    assert said["new"]
    assert said["mechanism"] == expected["mechanism"]
    own = network_file.read(folder / f"{kind}.toml")
    assert said["dump"] == network_file.dump(own)  # what a server of that version asks this device for
    asked = StatedTerms("", said["dump"])
    assert terms.difference(own, asked, they="it asks for", own_side="this device is set to") is None
    with opened(folder, kind) as ledger:  # and this version after it, as a rolled-back upgrade
        assert ledger.charge("after it", mechanism(own, device=DEVICE)).new


@pytest.mark.parametrize("golden", [(RELEASES[0], "coin")], indirect=True, ids="-".join)
def test_rows_of_a_newer_version_with_settings_not_known_here_add_up(golden):
    folder, kind, expected = golden
    assert later(folder, kind, "new")["new"]
    with opened(folder, kind) as ledger:
        assert ledger.epsilon(1e-5) > expected["epsilon"]["zero-out"]
        assert ledger.charge("after it", mechanism(network_file.read(folder / f"{kind}.toml"), device=DEVICE)).new
    (*_, newer) = content(folder / f"{kind}.db").counts
    with pytest.raises(NetworkError, match="doppler_hz"):
        _ = newer.network


def test_a_leak_that_a_newer_version_made_is_refused_in_words():
    text = mechanism(NETWORKS["coin"], device=DEVICE).text
    for changed, said in ((text.replace('"Gaussian"', '"Unheard"'), r"leak 'Unheard' is not known: update airpool"),):
        digest = hashlib.sha256(changed.encode()).hexdigest()
        with pytest.raises(SpendingError, match=f"newer airpool wrote it, update.*{said}"):
            parse_all({digest: changed}, Path("ledger.db"))


def test_a_changed_leak_is_found(golden_coin):
    path, _ = golden_coin
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("UPDATE mechanism SET text = replace(text, '0.25', '0.75')")
    with pytest.raises(SpendingError, match=r"mechanism .* was changed"):
        opened(path.parent, "coin")
    assert any("was changed" in wrong for wrong in faults(content(path)))


@pytest.fixture
def golden_coin(tmp_path):
    shutil.copytree(GOLDEN / RELEASES[0], tmp_path / "release")
    for head in (tmp_path / "release").glob("*.head"):
        head.chmod(0o600)
    return tmp_path / "release" / "coin.db", RELEASES[0]


def test_a_mechanism_in_other_words_is_refused():
    text = mechanism(NETWORKS["coin"], device=DEVICE).text
    with pytest.raises(NetworkError, match="not a mechanism in its canonical form"):
        parse(json.dumps(json.loads(text), sort_keys=True))


@pytest.mark.parametrize("release", RELEASES)
def test_golden_keys_are_read(release, tmp_path):
    folder = tmp_path / release
    shutil.copytree(GOLDEN / release, folder)
    expected = json.loads((folder / "expected.json").read_text("utf-8"))["keys"]
    made = [secret.pem(key) for key, _ in zip(tls_keys(), range(9), strict=False)]
    made.append(secret.pem(identity()))
    by_hash = {hashlib.sha256(pem).hexdigest(): pem for pem in made}
    for name, digest in expected.items():
        secret.write(folder / name, by_hash[digest])
    home = folder / "keys" / f"device-{DEVICE}"
    own, _ = credentials.load(home)
    assert own.name == f"device-{DEVICE}"
    assert secret.identity(home / "identity.key").private_bytes_raw() == identity().private_bytes_raw()
