"""Neighbours are one enum, which reads and writes as the plain words of files, ledgers and JSON."""

import json
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import airpool
from airpool import Network, NetworkError
from airpool.network import Neighbours, file
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.device import epsilon
from airpool.runtime import wire_pb2
from airpool.runtime.ledger.budget import Budget
from airpool.runtime.ledger.mechanism import mechanism, parse

SOURCE = Path(__file__).parents[1] / "src/airpool"
# Digests of mechanisms since channel.symbols is gone: rows of ledgers name them.
DIGESTS = {
    "zero-out": "9333275e8800a8a8ef24bb40bd9375de12c4d222df784ea629e3bb4fb002a01c",
    "replace": "671f59362cc4bcee84098a9451ef97dd336676782f01e3dbb0f4208a65c80024",
    "remove": "a493591650343dd0ded79f77eb6badc762bb88f8666812e7e130abf30050a9ed",
}


def network(neighbours: str) -> Network:
    return Network.uniform(num_devices=3, noise_std=0.5, dimension=4, neighbours=neighbours)


@pytest.mark.parametrize("name", DIGESTS)
def test_a_word_and_a_member_are_the_same(name):
    net = network(name)
    assert net.neighbours is Neighbours(name)
    assert {net} == {network(Neighbours(name))}
    assert (str(net.neighbours), repr(net.neighbours), f"{net.neighbours}") == (name, repr(name), name)
    assert pickle.loads(pickle.dumps(net)).neighbours is net.neighbours


@pytest.mark.parametrize("name", DIGESTS)
def test_files_ledgers_json_and_wire_hold_the_plain_word(name):
    net = network(name)
    assert f'\nneighbours = "{name}"\n' in file.dump(net)
    assert file.parse(file.dump(net)) == net
    found = mechanism(net, device=0)
    assert found.digest == DIGESTS[name]
    assert parse(found.text) == found
    report = airpool.guarantee(net).to_json()
    assert json.loads(json.dumps(report, indent=1))["neighbours"] == name
    assert type(wire_pb2.Guarantee(neighbours=net.neighbours).neighbours) is str


def test_what_is_no_relation_is_an_error_that_lists_them():
    known = "must be one of zero-out, replace, remove"
    for wrong in ("substitute", "", 2, None, ["replace"]):
        with pytest.raises(NetworkError, match=f"{re.escape(f'neighbours={wrong!r}')} {known}"):
            replace(network("replace"), neighbours=wrong)
    one = Aggregate(*([1.0],) * 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=known):
        epsilon(one, 1e-5, neighbours="substitute")


def test_a_budget_takes_the_word_too():
    word: Any = "remove"
    assert Budget(1.0, neighbours=word).neighbours is Neighbours.REMOVE


def test_no_module_compares_words_of_relations():
    compared = re.compile(r'neighbours [!=]= "(zero-out|replace|remove)"')
    assert not [path for path in SOURCE.rglob("*.py") if compared.search(path.read_text("utf-8"))]
