"""Neighbours are one enum, which reads and writes as the plain words of files, ledgers and JSON."""

import json
import pickle
import re
from dataclasses import replace
from typing import Any

import pytest

import airpool
from airpool import Claim, Network, NetworkError
from airpool.network import Neighbours, file
from airpool.privacy.aggregate import Aggregate
from airpool.privacy.device import epsilon
from airpool_runtime import wire_pb2
from airpool_runtime.ledger.budget import Budget
from airpool_runtime.ledger.mechanism import mechanism, parse
from tests.sources import MODULES

NAMES = ["zero-out", "replace", "remove"]


NETWORK = Network.uniform(num_devices=3, noise_std=0.5, dimension=4)


def claim(neighbours: Any) -> Claim:
    return Claim(neighbours=neighbours)


@pytest.mark.parametrize("name", NAMES)
def test_a_word_and_a_member_are_the_same(name):
    one = claim(name)
    assert one.neighbours is Neighbours(name)
    assert {one} == {claim(Neighbours(name))}
    assert (str(one.neighbours), repr(one.neighbours), f"{one.neighbours}") == (name, repr(name), name)
    assert pickle.loads(pickle.dumps(one)).neighbours is one.neighbours


@pytest.mark.parametrize("name", NAMES)
def test_files_ledgers_json_and_wire_hold_the_plain_word(name):
    one = claim(name)
    assert f'\nneighbours = "{name}"\n' in file.dump(NETWORK, one)
    assert file.parse_claim(file.dump(NETWORK, one)) == one
    found = mechanism(NETWORK, device=0)
    assert f'"{name}":' in found.text
    assert parse(found.text) == found
    report = airpool.guarantee(NETWORK, one).to_json()
    assert json.loads(json.dumps(report, indent=1))["neighbours"] == name
    assert type(wire_pb2.Guarantee(neighbours=one.neighbours).neighbours) is str


def test_what_is_no_relation_is_an_error_that_lists_them():
    known = "must be one of zero-out, replace, remove"
    for wrong in ("substitute", "", 2, None, ["replace"]):
        with pytest.raises(NetworkError, match=f"{re.escape(f'neighbours={wrong!r}')} {known}"):
            replace(claim("replace"), neighbours=wrong)
    one = Aggregate(*([1.0],) * 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=known):
        epsilon(one, 1e-5, neighbours="substitute")


def test_a_budget_takes_the_word_too():
    word: Any = "remove"
    assert Budget(1.0, neighbours=word).neighbours is Neighbours.REMOVE


def test_no_module_compares_words_of_relations():
    compared = re.compile(r'neighbours [!=]= "(zero-out|replace|remove)"')
    assert not [path for path in MODULES if compared.search(path.read_text("utf-8"))]
