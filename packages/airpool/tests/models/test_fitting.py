"""A model of one's own sensors: what it learns, what it keeps, and what it refuses."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import airpool
from airpool._support import files
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects, held_out
from airpool.evaluation.plan.candidates import Candidate
from airpool.evaluation.plan.search import simulated
from airpool.models.codecs.dense import CodecShape, DenseCodec
from airpool.models.codecs.training import initial
from airpool.models.sensors import fitted as sensor_heads
from airpool.models.sensors import fitting
from airpool.models.sensors import stacking as sensing
from airpool.models.sensors.fitting import FitRecipe, _beyond_doubt, _settings
from airpool.network import Claim, Neighbours, Network, Ranking
from airpool.protocol.device import clipped
from airpool.protocol.live import signal

CLASSES, K, F = 3, 4, 6
PARTS = ["test"] * 10 + ["train"] * 110
QUICK = FitRecipe(hidden=(0,), head_steps=150, codec_steps=20, codec_hidden=16, server_hidden=16, trials=2)


def data(objects=120, *, seed=0, sensors=K, width=F):
    """Sensors that see a class each in their own way, and a scale that differs from feature to feature."""
    rng = np.random.default_rng(seed)
    means = np.random.default_rng(99).standard_normal((CLASSES, sensors, width))
    labels = np.arange(objects) % CLASSES
    seen = 3 * means[labels] + rng.standard_normal((objects, sensors, width))
    return (seen * 10.0 ** np.arange(width)).astype(np.float32), labels


def scaling(features):
    """How sensors with these features are standardised, a scale each."""
    stacked, widths = sensing.stack(features)
    return sensing.standardising(stacked, torch.ones(stacked.shape[:2], dtype=torch.bool), widths, alike=False)


@pytest.fixture(scope="module")
def model():
    return airpool.fit(*data(), epsilon=(4.0,), recipe=QUICK)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "own.safetensors"
    model.save(path)
    return path


# --- what is learnt ---


def test_a_model_tells_classes_apart_without_noise_and_through_it(model):
    held = model.held_out("test")
    assert (held.posteriors.argmax(-1) == held.labels[:, None]).double().mean() > 0.9
    net = airpool.calibrate(Network.uniform(num_devices=K, dimension=CLASSES), epsilon=16.0)
    assert evaluate(held_out(model, net, codec="vote"), net, trials=5).accuracy_mean > 0.9


def test_sensors_that_see_in_their_own_way_get_a_head_each(model):
    assert model.about["heads"] == {"alike": False, "hidden": 0}
    assert len(model.heads.classifiers) == K
    assert vars(model.codec("compact"))["shape"].encoders == K


def test_sensors_that_see_alike_share_one_head():
    features, labels = data(sensors=1)
    several = np.repeat(features, 2, axis=1) + np.random.default_rng(1).standard_normal((120, 2, F))
    found = airpool.fit(several[:, :, :2], labels, recipe=replace(QUICK, alike=True))
    assert len(found.heads.classifiers) == 1
    assert vars(found.codec("compact"))["shape"].encoders == 1


def test_sensors_may_have_a_width_each():
    features, labels = data()
    unlike = [features[:, 0], features[:, 1, :2], torch.tensor(features[:, 2, :1])]
    found = airpool.fit(unlike, labels, recipe=QUICK)
    assert found.sensors.widths == (F, 2, 1)
    assert found.encode(unlike).shape == (120, 3, CLASSES)
    with pytest.raises(ValueError, match=r"features have widths 6, 2, the model's sensors 6, 2, 1"):
        found.encode(unlike[:2])


def test_the_vote_comes_first_unless_the_codec_is_better_beyond_doubt(model):
    scores = model.about["validation"]
    assert tuple(scores) == model.codecs
    assert set(scores) == {"vote", "compact"}
    if model.codecs[0] == "compact":
        assert sum(scores["compact"]) > sum(scores["vote"])


def test_a_gain_counts_if_it_is_that_of_many_groups():
    gain, each = torch.tensor([0.2, 0.1, 0.3, 0.2]), np.arange(4)
    assert _beyond_doubt(gain, each)
    assert not _beyond_doubt(gain, np.zeros(4, dtype=np.int64))
    assert not _beyond_doubt(torch.tensor([0.9, -0.1, -0.1, -0.1]), each)
    assert not _beyond_doubt(-gain, each)


def test_a_plan_is_judged_by_the_vote_itself_which_never_saw_the_validation_objects(model):
    net = airpool.calibrate(Network.uniform(num_devices=K, dimension=CLASSES), epsilon=8)
    held = model.held_out("validation", codec="vote")
    plain = evaluate(EncodedObjects(held.latents, held.labels, model.codec("vote").server), net, trials=5)
    found = simulated(Candidate("vote"), net, Claim(), model, trials=5, seed=0)
    assert found.accuracy == plain.accuracy_mean


def test_the_same_arguments_give_the_same_model(model):
    again = airpool.fit(*data(), epsilon=(4.0,), recipe=QUICK)
    assert torch.equal(again.held_out("test", codec="compact").latents, model.held_out("test", codec="compact").latents)


# --- the split ---


def test_groups_stay_together_and_every_part_has_each_class():
    labels = np.repeat(np.arange(4), 50)
    groups = np.arange(200) // 5  # ten of each class
    parts = fitting.dealt_out(labels, groups, None, seed=0)
    assert all(len(set(parts[groups == each])) == 1 for each in range(40))
    for part, share in (("train", 30), ("validation", 10), ("test", 10)):
        assert np.bincount(labels[parts == part]).tolist() == [share] * 4


def test_folds_keep_groups_together_too():
    fold = fitting.folds(np.zeros(12, dtype=int), np.arange(12) // 2, seed=0)
    assert all(len(set(fold[2 * k : 2 * k + 2])) == 1 for k in range(6))
    assert sorted(set(fold.tolist())) == [0, 1, 2]


def test_a_given_split_is_kept_and_lends_validation_objects():
    features, labels = data()
    split = np.where(np.arange(120) < 30, "test", "train")
    found = airpool.fit(features, labels, split=split, recipe=QUICK)
    assert found.about["split"]["test"] == 30
    assert found.held_out("test").labels.tolist() == labels[:30].tolist()
    assert found.about["split"]["validation"] == 18


def test_without_test_objects_there_is_nothing_to_test_on():
    features, labels = data()
    found = airpool.fit(features, labels, split=["train"] * 120, recipe=QUICK, name="all")
    with pytest.raises(ValueError, match="all was fitted without test objects"):
        found.held_out("test")


# --- what goes in ---


@pytest.mark.parametrize("scale", [1e-300, 1e-15, 1e300])
def test_any_scale_will_do(scale):
    features, _ = data()
    units = features.astype(np.float64) * scale
    assert torch.allclose(scaling(units).standardised(units), scaling(features).standardised(features), atol=1e-4)


def test_a_small_change_of_a_large_number_is_not_lost():
    features, _ = data()
    small = features[..., :1].astype(np.float64)
    far = small + 1e9
    assert torch.allclose(scaling(far).standardised(far), scaling(small).standardised(small), atol=1e-4)


def test_a_constant_feature_says_nothing_even_if_it_changes_later():
    found = scaling(np.ones((120, K, F)))
    assert found.standardised(np.full((5, K, F), 1e6)).abs().max() < 1e-6


def test_the_order_in_memory_and_half_precision_of_brains_do_not_matter():
    features, _ = data()
    whole = sensing.stack(features)[0]
    assert torch.equal(whole, sensing.stack(np.asfortranarray(features))[0])
    assert sensing.stack(torch.tensor(features).bfloat16())[0].dtype == torch.float32


def test_one_budget_needs_no_list_and_is_kept_as_plain_numbers(tmp_path):
    features, labels = data()
    for epsilon in (np.int64(4), np.array([4.0])):
        found = airpool.fit(features, labels, epsilon=epsilon, recipe=QUICK)
        assert found.about["epsilon"] == [4.0]
    found.save(tmp_path / "own.safetensors")


def test_a_codec_fitted_to_one_budget_is_told_that_noise_whatever_there_is(saved):
    """It has learnt nothing of others: told of none, it took one class for another."""
    codec = airpool.load(saved).codec("compact")
    assert isinstance(codec, DenseCodec)
    least, most = codec.shape.ratios
    assert least == most
    estimate = np.random.default_rng(0).normal(size=(5, codec.dimension)).astype(np.float32)
    told = [codec.decoder(torch.from_numpy(estimate), ratio) for ratio in (0.0, least, 9.0)]
    torch.testing.assert_close(told[0], told[1])
    torch.testing.assert_close(told[2], told[1])


def test_labels_in_bytes_are_text_and_numbers_keep_their_order():
    assert fitting.class_of(np.array([b"a", b"b"]), 2)[0] == ("a", "b")
    assert fitting.class_of(np.array([10, 9, 2], dtype=object), 3)[0] == ("2", "9", "10")


def test_codec_and_vote_are_compared_at_the_same_epsilon():
    net, claim = Network.uniform(num_devices=K), Claim(neighbours=Neighbours.REMOVE)
    found = {r: _settings(net, claim, K, r, [60.0])[0].network for r in (2, 30)}
    for r, each in found.items():
        assert each.dimension == r
        assert airpool.guarantee(each, claim).worst == pytest.approx(60, rel=1e-3)


def test_the_guide_reads_a_csv_file_whatever_the_order_of_its_rows(tmp_path, monkeypatch):
    guide = (Path(__file__).parents[4] / "docs" / "howto" / "sensors.md").read_text("utf-8")
    code = guide.partition("From a **CSV** file")[2].split("```")[1].removeprefix("python\n")
    code = code.partition('with open("measured.csv", "w"')[0] + code[code.index('with open("measured.csv", newline') :]
    features, labels = data(sensors=2, width=3)
    names, rows = ("walks, slowly", 'the "run"', "sits"), list(np.ndindex(120, 2))[:-1]
    np.random.default_rng(0).shuffle(rows)
    with (tmp_path / "measured.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("sensor", "object", "subject", "label", "x", "y", "z"))
        for i, k in rows:
            numbers = ["", *features[i, k, 1:]] if (i, k) == (5, 0) else features[i, k]
            writer.writerow((f"unit {k}", f"{i:03}", i // 3, names[labels[i]], *numbers))
    monkeypatch.chdir(tmp_path)
    given = {}
    monkeypatch.setattr(airpool, "fit", lambda *args, **kwargs: given.update(kwargs, args=args))
    exec(code, {"csv": csv, "numpy": np, "airpool": airpool})
    there = given["present"]
    assert np.argwhere(~there).tolist() == [[5, 0], [119, 1]]
    assert np.allclose(given["args"][0][there], features[there])
    assert given["args"][1] == [names[each] for each in labels]
    assert given["groups"] == [str(i // 3) for i in range(120)]


def test_heads_train_for_as_many_steps_as_asked_for_however_few_objects_there_are():
    recipe = QUICK.head
    assert sensor_heads.long_enough(recipe, 10, steps=500).epochs == 500
    assert sensor_heads.long_enough(recipe, 10 * recipe.views, steps=500).epochs == 50


# --- missing sensors ---


def test_a_missing_sensor_sends_nothing_and_its_features_do_not_matter():
    features, labels = data()
    present = np.ones((120, K), dtype=bool)
    present[::3, 1] = False
    hollow = features.copy()
    hollow[~present] = np.nan
    found = airpool.fit(hollow, labels, present=present, recipe=QUICK)
    other = airpool.fit(np.where(present[..., None], features, 7.0), labels, present=present, recipe=QUICK)
    for codec in found.codecs:
        held, same = (each.held_out("test", codec=codec) for each in (found, other))
        assert torch.equal(held.latents, same.latents)
        silent = held.latents.norm(dim=-1) < 1e-6
        assert silent[:, 1].any()
        assert not silent[:, [0, 2, 3]].any()


def test_absence_is_declared_and_a_live_nan_is_sent_as_nothing(model):
    features, _ = data(20)
    net = Network.uniform(num_devices=K, dimension=CLASSES, noise_std=1e-6)
    present = np.ones((20, K), dtype=bool)
    present[:, 2] = False
    live = features.copy()
    live[:, 2] = np.nan
    rngs = (torch.Generator().manual_seed(0) for _ in range(2))
    declared = airpool.infer(model, features, network=net, rng=next(rngs), present=present)
    measured = airpool.infer(model, live, network=net, rng=next(rngs))
    assert torch.allclose(declared.received.estimate, measured.received.estimate, atol=1e-5)
    for codec in model.codecs:
        live[:, 2] = np.inf
        assert clipped(model.encode(live, codec=codec), np.ones(K))[:, 2].abs().max() == 0
    with pytest.raises(ValueError, match="must be bool: True where a sensor is there"):
        airpool.infer(model, features, network=net, rng=torch.Generator(), present=present * 1.0)


def test_a_live_device_sends_what_it_sees_and_needs_nobody_elses_features(model):
    features, _ = data(2)
    own = np.full_like(features, np.nan)
    own[:, 2] = features[:, 2]
    net = airpool.calibrate(Network.uniform(num_devices=K, dimension=CLASSES), epsilon=8)
    for codec in model.codecs:
        alone = model.encode(own, codec=codec)[0, 2]
        assert torch.allclose(alone, model.encode(features, codec=codec)[0, 2], atol=1e-6)
        report = signal(alone, net, device=2, gain=1.0).report
        assert report is not None
        assert report.worst <= 8.01


# --- one file ---


def test_a_file_gives_the_same_model_again(model, saved):
    again = airpool.load(saved)
    assert (again.classes, again.codecs, again.num_devices) == (("0", "1", "2"), model.codecs, K)
    features, _ = data(20, seed=5)
    for codec in model.codecs:
        assert torch.equal(again.encode(features, codec=codec), model.encode(features, codec=codec))
        for split in ("test", "validation"):
            assert torch.equal(again.held_out(split, codec=codec).latents, model.held_out(split, codec=codec).latents)


def test_what_is_encoded_live_is_what_is_kept(model):
    features, labels = data()
    kept = model.held_out("test", codec="compact")
    rows = fitting.dealt_out(labels, np.arange(120), None, seed=0) == "test"
    assert torch.allclose(model.encode(features[rows], codec="compact"), kept.latents, atol=0.01)


def test_a_file_serves_schemes_that_select(saved):
    model = airpool.load(str(saved))
    net = Network.uniform(num_devices=K, dimension=CLASSES, scheme=Ranking(num_selected=2))
    assert evaluate(held_out(model, net, codec="vote"), net, trials=2).accuracy_mean > 0.5


def test_a_file_without_a_part_is_damaged(saved, tmp_path):
    tensors, header = files.read_tensors(saved)
    for name, tensor in tensors.items():
        files.write_tensors(tmp_path / "bad.safetensors", {**tensors, name: tensor[..., 1:]}, header)
        with pytest.raises(ValueError, match=r"bad\.safetensors: "):
            airpool.load(tmp_path / "bad.safetensors")
    for change in ({"codecs": []}, {"codecs": {}}, {"classes": ["a"]}, {"widths": [F]}, {"widths": []}):
        about = {**header["about"], "model": header["about"]["model"] | change}
        files.write_tensors(tmp_path / "bad.safetensors", tensors, {"about": about})
        with pytest.raises(ValueError, match=r"bad\.safetensors: "):
            airpool.load(tmp_path / "bad.safetensors")


def test_another_file_is_no_model(tmp_path):
    from airpool.models.codecs import codec as codecs
    from airpool.models.codecs import vote

    codecs.save(tmp_path / "vote.safetensors", vote.unfitted(3), {})
    with pytest.raises(ValueError, match=r"vote\.safetensors: holds no model; `airpool\.fit`"):
        airpool.load(tmp_path / "vote.safetensors")
    with pytest.raises(FileNotFoundError, match=r"absent\.safetensors: no such file"):
        airpool.load("absent.safetensors")
    with pytest.raises(ValueError, match=r"own\.npz must end with \.safetensors"):
        airpool.fit(*data(), recipe=QUICK).save("own.npz")


# --- what is refused ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros((120, 4))}, r"features has shape \(120, 4\), must be \(N, K, F\)"),
        ({"features": [np.zeros((120, 2)), np.zeros((9, 2))]}, r"features\[1\] has shape \(9, 2\), must be \(120, F\)"),
        ({"features": []}, "features is an empty list"),
        (
            {"features": np.full((120, K, F), np.nan)},
            r"features\[0, 0, 0\]=nan must be finite; where a sensor",
        ),
        ({"features": np.zeros((120, K, F), dtype=bool)}, "features is bool, must be numbers"),
        ({"labels": np.zeros(3)}, r"labels has shape \(3,\), must be \(120,\)"),
        ({"labels": [np.nan] * 120}, r"labels\[0\] is nan: every object needs a class"),
        ({"labels": np.array(["a", np.nan, "b"] * 40, dtype=object)}, r"labels\[1\] is nan: every object needs a"),
        ({"labels": ["a", float("nan"), "b"] * 40}, r"labels\[1\] is nan: every object needs a class"),
        ({"labels": ["a", "", "b"] * 40}, r"labels\[1\] is '': every object needs a class"),
        ({"labels": np.ma.masked_equal(np.arange(120) % 3, 1)}, r"labels\[1\] is None: every object needs a class"),
        ({"labels": np.arange(120) * 1j}, "labels are complex128, must be whole numbers or text"),
        ({"labels": np.arange(120) / 2}, "labels are fractions"),
        ({"labels": np.zeros(120, dtype=int)}, "labels hold one class, 0: there is nothing to tell apart"),
        ({"labels": np.arange(120) == 7, "split": PARTS}, "class True has no training objects, its 1 are all held"),
        ({"groups": [1, 2]}, r"groups has shape \(2,\), must be \(120,\)"),
        ({"groups": np.arange(120) % 3}, "3 groups to split, must be 4 or more"),
        (
            {"groups": np.arange(120) // 10, "split": ["train", "test"] * 60},
            r"leaks: row 0 \((train|validation)\) and row 1 \(test\)",
        ),
        ({"groups": ["a", None, "b"] * 40}, r"groups\[1\] is None: every object needs a group"),
        ({"split": ["test", "validation"] * 60}, "split has no train objects"),
        (
            {"split": ["train"] * 3 + (["validation"] * 3 + ["test"] * 3) * 19 + ["test"] * 3},
            r"sensor 0 was present at 2 objects",
        ),
        ({"split": ["learn"] * 120}, "split has 'learn', must be train, validation, test"),
        ({"split": ["train"]}, r"split has shape \(1,\), must be \(120,\)"),
        ({"present": np.ones((120, 2), dtype=bool)}, r"present has shape \(120, 2\), must be \(120, 4\)"),
        ({"present": np.ones((120, K))}, "present is torch.float64, must be bool"),
        ({"present": np.arange(K) * np.ones((120, 1)) > 0}, "sensor 0 is never present: leave it out"),
        ({"features": np.ma.masked_greater(np.ones((120, K, F)), 2)}, "features is a masked array"),
        ({"epsilon": ()}, "epsilon is empty"),
        ({"epsilon": (4, -1)}, r"epsilon\[1\]=-1 must be > 0"),
        ({"network": Network.uniform(num_devices=K, scheme=Ranking(num_selected=2))}, "scheme 2.2, must be 1 to fit"),
        ({"network": Network.uniform(num_devices=3)}, "the network has 3 devices, features are of 4 sensors"),
    ],
)
def test_what_cannot_be_fitted_is_a_clear_error(change, message):
    features, labels = data()
    given = {"features": features, "labels": labels, "recipe": QUICK} | change
    with pytest.raises(ValueError, match=message):
        airpool.fit(given.pop("features"), given.pop("labels"), **given)


@pytest.mark.parametrize(
    ("field", "value"),
    [("head_steps", 0), ("trials", 0), ("dimension", 0), ("seed", -1), ("seed", 1.5), ("hidden", ())],
)
def test_a_recipe_out_of_range_is_refused_before_any_training(field, value):
    with pytest.raises(ValueError, match=rf"^{field}(=.*must be a whole number ≥|\s+is empty)"):
        replace(QUICK, **{field: value})


def test_one_object_and_no_array_are_clear_errors():
    features, labels = data()
    with pytest.raises(ValueError, match="labels hold one class"):
        airpool.fit(features[:1], labels[:1])
    with pytest.raises(TypeError, match=r"features\[0\] is of type str"):
        airpool.fit([*"ab"], labels)


def test_one_sensor_is_a_warning():
    features, labels = data(sensors=1)
    with pytest.warns(UserWarning, match="one sensor: nothing is pooled"):
        found = airpool.fit(features, labels, recipe=QUICK)
    assert found.num_devices == 1


def test_a_class_that_is_not_tested_is_a_warning():
    features, labels = data()
    split = np.where(labels == 0, "train", np.array(["train", "train", "validation", "test"])[np.arange(120) // 3 % 4])
    with pytest.warns(UserWarning, match="objects of class 0: accuracy says nothing"):
        airpool.fit(features, labels, split=split, recipe=QUICK)


def test_an_encoder_each_is_as_many_encoders_side_by_side():
    torch.manual_seed(0)
    shape = CodecShape(dimension=3, num_classes=3, features=F, hidden=5, encoders=K)
    own, x = initial(shape), torch.randn(7, K, F)
    for k in range(K):
        each = ("encoder.hidden", "encoder.out")
        part = {key: value[k] if key.startswith(each) else value for key, value in own.arrays.items()}
        alone = DenseCodec(replace(shape, encoders=1), part)
        assert torch.allclose(own.encoder(x)[:, k], alone.encoder(x[:, k]), atol=1e-6)
    with pytest.raises(ValueError, match="encoders=4 must be 1 for a map codec"):
        replace(shape, kind="map")
