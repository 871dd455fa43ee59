"""Folders and lists of pictures, and what a trunk makes of them: nothing is lost silently, nothing broken is fatal."""

import unicodedata

import numpy as np
import pytest
import torch

Image = pytest.importorskip("PIL.Image")

from tests.models.photographs import photograph, quick_trunk, shop  # noqa: E402

from airpool.models import assets  # noqa: E402
from airpool.models.images import fitting, folder, trunk  # noqa: E402
from airpool.models.images.features import features, kept_features  # noqa: E402
from airpool.models.images.pictures import require_enough  # noqa: E402
from airpool.models.vision import lite, picture  # noqa: E402
from airpool_lab import bundle as lab_bundle  # noqa: E402
from airpool_runtime import sources  # noqa: E402
from airpool_runtime.seeing import SourceError  # noqa: E402


@pytest.fixture
def quick(monkeypatch):
    quick_trunk(monkeypatch)


def places(pictures):
    return {(pictures.objects[shot.object], pictures.cameras[shot.camera]) for shot in pictures.shots}


# Which pictures there are


def test_an_object_is_one_whatever_its_ending_and_cameras_are_in_natural_order(tmp_path):
    photograph(tmp_path / "cam10" / "mug" / "1.JPG")
    photograph(tmp_path / "cam2" / "mug" / "1.png")
    photograph(tmp_path / "cam2" / "pear" / "v.2.bmp")
    found = folder.found(tmp_path)
    assert found.cameras == ("cam2", "cam10")
    assert found.objects == ("mug/1", "pear/v.2")
    assert places(found) == {("mug/1", "cam2"), ("mug/1", "cam10"), ("pear/v.2", "cam2")}


def test_the_camera_may_stand_in_the_name(tmp_path):
    for name in ("mug/1_left", "mug/1_right", "pear/2_b_left"):
        photograph(tmp_path / f"{name}.jpg")
    found = folder.found(tmp_path)
    assert places(found) == {("mug/1", "left"), ("mug/1", "right"), ("pear/2_b", "left")}


def test_a_list_names_groups_and_splits(tmp_path):
    photograph(tmp_path / "a.jpg")
    rows = ["file,camera,class,event,group,split", "a.jpg,left,mug,1,monday,train", "b.jpg,right,mug,1,monday,train"]
    (tmp_path / "list.csv").write_text("\n".join([*rows, "c.jpg,left,pear,2,tuesday,test", ""]), "utf-8-sig")
    found = folder.found(tmp_path / "list.csv")
    assert (found.groups, found.split) == (("monday", "tuesday"), ("train", "test"))
    assert len(found.shots) == 3  # one that is not there is found out when it is read


def test_names_are_one_whichever_way_their_accents_are_stored(tmp_path):
    for camera, name in (("a", unicodedata.normalize("NFC", "Gerät")), ("b", unicodedata.normalize("NFD", "Gerät"))):
        photograph(tmp_path / camera / name / "1.png")
    assert folder.found(tmp_path).objects == ("Gerät/1",)


def test_objects_and_groups_that_differ_by_case_alone_stay_on_one_side(tmp_path):
    for name in ("left/mug/A", "right/mug/a", "left/mug/b", "right/mug/b"):
        photograph(tmp_path / f"{name}.jpg")
    groups = dict(zip((found := folder.found(tmp_path)).objects, found.groups, strict=True))
    assert groups["mug/A"] == groups["mug/a"] != groups["mug/b"]
    rows = "left/mug/A.jpg,left,mug,1,Monday\nleft/mug/b.jpg,left,mug,2,monday \n"
    (tmp_path / "list.csv").write_text(f"file,camera,class,object,group\n{rows}")
    assert len(set(folder.found(tmp_path / "list.csv").groups)) == 1


def test_what_is_no_picture_is_named_and_links_to_folders_are_not_followed(tmp_path):
    shop(tmp_path, cameras=2, objects=1)
    (tmp_path / "cam0" / "mug" / "notes.txt").write_text("no picture")
    (tmp_path / "cam0" / "mug" / ".DS_Store").write_text("junk")
    (tmp_path / "cam0" / "loop").symlink_to(tmp_path)
    notes = " ".join(folder.found(tmp_path).notes)
    assert "1 files that are no pictures by their names: cam0/mug/notes.txt" in notes
    assert "1 links to folders not followed: cam0/loop" in notes
    assert "DS_Store" not in notes


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((), "no pictures; the folder is empty"),
        (("1.jpg",), "1 pictures lie in the folder itself"),
        (("a/mug/1.jpg", "mug/2.jpg"), "pictures at different depths, such as mug/2.jpg"),
        (("a/b/mug/1.jpg",), "pictures at different depths"),
        (("mug/1.jpg",), "the camera must stand after an underscore"),
        (("a/mug/1.jpg", "a/mug/1.png"), "two pictures of mug/1 by camera a"),
        (("a/mug/1.jpg", "b/mug/2.jpg"), "no object was seen by two cameras"),
        (("a/mug/1.jpg", "b/Mug/1.jpg"), "classes 'Mug' and 'mug' differ by case or spaces alone"),
        (("a/mug/1.jpg", "A/pear/1.jpg"), "cameras 'A' and 'a' differ by case or spaces alone"),
    ],
)
def test_a_folder_that_cannot_be_understood_is_an_error_that_says_why(tmp_path, files, message):
    for file in files:
        photograph(tmp_path / file)
    with pytest.raises(ValueError, match=message):
        folder.found(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column file, camera, class, object; there is nothing"),
        ("file,camera,class\n", "no column object"),
        ("file,camera,class,object\n", "has no rows"),
        ("file,camera,class,object\na.jpg,left,,1\n", "line 2: no class"),
        ("file,camera,class,object,split\na.jpg,left,mug,1,dev\n", "split 'dev' must be train, validation or test"),
        ("file,camera,class,object\na.jpg,l,mug,1\nb.jpg,r,pear,1\n", "object 1 has the classes mug and pear"),
        ("file,camera,class,object,group\na.jpg,l,mug,1,x\nb.jpg,r,mug,1,y\n", "has two groups or splits"),
        ("file,camera,class,object,split\na.jpg,l,m,1,train\nb.jpg,r,m,1,train\nc.jpg,r,p,2,\n", "and 1 have none"),
    ],
)
def test_a_list_that_cannot_be_understood_is_an_error_that_says_why(tmp_path, text, message):
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        folder.found(tmp_path / "list.csv")


def test_two_classes_and_enough_of_each_are_needed():
    with pytest.raises(ValueError, match="one class"):
        require_enough(["mug"] * 9, map(str, range(9)), 3)
    with pytest.raises(ValueError, match=r"too few objects of pear: there is mug 3, pear 1; must be 3"):
        require_enough(["mug"] * 3 + ["pear"] * 2, ["1", "2", "3", "4", "4"], 3)


# What a trunk makes of them


def test_what_cannot_be_read_is_missing_and_named(tmp_path, quick):
    shop(tmp_path, cameras=3, objects=2)
    (tmp_path / "cam0" / "mug" / "0.png").write_bytes(b"no picture")
    cut = tmp_path / "cam1" / "mug" / "1.png"
    cut.write_bytes(cut.read_bytes()[:200])
    (tmp_path / "cam2" / "pear" / "1.png").unlink()
    (tmp_path / "cam2" / "pear" / "1.png").symlink_to(tmp_path / "nowhere.png")
    photograph(tmp_path / "cam9" / "mug" / "0.png").write_bytes(b"")
    found = features(folder.found(tmp_path), trunk.shipped())
    assert found.pictures.cameras == ("cam0", "cam1", "cam2")
    assert (~found.present).sum() == 3
    assert len(found.unreadable) == 4
    notes = " ".join(found.pictures.notes)
    assert "4 pictures cannot be read, taken as missing" in notes
    assert "1 cameras without a picture that can be read, left out: cam9" in notes


def test_what_another_program_would_have_to_read_is_no_picture_whatever_its_name(tmp_path, monkeypatch):
    """EPS named .jpg: Pillow would run Ghostscript on what a camera sends."""
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    drawing = tmp_path / "1.jpg"
    drawing.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n%%EOF\n")
    with pytest.raises(OSError, match="cannot identify"):
        picture.read(drawing)
    with pytest.raises(SourceError):
        sources.view(drawing, (2, 8, 8))
    assert not (tmp_path / "ran").exists()


def test_a_link_to_what_never_ends_is_a_missing_picture(tmp_path, quick):
    shop(tmp_path)
    link = tmp_path / "cam1" / "mug" / "2.png"
    link.unlink()
    link.symlink_to("/dev/zero")
    found = features(folder.found(tmp_path), trunk.shipped())
    assert found.unreadable == (str(link),)


def test_a_picture_that_cannot_be_read_alone_is_fatal_only_where_nothing_is_left(tmp_path, quick):
    for camera in "ab":
        photograph(tmp_path / camera / "mug" / "1.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="none of 2 pictures can be read"):
        features(folder.found(tmp_path), trunk.shipped())


def test_pictures_are_upright_and_large_ones_are_read_without_a_warning(tmp_path, quick, monkeypatch):
    rotated = Image.Exif()
    rotated[0x0112] = 6
    photograph(tmp_path / "a" / "mug" / "1.jpg", size=(64, 32), exif=rotated)
    assert picture.read(tmp_path / "a" / "mug" / "1.jpg").shape == (64, 32, 3)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1500)  # beyond this Pillow warns, beyond twice that it refuses
    photograph(tmp_path / "a" / "mug" / "2.png", size=(80, 80))
    found = features(folder.found(tmp_path), trunk.shipped())
    assert found.pictures.objects == ("mug/1",)
    assert found.unreadable[0].endswith("2.png")


def test_equal_pictures_of_two_objects_end_up_in_one_group(tmp_path, quick):
    shop(tmp_path, cameras=2, objects=3)
    first = tmp_path / "cam0" / "mug" / "0.png"
    (tmp_path / "cam0" / "mug" / "2.png").write_bytes(first.read_bytes())
    (tmp_path / "cam1" / "pear" / "1.png").write_bytes(first.read_bytes())
    found = features(folder.found(tmp_path), trunk.shipped()).pictures
    group = dict(zip(found.objects, found.groups, strict=True))
    assert group["mug/0"] == group["mug/2"] == group["pear/1"] != group["mug/1"]
    assert "some of them have two classes" in " ".join(found.notes)


def test_features_are_kept_by_content_and_not_computed_again(tmp_path, quick, monkeypatch):
    shop(tmp_path / "shop", cameras=2, objects=3)
    first = features(folder.found(tmp_path / "shop"), trunk.shipped(), kept=tmp_path / "kept")
    (tmp_path / "shop" / "cam0").rename(tmp_path / "shop" / "kitchen")
    monkeypatch.setattr(trunk.ImageTrunk, "features", None)
    again = features(folder.found(tmp_path / "shop"), trunk.shipped(), kept=tmp_path / "kept")
    assert again.pictures.cameras == ("cam1", "kitchen")
    np.testing.assert_array_equal(again.features[:, ::-1], first.features)


def test_features_of_another_trunk_are_not_taken_for_these(tmp_path):
    with kept_features(tmp_path / "kept", "one") as kept:
        kept.put({"a": np.ones(4, np.float32)})
    with kept_features(tmp_path / "kept", "other") as kept:
        assert kept.get("a") is None
    (tmp_path / "kept").write_bytes(b"no database" * 100)
    with (
        pytest.raises(ValueError, match="damaged, or no cache of features"),
        kept_features(tmp_path / "kept", "one"),
    ):
        pass


def test_calibration_views_are_spread_and_of_training_objects(tmp_path):
    shop(tmp_path, cameras=2, objects=4)
    assert lab_bundle.folder_views(tmp_path, count=10).shape == (10, 3, 224, 224)
    assert len(lab_bundle.folder_views(tmp_path)) == 16


def test_int8_is_not_fitted_to_pictures_that_are_all_black(tmp_path):
    for name in ("a/mug/1", "a/mug/2", "b/mug/1"):
        (file := tmp_path / f"{name}.png").parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20)).save(file)
    with pytest.raises(ValueError, match="3 pictures that are all alike"):
        lab_bundle.folder_views(tmp_path)


# The trunk and the model


def test_the_shipped_trunk_is_the_package_s_and_all_assets_are_small():
    pytest.importorskip("safetensors")
    layers = trunk.shipped().layers()
    bare = lite.trunk("lite2", 3)
    assert [name.partition(".")[2] for name in layers.state_dict()] == [n.partition(".")[2] for n in bare.state_dict()]
    torch.testing.assert_close(layers[0](torch.tensor([0.0, 127 / 255, 1.0])), torch.tensor([-127 / 128, 0.0, 1.0]))
    assert sum(path.stat().st_size for path in assets.folder().rglob("*") if path.is_file()) <= 40e6


def test_a_model_of_pictures_takes_pictures_and_features_before_and_after_it_is_saved(tmp_path, quick):
    import airpool

    shop(tmp_path / "shop", cameras=2, objects=6)
    recipe = fitting.FitRecipe(hidden=(0,), head_steps=60, codec_steps=20, codec_hidden=8, server_hidden=8)
    model = airpool.fit(images=tmp_path / "shop", recipe=recipe, epsilon=8, name="shop")
    model.save(tmp_path / "shop.safetensors")
    loaded = airpool.load(tmp_path / "shop.safetensors")
    views = lab_bundle.folder_views(tmp_path / "shop", count=6).reshape(3, 2, 3, 224, 224)
    assert model.trunk is not None
    for found, wanted in zip(loaded.seen(views), model.seen(model.trunk.features(views)), strict=True):
        torch.testing.assert_close(found, wanted)
    assert loaded.trunk_of() == "lite2"
    assert loaded.view_shape == (3, 224, 224)
    assert len(loaded.held_out("test")) == 3
    net = airpool.calibrate(airpool.Network.uniform(num_devices=2, dimension=loaded.codec().dimension), epsilon=8)
    assert airpool.infer(loaded, views, network=net, rng=torch.Generator().manual_seed(0)).label.shape == (3, 1)
    with pytest.raises(ValueError, match=r"views has shape \(3, 2, 3, 112, 112\), must be \(N, K, 3, 224, 224\)"):
        loaded.encode(views[..., :112, :112])


def test_own_weights_travel_with_the_model(tmp_path, quick):
    import airpool

    shop(tmp_path / "shop", cameras=2, objects=6)
    recipe = fitting.FitRecipe(hidden=(0,), head_steps=20, codec_steps=20, codec_hidden=8, server_hidden=8)
    layers = trunk.shipped().layers()
    with torch.no_grad():
        layers.get_parameter("1.weight").add_(0.25)
    found = features(folder.found(tmp_path / "shop"), trunk.shipped())
    model = fitting.fitted(found, trunk.own(layers), recipe=recipe, epsilon=8)
    model.save(tmp_path / "own.safetensors")
    loaded = airpool.load(tmp_path / "own.safetensors")
    assert isinstance(loaded, fitting.Fitted)
    assert loaded.trunk is not None
    assert loaded.trunk.sha256 == trunk.own(layers).sha256 != trunk.shipped().sha256
    assert loaded.trunk.own is not None
    damaged = {name: each + (name == "1.weight") for name, each in loaded.trunk.own.items()}
    with pytest.raises(ValueError, match="its trunk is damaged"):
        trunk.restored(loaded.trunk.described(), damaged)
    torch.testing.assert_close(
        loaded.trunk.layers().get_parameter("1.weight"), layers.get_parameter("1.weight"), atol=1e-3, rtol=1e-3
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give features and labels, or images or videos"),
        ({"images": "x", "features": np.zeros((2, 2, 2))}, "not several of them"),
        ({"images": "x", "groups": [1]}, "groups is for features"),
        ({"features": np.zeros((2, 2, 2)), "labels": [0, 1], "cache": "x"}, "cache is for images"),
    ],
)
def test_one_call_takes_one_kind_of_input(given, message):
    with pytest.raises(TypeError, match=message):
        fitting.fit(**given)
