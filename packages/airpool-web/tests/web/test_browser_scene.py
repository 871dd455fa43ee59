"""The scene in a real browser: an inference is the library's, meshes are taken or refused in words."""

import re

import httpx
import pytest

from . import looking

pytestmark = pytest.mark.check
TETRAHEDRON = b"OFF\n4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 2 1\n3 0 1 3\n3 0 3 2\n3 1 2 3\n"


def inferred(tab):
    tab.wait_for_selector(".view img")
    tab.click("#scene-infer")
    tab.wait_for_function(
        "() => document.querySelector('.answer .label') && !document.querySelector('#scene-infer').disabled"
    )
    return tab.locator(".answer .label").inner_text()


def test_an_inference_is_that_of_the_library(opened, site):
    settings = {"epsilon": "3", "devices": "12", "object": "chair_0", "seed": "7"}
    tab = opened("#tab=scene&" + "&".join(f"{name}={value}" for name, value in settings.items())).tab
    looking.answered(tab)
    label = inferred(tab)
    found = httpx.post(f"{site}api/infer", json=settings | {"seed": 7}, timeout=60).json()
    assert label.lower() == found["label"].replace("_", " ").lower()
    assert tab.locator(".view").count() == 12
    assert tab.locator("canvas.stage").is_visible()
    first = tab.locator(".answer .number").first.inner_text()
    assert float(re.sub(r"[^\d.]", "", first)) == pytest.approx(100 * found["top"][0]["probability"], abs=0.6)


def test_again_is_another_seed_and_the_same_seed_is_the_same_again(opened):
    tab = opened("#tab=scene&epsilon=0.5&seed=3").tab
    looking.answered(tab)
    inferred(tab)
    first = tab.locator(".answer").inner_text()
    tab.click("#scene-again")
    tab.wait_for_function("() => document.querySelector('#scene-seed').value === '4'")
    tab.wait_for_function("was => document.querySelector('.answer').innerText !== was", arg=first)
    tab.fill("#scene-seed", "3")
    tab.press("#scene-seed", "Enter")
    tab.wait_for_function("was => document.querySelector('.answer').innerText === was", arg=first)


def test_two_hundred_trials_show_how_often_each_answer_comes(opened):
    tab = opened("#tab=scene&epsilon=1").tab
    tab.wait_for_selector(".view img")
    tab.click("#scene-trials")
    tab.wait_for_selector(".trials .bars")
    counts = [int(found) for found in re.findall(r"\((\d+)\)", tab.locator(".trials").inner_text())]
    assert len(counts) >= 1
    assert sum(counts) <= 200
    assert "200" in tab.locator(".trials").inner_text()


def test_a_mesh_of_ones_own_is_looked_at(opened, tmp_path):
    tab = opened("#tab=scene").tab
    tab.wait_for_selector(".view img")
    before = tab.locator(".view img").first.get_attribute("src")
    (tmp_path / "mine.off").write_bytes(TETRAHEDRON)
    tab.set_input_files("#scene-file", tmp_path / "mine.off")
    tab.wait_for_function("was => document.querySelector('.view img').src !== was", arg=before)
    assert looking.state(tab)["object"].startswith("own-")
    assert inferred(tab)
    assert "not known" in tab.locator(".answer").inner_text()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("broken.off", b"OFF\n999999999 2 0\n0 0 0\n"),
        ("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(100)),
        ("empty.stl", b""),
        ("text.obj", b"This is no mesh at all.\n"),
        ("evil.ply", b"ply\nformat ascii 1.0\nelement vertex 4000000000\nproperty float x\nend_header\n"),
    ],
)
def test_a_file_that_is_no_mesh_is_refused_in_words(opened, tmp_path, name, content):
    watched = opened("#tab=scene")
    watched.allowed += ["status of 400", "status of 413"]
    tab = watched.tab
    tab.wait_for_selector(".view img")
    (tmp_path / name).write_bytes(content)
    tab.set_input_files("#scene-file", tmp_path / name)
    said = tab.locator(".scene-failed")
    said.wait_for(state="visible")
    assert len(said.inner_text()) > 15
    assert "Traceback" not in said.inner_text()
    assert inferred(tab)


def test_a_setting_that_was_wrong_for_a_moment_leaves_the_scene_usable(opened):
    watched = opened("#devices=0")
    watched.allowed.append("400")
    tab = watched.tab
    tab.wait_for_selector(".scene-failed:not([hidden])")
    for devices in ("12", "0", "12"):
        tab.fill("#knob-devices", devices)
        tab.press("#knob-devices", "Enter")
        shown = "[hidden]" if devices == "12" else ":not([hidden])"
        tab.wait_for_selector(f".scene-failed{shown}", state="attached")
    tab.wait_for_selector("#scene-infer:enabled")
    tab.focus("#scene-infer")
    tab.press("#scene-infer", "Enter")
    tab.wait_for_selector(".answer .label")
    tab.wait_for_selector("#scene-infer:focus")  # for whoever has no mouse
