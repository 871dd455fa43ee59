"""The models of real sensors that ship: they load by name, are small, and tell unseen subjects and objects apart."""

import pytest

import airpool
from airpool.evaluation.evaluate import evaluate
from airpool.models import assets


@pytest.mark.parametrize(
    ("name", "sensors", "classes", "objects", "epsilon", "least"),
    [("wearables", 5, 19, 1140, 8.0, 0.85), ("photos", 16, 8, 16, 2.0, 0.9)],
)
def test_a_model_of_real_sensors_loads_by_name(name, sensors, classes, objects, epsilon, least):
    model = airpool.load(name)
    assert (model.num_devices, len(model.classes), len(model.held_out("test"))) == (sensors, classes, objects)
    assert (assets.folder() / "sensors" / f"{name}.safetensors").stat().st_size < 3e6
    assert "licence" in (assets.folder() / "sensors" / f"{name}.md").read_text("utf-8")
    net = airpool.Network.uniform(num_devices=sensors, dimension=model.codec().dimension)
    assert evaluate(model, airpool.calibrate(net, epsilon=epsilon), trials=5).accuracy_mean > least
