"""`airpool train` from end to end, on our own shapes: a file of meshes in, weights and a card out.

The trunk is VGG11 made narrow, so that minutes become seconds; all else is as it is.
"""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from airpool import cli
from airpool.models import local, weights
from airpool.models.codecs import codec as codecs
from airpool.models.codecs import training as codec_training
from airpool.models.vision import features, mvcnn, shapes
from airpool.models.vision.features import pooled
from airpool.models.vision.meshes import Mesh
from airpool.models.vision.views import Cameras
from airpool_lab.vision import cad, runs
from airpool_lab.vision.prepare import gridded
from airpool_lab.vision.renders import renders

NARROW = ((4,), (4,), (8, 8), (8, 8), (16, 512))
TRUNK = ("trunk", "--kind", "vgg11")
QUICK = ("--objects", 4, "--epochs", 3, "--set", "objects=4", "--set", "views=1", "--set", "average=0.5")


@pytest.fixture(scope="module", autouse=True)
def narrow():
    """A narrow trunk, and every object rendered once for all tests."""

    @cache
    def seen(digest, extra_views):
        meshes, row = where[digest]
        return renders(meshes, np.array([row]), cameras, extra_views=extra_views)[0]

    where, cameras = {}, Cameras(resolution=112)

    def remembered(meshes, rows, asked, *, extra_views, torch_device, on_objects):
        assert (asked, torch_device) == (cameras, "cpu")
        on_objects(len(rows))
        where.update({meshes.digests[row]: (meshes, row) for row in rows})
        return torch.stack([seen(meshes.digests[row], extra_views) for row in rows])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mvcnn, "_BLOCKS", NARROW)
        patch.setattr(runs, "renders", remembered)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Bottles and tables in two heights: twelve to train on, two to validate, three to test, one of them a double."""
    rows = []
    for shape in shapes.all():
        for tall in (1.0, 1.3) if shape.label in ("bottle", "table") and shape.variant < 4 else ():
            mesh = cad.pack(*gridded(Mesh(shape.vertices * [1, 1, tall], shape.faces)))
            split = "test" if (shape.variant, tall) == (3, 1.0) else "train"
            aside = (shape.variant, tall) == (2, 1.3)
            rows.append((split, shape.label, named(shape.label, f"{shape.name}_{tall}", aside), mesh))
    double = next(row for row in rows if row[0] == "train")
    rows.append(("test", *double[1:]))
    rows.sort(key=lambda row: row[:3])
    path = tmp_path_factory.mktemp("data") / "meshes.npz"
    cad.write(path, joined(rows))
    return path


def named(label, name, aside):
    """A name that puts an object into the validation split, or not."""
    return next(each for k in range(999) if (cad._hashed(label, each := f"{name}_{k}") < 0.1) == aside)


def joined(rows):
    split, label, name, mesh = zip(*rows, strict=True)
    classes = ["bottle", "table"]
    columns = {"label": np.array([classes.index(each) for each in label], int), "classes": np.array(classes)}
    columns |= {
        "split": np.array(split, str),
        "name": np.array(name, str),
        "source": np.array(["cad"] * len(rows), str),
    }
    return cad.joined(mesh, **columns)


def run(*arguments):
    return CliRunner().invoke(cli.app, ["train", *map(str, arguments)])


def told(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output + repr(result.exception)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """Two seeds, trained and tested."""
    out = tmp_path_factory.mktemp("out")
    told(*TRUNK, data, "--out", out, "--seeds", 2, "--test", *QUICK)
    return out


def test_every_seed_has_its_weights_and_one_card_tells_of_all(folder):
    assert sorted(path.name for path in folder.glob("trunk*")) == [
        "trunk-0.safetensors",
        "trunk-1.safetensors",
        "trunk.json",
        "trunk.md",
    ]
    card = json.loads((folder / "trunk.json").read_text())
    assert card["seeds"] == [0, 1]
    assert card["data"]["objects"] == 17
    assert card["data"]["licence"] is None
    assert (card["split"]["train"], card["split"]["validation"], card["split"]["test"]) == (4, 2, 3)
    assert "by a hash of class and name" in card["split"]["how"]
    assert card["recipe"]["views"] == 1
    assert len(card["validation"]["each"]) == len(card["test"]["instance"]["each"]) == 2
    assert card["validation"]["std"] is not None
    assert card["test"]["duplicates"] == 1
    assert card["test"]["per_class"]["bottle"]["objects"] == 2
    for number, result in enumerate(card["runs"]):
        model, about = weights.load(folder / result["weights"])
        assert model.architecture.num_classes == 2
        assert about["seed"] == about["recipe"]["seed"] == number
        assert about["data"] == {"sha256": card["data"]["sha256"], "objects": 4}
        assert len(about["history"]) == 3
        assert result["sha256"] == runs.sha256(folder / result["weights"])
    assert "taken for" in (folder / "trunk.md").read_text() or "None." in (folder / "trunk.md").read_text()


def test_the_card_measures_what_lies_on_disk(folder, data):
    card = json.loads((folder / "trunk.json").read_text())
    source = runs.source(data, limit=4)
    images = source.images("test", resolution=112)
    for result in card["runs"]:
        model, _ = weights.load(folder / result["weights"])
        with torch.no_grad():
            found = torch.stack([model(views[None].float() / 255)[0].argmax() for views in images.views])
        right = (found == images.labels).double()
        assert result["test"]["instance"] == pytest.approx(float(right.mean()))
        assert result["test"]["without_duplicates"]["objects"] == 2


def test_the_same_command_again_trains_nothing_and_a_new_seed_alone(folder, data, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in folder.glob("trunk-*")}

    def make(path, *_, **__):
        raise ValueError(f"asked to train {path.name}")

    monkeypatch.setattr(runs, "make", make)
    card = told(*TRUNK, data, "--out", folder, "--seeds", 2, *QUICK)
    assert card["test"] is None  # not asked for this time
    assert told(*TRUNK, data, "--out", folder, "--seed", 1, "--seed", 0, "--test", *QUICK)["seeds"] == [0, 1]
    assert {path: path.stat().st_mtime_ns for path in folder.glob("trunk-*")} == before
    assert (
        str(run(*TRUNK, data, "--out", folder, "--seeds", 3, *QUICK).exception) == "asked to train trunk-2.safetensors"
    )


def test_killed_in_the_middle_it_goes_on_to_the_same_weights(folder, data, tmp_path):
    arguments = ["train", *TRUNK, data, "--out", tmp_path, *QUICK]
    code = f"""
import os, signal, sys
from airpool.cli import main
from airpool_lab.cli import train as shown
from airpool_lab.vision import training
from airpool.models.vision import mvcnn

def dying(line, log=shown.log):
    log(line)
    if "epoch=2 " in line:
        os.kill(os.getpid(), signal.SIGKILL)

shown.log, mvcnn._BLOCKS, training.CHECKPOINT_SECONDS = dying, {NARROW}, 0
sys.argv = ["airpool", *{[str(each) for each in arguments]}]
main()
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    checkpoint = tmp_path / "trunk-0.checkpoint"
    assert checkpoint.exists()
    assert not (tmp_path / "trunk-0.safetensors").exists()

    changed = run(*arguments[1:], "--set", "shift=0.2")
    assert changed.exit_code == 1
    assert "trunk-0.plan.json was made with recipe.shift = " in str(changed.exception)
    resumed = run(*arguments[1:])
    assert resumed.exit_code == 0, resumed.output
    assert "resumed after epoch 2" in resumed.stderr
    assert "epoch=2 " not in resumed.stderr
    assert not checkpoint.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trunk-0.safetensors", "trunk.json", "trunk.md"]
    whole, again = (load_file(path / "trunk-0.safetensors") for path in (folder, tmp_path))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_a_checkpoint_whose_plan_was_removed_is_not_taken_up(data, tmp_path):
    (tmp_path / "trunk-0.checkpoint").write_bytes(b"of another run")
    result = run(*TRUNK, data, "--out", tmp_path, *QUICK, "--epochs", 1)
    assert result.exit_code == 0, result.output
    assert "resumed" not in result.stderr
    assert not (tmp_path / "trunk-0.checkpoint").exists()


def test_a_small_trunk_learns_to_tell_bottles_from_tables(data, tmp_path):
    # Batch norm's running variances begin at 1, far above those of dark images: a hundred steps to forget that.
    arguments = ("--epochs", 40, "--set", "objects=4", "--set", "views=1", "--set", "average=0.9")
    card = told(*TRUNK, data, "--out", tmp_path, "--test", *arguments)
    assert card["split"]["train"] == 12
    assert card["validation"]["mean"] == 1.0
    assert card["test"]["instance"]["mean"] == 1.0


def test_a_head_is_trained_calibrated_and_described(folder, data, tmp_path):
    trunk = folder / "trunk-0.safetensors"
    card = told("head", data, "--trunk", trunk, "--out", tmp_path, "--test", "--epochs", 60, "--set", "hidden=8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["head.json", "head.md", "head.safetensors"]
    head, about = local.load(tmp_path / "head.safetensors")
    assert head.recipe.hidden == 8
    assert about["trunk"] == card["trunk"] == {"trunk-0.safetensors": runs.sha256(trunk)}
    assert card["calibration"]["temperatures"] == head.temperatures.tolist()
    for which, objects in (("validation", 2), ("test", 3)):
        assert card["calibration"][which]["objects"] == objects
        assert len(card["calibration"][which]["error"]) == 12
    # A bottle is thinner than a table in any view: even averages over a trunk that has seen little tell them apart.
    assert card["validation"]["mean"] > 0.9
    assert "Calibration of the local head" in (tmp_path / "head.md").read_text()


def test_a_trunk_in_parts_gives_the_same_head_and_nothing_but_a_head_is_overwritten(folder, data, tmp_path):
    stored, header = load_file(folder / "trunk-0.safetensors"), weights.read(folder / "trunk-0.safetensors")[1]
    late = {name: tensor for name, tensor in stored.items() if name.startswith("features.2")}
    parts = [tmp_path / "t.1.safetensors", tmp_path / "t.2.safetensors"]
    for path, tensors in zip(parts, ({k: v for k, v in stored.items() if k not in late}, late), strict=True):
        save_file(tensors, path, metadata={"about": json.dumps(header)})
    common = ("head", data, "--objects", 4, "--epochs", 2)
    result = run(*common, "--trunk", folder / "trunk-0.safetensors", "--out", tmp_path, "--name", "whole")
    assert result.exit_code == 0, result.output
    assert "warning: 2 validation objects: temperatures and calibration errors are rough" in result.stderr
    assert "mean over devices" in result.stdout
    for _ in range(2):
        told(*common, "--trunk", parts[0], "--trunk", parts[1], "--out", tmp_path, "--name", "joined")
    whole, joined = (load_file(tmp_path / f"{name}.safetensors") for name in ("whole", "joined"))
    assert all(torch.equal(whole[name], joined[name]) for name in whole)
    refused = run(*common, "--trunk", folder / "trunk-0.safetensors", "--out", folder, "--name", "trunk-0")
    assert "trunk-0.safetensors: holds no local head" in str(refused.exception)
    assert all(torch.equal(stored[name], tensor) for name, tensor in load_file(folder / "trunk-0.safetensors").items())


def test_a_recipe_comes_from_a_file_and_flags_override_it(folder, data, tmp_path, monkeypatch):
    file = tmp_path / "recipe.toml"
    file.write_text('epochs = 9\nviews = 3\nmirror = false\nhead = "mlp"\n')
    asked = []

    def made(_, plan):
        asked.append(plan)
        raise ValueError("enough")

    monkeypatch.setattr(runs, "made", made)
    run(*TRUNK, data, "--out", tmp_path, "--recipe", file, "--set", "views=5", "--epochs", 7, "--set", "weight_decay=1")
    (plan,) = asked
    assert (plan.recipe.epochs, plan.recipe.views, plan.recipe.mirror, plan.recipe.weight_decay) == (7, 5, False, 1.0)
    assert plan.architecture.head == "mlp"


# --- codecs ---

CODEC = ("--epochs", 6, "--set", "objects=4", "--set", "server_hidden=16", "--set", "hidden=16", "--trials", 8)


@pytest.fixture(scope="module")
def made(folder, data, tmp_path_factory):
    """Two seeds of a codec for two budgets over fading, validated only."""
    out = tmp_path_factory.mktemp("codec")
    trunk = folder / "trunk-0.safetensors"
    network = ("--epsilon", 30, "--epsilon", 2, "--fading", "rician", "--participation", 0.9)
    arguments = ["codec", data, "--trunk", trunk, "--out", out, "--seeds", 2, *network, *CODEC]
    return out, arguments, told(*arguments)


def test_a_codec_is_trained_for_every_budget_measured_and_described(made, folder):
    out, _, card = made
    names = ["codec-0.safetensors", "codec-1.safetensors", "codec.json", "codec.md"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert [each["target"] for each in card["air"]["networks"]] == [2.0, 30.0]
    assert all(0.99 * each["target"] < each["epsilon"] <= each["target"] for each in card["air"]["networks"])
    assert card["air"]["networks"][0]["noise_std"] > card["air"]["networks"][1]["noise_std"] > 0
    assert card["trunk"] == {"trunk-0.safetensors": runs.sha256(folder / "trunk-0.safetensors")}
    assert card["seeds"] == [0, 1]
    assert card["test"] is None
    for run_, seed in zip(card["runs"], (0, 1), strict=True):
        assert len(run_["air"]) == 3  # two networks, and none
        assert all(each["validation"]["objects"] == 2 and each["test"] is None for each in run_["air"])
        codec, about = codecs.load(out / run_["weights"])
        assert (codec.dimension, codec.num_classes, codec.shape.hidden) == (40, 2, 16)
        assert about["recipe"]["seed"] == seed
        assert about["network"]["epsilon"] == [2.0, 30.0]
        assert about["network"]["channel.fading"] == "rician"
    page = (out / "codec.md").read_text()
    assert "Over the air: zero-out neighbours, δ = 1e-05; 12 devices, p = 0.9; fading rician" in page
    assert "| ε | σ | validation | mean over classes |" in page
    assert "| no noise, no radio |" in page
    assert "± is over 2 seeds" in page


def test_the_card_measures_the_codec_that_lies_on_disk(made, folder, data):
    out, _, card = made
    model, _ = weights.load(folder / "trunk-0.safetensors")
    images = runs.source(data).images("validation", resolution=112)
    features = pooled(model.features, images)
    for run_ in card["runs"]:
        codec, _ = codecs.load(out / run_["weights"])
        with torch.no_grad():
            found = codec.decoder(codec.encoder(features).mean(1), 0.0).argmax(1)
        right = float((found == images.labels).double().mean())
        assert run_["air"][-1]["validation"]["accuracy_mean"] == run_["validation"] == right


def test_a_codec_is_not_trained_twice_and_the_test_set_can_be_read_later(made, monkeypatch):
    out, arguments, card = made

    def fit(*_, **__):
        raise ValueError("asked to train")

    monkeypatch.setattr(codec_training, "fit", fit)
    again = told(*arguments, "--test")
    assert [each["sha256"] for each in again["runs"]] == [each["sha256"] for each in card["runs"]]
    for one, other in zip(again["runs"], card["runs"], strict=True):
        assert [row["validation"] for row in one["air"]] == [row["validation"] for row in other["air"]]
        assert one["air"][0]["test"]["objects"] == 3
        assert one["air"][0]["without_duplicates"]["objects"] == 2
    assert "the test set was read afterwards" in (out / "codec.md").read_text()
    assert str(run(*arguments[:-2], "--seeds", 3).exception) == "asked to train"
    for extra, message in (
        (("--epochs", 7), "was made with recipe.epochs = 6, not 7"),
        (("--fading", "rayleigh"), "was made with network.channel.fading = rician, not rayleigh"),
        (("--epsilon", 3), "was made with network.epsilon = [2.0, 30.0], not [2.0, 3.0, 30.0]"),
        (("--objects", 3), "was made with data.objects = all, not 3"),
        (("--neighbours", "replace"), "was made with claim.neighbours = zero-out, not replace"),
    ):
        assert message in str(run(*arguments, *extra).exception)


def test_a_codec_may_look_at_whole_maps_and_a_network_file_says_what_it_is_for(folder, data, tmp_path):
    file = tmp_path / "net.toml"
    file.write_text("version = 3\ndimension = 49\n[devices]\ncount = 12\n[channel]\nnoise_std = 0.3\n")
    arguments = ("--kind", "map", "--network", file, "--epsilon", 10, "--set", "hidden=2", "--epochs", 1)
    trunk = folder / "trunk-0.safetensors"
    card = told("codec", data, "--trunk", trunk, "--out", tmp_path, *arguments, "--set", "server_hidden=8")
    assert (card["architecture"]["kind"], card["architecture"]["dimension"]) == ("map", 49)
    codec, _ = codecs.load(tmp_path / "codec-0.safetensors")
    assert codec.encoder(torch.ones(12, 512 * 49)).shape == (12, 49)
    assert "receiver's noise 0.3" in card["air"]["channel"]


def test_by_default_a_head_is_the_trunks_own_and_a_vote_is_fitted_to_what_it_says(folder, data, tmp_path):
    trunk = folder / "trunk-0.safetensors"
    card = told("head", data, "--trunk", trunk, "--out", tmp_path)
    assert card["recipe"]["epochs"] == 0
    head, _ = local.load(tmp_path / "head.safetensors")
    model, _ = weights.load(trunk)
    assert all(
        torch.equal(p, q) for p, q in zip(head.classifier.parameters(), model.classifier.parameters(), strict=True)
    )
    arguments = ("vote", data, "--trunk", trunk, "--head", tmp_path / "head.safetensors", "--out")
    assert told(*arguments, tmp_path) == {"files": [str(tmp_path / "vote.safetensors")]}
    vote, about = codecs.load(tmp_path / "vote.safetensors")
    assert vote.num_classes == head.sizes[1] == 2
    assert about["trunk"] == card["trunk"]
    refused = run(*arguments, folder, "--name", "trunk-0")
    assert "trunk-0.safetensors: holds no codec" in str(refused.exception)
    other = run("vote", data, "--trunk", folder / "trunk-1.safetensors", *arguments[4:], tmp_path)
    assert "head.safetensors: the local head of another trunk than trunk-1" in str(other.exception)


def test_a_classifier_is_refused_where_the_data_have_other_classes(folder, data, tmp_path):
    trunk, whole = folder / "trunk-0.safetensors", cad.read(data)
    told("head", data, "--trunk", trunk, "--out", tmp_path)
    renamed, more, unnamed = (tmp_path / name for name in ("renamed.npz", "more.npz", "unnamed.safetensors"))
    swapped, aside = np.array(["table", "bottle"]), set(whole.indices("validation").tolist())
    names = [named(swapped[whole.label[i]], "same", i in aside) for i in range(len(whole))]
    cad.write(renamed, replace(whole, classes=swapped, name=np.array(names)))
    cad.write(more, replace(whole, classes=np.array(["bottle", "table", "vase"])))
    header = {"about": json.dumps({k: v for k, v in weights.read(trunk)[1].items() if k != "classes"})}
    save_file(load_file(trunk), unnamed, metadata=header)
    head, common = tmp_path / "head.safetensors", ("--out", tmp_path, "--name", "new")
    order = "made for other classes: class 0 is 'bottle', of the data 'table'"
    for path, file, message in (
        (renamed, trunk, order),
        (more, trunk, "made for 2 classes, the data have 3"),
        (more, unnamed, "made for 2 classes, the data have 3"),
    ):
        assert str(run("head", path, "--trunk", file, *common).exception) == f"{file}: {message}"
    for path, message in ((renamed, order), (more, "made for 2 classes, the data have 3")):
        refused = run("vote", path, "--trunk", trunk, "--head", head, *common)
        assert str(refused.exception) == f"{head}: {message}"
    assert not (tmp_path / "new.safetensors").exists()
    told("head", renamed, "--trunk", unnamed, *common)  # nothing is known but their number
    told("head", renamed, "--trunk", trunk, *common, "--epochs", 1)  # a classifier of its own, for the data's classes


def test_all_is_trunk_head_and_codec_on_features_that_are_made_once(data, tmp_path, monkeypatch):
    seen = []

    def counted(*given, original=features.pooled, **more):
        seen.append(len(given[1]))
        return original(*given, **more)

    monkeypatch.setattr(features, "pooled", counted)
    parts = ["trunk.epochs=1", "trunk.objects=4", "trunk.views=1", "head.epochs=1", "codec.epochs=1", "codec.hidden=8"]
    settings = [text for part in parts for text in ("--set", part)]
    cards = told(
        "all",
        data,
        "--kind",
        "vgg11",
        "--out",
        tmp_path,
        "--seed",
        3,
        "--epsilon",
        5,
        "--objects",
        4,
        "--test",
        *settings,
    )
    assert list(cards) == ["trunk", "head", "codec"]
    assert sorted(seen) == [2, 3, 4]
    assert cards["trunk"]["test"]["objects"] == 3
    assert cards["head"]["trunk"] == cards["codec"]["trunk"]
    assert [card["seeds"] for card in cards.values()] == [[3]] * 3
    assert cards["codec"]["architecture"]["hidden"] == 8
    files = [file for card in cards.values() for file in card["files"]]
    assert sorted(files) == sorted(str(path) for path in tmp_path.iterdir())
    assert str(tmp_path / "vote.safetensors") in cards["head"]["files"]
    shown = run(
        "all", data, "--kind", "vgg11", "--out", tmp_path, "--seed", 3, "--epsilon", 5, "--objects", 4, *settings
    )
    assert [line for line in shown.output.splitlines() if line in cards] == ["trunk", "head", "codec"]


# --- what is said, and what is refused ---


def test_on_a_terminal_there_is_a_bar_instead_of_lines(capsys, monkeypatch):
    from airpool_lab.cli import train
    from airpool_lab.training import trunk

    steps = []
    for terminal, lines in ((False, 2), (True, 0)):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal)
        log = trunk._log("t-0", train.log, steps.append)
        log("resumed after epoch 3")
        log("epoch=4 loss=0.5")
        assert capsys.readouterr().err.count("\n") == lines
    assert steps == [3, 1, 3, 1]


ARGUMENTS = {
    "lr=1": "lr is not a field; what can be set: ",
    "seed=1": "seed has its own option or follows from the data",
    "num_classes=3": "num_classes has its own option",
    "epochs=two": "epochs='two' must be an integer",
    "epochs=true": "epochs=True must be an integer",
    "epochs=1.5": "epochs=1.5 must be an integer",
    "epochs=0": "epochs=0 must be ≥ 1",
    "learning_rate=fast": "learning_rate='fast' must be a number",
    "learning_rate=nan": "learning_rate=nan must be a number",
    "mirror=1": "mirror=1 must be true or false",
    "head=3": "head=3 must be text",
    "head=cnn": "head='cnn' must be 'linear'",
    "epochs": "--set 'epochs' must be NAME=VALUE",
}


REFUSED = [
    (["--epsilon", "0"], "--epsilon 0 must be > 0 and finite"),
    (["--epsilon", "nan"], "--epsilon nan must be > 0 and finite"),
    (["--kind", "paper"], "--kind paper must be 'compact' or 'map'"),
    (["--dimension", "0"], "--dimension 0 must be a whole number >= 1"),
    (["--participation", "2"], "--participation 2 must be between 0 and 1"),
    (["--fading", "fog"], "--fading fog must be one of none, rician"),
    (["--neighbours", "next door"], "--neighbours 'next door' must be one of"),
    (["--receiver-noise-std", "-1"], "--receiver-noise-std -1 must be >= 0"),
    (["--trials", "0"], "--trials 0 must be ≥ 1"),
    (["--set", "dimension=3"], "dimension has its own option"),
    (["--set", "told=1"], "told=1 must be true or false"),
    (["--set", "dropout=1.5"], "dropout=1.5 must be ≥ 0 and < 1"),
    (["--name", "trunk"], "trunk-0.safetensors: holds no codec that airpool knows"),
]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(([*TRUNK, "{data}", "--set", text], message) for text, message in ARGUMENTS.items()),
        (["trunk", "absent.npz"], "absent.npz: no such file"),
        (["trunk", "{out}"], "is no packed file of meshes: `airpool data prepare` makes one"),
        (["trunk", __file__], "not a packed file of meshes"),
        (["trunk", "{data}", "--objects", "0"], "--objects 0 must be ≥ 1"),
        (["trunk", "{data}", "--seeds", "0"], "--seeds 0 must be ≥ 1"),
        (["trunk", "{data}", "--seeds", "2", "--seed", "1"], "give --seed or --seeds, not both"),
        (["trunk", "{data}", "--seed", "-1"], "--seed -1 must be ≥ 0"),
        (["trunk", "{data}", "--torch-device", "tpu"], "--torch-device 'tpu' must be cpu or cuda"),
        ([*TRUNK, "{data}", "--resolution", "100"], "--resolution 100 must be 112 or 224 for vgg11"),
        (["trunk", "{data}", "--kind", "resnet"], "trunk='resnet' must be vgg11, lite0"),
        (["trunk", "{data}", "--kind", "lite0", "--resolution", "112"], "--resolution 112 must be 224 for lite0"),
        (["trunk", "{data}", "--set", "trunk=lite0"], "trunk has its own option"),
        (["trunk", "{data}", "--set", "erase=[1]"], "erase=[1] must be a list, such as [0.1, 0.5]"),
        (["trunk", "{data}", "--name", "a/b"], "--name 'a/b' must be a name, without folders"),
        (["trunk", "{data}", "--recipe", "absent.toml"], "absent.toml"),
        (["trunk", "{data}", "--recipe", __file__], "test_train.py: "),
        ([*TRUNK, "{data}"], "trunk-0.safetensors was made with data.objects = 4, not all"),
        ([*TRUNK, "{data}", "--objects", "4"], "trunk-0.safetensors was made with recipe.average = 0.5, not "),
        (["head", "{data}", "--trunk", "absent"], "absent: no such file; `airpool train` writes"),
        (["head", "{data}", "--trunk", __file__], "damaged, or no safetensors file"),
        (["head", "{data}", "--trunk", "{out}/trunk-0.safetensors", "--set", "views=0"], "views=0 must be ≥ 1"),
        (["head", "{data}", "--trunk", "{out}/trunk-0.safetensors", "--set", "objects=1"], "what can be set: epochs,"),
        *((["codec", "{data}", "--trunk", "{out}/trunk-0.safetensors", *more], message) for more, message in REFUSED),
        (["codec", "{data}", "--trunk", "absent"], "absent: no such file; `airpool train` writes"),
        (["codec", "absent.npz", "--trunk", "{out}/trunk-0.safetensors"], "absent.npz: no such file"),
        (["all", "{data}", "--set", "epochs=1"], "--set 'epochs=1' must begin with trunk., head., codec."),
        (["all", "{data}", "--set", "trunk.lr=1"], "lr is not a field"),
        (["all", "{data}", "--seed", "-1"], "--seed -1 must be ≥ 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(arguments, message, folder, data, capsys, monkeypatch):
    filled = [part.format(data=data, out=folder) for part in arguments]
    monkeypatch.setattr("sys.argv", ["airpool", "train", *filled, "--out", str(folder)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none_is_refused(data, tmp_path):
    refused = run(*TRUNK, data, "--out", tmp_path, "--torch-device", "cuda")
    assert "torch finds no CUDA device here" in str(refused.exception)


def test_data_without_test_or_validation_objects_are_told_apart(data, tmp_path):
    whole = cad.read(data)
    train = whole.indices("train")

    def keep(rows):
        kept = [(whole.split[i], whole.classes[whole.label[i]], whole.name[i], whole._packed(i)) for i in rows]
        cad.write(path, joined(kept))

    path = tmp_path / "few.npz"
    keep(train[[0, 1, 10, 11]])
    assert "holds no test objects: leave out --test" in str(run(*TRUNK, path, "--out", tmp_path, "--test").exception)
    card = told(*TRUNK, path, "--out", tmp_path, "--epochs", 1, "--set", "views=1")
    assert card["validation"]["mean"] is None
    assert card["split"]["how"].startswith("none: ")
    for command, what in (("head", "head"), ("codec", "codec")):
        refused = run(command, path, "--trunk", tmp_path / "trunk-0.safetensors", "--out", tmp_path)
        assert f"has no validation objects, on which a {what} depends" in str(refused.exception)
    assert "has no validation objects" in str(run("all", path, "--kind", "vgg11", "--out", tmp_path).exception)
    keep(whole.indices("test"))
    assert "holds no training objects" in str(run(*TRUNK, path, "--out", tmp_path).exception)
