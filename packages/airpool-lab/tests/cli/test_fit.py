"""`airpool fit`: from pictures to a model with its card, and every error before the work."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("PIL.Image")

from tests.models.photographs import quick_trunk, shop

import airpool
from airpool import cli
from airpool.models.images import fitting
from airpool.models.sensors.fitting import FitRecipe

RECIPE = FitRecipe(alike=True, hidden=(0,), head_steps=60, codec_steps=20, codec_hidden=8, server_hidden=8)
QUICK = ("--epsilon", 2, "--epsilon", 8, "--trials", 2)


def run(*arguments):
    done = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        quick_trunk(patch)
        patch.setattr(fitting, "RECIPE", RECIPE)
        yield shop(tmp_path_factory.mktemp("shop"), cameras=3, objects=6)


def test_one_split_gives_a_model_a_table_a_figure_and_a_card(pictures, tmp_path):
    (pictures / "cam0" / "mug" / "0.png").write_bytes(b"no picture")
    out = tmp_path / "shop.safetensors"
    done = run("fit", "--images", pictures, "--out", out, *QUICK)
    assert "note: 1 pictures cannot be read, taken as missing" in done.stderr
    for row in ("the model", "vote", "compact", "one camera", "chance"):
        assert row in done.stdout
    beside = {path.name for path in tmp_path.iterdir()}
    endings = ("safetensors", "json", "md", "png", "svg", "features")
    assert beside == {*(f"shop.{ending}" for ending in endings), "shop-objects.csv"}
    card = (tmp_path / "shop.md").read_text()
    assert "airpool evaluate --model shop.safetensors" in card
    assert "![Confusions](shop.png)" in card
    record = json.loads((tmp_path / "shop.json").read_text())
    assert (record["seed"], record["version"], record["pictures"]) == (0, airpool.__version__, 35)
    assert np.sum(record["confusion"]) == pytest.approx(record["tested"])
    with (tmp_path / "shop-objects.csv").open() as file:
        parts = [row["part"] for row in csv.DictReader(file)]
    assert sorted(set(parts)) == ["test", "train", "validation"]
    again = json.loads(run("evaluate", "--model", out, "--epsilon", 8, "--trials", 2, "--json").stdout)
    assert again["objects"] == record["tested"] == parts.count("test")


def test_folds_test_every_object_once_and_the_model_is_fitted_to_all(pictures, tmp_path):
    out = tmp_path / "shop.safetensors"
    record = json.loads(run("fit", "--images", pictures, "--out", out, "--folds", 3, *QUICK, "--json").stdout)
    assert record["tested"] == 12
    assert [len(record["table"]["vote"][column]["each"]) for column in ("2", "8", "no noise")] == [3, 3, 3]
    assert record["table"]["vote"]["no noise"]["mean"] > 0.9  # two colours
    assert record["split"]["test"] == 0
    assert "over 3 folds" in (tmp_path / "shop.md").read_text()
    model = airpool.load(out)
    with pytest.raises(ValueError, match="fitted without test objects"):
        model.held_out("test")
    assert len(model.held_out("validation")) == record["split"]["validation"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give --images FOLDER or --videos FOLDER"),
        (("--images", "{shop}", "--videos", "{shop}"), "give --images FOLDER or --videos FOLDER"),
        (("--images", "{shop}/none"), "no such folder"),
        (("--images", "{shop}", "--labels", "x.csv"), "--labels are of --videos"),
        (("--images", "{shop}", "--folds", "1"), "--folds 1 must be 2 or more"),
        (("--images", "{shop}", "--folds", "7"), "too few objects of mug, pear"),
        (("--images", "{shop}", "--trials", "0"), "--trials 0 must be"),
        (("--images", "{shop}", "--fine-tune"), "needs a GPU, and torch finds none. On a CPU it would take about"),
        (("--images", "{shop}", "--fine-tune", "--torch-device", "tpu"), "must be cpu or cuda"),
    ],
)
def test_bad_input_is_refused_before_the_work(pictures, tmp_path, refused, monkeypatch, arguments, message):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    given = [each.format(shop=pictures) for each in arguments]
    assert message in refused("fit", "--out", tmp_path / "m.safetensors", *given)
    assert not list(tmp_path.iterdir())


def test_another_file_is_not_overwritten(pictures, tmp_path, refused):
    (tmp_path / "thesis.safetensors").write_text("mine")
    assert "thesis.safetensors: damaged, or no safetensors file" in refused(
        "fit", "--images", pictures, "--out", tmp_path / "thesis.safetensors"
    )
    assert "must end with .safetensors" in refused("fit", "--images", pictures, "--out", tmp_path / "thesis.txt")
    (tmp_path / "README.md").write_text("mine")
    assert "README.md would be overwritten" in refused(
        "fit", "--images", pictures, "--out", tmp_path / "README.safetensors"
    )
    assert (tmp_path / "README.md").read_text() == "mine"
