"""The command that trains trunks on a machine that has torch, NumPy and safetensors alone."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from airpool.models import weights
from airpool.models.vision import cad, shapes
from airpool.models.vision.meshes import Mesh
from airpool.models.vision.mvcnn import Architecture
from airpool.models.vision.prepare import gridded

ROOT = Path(__file__).parents[2]
CODE = """
import sys
for name in ("scipy", "typer", "rich", "matplotlib", "trimesh", "jinja2", "dp_accounting", "array_api_compat"):
    sys.modules[name] = None
sys.path.insert(0, ".")
from airpool.models.vision import vgg
vgg._BLOCKS = ((4,), (4,), (8, 8), (8, 8), (16, 512))
from studies import train_trunk
train_trunk.LARGEST = 100_000
train_trunk.main(sys.argv[1:])
"""


@pytest.fixture
def meshes(tmp_path):
    """Six objects: three to train on, one to validate, two to test."""
    chosen = shapes.all()[:6]
    names = [
        next(each for k in range(999) if (cad._hashed("ab"[i % 2], each := f"{i}_{k}") < 0.1) == (i == 0))
        for i in range(6)
    ]
    columns = {"label": np.arange(6) % 2, "classes": np.array(["a", "b"]), "name": np.array(names)}
    columns |= {"split": np.array(["train"] * 4 + ["test"] * 2), "source": np.array(["cad"] * 6)}
    packed = [cad.pack(*gridded(Mesh(shape.vertices, shape.faces))) for shape in chosen]
    cad.write(tmp_path / "meshes.npz", cad.joined(packed, **columns))
    return tmp_path / "meshes.npz"


def test_it_stops_in_time_goes_on_and_keeps_weights_logits_and_numbers(meshes, tmp_path):
    settings = ["epochs=2", "objects=2", "views=2", "extra_views=1"]
    options = ["--kind", "vgg11", "--state", tmp_path / "state", "--out", tmp_path / "out", "--seed", 3, 4]
    given = [meshes, *options, *(text for each in settings for text in ("--set", each))]

    def run(*more):
        command = [sys.executable, "-c", CODE, *map(str, [*given, *more])]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "vgg11-3: not finished; run the same command again" in run("--seconds", "1e-3")
    assert list((tmp_path / "out").iterdir()) == []
    run()
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == [
        "vgg11-3.safetensors",
        "vgg11-4.safetensors",
    ]
    assert "epoch" not in run()  # nothing is trained again
    record = json.loads((tmp_path / "out/vgg11-4.json").read_text())
    assert record["recipe"]["seed"] == 4
    assert record["architecture"]["trunk"] == "vgg11"
    assert set(record["validation"]) == {"no_noise", "no_noise_classes", "one_view", "one_view_classes"}
    parts = sorted((tmp_path / "out").glob("vgg11-4.?.safetensors"))
    assert len(parts) > 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airpool.models.vision.vgg._BLOCKS", ((4,), (4,), (8, 8), (8, 8), (16, 512)))
        model, about = weights.load(parts)
    assert about["history"][-1]["epoch"] == 2
    assert model.architecture == Architecture(num_classes=2)
    logits = load_file(tmp_path / "out/vgg11-4-logits.safetensors")
    assert logits["validation"].shape == (1, 12, 2)
    assert logits["test"].shape == (2, 12, 2)
    assert logits["test_index"].tolist() == cad.read(meshes).indices("test").tolist()
