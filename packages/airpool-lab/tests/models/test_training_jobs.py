"""Training jobs as Python calls, without the command line."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from airpool import Network
from airpool.models.pretrained import load
from airpool_lab.training import sensors
from airpool_lab.training import sensors as features_file
from airpool_lab.training.work import TrainingJob


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    rng, labels = np.random.default_rng(0), np.arange(90) % 3
    path = tmp_path_factory.mktemp("features") / "own.npz"
    np.savez(path, features=3 * rng.standard_normal((3, 2, 5))[labels] + rng.standard_normal((90, 2, 5)), labels=labels)
    return path


def test_a_job_is_one_call_that_returns_a_card_and_its_files(own, tmp_path):
    found = features_file.read(own)
    quick = {"head_steps": 60, "codec_steps": 10, "codec_hidden": 8, "server_hidden": 8}
    recipe, net = sensors.settings(quick), Network.uniform(num_devices=found.num_devices)
    job = TrainingJob(own, tmp_path, test=True)
    card, files = sensors.make(job, "own", found, net, recipe=recipe, epsilon=[8], trials=2)
    assert [file.name for file in files] == ["own.safetensors", "own.json", "own.md"]
    assert card["air"]["networks"][0]["epsilon"] <= 8
    assert card["runs"][0]["air"][-1]["test"]["accuracy_mean"] > 0.5
    assert load(files[0]).num_devices == 2
    with pytest.raises(ValueError, match="'a/b' must be a name, without folders"):
        sensors.make(replace(job, test=False), "a/b", found, net, recipe=recipe)


def test_training_jobs_load_no_command_line():
    jobs = "codec, head, sensors, trunk"
    code = f"import sys; from airpool_lab.training import {jobs}; assert not {{'typer', 'rich'}} & {{*sys.modules}}"
    subprocess.run([sys.executable, "-c", code], check=True)
