"""From a file of features to a model, and every command that takes one."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from airpool import cli

K, CLASSES = 3, 3
QUICK = ["--set", "head_steps=150", "--set", "codec_steps=20", "--set", "codec_hidden=16", "--set", "server_hidden=16"]


def run(*arguments):
    done = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    rng = np.random.default_rng(0)
    labels = np.arange(90) % CLASSES
    seen = 3 * rng.standard_normal((CLASSES, K, 5))[labels] + rng.standard_normal((90, K, 5))
    seen[7, 1, 0] = np.nan
    path = tmp_path_factory.mktemp("features") / "own.npz"
    np.savez(path, features=seen, labels=np.array(["a", "b", "c"])[labels], groups=np.arange(90) // 3)
    return path


@pytest.fixture(scope="module")
def made(features, tmp_path_factory):
    out = tmp_path_factory.mktemp("model")
    done = run("train", "codec", "--features", features, "--out", out, "--epsilon", 8, "--trials", 2, "--json", *QUICK)
    return out, done


def test_features_become_one_file_and_its_card(made):
    out, done = made
    assert {path.name for path in out.iterdir()} == {"own.safetensors", "own.json", "own.md"}
    assert "1 of 270 measurements hold NaN: taken as missing sensors" in done.stderr
    card = json.loads((out / "own.json").read_text())
    assert card["split"]["how"] == "whole groups"
    assert card["air"]["networks"][0]["epsilon"] <= 8
    assert card["runs"][0]["air"][0]["test"] is None
    assert "| ε | σ | validation |" in (out / "own.md").read_text()


def test_the_model_is_evaluated_designed_and_audited(made):
    model = made[0] / "own.safetensors"
    record = json.loads(run("evaluate", "--model", model, "--epsilon", 8, "--trials", 2, "--json").stdout)
    assert record["accuracy_mean"] > 0.6
    assert len(record["epsilon"]) == K
    assert max(record["epsilon"]) <= 8
    run("design", "weights", "--model", model, "--epsilon", "4,8,8", "--noise-std", 0.3)
    audit = run("audit", "--model", model, "--noise-std", 0.2, "--runs", 2000, "--json")
    assert json.loads(audit.stdout)["violated"] is False


@pytest.mark.check
def test_the_model_is_planned_for(made, tmp_path):
    model, net = made[0] / "own.safetensors", tmp_path / "net.toml"
    found = json.loads(run("plan", "--model", model, "--epsilon", 8, "--out", net, "--json").stdout)
    run("evaluate", "--model", model, "--network", net, "--codec", found["best"]["codec"], "--trials", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "codec", "--out", "o"], "give a packed file of meshes and a --trunk, or --features"),
        (["train", "codec", "--features", "{features}", "--trunk", "t", "--out", "o"], "not both"),
        (["train", "codec", "--features", "{features}", "--seeds", "2", "--out", "o"], "makes one model"),
        (["train", "codec", "--features", "{features}", "--epochs", "2", "--out", "o"], "epochs is not a field"),
        (
            ["train", "codec", "--features", "{features}", "--devices", "4", "--out", "o"],
            "4 devices, features are of 3",
        ),
        (["train", "codec", "--features", "{features}", "--kind", "map", "--out", "o"], "must be compact"),
        (["train", "codec", "--features", "{features}", "--objects", "9", "--out", "o"], "--objects is for meshes"),
        (
            ["train", "codec", "--features", "{features}", "--name", "a/b", "--out", "o"],
            "must be a name, without folders",
        ),
        (["train", "codec", "--features", "{features}", "--trials", "0", "--out", "o"], "trials"),
        (["train", "codec", "--features", "{features}", "--set", "head_steps=0", "--out", "o"], "head_steps=0 must be"),
        (["train", "codec", "--features", "{features}", "--out", "{features}"], "own.npz: Not a directory"),
        (["evaluate", "--model", "absent"], "no pretrained model 'absent': there is"),
        (["evaluate", "--model", "{model}", "--codec", "q16"], "--codec q16 must be one of"),
        (["evaluate", "--model", "{model}", "--views", "v"], "--views are images, which own does not take"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments, message, refused, features, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    filled = [each.format(features=features, model=made[0] / "own.safetensors") for each in arguments]
    assert message in refused(*filled)


def test_nothing_but_a_model_of_own_sensors_is_overwritten(refused, features, tmp_path):
    (tmp_path / "own.safetensors").write_text("precious")
    assert "own.safetensors: damaged, or no" in refused("train", "codec", "--features", features, "--out", tmp_path)
    assert (tmp_path / "own.safetensors").read_text() == "precious"
