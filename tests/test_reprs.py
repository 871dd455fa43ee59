"""Public objects print as at most ten lines, whatever arrays they hold, and as a table in a notebook."""

import numpy as np
import pytest

import airpool
from airpool import Channel, Devices, Network
from airpool._support.brief import Brief, brief
from airpool.models.sensors.fitting import FitRecipe
from airpool_lab.demo import one_object


@pytest.fixture(scope="module")
def public():
    model = airpool.load("modelnet40")
    net = Network.uniform(num_devices=12, noise_std=0.1, dimension=model.codec().dimension)
    objects = airpool.held_out(model, net)
    labels = np.arange(60) % 3
    features = np.random.default_rng(0).normal(size=(60, 3, 4)) + labels[:, None, None]
    recipe = FitRecipe(head_steps=2, codec_steps=2, hidden=(0,), alike=True, trials=1)
    fitted = airpool.fit(features, labels, epsilon=4.0, recipe=recipe)
    small = Network.uniform(num_devices=3, noise_std=0.3, dimension=fitted.codec().dimension)
    out = airpool.infer(fitted, features, network=small, rng=np.random.default_rng(1))
    mixed = Devices(count=1000, weight=tuple(np.linspace(0.1, 1.0, 1000) / 1000))
    found = [model, net, objects, fitted, out, out.received, one_object.find("chair"), Network(devices=mixed)]
    found += [model.codec("compact"), model.codec(), model.held_out("test"), fitted.sensors, fitted.heads]
    found += [airpool.evaluate(objects, net, trials=1), airpool.guarantee(small)]
    return [*found, airpool.design(net, objects.latents[:50].double().numpy(), epsilon=4.0)]


def test_every_public_object_has_a_repr_of_at_most_ten_lines(public):
    for each in public:
        text = repr(each)
        assert type(each).__name__ in text
        assert len(text.splitlines()) <= 10, type(each)
        assert len(text) <= 1000 or not isinstance(each, Brief), type(each)
        assert "<table" in each._repr_html_()


def test_the_repr_of_a_network_of_equal_devices_is_an_expression():
    net = Network.uniform(num_devices=40, noise_std=0.1, channel=Channel(fading="rician"))
    names = {name: getattr(airpool, name) for name in ("Network", "Devices", "Channel", "Coin", "Slots")}
    assert eval(repr(net), names | {"Adversary": airpool.Adversary}) == net


def test_what_is_long_is_cut_and_says_how_long_it_is():
    assert brief(tuple(range(100))) == "(0, 1, 2, ... 100 in all)"
    assert brief([1.0]) == "[1.0]"
    assert brief((1.0,)) == "(1.0,)"
    assert len(brief("x" * 10_000)) <= 100
    assert len(brief({str(k): "x" * 90 for k in range(100)})) <= 400
