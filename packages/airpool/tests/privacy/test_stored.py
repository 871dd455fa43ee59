"""Leaks as text: back to the same numbers, bit by bit, and nothing else is read."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from airpool import Channel, Claim, Network, Threshold
from airpool.account import use as uses
from airpool.network import Neighbours
from airpool.privacy import stored
from airpool.privacy.epsilon import epsilon
from airpool.privacy.law import Law
from airpool.privacy.leak import (
    Draws,
    Either,
    Gaussian,
    Hidden,
    HiddenBoth,
    Least,
    Near,
    PerDevice,
    Removed,
    Signal,
    Times,
    Unbounded,
    Worst,
    gaussians,
)
from airpool.privacy.together import Together, of_one, over

COIN = Network.uniform(num_devices=12, noise_std=0.1, participation=0.9, dropouts=1)
NETWORKS = {
    "coin": COIN,
    "covered": replace(COIN, cover_noise=True),
    "both": replace(COIN, cover_noise=True),
    "removed": replace(COIN, channel=Channel(noise_std=0.1)),
    "told": replace(COIN, cover_noise=True, channel=Channel(noise_std=0.1)),
    "threshold": Network.uniform(num_devices=4, noise_std=0.5, scheme=Threshold(score_noise_std=2.0)),
    "still": Network.uniform(num_devices=3, noise_std=0.5, channel=Channel(fading="rayleigh", redrawn=False)),
    "still, with a coin": replace(COIN, channel=Channel(fading="rayleigh", redrawn=False)),
    "without noise": Network.uniform(num_devices=3, noise_std=0.0),
}
RELATIONS = {"both": Neighbours.REPLACE, "removed": Neighbours.REMOVE, "told": Neighbours.REMOVE}


def text_of(leaks):
    """Leaks by name, as text."""
    return stored.canonical(stored.written(leaks))


def parse(text):
    """The leaks of a text."""
    return stored.read(json.loads(text))


def use(name, device):
    """One use of a network by its name."""
    return uses.use(NETWORKS[name], Claim(neighbours=RELATIONS.get(name, Neighbours.ZERO_OUT)), device)


@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_read_back_is_the_same_bit_by_bit(name):
    leaks = {"a": use(name, 1), "b": use(name, 0)}
    text = text_of(leaks)
    read = parse(text)
    assert text_of(read) == text
    assert stored.digest(read) == stored.digest(leaks)
    for number, draws in ((1, 1), (7, 1), (7, 2)):
        said = [float(epsilon(Together(((each["a"], number, draws),)), 1e-5)[0]) for each in (leaks, read)]
        assert said[0] == said[1]


def test_values_at_the_edge_of_a_float_read_back():
    values = np.array([0.0, 5e-324, 1e-7, 0.1, 1 / 3, 1e308, np.inf])
    for many in (values, np.tile(values, 9)):
        leak = PerDevice(Gaussian(many, many), np.zeros(len(many), np.int64), np.zeros(1, np.int64), among=1)
        read = parse(text_of({"x": leak}))["x"]
        assert np.array_equal(read.leak.shift, many)
        assert read.leak.shift.dtype == np.float64
    assert '"inf"' in text_of({"x": gaussians(np.array([np.inf])).of(0)})


def one(signal):
    return PerDevice(signal, np.zeros(1, np.int64), np.zeros(1, np.int64), among=3)


ONE = np.ones(1)
BARE = Gaussian(ONE, ONE)
PLAIN = one(BARE)


@dataclass(frozen=True, eq=False)
class Plugged(Signal):
    """A leaf of a plug-in."""

    scale: float
    curve: object = None


def test_a_plugins_leaf_is_stored_by_its_fields():
    nodes = Least((Times(2, PLAIN), Draws(2, 1, PLAIN), Worst((Unbounded(1, "why"),)), Near(ONE / 2, PLAIN)))
    for each in (one(Removed(ONE, ONE, 3)), one(Either(ONE, BARE, BARE)), nodes):
        assert text_of(parse(text_of({"x": each}))) == text_of({"x": each})
    for half in (Hidden(ONE / 2, BARE), HiddenBoth(ONE / 2, BARE)):
        assert parse(text_of({"x": one(half)}))["x"].signal.probability == 0.5
    with pytest.raises(ValueError, match="object is not a parameter that can be stored"):
        text_of({"x": Plugged(0.5, object())})
    with pytest.raises(ValueError, match="Claim is not a leak that can be stored"):
        text_of({"x": dataclass(type("Claim", (), {}))()})
    known = json.loads(text_of({"x": Plugged(0.5)}))
    known["nodes"][0][0] = "Unheard"
    with pytest.raises(ValueError, match="leak 'Unheard' is not known: update airpool, or load the plug-in"):
        stored.read(known)


@pytest.mark.parametrize("values", [np.array([np.nan]), np.zeros(0), np.array([True]), np.zeros(2, np.float32)])
def test_what_is_no_parameter_is_not_written(values):
    with pytest.raises(ValueError, match="not an array that can be stored"):
        text_of({"x": Gaussian(values, ONE)})
    with pytest.raises(ValueError, match="not JSON compliant"):
        text_of({"x": Plugged(float("nan"))})


def changed(leak, was, now):
    text = text_of({"x": leak})
    assert was in text, text
    return text.replace(was, now)


THRESHOLD = use("threshold", 1).mixed
COINS = use("coin", 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "not a text of leaks"),
        ('{"leaks":{},"nodes":[1]}', "not a text of leaks"),
        ('{"leaks":{"x":0},"nodes":[]}', "node 0 is not one of those before it"),
        (changed(PLAIN, '"among":3', '"among":3.0'), "PerDevice: among is not what it must be"),
        (changed(PLAIN, '"among":3', '"among":null'), "do not go together"),
        (changed(PLAIN, '"cells":512', '"cells":0'), "do not go together"),
        (changed(PLAIN, '"kind":[0]', '"kind":[1]'), "do not go together"),
        (changed(PLAIN, '"kind":[0]', '"kind":[0,0]'), "do not go together"),
        (changed(PLAIN, '"kind":[0]', '"kind":[0.0]'), "kind is not what it must be"),
        (changed(PLAIN, '"own":[1.0]', '"own":[-1.0]'), "Gaussian: parameters that do not go together"),
        (changed(PLAIN, '"own":[1.0]', '"own":["one"]'), "own is not what it must be"),
        (changed(PLAIN, '"own":[1.0]', '"own":[NaN]'), "do not go together"),
        (changed(one(Plugged(0.5)), "0.5", "NaN"), "not JSON compliant"),
        (changed(PLAIN, '"own":[1.0]', '"own":[[1.0],[1.0]]'), "do not go together"),
        (changed(PLAIN, '"own":[1.0],', ""), "not a text of leaks"),
        (changed(PLAIN, '"own":[1.0]', '"own":[1.0],"more":1'), "not a text of leaks"),
        (
            changed(PLAIN, '"nodes":[', '"nodes":[["Plugged",{"curve":null,"scale":1.0}],')
            .replace('"node":0', '"node":1')
            .replace('"x":1', '"x":2'),
            "canonical",
        ),
        (changed(one(Hidden(ONE, BARE)), '"probability":[1.0]', '"probability":[1.5]'), "Hidden"),
        (changed(one(Either(ONE, BARE, BARE)), '"probability":[1.0]', '"probability":[1.5]'), "Either"),
        (changed(Times(2, PLAIN), '"number":2', '"number":0'), "inferences=0 must be >= 1"),
        (changed(Draws(2, 1, PLAIN), '"draws":1', '"draws":0'), "Draws"),
        (changed(COINS, '"surroundings":0', '"surroundings":-1'), "Use"),
        (changed(Near(ONE / 2, PLAIN), "[0.5]", "[1.5]"), "Near"),
        (changed(Unbounded(1), '"count":1', '"count":2'), "Unbounded"),
        (changed(Least((PLAIN,)), '[{"node":1}]', '[{"node":0}]'), "Least"),
        (changed(Law(np.ones((1, 2)), np.ones((1, 2))), '"mass":[[1.0,1.0]]', '"mass":[[1.0]]'), "Law"),
        (changed(COINS, '"row":[0]', '"row":[1]'), "Floor"),
        (changed(COINS, '"exposed":[0.9]', '"exposed":[1.9]'), "Seen"),
        (changed(THRESHOLD, '"choice":[0,1,2]', '"choice":[0,1]'), "Decided"),
    ],
)
def test_what_is_no_text_of_leaks_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse(text)


def test_an_expression_that_doubles_with_every_node_is_refused():
    body = json.loads(text_of({"x": PLAIN}))
    for _ in range(40):
        top = {"node": len(body["nodes"]) - 1}
        body["nodes"].append(["Least", {"leaks": {"several": [top, top]}}])
    body["leaks"]["x"] = len(body["nodes"]) - 1
    with pytest.raises(ValueError, match="an expression that is too large"):
        stored.read(body)


@pytest.mark.parametrize("change", [{"slack": -1.0}, {"mass": 1e-6}, {"listed": True}])
def test_a_law_that_is_none_is_refused(change):
    body = json.loads(text_of({"x": COINS}))
    for kind, parameters in body["nodes"]:
        if kind == "Floor" and "slack" in change:
            parameters["slack"] = change["slack"]
        elif kind == "Law" and "mass" in change:
            parameters["mass"] = [[x * change["mass"] for x in row] for row in parameters["mass"]]
        elif kind == "Seen" and "listed" in change:
            parameters["exposed"] = [True]
    with pytest.raises(ValueError, match=r"Floor|canonical|exposed"):
        stored.read(body)


def test_more_uses_than_an_integer_of_numpy_holds():
    assert np.isfinite(epsilon(Times(2**70, gaussians(np.array([1e-12]))), 1e-5)[0])


def test_a_packed_array_that_was_changed_is_refused():
    text = text_of({"x": one(Gaussian(np.ones(1), np.ones(1)))})
    long = json.loads(
        text_of(
            {"x": PerDevice(Gaussian(np.ones(40), np.ones(40)), np.zeros(40, np.int64), np.zeros(1, np.int64), among=1)}
        )
    )
    for where, what in (("float64", "a"), ("shape", [41]), ("shape", [2, 20])):
        body = json.loads(json.dumps(long))
        body["nodes"][0][1]["own"][where] = what
        with pytest.raises(ValueError, match=r"base64|padding|reshape|must be|go together"):
            stored.read(body)
    assert parse(text)


def test_many_of_any_leak():
    three = epsilon(Times(3, PLAIN), 1e-5)
    assert epsilon(over(PLAIN, 3), 1e-5) == epsilon(over(Least((Draws(1, 1, PLAIN),)), 3), 1e-5) == three
    assert np.isinf(epsilon(over(Worst((PLAIN, Unbounded(1))), 3), 1e-5))
    both = gaussians(np.array([1.0, 2.0]))
    assert epsilon(of_one(Worst((both, both)), 1), 1e-5) == epsilon(gaussians(np.array([2.0])), 1e-5)
    assert epsilon(of_one(Unbounded(2), 1), 1e-5).shape == (1,)
