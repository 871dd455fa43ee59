"""Ledgers, keys and network files of earlier releases: this version and later ones go on with them, at the same ε."""

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ledger.golden.make import BUDGETS, DEVICE, NETWORKS, identity, tls_keys

from airpool.network import Channel, NetworkError
from airpool.network import file as network_file
from airpool.runtime import terms
from airpool.runtime.keys import credentials, secret
from airpool.runtime.ledger.backup import content, faults
from airpool.runtime.ledger.ledger import Ledger
from airpool.runtime.ledger.mechanism import mechanism, parse
from airpool.runtime.ledger.refused import SpendingError
from airpool.runtime.ledger.spending import Use, total
from airpool.runtime.messages import StatedTerms

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
    assert one.digest == expected["mechanism"]
    with opened(folder, kind) as ledger:
        assert not ledger.charge(f"{kind} 0", one).new
        assert ledger.charge("the next one", one, epoch="autumn").new
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
def test_a_ledger_of_a_newer_version_is_refused_in_words(golden):
    folder, kind, _ = golden
    assert later(folder, kind, "new")["new"]
    with pytest.raises(SpendingError, match=r"newer airpool wrote it, update.*doppler_hz"):
        opened(folder, kind)


def test_a_mechanism_in_other_words_keeps_its_digest_and_is_counted_with_its_equal():
    """A version that leaves out what this one writes: read, and never counted once for two."""
    one = mechanism(NETWORKS["coin"], device=DEVICE)
    body = json.loads(one.text)
    del body["network"]["channel"]["antennas"]
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    other = parse(text)
    assert other.text == text
    assert other.digest == hashlib.sha256(text.encode()).hexdigest()
    assert other.network == one.network
    both = {one: Use(2, 2), other: Use(3, 3)}
    assert len(both) == 2
    assert total(both, 1e-5) == total({one: Use(5, 5)}, 1e-5)
    assert total({other: Use(5, 5)}, 1e-5, "zero-out") == total({one: Use(5, 5)}, 1e-5)
    assert replace(other, stored="") == one


def test_a_row_with_a_k_factor_that_played_no_part_is_read():
    """Older versions took one with every fading; now it is refused outside a ledger."""
    one = mechanism(NETWORKS["secure"], device=DEVICE)
    text = one.text.replace('"k_factor_db":4.8', '"k_factor_db":6.0')
    assert text != one.text
    with pytest.raises(NetworkError, match=r"k_factor_db=6\.0 is of fading"):
        network_file.build(json.loads(text)["network"])
    other = parse(text)
    assert (other.network, other.text) == (one.network, text)
    assert total({other: Use(5, 5)}, 1e-5) == total({one: Use(5, 5)}, 1e-5)
    rician = replace(NETWORKS["coin"], channel=Channel(fading="rician", k_factor_db=6.0))
    assert parse(mechanism(rician, device=DEVICE).text).network.channel.k_factor_db == 6.0


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
