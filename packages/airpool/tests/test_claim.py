"""A claim is plain data, checked when it is made; it is no part of a network, and every answer takes it whole."""

import math
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest

import airpool
from airpool import Claim, Network, NetworkError, Slots, guarantee, network
from airpool.account.reconstruction import reconstruction
from airpool.network import Neighbours
from airpool.network.file import dump

NET = Network.uniform(num_devices=3, noise_std=0.5)


def test_the_defaults_are_those_of_the_specification():
    assert {each.name: each.default for each in fields(Claim)} == {
        "delta": 1e-5,
        "neighbours": "zero-out",
        "inferences": 1,
        "colluding": (),
        "credit_channel_noise": False,
        "live": False,
        "per_event": None,
        "knows_answer": True,
    }
    assert airpool.Claim is network.Claim


@pytest.mark.parametrize("relation", Neighbours)
def test_neighbours_may_be_a_string(relation):
    claim = Claim(neighbours=str(relation))
    assert claim == Claim(neighbours=relation)
    assert claim.neighbours is relation
    assert replace(claim, delta=1e-6).neighbours is relation


def test_devices_that_collude_are_a_tuple_however_they_are_given():
    for given in ([2, 0], (2, 0), np.array([2, 0]), iter([2, 0])):
        claim = Claim(colluding=given)
        assert claim.colluding == (2, 0)
        assert all(type(k) is int for k in claim.colluding)


def test_claims_are_plain_values():
    claim = Claim(neighbours="replace", colluding=[1], live=True)
    assert hash(claim) == hash(Claim(neighbours=Neighbours.REPLACE, colluding=(1,), live=True))
    assert pickle.loads(pickle.dumps(claim)) == claim
    assert {claim: 1}[replace(claim)] == 1
    with pytest.raises(FrozenInstanceError):
        claim.delta = 0.1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("delta", 0.0, "delta=0.0 must be > 0 and < 1"),
        ("delta", 1.0, "delta=1.0 must be > 0 and < 1"),
        ("delta", -1e-5, "delta=-1e-05 must be > 0 and < 1"),
        ("delta", math.nan, "delta=nan must be > 0 and < 1"),
        ("delta", "1e-5", "delta='1e-5' must be a number"),
        ("neighbours", "swap", "neighbours='swap' must be one of zero-out, replace, remove"),
        ("neighbours", 1, "neighbours=1 must be one of zero-out, replace, remove"),
        ("inferences", 0, "inferences=0 must be a whole number >= 1"),
        ("inferences", 1.5, "inferences=1.5 must be a whole number >= 1"),
        ("inferences", True, "inferences=True must be a whole number >= 1"),
        ("colluding", 3, "colluding=3 must be a list of devices"),
        ("colluding", "12", "colluding='12' must be a list of devices"),
        ("colluding", None, "colluding=None must be a list of devices"),
        ("colluding", [0, 1.5], "colluding[1]=1.5 must be a whole number >= 0"),
        ("colluding", ["#1"], "colluding[0]='#1' must be a whole number >= 0"),
        ("colluding", [-1], "colluding[0]=-1 must be a whole number >= 0"),
        ("colluding", [True], "colluding[0]=True must be a whole number >= 0"),
        ("credit_channel_noise", 1, "credit_channel_noise=1 must be true or false"),
        ("live", "yes", "live='yes' must be true or false"),
        ("per_event", 0, "per_event=0 must be a whole number >= 1"),
        ("per_event", 2.5, "per_event=2.5 must be a whole number >= 1"),
        ("per_event", 10**13, "per_event=10000000000000 is too large: it must be at most 1000000000000"),
        ("knows_answer", None, "knows_answer=None must be true or false"),
    ],
)
def test_a_bad_claim_is_refused_by_field_and_value(field, value, message):
    with pytest.raises(NetworkError) as caught:
        Claim(**{field: value})
    assert str(caught.value) == message


def test_a_device_that_the_network_has_not_cannot_collude():
    with pytest.raises(NetworkError, match="colluding device 3 must be from 0 to 2"):
        guarantee(NET, Claim(colluding=[3]))


def test_what_is_no_claim_is_refused():
    message = r"claim is of type float, must be a Claim, as in guarantee\(network, Claim\(\)\)"
    for ask in (guarantee, airpool.odds, airpool.exchange, airpool.calibrate, reconstruction):
        with pytest.raises(TypeError, match=message):
            ask(NET, 1e-5)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("slots", "uses"), [(Slots(), 7), (Slots(4), 28), (Slots(4, redrawn=False), 7)], ids=["one", "anew", "once"]
)
def test_a_claim_of_several_inferences_is_of_all_their_slots(slots, uses):
    assert replace(NET, slots=slots).uses(Claim(inferences=7)) == uses


def test_a_report_of_another_claim_is_what_was_asked_anew():
    report = guarantee(NET, Claim(delta=1e-6, live=True))
    again = report.again(inferences=5)
    assert again.claim == Claim(delta=1e-6, inferences=5, live=True)
    assert again.to_json() == guarantee(NET, again.claim).to_json() == report.over(5).to_json()
    with pytest.raises(TypeError, match="colour"):
        report.again(colour=1)


def test_whole_numbers_of_numpy_are_those_of_python():
    three: Any = np.int64(3)
    claim = Claim(inferences=three, per_event=three, colluding=np.array([1]))
    assert repr(claim) == repr(Claim(inferences=3, per_event=3, colluding=[1]))
    net = Network.uniform(num_devices=three, dropouts=three - 2)
    assert dump(net) == dump(Network.uniform(num_devices=3, dropouts=1))
